"""Advice about programs that nobody here wrote, from their recorded traces (tests/port/recorded)."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

import pytest

from firsttouch.advice.advisor import prices_of
from firsttouch.advice.answer import Advice
from firsttouch.advice.output import answer
from firsttouch.advice.profiled import traced_program
from firsttouch.advice.traced import TracedProgram, advise_traced
from firsttouch.cli.advised_trace import MOST_LINES, lines
from firsttouch.model.prices import Prices

TESTS = Path(__file__).parents[1]


@cache
def prices() -> Prices:
    return prices_of([TESTS.parent / "results" / "h100-quick"], None)[0]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


def program(name: str, folder: Path) -> TracedProgram:
    directory = folder / name
    if not directory.exists():
        with tarfile.open(TESTS / "port" / "recorded" / f"{name}.tar.xz") as archive:
            archive.extractall(directory, filter="data")
    return traced_program(directory)


def advised(name: str, folder: Path) -> Advice:
    return advise_traced(program(name, folder), prices())


@pytest.mark.parametrize("name", ["backprop", "bfs", "hotspot", "nw", "FDTD3d", "hwt1d", "srad_v1", "pathfinder"])
def test_each_has_an_answer_that_its_rows_bear_out(name: str, recorded: Path) -> None:
    advice = advised(name, recorded)
    traced = advice.traced
    assert traced is not None
    assert traced.as_it_is is not None
    assert len(lines(advice)) <= MOST_LINES
    best, own = advice.strategies[0], traced.as_it_is
    leave = str(answer(advice)[0]).startswith("Leave ")
    assert leave == (own.ms <= 1.05 * best.ms + 0.01)
    assert leave != bool(traced.edits)
    for bounds, row in zip(traced.bounds, advice.strategies, strict=True):
        assert row.low == bounds.low <= row.ms <= bounds.high == row.high
        assert all(bounds.low <= ms <= bounds.high for ms in (bounds.least_ms, bounds.most_ms) if ms is not None)
    assert own.low <= own.ms <= own.high


def moved(advice: Advice, strategy: str, what: str) -> int:
    row = next(row for row in advice.strategies if row.strategy == strategy)
    return sum(term.bytes for term in row.terms if term.what.startswith(what))


def test_what_the_cpu_reads_again_goes_back_under_unified_memory(recorded: Path) -> None:
    """With -validate, the CPU reads the inputs of Black-Scholes again. No copy shows it, but the watch of the host."""
    plain, validated = (advised(name, recorded) for name in ("BlackScholes", "BlackScholes-validate"))
    back = "faults of the CPU on pages that are on the GPU"
    into = "faults of the GPU on pages that are on the CPU"
    array = 4 * 262144
    assert moved(plain, "managed", into) == pytest.approx(3 * array, rel=0.02)
    assert moved(plain, "managed", back) == pytest.approx(2 * array, rel=0.02)
    assert moved(validated, "managed", back) == pytest.approx(4 * array, rel=0.02)  # inputs, and one of two results


def test_copies_that_restore_stay_copies(recorded: Path) -> None:
    """backprop copies its weights again after a kernel may have written them."""
    from firsttouch.advice.edits import edits
    from firsttouch.program.strategies import STRATEGIES

    traced = program("backprop", recorded)
    changes = edits(traced.run, traced.found, traced.places, STRATEGIES["managed"])
    by_what = {edit.what: edit.lines for edit in changes}
    assert [*by_what] == ["allocate", "drop", "wait", "free", "keep"]
    assert by_what["keep"] == ["backprop_cuda.cu:169"]
    assert "backprop_cuda.cu:169" not in by_what["drop"]
    assert by_what["wait"] == ["backprop_cuda.cu:180"], "the first copy back after the last kernel"
