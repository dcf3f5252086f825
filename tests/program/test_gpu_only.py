"""Buffers that only the GPU uses, and library calls with declared accesses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import numpy as np
import pytest
from tests.harness.running import opencl, strategies

from firsttouch import _core
from firsttouch.harness.random import key_of
from firsttouch.program.declarations import Declaration, Role
from firsttouch.program.execution.agents import Cpu, Gpu, KernelFile
from firsttouch.program.execution.arrays import Array
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES, unavailable

TEXT = """
KERNEL count_up(GLOBAL uint* p, uint n) {
    FOR_EACH(i, n) p[i] = (uint)i;
}
"""


@contextmanager
def one_array(strategy: str, role: Role, sides: Literal["both", "cpu", "gpu"]) -> Iterator[tuple[Workspace, Array]]:
    info, device = opencl()
    if reason := unavailable(STRATEGIES[strategy], info):
        pytest.skip(reason)
    workspace = Workspace(STRATEGIES[strategy], info, device)
    array = Array(Declaration("one", np.dtype(np.uint32), (1000,), role, sides), key_of(1, 0))
    workspace.allocate([array])
    yield workspace, array
    workspace.free()


def agents_of(workspace: Workspace) -> tuple[Cpu, Gpu]:
    files = [KernelFile("count", TEXT)]
    return Cpu(workspace, files), Gpu(workspace, files)


@pytest.mark.parametrize("strategy", strategies())
def test_the_strategy_places_buffers_that_only_the_gpu_uses(strategy: str) -> None:
    duplicated = STRATEGIES[strategy].duplicated
    with one_array(strategy, "inout", "gpu") as (workspace, array):
        assert array.memory.shared != duplicated
        assert (array.memory.host is None) == duplicated
        agents_of(workspace)[1].launch("count_up", array, 1000, over=1000, writes=[array])
        assert workspace.contents(array).tolist() == list(range(1000))


@pytest.mark.parametrize("strategy", strategies())
def test_scratch_of_the_gpu_is_device_memory(strategy: str) -> None:
    with one_array(strategy, "scratch", "gpu") as (_, array):
        assert array.memory.host is None
        assert array.memory.device is not None
        chosen = STRATEGIES[strategy]
        assert array.memory.device.allocator == (chosen.allocator if chosen.duplicated else "device")


@pytest.mark.parametrize("strategy", strategies())
def test_data_are_transferred_before_and_after_a_library_call(strategy: str) -> None:
    def double(memory: _core.Buffer, count: int) -> None:
        words = np.frombuffer(memory.read(0, 4 * count), np.uint32)
        memory.write(0, (2 * words).tobytes())

    with one_array(strategy, "inout", "both") as (workspace, array):
        cpu, gpu = agents_of(workspace)
        cpu.writes(array)[:] = np.arange(1000)
        gpu.call(double, array, 1000, updates=[array])
        assert cpu.reads(array).tolist() == list(range(0, 2000, 2))
        assert workspace.transferred == {"cpu": 4000, "gpu": 4000}


@pytest.mark.parametrize("kind", ["blas", "sparse", "fft"])
def test_the_reason_for_a_missing_library_is_reported(kind: str) -> None:
    with one_array("svm-fine", "inout", "both") as (workspace, _):
        gpu = agents_of(workspace)[1]
        library, used = gpu.library(kind)
        assert library is None
        assert used.startswith("own kernels (")
        assert gpu.library(kind, "own") == (None, "own kernels")
