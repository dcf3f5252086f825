"""The stand-ins for the CUDA runtime and its driver: what a program does on them is in the journal."""

from __future__ import annotations

from pathlib import Path

from tests.port.played import FIXTURES, PlayedCuda
from tests.profile.injected import only_journal


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
