"""The directory of `firsttouch try`: what was found, and the profile of the plain traced run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from firsttouch.advice.tried.findings import TryFindings
from firsttouch.base.encoding import encode_json
from firsttouch.base.files import read_json, write_atomically
from firsttouch.profile.reading import OF_TRY

RESULT, PROFILE = "try.json", OF_TRY


def is_tried(directory: Path) -> bool:
    return (directory / RESULT).is_file()


def directory_of(profile: Path) -> Path | None:
    """The directory of `try` that has a profile, or is named in its place; None if none does."""
    around = profile.absolute().parent
    if is_tried(profile):
        return profile
    return around if profile.absolute() == around / PROFILE and is_tried(around) else None


def write_findings(findings: TryFindings, directory: Path) -> None:
    write_atomically(directory / RESULT, encode_json(findings) + b"\n")


def read_findings(directory: Path) -> TryFindings:
    """What was found. Its directory is the one that is named here.

    Raises:
        UsageError: There is nothing, or it is none of this version.
    """
    findings = read_json(directory / RESULT, TryFindings, "a directory that `firsttouch try` wrote")
    return msgspec.structs.replace(findings, directory=str(directory))
