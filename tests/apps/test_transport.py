from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps.support.histories import GROUPS, PROBLEMS, SCATTERING, Tracks
from firsttouch.apps.support.neutrons import WORDS
from firsttouch.apps.transport import Transport
from firsttouch.harness.app import View
from firsttouch.program.execution.agents import KernelFile

TALLIES = """flux + place, far * NUMBER(p, WEIGHT));
            ATOMIC_ADD_F64_DEVICE(paths + (i & 63), far"""
"""The flux, and the sum over all cells and groups that is compared with it."""
MUTATIONS = [
    ("2862933555777941757ul", "2862933555777941759ul"),
    (
        "const double to_collision = NUMBER(p, PATHS) / total",
        "const double to_collision = 1.1 * NUMBER(p, PATHS) / total",
    ),
    ("to_census = speed * NUMBER(p, TIME)", "to_census = 0.99 * speed * NUMBER(p, TIME)"),
    (
        "SET(p, VELOCITY + axis, -NUMBER(p, VELOCITY + axis));",
        "SET(p, VELOCITY + axis, -0.9 * NUMBER(p, VELOCITY + axis));",
    ),
    ("left -= cross[reaction * GROUPS + group]", "left -= 1.01 * cross[reaction * GROUPS + group]"),
    ("energy * (1.0 - chance / mass)", "energy * (1.0 - chance)"),
    ("u * w * ct - v * st", "u * w * ct + v * st"),
    ("COUNT(ABSORBED);", ""),
    ("p[CELL_Z] = (p[CELL_Z] & 0xfffffffful) | group_of(edges, left_over) << 32;", ""),
    ("SET(p, AGE, NUMBER(p, AGE) + far / speed);", ""),
    ("far * u);", "far * v);"),
    ("to[ID] = to[RANDOM] = mix64(state = next_state(state))", "to[ID] = mix64(state = next_state(state))"),
    ("flux + place, far", "flux + place, 0.5 * far"),
    ("const ulong place = at * GROUPS + (p[CELL_Z] >> 32);", "const ulong place = at * GROUPS;"),
    ("const ulong place = at * GROUPS +", "const ulong place = (at ^ 1) * GROUPS +"),
    (
        "(z - along(origin, 2)) * along(extent, 1) + y - along(origin, 1)",
        "(y - along(origin, 1)) * along(extent, 1) + z",
    ),
    *((TALLIES, TALLIES.replace(", far", f", {far}")) for far in ("0.5 * far", "(ends ? 0.0 : far)", "least")),
    ("SET(p, SEGMENTS, NUMBER(p, SEGMENTS) + 1.0);", ""),
    (
        "const uint ends = !collides && to_census < least;",
        "const uint ends = !collides && (to_census < least || i == 7);",
    ),
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Transport, before, after)


class Mutated(Transport):
    """With a replacement in a kernel file that transport shares its kernels with."""

    name = "mutated"
    change = ("", "")

    @classmethod
    def kernel_path(cls) -> Path:
        return Transport.kernel_path()

    def kernel_files(self) -> list[KernelFile]:
        before, after = self.change
        files = super().kernel_files()
        assert sum(before in file.text for file in files) == 1
        return [
            file if before not in file.text else KernelFile(file.name, file.text.replace(before, after))
            for file in files
        ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("const double cosine = 1.0 - 2.0 * DRAW(state)", "const double cosine = 1.0 - DRAW(state)"),
        ("weight = NUMBER(p, WEIGHT) / factor", "weight = NUMBER(p, WEIGHT)"),
        ("chance <= factor - whole ? 1 : 0", "chance <= factor - whole ? 0 : 1"),
        ("NUMBER(p, TIME) <= 0.0 ? duration", "NUMBER(p, TIME) < 0.0 ? duration"),
        ("if (made == 0) COUNT(KILLED);", ""),
        ("to[ID] = id;", "to[ID] = p[ID];"),
        ("p[CELL_XY] = x | y << 32;", "p[CELL_XY] = y | x << 32;"),
        ("((double)z + DRAW(state)) * side", "((double)y + DRAW(state)) * side"),
        ("z | group_of(edges, energy) << 32", "z"),
        ("+ i % each;", "+ i / each;"),
    ],
)
def test_a_wrong_beginning_of_a_step_is_detected(before: str, after: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mutated, "change", (before, after))
    assert run_tiny(Mutated).error


