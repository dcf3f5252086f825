"""Uses two or more devices alternately in one process, and prints the results as JSON: python several.py NAME ...

The tests here and in tests/standins run it as a program.
"""

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


def refusal(action: Callable[[], object], kind: type[Exception] = _core.Unavailable) -> str:
    """Returns the message of the exception that `action` raises, or "" if it raises none."""
    try:
        action()
    except kind as reason:
        return str(reason)
    return ""


def chase(device: _core.Device, buffer: _core.Buffer) -> int:
    """Returns the number of wrong nodes."""
    return _core.chase(device, buffer, agent="gpu", first_touch="gpu", stride=256, hops=64, seed=5, stop=stop()).errors


def copy(device: _core.Device, target: _core.Buffer, source: _core.Buffer, engine: str) -> int:
    """Returns the number of wrong words."""
    return _core.copy(
        device, target, source, engine=engine, bytes=min(target.size, source.size), seed=7, stop=stop()
    ).errors


def copy_both_ways(device: _core.Device, own: list[_core.Buffer], theirs: list[_core.Buffer], engine: str) -> int:
    """Copies from the first of `own` to the first of `theirs`, and at once from the second of `theirs` by their device.
    Returns the number of wrong words.
    """
    (source, second_target), (target, second_source) = own, theirs
    return _core.copy(
        device,
        target,
        source,
        engine=engine,
        bytes=SIZE,
        second_target=second_target,
        second_source=second_source,
        second_by_owner=True,
        seed=9,
        stop=stop(),
    ).errors


def launch_on_another_device(compiled_for: _core.Device, launched_by: _core.Device) -> None:
    text = "KERNEL nothing(ulong n) { if (n == 0) return; }\n"
    launched_by.launch(compiled_for.kernel("nothing", text, "nothing", "L"), 1, 1, [1])


def triad(device: _core.Device, a: _core.Buffer, b: _core.Buffer, c: _core.Buffer) -> int:
    """Returns the number of wrong elements."""
    return _core.stream(device, a, b, c, op="triad", agent="gpu", first_touch="gpu", seed=3, stop=stop()).errors


def main(names: list[str]) -> dict[str, Any]:
    devices = [open_device(name) for name in names]
    before = [device.memory()[1] for device in devices]
    # The buffer of device i has i + 1 times SIZE bytes.
    buffers = [device.allocate("device", (i + 1) * SIZE) for i, device in enumerate(devices)]
    results: dict[str, Any] = {
        "uuids": [device.facts().get("uuid") for device in devices],
        "owners": [buffer.device for buffer in buffers],
        "held": [_core.guard_held(name)["device"] for name in names],
        "used": [was - device.memory()[1] for was, device in zip(before, devices, strict=True)],
    }
    for i in range(len(buffers)):
        buffers[i].fill(seed=i, agent="gpu")
    results["fill errors"] = [buffer.check(seed=i, agent="gpu") for i, buffer in enumerate(buffers)]
    results["errors with another seed"] = [buffer.check(seed=i + 1, agent="gpu") for i, buffer in enumerate(buffers)]
    results["chase errors"] = [chase(device, buffer) for device, buffer in zip(devices, buffers, strict=True)]
    results["copy errors"] = [
        copy(device, device.allocate("device", SIZE), device.allocate("device", SIZE), engine)
        for device in devices
        for engine in ENGINES
    ]

    first, second = devices[:2]
    results["kernel refused"] = refusal(lambda: launch_on_another_device(first, second), ValueError)
    mine, peers = first.allocate("device", SIZE), second.allocate("device", SIZE)
    peers.fill(seed=11, agent="gpu")
    results["why unreachable"] = first.why_unreachable(second)
    results["copy refused"] = refusal(lambda: first.copy(mine, 0, peers, 0, SIZE))
    results["launch refused"] = refusal(lambda: chase(first, peers))
    results["errors after refusals"] = peers.check(seed=11, agent="gpu")
    has_vmm = any(row["name"] == "vmm" and row["available"] for row in second.allocators())
    mapped_before_reach = second.allocate("vmm", SIZE) if has_vmm else None
    results["reach refused"] = refusal(lambda: first.reach(second))
    if not results["reach refused"]:
        first.reach(second)
        results["reached"] = {
            "copies": [
                *(copy(first, mine, peers, engine) for engine in ENGINES),
                *(copy(first, peers, mine, engine) for engine in ENGINES),
            ],
            "chase": chase(first, peers),
            "stream": triad(first, second.allocate("device", SIZE), mine, peers),
        }
        if mapped_before_reach is not None:
            mapped_after_reach = second.allocate("vmm", SIZE)
            results["reached"]["virtual"] = [
                copy(first, mine, buffer, "kernel") for buffer in (mapped_before_reach, mapped_after_reach)
            ]
        both = [mine, first.allocate("device", SIZE)], [peers, second.allocate("device", SIZE)]
        results["both ways refused"] = [refusal(lambda e=e: copy_both_ways(first, *both, e)) for e in ENGINES]  # type: ignore[misc]
        second.reach(first)
        results["both ways"] = [copy_both_ways(first, *both, engine) for engine in ENGINES]
        peers.fill(seed=12, agent="gpu")
        results["errors of the owner"] = peers.check(seed=12, agent="gpu")
    return results


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
