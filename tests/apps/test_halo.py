from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps.halo import Halo
from firsttouch.apps.support import recomputed
from firsttouch.apps.support.domains import block_of, blocks_along, rank_of, share_of
from firsttouch.apps.support.staggered import FIELDS, STATE, Staggered, initial
from firsttouch.harness.app import Cpu, Gpu, View, f64, solve
from firsttouch.program.execution.agents import KernelFile

XVEL0, YVEL0 = FIELDS.index("xvel0"), FIELDS.index("yvel0")
MUTATIONS = [
    ("MORE_X 0x1730u", "MORE_X 0x1710u"),
    ("TURNS_X 0x1510u", "TURNS_X 0x1500u"),
    ("? -before : before", "? before : before"),
    (": layer + more, above", ": layer, above"),
    ("x = vertical ? at : across", "x = vertical ? (at < 0 ? 0 : at) : across"),  # a corner is missing
    ("5 * y < rows", "5 * y <= rows"),
    ("0.125 * squares", "0.25 * squares"),
    ("pressure += volume * p[c]", "pressure += volume * p[c + 1]"),
]
IN_OTHER_FILES = [
    ("lagrangian", "higher(px * px + py * py, SMALL)", "higher(px * px + py * px, SMALL)"),
    ("lagrangian", "lower(part[LOCAL_ID], part[LOCAL_ID + span])", "part[LOCAL_ID]"),
    ("lagrangian", "(p[c] + q[c]) / rho[c]", "(p[c] + q[c]) / rho[c + 1]"),
    ("lagrangian", "new_v[c] = v[c] - by * dx", "new_v[c] = v[c] - by * dy"),
    ("advection", "(2.0 - part) * down", "(1.0 + part) * down"),
    ("advection", "forward ? c - 2 * to : c + to", "forward ? c - to : c + to"),
    ("advection", "cell = c - (k & 1u ? to : 0)", "cell = c + (k & 1u ? to : 0)"),
    ("advection", "k ? YVEL1 : XVEL1);\n        const uint back", "XVEL1);\n        const uint back"),
    ("advection", "fields[YVEL0 * each + i] = fields[YVEL1 * each + i];", ""),
]


class Mutated(Halo):
    """With a replacement in one of its kernel files."""

    name = "mutated"
    change = ("", "", "")

    @classmethod
    def kernel_path(cls) -> Path:
        return Halo.kernel_path()

    def kernel_files(self) -> list[KernelFile]:
        name, before, after = self.change
        files = super().kernel_files()
        assert any(name == file.name and before in file.text for file in files)
        return [KernelFile(name, file.text.replace(before, after)) if file.name == name else file for file in files]


def mutated(kind: type[Mutated], *change: str) -> str:
    """What the check says of a run with a replacement in a kernel file."""
    app = kind(kind.sizes["tiny"])
    app.change = change  # type: ignore[assignment]
    return run_tiny(kind, instance=app).error


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Halo, before, after)


@pytest.mark.parametrize("change", IN_OTHER_FILES)
def test_wrong_hydrodynamics_are_detected(change: tuple[str, str, str]) -> None:
    assert mutated(Mutated, *change)


class Fast(Mutated):
    """Finds the step that gas at random speeds admits: these limit it, not sound as in the problem of halo."""

    name = "fast"
    speeds = ((0.0, 1.0), (0.0, 1.0))

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        gpu.uniform(self.fields, 1, 2)
        for field, (low, high) in zip((XVEL0, YVEL0), self.speeds, strict=True):
            gpu.uniform(self.fields[field : field + 1], low, high)
        self.admitted = float(self.reduce(cpu, gpu, "lagrangian_timestep", *self.cell, uses=5).view(f64)[:, 0].min())

    def check(self, view: View) -> str:
        grid = Staggered(self.nx, self.ny, *self.cell)
        grid.values[:] = view(self.fields)
        right = grid.longest_step(slice(None), slice(None))
        return "" if self.admitted == pytest.approx(right, rel=1e-12) else f"{self.admitted} is not {right}"


SLOW, STEADY, MIXED = (0.0, 0.01), (80.0, 90.0), (-90.0, 90.0)


@pytest.mark.parametrize(
    ("speeds", "before", "after"),
    [
        ((STEADY, SLOW), "right = (u[c + 1] + u[c + w + 1])", "right = (u[c + 1] + u[c + 1])"),
        ((SLOW, STEADY), "below = (v[c] + v[c + 1])", "below = (v[c] + v[c + w])"),
        ((STEADY, SLOW), "volume / higher(higher(ABS_F64(left)", "dx / higher(higher(ABS_F64(left)"),
        ((MIXED, SLOW), "(right - left + above", "(left - right + above"),
        ((SLOW, MIXED), "above - below)", "below - above)"),
        ((MIXED, MIXED), "-0.7 / growth", "-0.8 / growth"),
    ],
)  # fmt: skip
def test_fast_gas_limits_the_step(speeds: Any, before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fast, "speeds", speeds)
    assert mutated(Fast, "lagrangian", before, before) == ""
    assert mutated(Fast, "lagrangian", before, after)


@pytest.mark.parametrize("params", [(9, 30, 1), (30, 9, 2), (16, 16, 5), (9, 30, 70)])
def test_any_grid_and_number_of_steps_is_right(params: tuple[int, int, int]) -> None:
    assert run_tiny(Halo, params=dict(zip(("nx", "ny", "steps"), params, strict=True))).error == ""


