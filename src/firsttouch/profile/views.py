"""Writes what is derived from a profile: profile.json, its numbers, and trace.json, for Perfetto."""

from __future__ import annotations

from pathlib import Path

import msgspec

from firsttouch.files import as_usage_error, write_atomically
from firsttouch.profile.perfetto import write_trace
from firsttouch.profile.reading import read
from firsttouch.profile.summary import Summary, summarise
from firsttouch.profile.traced import trace_events

SUMMARY, TRACE = "profile.json", "trace.json"


def write(directory: Path) -> Summary:
    """Writes both files into the directory of a profile. Returns the numbers.

    Raises:
        UsageError: it holds no profile, or can't be written.
    """
    profile = read(directory)
    summary = summarise(profile)
    with as_usage_error("write", directory, "a directory that can be written"):
        write_atomically(directory / SUMMARY, msgspec.json.format(msgspec.json.encode(summary), indent=1) + b"\n")
        write_trace(profile, directory / TRACE, trace_events(profile.journals))
    return summary
