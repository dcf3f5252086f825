"""A comparison in words, for the terminal and the page."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from firsttouch.comparison import predictions
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
)
from firsttouch.comparison.headline import furthest_apart, place_text, ratios_seen, summary
from firsttouch.comparison.missing import MissingDevices
from firsttouch.comparison.places import ComparedPlace, PlaceDifference, has_several, place_of
from firsttouch.comparison.runs import PHASE, factors_of
from firsttouch.comparison.table import Column, Missing, Side, what_differs
from firsttouch.model.scope import NOT_MODELLED
from firsttouch.records.reading import point_key
from firsttouch.records.schema import Scalar
from firsttouch.records.text import RATIO, caption, compact, count, first_few, join_names, label, named, quantity

ORDER = (SLOWER, FASTER, HIGHER, LOWER)
_MOST_VALUES = 3
_MOST_PHASES = 6
PART = 0.02
"""A difference of a phase that is less than this part of the run is in no sentence."""
_SUFFIXES = ("-", ".", "-run", "-again")


def answers(comparison: ResultsComparison) -> list[str]:
    """The answer, one sentence for each side; of many sides, only for those that differ from the others."""
    sides = dict.fromkeys(group.side for group in comparison.differences.groups)
    if not comparison.differences.fleet:
        return [headline(comparison, side) for side in sides]
    short, sentences = short_names(comparison), []
    outliers: dict[int, list[str]] = {}
    pairs = comparison.places if comparison.of_devices else []
    for place in comparison.places if not comparison.of_devices else ():
        outliers.setdefault(place.side, []).append(place_text(place))
    for missing_devices in comparison.missing if not comparison.of_devices else ():
        outliers.setdefault(missing_devices.side, []).insert(0, missing_devices.text)
    for group in comparison.groups:
        if group.differs:
            sentence = f"{group.verdict} in {titled(comparison, group)}, {ratio_text(group.ratio)}"
            outliers.setdefault(group.side, []).append(sentence)
    n, kind = len(comparison.sides), comparison.kind
    points = f"{count(n, kind)}, each against the median of all, in {len(comparison.table.columns):,} points"
    apart = [*([count(len(outliers), kind)] if outliers else []), *([count(len(pairs), "pair")] if pairs else [])]
    if apart:
        differ = f"{join_names(apart)} differ{'s' if len(outliers) + len(pairs) == 1 else ''} from the others"
    else:
        differ = "none differs clearly in an experiment as a whole"
    sentences.append(f"{points}: {differ}.")
    if comparison.of_devices:
        sentences += [f"{missing_devices.text}." for missing_devices in comparison.missing]
    sentences += [f"{place_text(pair)}." for pair in pairs]
    for side, differing in sorted(outliers.items(), key=lambda item: -len(item[1])):
        sentences.append(f"{short[comparison.names[side]]}: {first_few(differing, _MOST_VALUES, '; ')}.")
    untold = [g for g in comparison.groups if g.verdict == CANNOT_TELL]
    if untold:
        names = list(dict.fromkeys(short[comparison.names[g.side]] for g in untold))
        sentence = join_names(list(dict.fromkeys(titled(comparison, g) for g in untold))[:_MOST_VALUES])
        sentences.append(
            f"{_sides_in_words(names)} {'is' if len(names) == 1 else 'are'} far from the others in {sentence}, "
            "but the load of "
            "other programs was not alike: measure again with `firsttouch run --wait`."
        )
    return sentences


def headline(comparison: ResultsComparison, side: int) -> str:
    """The answer for one side: what matters, then how many of its points differ, and how."""
    groups, short = [g for g in comparison.differences.groups if g.side == side], short_names(comparison)
    total, tally = sum(g.points for g in groups), Counter[str]()
    for group in groups:
        tally.update(group.counts)
    differing = [f"{tally[word]:,} {word}" for word in ORDER if tally[word]]
    of_all = f"of {total:,} points"
    subject = f"{short[comparison.names[side]]} against {short[comparison.base]}"
    if predicted_answer := predictions.headline(comparison, side, subject):
        return predicted_answer
    if side in comparison.few:
        seen_ratios, apart = ratios_seen(comparison, side), furthest_apart(comparison, side)
        missing = "".join(f"{lacking.text}; " for lacking in comparison.missing if lacking.side == side)
        return (
            f"{subject}: {missing}{_few_runs(comparison, side)} cannot tell a change from what differs from run "
            "to run. "
            + (f"By the median of each experiment: {seen_ratios}. " if seen_ratios else "")
            + f"{tally[CANNOT_TELL]:,} {of_all} are further apart than their samples vary.{apart}"
        )
    untold = [f"{tally[CANNOT_TELL]:,} that cannot be told"] if tally[CANNOT_TELL] else []
    counts = join_names([*differing, f"{tally[SAME]:,} without a clear difference", *untold]) + f", {of_all}"
    several = any(len(comparison.sides[i].runs) > 1 for i in (0, side))
    subject += f", by the {'weighted ' if several else ''}median of each experiment"
    shifted = any(group.differs for group in groups)
    none = f"No single one {of_all} differs clearly" if shifted else f"No clear difference in any {of_all}"
    return f"{subject}: {summary(comparison, side)}. {counts if differing or untold else none}."


def phase_answers(comparison: ResultsComparison) -> list[str]:
    """For each side that has some: the phases of applications that differ as a whole, by more than a small part of the
    run, the largest differences first.
    """
    phases = comparison.phases
    if phases is None:
        return []
    short, by_side = short_names(comparison), dict[int, list[str]]()
    for group in phases.groups:
        if group.differs and _part_of_run(phases, group) >= PART:
            by_side.setdefault(group.side, []).append(f"{group.experiment} {ratio_text(group.ratio)} times")
    sentences = []
    for side, some in by_side.items():
        times = f"time of {short[comparison.names[side]]} over that of {short[comparison.base]}"
        sentences.append(f"Phases of applications, {times}: {first_few(some, _MOST_PHASES)}.")
    return sentences


def _part_of_run(phases: ResultsComparison, group: ExperimentDifference) -> float:
    """The largest part of a run that a phase's difference is."""
    runs: dict[str, float] = {}
    for d in phases.differences.points:
        if d.side == group.side:
            run = _without_phase(d.column)
            runs[run] = runs.get(run, 0.0) + max(d.base.value, d.value.value)
    points = phases.points_of(group)
    return max((abs(d.value.value - d.base.value) / runs[_without_phase(d.column)] for d in points), default=0.0)


