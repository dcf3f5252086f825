"""The words of advice about a traced program."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from firsttouch.advice.answer import Advice, CopyCheck, StrategyRow, TracedAdvice
from firsttouch.advice.apis import words_of
from firsttouch.advice.edit import Edit
from firsttouch.advice.edits import joined_lines
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.advice.verdict import CALL_MS, SIMILAR, not_apart
from firsttouch.advice.wording import MOST, parts_of, turn_text
from firsttouch.base.units import format_size
from firsttouch.model.as_it_is import NAME, STAGED
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedCopy, TracedRun
from firsttouch.records.statements import Statement
from firsttouch.records.text import caption, count, first_few, percent, quantity

MOST_PARTS, MOST_ALIKE, _MOST_NAMED = 3, 3, 4
LEAST_PART = 0.02
"""The least share of a row's time of which a part is named."""
_FAMILIES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        ("first touch of .* by the CPU", "CPU's first touch"),
        ("first touch of new pages by the GPU", "GPU's first touch"),
        ("(copy back into new|first touch of host) pages", "results into new pages"),
        ("copy in", "copies in"),
        ("copy back", "copies back"),
        ("allocate", "allocate"),
        ("free", "free"),
        ("faults of the GPU", "GPU's faults"),
        ("faults of the CPU", "CPU's faults"),
        ("prefetch", "prefetch"),
        ("advice", "advice"),
        ("use of .* across the link", "access across the link"),
        ("round trips between kernels and the CPU", "round trips"),
    )
)


def family(term_name: str) -> str:
    """What a term is, whatever memory it is of, in few words."""
    for pattern, name in _FAMILIES:
        if pattern.match(term_name):
            return name
    return term_name


def sentences_of_traced(advice: Advice, traced: TracedAdvice) -> list[Statement]:
    """The answer in at most three sentences."""
    best, *alike = advice.verdict.strategies
    texts = [_answer(advice, traced, advice.row(best)), *turn_lines(traced)]
    depends = advice.verdict.kind == "not known" or (advice.turns and advice.turns[0].kind == "bounds")
    texts += [caption(turn_text(turn)) for turn in advice.turns[:1] if depends]
    if alike:
        texts.append(f"No clear difference from {best}: {first_few(alike, MOST_ALIKE)}.")
    return [Statement(text, advice.predicted) for text in texts[:MOST]]


def _answer(advice: Advice, traced: TracedAdvice, best: StrategyRow) -> str:
    program_row, name, adds = traced.as_it_is, traced.command, f"memory adds an estimated {quantity(best.ms, 'ms')}"
    strategy = words_of(traced.apis).named(best.strategy)
    use = "Use" if advice.verdict.kind != "not known" else "Of the strategies with an estimate, use"
    if program_row is None:
        return f"{use} {strategy} for {name}: {adds}; for the unchanged program there is no estimate."
    own_ms = quantity(program_row.ms, "ms")
    if is_good_enough(program_row, best):
        verb = "is no faster" if program_row.ms <= best.ms else "is hardly faster"
        return (
            f"Leave {name} unchanged: memory adds an estimated {own_ms}, and {best.strategy}, the best strategy, "
            f"{verb}: {quantity(best.ms, 'ms')}."
        )
    if is_unclear(program_row, best):
        return (
            f"No clear answer for {name}: memory adds an estimated {own_ms} to the unchanged program and "
            f"{quantity(best.ms, 'ms')} under {best.strategy}, a difference within the error of the estimates; measure "
            "both."
        )
    saved = ""
    if traced.saved_bytes and not STRATEGIES[best.strategy].duplicated:
        saved = f", with at most {format_size(traced.saved_bytes, 3)} less memory at the peak"
    return f"{use} {strategy}: {adds} instead of the {own_ms} of the unchanged {name}{saved}."


def is_good_enough(program_row: StrategyRow | None, best: StrategyRow) -> bool:
    """Whether the best strategy adds hardly less than the program as it is."""
    return program_row is not None and program_row.ms <= best.ms * SIMILAR + CALL_MS


def is_unclear(program_row: StrategyRow | None, best: StrategyRow) -> bool:
    """Whether the best strategy adds less by no more than the error of the estimates."""
    if program_row is None or is_good_enough(program_row, best):
        return False
    return bool(not_apart([program_row], best))


