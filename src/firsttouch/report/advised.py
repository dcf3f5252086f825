"""The page of advice about a traced program: the answer, what each strategy adds by term, the edits, and what is not
known. Every text is escaped by the template.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from firsttouch.advice.answer import Advice, StrategyRow, TracedAdvice
from firsttouch.advice.apis import words_of
from firsttouch.advice.profiled import advise_profile
from firsttouch.advice.traced_wording import (
    check_text,
    family,
    is_assumed_row,
    sentences_of_traced,
    shown_name,
    unchecked_text,
)
from firsttouch.advice.wording import alike_names, parts_of
from firsttouch.base.encoding import encode_text
from firsttouch.base.errors import UsageError
from firsttouch.base.files import write_atomically
from firsttouch.base.units import format_size
from firsttouch.profile.reading import profiles_in
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.figures import Stack
from firsttouch.records.schema import Record
from firsttouch.records.text import quantity
from firsttouch.report import profile as profile_page
from firsttouch.report.draw import with_narrow
from firsttouch.report.drawing import DrawingContext, DrawnFigure
from firsttouch.report.palette import Palette
from firsttouch.report.ported import EDIT_HEADS, edit_rows
from firsttouch.report.stack import draw
from firsttouch.report.svg import to_svgs
from firsttouch.report.templates import filled_in

PAGE = profile_page.ADVICE_PAGE
LOW, HIGH = "least", "most"
"""The counters that are the range of a strategy."""
TERMS = Stack(
    bounds=(LOW, HIGH),
    x="strategy",
    series="{}_ms",
    title="What memory adds, by term",
    x_title="strategy",
    y_title="estimated time",
    titles={"series": "term"},
)


@dataclass(frozen=True)
class AdviceTable:
    """A part of the page. notes: sentences above the table."""

    anchor: str
    title: str
    heads: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    notes: Sequence[str] = ()


def render(advice: Advice, port: str = "") -> str:
    """The advice as one self-contained HTML page. port: the address of the program's own page, '' if there is none."""
    traced = _traced(advice)
    drawing = with_narrow(draw, TERMS, [*_bar_records(advice)], DrawingContext(None, Palette()))
    figures: list[DrawnFigure] = []
    if drawing is not None and drawing.spec is not None:
        drawing.notes.append(f"{advice.level} such times are within it.")
        figures = [DrawnFigure(drawing, *to_svgs([drawing.spec, drawing.narrow]))]
    words = words_of(traced.apis)
    every = [_edits(advice), _strategy_table(advice), _check(advice), _known(advice), _absent(advice), _terms(advice)]
    return filled_in(
        "advised.html.j2",
        title=f"Advice about {traced.command} on {advice.title}",
        where=f"Process {traced.process} of {traced.profile}, traced on {traced.title or 'an unknown device'}.",
        port=port,
        first=words.named(words.first),
        headlines=list(map(str, sentences_of_traced(advice, traced))),
        figures=figures,
        tables=[table for table in every if table.rows or table.notes],
    )  # fmt: skip


def _traced(advice: Advice) -> TracedAdvice:
    assert advice.traced is not None
    return advice.traced


def _all_rows(advice: Advice) -> list[StrategyRow]:
    """The program as it is, and the strategies."""
    program_row = _traced(advice).as_it_is
    return [*([program_row] if program_row is not None else ()), *(r for r in advice.strategies if not r.same_as)]


def _bar_records(advice: Advice) -> Iterator[Record]:
    for row in _all_rows(advice):
        terms: Counter[str] = Counter()
        for term_name, ms in parts_of(row).items():
            terms[f"{family(term_name)}_ms"] += ms  # type: ignore[assignment]
        counters = {name: float(ms) for name, ms in terms.items() if ms > 0} | {LOW: row.low, HIGH: row.high}
        name = shown_name(row.strategy)
        yield Record("", "advice", advice.device, {"strategy": name}, "ms", "ok", counters={**counters})


