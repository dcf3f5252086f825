"""Reads what a comparison needs of a results directory: the medians and intervals of its points, and its conditions.

Many directories are read by several processes: python -m firsttouch.comparison.runs, directories on stdin.
"""

from __future__ import annotations

import fcntl
import gc
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TypeAlias

import msgspec

from firsttouch.encoding import valid_text
from firsttouch.errors import UsageError
from firsttouch.files import open_regular
from firsttouch.processes import python_module
from firsttouch.records.reading import RESULTS, Results, load_results
from firsttouch.records.schema import FAILURES, Factors, Machine, Record, Request, Scalar, Selection

MANY = 16
"""From this many directories on, several processes read them."""

Interval: TypeAlias = tuple[float, float, float, int]
"""Median, bounds of its interval, and number of samples. A single sample has no interval."""


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """An experiment and what its values mean. Only values of one definition are compared."""

    experiment: str
    unit: str
    version: int
    better: str


class ComparedPoint(msgspec.Struct, array_like=True):
    """One measured point. factors: canonical JSON."""

    definition: int
    device: str
    factors: str
    value: Interval


class Lost(msgspec.Struct, array_like=True):
    """A point without a usable value. why: its status, 'wrong data' or 'suspect'."""

    experiment: str
    device: str
    factors: str
    why: str


class ComparedDevice(msgspec.Struct, array_like=True):
    """A device with points. role: what it is, whatever its name and vendor."""

    name: str
    role: str
    title: str


class ComparedRun(msgspec.Struct, array_like=True):
    """What a comparison uses of one results directory."""

    name: str
    host: str
    devices: list[ComparedDevice]
    definitions: list[Definition]
    points: list[ComparedPoint]
    lost: list[Lost]
    conditions: dict[str, Scalar]
    identity: dict[str, Scalar] = {}
    """What runs of one machine have in common."""
    warnings: list[str] = []


class Unreadable(msgspec.Struct, array_like=True):
    name: str
    reason: str


class _RunsRead(msgspec.Struct, array_like=True):
    runs: list[ComparedRun]
    unreadable: list[Unreadable]


def read(name: str) -> ComparedRun:
    """The run in a directory. Raises UsageError if it holds no results, is invalid, or is being written."""
    directory = Path(name)
    _refuse_if_written(directory)
    return of_results(name, load_results(directory))


def of_results(name: str, results: Results) -> ComparedRun:
    """As `read`, for results that are already loaded."""
    encode = msgspec.json.Encoder(order="sorted").encode
    definitions: dict[tuple[str, str, int, str], int] = {}
    points, lost = [], []
    for r in results.records:
        factors = encode(r.factors).decode()
        if r.is_measured:
            definition = (r.experiment, r.unit, r.metric_version, r.better)
            place = definitions.setdefault(definition, len(definitions))
            points.append(ComparedPoint(place, r.device, factors, _interval(r)))
        else:
            lost.append(Lost(r.experiment, r.device, factors, _why(r)))
    devices = _devices(results)
    conditions = _conditions(results, devices)
    identity = _identity(results.machine)
    return ComparedRun(
        name,
        results.machine.host,
        devices,
        [Definition(*d) for d in definitions],
        points,
        lost,
        conditions,
        identity,
        results.warnings,
    )


def read_all(names: Sequence[str]) -> tuple[list[ComparedRun], list[Unreadable]]:
    """The runs that can be read, in the order given, and what is wrong with the others."""
    alike = len(names) >= MANY and all(name == valid_text(name) for name in names)  # others can't be handed on
    processes = min(len(os.sched_getaffinity(0)), 8) if alike else 1
    if processes < 2:
        answer = _read_here(names)
        return answer.runs, answer.unreadable
    command = python_module("firsttouch.comparison.runs")
    started = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(processes)]
    try:
        for i, process in enumerate(started):
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(names[i::processes]))
            process.stdin.close()
        answers = [_runs_read(process) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    order = {name: i for i, name in enumerate(names)}
    runs = sorted((run for answer in answers for run in answer.runs), key=lambda run: order[run.name])
    broken = sorted((bad for answer in answers for bad in answer.unreadable), key=lambda bad: order[bad.name])
    return runs, broken


def _runs_read(process: subprocess.Popen[bytes]) -> _RunsRead:
    assert process.stdout is not None
    data = process.stdout.read()
    if process.wait() != 0:
        raise UsageError("a process that reads results directories failed; try fewer directories at once")
    return msgspec.msgpack.decode(data, type=_RunsRead)


def _read_here(names: Sequence[str]) -> _RunsRead:
    answer = _RunsRead([], [])
    enabled = gc.isenabled()
    gc.disable()  # nothing here forms cycles, and looking for them takes a tenth of the time
    try:
        for name in names:
            try:
                answer.runs.append(read(name))
            except UsageError as error:
                answer.unreadable.append(Unreadable(name, str(error)))
    finally:
        if enabled:
            gc.enable()
    return answer


def _refuse_if_written(directory: Path) -> None:
    """Raises UsageError if a run holds the lock of the directory's results (records/store.py)."""
    try:
        descriptor = open_regular(directory / RESULTS, os.O_RDONLY)
    except OSError:
        return  # load_results says what is wrong
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"{directory} is being written by a run; wait until it ends") from None
    except OSError:
        pass  # a file system without locks
    finally:
        os.close(descriptor)


