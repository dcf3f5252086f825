"""How right estimates of strategies are: what they should add, against applications that were measured.

Nothing in the model is fitted to applications, so every application judges it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import combinations
from statistics import mean, median

from firsttouch.advice.advisor import NOT_ESTIMATED, choose_device, estimates, measured_runs
from firsttouch.advice.answer import Absent
from firsttouch.apps import all_apps
from firsttouch.base.units import format_size
from firsttouch.harness.outcomes.derive import BASELINE
from firsttouch.model.measured import MeasuredPrices
from firsttouch.model.platform import Platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.prices import Prices
from firsttouch.model.ranges import difference
from firsttouch.model.terms import Term
from firsttouch.program.dry_run import program_of
from firsttouch.records.reading import Results
from firsttouch.records.schema import Summary
from firsttouch.records.text import join_names

LIKE_FIXED = 0.9
"""A fixed strategy is a rival if at least this part of the cases has it."""
REPETITIONS = 3
CLEARLY = 1.05
"""Two times differ clearly if their intervals are apart and, where they were measured once, if they differ by this."""
FAR_OFF = 1.25
"""The greatest ratio to the fastest strategy that advice may have, beyond the intervals of repeated measurements."""


@dataclass(frozen=True)
class Case:
    """One application at one size: ms that each strategy was estimated to add, and what was measured. terms: what the
    estimates are sums of. parameters: those of the application.
    """

    application: str
    size: object
    estimated: Mapping[str, float]
    measured: Mapping[str, Summary]
    reasons: Mapping[str, str]
    unknown: Sequence[str] = ()
    """The measured strategies that are not estimated and may be faster than the estimated ones."""
    advised: str = ""
    """The strategy with the least estimate, whether it was measured or not."""
    terms: Mapping[str, Sequence[Term]] = field(default_factory=dict)
    parameters: tuple[tuple[str, int], ...] = ()

    @property
    def repetitions(self) -> int:
        return min(summary.n for summary in self.measured.values())

    @property
    def title(self) -> str:
        return f"{self.application} at {format_size(self.size, 3) if isinstance(self.size, int) else self.size}"

    @cached_property
    def best(self) -> str:
        return min(self.measured, key=lambda name: self.measured[name].median)

    @cached_property
    def pick(self) -> str | None:
        """The measured strategy with the least estimate; none if it is not known to be the fastest."""
        if self.unknown:
            return None
        return min(self.estimated, key=lambda name: self.estimated[name], default=None)

    def ratio(self, name: str) -> float:
        return self.measured[name].median / self.measured[self.best].median

    def least_ratio(self, name: str) -> float:
        """The least ratio to the fastest that the intervals allow."""
        return self.measured[name].ci_low / self.measured[self.best].ci_high

    def errors(self) -> dict[str, float]:
        """The error of each strategy's difference to the baseline, as a part of the measured time."""
        if BASELINE not in self.estimated:
            return {}
        base, zero = self.estimated[BASELINE], self.measured[BASELINE].median
        return {
            name: abs((ms - base) - (self.measured[name].median - zero)) / self.measured[name].median
            for name, ms in self.estimated.items()
            if name != BASELINE
        }

    def interval(self, name: str) -> tuple[float, float]:
        """The range of the difference of a strategy to the baseline, in ms (model/ranges.py)."""
        apart = difference(self.terms[name], self.terms[BASELINE])
        return apart.low, apart.high

    def pairs(self) -> list[tuple[str, str, bool]]:
        """The pairs that differ clearly, the faster first, and whether the estimate has the same order."""
        pairs = []
        for a, b in combinations(self.estimated, 2):
            fast, slow = sorted((a, b), key=lambda name: self.measured[name].median)
            if is_clear(self.measured[fast], self.measured[slow]):
                pairs.append((fast, slow, self.estimated[fast] < self.estimated[slow]))
        return pairs


def is_clear(fast: Summary, slow: Summary) -> bool:
    """Whether two measured times differ clearly."""
    if min(fast.n, slow.n) < 2:
        return slow.median > CLEARLY * fast.median
    return fast.ci_high < slow.ci_low


class Estimator:
    """Estimates applications with the prices of one device, each with the same parameters once."""

    def __init__(self, prices: Prices, device: str = "") -> None:
        """device: the name of the device in the records, if that differs from the prices'."""
        self.device, self._prices = device or prices.device.name, prices
        self.estimates = cache(self._estimates)

    def _estimates(
        self, name: str, params: tuple[tuple[str, int], ...]
    ) -> tuple[Mapping[str, Sequence[Term]], list[Absent]]:
        """The terms of each strategy, and the strategies without an estimate."""
        return estimates(program_of(all_apps()[name], dict(params)), self._prices, all_apps()[name])


