"""Advice about traced programs, made by hand: the order, bounds by what kernels use, the check, and what to edit."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tests.port.traces import PROGRAM, Calls
from tests.texts import assert_states

from firsttouch.advice.advisor import prices_of
from firsttouch.advice.answer import Advice, TracedAdvice
from firsttouch.advice.least import LATE, UNSEEN
from firsttouch.advice.output import answer, output
from firsttouch.advice.port.found import found
from firsttouch.advice.port.places import Places
from firsttouch.advice.traced import TracedProgram, advise_traced
from firsttouch.advice.traced_wording import shown_name
from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError
from firsttouch.cli.advised_trace import MOST_LINES, lines
from firsttouch.cli.output import WIDTH
from firsttouch.model.prices import Prices
from firsttouch.model.ranges import OF_TRACES
from firsttouch.profile import schema
from firsttouch.program.exact_run import ExactRun, UsedBlock, UsedPiece
from firsttouch.program.trace import TracedLaunch, TracedRun
from firsttouch.program.traced import program_of_trace
from firsttouch.records.predicted import is_predicted

RESULTS = Path(__file__).parents[2] / "results"
GPU = "NVIDIA H200"
OPTIONS = 800_000_000
"""Bytes of an array of Black-Scholes with 200 million options."""
NAMES = {
    (PROGRAM, line): schema.Caller(file=PROGRAM, offset=line, function="main", source="/src/bs.cu", number=line)
    for line in range(300)
}


@cache
def prices(source: str) -> Prices:
    """Of a run, or of a platform."""
    named = source if is_predicted(source) else None
    return prices_of([] if named else [RESULTS / source], named)[0]


def black_scholes(nbytes: int = OPTIONS, copies: float = 1.0, kernels: int = 64) -> Calls:
    """Three arrays in, two out. copies: how many times as long they take as the prices say."""
    calls = Calls()
    host, device = [calls.host(nbytes) for _ in range(5)], [calls.block(nbytes, line=168 + n) for n in range(5)]
    for n in range(3):
        calls.copy(device[n], host[n], nbytes, seconds=0.1176 * copies, line=193 + n)
    for _ in range(kernels):
        calls.launch(*device, seconds=1e-3, line=206)
    calls.wait()
    for n in (3, 4):
        calls.copy(host[n], device[n], nbytes, seconds=0.44 * copies, line=232 + n)
    return calls


def advised(
    calls: Calls,
    *,
    source: str = "h200-standard",
    command: str = "/opt/BlackScholes",
    title: str = GPU,
    share: float | None = None,
) -> Advice:
    """share: what a second run told that each launch uses of each block."""
    run = calls.run
    about = found(run, NAMES, directory="port-1", command=[command], status=0)
    program = program_of_trace(run, exact=None if share is None else used(run, share))
    traced = TracedProgram(run, program, about, Places(NAMES), title)
    return advise_traced(traced, prices(source))


def used(run: TracedRun, share: float) -> ExactRun:
    sizes = {block.number: int(share * block.nbytes) for block in run.blocks}
    blocks = tuple(UsedBlock(n, (UsedPiece(0, size, n < 3, n >= 3),)) for n, size in sizes.items())
    launches = [number for number, step in enumerate(run.steps) if isinstance(step, TracedLaunch)]
    return ExactRun(len(launches), dict.fromkeys(launches, blocks), len(launches), len(launches))


def about(advice: Advice) -> TracedAdvice:
    assert advice.traced is not None
    return advice.traced


@cache
def of_black_scholes() -> Advice:
    return advised(black_scholes())


def test_the_answer_compares_the_best_strategy_with_the_program_as_it_is() -> None:
    advice, traced = of_black_scholes(), about(of_black_scholes())
    assert traced.as_it_is is not None
    assert advice.verdict.strategies[0] == advice.strategies[0].strategy == "managed+prefetch"
    assert traced.as_it_is.ms == pytest.approx(next(r.ms for r in advice.strategies if r.strategy == "explicit"))
    facts = ("Use managed+prefetch", "1.25 s instead of the 2.54 s", "BlackScholes", "3.73 GiB less memory")
    assert_states(str(answer(advice)[0]), *facts)
    assert traced.saved_bytes == 5 * OPTIONS
    assert b'"firsttouch-advise/1"' in encode_json(output(advice))


def test_bounds_are_those_of_what_kernels_may_use() -> None:
    bounds = {b.strategy: b for b in about(of_black_scholes()).bounds}
    for name in ("explicit", "explicit+pinned", "managed+prefetch"):
        assert bounds[name].exact
        assert bounds[name].least_ms == bounds[name].assumed_ms
    managed = bounds["managed"]
    assert not managed.exact
    assert managed.least_ms is not None
    assert managed.low <= managed.least_ms < managed.assumed_ms <= managed.high


def test_what_a_second_run_told_leaves_nothing_to_turn_the_order() -> None:
    """On this machine the order turns at a quarter of what kernels are assumed to use."""
    few, most = (advised(black_scholes(), source="h100-quick", share=share) for share in (0.125, 0.75))
    assert [few.verdict.strategies[0], most.verdict.strategies[0]] == ["managed", "managed+prefetch"]
    for advice in (few, most):
        assert not about(advice).turns
        assert all(bounds.exact for bounds in about(advice).bounds)


def test_edits_name_lines_once_and_in_order() -> None:
    words = [(edit.what, edit.count, edit.lines) for edit in about(of_black_scholes()).edits]
    assert words == [
        ("allocate", 5, [f"bs.cu:{n}" for n in range(168, 173)]),
        ("drop", 5, ["bs.cu:193", "bs.cu:194", "bs.cu:195", "bs.cu:235", "bs.cu:236"]),
        ("check", 5, ["bs.cu:193", "bs.cu:194", "bs.cu:195", "bs.cu:235", "bs.cu:236"]),
        ("prefetch", 5, ["bs.cu:206"]),
    ]
    text = " ".join(" ".join(lines(of_black_scholes())).split())
    assert "(bs.cu:168-172); drop 5 copies (:193-195, 235-236); check" in text


@pytest.mark.parametrize(("copies", "fits"), [(1.0, True), (0.6, False), (1.6, False)])
def test_copies_that_took_another_time_than_the_prices_say_are_said(copies: float, fits: bool) -> None:
    advice = advised(black_scholes(copies=copies))
    assert [checked.fits for checked in about(advice).check] == [fits, fits]
    assert ("do not fit" in " ".join(lines(advice))) is not fits


def test_copies_of_another_gpu_are_not_checked() -> None:
    advice = advised(black_scholes(), title="NVIDIA H100")
    assert not about(advice).check
    assert "it was traced on NVIDIA H100, and the estimate is for NVIDIA H200" in " ".join(
        " ".join(lines(advice)).split()
    )


def test_the_share_is_said_at_which_the_order_turns() -> None:
    advice = advised(black_scholes(), source="h100-quick")
    (turn,) = about(advice).turns
    assert (turn.first, turn.second) == (advice.verdict.strategies[0], "managed")
    assert 0.2 < turn.share < 0.3
    assert_states(
        str(answer(advice)[1]), f"{100 * turn.share:.0f} %", "managed adds less time", "managed+prefetch", "--exact"
    )


def found_once(seconds: float | None = None) -> Calls:
    """A kernel that looks for something in an input once, in memory that can be registered in place."""
    calls = Calls()
    host, device, out = calls.host(OPTIONS), calls.block(OPTIONS, line=10), calls.block(4096, line=11)
    calls.copy(device, host, OPTIONS, line=12)
    calls.launch(device, out, kernel="_Z4findPKfPf", seconds=seconds, line=13)
    calls.copy(calls.host(4096), out, 4096, line=14)
    return calls


@pytest.mark.parametrize(("seconds", "certain"), [(None, False), (20e-3, False), (0.2e-3, True)])
def test_use_across_the_link_has_a_time_only_if_the_kernels_cannot_use_more(
    seconds: float | None, certain: bool
) -> None:
    """In 0.2 ms, a kernel takes its 800 MB from the GPU's memory no more than once; in 20 ms, often."""
    advice = advised(found_once(seconds))
    assert ("registered" in [row.strategy for row in advice.strategies]) is certain
    (absent,) = [a for a in advice.unavailable if a.strategy == "registered"] or [None]
    assert (absent is None) is certain
    if absent is not None:
        assert absent.perhaps_faster
        assert advice.verdict.kind == "not known"
        assert absent.reason == UNSEEN
        assert_states(str(answer(advice)[0]), advice.verdict.strategies[0])
        assert (absent.most_ms is None) is (seconds is None)
        row = [line for line in lines(advice) if line.startswith("registered ")]
        assert bool(row) is (absent.most_ms is not None)


