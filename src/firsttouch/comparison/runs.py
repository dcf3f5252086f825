"""Reads what a comparison needs of a results directory: the medians and intervals of its points, and its conditions.

Many directories are read by several processes: python -m firsttouch.comparison.runs, directories on stdin.
"""

from __future__ import annotations

import fcntl
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from firsttouch.advice.tried.results import call_of, tried_results
from firsttouch.advice.tried.stored import is_tried, read_findings
from firsttouch.base.collection import without_collection
from firsttouch.base.encoding import valid_text
from firsttouch.base.errors import UsageError
from firsttouch.base.files import open_regular
from firsttouch.base.processes import python_module
from firsttouch.comparison.conditions import of_run
from firsttouch.records.findings import ONE_COUNTER
from firsttouch.records.reading import RESULTS, Results, load_results
from firsttouch.records.schema import FAILURES, DeviceInfo, Factors, Machine, Record, Request, Scalar, as_number

_MOST_NAMED = 8
APPLICATION = "app"
"""The factor that names the application of a point."""
PHASE = "phase"
"""The factor that names the phase of an application of which a point is the time."""
_PHASE = re.compile(r"phase_((?!context)\w+)_ms")
"""The counters of the phases that are parts of a run; the context is that of a process before it."""
MANY = 16
"""From this many directories on, several processes read them."""

Interval: TypeAlias = tuple[float, float, float, int]
"""Median, bounds of its interval, and number of samples. A single sample has no interval."""


class Definition(msgspec.Struct, frozen=True, array_like=True):
    """An experiment and what its values mean. Only values of one definition are compared.

    inputs: what an application ran with, such as "n 960, steps 87"; '' for experiments and if that is not known.
    """

    experiment: str
    unit: str
    version: int
    better: str
    inputs: str = ""

    def is_that_of(self, other: Definition) -> bool:
        """Whether values of both may be compared."""
        if self.inputs and other.inputs and self.inputs != other.inputs:
            return False
        return self.metric == other.metric

    @property
    def metric(self) -> tuple[str, str, int, str]:
        return self.experiment, self.unit, self.version, self.better


IN, OUT = "in", "out"
"""Which way data of a point cross between its device and the peer, where they cross one way only."""


class ComparedPoint(msgspec.Struct, array_like=True):
    """One measured point. factors: canonical JSON. disturbed: other programs used the processors meanwhile. flow: IN,
    OUT, or ''.
    """

    definition: int
    device: str
    factors: str
    value: Interval
    disturbed: bool = False
    flow: str = ""


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


class MachineDevice(msgspec.Struct, array_like=True):
    """A device of the machine, measured or not. reason: why it cannot be used, '' if it can."""

    name: str
    kind: str
    role: str
    title: str
    reason: str
    address: str


class ComparedRun(msgspec.Struct, array_like=True):
    """What a comparison uses of one results directory."""

    name: str
    host: str
    devices: list[ComparedDevice]
    definitions: list[Definition]
    points: list[ComparedPoint]
    lost: list[Lost]
    conditions: dict[str, Scalar]
    phases: list[ComparedPoint] = []
    """The phases of applications, as points with the phase as a further factor."""
    identity: dict[str, Scalar] = {}
    """What runs of one machine have in common."""
    warnings: list[str] = []
    command: str = ""
    """The call that measures the same again, without --out; '' if it is not known."""
    machine: list[MachineDevice] = []
    program: str = ""
    """What the call runs, behind '--'; '' if it runs no program."""


class Unreadable(msgspec.Struct, array_like=True):
    name: str
    reason: str


class _RunsRead(msgspec.Struct, array_like=True):
    runs: list[ComparedRun]
    unreadable: list[Unreadable]


def read(name: str) -> ComparedRun:
    """The run in a directory. Raises UsageError if it holds no results, is invalid, or is being written."""
    directory = Path(name)
    if is_tried(directory):
        findings = read_findings(directory)
        run = of_results(name, tried_results(directory))
        return msgspec.structs.replace(run, command=call_of(findings), program=shlex.join(findings.command))
    _refuse_if_written(directory)
    return of_results(name, load_results(directory))


def of_results(name: str, results: Results) -> ComparedRun:
    """The run of results that are already loaded, as `read` returns it."""
    encode = msgspec.json.Encoder(order="sorted").encode
    definitions: dict[tuple[str, str, int, str, str], int] = {}
    points, lost, phases = [], [], []
    with_load = [r for r in results.records if r.others_share is not None]
    busy = 2 * sum(r.is_disturbed for r in with_load) > len(with_load)  # used for points too short to tell
    for r in results.records:
        factors = encode(r.factors).decode()
        if r.is_measured:
            definition = (r.experiment, r.unit, r.metric_version, r.better, _input_names(r))
            place = definitions.setdefault(definition, len(definitions))
            disturbed = r.is_disturbed or (busy and r.others_share is None)
            points.append(ComparedPoint(place, r.device, factors, _interval(r), disturbed, _flow_of_point(r)))
            for phase, interval in _phases(r) if APPLICATION in r.factors else ():
                named = encode({**r.factors, PHASE: phase}).decode()
                phases.append(ComparedPoint(place, r.device, named, interval, disturbed))
        else:
            lost.append(Lost(r.experiment, r.device, factors, _why_lost(r)))
    devices = _devices(results)
    conditions = of_run(results, {device.name: device.title for device in devices})
    identity = _identity(results.machine)
    return ComparedRun(
        name,
        results.machine.host,
        devices,
        [Definition(*d) for d in definitions],
        points,
        lost,
        conditions,
        phases,
        identity,
        results.warnings,
        "" if results.request is None else _command(results.request),
        [_device(d) for d in results.machine.devices],
    )


