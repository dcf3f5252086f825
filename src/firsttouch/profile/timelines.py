"""The profiles of a run's points: DIR/timelines/NNNN, where they lie, whose GPU they are about, and what they show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError
from firsttouch.base.files import read_regular, write_atomically
from firsttouch.machine.links import pci_address
from firsttouch.profile import schema
from firsttouch.profile.content import Profile
from firsttouch.profile.curves import Curve
from firsttouch.profile.gpu_curves import why_not_added
from firsttouch.profile.phases import TargetPhase
from firsttouch.profile.reading import read
from firsttouch.records.schema import LARGEST, DeviceInfo, Record, reason_in
from firsttouch.records.timeline import MemoryCourse, Phase, Readings

FOLDER = "timelines"
COUNTER, SOURCE = "timeline", "timeline_source"
"""The counters of a record with the folder of its profile in the results directory, and with what states the memory of
its device, or NONE and why nothing does.
"""
PREDICTED = "course.json"
"""The file in that folder if the course was predicted, and nothing was sampled."""
MOST_PROBLEMS = 3
"""The most timelines that can't be read and have a warning each."""
_NAME = re.compile(rf"{FOLDER}/[0-9]{{4,9}}")
_SOURCE = "app"


def folder_of(record: Record) -> str:
    """The folder of a record's profile, '' if it has none. Records of others are untrusted, and so is the name."""
    name = record.counters.get(COUNTER)
    return name if isinstance(name, str) and _NAME.fullmatch(name) else ""


def why_no_device(record: Record) -> str | None:
    """Why the memory of the device is not known over time; None if it is, or if it was not asked for."""
    return reason_in(record.counters.get(SOURCE))


def gpu_of(gpus: Sequence[schema.ProfiledGpu], device: DeviceInfo) -> schema.ProfiledGpu | None:
    """The GPU of a profile that is the device: by its UUID, else by its PCI address if one GPU alone has it."""
    uuid, pci = str(device.facts.get("uuid") or ""), pci_address(str(device.facts.get("pci_bus") or ""))
    if by_uuid := [gpu for gpu in gpus if uuid and gpu.uuid == uuid]:
        return by_uuid[0]
    at_address = [gpu for gpu in gpus if pci and pci_address(gpu.pci) == pci]
    return at_address[0] if len(at_address) == 1 else None


def write_course(directory: Path, course: MemoryCourse) -> None:
    """Writes a course that was predicted, in place of a profile."""
    write_atomically(directory / PREDICTED, encode_json(course))


def _predicted_course(directory: Path) -> MemoryCourse | None:
    """The course that was predicted; None if there is none. Raises UsageError if it is no course."""
    path = directory / PREDICTED
    try:
        course = msgspec.json.decode(read_regular(path), type=MemoryCourse)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"can't read {path}: {error}") from None
    times = [t for phase in course.phases for t in (phase.start, phase.end)]
    readings = [*course.host, *course.device]
    rising = all(a <= b for part in (course.host, course.device) for (a, _), (b, _) in pairwise(part))
    if not (rising and all(0 <= n < LARGEST for pair in readings for n in pair) and all(0 <= t < 1e9 for t in times)):
        raise UsageError(f"can't read {path}: readings are numbers from 0 on, in the order of time")
    return course


def read_course(directory: Path, device: DeviceInfo | None, reason: str | None = "") -> MemoryCourse:
    """The course of a point's memory. device: the one that the point was measured on, None if it is unknown. reason:
    why its memory is not known, if that was found before.

    Raises:
        UsageError: there is no profile, or its phases are not known.
    """
    if (predicted := _predicted_course(directory)) is not None:
        return predicted
    profile = read(directory)
    phases = [phase for phase in profile.phases if phase.source == _SOURCE]
    if not any(phase.depth == 0 for phase in phases):
        raise UsageError(f"{directory} does not say when the phases of its point were")
    first = profile.first
    host = profile.curve(f"process:{first.key}", "resident") if first is not None else None
    gpu = gpu_of(profile.header.gpus, device) if device is not None else None
    used, unknown = (None, reason) if reason else _used(profile, gpu, device)
    return MemoryCourse(
        phases=_on_axis(phases),
        host=_during(host, phases),
        device=_during(used, phases),
        source=gpu.source if gpu is not None and not unknown else "",
        why=unknown,
        apart=why_not_added(gpu) if gpu is not None else "",
        interval=profile.header.interval,
    )


def read_courses(
    directory: Path, records: Iterable[Record], devices: Iterable[DeviceInfo]
) -> tuple[dict[str, MemoryCourse], list[str]]:
    """The courses of a directory's points by the folder that their records name, and why some can't be read."""
    by_name = {device.name: device for device in devices}
    courses: dict[str, MemoryCourse] = {}
    problems: list[str] = []
    for record in records:
        if folder := folder_of(record):
            try:
                courses[folder] = read_course(directory / folder, by_name.get(record.device), why_no_device(record))
            except UsageError as error:
                problems.append(str(error))
    if len(problems) > MOST_PROBLEMS:
        problems = [*problems[:MOST_PROBLEMS], f"{len(problems) - MOST_PROBLEMS} further timelines can't be read"]
    return courses, problems


def _used(profile: Profile, gpu: schema.ProfiledGpu | None, device: DeviceInfo | None) -> tuple[Curve | None, str]:
    """The memory of the GPU in use, or why it is not known."""
    if gpu is not None:
        used = profile.curve(gpu.name, "used")
        return (used, "") if used is not None and len(used) else (None, f"{gpu.source} does not state it")
    if device is not None and device.capabilities.on_host_processor:
        return None, f"the memory of {device.name} is the host's"
    layer = next((layer for layer in profile.header.layers if layer.layer == "gpus"), None)
    unseen = layer.why.split(". ")[0].rstrip(".") if layer is not None and not profile.header.gpus else ""
    name = device.name if device is not None else "the device"
    if not unseen:
        return None, f"none of the GPUs that were read is {name}"
    return None, unseen if unseen[1:2].isupper() else unseen[:1].lower() + unseen[1:]


def _on_axis(ranges: Sequence[TargetPhase]) -> list[Phase]:
    """The phases one after another, each followed by its parts."""
    phases: list[Phase] = []
    until = 0.0
    for phase in (r for r in ranges if r.depth == 0):
        shift = until - phase.start
        phases.append(Phase(phase.name, until, phase.end + shift))
        inside = (r for r in ranges if r.depth == 1 and phase.start <= r.start and r.end <= phase.end)
        phases += [Phase(r.name, r.start + shift, r.end + shift, is_part=True) for r in inside]
        until = phase.end + shift
    return phases


def _during(curve: Curve | None, ranges: Sequence[TargetPhase]) -> Readings:
    """The readings during the phases, less the value at the beginning of the first; none if that is not known."""
    phases = [r for r in ranges if r.depth == 0]
    before = curve.at(phases[0].start) if curve is not None else None
    if curve is None or before is None:
        return []
    readings: list[tuple[float, float]] = []
    until = 0.0
    for phase in phases:
        shift = until - phase.start
        readings += [(t + shift, value - before) for t, value in curve.within(phase.start, phase.end)]
        until = phase.end + shift
    return readings