def _strategy_table(advice: Advice) -> AdviceTable:
    traced, bounds = _traced(advice), {b.strategy: b for b in _traced(advice).bounds}
    tried, rows = {row.strategy: row.ms for row in traced.tried}, []
    for row in _all_rows(advice):
        bounds_of_strategy = bounds.get(row.strategy)
        least, most = (
            (None, None)
            if bounds_of_strategy is None or bounds_of_strategy.exact
            else (bounds_of_strategy.least_ms, bounds_of_strategy.most_ms)
        )
        name = alike_names(row, advice.strategies) if row.strategy in STRATEGIES else shown_name(row.strategy)
        cells = [name, *(quantity(v, "ms") for v in (row.ms, row.low, row.high))]
        cells += map(_time_cell, (least, most))
        cells += [_time_cell(tried.get(row.strategy))] if tried else []
        rows.append([*cells, "assumed" if is_assumed_row(traced, row.strategy) else "known"])
    heads = ["", "time", "from", "to", "least access", "whole buffers", *(["tried"] if tried else [])]
    heads.append("access by kernels")
    note = (
        f"Times are estimated; {advice.level} are between from and to, whichever bytes kernels access. Least access: "
        "if kernels access only the bytes that they certainly do. Whole buffers: if they access all of each buffer."
        f"{' Tried: the whole program, measured by firsttouch try.' if tried else ''}"
    )
    return AdviceTable("strategies", "Strategies", heads, rows, [note])


def _time_cell(ms: float | None) -> str:
    return "" if ms is None else quantity(ms, "ms")


def _terms(advice: Advice) -> AdviceTable:
    rows = [
        [shown_name(row.strategy), t.phase, t.what, format_size(t.bytes, 3), f"{t.count:,}", *(
            quantity(v, "ms") for v in (t.ms, t.low, t.high)
        )]
        for row in _all_rows(advice) for t in sorted(row.terms, key=lambda t: -t.ms)
    ]  # fmt: skip
    heads = ["", "phase", "term", "bytes", "times", "time", "from", "to"]
    return AdviceTable(
        "terms", "Times by term", heads, rows, ["Times are estimated; from and to follow from the costs' intervals."]
    )


def _edits(advice: Advice) -> AdviceTable:
    traced = _traced(advice)
    rows = edit_rows(traced.edits)
    notes = ["Lines, calls and bytes are exact: they come from the trace."]
    title = f"What to change for {words_of(traced.apis).named(advice.verdict.strategies[0])}" if rows else ""
    return AdviceTable("edits", title, EDIT_HEADS, rows, notes if rows else [])


def _check(advice: Advice) -> AdviceTable:
    texts = [f"{check_text(checked)}." for checked in _traced(advice).check]
    texts = [*texts, "Times in the trace are exact."] if texts else [f"{unchecked_text(advice)}."]
    return AdviceTable("check", "Estimated and traced copies", notes=[text[:1].upper() + text[1:] for text in texts])


def _known(advice: Advice) -> AdviceTable:
    traced = _traced(advice)
    words = {
        "assumed": [*traced.assumed, *advice.assumptions],
        "unseen": traced.unseen,
        "left out": traced.not_priced,
    }
    rows = [[word, text] for word, texts in words.items() for text in dict.fromkeys(texts)]
    return AdviceTable("known", "What is assumed, unseen, or left out", ["", ""], rows)


def _absent(advice: Advice) -> AdviceTable:
    rows = [[a.strategy, a.reason, *map(_time_cell, (a.least_ms, a.most_ms)), a.run] for a in advice.unavailable]
    return AdviceTable(
        "absent", "Without a time", ["strategy", "reason", "at least", "at most", "what measures it"], rows
    )


def write_advice(
    directories: Sequence[str], output: Path, profile: str, device: str | None, process: int | None
) -> Path:
    """Writes the page of advice into a file, or into a folder as PAGE. Returns its path.

    Raises:
        UsageError: there is no advice, or the file cannot be written.
    """
    path = output if output.suffix.lower() in (".html", ".htm") and not output.is_dir() else output / PAGE
    port = profiles_in([Path(profile)])[0] / profile_page.PAGE
    link = quote(os.path.relpath(port, path.parent)) if port.is_file() else ""
    page = render(advise_profile(Path(profile), directories, device=device, process=process), link)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, encode_text(page))
    except OSError as error:
        raise UsageError(f"cannot write the page to {path}: {error.strerror}") from None
    if port.is_file() and path == port.with_name(PAGE):
        profile_page.write_profile([port.parent])  # it has the link back then
    return path