@pytest.mark.parametrize(("title", "known"), [("NVIDIA H200", True), ("some GPU", False)])
def test_system_memory_has_bounds_on_a_machine_that_allows_it(title: str, known: bool) -> None:
    """A kernel of 1 ms takes less than 5 GB from the memory of an H200, which cross the link of a GH200 in 14 ms."""
    advice = advised(found_once(1e-3), source="model:gh200", title=title)
    (system,) = [a for a in advice.unavailable if a.strategy == "system"]
    assert system.least_ms is not None
    assert (system.most_ms is not None) is known
    if system.most_ms is not None:
        assert system.least_ms < system.most_ms < system.least_ms + 14


def test_a_byte_that_kernels_have_no_time_to_use_again_leaves_no_bounds() -> None:
    advice = advised(found_once(0.05e-3), source="model:gh200", title="NVIDIA H200")
    assert "system" in [row.strategy for row in advice.strategies]


def frames() -> Calls:
    """A video, of which each frame is copied to the same block: the CPU writes most of it after the first launch."""
    calls, frame = Calls(), 8 << 20
    video, device, out = calls.host(100 * frame), calls.block(frame, line=10), calls.block(4096, line=11)
    for number in range(100):
        calls.copy(device, video + number * frame, frame, line=12)
        calls.launch(device, out, line=13)
    calls.copy(calls.host(4096), out, 4096, line=14)
    return calls