def _without_phase(column: Column) -> str:
    factors = {name: value for name, value in factors_of(column.factors).items() if name != PHASE}
    return point_key(column.definition.experiment, column.device, factors)


def what_to_type(comparison: ResultsComparison) -> list[str]:
    """The calls that measure what is missing to tell the sides apart: as many as make three a side."""
    if not comparison.few or predictions.is_about_predictions(comparison):
        return []  # further runs of a prediction are identical
    sides = [comparison.sides[i] for i in ((0,) if comparison.of_devices else (0, *comparison.few))]
    names = [side.runs[0].name.rstrip("/") for side in sides]
    free = (s for s in _SUFFIXES if not any(Path(f"{name}{s}{i}").exists() for name in names for i in (2, 3)))
    suffix = next(free, "-further")
    calls = []
    three = []
    for side, name in zip(sides, names, strict=True):
        command, missing = side.runs[0].command or "firsttouch run", [str(i) for i in range(len(side.runs) + 1, 4)]
        calls.append(f"for i in {' '.join(missing)}; do {command} --out {shlex.quote(f'{name}{suffix}')}$i; done")
        three.append(
            shlex.quote(
                ",".join([*(run.name.rstrip("/") for run in side.runs), *(f"{name}{suffix}{i}" for i in missing)])
            )
        )
    return [*calls, f"firsttouch compare {' '.join(three)}"]


def _few_runs(comparison: ResultsComparison, side: int) -> str:
    mine, base = (len(comparison.sides[i].runs) for i in (side, 0))
    return "one run a side" if mine == base else "two runs against one" if mine > base else "one run against two"


def _directory(side: Side) -> str:
    """The first directory of a side, or the paper's name."""
    return side.runs[0].name.rstrip("/") if len(side.runs) > 1 else side.name.rstrip("/")


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
        prediction = predictions.prediction(side)
        several = f" ({len(side.runs)} runs)" if runs and len(side.runs) > 1 else ""
        several = f" ({'predicted' if comparison.of_devices else prediction})" if prediction else several
        short[side.name] = ("/".join(path[-parts:]) if parts else side.name) + several
    return {comparison.base: comparison.base, **short}


def group_title(group: ExperimentDifference) -> str:
    return f"{group.experiment} on {group.device}"


