"""The words of an advice: one sentence for each kind of verdict, and for each thing that would turn it."""

from __future__ import annotations

from typing import Any

import pytest

from firsttouch.advice.answer import Advice, AdviceVerdict, OftenAdvice, StrategyRow, Turn
from firsttouch.advice.wording import alike_names, sentences_of, turn_text

GIB = 1 << 30


def row(strategy: str, ms: float, further: float | None = None, **more: Any) -> StrategyRow:
    return StrategyRow(strategy, ms, 0.9 * ms, 1.1 * ms, [], further_ms=further, **more)


ROWS = [row("managed", 100.0, 20.0), row("explicit", 300.0, 50.0), row("pinned", 700.0, 5.0)]


def words(verdict: AdviceVerdict, rows: list[StrategyRow] | None = None, **more: Any) -> list[str]:
    size = more.pop("size", GIB)
    advice = Advice("cuda:0", "a GPU", "gemm", size, "", rows or ROWS, [], verdict, level="8 of 10", **more)
    return [str(statement) for statement in sentences_of(advice)]


@pytest.mark.parametrize(
    ("verdict", "more", "first"),
    [
        (AdviceVerdict("take", ("managed",), 3), {},
         "Use managed for gemm with 1 GiB of buffers: it adds an estimated 100 ms, explicit 300 ms."),
        (AdviceVerdict("any", ("managed", "pinned"), 3), {},
         "Use managed or pinned for gemm with 1 GiB of buffers; managed is simpler to write, and adds an estimated 100 "
         "ms, explicit 300 ms."),
        (AdviceVerdict("any", ("managed", "pinned", "explicit"), 3), {},
         "Use managed, pinned or explicit for gemm with 1 GiB of buffers; managed is the simplest to write, and adds "
         "an estimated 100 ms, explicit 300 ms."),
        (AdviceVerdict("too little", ("managed",), 3), {"size": 4096},
         "For gemm with 4 KiB of buffers, there is too little data for the memory method to matter: managed adds an "
         "estimated 100 ms, explicit 300 ms."),
        (AdviceVerdict("take", ("managed",), 3), {"iterations": 1000},
         "Use managed for 1,000 iterations of gemm with 1 GiB of buffers: it adds an estimated 100 ms, explicit 300 "
         "ms."),
        (AdviceVerdict("take", ("managed",), 3), {"on_processor": True},
         "On cuda:0, which is the processor itself, use managed for gemm with 1 GiB of buffers: it adds an estimated "
         "100 ms, explicit 300 ms."),
        (AdviceVerdict("take", ("managed",), 3), {"predicted": "predicted for gh200"},
         "Predicted for gh200: Use managed for gemm with 1 GiB of buffers: it adds an estimated 100 ms, explicit 300 "
         "ms."),
    ],
)  # fmt: skip
def test_the_first_sentence_of_each_verdict(verdict: AdviceVerdict, more: dict[str, Any], first: str) -> None:
    assert words(verdict, **more) == [first]


def test_many_iterations_have_their_own_answer() -> None:
    take = AdviceVerdict("take", ("managed",), 3, "explicit", 150.0)
    assert words(take, often=OftenAdvice(("pinned",), 42)) == [
        "For gemm with 1 GiB of buffers, use managed for up to 41 iterations, and pinned for 42 or more.",
        "First iteration: managed adds an estimated 100 ms, pinned 700 ms, explicit 300 ms. Each further one (inputs, "
        "kernels and results again, on the same buffers) adds 20 ms under managed, 5 ms under pinned and 50 ms under "
        "explicit.",
        "The next best, explicit, adds at least 150 ms more in 8 of 10 such estimates.",
    ]
    assert words(take, often=OftenAdvice(("managed",), 0))[1] == (
        "Each further iteration (inputs, kernels and results again, on the same buffers) adds 20 ms under managed and "
        "50 ms under explicit."
    )
    equals = AdviceVerdict("any", ("managed", "explicit"), 3)
    assert words(equals, often=OftenAdvice(("pinned",), 42))[0] == (
        "For gemm with 1 GiB of buffers, use managed or explicit for up to 41 iterations, and pinned for 42 or more; "
        "managed is simpler to write."
    )


def test_what_is_not_known_comes_first_with_the_command_that_tells() -> None:
    unknown = Turn("no time", "managed", ("registered",), run="firsttouch app gemm")
    assert words(AdviceVerdict("not known", ("managed",), 3), turns=[unknown]) == [
        "No clear answer for gemm with 1 GiB of buffers: the strategy registered has no estimate and may be faster; "
        "measure: firsttouch app gemm.",
        "By the estimates alone: use managed for gemm with 1 GiB of buffers: it adds an estimated 100 ms, explicit "
        "300 ms.",
    ]


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        (Turn("no time", "managed", ("a", "b")), "the strategies a and b have no estimate and may be faster."),
        (Turn("ranges", "managed", ("a",), run="CALL"),
         "a may be as fast as managed, since their estimates differ by less than the error of the estimates; measure: "
         "CALL."),
        (Turn("ranges", "managed", tuple("abcde")),
         "a, b, c and 2 more may be as fast as managed, since their estimates differ by less than the error of the "
         "estimates."),
        (Turn("small blocks", "managed", ("explicit",), 500.0, count=100),
         "the time of 100 round trips between kernels and the CPU through a small buffer is not in these results; with "
         "it, managed may add up to 500 ms, more than explicit."),
        (Turn("rounds", "managed", ("explicit",), 9.0, 7.0, count=60, assumed=12),
         "with 60 rounds of each loop whose length depends on data, instead of the assumed 12, explicit adds 7 ms and "
         "managed 9 ms."),
        (Turn("estimates", "managed", ("pinned",), run="CALL"),
         "pinned is only estimated, and may be faster than managed; measure: CALL."),
    ],
)  # fmt: skip
def test_what_would_turn_it(turn: Turn, text: str) -> None:
    assert turn_text(turn) == text


def test_measured_times_and_estimates_beside_them_are_called_so() -> None:
    known = StrategyRow("explicit", 120, 118, 122, [], measured=True)
    (first, *_) = words(AdviceVerdict("take", ("managed",), 2), [row("managed", 50.0), known])
    assert first.endswith(": it is estimated to take 50 ms, explicit took 120 ms.")
    once = [StrategyRow("managed", 100, 100, 100, [], measured=True), known]
    assert words(AdviceVerdict("take", ("managed",), 2), once)[0].endswith(
        ": it took 100 ms (one run), explicit 120 ms."
    )


def test_strategies_that_are_the_same_have_one_name() -> None:
    rows = [row("managed", 1.0), *(row(name, 1.0, same_as="managed") for name in ("managed+advise", "pinned"))]
    assert alike_names(rows[0], rows) == "managed, also +advise, pinned"
    assert alike_names(rows[1], rows) == "managed+advise"
