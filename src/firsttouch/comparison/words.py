"""The words of a comparison, for the terminal and the page: a sentence of each answer, and cells of rows."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from firsttouch.base.units import format_number
from firsttouch.comparison.answers import (
    ALIKE,
    ALL_SIDES,
    BOTH_PREDICTED,
    COMPARED,
    FAR,
    FEW_RUNS,
    MEASURED,
    MIXED,
    MOST_PLACES,
    ONE_ROW,
    OUTLIER,
    PHASES,
    PREDICTED,
    UNCLEAR,
    AlikeExperiments,
    AnswerRow,
    ComparisonAnswer,
    More,
    PlaceRow,
    kind_called,
    place_row,
)
from firsttouch.comparison.compare import Regression, ResultsComparison
from firsttouch.comparison.conditions import EQUAL, WARNING
from firsttouch.comparison.differences import (
    CANNOT_TELL,
    FASTER,
    HIGHER,
    LOWER,
    SAME,
    SLOWER,
    Difference,
    ExperimentDifference,
    SideValue,
    times_as_fast,
)
from firsttouch.comparison.missing import MissingDevices
from firsttouch.comparison.places import ROLES, ComparedPlace, PlaceDifference, has_several, place_of
from firsttouch.comparison.runs import factors_of
from firsttouch.comparison.speeds import NONE, speed_cells, speed_text
from firsttouch.comparison.table import Column, FailedPoint, Side, what_differs
from firsttouch.model.scope import NOT_MODELLED
from firsttouch.records.schema import Scalar
from firsttouch.records.text import (
    caption,
    count,
    first_few,
    join_names,
    label,
    named,
    percent,
    quantity,
    times_as,
)

ORDER = (SLOWER, FASTER, HIGHER, LOWER)
_MOST_VALUES = 3
_MOST_EXPERIMENTS = 6
"""The most phases, and experiments of a prediction, in a sentence."""
_MOST_PERCENT = 1.5
"""What is more than this many times as fast, slow or high is said in times, otherwise in percent."""
_MOST_LOST = 2.0
"""The same for rates that are lower, of which the part that is lost is said."""
_WORDS = {FASTER: "as fast", SLOWER: "as slow", HIGHER: "as high"}
"""What follows 'times'."""
_SUFFIXES = ("-", ".", "-run", "-again")

Names = Mapping[str, str]
"""A short name of each side and of the base."""


# ---------------------------------------------------------------------------------------------------- sentences


def sentences(answers: Iterable[ComparisonAnswer], comparison: ResultsComparison) -> list[str]:
    """A sentence or a few on each answer."""
    short = short_names(comparison)
    return [sentence(answer, short) for answer in answers]


def sentence(answer: ComparisonAnswer, short: Names) -> str:
    return _SENTENCES[answer.kind](answer, short)


def _subject(answer: ComparisonAnswer, short: Names) -> str:
    return f"{short[answer.side]} against {short[answer.base]}"


def _compared(answer: ComparisonAnswer, short: Names) -> str:
    """What matters, then how many points differ, and how."""
    weighted = "weighted " if max(answer.runs) > 1 else ""
    counts, of_all = answer.counts, f"of {count(answer.points, 'point')}"
    differing = [f"{counts[word]:,} {word}" for word in ORDER if counts.get(word)]
    untold = [f"{counts[CANNOT_TELL]:,} undecided"] if counts.get(CANNOT_TELL) else []
    same = f"{counts.get(SAME, 0):,} without a clear difference"
    if differing or untold:
        points = f"{caption(of_all)}: {join_names([*differing, same, *untold])}"
    else:
        none = "No single point {} differs clearly" if answer.differing else "No clear difference in any {}"
        points = none.format(of_all)
    clauses = "; ".join(map(clause, answer.rows))
    return f"{_subject(answer, short)}, by the {weighted}median of each experiment: {clauses}. {points}."


def _with_few_runs(answer: ComparisonAnswer, short: Names) -> str:
    """With too few runs: the ranges of ratios, of which none can be called a difference unless it is threefold."""
    missing = "".join(f"{clause(row)}; " for row in answer.rows if isinstance(row, MissingDevices))
    seen = [f"{row.subject} {_speeds(row)}" for row in answer.rows if isinstance(row, AlikeExperiments)]
    places = [clause(row) for row in answer.rows if isinstance(row, PlaceRow)]
    threefold = [f"{answer.counts[word]:,} {word}" for word in ORDER if answer.counts.get(word)]
    apart = f"{answer.counts.get(CANNOT_TELL, 0):,} of {answer.points:,} points"
    runs = _runs_in_words(answer.runs)
    told = f"{runs} can't distinguish a change from run-to-run variation. "
    if threefold:
        told = (
            f"of {count(answer.points, 'point')}, {join_names(threefold)} by a factor of three or more; {runs} can't "
            "distinguish a smaller change from run-to-run variation. "
        )
    return (
        f"{_subject(answer, short)}: {missing}{told}"
        + (f"Median of each experiment: {', '.join(seen)}. " if seen else "")
        + f"{apart} differ by more than their samples vary."
        + (f" Largest differences: {first_few(places, MOST_PLACES, '; ')}." if places else "")
    )


def _runs_in_words(runs: Sequence[int]) -> str:
    base, side = runs
    return "one run per side" if side == base else "two runs against one" if side > base else "one run against two"


def _speeds(row: AlikeExperiments) -> str:
    """'1.2 to 1.5 times as fast', '1.2 to 1.5 times as slow', or '1.2 times as slow to 1.5 times as fast'."""
    speeds = sorted(times_as_fast(group.better, group.ratio)[0] for group in row.experiments if group.ratio)
    extremes = [1.0 if _speed(1 / speed) == "1.00" else speed for speed in (speeds[0], speeds[-1])]
    ends = [times_as(speed, "fast", "slow", _speed) for speed in extremes]
    (least, word), (most, same_word) = (end.split(" ", 1) for end in ends)
    if word != same_word:
        return " to ".join(ends)
    bounds = dict.fromkeys(sorted((least, most), key=float))
    return f"{' to '.join(bounds)} {word}"


def _speed(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.0f}"


def _predicted(answer: ComparisonAnswer, short: Names) -> str:
    if answer.half_within is None or answer.most_within is None:
        return f"{_subject(answer, short)}: no values in common."
    rows = [row for row in answer.rows if isinstance(row, ExperimentDifference)]
    texts = [f"{title_of(row)} {speed_cells(row)[0]}" for row in rows]
    return (
        f"{_subject(answer, short)}: {answer.kind}, by the median of each experiment: "
        f"{first_few(texts, _MOST_EXPERIMENTS, '; ')}. Of {count(answer.points, 'point')}, half differ by at most "
        f"{percent(answer.half_within)}, and 90 % by at most {percent(answer.most_within)}."
    )


def _all_sides(answer: ComparisonAnswer, short: Names) -> str:
    sides, outliers, pairs = (answer.counts[name] for name in ("sides", "outliers", "pairs"))
    noun = "device" if answer.of_devices else "side"
    apart = [*([count(outliers, noun)] if outliers else []), *([count(pairs, "pair")] if pairs else [])]
    if apart:
        differ = f"{join_names(apart)} differ{'s' if outliers + pairs == 1 else ''} from the others"
    else:
        differ = "no side differs clearly in the median of an experiment"
    return f"{count(sides, noun)}, each against the median of all, in {answer.points:,} points: {differ}."


def _one_row(answer: ComparisonAnswer, short: Names) -> str:
    return f"{clause(answer.rows[0])}."


def _outlier(answer: ComparisonAnswer, short: Names) -> str:
    clauses = [clause(row, of_devices=answer.of_devices) for row in answer.rows]
    return f"{short[answer.side]}: {first_few(clauses, _MOST_VALUES, '; ')}."


def _far(answer: ComparisonAnswer, short: Names) -> str:
    rows = [row for row in answer.rows if isinstance(row, ExperimentDifference)]
    names = list(dict.fromkeys(short[row.side] for row in rows))
    titles = list(dict.fromkeys(title_of(row, of_devices=answer.of_devices) for row in rows))[:_MOST_VALUES]
    return (
        f"{_sides_in_words(names)} {'is' if len(names) == 1 else 'are'} far from the others in {join_names(titles)}, "
        "but other programs used different amounts of CPU time: measure again with `firsttouch run --wait`."
    )


def _phases(answer: ComparisonAnswer, short: Names) -> str:
    rows = [row for row in answer.rows if isinstance(row, ExperimentDifference)]
    texts = [f"{row.experiment} {speed_cells(row)[0]}" for row in rows if row.ratio]
    return f"Phases of applications, {_subject(answer, short)}: {first_few(texts, _MOST_EXPERIMENTS)}."


_SENTENCES: Mapping[str, Callable[[ComparisonAnswer, Names], str]] = {
    COMPARED: _compared,
    FEW_RUNS: _with_few_runs,
    **dict.fromkeys((PREDICTED, MEASURED, BOTH_PREDICTED), _predicted),
    ALL_SIDES: _all_sides,
    ONE_ROW: _one_row,
    OUTLIER: _outlier,
    FAR: _far,
    PHASES: _phases,
}


# ------------------------------------------------------------------------------------------------------- clauses


def clause(row: AnswerRow, *, of_devices: bool = False) -> str:
    """A row in words, without a full stop. of_devices: whether the sides are devices of one machine."""
    if isinstance(row, PlaceRow):
        return _place_clause(row)
    if isinstance(row, MissingDevices):
        return _missing_clause(row)
    if isinstance(row, More):
        return f"{row.number} more {row.subject}s differ"
    if isinstance(row, ExperimentDifference):
        return f"{speed_cells(row)[0]} in {title_of(row, of_devices=of_devices)}"
    if row.verdict == ALIKE:
        return f"{row.subject} equal within {math.ceil(100 * (row.within or 0.0) - 1e-9)} %"
    if row.verdict == MIXED:
        differing = sum(group.differing for group in row.experiments)
        return f"{row.subject} mixed ({count(differing, 'point')} of {row.points:,} differ)"
    if row.verdict == UNCLEAR:
        return f"{row.subject} without a clear difference"
    return f"{row.subject} {change([(group.ratio, group.better) for group in row.experiments], row.verdict)}"


def _place_clause(row: PlaceRow) -> str:
    """Such as 'cuda:2 to cuda:5 is 47 % slower (copies between GPUs of 256 MiB: 198 GB/s instead of 374 GB/s; ...)'."""
    point, own_memory = row.example, f"its own memory in {join_names(row.of_own_memory)}"
    first, *more = [name for name in row.experiments if name not in row.of_own_memory] or [""]
    size = point.factors.get("size")
    subject = kind_called(first) if first else own_memory
    also = [name for name in dict.fromkeys(map(kind_called, more)) if name != subject]
    also += [own_memory] if first and row.of_own_memory else []
    text = subject + ("" if size is None else f" of {label('size', size)}")
    text += f": {value_text(point.value, point.unit)} instead of {value_text(point.base, point.unit)}"
    text += f"; also {join_names(also)}" if also else ""
    of_points = count(row.of_points, "point")
    if row.as_a_whole:
        how, points = change([(row.ratio, point.better)], row.verdict), f"the median of {of_points}"
    else:
        how, points = change([(point.ratio, point.better)], point.verdict), f"{row.points:,} of {of_points}"
    return f"{row.name} {'are' if row.several else 'is'} {how} ({text}; {points})"


def _missing_clause(row: MissingDevices) -> str:
    """Such as 'cuda:3 is missing: 7 of 8 GPUs are left'."""
    noun, left = ROLES.get(row.role, "device"), row.expected - row.missing
    names = join_names(row.names) or count(row.missing, noun)
    addresses = f" (at {join_names(row.addresses)})" if row.addresses and not row.names else ""
    left_in_words = f"{left or 'none'} of {count(row.expected, noun)} {'is' if left == 1 else 'are'} left"
    reason = f" ({row.why})" if row.why else ""
    return f"{names}{addresses} {'is' if row.missing == 1 else 'are'} missing: {left_in_words}{reason}"


def change(ratios: Sequence[tuple[float | None, str]], verdict: str) -> str:
    """How far something is from the base: '30 % slower', '10 to 38 % faster', '1.7 times as fast', '47 % different'. A
    lower value is always given in percent. Of a rate that is lower, the part that is lost is given.

    ratios: each with which direction is better.
    """
    changes = [(ratio or 1.0, better) for ratio, better in ratios]
    if verdict == CANNOT_TELL:
        return f"{_range([100 * (1 - min(ratio, 1 / ratio)) for ratio, _ in changes], _whole)} % different"
    extents = [ratio if verdict in (HIGHER, LOWER) else max(ratio, 1 / ratio) for ratio, _ in changes]
    lost = [verdict == SLOWER and better == "higher" for _, better in changes]
    most = _MOST_LOST if all(lost) else _MOST_PERCENT
    if verdict != LOWER and (max(extents) > most or min(extents) < 1 / most):
        return f"{_range(extents, _times)} times {_WORDS[verdict]}"
    shares = [1 - 1 / extent if is_lost else abs(extent - 1) for extent, is_lost in zip(extents, lost, strict=True)]
    return f"{_range([100 * share for share in shares], _whole)} % {verdict}"


def _range(values: Iterable[float], text: Callable[[float], str]) -> str:
    ordered = sorted(values)
    least, most = text(ordered[0]), text(ordered[-1])
    return least if least == most else f"{least} to {most}"


def _whole(value: float) -> str:
    """A percentage, of which a tenth is said only near 100."""
    return f"{value:.1f}" if 99.5 <= value < 100 else f"{value:.0f}"


def _times(value: float) -> str:
    return f"{value:.1f}" if 1 <= value < 10 else format_number(value, 2) if value < 1 else f"{value:,.0f}"


# --------------------------------------------------------------------------------------------------------- names


def short_names(comparison: ResultsComparison, *, runs: bool = True) -> dict[str, str]:
    """A short name for each side, and for the base: the last parts of its path that tell it from the others.

    runs: whether it says how many runs a side has.
    """
    paths = [_directory(side).split("/") for side in comparison.sides]
    parts = next(
        (n for n in range(1, max(map(len, paths)) + 1) if len({tuple(p[-n:]) for p in paths}) == len(paths)), 0
    )
    short = {}
    for side, path in zip(comparison.sides, paths, strict=True):
        several = f" ({len(side.runs)} runs)" if runs and len(side.runs) > 1 else ""
        several = f" ({'predicted' if comparison.of_devices else side.predicted})" if side.predicted else several
        short[side.name] = ("/".join(path[-parts:]) if parts else side.name) + several
    return {comparison.base: comparison.base, **short}


def _directory(side: Side) -> str:
    """The first directory of a side, or the paper's name."""
    return side.runs[0].name.rstrip("/") if len(side.runs) > 1 else side.name.rstrip("/")


