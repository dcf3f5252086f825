"""What two or more devices do in turns in one process; a program that the tests here run: python several.py NAME ..."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from firsttouch import _core
from firsttouch.machine.devices import open_device

SIZE = 1 << 20
ENGINES = ("copy-engine", "kernel")


def stop() -> _core.Stop:
    return _core.Stop(tolerance=0.5, seconds=0.01, min_samples=3, max_samples=5)


def refused(action: Callable[[], object], kind: type[Exception] = _core.Unavailable) -> str:
    try:
        action()
    except kind as reason:
        return str(reason)
    return ""


def chase(device: _core.Device, buffer: _core.Buffer) -> int:
    """Wrong nodes."""
    return _core.chase(device, buffer, agent="gpu", first_touch="gpu", stride=256, hops=64, seed=5, stop=stop()).errors


def copy(device: _core.Device, target: _core.Buffer, source: _core.Buffer, engine: str) -> int:
    """Wrong words."""
    return _core.copy(
        device, target, source, engine=engine, bytes=min(target.size, source.size), seed=7, stop=stop()
    ).errors


def launch_elsewhere(compiled_for: _core.Device, launched_by: _core.Device) -> None:
    text = "KERNEL nothing(ulong n) { if (n == 0) return; }\n"
    launched_by.launch(compiled_for.kernel("nothing", text, "nothing", "L"), 1, 1, [1])


def triad(device: _core.Device, a: _core.Buffer, b: _core.Buffer, c: _core.Buffer) -> int:
    """Wrong elements."""
    return _core.stream(device, a, b, c, op="triad", agent="gpu", first_touch="gpu", seed=3, stop=stop()).errors


def main(names: list[str]) -> dict[str, Any]:
    devices = [open_device(name) for name in names]
    before = [device.memory()[1] for device in devices]
    # Device i holds i + 1 blocks, obtained in turns.
    buffers = [device.allocate("device", (i + 1) * SIZE) for i, device in enumerate(devices)]
    said: dict[str, Any] = {
        "uuids": [device.facts().get("uuid") for device in devices],
        "owners": [buffer.device for buffer in buffers],
        "held": [_core.guard_held(name)["device"] for name in names],
        "used": [was - device.memory()[1] for was, device in zip(before, devices, strict=True)],
    }
    for i in range(len(buffers)):
        buffers[i].fill(seed=i, agent="gpu")
    said["wrong"] = [buffer.check(seed=i, agent="gpu") for i, buffer in enumerate(buffers)]
    said["other seed"] = [buffer.check(seed=i + 1, agent="gpu") for i, buffer in enumerate(buffers)]
    said["chase"] = [chase(device, buffer) for device, buffer in zip(devices, buffers, strict=True)]
    said["copies"] = [
        copy(device, device.allocate("device", SIZE), device.allocate("device", SIZE), engine)
        for device in devices
        for engine in ENGINES
    ]

    first, second = devices[:2]
    said["kernel refused"] = refused(lambda: launch_elsewhere(first, second), ValueError)
    mine, peers = first.allocate("device", SIZE), second.allocate("device", SIZE)
    peers.fill(seed=11, agent="gpu")
    said["why"] = first.why_unreachable(second)
    said["copy refused"] = refused(lambda: first.copy(mine, 0, peers, 0, SIZE))
    said["launch refused"] = refused(lambda: chase(first, peers))
    said["untouched"] = peers.check(seed=11, agent="gpu")
    has_vmm = any(row["name"] == "vmm" and row["available"] for row in second.allocators())
    older = second.allocate("vmm", SIZE) if has_vmm else None
    said["reach refused"] = refused(lambda: first.reach(second))
    if not said["reach refused"]:
        first.reach(second)
        said["reached"] = {
            "copies": [
                *(copy(first, mine, peers, engine) for engine in ENGINES),
                *(copy(first, peers, mine, engine) for engine in ENGINES),
            ],
            "chase": chase(first, peers),
            "stream": triad(first, second.allocate("device", SIZE), mine, peers),
        }
        if older is not None:  # mapped before reach, and after it
            newer = second.allocate("vmm", SIZE)
            said["reached"]["virtual"] = [copy(first, mine, buffer, "kernel") for buffer in (older, newer)]
        peers.fill(seed=12, agent="gpu")
        said["own again"] = peers.check(seed=12, agent="gpu")
    return said


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
