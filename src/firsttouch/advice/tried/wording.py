"""What `firsttouch try` found, in words: the cells of its tables, and sentences, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from firsttouch.advice.port.wording import shadow_words
from firsttouch.advice.tried.findings import (
    BASELINE,
    PeakSource,
    PredictedTime,
    TriedResult,
    TriedTime,
    TryFindings,
)
from firsttouch.base.units import format_interval, format_seconds, format_size
from firsttouch.profile.program_names import program_name
from firsttouch.records.text import count, join_names

UNSEEN = "unseen"
_SOURCES: dict[PeakSource, str] = {
    "device": "what all programs use of the GPU, over what they used before",
    "processes": "what the driver says of the program's processes",
    "allocations": "what was allocated at once, with all managed memory, wherever that was",
}
_ENDED_OTHERWISE = "the traced run did not end as the timed ones did"
_STATUS = {"left the plan": "the run left the plan: ", "differs": "the output differs: "}


class TriedTable(NamedTuple):
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]


def name_of(findings: TryFindings) -> str:
    return program_name(findings.command) or "the program"


def times(findings: TryFindings) -> TriedTable:
    """The strategies that were timed: seconds, multiples of the baseline, and what was predicted, if anything was."""
    timed = [row for row in findings.results if row.time]
    is_predicted = any(row.predicted for row in timed)
    heads = ["strategy", "time", f"to {BASELINE}", "", *(["predicted"] if is_predicted else []), "output"]
    output = output_word(findings)
    rows = [
        [
            row.strategy,
            seconds_text(row.time),
            ratio_text(row),
            row.compared or "",
            *([seconds_text(row.predicted)] if is_predicted else []),
            output,
        ]
        for row in timed
    ]
    return TriedTable(heads, rows)


def memory(findings: TryFindings) -> TriedTable:
    """What the strategies that were timed hold and move."""
    heads = ["strategy", "host peak", "device peak", "pages to the GPU", "pages back", "copies left out"]
    rows = []
    for row in (row for row in findings.results if row.time):
        counts, traced = row.counts, row.traced
        left_out = f"{counts.left_out:,} of {counts.left_out + counts.made:,}" if counts else UNSEEN
        sizes = [counts.host_peak if counts and counts.host_peak else None]
        sizes += [traced.device_peak, traced.pages_in, traced.pages_back] if traced else [None] * 3
        rows.append([row.strategy, *(UNSEEN if size is None else format_size(size, 3) for size in sizes), left_out])
    return TriedTable(heads, rows)


def memory_notes(findings: TryFindings) -> Iterator[str]:
    """Where the numbers of `memory` are from, and why some are unseen."""
    timed = [row for row in findings.results if row.time]
    yield "host peak: the largest resident size of the process, by the kernel, in the last round"
    by_source: dict[PeakSource, list[str]] = {}
    for row in timed:
        if row.traced and row.traced.device_source:
            by_source.setdefault(row.traced.device_source, []).append(row.strategy)
    for source, names in by_source.items():
        of = f" ({join_names(names)})" if len(by_source) > 1 else ""
        yield f"device peak{of}: {_SOURCES[source]}, in a traced run"
    if any(row.traced and row.traced.pages_in is not None for row in timed):
        yield "pages: those of managed memory, as CUPTI counts them in the traced runs"
    sentences: dict[str, list[str]] = {}
    for row in timed:
        for text in (
            row.traced.unseen if row.traced else ["the traced run of the strategy did not end as the timed ones"]
        ):
            sentences.setdefault(text, []).append(row.strategy)
    for text, names in sentences.items():
        of = "" if len(names) == len(timed) else f" of {join_names(names)}"
        yield f"unseen{of}: {text}"


def why_not_there(findings: TryFindings) -> Iterator[str]:
    """Why strategies have no time, and nothing a prediction."""
    for row in findings.results:
        if row.time is None:
            yield f"{row.strategy}: no time: {why_no_time(row)}"
    if findings.not_predicted:
        yield f"not predicted: {findings.not_predicted}"


def why_no_time(row: TriedResult) -> str:
    return f"{_STATUS.get(row.status, '')}{row.reason}"


def output_word(findings: TryFindings) -> str:
    """What is said of the output of all strategies with a time: they have one only if it is equal."""
    compared = {row.compared for row in findings.outputs}
    return "not compared" if compared <= {"nothing"} else "equal" if compared == {"all"} else "equal in part"


def output_lines(findings: TryFindings) -> Iterator[str]:
    """Which outputs were compared."""
    if any(row.ratio for row in findings.results):
        parts = {"all": "{}", "part": "{}, but for what differs from plain run to plain run"}
        compared = [parts[row.compared].format(row.name) for row in findings.outputs if row.compared in parts]
        yield f"equal in all timed runs: {'; '.join(compared)}" if compared else "no output could be compared"
    if varying := [row.name for row in findings.outputs if row.compared == "nothing"]:
        yield f"not compared, as plain runs differ: {', '.join(varying)}"


def shadow_text(findings: TryFindings) -> str:
    """What the shadow run showed; '' if there was none."""
    return shadow_words(findings.shadow) if findings.shadow is not None else ""


def checked_text(findings: TryFindings) -> str:
    """What the checked run showed of the bytes of copies; '' if there was none."""
    if (checked := findings.checked) is None:
        return ""
    unsure = f"; {checked.unsure} differ between plain runs, too" if checked.unsure else ""
    all_copies = checked.equal + checked.different
    return f"{checked.equal} of {all_copies} copies carry the plain run's bytes{unsure}"


def pairs_text(findings: TryFindings) -> str:
    apart = sum(row.count for row in findings.apart)
    pairs = count(sum(row.count for row in findings.pairs), "pair")
    return f"{pairs} of a host array and a device block as one memory, {apart} kept apart"


def memory_sentence(findings: TryFindings) -> str:
    """What the strategy of the edit list does to the host's peak and to copies; '' if that is unknown."""
    row, none = (findings.result(name) if name else None for name in (findings.edits_for, BASELINE))
    if row is None or none is None or row.counts is None or none.counts is None:
        return ""
    counts, before, after = row.counts, none.counts.host_peak, row.counts.host_peak
    copies = f"{counts.left_out:,} of {count(counts.left_out + counts.made, 'copy', 'copies')} are left out"
    if not before or not after:
        return f"Under {row.strategy}, {copies}."
    peaks = f"{format_size(after, 3)} ({BASELINE}: {format_size(before, 3)})"
    return f"Under {row.strategy}, the host's peak is {peaks}, and {copies}."


def seconds_text(value: TriedTime | PredictedTime | None) -> str:
    if value is None:
        return ""
    middle = value.median if isinstance(value, TriedTime) else value.seconds
    return format_interval(middle, value.low, value.high) if has_interval(value) else format_seconds(middle)


def ratio_text(row: TriedResult) -> str:
    if (ratio := row.ratio) is None:
        return "1"
    return f"{ratio.median:.2f}{f' ({ratio.low:.2f} to {ratio.high:.2f})' if has_interval(ratio) else ''}"


def has_interval(value: TriedTime | PredictedTime) -> bool:
    """Whether it is more than one sample."""
    return isinstance(value, PredictedTime) or len(value.samples) > 1
