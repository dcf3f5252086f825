"""Advice about a traced program: what memory adds to it as it is, and under each strategy, with bounds by what kernels
use, and what to change in its source.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from firsttouch.advice.advisor import ranked
from firsttouch.advice.answer import Advice, CopyCheck, KernelEstimate, StrategyRow, TracedAdvice
from firsttouch.advice.apis import words_of
from firsttouch.advice.by_use import ByUse, as_it_is, bounds_by_use, sums, turns_by_use
from firsttouch.advice.edits import edits
from firsttouch.advice.least import timed_launches, why_only_least
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.advice.traced_wording import is_good_enough, is_unclear, not_priced, others_of
from firsttouch.advice.verdict import fastest_of, verdict_of
from firsttouch.base.errors import UsageError
from firsttouch.model.as_it_is import NAME, copy_times
from firsttouch.model.costs import Time
from firsttouch.model.kernels import kernel_bytes, scaled_time
from firsttouch.model.platform import MissingValue
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.prices import Direction, Prices
from firsttouch.model.ranges import OF_TRACES
from firsttouch.model.terms import Term
from firsttouch.profile.program_names import program_name
from firsttouch.program.layout import used_blocks
from firsttouch.program.program import Program
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import MANAGED_KINDS, TracedLaunch, TracedRun
from firsttouch.records.text import count

FITTING = 1.3
"""Copies whose traced and priced times are farther apart than this are said not to fit."""
_WAYS: tuple[tuple[Direction, str], ...] = (("h2d", "in"), ("d2h", "back"))


@dataclass(frozen=True)
class TracedProgram:
    """A process of a profile. title: of the device that it used, '' if unknown."""

    run: TracedRun
    program: Program
    found: PortFindings
    places: Places
    title: str


def advise_traced(traced: TracedProgram, prices: Prices) -> Advice:
    """Raises UsageError if the program copies nothing, or no strategy is estimated for it."""
    run, program, found = traced.run, traced.program, traced.found
    name = name_of_command(found)
    if not found.copies:
        raise UsageError(
            f"{name} copies nothing between host and device, so there are no copies that a strategy could save"
        )
    withheld = partial(why_only_least, program, traced.title, prices)
    words = words_of(run.apis)
    advice = ranked(program, name, program.nbytes, prices, iterations=1, withheld=withheld, api=words)
    own_terms, why_not_priced = _as_it_is(run, program, prices)
    times = ByUse(
        program, prices, {r.strategy: r.terms for r in advice.strategies} | ({NAME: own_terms} if own_terms else {})
    )
    bounds = bounds_by_use(times, [row.strategy for row in advice.strategies])
    advice.strategies = [replace(r, low=b.low, high=b.high) for r, b in zip(advice.strategies, bounds, strict=True)]
    advice.turns = [turn for turn in advice.turns if turn.kind != "ranges"]  # bounds by use are wider
    advice.level = OF_TRACES.level
    decided = [turn for turn in advice.turns if turn.kind != "bounds"]  # no measurement of a trace narrows these
    verdict, best = verdict_of(advice.strategies, advice.size, decided), fastest_of(advice.strategies)
    equals = [name for name in verdict.strategies if name != best.strategy]
    advice.verdict = replace(verdict, strategies=(best.strategy, *equals))  # it exists: simplicity matters less
    mine = StrategyRow(NAME, *sums(own_terms), own_terms) if own_terms else None
    if is_unclear(mine, best):
        advice.verdict = replace(advice.verdict, kind="not known")
    rows = sorted([best, *(r for r in advice.strategies if r is not best), *([mine] if mine else ())], key=_time)
    answer = TracedAdvice(
        profile=found.directory,
        process=found.pid,
        command=name,
        title=traced.title,
        apis=[*run.apis],
        as_it_is=mine,
        saved_bytes=found.saved.bytes or None,
        bounds=bounds,
        turns=turns_by_use(program, times, [row.strategy for row in rows]),
        check=checks(program, prices) if traced.title == prices.device.title else [],
        edits=[]
        if mine and is_good_enough(mine, best)
        else edits(run, found, traced.places, STRATEGIES[best.strategy]),
        assumed=[*program.assumptions],
        unseen=[*others_of(found), *found.lacking, *found.unseen],
        kernel_ms=1e3 * sum(run.seconds(step) or 0.0 for step in run.steps if isinstance(step, TracedLaunch)),
        kernels=kernels_there(program, traced.title, prices),
    )
    advice.traced = replace(answer, not_priced=not_priced(run, found, answer, why_not_priced))
    return advice


def name_of_command(found: PortFindings) -> str:
    """The name of a program, without its folder."""
    return program_name(found.command) or "the program"


def _as_it_is(run: TracedRun, program: Program, prices: Prices) -> tuple[list[Term] | None, str]:
    """The terms of the program as it is; or None and why it has none. What the driver did with memory that is managed
    already, a trace tells in events, which are not priced.
    """
    used = used_blocks(run)
    if managed := sum(block.kind in MANAGED_KINDS and block.number in used for block in run.blocks):
        return None, f"{count(managed, 'buffer is', 'buffers are')} already managed"
    return as_it_is(program, prices)


def _time(row: StrategyRow) -> float:
    return row.ms


def kernels_there(program: Program, title: str, prices: Prices) -> KernelEstimate | None:
    """What the traced kernels take on the machine of a platform. None for prices of a run, or if the rates of the GPU
    on which they were traced are not known.
    """
    if not isinstance(prices, PlatformPrices):
        return None
    whole = Time()
    for launch, times in timed_launches((*program.initialise, *program.compute)):
        with suppress(MissingValue):
            ns = 1e9 * (launch.seconds or 0.0)
            if (time := scaled_time(prices.platform, title, ns, kernel_bytes(launch))) is not None:
                whole += time.times(times)
                continue
        return None
    return KernelEstimate(*(1e-6 * v for v in (whole.value, whole.low, whole.high)))


def checks(program: Program, prices: Prices) -> list[CopyCheck]:
    """What the copies of each direction took in the trace, beside their prices. Those without a time are left out."""
    found = []
    for way, direction in _WAYS:
        number, size, took, priced = copy_times(program, prices, way)
        if took and priced.value:
            fits = max(took, priced.value) <= FITTING * min(took, priced.value)
            found.append(CopyCheck(direction, size, number, 1e-6 * took, 1e-6 * priced.value, fits))
    return found