def title_of(group: ExperimentDifference, *, of_devices: bool = False) -> str:
    """The experiment and, unless the sides are devices, on which one."""
    return group.experiment if of_devices else f"{group.experiment} on {group.device}"


def conditions_by_column(columns: Iterable[Column]) -> dict[Column, str]:
    """Each point in words: the factors that vary within its experiment."""
    groups: dict[tuple[str, str], list[Column]] = {}
    for column in columns:
        groups.setdefault(column.group, []).append(column)
    texts = {}
    for group in groups.values():
        factors = [factors_of(column.factors) for column in group]
        names = dict.fromkeys(name for some in factors for name in some)
        varying = [name for name in names if len({repr(some.get(name)) for some in factors}) > 1]
        for column, some in zip(group, factors, strict=True):
            shown = [name for name in (varying or names) if name in some]
            texts[column] = ", ".join(named(name, some[name]) for name in shown)
    return texts


# --------------------------------------------------------------------------------------------------------- cells


def group_cells(group: ExperimentDifference) -> list[str]:
    """The row of an experiment: points, those that differ by word, and the median with its interval."""
    words = {**{word: word for word in ORDER}, CANNOT_TELL: "undecided"}
    differing = ", ".join(f"{group.counts[word]} {text}" for word, text in words.items() if group.counts.get(word))
    return [
        group.experiment,
        group.device,
        str(group.points),
        differing or NONE,
        *speed_cells(group),
        "" if group.verdict == SAME else group.verdict,
    ]


