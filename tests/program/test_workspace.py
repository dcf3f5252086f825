"""Random launches on both agents: no strategy reads a stale byte, and `explicit` copies only bytes that are needed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace
from tests.harness.running import opencl, strategies
from tests.program.random_programs import BUFFERS, RandomLaunch, declarations, expected, initial, needed, programs

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.program.declarations import Role
from firsttouch.program.execution.agents import Cpu, Gpu, KernelFile
from firsttouch.program.execution.arrays import Array
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES, Strategy, unavailable

TEXT = """
KERNEL accumulate(GLOBAL const uint* from, ulong first, GLOBAL uint* to, ulong where, ulong n, uint add) {
    FOR_EACH(i, n) to[where + i] = to[where + i] * 3u + from[first + i] + add;
}
KERNEL overwrite(GLOBAL const uint* from, ulong first, GLOBAL uint* to, ulong where, ulong n, uint add) {
    FOR_EACH(i, n) to[where + i] = from[first + i] + add;
}
"""


def with_coherence(coherence: Literal["", "wait", "flush"]) -> Strategy:
    return dataclasses.replace(STRATEGIES["svm-fine"], coherence=coherence)


def arrays(role: Role = "inout") -> list[Array]:
    return [Array(one, i) for i, one in enumerate(declarations(role))]


def on_cpu(cpu: Cpu, one: RandomLaunch, source: Array, target: Array, step: int) -> None:
    """The kernels above in numpy, through views, as a user's module would do it."""
    seen = cpu.reads(source[one.first : one.first + one.count]).copy()
    place = target[one.where : one.where + one.count]
    view = cpu.updates(place) if one.updates else cpu.writes(place)
    view[:] = (view * np.uint32(3) if one.updates else 0) + seen + np.uint32(step)


def run(program: list[RandomLaunch], workspace: Workspace, buffers: list[Array]) -> None:
    files = [KernelFile("accumulate", TEXT)]
    cpu, gpu = Cpu(workspace, files), Gpu(workspace, files)
    workspace.allocate(buffers)
    for i, array in enumerate(buffers):
        cpu.writes(array)[:] = initial(i)
    workspace.after_initialise()
    workspace.before_compute()
    for step, one in enumerate(program):
        source, target = buffers[one.source], buffers[one.target]
        if one.agent == "cpu":
            on_cpu(cpu, one, source, target, step)
        else:
            place = target[one.where : one.where + one.count]
            gpu.launch(
                *("accumulate" if one.updates else "overwrite", source, one.first, target, one.where, one.count, step),
                over=one.count,
                reads=[source[one.first : one.first + one.count]],
                **{"updates" if one.updates else "writes": [place]},
            )
        if one.swap:
            gpu.swap(buffers[0], buffers[1])


@pytest.mark.parametrize("strategy", strategies())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs)
def test_no_strategy_reads_a_stale_byte(strategy: str, program: list[RandomLaunch]) -> None:
    info, device = opencl()
    if reason := unavailable(STRATEGIES[strategy], info):
        pytest.skip(reason)
    workspace, buffers = Workspace(STRATEGIES[strategy], info, device), arrays()
    run(program, workspace, buffers)
    workspace.read_back(buffers)
    for array, right in zip(buffers, expected(program), strict=True):
        np.testing.assert_array_equal(workspace.contents(array), right)
    workspace.free()


class Prefetching:
    """A device that lists prefetches, launches and joins instead of prefetching, and passes all other calls on."""

    def __init__(self, device: object) -> None:
        self._device, self.calls = device, []

    def __getattr__(self, name: str) -> object:
        return getattr(self._device, name)

    def prefetch(self, buffer: object, offset: int, count: int, agent: str, stream: object = None) -> None:
        self.calls.append(f"prefetch to {agent}" + ("" if stream is None else " in its stream"))

    def join(self, event: object) -> None:
        self.calls.append("join")
        self._device.join(event)  # type: ignore[attr-defined]

    def launch(self, *arguments: object) -> None:
        self.calls.append("launch")
        self._device.launch(*arguments)  # type: ignore[attr-defined]


