"""Which strategies are apart, which are equals, and what an advice comes to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firsttouch.advice.advisor import advise
from firsttouch.advice.answer import Absent, StrategyRow, Turn
from firsttouch.advice.verdict import often_of, turns_of, verdict_of, with_same
from firsttouch.apps import all_apps
from firsttouch.model.terms import Term

RESULTS = Path(__file__).parents[2] / "results"
GIB = 1 << 30


def term(what: str, ms: float, spread: float = 0.02, phase: str = "compute") -> Term:
    return Term(phase, what, 1, 1, ms, ms * (1 - spread), ms * (1 + spread), ())


def row(strategy: str, *terms: Term, **more: Any) -> StrategyRow:
    ms, low, high = (sum(getattr(t, part) for t in terms) for part in ("ms", "low", "high"))
    return StrategyRow(strategy, ms, low, high, [*terms], **more)


def measured(strategy: str, ms: float, spread: float = 0.0) -> StrategyRow:
    return StrategyRow(strategy, ms, ms * (1 - spread), ms * (1 + spread), [], measured=True)


def verdict(*rows: StrategyRow, size: int = GIB) -> tuple[str, tuple[str, ...]]:
    found = verdict_of(rows, size, turns_of(rows, "", []))
    return found.kind, found.strategies


COMMON = term("first touch", 100.0, 0.5)


def test_what_strategies_share_does_not_hide_what_they_differ_in() -> None:
    more = row("managed+advise", COMMON, term("advice", 50.0))
    assert verdict(row("managed", COMMON), more) == ("take", ("managed",))
    assert verdict_of([row("managed", COMMON), more], GIB, []).next_ms == pytest.approx(24.5)


def test_equals_are_named_the_simplest_to_write_first() -> None:
    rows = row("explicit+pinned", term("a", 100.0)), row("managed", term("b", 105.0)), row("pinned", term("c", 300.0))
    assert verdict(*rows) == ("any", ("managed", "explicit+pinned"))
    # what is told apart by less than a tenth is an equal too, and what is far slower is none
    assert verdict(row("explicit", COMMON), row("managed", COMMON, term("b", 9.0)))[1] == ("managed", "explicit")
    assert verdict(row("explicit", COMMON), row("managed", COMMON, term("b", 30.0)))[1] == ("explicit",)


def test_a_wide_range_is_no_answer() -> None:
    wide = row("pinned", term("across the link", 200.0, 0.9))
    assert verdict(row("managed", term("a", 100.0)), wide) == ("not known", ("managed",))
    (turn,) = turns_of([row("managed", term("a", 100.0)), wide], "CALL", [])
    assert (turn.kind, turn.others, turn.run) == ("ranges", ("pinned",), "CALL")


def test_what_has_no_time_and_may_be_faster_leaves_it_open() -> None:
    rows = [row("managed", term("a", 100.0)), row("pinned", term("b", 300.0))]
    turns = turns_of(rows, "", [Absent("registered", "no price", "CALL", perhaps_faster=True)])
    assert turns == [Turn("no time", "managed", ("registered",), run="CALL")]
    assert verdict_of(rows, GIB, turns).kind == "not known"


def test_measured_times_are_apart_by_their_intervals_and_single_runs_by_a_twentieth() -> None:
    assert verdict(measured("managed", 100, 0.01), measured("explicit", 120, 0.01)) == ("take", ("managed",))
    assert verdict(measured("explicit", 100, 0.1), measured("managed", 115, 0.1)) == ("any", ("managed", "explicit"))
    assert verdict(measured("explicit", 100), measured("managed", 104), measured("pinned", 130)) == (
        "any",
        ("managed", "explicit"),
    )


def test_an_estimate_is_no_equal_of_a_measurement() -> None:
    rows = [row("managed+prefetch", term("a", 95.0, 0.2)), measured("managed", 100, 0.01)]
    turns = turns_of(rows, "CALL", [])
    assert turns == [Turn("estimates", "managed", ("managed+prefetch",), run="CALL --strategy managed+prefetch")]
    found = verdict_of(rows, GIB, turns)
    assert (found.kind, found.strategies) == ("take", ("managed",))


def test_strategies_of_the_same_terms_are_one() -> None:
    rows = with_same([row("managed+both", COMMON), row("managed", COMMON), row("pinned", COMMON, term("b", 80.0))])
    assert [r.same_as for r in rows] == ["managed", "", ""]
    assert verdict_of(rows, GIB, turns_of(rows, "", [])).strategies == ("managed",)


def often(*rows: tuple[StrategyRow, float]) -> tuple[tuple[str, ...], int]:
    from dataclasses import replace

    with_further = [replace(r, further_ms=ms) for r, ms in rows]
    found = often_of(with_further, {r.strategy: [term(f"again {r.strategy}", ms)] for r, ms in rows})
    assert found is not None
    return found.strategies, found.iterations


def test_many_iterations_are_another_question() -> None:
    managed, pinned = row("managed", term("a", 100.0)), row("explicit+pinned", term("b", 500.0))
    names, iterations = often((managed, 20.0), (pinned, 5.0))
    assert names == ("explicit+pinned",)
    assert 100 + (iterations - 1) * 20 > 500 + (iterations - 1) * 5
    assert 100 + (iterations - 2) * 20 <= 500 + (iterations - 2) * 5
    assert often((managed, 5.0), (pinned, 20.0)) == (("managed",), 0)
    assert often((managed, 5.0), (pinned, 5.1))[1] == 0  # not told apart


@pytest.mark.parametrize(
    "asked",
    [
        {"pattern": "generate", "size": 8192},
        {"pattern": "iterate", "size": "60KiB"},
        {"pattern": "sparse", "size": 4096, "sets": {"passes": 10}},
        {"app": "quantum_volume", "size": "tiny"},
    ],
)
def test_nothing_is_taken_for_toys(asked: dict[str, Any]) -> None:
    assert advise([RESULTS / "h200-standard"], apps=all_apps(), **asked).verdict.kind == "too little"


def test_a_few_bytes_that_are_used_in_turn_often_do_matter() -> None:
    advice = advise([RESULTS / "h200-standard"], pattern="alternate", size=8192, sets={"kernels": 1000})
    assert advice.verdict.kind != "too little"


@pytest.mark.parametrize("app", ["hotspot", "gemm", "bfs", "srad"])
def test_iterations_that_are_asked_for_agree_with_the_number_from_which_another_is_better(app: str) -> None:
    def asked(iterations: int | None) -> Any:
        return advise([RESULTS / "h200-standard"], app=app, size="1GiB", iterations=iterations, apps=all_apps())

    once = asked(None)
    assert once.often is not None
    at = once.often.iterations
    assert at > 2
    first, other = once.verdict.strategies[0], once.often.strategies[0]
    for iterations, fewer, more in ((at - 1, first, other), (at, other, first)):
        times = {r.strategy: r.ms for r in asked(iterations).strategies}
        assert times[fewer] < times[more]
    one = asked(1)
    assert [(r.strategy, r.ms) for r in one.strategies] == [(r.strategy, r.ms) for r in once.strategies]
