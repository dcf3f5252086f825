"""Predicts what published rows and claims are about, and judges the predictions by them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from msgspec.structs import replace

from firsttouch.base.errors import UsageError
from firsttouch.comparison.papers.beside import entries, factor_beyond
from firsttouch.comparison.papers.calls import PointsCall, call_of
from firsttouch.comparison.papers.comparisons import TIED, ClaimComparison, sides_of, values_of
from firsttouch.comparison.papers.evaluate import ClaimOutcome, noiseless_verdict
from firsttouch.comparison.papers.pooled import CONDITIONS, pooled
from firsttouch.comparison.papers.predicted_points import with_kernels
from firsttouch.comparison.validation.across import judged_across
from firsttouch.comparison.validation.origins import Origins
from firsttouch.comparison.validation.points import PlatformPoints, conditions_of, under_condition
from firsttouch.comparison.validation.results import FAR_OFF, Shares, ValidatedClaim, ValidatedRow, ValidationOutcome
from firsttouch.records.papers.claims import Across, Check, PaperClaim, Untestable
from firsttouch.records.papers.files import MEDIAN
from firsttouch.records.papers.rows import (
    APPLICATIONS,
    Correspondence,
    PaperRow,
    PublishedValue,
    all_rows,
    are_met,
    is_bound,
    is_exception,
    stated_value,
)
from firsttouch.records.reading import Results, identity_of
from firsttouch.records.schema import PEER, Factors, Record, Scalar
from firsttouch.records.text import count

_AT_MOST, _AT_LEAST = ("below", "less-than"), ("more-than", "at-least")
"""Qualifiers of a bound, on whose right side every prediction is right."""
_OUTCOMES: Mapping[ClaimOutcome, ValidationOutcome] = {
    "holds": "right", "does not hold": "wrong", "no clear difference": "open", "not testable": "not predicted"
}  # fmt: skip
RATIO = "ratio"
"""The unit of a row that states one value relative to another."""
_DIGITS = 9
"""Of ratios: what is beyond is the rounding of the computation."""
COUNTERS = "driver.counters"
"""The value of a platform that lets the driver move memory of malloc by itself."""


# ------------------------------------------------------------------------------------------------ rows


def validated_row(row: PaperRow, points: PlatformPoints, origins: Origins) -> ValidatedRow:
    """The prediction of a row."""
    stated, here = stated_value(row), row.here
    role, role_reason = origins.role([row])
    if stated is None or here is None:
        reason = "it says under 'here' of no measurement" if here is None else "it states no number"
        return ValidatedRow(
            row=row.name, says=row.says, role=role, role_reason=role_reason, outcome="not predicted", low=0, high=0,
            unit="", why=reason,
        )  # fmt: skip
    result = ValidatedRow(
        row=row.name,
        says=row.says,
        role=role,
        role_reason=role_reason,
        outcome="not predicted",
        low=stated.low,
        high=stated.high,
        unit=stated.unit,
        qualifier=stated.qualifier,
        application=stated.experiment == APPLICATIONS,
        experiment=stated.experiment,
    )
    try:
        records = points.of(_call_of_row(row, stated, points), lambda factors: _is_of_row(here, factors))
        records = [with_kernels(record, stated.metric) for record in records]
    except UsageError as error:
        result.why = str(error)
        return result
    corresponding = [r for r in records if here.matches(r.factors)]
    usable = [r for r in records if r.is_measured and r.metric_version == stated.metric_version]
    predicted = list(entries(row, stated, here.relative_to, [r for r in usable if r in corresponding], usable))
    if not predicted:
        result.why = _why_not(corresponding or records, stated)
        return result
    result.role, result.role_reason = origins.role(
        [row],
        usable[0].unit if stated.metric == MEDIAN or stated.unit == RATIO else stated.unit,
        map(identity_of, usable),
    )
    judge_prediction(result, [entry.value for entry in predicted])
    best = min(predicted, key=lambda entry: abs(entry.value - (result.predicted or 0)))
    result.predicted_low, result.predicted_high, result.point = best.low, best.high, best.point
    return result


def _is_of_row(here: Correspondence | None, factors: Factors) -> bool:
    """Whether a point has a row's value, or is what its ratio is to."""
    if here is None:
        return False
    shared_factors = {name: value for name, value in here.factors.items() if name not in here.relative_to}
    return here.matches(factors) or are_met({**shared_factors, **here.relative_to}, factors)