def test_a_wrong_number_in_the_last_step_of_a_large_grid_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a grid that is not recomputed from the beginning, in several parts."""
    monkeypatch.setattr(recomputed, "WHOLE", 0)
    monkeypatch.setattr(recomputed, "TILE", 20)
    app = Halo({"nx": 47, "ny": 61, "steps": 2})
    fields: list[Any] = []
    check = app.check
    monkeypatch.setattr(app, "check", lambda view: fields.append(view(app.fields).copy()) or check(view))
    assert run_tiny(Halo, instance=app).error == ""
    counts, lengths = recomputed._last_step(app, fields[0])
    assert (counts.sum(), lengths) == (0, pytest.approx(app.lengths, rel=1e-11))
    for place in [(0, 2, 2), (4, 40, 30), (9, 64, 50), (10, 20, 49), (14, 62, 48), (12, 0, 0), (7, 63, 10)]:
        wrong = fields[0].copy()
        wrong[place] += 1e-6
        assert "differ" in recomputed.differences(app, wrong) or "sums" in recomputed.differences(app, wrong), place


def test_a_part_of_a_grid_is_recomputed_from_cells_within_reach() -> None:
    """Whatever is beyond: walls at its sides, where the grid goes on."""
    whole = Staggered(60, 52, 0.2, 0.3)
    whole.start(initial(range(60), range(52), (60, 52), 5))
    for axis, part in ((0, slice(10, 58)), (1, slice(4, 52))):
        for step in range(3):
            if step:
                for name in STATE:
                    whole[name][:] = whole[name[:-1] + "1"]
            before = [whole.at(name, nodes=int("vel" in name)).copy() for name in STATE]
            length = whole.begin_step()
            whole.step(step, length)
            columns, rows = (part, slice(0, 52)) if axis == 0 else (slice(0, 60), part)
            cut = Staggered(columns.stop - columns.start, rows.stop - rows.start, 0.2, 0.3)
            cut.start([values[rows.start :, columns.start :] for values in before])
            cut.begin_step()
            cut.step(step, length)
            inner = [slice(r.start + 16, r.stop - 16) for r in (rows, columns)]
            for name in ("density1", "energy1", "xvel1", "yvel1", "mass_flux_x", "mass_flux_y", "viscosity"):
                own = cut.at(name)[16:-16, 16:-16]
                assert np.abs(own - whole.at(name)[inner[0], inner[1]]).max() <= 1e-14


def test_mass_stays_and_energy_does_not_grow() -> None:
    app = Halo({"nx": 40, "ny": 25, "steps": 60})
    assert run_tiny(Halo, instance=app).error == ""
    (_, begun, _), (_, ended, _) = app.begun, app.ended
    assert ended[0] == pytest.approx(begun[0], rel=1e-14)
    assert 0.97 < (ended[1] + ended[2]) / (begun[1] + begun[2]) < 1
    assert "kinetic energy 1." in app.used["field_summary"]


@pytest.mark.exhaustive
def test_the_kinetic_energy_is_that_which_cloverleaf_expects() -> None:
    params = Halo.sizes["default"]
    assert tuple(params.values()) in recomputed.KINETIC
    assert run_tiny(Halo, params=params).error == ""


def test_a_grid_too_small_for_its_blocks_is_refused() -> None:
    assert "4 cells" in Halo.problem({"nx": 9, "ny": 3, "steps": 1})
    assert Halo.why_not_divided({"nx": 8, "ny": 8, "steps": 1}, 4) == ""
    assert "4 cells" in Halo.why_not_divided({"nx": 8, "ny": 8, "steps": 1}, 9)


@pytest.mark.parametrize(("sides", "expected"), [((64, 16), (32, 16)), ((16, 64), (16, 32))])
def test_the_longer_side_is_divided_first(sides: tuple[int, int], expected: tuple[int, int]) -> None:
    params = dict(zip(("nx", "ny", "steps"), (*sides, 1), strict=True))
    parts = [Halo.part(params, rank, 2) for rank in (0, 1)]
    assert [(part["width"], part["height"]) for part in parts] == [expected] * 2


def test_both_sides_grow_with_a_size_in_bytes() -> None:
    params = solve(Halo, 64 << 20)
    assert params["nx"] == params["ny"] > 500
    assert Halo.footprint(params) <= 64 << 20


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 6, 8, 12])
def test_blocks_cover_the_space_once(ranks: int, axes: int) -> None:
    blocks = blocks_along(ranks, axes)
    places = {block_of(rank, blocks) for rank in range(ranks)}
    assert len(places) == ranks
    assert all(rank_of(block_of(rank, blocks), blocks) == rank for rank in range(ranks))
    assert rank_of([-1] * axes, blocks) == ranks - 1
    parts = [share_of(17, ranks, index) for index in range(ranks)]
    assert [first for first, _ in parts[1:]] == [first + count for first, count in parts[:-1]]
    assert sum(count for _, count in parts) == 17


def test_blocks_are_as_equal_as_possible() -> None:
    assert [blocks_along(ranks, 2) for ranks in (1, 2, 4, 6, 8)] == [(1, 1), (1, 2), (2, 2), (2, 3), (2, 4)]
    assert blocks_along(8, 3) == (2, 2, 2)