def group_line(group: ExperimentDifference) -> str:
    """The cells of an experiment, without its name, in words."""
    _, _, points, differing, *_, verdict = group_cells(group)
    median = f", {speed_text(group)} in the median" if group.ratio else ""
    return f"{differing} of {points} points{median}" + (f", {verdict}" if verdict else "")


def point_cells(difference: Difference, conditions: str) -> list[str]:
    unit = difference.column.definition.unit
    return [
        conditions,
        value_text(difference.base, unit),
        value_text(difference.value, unit),
        *speed_cells(difference),
        difference.verdict,
    ]


def place_cells(row: PlaceRow) -> list[str]:
    """The row of a place: its points that differ, by experiment."""
    differing = "as a whole" if row.as_a_whole else str(row.points)
    speed = speed_cells(row)[0] if row.ratio else ""
    return [row.name, str(row.of_points), f"{differing} {row.verdict}", speed, ", ".join(row.experiments)]


def value_text(value: SideValue, unit: str) -> str:
    return quantity(value.value, unit)


# ------------------------------------------------------------------------------- conditions, notes and regressions


def condition_rows(comparison: ResultsComparison) -> list[tuple[str, str]]:
    """Each condition that differs: its name, and its values with the sides that have them."""
    short = short_names(comparison, runs=False)
    names = [short[name] for name in comparison.names]
    rows: dict[str, str] = {}
    for c in comparison.conditions:
        if c.name.startswith(WARNING):
            having = [side for value, side in zip(c.values, names, strict=True) if value is not None]
            words = next(str(value) for value in c.values if value is not None)
            name = f"distorts {_sides_in_words(having)}"
            rows[name] = f"{rows[name]}; {words}" if name in rows else words
        else:
            rows[c.name] = _condition_values(c.values, c.name, names)
    return list(rows.items())


