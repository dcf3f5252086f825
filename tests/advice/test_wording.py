"""The sentences of an advice say no more than its times show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from firsttouch.advice.advisor import advise
from firsttouch.advice.answer import Advice, StrategyRow
from firsttouch.advice.output import answer_in_words
from firsttouch.advice.verdict import turns_of, verdict_of
from firsttouch.advice.wording import sentences_of
from firsttouch.apps import all_apps
from firsttouch.model.terms import Term

RESULTS = Path(__file__).parents[2] / "results"


def row(name: str, *parts: float, spread: float = 0.02, phase: str = "compute", what: str = "part") -> StrategyRow:
    """An estimated strategy with a term of so many ms for each part."""
    terms = [
        Term(phase, f"{what} {n}", 1, 1, ms, ms * (1 - spread), ms * (1 + spread), ()) for n, ms in enumerate(parts)
    ]
    return StrategyRow(name, *(sum(getattr(t, part) for t in terms) for part in ("ms", "low", "high")), terms)


def once(name: str, ms: float) -> StrategyRow:
    return StrategyRow(name, ms, ms, ms, [], measured=True)


def answer(*rows: StrategyRow, size: int = 1 << 30) -> list[str]:
    turns = turns_of(rows, "", [])
    verdict = verdict_of(rows, size, fastest_known=True, predicted=False)
    return sentences_of(Advice("cuda:0", "a GPU", "gemm", size, "", list(rows), [], verdict, turns=turns))


def test_most_of_it_is_above_half() -> None:
    first = answer(row("managed", 50, 40), row("explicit", 300, 200, 110))[1]
    assert first == "Most of it is part 0 (50 ms); the largest part of explicit: part 0 (300 ms)."
    assert answer(row("managed", 44, 33, 23), row("pinned", 300))[1].startswith(
        "The largest part of it is part 0 (44 ms)"
    )


def test_parts_as_large_as_the_largest_are_named_too() -> None:
    text = answer(row("managed", 40, 39, 1), row("explicit", 300, 20))[1]
    assert text.startswith("The largest parts of it are part 0 (40 ms) and part 1 (39 ms); most of explicit: part 0")


def test_a_part_is_summed_over_the_phases() -> None:
    both = row("managed", 30), row("managed", 30, phase="readback")
    twice = StrategyRow("managed", 100, 99, 101, [*both[0].terms, *both[1].terms, *row("x", 40, what="other").terms])
    assert "Most of it is part 0 (60 ms)." in answer(twice, row("pinned", 300))


def test_ties_are_all_named_and_nothing_is_taken_where_nothing_is_apart() -> None:
    two = answer(row("managed", 100), row("registered", 101), row("pinned", 103), row("explicit", 300))[0]
    assert two.startswith("Take managed for gemm with 1 GiB of buffers: it adds an estimated 100 ms, explicit 300 ms;")
    assert two.endswith("not told apart from it: registered and pinned.")
    none = answer(row("managed", 100, spread=0.5), row("explicit", 120), row("pinned", 140))[0]
    assert none.startswith(
        "For gemm with 1 GiB of buffers, managed, explicit and pinned are not told apart: managed adds"
    )
    # single runs have no interval
    single = answer(once("managed", 100), once("pinned", 104), once("explicit", 106))[0]
    assert single == (
        "Take managed for gemm with 1 GiB of buffers: it took 100 ms (one run), explicit 106 ms (one run); not told "
        "apart from it: pinned."
    )


def test_an_estimate_beside_a_measurement_is_called_one() -> None:
    known = StrategyRow("explicit", 120, 118, 122, row("explicit", 120).terms, measured=True)
    assert answer(row("managed", 50), known)[0].endswith("it is estimated to take 50 ms, explicit took 120 ms.")
    taken = StrategyRow("managed", 50, 49, 51, [], measured=True)
    assert answer(taken, row("explicit", 120))[0].endswith("it took 50 ms, explicit is estimated to take 120 ms.")


def test_what_is_kept_is_said_with_its_ties_and_bounds() -> None:
    new = row("explicit", 60, what="copy back into new pages,")
    best = StrategyRow("explicit", 90, 88, 92, [*new.terms, *row("", 30).terms])
    other = [StrategyRow(n, 400, 398, 402, row(n, ms).terms) for n, ms in (("pinned", 10.0), ("registered", 10.1))]
    kept = (
        "If the program keeps its buffers and repeats this work, pinned is better: it adds an estimated 10 ms each time"
    )
    assert answer(best, *other)[-1] == f"{kept}, explicit at least 30 ms; not told apart from it: registered."
    # nothing is better by less than a call may vary, nor where intervals overlap
    few = StrategyRow("pinned", 400, 398, 402, row("pinned", 0.002).terms)
    assert not any("keeps" in text for text in answer(row("managed", 0.006), few, size=1 << 20))
    wide = StrategyRow("pinned", 400, 398, 402, row("pinned", 20, spread=0.9).terms)
    assert not any("keeps" in text for text in answer(row("managed", 30), wide))


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
    (first, *_) = sentences_of(advise([RESULTS / "h200-standard"], apps=all_apps(), **asked))
    assert re.fullmatch(
        r"For .*, there is too little data for the memory method to matter: \S+ adds an estimated [\d.]+ [nu]s, .*",
        first,
    )


def test_a_few_bytes_that_are_used_in_turn_often_do_matter() -> None:
    advice = advise([RESULTS / "h200-standard"], pattern="alternate", size=8192, sets={"kernels": 1000})
    assert answer_in_words(advice)[0].startswith("Take ")
    assert "in turn, 1,000 times" in answer_in_words(advice)[0]