def _call_of_row(row: PaperRow, stated: PublishedValue, points: PlatformPoints) -> PointsCall:
    """The call that has a row's points, and those that its ratio is to."""
    assert row.here is not None
    values: dict[str, list[Scalar]] = {}
    open_factors = set()
    for name, accepted in row.here.factors.items():
        factor_values = values_of(accepted)
        open_factors |= {name} if any(is_bound(v) or is_exception(v) for v in factor_values) else set()
        relative_values = [row.here.relative_to[name]] if name in row.here.relative_to else []
        values[name] = [*dict.fromkeys(v for v in (*factor_values, *relative_values) if v is not None)]
    for name, value in row.here.relative_to.items():
        values.setdefault(name, [value])
    for name in open_factors:
        del values[name]
    is_application = stated.experiment == APPLICATIONS
    gpus = [gpu.name for gpu in points.gpus]
    named = gpus if PEER in open_factors else gpus[:1]
    return PointsCall(
        kind="app" if is_application else "run",
        names=[*map(str, values.pop("app"))] if is_application else [stated.experiment],
        devices=named if is_application else [*(host.name for host in points.hosts), *named],
        sets=values,
        standard=bool(open_factors - {PEER}) or "size" not in values,
        exceeds_memory=row.here.exceeds_memory,
        options=row.here.options,
    )


def judge_prediction(result: ValidatedRow, values: Sequence[float]) -> None:
    """Fills in how far a prediction is off; of several applications that a row covers, the one that is furthest off."""
    by_ratio = {round(ratio_to(result, value), _DIGITS): value for value in values}
    result.ratio = max(by_ratio, key=lambda ratio: max(ratio, 1 / ratio) if ratio > 0 else float("inf"))
    result.predicted = by_ratio[result.ratio]
    result.outcome = "right" if result.factor <= FAR_OFF and _is_on_the_right_side(result) else "wrong"


def _is_on_the_right_side(row: ValidatedRow) -> bool:
    """Whether a prediction keeps to a bound that the row states; and a ratio to the order of the two, if it states one:
    on the wrong side, no factor is small enough.
    """
    if row.qualifier in (*_AT_MOST, *_AT_LEAST):
        return row.ratio == 1
    value = row.predicted or 0.0
    if row.unit != RATIO or row.low <= 1 <= row.high:
        return True
    return value > TIED if row.low > 1 else value < 1 / TIED


def ratio_to(row: ValidatedRow, value: float) -> float:
    """A value to what a row states: 1 within its range, or on the right side of a bound."""
    low = -float("inf") if row.qualifier in _AT_MOST else row.low
    high = float("inf") if row.qualifier in _AT_LEAST else row.high
    return factor_beyond(value, low, high)


def _why_not(records: Sequence[Record], stated: PublishedValue) -> str:
    """Why no point has a row's value."""
    if reason := next((r.reason for r in records if not r.is_measured and r.reason), ""):
        return reason
    if records:
        return f"not modelled: {stated.metric} of {stated.experiment}"
    return "this platform has no such point"


# ------------------------------------------------------------------------------------------------ claims


