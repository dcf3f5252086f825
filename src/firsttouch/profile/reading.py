"""Reads a profile: DIR/profile.jsonl, the marks of the target, and the journals of the injected library.

A view reads what was recorded, and never measures again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from firsttouch.base.errors import UsageError
from firsttouch.base.files import open_regular
from firsttouch.machine.tree import parse_int
from firsttouch.profile import markers, schema
from firsttouch.profile.content import Profile, ProfiledProcess
from firsttouch.profile.curves import Curve
from firsttouch.profile.journal import read_journals
from firsttouch.profile.marks import FILE as MARKS
from firsttouch.profile.phases import is_of_a_library, ranges
from firsttouch.profile.program_names import process_name

OF_TRY = "profile"
"""The profile of the plain run in a directory of `firsttouch try`."""
_DETAILED = ("total", "gpu:")
"""Curves of these keep all readings of a run of 20 minutes; of others, less."""
_FEW = 1 << 12
MOST_PROCESSES = 1 << 16
"""The most processes whose curves are kept. All are counted."""
_LONGEST_LINE = 1 << 24
_BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_LATEST = 1e9
_UNWRITTEN = 1.0
"""Seconds of which a profiler that was killed may not have written the data."""


def is_profile(directory: Path) -> bool:
    return (directory / schema.FILE).is_file()


def are_profiles(directories: Sequence[Path]) -> bool:
    """Whether the directories hold profiles. Raises UsageError if only some of them do."""
    kinds = {is_profile(directory): directory for directory in directories}
    if len(kinds) > 1:
        raise UsageError(
            f"{kinds[True]} holds a profile and {kinds[False]} holds none; give directories of profiles only, or of "
            "results only"
        )
    return True in kinds


def profiles_in(directories: Iterable[Path]) -> list[Path]:
    """The directories with profiles: those named, or the ranks in them, or what `firsttouch try` has in them."""
    profiles: list[Path] = []
    for directory in directories:
        if is_profile(directory / OF_TRY) and not is_profile(directory):
            profiles.append(directory / OF_TRY)
            continue
        ranks = sorted(directory.glob("rank-*"), key=lambda path: (len(path.name), path.name))
        inside = [path for path in ranks if (path / schema.FILE).is_file()]
        profiles += inside if inside and not (directory / schema.FILE).is_file() else [directory]
    return profiles


def read(directory: Path, *, with_activities: bool = True) -> Profile:
    """Reads a profile. A last line that is incomplete is left out. with_activities: with what copies and kernels of
    CUDA took, of which there may be millions.

    Raises:
        UsageError: there is none, or a line is not one of this program. The message has its number.
    """
    lines = _lines(directory / schema.FILE)
    header = _header(directory, lines)
    profile = Profile(directory, header)
    for line in lines:
        _take(profile, line)
    if profile.first is not None and len(profile.processes) == 1 and not profile.brief and profile.largest:
        profile.first.peak = max(profile.first.peak or 0, profile.largest)
    profile.journals = read_journals(directory, with_activities=with_activities)
    marks = [*_marks(directory), *(mark for journal in profile.journals for mark in journal.marks)]
    for mark in marks:
        mark.t = max(0.0, mark.t - header.clock)
    _take_marks(profile, marks)
    markers.leave_out(profile)
    return profile


def read_header(directory: Path) -> schema.Header:
    """The header of a profile. Raises UsageError as `read`."""
    return _header(directory, _lines(directory / schema.FILE))


def _header(directory: Path, lines: Iterator[object]) -> schema.Header:
    header = next(lines, None)
    if not isinstance(header, schema.Header):
        raise UsageError(f"{directory / schema.FILE}:1: not the header of a profile that `firsttouch profile` wrote")
    if header.schema != schema.SCHEMA:
        raise UsageError(
            f"{directory / schema.FILE} has the schema {header.schema!r:.40}; this version reads {schema.SCHEMA}"
        )
    return header


def _take_marks(profile: Profile, marks: Sequence[schema.Mark]) -> None:
    # A target that outlives its profiler goes on with marks, where no memory was read.
    until = profile.end.t if profile.end else profile.seconds + _UNWRITTEN
    profile.marks = sorted([*profile.marks, *(mark for mark in marks if mark.t <= until)], key=lambda mark: mark.t)
    if profile.marks:
        profile.seconds = max(profile.seconds, profile.marks[-1].t)
    every = ranges(profile.marks, profile.seconds)
    profile.phases = [phase for phase in every if not is_of_a_library(phase)]
    profile.library_ranges = dict(Counter(phase.domain for phase in every if is_of_a_library(phase)).most_common())


def _marks(directory: Path) -> list[schema.Mark]:
    """The marks that programs appended themselves; lines that are none are left out, since anybody may write there."""
    decoder = msgspec.json.Decoder(schema.Mark)
    marks = []
    try:
        with os.fdopen(open_regular(directory / MARKS, os.O_RDONLY), "rb") as file:
            while line := file.readline(_LONGEST_LINE):
                with suppress(*_BROKEN):
                    marks.append(decoder.decode(line))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(f"can't read {directory / MARKS}: {error.strerror}") from None
    return marks


def _lines(path: Path) -> Iterator[schema.AnyLine]:
    decoder = msgspec.json.Decoder(schema.AnyLine)
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            number = 0
            while line := file.readline(_LONGEST_LINE):
                number += 1
                if not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
                    return  # the profiler was killed while it wrote this line
                try:
                    yield decoder.decode(line)
                except _BROKEN as error:
                    reason = " ".join(str(error).split())
                    raise UsageError(f"{path}:{number}: not a line of a profile: {reason:.200}") from None
    except NotADirectoryError:
        raise UsageError(f"{path.parent} is no directory; name one that `firsttouch profile` wrote") from None
    except FileNotFoundError:
        raise UsageError(
            f"{path.parent} holds no profile; `firsttouch profile --out {path.parent} -- COMMAND` makes one"
        ) from None
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}") from None


def _take(profile: Profile, line: schema.AnyLine) -> None:
    if not isinstance(line, schema.Header | schema.Site | schema.Symbol | schema.Caller | schema.Samples):
        profile.seconds = max(profile.seconds, line.t)
    match line:
        case schema.Samples():
            _take_samples(profile, line)
        case schema.Started():
            _take_start(profile, line)
        case schema.Ended():
            if process := profile.processes.get(line.key):
                process.ended, process.status = line.t, line.status
                process.minor, process.major = line.minor, line.major
                if line.with_children:
                    profile.largest = line.peak
                else:
                    process.peak = max((p for p in (process.peak, line.peak) if p is not None), default=None)
        case schema.Mark():
            profile.marks.append(line)
        case schema.Mappings():
            profile.mappings.append(line)
        case schema.Site():
            profile.sites[line.site] = line
        case schema.Symbol():
            profile.symbols[line.site] = line
        case schema.Caller():
            profile.callers[line.file, line.offset] = line
        case schema.Faults():
            profile.faults.append(line)
        case schema.TouchSamples():
            profile.touches.append(line)
        case schema.BriefProcesses():
            profile.brief.append(line)
        case schema.Notice():
            profile.notices.append(line.text)
        case schema.ProfilingCost():
            profile.cost = line
        case schema.End():
            profile.end = line
        case _:
            raise UsageError(f"{profile.directory / schema.FILE}: a second header; profiles can't be joined")


def _take_start(profile: Profile, line: schema.Started) -> None:
    if process := profile.processes.get(line.key):
        process.name, process.command = process_name(line.name, line.command), line.command
    else:
        name = process_name(line.name, line.command)
        profile.processes[line.key] = ProfiledProcess(line.key, line.pid, line.parent, name, line.command, line.t)


def _take_samples(profile: Profile, line: schema.Samples) -> None:
    kind, _, key = line.of.partition(":")
    number = parse_int(key) if kind == "process" else None
    process = profile.processes.get(number) if number is not None else None
    if kind == "process" and len(profile.processes) > MOST_PROCESSES:
        return
    curves = []
    for column in line.columns:
        if (line.of, column) not in profile.curves:
            detailed = line.of.startswith(_DETAILED) and "/" not in line.of
            profile.curves[line.of, column] = Curve() if detailed else Curve(_FEW)
        curves.append(profile.curves[line.of, column])
    for row in line.rows:
        if len(row) != len(curves) + 1 or row[0] is None:
            raise UsageError(f"{profile.directory / schema.FILE}: a row of samples has {len(row)} values")
        if not 0 <= row[0] <= _LATEST:
            raise UsageError(f"{profile.directory / schema.FILE}: a row of samples has the time {row[0]:g} s")
        profile.seconds = max(profile.seconds, row[0])
        for curve, value in zip(curves, row[1:], strict=True):
            if value is not None:
                curve.add(row[0], value)
    if process is not None and line.columns[:1] == ["resident"]:
        largest = [int(row[1]) for row in line.rows if row[1] is not None]
        process.peak = max([*largest, process.peak or 0])
