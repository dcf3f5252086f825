"""Applications whose work both agents share: every share, in turns and at once, and the search for the best one."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.calls import call
from tests.harness.running import opencl, run_tiny, strategies
from tests.matrix import matrix

from firsttouch.apps import all_apps
from firsttouch.apps.kmeans import PIECES, KmeansConcurrent
from firsttouch.harness.app import App
from firsttouch.harness.divided import Division
from firsttouch.harness.division import divide, why_not_at_once
from firsttouch.harness.experiment import Application
from firsttouch.program.strategies import STRATEGIES, unavailable
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Factors, Record

DIVIDED = sorted(name for name, app in all_apps().items() if app.divided)
SHARES = (0.0, 1.0, 0.37, 0.0001, 0.9999)
WRONG: Mapping[str, tuple[str, str]] = {
    "bfs_concurrent": ("cost[first + k] = (int)level", "cost[first + k] = (int)level + 1"),
    "cfd_concurrent": ("factors[i] * part", "factors[i] * part * (i < first + count - 1)"),
    "gaussian_concurrent": ("i < last && j == t", "i + 1 < last && j == t"),
    "kmeans_concurrent": ("membership[i] = nearest", "membership[i] = i == n - 1 ? (nearest + 1) % (int)k : nearest"),
}
"""A kernel of each that is wrong in the last item of the GPU's part; all of it in bfs."""


def turns(strategy: str) -> bool:
    """Whether a strategy can be used, and its memory by one agent at a time."""
    info, _ = opencl()
    chosen = STRATEGIES[strategy]
    return not unavailable(chosen, info) and bool(why_not_at_once(chosen, info))


def divided(name: str, division: Division) -> App:
    app = all_apps()[name]
    made = app(app.sizes["tiny"])
    made.division = division
    return made


def test_four_applications_divide_their_work() -> None:
    assert sorted(WRONG) == DIVIDED


@pytest.mark.parametrize(
    ("strategy", "shares"), matrix([("explicit", SHARES[:3]), ("explicit", SHARES), ("svm-fine", SHARES)])
)
@pytest.mark.parametrize("name", DIVIDED)
def test_every_share_gives_the_right_result(name: str, strategy: str, shares: Sequence[float]) -> None:
    app = all_apps()[name]
    for share, in_turns in zip(shares, itertools.cycle((False, True))):
        division = Division(share, 1, in_turns)
        made = app(app.sizes["tiny"])
        run = run_tiny(app, strategy, instance=made, division=division)
        assert run.error == "", division
        assert abs(made.gpu_share_reached - share) <= (0.1 if name == "bfs_concurrent" else 0.004)
        assert len(run.iterations) > 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("strategy", [s for s in strategies() if turns(s)])
@pytest.mark.parametrize("name", DIVIDED)
def test_agents_take_turns_in_memory_that_only_one_may_use(name: str, strategy: str) -> None:
    for share in SHARES:
        assert run_tiny(all_apps()[name], strategy, division=Division(share, 2, in_turns=True)).error == "", share


@pytest.mark.parametrize("share", matrix([0.75, 0.21, 1.0], 1))
@pytest.mark.parametrize("name", DIVIDED)
def test_a_wrong_kernel_is_detected_at_every_share(name: str, share: float) -> None:
    assert run_tiny(all_apps()[name], mutation=WRONG[name], division=Division(share)).error


def test_the_gpu_does_nothing_at_share_0() -> None:
    for name in DIVIDED:
        assert run_tiny(all_apps()[name], mutation=WRONG[name], division=Division(0.0)).error == ""


def test_every_point_is_summed_and_every_sum_written() -> None:
    for share in (*SHARES, 0.5, 0.001, 0.999):
        made = divided("kmeans_concurrent", Division(share))
        assert isinstance(made, KmeansConcurrent)
        (cut, n, piece, pieces), (first, last, least, end) = made.shares()
        assert (first, last, n, least, end, pieces) == (0, cut, made.n, 0, piece, PIECES)
        assert (cut > 0) == (piece > 0)
        assert (cut < n) == (piece < PIECES)


def app(out: Path, *words: str) -> list[Record]:
    done = call("app", *words, "--device", "opencl:0", "--out", out, drawn=True)
    assert done.returncode == 0, done.stderr
    (out / "told").write_text(done.stdout)
    return sorted(load_results(out).records, key=lambda r: json.dumps(r.factors))


@pytest.mark.exhaustive
def test_best_share_is_found_and_said(tmp_path: Path) -> None:
    options = ("--strategy", "svm-fine", "--size", "tiny", "--repeat", "2", "--set", "gpu_share=best,0.30")
    best, fixed = app(tmp_path / "out", "gaussian_concurrent", *options)
    assert (fixed.status, fixed.verified, fixed.factors["gpu_share"]) == ("ok", True, 0.3)
    assert fixed.counters["ran_share"] == pytest.approx(0.3, abs=0.004)
    assert fixed.counters["ran_schedule"] == "concurrent"
    assert "best_share" not in fixed.counters
    assert (best.status, best.verified) == ("ok", True)
    curve = {name: v for name, v in best.counters.items() if name.startswith("share_")}
    assert {f"share_{share}_ms" for share in ("0", "0.25", "0.5", "0.75", "1")} <= set(curve)
    assert best.counters["search_complete"] is True
    assert 7 <= len(curve) <= 9
    winner = best.counters["best_share"]
    assert curve[f"share_{winner:g}_ms"] == min(curve.values())
    assert best.counters["ran_share"] == pytest.approx(winner, abs=0.004)
    told = " ".join((tmp_path / "out/told").read_text().split())
    assert "svm-fine of gaussian_concurrent: " in told
    assert "the GPU alone" in told
    page = (tmp_path / "out/report.html").read_text()
    assert "ring marks the best" in page


def test_agents_work_in_turns_only_where_asked_or_needed() -> None:
    info, _ = opencl()
    kind = all_apps()["bfs_concurrent"]
    experiment = Application(kind)
    for strategy, schedule, expected in (
        ("explicit", "", False),
        ("explicit", "concurrent", False),
        ("explicit", "lockstep", True),
        ("buffer", "", True),
        ("buffer", "lockstep", True),
    ):
        factors = Factors({"app": kind.name, "strategy": strategy, "size": "tiny"})
        if schedule:
            factors["schedule"] = schedule
        assert experiment.skip(factors, info) is None
        assert divide(kind, factors, STRATEGIES[strategy], info).in_turns == expected, (strategy, schedule)
    asked = Factors({"app": kind.name, "strategy": "buffer", "size": "tiny", "schedule": "concurrent"})
    assert "only one may access" in str(experiment.skip(asked, info))


@pytest.mark.exhaustive
def test_schedule_is_lockstep_where_agents_may_not_work_at_once(tmp_path: Path) -> None:
    options = ("--strategy", "buffer", "--size", "tiny", "--repeat", "1")
    (record,) = app(tmp_path / "out", "bfs_concurrent", *options)
    assert (record.status, record.verified, record.counters["ran_schedule"]) == ("ok", True, "lockstep")
    asked, turns = app(tmp_path / "asked", "bfs_concurrent", *options, "--set", "schedule=concurrent,lockstep")
    assert asked.status == "skipped"
    assert "only one may access" in asked.reason
    assert (turns.status, turns.verified, turns.counters["ran_schedule"]) == ("ok", True, "lockstep")