def _condition_values(values: Sequence[Scalar], name: str, names: Sequence[str]) -> str:
    """The values of a condition, each with the sides that have it: '570.86 (A), 580.12 (B)'."""
    having: dict[str, list[str]] = {}
    for value, side in zip(values, names, strict=True):
        text = "not stated" if value is None else label(name.rpartition(".")[2], value)
        having.setdefault(text, []).append(side)
    parts = [
        f"{text} ({_sides_in_words(sides)})" for text, sides in sorted(having.items(), key=lambda item: -len(item[1]))
    ]
    more = f", and {len(parts) - _MOST_VALUES} more values" if len(parts) > _MOST_VALUES + 1 else ""
    return ", ".join(parts[: _MOST_VALUES if more else None]) + more


def _sides_in_words(sides: Sequence[str]) -> str:
    return join_names(sides) if len(sides) <= _MOST_VALUES else count(len(sides), "side")


def _equal_gpus(sides: Sequence[Side], names: Sequence[str]) -> list[str]:
    """For which equal GPUs one was measured; of each side, if that is not the same."""
    sides_by_text: dict[str, dict[str, None]] = {}
    for name, side in zip(names, sides, strict=True):
        for run in side.runs:
            if text := run.conditions.get(EQUAL):
                sides_by_text.setdefault(str(text), {})[name] = None
    if len(sides_by_text) == 1:
        return [f"{caption(text)}." for text in sides_by_text]
    return [f"{join_names([*side_names])}: {text}." for text, side_names in sides_by_text.items()]


