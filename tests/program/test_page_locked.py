"""Buffers of OpenCL that are made only to have page-locked memory of the host, and those that only look like it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.port.traces import HOST_BASE, Calls

from firsttouch.profile.calls import MappedView
from firsttouch.program.trace import TracedCopy, TracedRun

SIZE = 1 << 20
MADE: dict[str, Any] = {"kind": "managed", "sharing": frozenset({"made"})}


def mapped(calls: Calls, buffer: int, host: int = HOST_BASE, *, offset: int = 0) -> int:
    """A mapping of a buffer, which the CPU finds at `host`."""
    view = MappedView(t=calls.wait() or 0.0, address=buffer + offset, bytes=SIZE - offset, begins=True, use="both",
                      waits=True, host=host + offset)  # fmt: skip
    calls.calls.append(view)
    return host


def copies(run: TracedRun) -> list[tuple[str, str]]:
    """The way of each copy, and what memory its host's side is."""
    return [(step.way, step.call.host) for step in run.steps if isinstance(step, TracedCopy)]


def staged(calls: Calls, *, offset: int = 0) -> tuple[int, int, int]:
    """A buffer of the device that gets its data from one that is mapped. Returns both and where that is."""
    device, staging = calls.block(SIZE), calls.block(SIZE, **MADE)
    host = mapped(calls, staging, offset=offset)
    calls.copy(device, host, SIZE)
    calls.launch(device)
    return device, staging, host


@pytest.mark.parametrize("offset", [0, 4096])
def test_what_is_mapped_to_be_copied_is_page_locked_memory_of_the_host(offset: int) -> None:
    calls = Calls()
    device, staging, host = staged(calls, offset=offset)
    calls.copy(host, device, SIZE)
    calls.free(staging)
    run = calls.run
    assert copies(run) == [("h2d", "pinned"), ("d2h", "pinned")]
    assert [(block.kind, block.on_host, block.sharing) for block in run.blocks][1] == ("pinned", True, frozenset())
    assert run.blocks[1].lives[0].end is not None


def test_it_may_be_copied_as_a_buffer_too() -> None:
    """Which is the same memory."""
    calls = Calls()
    device, staging, _ = staged(calls)
    calls.copy(device, staging + 4096, 4096)
    run = calls.run
    assert copies(run) == [("h2d", "pinned")] * 2
    starts = [step.source.start for step in run.steps if isinstance(step, TracedCopy)]
    assert starts == [0, 4096]


@pytest.mark.parametrize("use", ["kernel", "written", "filled", "unknown kernel", "moved", "not mapped"])
def test_a_buffer_that_the_device_uses_otherwise_stays_one(use: str) -> None:
    calls = Calls()
    if use == "not mapped":
        device, staging = calls.block(SIZE), calls.block(SIZE, **MADE)
        calls.copy(device, staging, SIZE)
    else:
        device, staging, _ = staged(calls)
    if use == "kernel":
        calls.launch(device, staging)
    elif use == "written":
        calls.copy(staging, calls.host(SIZE), SIZE)
    elif use == "filled":
        calls.fill(staging, SIZE)
    elif use == "unknown kernel":
        calls.launch(arguments=None)
    elif use == "moved":
        mapped(calls, staging, HOST_BASE + 64 * SIZE)
    assert calls.run.blocks[1].kind == "managed"
    assert "pinned" not in [host for _, host in copies(calls.run)]


def test_buffers_that_are_mapped_and_not_copied_stay_buffers() -> None:
    calls = Calls()
    shared = calls.block(SIZE, **MADE)
    mapped(calls, shared)
    assert calls.run.blocks[0].kind == "managed"