def validated_claim(claim: PaperClaim, points: PlatformPoints, origins: Origins) -> ValidatedClaim:
    """Whether a claim is predicted to hold."""
    test, rows = claim.test, [row for row in all_rows() if row.name in claim.rows]
    role, role_reason = origins.role(rows)
    result = ValidatedClaim(
        id=claim.id, rows=claim.rows, text=claim.text, role=role, role_reason=role_reason, outcome="not predicted",
        shares=Shares(refused=1),
    )  # fmt: skip
    if isinstance(test, Untestable):
        result.why = test.why
        return result
    result.application = test.experiment == APPLICATIONS
    try:
        if isinstance(test, Across):
            result.outcome, result.why, result.shares = judged_across(
                test, claim, lambda each: _results_of(claim, each).records
            )
            return result
        results = _results_of(claim, points)
    except UsageError as error:
        result.why = str(error)
        return result
    verdict, comparisons = noiseless_verdict(results, claim)
    result.outcome, result.why = _OUTCOMES[verdict.verdict], verdict.bare_why
    if result.outcome == "not predicted":
        if not any(r.is_measured for r in results.records):
            result.why = next((r.reason for r in results.records if r.reason), result.why)
        return result
    compared_points = (point for comparison in comparisons for point in comparison.points)
    result.role, result.role_reason = origins.role(rows, comparisons[0].first.unit, compared_points)
    result.shares = shares_of(test, comparisons)
    if (reason := claim.undecided.get(points.platform.name) or claim.undecided.get("")) is not None:
        result.outcome, result.why = "open", f"{reason}; {result.why}"
    return result


def shares_of(test: Check, comparisons: Sequence[ClaimComparison]) -> Shares:
    """The parts of a claim that are predicted right, wrong, tied, and not at all. Of a claim about several programs,
    each counts alike.
    """
    asked = test.where.get("app")
    programs = asked if isinstance(asked, list) else [asked]
    by_program = {
        program: [c for c in comparisons if c.points[0].factors.get("app") == program] for program in programs
    }
    if not any(by_program.values()):
        by_program = {None: [*comparisons]}
    return Shares(
        right=fmean(_part(each, lambda c: c.agrees == "yes") for each in by_program.values()),
        wrong=fmean(_part(each, lambda c: c.agrees == "no" and not c.is_tied) for each in by_program.values()),
        tied=fmean(_part(each, lambda c: c.is_tied) for each in by_program.values()),
        refused=fmean(not each for each in by_program.values()),
    )


def _part(comparisons: Sequence[ClaimComparison], is_so: Callable[[ClaimComparison], bool]) -> float:
    return fmean(map(is_so, comparisons)) if comparisons else 0.0


def _results_of(claim: PaperClaim, points: PlatformPoints) -> Results:
    """The points of a claim, as one run; of a claim about several kernels, as of several runs."""
    test = claim.test
    assert not isinstance(test, Untestable)
    conditions = conditions_of(side.factors for side in sides_of(test))
    if "no automatic migration" in claim.needs and points.platform.has(COUNTERS):
        points = points.changed({COUNTERS: "off"})
    if not conditions:
        return _results_of_claim(claim, points)
    if len(conditions) > 1:
        raise UsageError(f"{count(len(conditions), 'condition')} of the machine differ")
    ((name, values),) = conditions.items()
    runs = {str(v): _results_of_claim(claim, under_condition(points, name, v)) for v in values}
    first = next(iter(runs.values()))
    names = {
        d.name: first_device.name
        for run in runs.values()
        for d, first_device in zip(run.machine.devices, first.machine.devices, strict=True)
    }
    for run in runs.values():
        run.records = [replace(r, device=names[r.device]) for r in run.records]
        run.machine = replace(run.machine, devices=first.machine.devices)
    return pooled(runs)


def _results_of_claim(claim: PaperClaim, points: PlatformPoints) -> Results:
    assert not isinstance(claim.test, Untestable)
    gpus = points.gpus if claim.on == "gpu" else points.hosts
    if not gpus:
        raise UsageError("the platform has no GPU")
    call = call_of(claim, gpus[0], points.gpus, points.hosts)
    sides = [{n: v for n, v in side.factors.items() if n not in CONDITIONS} for side in sides_of(claim.test)]
    records = points.of(call, lambda factors: any(are_met(side, factors) for side in sides))
    return Results(points.platform.machine(), None, records)