def _interval(record: Record) -> Interval:
    s = record.summary
    assert s is not None
    return s.median, s.ci_low, s.ci_high, s.n


def _why(record: Record) -> str:
    if record.status != "ok":
        return record.status
    return "wrong data" if record.verified is False else "suspect" if record.suspect else "no samples"


SHOULD_NOT_BE_LOST = (*FAILURES, "wrong data")
"""Why a point has no usable value although it could be measured."""


def _devices(results: Results) -> list[ComparedDevice]:
    """The devices with records, in the order of machine.json. One that it does not describe has its own role."""
    known = {d.name: d for d in results.machine.devices}
    names = dict.fromkeys(r.device for r in results.records)
    devices = []
    for name in sorted(names, key=lambda n: ([*known].index(n) if n in known else len(known), n)):
        info = known.get(name)
        devices.append(ComparedDevice(name, info.role if info else name, info.title if info else ""))
    return devices


def _identity(machine: Machine) -> dict[str, Scalar]:
    """The host and its processor, and what each device is. A run finds only the devices that its call names."""
    facts = {f"{topic}.{name}": machine.facts.get(topic, {}).get(name) for topic, name in _IDENTIFYING}
    devices = {d.name: d.identity for d in machine.devices if d.available}
    return {"host": machine.host, **facts, **devices}


_IDENTIFYING = (("cpu", "model"), ("cpu", "sockets"), ("cpu", "cores_online"), ("nvidia", "gpus"))

# ---------------------------------------------------------------------------------------------------- conditions

_PASSING = re.compile(
    r"(free|used|available|reclaimable|cached|dirty|load|processes|surplus|reserved|committed)(_|$)|_(free|used)_bytes$|"
    r"(^|_)(now|sm|memory|core|current)_mhz$|power_w$|temperature|busy|performance_state|uuid|pci_bus|throttle|_reason$|"
    r"^node\d+_total_bytes$|cgroup_path|boot_id|pids"
)
"""Facts that change from moment to moment, or name one of several equal parts."""


def _conditions(results: Results, devices: Sequence[ComparedDevice]) -> dict[str, Scalar]:
    """What may differ between two runs besides what they measured, by name: 'nvidia.driver', 'run.preset', ..."""
    machine, request = results.machine, results.request
    conditions: dict[str, Scalar] = {"firsttouch": machine.firsttouch}
    conditions |= _of_request(request, results.records)
    conditions |= {f"device {device.name}": device.title for device in devices}
    conditions |= _clocks(results.records)
    conditions |= _facts(machine)
    return conditions


def _of_request(request: Request | None, records: Sequence[Record]) -> dict[str, Scalar]:
    presets = dict.fromkeys(r.preset for r in records)
    seeds = dict.fromkeys(r.seed for r in records)
    conditions: dict[str, Scalar] = {
        "run.preset": ", ".join(filter(None, presets)) or None,
        "run.seed": ", ".join(map(str, seeds)) or None,
    }
    if request is not None:
        calls: tuple[Request | Selection, ...] = (*request.earlier, request)
        conditions |= {"run.events": any(c.events for c in calls), "run.counters": any(c.counters for c in calls)}
        sets: dict[str, dict[Scalar, None]] = {}
        for call in calls:
            for name, values in call.set.items():
                sets.setdefault(name, {}).update(dict.fromkeys(values))
        conditions |= {f"run.set {name}": ", ".join(map(str, values)) for name, values in sets.items()}
    return conditions


def _clocks(records: Sequence[Record]) -> dict[str, Scalar]:
    """The median clock of each device during its points, to 1 %, and the number of throttled points."""
    clocks: dict[str, list[float]] = {}
    throttled: dict[str, int] = {}
    for r in records:
        if r.clocks_after is not None and r.clocks_after.core_mhz:
            clocks.setdefault(r.device, []).append(r.clocks_after.core_mhz)
            throttled[r.device] = throttled.get(r.device, 0) + bool(r.throttled)
    conditions: dict[str, Scalar] = {f"clock of {name}, MHz": float(f"{median(v):.2g}") for name, v in clocks.items()}
    return conditions | {f"throttled points of {name}": n for name, n in throttled.items()}


def _facts(machine: Machine) -> dict[str, Scalar]:
    return {
        f"{topic}.{name}": value
        for topic, facts in machine.facts.items()
        for name, value in facts.items()
        if not _PASSING.search(name)
    }


def factors_of(text: str) -> Factors:
    """The factors of a point from their canonical JSON."""
    return Factors(msgspec.json.decode(text))


def main() -> None:
    names = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    sys.stdout.buffer.write(msgspec.msgpack.encode(_read_here(names)))


if __name__ == "__main__":
    main()