def notes(comparison: ResultsComparison) -> list[str]:
    """What a reader must know besides the differences, one sentence each."""
    table, short, sentences = comparison.table, short_names(comparison), []
    names = [short[name] for name in comparison.names]
    for name, definitions in table.redefined.items():
        reason = (
            "its values are defined differently" if len({d.metric for d in definitions}) > 1 else "its inputs differ"
        )
        sentences.append(f"{name} is not compared: {reason} ({what_differs(definitions)}).")
    if comparison.differences.fleet:
        alone: Counter[str] = Counter()
        for tally in table.alone:
            alone.update(tally)
        if alone:
            sentences.append(f"{count(sum(alone.values()), 'point')} of one side only: {_counted_words(alone)}.")
    else:
        for side, tally in zip(names, table.alone, strict=True):
            if tally:
                sentences.append(
                    f"{count(sum(tally.values()), 'point')} of {side} without a counterpart: {_counted_words(tally)}."
                )
    if not comparison.differences.fleet:
        prefix = "" if comparison.of_devices else f"{names[0]}: "
        of_first = [lacking for lacking in comparison.missing if lacking.side == comparison.names[0]]
        sentences += [f"{prefix}{clause(lacking)}." for lacking in of_first]
    for lost in table.lost[:_MOST_VALUES]:
        sentences.append(f"{failed_text(lost, short)}.")
    if len(table.lost) > _MOST_VALUES:
        sentences.append(f"{len(table.lost) - _MOST_VALUES} more points failed on one side only.")
    for side, renamed in zip(names, table.devices, strict=True) if not comparison.of_devices else ():
        for slot, own_name in renamed.items():
            sentences.append(f"{own_name} of {side} is compared as {slot}.")
    if any(side.stated for side in comparison.sides):
        prefix = "Published values are of another machine."
        if comparison.is_about_predictions:
            prefix = (
                "A platform may have been fitted to these published values: firsttouch validate lists which were, and "
                "which were held out."
            )
        sentences.append(
            f"{prefix} Where a paper does not state a factor, the best point is compared. The interval of a published "
            "value is that of its last digit, or the range that the paper states."
        )
    sentences += _equal_gpus(comparison.sides, names)
    if comparison.is_about_predictions:
        sentences.append(f"Predictions do not model: {'; '.join(NOT_MODELLED)}.")
    one_run = all(len(side.runs) <= 1 for side in comparison.sides)
    one_run = one_run and not comparison.is_about_predictions
    if one_run and (comparison.of_devices or any(side.stated for side in comparison.sides)):
        sentences.append("The intervals of a single run do not contain run-to-run variation.")
    return sentences


