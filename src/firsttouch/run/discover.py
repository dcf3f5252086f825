"""Which devices this machine has, asked in throw-away processes: vendor libraries crash, hang and leave contexts."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch.run.process import Worker
from firsttouch.run.worker import Discover
from firsttouch.schema import DeviceInfo

KINDS = ("cpu", "opencl", "cuda", "hip")
TIMEOUT = 60.0


def discover_devices(kinds: Iterable[str] = KINDS, timeout: float = TIMEOUT) -> list[DeviceInfo]:
    """The devices of `kinds`. A kind whose library crashed, hung or is missing is one unavailable device."""
    workers = {kind: Worker() for kind in kinds}
    try:
        return [device for kind, worker in workers.items() for device in _ask(kind, worker, timeout)]
    finally:
        for worker in workers.values():
            worker.kill()


def _ask(kind: str, worker: Worker, timeout: float) -> list[DeviceInfo]:
    answer = worker.ask(Discover(kind=kind), timeout=timeout)
    if answer.reply is None or answer.reply.reason:
        reason = answer.reply.reason if answer.reply else answer.reason
        return [DeviceInfo(name=kind, kind=kind, title=kind, available=False, reason=reason)]
    return answer.reply.devices