def turn_lines(traced: TracedAdvice) -> list[str]:
    """Where the order turns, in sentences."""
    return [
        f"If kernels access less than {percent(turn.share)} of the bytes that they are assumed to access, "
        f"{_named(turn.second, traced)} adds less time than {_named(turn.first, traced)} (profile with --exact to "
        "find out)."
        for turn in traced.turns
    ]


def shown_name(name: str) -> str:
    """The name of a row of the table: of a strategy, or of the program without changes."""
    return "unchanged" if name == NAME else name


def _named(name: str, traced: TracedAdvice) -> str:
    return f"the unchanged {traced.command}" if name == NAME else name


def part_texts(row: StrategyRow) -> list[str]:
    """The largest parts of a row, each with its time."""
    sums: dict[str, float] = defaultdict(float)
    for family_name, ms in parts_of(row).items():
        sums[family(family_name)] += ms
    parts = sorted(sums.items(), key=lambda part: -part[1])
    parts = [(family_name, ms) for family_name, ms in parts if ms >= max(LEAST_PART * row.ms, CALL_MS)]
    return [f"{family_name} {quantity(ms, 'ms')}" for family_name, ms in parts[:MOST_PARTS]]


def check_text(checked: CopyCheck) -> str:
    """What copies of one direction took in the trace, beside their price."""
    took, priced = quantity(checked.traced_ms, "ms"), quantity(checked.priced_ms, "ms")
    verdict = "" if checked.fits else ": these results do not fit this trace"
    copies = count(checked.count, "copy", "copies")
    return f"{copies} {checked.direction} took {took} in the trace, estimated {priced}{verdict}"


def edit_texts(edits: Sequence[Edit]) -> list[str]:
    """Each change with its lines. The name of a file is left out where the change before ends with it."""
    texts, file = list[str](), ""
    for edit in edits:
        joined, file = joined_lines(edit.lines, file)
        texts.append(f"{edit.text} ({joined})")
    return texts


# ------------------------------------------------------------------------------------------------ what is not known


def others_of(found: PortFindings) -> list[str]:
    """The other traced processes, in a phrase."""
    if not (others := [pid for pid in found.others if pid != found.pid]):
        return []
    named = first_few([*map(str, others)], _MOST_NAMED)
    return [f"other traced processes, {named} (--process); this is process {found.pid}"]


def not_priced(run: TracedRun, found: PortFindings, traced: TracedAdvice, why: str) -> list[str]:
    """What is in no time, in phrases. why: why the program as it is has none, or ''."""
    texts = []
    if traced.kernel_ms:
        elsewhere = ""
        if (kernels := traced.kernels) is not None:
            low, high = quantity(kernels.low, "ms"), quantity(kernels.high, "ms")
            elsewhere = f" on {traced.title}, an estimated {low if low == high else f'{low} to {high}'} here"
        texts.append(f"kernels ({quantity(traced.kernel_ms, 'ms')} in the trace{elsewhere})")
    streams = {step.call.stream for step in run.steps if isinstance(step, TracedCopy)}
    if len(streams) > 1:
        texts.append(f"overlap of copies on {len(streams)} streams")
    if kept := sum(row.copies for row in found.copy_calls if row.fate == "kept"):
        texts.append(f"in unified memory, {count(kept, 'copy', 'copies')} kept with the host array")
    texts.append("host arrays that are never copied")
    return [*texts, *([f"the unchanged program ({why})"] if why else ())]


def is_assumed_row(traced: TracedAdvice, strategy: str) -> bool:
    """Whether what a row says depends on what kernels are assumed to use."""
    return any(bounds.strategy == strategy and not bounds.exact for bounds in traced.bounds)


def unchecked_text(advice: Advice) -> str:
    """Why no copies are compared with their prices."""
    traced = advice.traced
    assert traced is not None
    if traced.title != advice.title:
        return f"none: it was traced on {traced.title or 'an unknown device'}, and the estimate is for {advice.title}"
    return f"none: the trace has no times of copies of {format_size(STAGED)} or more, and only the GPU's part of others"