def titled(comparison: ResultsComparison, group: ExperimentDifference) -> str:
    """The experiment and, unless the sides are devices, on which one."""
    return group.experiment if comparison.of_devices else group_title(group)


def group_cells(group: ExperimentDifference) -> list[str]:
    """The row of an experiment: points, those that differ by word, and the median ratio with its interval."""
    words = {**{word: word for word in ORDER}, CANNOT_TELL: "apart"}
    differing = ", ".join(f"{group.counts[word]} {text}" for word, text in words.items() if group.counts.get(word))
    return [
        group.experiment,
        group.device,
        str(group.points),
        differing or "–",  # noqa: RUF001
        ratio_text(group.ratio),
        interval_text(group.low, group.high),
        "" if group.verdict == SAME else group.verdict,
    ]


def group_table(
    comparison: ResultsComparison, groups: Iterable[ExperimentDifference], noun: str = "experiment", *, sides: bool
) -> tuple[list[str], list[list[str]]]:
    """The headings and the rows of experiments, or of phases; sides: with the side of each."""
    short = short_names(comparison)
    heads = [noun, "device", "points", "that differ", "median ratio", "interval", "as a whole"]
    rows = [[*([short[comparison.names[g.side]]] if sides else []), *group_cells(g)] for g in groups]
    heads = [*(["side"] if sides else []), *heads]
    if not comparison.of_devices:
        return heads, rows
    at = heads.index("device")  # each side is one device
    return heads[:at] + heads[at + 1 :], [cells[:at] + cells[at + 1 :] for cells in rows]


def point_cells(difference: Difference, conditions: str) -> list[str]:
    unit = difference.column.definition.unit
    return [
        conditions,
        value_text(difference.base, unit),
        value_text(difference.value, unit),
        ratio_text(difference.ratio),
        interval_text(difference.low, difference.high),
        difference.verdict,
    ]


def place_heads(place: PlaceDifference, comparison: ResultsComparison) -> list[str]:
    """What the values of a place's points are called: of the base, and of the place."""
    short = short_names(comparison)
    return [short[comparison.base], "this pair" if comparison.of_devices else short[comparison.names[place.side]]]


def point_of_place(d: Difference, comparison: ResultsComparison, conditions: Mapping[Column, str]) -> list[str]:
    """The row of a point, whose experiment and device are named too."""
    experiment, device = d.column.group
    device = comparison.names[d.side] if comparison.of_devices else device
    return point_cells(d, f"{experiment} on {device}, {conditions[d.column]}")


def value_text(value: SideValue, unit: str) -> str:
    return quantity(value.value, unit)


def ratio_text(ratio: float | None) -> str:
    if ratio is None:
        return "–"  # noqa: RUF001
    return f"{ratio:.3f}" if 0.9 < ratio < 1.1 else compact(ratio, RATIO)


def interval_text(low: float | None, high: float | None) -> str:
    return f"{ratio_text(low)} to {ratio_text(high)}" if low is not None and high is not None else ""


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
        sentences += [f"{prefix}{lacking.text}." for lacking in comparison.missing if not lacking.side]
    for lost in table.lost[:_MOST_VALUES]:
        sentences.append(f"{missing_text(lost, names)}.")
    if len(table.lost) > _MOST_VALUES:
        sentences.append(f"{len(table.lost) - _MOST_VALUES} more points failed on one side only.")
    for side, renamed in zip(names, table.devices, strict=True) if not comparison.of_devices else ():
        for slot, own_name in renamed.items():
            sentences.append(f"{own_name} of {side} is compared as {slot}.")
    if any(side.stated for side in comparison.sides):
        prefix = "Published values are of another machine."
        if predictions.is_about_predictions(comparison):
            prefix = "A platform may rest on these published values: firsttouch validate tells fitted from held ones."
        sentences.append(
            f"{prefix} Where a paper leaves a factor open, the best of the points is "
            "compared; the interval of a published value is that of its last digit, or the range that the paper states."
        )
    sentences += _equal_gpus(comparison.sides, names)
    if predictions.is_about_predictions(comparison):
        sentences.append(f"Predictions do not model: {'; '.join(NOT_MODELLED)}.")
    one_run = all(len(side.runs) <= 1 for side in comparison.sides)
    one_run = one_run and not predictions.is_about_predictions(comparison)
    if one_run and (comparison.of_devices or any(side.stated for side in comparison.sides)):
        sentences.append("What differs from run to run is in no interval of one run.")
    return sentences