def prefetching(overlap: bool) -> tuple[Workspace, Prefetching]:
    """A Workspace of memory that both sides use in place, whose strategy prefetches."""
    info, device = opencl()
    if "svm-fine" not in strategies():
        pytest.skip("no fine-grained SVM")
    listing = Prefetching(device)
    strategy = dataclasses.replace(STRATEGIES["svm-fine"], prefetch=True, overlap=overlap)
    return Workspace(strategy, info, listing), listing  # type: ignore[arg-type]


ONE = RandomLaunch("gpu", 0, 1, 0, 0, 4, updates=True, swap=False)


@pytest.mark.parametrize("overlap", [False, True])
def test_only_without_overlap_does_the_first_launch_wait_for_prefetches(overlap: bool) -> None:
    workspace, device = prefetching(overlap)
    buffers = arrays()
    run([ONE], workspace, buffers)
    workspace.join_prefetches()
    prefetches = ["prefetch to gpu in its stream"] * BUFFERS
    assert device.calls == [*prefetches, *(["launch", "join"] if overlap else ["join", "launch"])]
    workspace.join_prefetches()
    assert device.calls.count("join") == 1
    workspace.read_back(buffers)
    assert device.calls[-BUFFERS:] == ["prefetch to cpu"] * BUFFERS
    workspace.free()


def test_memory_is_not_freed_while_it_is_prefetched() -> None:
    workspace, device = prefetching(overlap=True)
    run([ONE], workspace, arrays())
    assert "join" not in device.calls
    workspace.free()
    assert device.calls[-1] == "join"


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs)
def test_no_stale_byte_is_read_beside_prefetches(program: list[RandomLaunch]) -> None:
    workspace, buffers = prefetching(overlap=True)[0], arrays()
    run(program, workspace, buffers)
    workspace.join_prefetches()
    workspace.read_back(buffers)
    for array, right in zip(buffers, expected(program), strict=True):
        np.testing.assert_array_equal(workspace.contents(array), right)
    workspace.free()


class Copies:
    """A device that counts copied bytes and passes all calls on."""

    def __init__(self, device: object) -> None:
        self._device, self.bytes = device, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._device, name)

    def copy(self, target: object, to: int, source: object, start: int, count: int) -> None:
        self.bytes += count
        self._device.copy(target, to, source, start, count)  # type: ignore[attr-defined]


@settings(max_examples=100, deadline=None)
@given(program=programs)
def test_explicit_copies_only_bytes_that_are_needed(program: list[RandomLaunch]) -> None:
    info, device = opencl()
    counting = Copies(device)
    workspace, buffers = Workspace(STRATEGIES["explicit"], info, counting), arrays()  # type: ignore[arg-type]
    run(program, workspace, buffers)
    workspace.read_back(buffers)
    assert workspace.transferred == needed(program)
    assert counting.bytes == sum(needed(program).values())
    workspace.free()


@pytest.fixture
def explicit() -> Iterator[tuple[Workspace, Gpu, Cpu]]:
    info, device = opencl()
    workspace = Workspace(STRATEGIES["explicit"], info, device)
    files = [KernelFile("accumulate", TEXT)]
    yield workspace, Gpu(workspace, files), Cpu(workspace, files)
    workspace.free()


def test_reading_memory_that_was_never_written_is_an_error(explicit: tuple[Workspace, Gpu, Cpu]) -> None:
    workspace, gpu, _ = explicit
    buffers = arrays()
    workspace.allocate(buffers)
    with pytest.raises(ValueError, match=r"b0 .* before they are written"):
        gpu.launch("overwrite", buffers[0], 0, buffers[1], 0, 4, 0, over=4, writes=[buffers[1]])