@pytest.mark.parametrize("problem", PROBLEMS)
def test_both_problems_are_right_and_leave_the_same_particles_each_time(problem: str) -> None:
    first, second = (Transport(Transport.sizes["tiny"], 3, {"problem": problem}) for _ in range(2))
    second.check = lambda view: second.wrong  # type: ignore[method-assign]
    assert run_tiny(Transport, instance=first).error == ""
    assert run_tiny(Transport, instance=second).error == ""
    assert first.used["census_digest"] == second.used["census_digest"]


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=str)
def test_cross_sections_are_those_of_the_problem_at_1_mev(problem: object) -> None:
    (chosen,) = (p for p in PROBLEMS.values() if p is problem)
    edges, cross = chosen.edges(), chosen.cross()
    assert cross.shape == (chosen.isotopes * chosen.reactions, GROUPS)
    assert np.all(np.diff(edges) > 0)
    assert (edges[0], edges[-1]) == (pytest.approx(chosen.least), 20.0)
    at_one = cross[:, np.argmax(edges[1:] >= 1.0)]
    assert at_one.sum() == pytest.approx(chosen.total)
    assert at_one[SCATTERING::3].sum() == pytest.approx(chosen.total * chosen.parts[0] / sum(chosen.parts))


def test_more_blocks_than_cells_are_refused() -> None:
    assert Transport.why_not_divided({"cells": 4, "particles": 10, "steps": 1}, 64) == ""
    assert "cannot be divided" in Transport.why_not_divided({"cells": 3, "particles": 10, "steps": 1}, 64)


WRONG_WORDS = {
    "cells": "SET(p, POSITION, 0.0);",
    "speeds": "SET(p, VELOCITY, 0.0);",
    "energy groups": "p[CELL_Z] &= 0xfffffffful;",
    "weights": "SET(p, WEIGHT, 2.0 * NUMBER(p, WEIGHT));",
    "ages": "p[ROOT] += every;",
    "ids": "p[ID] = 1;",
}


def test_wrong_words_of_particles_that_numpy_does_not_trace_are_found() -> None:
    """Three of four are not traced."""
    wrong = " ".join(f"if (i % 6 == {i}) {word}" for i, word in enumerate(WRONG_WORDS.values()))
    copy = "copy_to(census +"
    params = {"particles": 40_960, "cells": 8, "steps": 1}
    error = run_tiny(Transport, mutation=(copy, f"if (p[ROOT] % every) {{ {wrong} }}\n{copy}"), params=params).error
    assert [what for what in WRONG_WORDS if what not in error] == []


def test_repetitions_are_compared_with_one_computation_of_the_traced_particles(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[slice] = []
    trace = Tracks.trace
    monkeypatch.setattr(Tracks, "trace", lambda tracks, some: computed.append(some) or trace(tracks, some))
    params = {"particles": 20_480, "steps": 1}  # half of them are traced, in two parts
    assert [run_tiny(Transport, params=params, seed=7).error for _ in range(3)] == [""] * 3
    assert len(computed) == 2
    assert (
        "differ from numpy's" in run_tiny(Transport, params=params, seed=7, mutation=("far * u);", "far * v);")).error
    )


def test_the_digest_is_that_of_the_particles_at_census() -> None:
    app = Transport(Transport.sizes["tiny"])

    def check(view: View) -> str:
        return type(app).check(app, lambda part: view(part) + 1 if part.array is app.census else view(part))

    app.check = check  # type: ignore[method-assign]
    assert "digest" in run_tiny(Transport, instance=app).error


def digest_of(mutation: tuple[str, str] = ("", ""), **settings: str) -> str:
    app = Transport({**Transport.sizes["tiny"], "batches": int(settings.pop("batches", "1"))}, options=settings)
    app.kernels = KernelFile("transport", app.kernels.text.replace(*mutation))
    assert run_tiny(Transport, instance=app).error == ""
    return app.used["census_digest"]


def test_facets_and_batches_change_no_particle() -> None:
    """Nearly all particles leave by a triangle, or the further plane that replaces the nearest here would be wrong."""
    further = ("found : nearest", "found : (nearest + 1) % 3")
    assert len({digest_of(), digest_of(batches="3"), digest_of(further, facets="24")}) == 1


def test_42_million_particles_have_numbers_and_messages_that_fit() -> None:
    for ranks in (1, 2, 4):
        part = Transport.part({**Transport.sizes["default"], "particles": 42_000_000}, 0, ranks)
        assert part["capacity"] < 2**32  # numbers in the queues
        assert part["room"] * 8 * WORDS < 2**31  # bytes of a message of MPI
        assert part["room"] >= 42_000_000 / ranks / 4