def estimator_of(micro: Results) -> Estimator:
    """An estimator with the prices of a run. Raises UsageError as choose_device."""
    return Estimator(MeasuredPrices(micro.machine, micro.records, choose_device([micro], None)))


@cache
def platform_estimator(platform: Platform, device: str) -> Estimator:
    """An estimator with the prices of a platform. device: its name in the records."""
    return Estimator(PlatformPrices(platform), device)


def cases(estimator: Estimator, applications: Results) -> list[Case]:
    """All applications of a run whose code is here, judged with the prices of another run."""
    cases = []
    for name, app in all_apps().items():
        programs: dict[tuple[object, tuple[tuple[str, int], ...]], dict[str, Summary]] = {}
        for r in measured_runs(applications.records, name, estimator.device, app.sizes["default"]):
            assert r.summary is not None
            parameters = {n.removeprefix("param_"): v for n, v in r.counters.items() if n.startswith("param_")}
            params = tuple((n, v) for n, v in parameters.items() if isinstance(v, int))
            programs.setdefault((r.factors["size"], params), {})[str(r.factors["strategy"])] = r.summary
        for (size, params), measured in programs.items():
            if len(measured) < 2:
                continue
            terms, absent = estimator.estimates(name, params)
            every = {s: sum(term.ms for term in rows) for s, rows in terms.items()}
            estimated = {s: ms for s, ms in every.items() if s in measured}
            reasons = {a.strategy: a.reason for a in absent if a.strategy in measured}
            unknown = [a.strategy for a in absent if a.strategy in measured and a.perhaps_faster]
            advised = min(every, key=lambda s: every[s], default="")
            cases.append(Case(name, size, estimated, measured, reasons, unknown, advised, terms, params))
    return cases


@dataclass(frozen=True)
class Judgement:
    """The figures over all cases."""

    cases: Sequence[Case]

    @cached_property
    def picked(self) -> list[tuple[float, Case]]:
        """The ratio of the pick to the fastest, the worst first."""
        ratios = [(case.ratio(case.pick), case) for case in self.cases if case.pick is not None]
        return sorted(ratios, key=lambda pair: -pair[0])

    @property
    def mean_ratio(self) -> float:
        return mean(ratio for ratio, _ in self.picked)

    def within(self, factor: float) -> float:
        return mean(ratio <= factor for ratio, _ in self.picked)

    @cached_property
    def fixed(self) -> tuple[str, float]:
        """The best single strategy for all, and its mean ratio, over the cases in which advice was judged."""
        judged = [case for _, case in self.picked]
        names = dict.fromkeys(name for case in judged for name in case.measured)
        means = {}
        for name in names:
            having = [case.ratio(name) for case in judged if name in case.measured]
            if len(having) >= LIKE_FIXED * len(judged):
                means[name] = mean(having)
        best = min(means, key=lambda name: means[name])
        return best, means[best]

    @cached_property
    def errors(self) -> list[float]:
        return [error for case in self.cases for error in case.errors().values()]

    @cached_property
    def pairs(self) -> list[tuple[Case, str, str, bool]]:
        return [(case, *pair) for case in self.cases for pair in case.pairs()]

    @cached_property
    def distinct(self) -> list[tuple[Case, str, str, bool]]:
        """The pairs whose estimates differ."""
        return [pair for pair in self.pairs if pair[0].estimated[pair[1]] != pair[0].estimated[pair[2]]]

    @property
    def repeated(self) -> Judgement:
        """The judgement of the cases that were measured several times."""
        return Judgement([case for case in self.cases if case.repetitions >= REPETITIONS])

    @property
    def median_error(self) -> float:
        return median(self.errors)


def judge(estimator: Estimator, runs: Iterable[Results]) -> Judgement:
    return Judgement([case for run in runs for case in cases(estimator, run)])


def in_order(pairs: Iterable[tuple[Case, str, str, bool]]) -> float:
    """The part of pairs whose estimates have the right order."""
    return mean(right for *_, right in pairs)


def exceptions(judged: Judgement) -> str:
    """What the model does not estimate, with the reasons."""
    reasons: dict[str, dict[str, None]] = {}
    for case in judged.cases:
        for reason in case.reasons.values():
            reasons.setdefault(reason.removeprefix(f"{NOT_ESTIMATED}: "), {})[case.application] = None
    return "; ".join(f"{join_names([*names])}: {reason}" for reason, names in reasons.items())