def not_judged(comparison: ResultsComparison) -> str:
    """Why a limit was not applied to some sides, or ''."""
    if comparison.differences.fleet:
        return ""  # the headline says it already
    if predictions.is_about_predictions(comparison):
        return "Predictions are not judged by the limit." if comparison.limit is not None else ""
    short = short_names(comparison)
    sentences = [
        f"{short[comparison.names[side]]} is not judged by the limit: {_few_runs(comparison, side)} cannot tell."
        for side in comparison.cannot_tell
        if side in comparison.few
    ]
    for side in comparison.cannot_tell:
        if side not in comparison.few:
            groups = [g for g in comparison.differences.groups if g.side == side]
            n = count(sum(g.counts.get(CANNOT_TELL, 0) for g in groups), "point")
            sentences.append(
                f"{n} of {short[comparison.names[side]]} cannot be told from the other side's: most runs of one side "
                "measured them while other programs used the processors, or too few runs a side are left. Measure "
                "again with `firsttouch run --wait`."
            )
    return " ".join(sentences)


def missing_text(lost: Missing, names: Sequence[str]) -> str:
    factors = ", ".join(named(name, value) for name, value in factors_of(lost.factors).items())
    return f"{lost.experiment} on {lost.device} of {names[lost.side]}: {lost.why} ({factors})"


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
    known_groups = {(d.side, *d.column.group) for d in of_places}
    other_regressions = [
        r for r in comparison.regressions
        if r not in places
        and not (isinstance(r, Difference) and r in of_places)
        and not (isinstance(r, ExperimentDifference) and (r.side, r.experiment, r.device) in known_groups)
    ]  # fmt: skip
    first = [r for r in other_regressions if isinstance(r, MissingDevices)]
    single = [r for r in other_regressions if isinstance(r, Difference)] if has_several(comparison.sides) else []
    by_place: dict[tuple[int, ComparedPlace], list[Difference]] = {}
    for d in single:
        by_place.setdefault((d.side, place_of(d.column)), []).append(d)
    ordered = [*first, *places, *(r for r in other_regressions if r not in first and r not in single)]
    texts = [regression_text(r, comparison, conditions) for r in ordered]
    for points in by_place.values():
        text = regression_text(points[0], comparison, conditions)
        more = f"; and {count(len(points) - 1, 'more point')} there" if len(points) > 1 else ""
        texts.append(text + more)
    return texts


def place_table(comparison: ResultsComparison, places: Sequence[PlaceDifference]) -> tuple[list[str], list[list[str]]]:
    """The headings and the rows of places: their points that differ, by experiment."""
    short = short_names(comparison)
    several = not comparison.of_devices and (comparison.differences.fleet or len({p.side for p in places}) > 1)
    heads = [*(["side"] if several else []), "where", "points", "that differ", "median ratio", "in"]
    rows = []
    for place in places:
        ratio = ratio_text(place.ratio) if place.ratio else ""
        rows.append(
            [
                *([short[comparison.names[place.side]]] if several else []),
                *(place.name, str(place.total)),
                *(f"{'as a whole' if place.whole else len(place.points)} {place.verdict}", ratio),
                ", ".join(place.experiments),
            ]
        )
    return heads, rows


def regression_text(regression: Regression, comparison: ResultsComparison, conditions: dict[Column, str]) -> str:
    short = short_names(comparison)
    names = [short[name] for name in comparison.names]
    if isinstance(regression, Missing):
        return missing_text(regression, names)
    side_prefix = f"{names[regression.side]}: " if len(names) > 2 and not comparison.of_devices else ""
    if isinstance(regression, MissingDevices):
        return side_prefix + regression.text
    if isinstance(regression, PlaceDifference):
        return side_prefix + place_text(regression)
    if isinstance(regression, ExperimentDifference):
        subject = f"{titled(comparison, regression)} as a whole"
    else:
        experiment, device = regression.column.group
        subject = f"{experiment} on {device} ({conditions[regression.column]})"
    interval = interval_text(regression.low, regression.high)
    side_prefix = f", {names[regression.side]}" if len(names) > 2 else ""
    return f"{subject}{side_prefix}: {regression.verdict}, {ratio_text(regression.ratio)}" + (
        f" ({interval})" if interval else ""
    )