def test_swapping_different_buffers_is_an_error(explicit: tuple[Workspace, Gpu, Cpu]) -> None:
    workspace, gpu, _ = explicit
    first, second = arrays("inout")[0], arrays("input")[1]
    workspace.allocate([first, second])
    with pytest.raises(ValueError, match="cannot be swapped"):
        gpu.swap(first, second)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("overwrite", 1), "takes 6 arguments, not 1"),
        (("nothing",), "there is no kernel nothing; the kernels are accumulate, overwrite"),
        (("overwrite", 1, 2, 3, 4, 5, 6), "expected a buffer, not 1"),
    ],
)
def test_the_error_for_an_invalid_launch(
    explicit: tuple[Workspace, Gpu, Cpu], arguments: tuple[str | int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        explicit[1].launch(*arguments, over=1)  # type: ignore[arg-type]


class Waits:
    """A device that counts the waits for all queued work."""

    def __init__(self, device: object) -> None:
        self._device, self.count = device, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._device, name)

    def wait(self, *stream: object) -> None:
        self.count += 1
        self._device.wait(*stream)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("disjoint", "waits"), [(True, 0), (False, 1)])
def test_without_concurrent_managed_access_the_cpu_waits_for_kernels_on_other_memory(
    disjoint: bool, waits: int
) -> None:
    info, device = opencl()
    if "svm-fine" not in strategies():
        pytest.skip("no fine-grained SVM")
    managed = {"managed": True, "concurrent": disjoint, "disjoint": disjoint}
    entries = [replace(e, **managed) if e.name == "svm-fine" else e for e in info.allocators]
    counting = Waits(device)
    workspace = Workspace(STRATEGIES["svm-fine"], replace(info, allocators=entries), counting)  # type: ignore[arg-type]
    gpu, cpu, buffers = Gpu(workspace, [KernelFile("accumulate", TEXT)]), Cpu(workspace, []), arrays()
    workspace.allocate(buffers)
    for array in buffers:
        cpu.writes(array)[:] = 1
    gpu.launch("overwrite", buffers[0], 0, buffers[1], 0, 4, 0, over=4, writes=[buffers[1][0:4]])
    counting.count = 0
    assert cpu.reads(buffers[2])[0] == 1
    assert counting.count == waits
    workspace.free()


@pytest.mark.parametrize("coherence", ["", "wait", "flush"])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(program=programs)
def test_no_kind_of_coherence_reads_a_stale_byte(
    coherence: Literal["", "wait", "flush"], program: list[RandomLaunch]
) -> None:
    if "svm-fine" not in strategies():
        pytest.skip("no fine-grained SVM")
    info, device = opencl()
    workspace, buffers = Workspace(with_coherence(coherence), info, device), arrays()
    run(program, workspace, buffers)
    for array, right in zip(buffers, expected(program), strict=True):
        np.testing.assert_array_equal(workspace.contents(array), right)
    workspace.free()


def test_stores_of_the_cpu_are_flushed_before_the_next_launch_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether they would reach a kernel without it, no test sees: on x86 any lock that a driver takes flushes them."""
    if "svm-fine" not in strategies():
        pytest.skip("no fine-grained SVM")
    info, device = opencl()
    flushes: list[None] = []
    monkeypatch.setattr(_core, "flush_stores", lambda: flushes.append(None))
    workspace = Workspace(with_coherence("flush"), info, device)
    gpu, cpu, buffers = Gpu(workspace, [KernelFile("accumulate", TEXT)]), Cpu(workspace, []), arrays()
    workspace.allocate(buffers)
    seen = []
    for store in (True, False, True):
        if store:
            cpu.writes(buffers[0])[:] = 1
        else:
            assert cpu.reads(buffers[0])[0] == 1
        gpu.launch("overwrite", buffers[0], 0, buffers[1], 0, 4, 0, over=4, writes=[buffers[1][0:4]])
        seen.append(len(flushes))
    assert seen == [1, 1, 2]
    with pytest.raises(Unsupported, match="b0 while a kernel runs"):
        workspace.concurrent_address(buffers[0])
    workspace.free()
