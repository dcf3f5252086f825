"""Writes what is derived from a profile: profile.json, its numbers, and trace.json, for Perfetto."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from firsttouch.base.collection import without_collection
from firsttouch.base.encoding import encode_json
from firsttouch.base.files import write_atomically
from firsttouch.profile.content import Profile
from firsttouch.profile.link import LinkSpeed
from firsttouch.profile.perfetto import write_trace
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise
from firsttouch.profile.summary import ProfileSummary
from firsttouch.profile.traced import trace_events

SUMMARY, TRACE = "profile.json", "trace.json"


def write(
    directory: Path, link_speed: Callable[[Profile], LinkSpeed | None] = lambda profile: None
) -> tuple[ProfileSummary, str]:
    """Writes both files into the directory of a profile. Returns the numbers, and why the files can't be written.

    link_speed: how fast page-locked memory is copied on the machine of a profile, if that was measured.

    Raises:
        UsageError: it holds no profile.
    """
    with without_collection():
        profile = read(directory)
        summary = summarise(profile, link_speed(profile))
        try:
            write_atomically(directory / SUMMARY, msgspec.json.format(encode_json(summary), indent=1) + b"\n")
            write_trace(profile, directory / TRACE, trace_events(profile.journals))
        except OSError as error:
            return summary, f"{directory} can't be written: {error.strerror}"
        return summary, ""
