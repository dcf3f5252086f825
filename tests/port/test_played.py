"""The stand-ins for the CUDA runtime and its driver: what a program does on them is in the journal."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.port.played import FIXTURES, PlayedCuda
from tests.profile.injected import only_journal

from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import BlockCall, LaunchCall, WaitCall


def test_a_program_runs_and_is_recorded(cuda: PlayedCuda, tmp_path: Path) -> None:
    journal = only_journal(cuda.trace(FIXTURES / "vector_add.c", tmp_path))
    mebibyte = 1 << 20
    copies = [(copy.direction, copy.bytes) for copy in journal.copies]
    assert copies == [("h2d", mebibyte), ("h2d", mebibyte), ("d2h", mebibyte)]
    assert [kernel.name for kernel in journal.kernels] == ["_Z3addPKfS0_Pfi"]
    blocks = [(block.kind, block.bytes) for block in journal.allocations]
    assert blocks == [("device", mebibyte)] * 3


def test_what_is_captured_runs_when_its_graph_is_launched(cuda: PlayedCuda, tmp_path: Path) -> None:
    journal = only_journal(cuda.trace(FIXTURES / "graph.c", tmp_path))
    assert [copy.direction for copy in journal.copies] == ["set", "h2d", "h2d", "h2d", "d2h"]
    assert [kernel.name for kernel in journal.kernels] == ["_Z5scalePfPKffi"] * 3


@pytest.mark.parametrize("carries", ["kernels", "functions"])
def test_each_launch_has_its_arguments(cuda: PlayedCuda, tmp_path: Path, carries: str) -> None:
    more = {"STANDIN_CUDA_FUNCTIONS": "1"} if carries == "functions" else {}
    (traced,) = read_calls(cuda.trace(FIXTURES / "kernels.c", tmp_path, more=more))
    a, b = (call.address for call in traced.calls if isinstance(call, BlockCall))
    launches = [call.arguments for call in traced.calls if isinstance(call, LaunchCall)]
    assert [launch and [(word.parameter, word.address) for word in launch.words] for launch in launches] == [
        [(0, a)],
        [(1, b)],
        [(1, a)],
        [],
    ]
    assert all(launch is not None and launch.sizes_known for launch in launches)


def test_a_free_is_a_wait_but_for_what_is_freed_in_the_order_of_a_stream(cuda: PlayedCuda, tmp_path: Path) -> None:
    (traced,) = read_calls(cuda.trace(FIXTURES / "frees.c", tmp_path))
    waited: list[bool] = []
    for call in traced.calls:
        if isinstance(call, LaunchCall):
            waited.append(False)
        elif isinstance(call, WaitCall):
            assert call.what == "free"
            waited[-1] = True
    assert waited == [True, True, False, False]  # cudaFree, cudaFreeHost, cudaFree and cudaFreeAsync of cudaMallocAsync
