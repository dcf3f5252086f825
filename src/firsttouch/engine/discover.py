"""Discovers the devices of this machine in separate processes, because vendor libraries may crash, hang or leave
contexts behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from firsttouch.engine.modelled import modelled_devices, modelled_limits
from firsttouch.machine.backends import NATIVE, is_modelled, kind_of
from firsttouch.machine.limits import environment_limits, host_limit
from firsttouch.machine.partitions import like
from firsttouch.machine.peers import with_other_backends
from firsttouch.records.schema import DeviceInfo
from firsttouch.workers.process import Worker
from firsttouch.workers.protocol import Pipe, Reply, Task, describe, one_line

TIMEOUT = 60.0
TOTAL_FACT = "memory_bytes"
"""The fact of a device that states its total memory."""


class Discover(Task, tag="discover"):
    """Describe the devices of one kind."""

    kind: str


def describe_kind(task: Discover, pipe: Pipe) -> Reply:
    """Handles Discover in a worker."""
    from firsttouch.machine.devices import describe_devices

    try:
        return Reply(state="done", devices=describe_devices(task.kind))
    except Exception as error:
        return Reply(state="done", reason=one_line(str(error)) or describe(error))


def discover_devices(kinds: Iterable[str] = NATIVE, timeout: float = TIMEOUT) -> list[DeviceInfo]:
    """Returns the devices of `kinds`. A kind whose library is missing, crashed or hung is one unavailable device."""
    workers = {kind: _start_worker() for kind in kinds}
    try:
        return with_other_backends(
            [info for kind, worker in workers.items() for info in _ask_for_devices(kind, worker, timeout)]
        )
    finally:
        for worker in workers.values():
            if isinstance(worker, Worker):
                worker.kill()


def _start_worker(environment: Mapping[str, str] | None = None) -> Worker | str:
    """Starts a worker. Returns it, or the reason if it could not be started."""
    try:
        return Worker(environment)
    except OSError as error:
        return f"no process could be started to look for it: {error.strerror}"


def _ask_for_devices(kind: str, worker: Worker | str, timeout: float) -> list[DeviceInfo]:
    devices, reason = (None, worker) if isinstance(worker, str) else _read_devices(worker, kind, timeout)
    if devices is None:
        return [DeviceInfo(name=kind, kind=kind, title=kind, available=False, reason=reason)]
    return _with_those_alone(devices, timeout)


def _with_those_alone(devices: Sequence[DeviceInfo], timeout: float) -> list[DeviceInfo]:
    """The devices. Those that only a process of their own opens are described by one, or as another of their model."""
    described: list[DeviceInfo] = []
    for device in devices:
        if device.environment and not device.available:
            device = like(device, described)
        if device.environment and not device.available:
            worker = _start_worker(device.environment)
            found, reason = (None, worker) if isinstance(worker, str) else _read_devices(worker, device.kind, timeout)
            if isinstance(worker, Worker):
                worker.kill()
            device = replace(found[0] if found else device, environment=device.environment)
            device.reason = device.reason if found else reason
        described.append(device)
    return described


def _read_devices(worker: Worker, kind: str, timeout: float) -> tuple[list[DeviceInfo] | None, str]:
    """Returns the devices, or None and the reason."""
    answer = worker.ask(Discover(kind=kind), timeout=timeout)
    if answer.reply is None:
        return None, answer.reason
    return (None, answer.reply.reason) if answer.reply.reason else (answer.reply.devices, "")


def find_devices(names: Sequence[str]) -> list[DeviceInfo]:
    """Returns the devices of the kinds in `names`; of all kinds if there is no name or an unknown one. Of modelled
    devices, those of their platforms.
    """
    if any(map(is_modelled, names)):
        return modelled_devices(names)
    environment_limits()  # otherwise an invalid limit is only reported as a refusal of all memory by a worker's guard
    kinds = list(dict.fromkeys(map(kind_of, names)))
    devices = discover_devices(kinds) if kinds and set(kinds) <= set(NATIVE) else discover_devices()
    other_kinds = [kind for kind in NATIVE if kind not in {d.kind for d in devices}]
    device_names = {d.name for d in devices}
    # Otherwise the call fails, and the message lists all devices.
    complete = device_names.issuperset(names) and any(d.available for d in devices)
    return with_other_backends(devices if complete else devices + discover_devices(other_kinds))


def memory_limits(devices: Iterable[DeviceInfo], selected: Sequence[str]) -> dict[str, int]:
    """The most bytes that can be allocated on the host and on each selected device."""
    if any(map(is_modelled, selected)):
        return modelled_limits(selected)
    totals = {d.name: d.facts.get(TOTAL_FACT) for d in devices if d.name in selected and d.capabilities.runs_kernels}
    return {"host": host_limit()} | {name: total for name, total in totals.items() if isinstance(total, int)}