def not_judged(comparison: ResultsComparison) -> str:
    """Why a limit was not applied to some sides, or ''."""
    if comparison.differences.fleet:
        return ""  # the headline says it already
    if comparison.is_about_predictions:
        return "Predictions are not judged by the limit." if comparison.limit is not None else ""
    short, runs = short_names(comparison), comparison.runs
    sentences = [
        f"To {short[side]}, the limit is applied only where values differ by a factor of three or more: "
        f"{_runs_in_words((runs[comparison.base], runs[side]))} can't show less."
        for side in comparison.not_judged
        if side in comparison.few
    ]
    for side in comparison.cannot_tell:
        if side not in comparison.few:
            groups = [g for g in comparison.differences.groups if g.side == side]
            n = count(sum(g.counts.get(CANNOT_TELL, 0) for g in groups), "point")
            sentences.append(
                f"{n} of {short[side]} could not be compared: in most runs of one side other programs used the CPU "
                "while they were measured, or too few runs per side are left. Measure again with `firsttouch run "
                "--wait`."
            )
    return " ".join(sentences)


def failed_text(point: FailedPoint, short: Names) -> str:
    factors = ", ".join(named(name, value) for name, value in point.factors.items())
    return f"{point.experiment} on {point.device} of {short[point.side]}: {point.why} ({factors})"