def _device(d: DeviceInfo) -> MachineDevice:
    reason = "" if d.available else d.reason or "unknown reason"
    return MachineDevice(d.name, d.kind, d.role, d.product, reason, str(d.facts.get("pci_bus") or ""))


def read_all(names: Sequence[str]) -> tuple[list[ComparedRun], list[Unreadable]]:
    """The runs that can be read, in the order given, and what is wrong with the others."""
    alike = len(names) >= MANY and all(
        name == valid_text(name) for name in names
    )  # other names can't be passed to a process
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
        answers = [_shared_reads(process) for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    order = {name: i for i, name in enumerate(names)}
    runs = sorted((run for answer in answers for run in answer.runs), key=lambda run: order[run.name])
    broken = sorted((bad for answer in answers for bad in answer.unreadable), key=lambda bad: order[bad.name])
    return runs, broken


def _shared_reads(process: subprocess.Popen[bytes]) -> _RunsRead:
    assert process.stdout is not None
    data = process.stdout.read()
    if process.wait() != 0:
        raise UsageError("a process that reads results directories failed; try fewer directories at once")
    return msgspec.msgpack.decode(data, type=_RunsRead)


def _read_here(names: Sequence[str]) -> _RunsRead:
    answer = _RunsRead([], [])
    with without_collection():
        for name in names:
            try:
                answer.runs.append(read(name))
            except UsageError as error:
                answer.unreadable.append(Unreadable(name, str(error)))
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


def _command(request: Request) -> str:
    """The call of a run. One of most experiments names none, which measures all."""
    named = request.experiments if request.kind == "app" or len(request.experiments) <= _MOST_NAMED else []
    words = ["firsttouch", request.kind, *named]
    for device in request.devices if request.every_device else ():  # a call that names devices measures each in full
        words += ["--device", device]
    words += [] if request.preset == "quick" else ["--preset", request.preset]
    for name, values in request.set.items():
        words += ["--set", f"{name}={','.join(map(str, values))}"]
    words += [f"--{flag}" for flag in ("events", "counters") if getattr(request, flag)]
    return shlex.join(words)


def _interval(record: Record) -> Interval:
    s = record.summary
    assert s is not None
    return (
        s.median,
        s.ci_low,
        s.ci_high,
        s.n if record.modelled is None else 2,
    )  # a prediction's range counts as an interval


def _flow_of_point(record: Record) -> str:
    crossing = [name for name in (IN, OUT) if (as_number(record.counters.get(f"{name}_gbs")) or 0) > 0]
    return crossing[0] if len(crossing) == 1 else ""


def _phases(record: Record) -> Iterator[tuple[str, Interval]]:
    """The phases of an application's point. That of a phase is uncertain by a factor, since it is a counter."""
    assert record.summary is not None
    for name, counted in record.counters.items():
        value, match = as_number(counted), _PHASE.fullmatch(name)
        if match and value is not None:
            yield match[1], (value, value / ONE_COUNTER, value * ONE_COUNTER, record.summary.n)


def _input_names(record: Record) -> str:
    if APPLICATION not in record.factors:
        return ""
    return ", ".join(f"{name} {v}" for name, v in sorted(record.parameters.items()))


def _why_lost(record: Record) -> str:
    if record.status != "ok":
        return record.status
    return "wrong data" if record.verified is False else "suspect" if record.suspect else "no samples"


SHOULD_NOT_BE_LOST = (*FAILURES, "wrong data")
"""Why a point has no usable value although it could be measured."""


def _devices(results: Results) -> list[ComparedDevice]:
    """The devices with records, in the order of machine.json. One that it does not describe has its own role."""
    described = {d.name: d for d in results.machine.devices}
    names = dict.fromkeys(r.device for r in results.records)
    devices = []
    for name in sorted(names, key=lambda n: ([*described].index(n) if n in described else len(described), n)):
        info = described.get(name)
        devices.append(ComparedDevice(name, info.role if info else name, info.title if info else ""))
    return devices


def _identity(machine: Machine) -> dict[str, Scalar]:
    """The host and its processor, and what each device is. A run finds only the devices that its call names."""
    facts = {f"{topic}.{name}": machine.facts.get(topic, {}).get(name) for topic, name in _IDENTIFYING}
    devices = {d.name: d.identity for d in machine.devices if d.available}
    return {"host": machine.host, **facts, **devices}


_IDENTIFYING = (("cpu", "model"), ("cpu", "sockets"), ("cpu", "cores_online"), ("nvidia", "gpus"))


def factors_of(text: str) -> Factors:
    """The factors of a point from their canonical JSON."""
    return Factors(msgspec.json.decode(text))


def main() -> None:
    names = msgspec.json.decode(sys.stdin.buffer.read(), type=list[str])
    sys.stdout.buffer.write(msgspec.msgpack.encode(_read_here(names)))


if __name__ == "__main__":
    main()