def test_a_prefetch_of_what_the_cpu_writes_later_is_not_recommended() -> None:
    advice = advised(frames())
    assert {a.strategy for a in advice.unavailable if a.reason == LATE} == {
        "managed+prefetch",
        "managed+prefetch-overlap",
        "managed+both",
    }
    assert not any(a.reason == LATE for a in of_black_scholes().unavailable)
    assert "prefetch" not in str(answer(advice)[0])


def already_good() -> Calls:
    """A page-locked array that is copied before and after each kernel."""
    calls = Calls()
    host, device = calls.block(1 << 20, kind="pinned", line=9), calls.block(1 << 20, line=10)
    for _ in range(50):
        calls.copy(device, host, 1 << 20, host="pinned", line=12)
        calls.launch(device, line=13)
        calls.copy(host, device, 1 << 20, host="pinned", line=14)
    return calls


def test_a_program_that_no_strategy_makes_faster_is_left_as_it_is() -> None:
    advice = advised(already_good(), command="./fast")
    traced = about(advice)
    assert traced.as_it_is is not None
    assert traced.as_it_is.ms <= min(row.ms for row in advice.strategies)
    assert_states(str(answer(advice)[0]), "Leave fast")
    assert not traced.edits


def test_a_platform_prices_the_same_program_and_scales_its_kernels() -> None:
    advice = advised(black_scholes(), source="model:gh200")
    traced = about(advice)
    assert str(answer(advice)[0]).startswith("Predicted for gh200: ")
    assert traced.kernels is not None
    assert traced.kernels.low <= traced.kernels.ms <= traced.kernels.high
    assert about(of_black_scholes()).kernels is None
    assert about(advised(black_scholes(), source="model:gh200", title="some GPU")).kernels is None


def test_memory_that_is_managed_already_is_not_priced_as_it_is() -> None:
    calls = Calls()
    managed, device, host = calls.block(OPTIONS, kind="managed"), calls.block(OPTIONS), calls.host(OPTIONS)
    calls.copy(device, host, OPTIONS)
    calls.launch(managed, device)
    traced = about(advised(calls))
    assert traced.as_it_is is None
    assert any("1 buffer is already managed" in text for text in traced.not_priced)


def test_a_program_without_copies_gets_no_advice() -> None:
    calls = Calls()
    calls.launch(calls.block(4096))
    with pytest.raises(UsageError, match="copies nothing"):
        advised(calls)


WORDS = {"check": "exact", "left out": "exact", "edit": "exact", "assumed": "assumed", "unseen": "unseen"}


@pytest.mark.parametrize("make", [black_scholes, found_once, frames, already_good])
@pytest.mark.parametrize("source", ["h200-standard", "model:gh200", "model:mi300a"])
@pytest.mark.parametrize("width", ["60", "80", "100"])
def test_the_terminal_has_few_lines_and_each_number_its_word(
    make: Callable[[], Calls], source: str, width: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    advice = advised(make(), source=source, command="/x/evil\n\x1b[31m" + "x" * 500)
    text = lines(advice)
    assert len(text) <= MOST_LINES
    assert all(len(line) <= max(WIDTH, 400) and "\n" not in line for line in text)
    table = next(i for i, line in enumerate(text) if line.split()[:4] == ["time", "from", "to", "use"])
    rows = [shown_name(r.strategy) for r in (about(advice).as_it_is, *advice.strategies) if r and not r.same_as]
    assert [line.partition("  ")[0] for line in text[table + 1 : table + 3]] == rows[:2]
    words = WORDS | ({} if about(advice).check else {"check": "unseen"})
    for line in text[table + 1 :]:
        if (name := line.partition("  ")[0]) in rows:
            assert re.search(r"\b(known|assumed)\b", line)
        elif (name := line[:10].rstrip()) in words:
            assert line[10:].split()[0] == words[name]
    kinds = replace(about(advice), edits=[])
    assert kinds.assumed
    assert kinds.unseen


@pytest.mark.parametrize("source", ["h200-standard", "model:gh200", "model:mi300a"])
def test_a_range_is_at_least_as_wide_as_traced_programs_were_off(source: str) -> None:
    advice = advised(black_scholes(), source=source)
    assert advice.level == OF_TRACES.level
    for row in (about(advice).as_it_is, *advice.strategies):
        assert row is not None
        assert row.low <= (1 - OF_TRACES.share) * row.ms
        assert row.high >= (1 + OF_TRACES.share) * row.ms
    assert [(b.low, b.high) for b in about(advice).bounds] == [(r.low, r.high) for r in advice.strategies]
    assert any(OF_TRACES.level in line for line in lines(advice))