def _counted_words(tally: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in tally.most_common())


def regression_lines(comparison: ResultsComparison) -> list[str]:
    """What is worse than the limit allows. Of machines with several devices, the places in which points are."""
    conditions = conditions_by_column(comparison.table.columns)
    worse = [r for r in comparison.regressions if isinstance(r, Difference)]
    places = [
        place for place in comparison.places
        if place in comparison.regressions or (place.worse and any(d in worse for d in place.points))
    ]  # fmt: skip
    of_places = [d for place in places for d in place.points]
    of_groups = {(d.side, *d.column.group) for d in of_places}
    other_regressions = [
        r for r in comparison.regressions
        if r not in places
        and not (isinstance(r, Difference) and r in of_places)
        and not (isinstance(r, ExperimentDifference) and (r.side, r.experiment, r.device) in of_groups)
    ]  # fmt: skip
    first = [r for r in other_regressions if isinstance(r, MissingDevices)]
    single = [r for r in other_regressions if isinstance(r, Difference)] if has_several(comparison.sides) else []
    by_place: dict[tuple[str, ComparedPlace], list[Difference]] = {}
    for d in single:
        by_place.setdefault((d.side, place_of(d.column)), []).append(d)
    ordered = [*first, *places, *(r for r in other_regressions if r not in first and r not in single)]
    texts = [regression_text(r, comparison, conditions) for r in ordered]
    for points in by_place.values():
        text = regression_text(points[0], comparison, conditions)
        more = f"; and {count(len(points) - 1, 'more point')} there" if len(points) > 1 else ""
        texts.append(text + more)
    return texts


def regression_text(regression: Regression, comparison: ResultsComparison, conditions: Mapping[Column, str]) -> str:
    short = short_names(comparison)
    if isinstance(regression, FailedPoint):
        return failed_text(regression, short)
    side = short[regression.side] if comparison.has_several_sides else ""
    if isinstance(regression, MissingDevices | PlaceDifference):
        text = clause(place_row(regression) if isinstance(regression, PlaceDifference) else regression)
        return f"{side}: {text}" if side and not comparison.of_devices else text
    if isinstance(regression, ExperimentDifference):
        subject = f"{title_of(regression, of_devices=comparison.of_devices)} as a whole"
    else:
        experiment, device = regression.column.group
        subject = f"{experiment} on {device} ({conditions[regression.column]})"
    return f"{subject}{f', {side}' if side else ''}: {speed_text(regression)}"


def what_to_type(comparison: ResultsComparison) -> list[str]:
    """The calls that measure what is missing to tell the sides apart: as many as make three a side."""
    if not comparison.few or comparison.is_about_predictions:
        return []  # further runs of a prediction are identical
    first, *others = comparison.sides
    sides = [first, *(side for side in others if side.name in comparison.few and not comparison.of_devices)]
    names = [side.runs[0].name.rstrip("/") for side in sides]
    free = (s for s in _SUFFIXES if not any(Path(f"{name}{s}{i}").exists() for name in names for i in (2, 3)))
    suffix = next(free, "-further")
    calls = []
    three = []
    for side, name in zip(sides, names, strict=True):
        command, missing = side.runs[0].command or "firsttouch run", [str(i) for i in range(len(side.runs) + 1, 4)]
        program = f" -- {side.runs[0].program}" if side.runs[0].program else ""
        out = f"{shlex.quote(f'{name}{suffix}')}$i"
        calls.append(f"for i in {' '.join(missing)}; do {command} --out {out}{program}; done")
        three.append(
            shlex.quote(
                ",".join([*(run.name.rstrip("/") for run in side.runs), *(f"{name}{suffix}{i}" for i in missing)])
            )
        )
    return [*calls, f"firsttouch compare {' '.join(three)}"]
