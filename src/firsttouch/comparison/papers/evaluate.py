"""Tests the papers' claims on a run's records: comparisons, the verdict over them, and what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec.structs import replace

from firsttouch.base.errors import UsageError
from firsttouch.base.outputs import Output
from firsttouch.comparison.papers.calls import call_of
from firsttouch.comparison.papers.comparisons import (
    ClaimComparison,
    PointSelection,
    compared,
    has_repetitions,
    sides_of,
    values_of,
)
from firsttouch.comparison.papers.exceeded_memory import exceeds_memory
from firsttouch.comparison.papers.pooled import CONDITIONS, pooled
from firsttouch.comparison.papers.predicted_points import with_kernels, without_interval
from firsttouch.comparison.papers.wording import decision_in_words
from firsttouch.machine.access_counters import why_plain_memory_moves
from firsttouch.machine.backends import HOST
from firsttouch.machine.switches import SWITCHES, switches_of
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.papers.claims import (
    Across,
    Alike,
    Check,
    Compare,
    Iterations,
    Need,
    PaperClaim,
    Untestable,
    all_claims,
)
from firsttouch.records.papers.files import MEDIAN, FactorValues
from firsttouch.records.papers.rows import APPLICATIONS, all_rows
from firsttouch.records.predicted import predicted_for
from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import AllocatorInfo, DeviceInfo, Machine, Record, Scalar, Struct
from firsttouch.records.statements import headed
from firsttouch.records.statistics import measured
from firsttouch.records.text import count, named

MOST_LISTED = 20
"""The most comparisons of each kind that a verdict lists."""
ClaimOutcome: TypeAlias = Literal["holds", "does not hold", "no clear difference", "not testable"]


class Verdict(Struct, kw_only=True):
    """A claim and what a run says about it.

    why: a sentence: the values that decide, or why the claim can't be tested here. command: the call that measures what
    is missing, or ''. device: whose records were tested. agree, contradict, unclear: how many comparisons do.
    predicted: 'predicted for gh200' if nothing was measured: the verdict is what would be. comparisons: of each kind
    at most MOST_LISTED, those that decide first.
    """

    id: str
    paper: str
    section: str
    rows: list[str]
    text: str
    verdict: ClaimOutcome
    why: str
    device: str = ""
    command: str = ""
    agree: int = 0
    contradict: int = 0
    unclear: int = 0
    predicted: str = ""
    comparisons: list[ClaimComparison] = []

    @property
    def bare_why(self) -> str:
        """The sentence without what marks it as that of a prediction."""
        return self.why.removeprefix(headed("", self.predicted))


class Claims(Output, frozen=True, kw_only=True, tag="firsttouch-claims/1"):
    """What `firsttouch claims --json` prints: every claim, those that can't be tested included."""

    claims: list[Verdict]


def claims(directories: Sequence[Path]) -> Claims:
    """The papers' claims, tested on the runs in `directories`, which are of one machine.

    Raises:
        UsageError: as load_results and pooled, or there are no points.
    """
    runs = {str(directory): load_results(Path(directory)) for directory in directories}
    if not runs:
        raise UsageError("name a results directory, such as `firsttouch claims results/h200-standard`")
    for name, results in runs.items():
        if not results.records:
            raise UsageError(f"{name} holds no measured points; name a directory that `firsttouch run` wrote")
    return of_results(pooled(runs))


def of_results(results: Results, tested: Sequence[PaperClaim] | None = None) -> Claims:
    """As `claims`, of results that are loaded. tested: all claims if None."""
    prediction = predicted_for(device.name for device in results.machine.devices)
    run = _ClaimTests(results, prediction)
    verdicts = [run.verdict(claim) for claim in (all_claims() if tested is None else tested)]
    if prediction:
        verdicts = [replace(v, why=headed(v.why, prediction), predicted=prediction) for v in verdicts]
    return Claims(summary=headed(_summary(verdicts), prediction), claims=verdicts)


_VERBS: Sequence[tuple[ClaimOutcome, str, str]] = (
    ("holds", "hold", "holds"), ("does not hold", "do", "does"), ("no clear difference", "show", "shows")
)  # fmt: skip


def _summary(verdicts: Sequence[Verdict]) -> str:
    numbers = Counter(verdict.verdict for verdict in verdicts)
    hold, do, show = (verb if numbers[verdict] != 1 else of_one for verdict, verb, of_one in _VERBS)
    return (
        f"of {count(len(verdicts), 'claim')} of five papers, {numbers['holds']} {hold} here, "
        f"{numbers['does not hold']} {do} not, {numbers['no clear difference']} {show} no clear difference, "
        f"{numbers['not testable']} can't be tested with these results."
    )


def _why_without_property(has: Callable[[DeviceInfo], bool], sentence: str) -> Callable[[DeviceInfo, Machine], str]:
    """The sentence about a device that lacks a property, otherwise ''."""
    return lambda device, machine: "" if has(device) else sentence.format(device=device.name)


def _moves_by_itself(device: DeviceInfo, machine: Machine) -> str:
    reason = why_plain_memory_moves(machine.facts, device)
    return (
        f"the driver migrates memory of malloc by itself, which the study had switched off ({reason}; set it to 0)"
        if reason
        else ""
    )


NEEDS: Mapping[Need, Callable[[DeviceInfo, Machine], str]] = {
    "one memory": _why_without_property(
        lambda device: device.capabilities.shares_host_memory,
        "CPU and GPU here have separate memories (shares_host_memory of {device} is false)",
    ),
    "separate memories": _why_without_property(
        lambda device: not device.capabilities.shares_host_memory,
        "CPU and GPU here share one memory (shares_host_memory of {device} is true)",
    ),
    "host reaches device memory": _why_without_property(
        lambda device: bool(device.facts.get("directManagedMemAccessFromHost")),
        "the CPU here cannot use the memory of {device} in place (directManagedMemAccessFromHost is false)",
    ),
    "migration": _why_without_property(
        lambda device: device.capabilities.page_migration,
        "pages of {device} do not migrate (page_migration is false)",
    ),
    "another device": _why_without_property(
        lambda device: device.capabilities.runs_kernels and any(peer.same_driver for peer in device.peers),
        "the driver of {device} has no other device here",
    ),
    "no automatic migration": _moves_by_itself,
}
"""Why a claim can't be tested on a device of a machine, for lack of a property that it needs; '' if it has it."""


class _NotTestable(Exception):
    """Why a claim can't be tested, and the call that measures what is missing."""

    def __init__(self, why: str, command: str = "") -> None:
        super().__init__(why)
        self.why, self.command = why, command


def noiseless_verdict(results: Results, claim: PaperClaim) -> tuple[Verdict, Sequence[ClaimComparison]]:
    """The verdict on a claim by predictions, which have no noise, and all comparisons that it rests on."""
    test, records = claim.test, results.records
    if not isinstance(test, Untestable | Across):
        metric = test.metric if not isinstance(test, Iterations) else MEDIAN
        records = [without_interval(with_kernels(record, metric)) for record in records]
        claim = replace(claim, test=replace(test, exact=True))
    exact = Results(results.machine, results.request, records)
    return _ClaimTests(exact, predicted_for(d.name for d in results.machine.devices), noiseless=True).judged(claim)


class _ClaimTests:
    """A run's records by experiment, and its devices. predicted: 'predicted for gh200' or ''."""

    def __init__(self, results: Results, predicted: str, noiseless: bool = False) -> None:
        self.noiseless = noiseless
        self.machine, self.done = results.machine, "predicted" if predicted else "measured"
        devices = [device for device in self.machine.devices if device.available]
        self.gpus = [d for d in devices if d.role == "gpu"]
        hosts = [d for d in devices if d.role == "host"]
        self.hosts = hosts or [DeviceInfo(name=HOST, kind=HOST, title=HOST)]
        usable = measured(results.records)
        self.rows = {row.name: row for row in all_rows()}
        self.records = {experiment: rows for (experiment,), rows in _by_experiment(results.records).items()}
        self.usable = {id(record) for record in usable}

    def verdict(self, claim: PaperClaim) -> Verdict:
        return self.judged(claim)[0]

    def judged(self, claim: PaperClaim) -> tuple[Verdict, Sequence[ClaimComparison]]:
        """The verdict on the first device on which the claim can be tested, and all comparisons."""
        first = self.rows[claim.rows[0]]
        verdict = Verdict(
            id=claim.id,
            paper=first.paper,
            section=first.section,
            rows=claim.rows,
            text=claim.text,
            verdict="not testable",
            why="",
        )
        if isinstance(claim.test, Untestable):
            verdict.why = claim.test.why
            return verdict, ()
        if isinstance(claim.test, Across):
            verdict.why = "it compares machines, which `firsttouch validate` does on their platform files"
            return verdict, ()
        for device in self.gpus if claim.on == "gpu" else self.hosts:
            try:
                comparisons = self._comparisons(claim, claim.test, device)
            except _NotTestable as reason:
                if not verdict.why:
                    verdict.why, verdict.command, verdict.device = reason.why, reason.command, device.name
                continue
            verdict.device, verdict.command = device.name, ""
            _judge_claim(verdict, claim, comparisons)
            decisive, counts = verdict.comparisons[0], (verdict.agree, verdict.contradict, verdict.unclear)
            verdict.why = decision_in_words(decisive, *counts)
            return verdict, comparisons
        verdict.why = verdict.why or "these results have no GPU"
        return verdict, ()

    def _comparisons(self, claim: PaperClaim, test: Check, device: DeviceInfo) -> list[ClaimComparison]:
        for need in claim.needs:
            if reason := NEEDS[need](device, self.machine):
                raise _NotTestable(reason)
        pool = self._records_to_test(test, device)
        sides = list(sides_of(test))
        points = [record for record in pool if id(record) in self.usable]
        if reason := _lacking_runs(sides, points):
            raise _NotTestable(reason, self.command(claim, device))
        if lacking := [side for side in sides if not any(side.matches(r.factors) for r in points)]:
            reasons = filter(None, (self._why_not(test, side, device) for side in lacking))
            if reason := next(reasons, ""):
                raise _NotTestable(reason)
            raise _NotTestable(f"not {self.done} in this run", self.command(claim, device))
        comparisons = list(compared(test, points, noiseless=self.noiseless))
        if not comparisons:
            selected = [r for r in points if any(side.matches(r.factors) for side in sides)]
            raise _NotTestable(_why_nothing(test, selected, self.done), self.command(claim, device))
        asked_applications = test.where.get("app")
        applications = {c.points[0].factors.get("app") for c in comparisons}
        if isinstance(asked_applications, list) and 2 * len(applications) < len(asked_applications):
            reason = f"only {len(applications)} of {count(len(asked_applications), 'application')} could be compared"
            raise _NotTestable(reason, self.command(claim, device))
        return comparisons

    def _records_to_test(self, test: Check, device: DeviceInfo) -> list[Record]:
        """The records of a device, and those of the host about memory, since plain host memory is measured there. Those
        of applications at a size for tests are left out, and those whose data exceed the device's memory unless the
        claim is about them.
        """
        hosts = {host.name for host in self.hosts}
        rows = self.records.get(test.experiment, [])
        if test.experiment == APPLICATIONS:
            rows = [r for r in rows if r.factors.get("size") != "tiny"]
            grows = isinstance(test, Compare) and bool(test.growth)
            rows = [r for r in rows if grows or exceeds_memory(r, device) == test.exceeds_memory]
        return [r for r in rows if r.device == device.name or (r.device in hosts and "allocator" in r.factors)]

    def _why_not(self, test: Check, side: PointSelection, device: DeviceInfo) -> str:
        """Why no point of a side can be measured on a device: the reason in the records, or a property of the hardware;
        '' if nobody tried.
        """
        pool = self._records_to_test(test, device)
        for record in pool:
            if side.matches(record.factors):
                return _why_unused(record)
        if reason := _why_impossible(side, device, self.hosts):
            return reason
        if "allocator" in side.factors:
            of_memory = PointSelection({"allocator": side.factors["allocator"]})
            memory_records = [r for r in pool if r.device == device.name and of_memory.matches(r.factors)]
            if memory_records and all(record.status == "skipped" for record in memory_records):
                return _why_unused(memory_records[0])
        return ""

    def command(self, claim: PaperClaim, device: DeviceInfo) -> str:
        """The call that measures a claim's points."""
        return call_of(claim, device, self.gpus, self.hosts).text


def _by_experiment(records: Iterable[Record]) -> dict[tuple[Scalar, ...], list[Record]]:
    groups: dict[tuple[Scalar, ...], list[Record]] = {}
    for record in records:
        groups.setdefault((record.experiment,), []).append(record)
    return groups


def _why_nothing(test: Check, points: Sequence[Record], done: str) -> str:
    """Why points do not test a claim. done: 'measured' or 'predicted'."""
    if not any(record.counters.keys() >= set(test.counters) for record in points):
        return f"not {done} in this run: the points have no {test.metric}"
    if not test.exact and not all(map(has_repetitions, points)):
        return f"each point was {done} once, so that a difference may be chance"
    return "no two points of this run differ in this alone"


def _lacking_runs(sides: Sequence[PointSelection], points: Sequence[Record]) -> str:
    """Which runs a test of several lacks, or ''."""
    for name in CONDITIONS:
        asked = list(dict.fromkeys(v for s in sides if name in s.factors for v in values_of(s.factors[name])))
        if not {record.factors.get(name) for record in points}.issuperset(asked):
            both = " and one with ".join(named(name, value) for value in asked)
            return f"it compares a run with {both}: measure each, and name both directories"
    return ""


def _why_unused(record: Record) -> str:
    """Why a record is not used."""
    if record.status == "ok":
        return "the result of the point is wrong" if record.verified is False else "the point is suspect"
    words = {"skipped": "", "failed": "it failed: ", "timeout": "it ran too long: ", "crashed": "it crashed: "}
    return f"{words[record.status]}{record.reason}".rstrip(". ") or record.status


def _why_impossible(side: PointSelection, device: DeviceInfo, hosts: Sequence[DeviceInfo]) -> str:
    """A property of the hardware for which no point of a side is possible, or ''."""
    for name in side.factors:
        if name in SWITCHES and name not in switches_of(device):
            return f"the runtime of {device.name} does not read {SWITCHES[name].variable}"
    names, agent = [str(v) for v in values_of(side.factors.get("allocator", []))], _required_agent(side.factors)
    for strategy in values_of(side.factors.get("strategy", [])):
        if (known_strategy := STRATEGIES.get(str(strategy))) is not None and not known_strategy.duplicated:
            names, agent = [known_strategy.allocator], "both"
    reasons = [_why_unusable(name, agent, device, hosts) for name in names]
    return reasons[0] if reasons and all(reasons) else ""


def _required_agent(factors: Mapping[str, FactorValues]) -> str:
    """Who must be able to use the memory of a point: "cpu", "gpu", "both", or '' if that is not said."""
    acting = {
        str(v) for name in ("agent", "toucher", "first_touch", "streamed_by") for v in values_of(factors.get(name, []))
    }
    acting |= {"gpu" for v in values_of(factors.get("scenario", [])) if v != "cpu"}
    if "starts_on" in factors or {"cpu", "gpu"} <= acting:
        return "both"
    return "gpu" if "gpu" in acting else "cpu" if "cpu" in acting else ""


def _why_unusable(name: str, agent: str, device: DeviceInfo, hosts: Sequence[DeviceInfo]) -> str:
    """Why an agent cannot use an allocator's memory, or ''."""
    info: AllocatorInfo | None = device.allocator(name)
    if info is None:
        unknown = any(host.allocator(name) or not host.allocators for host in hosts)
        return "" if unknown else f"{device.name} has no {name} memory"
    if not info.available:
        return info.reason or f"{name} memory is not available on {device.name}"
    if agent in ("gpu", "both") and info.gpu == "none":
        return info.gpu_reason or f"the GPU cannot reach {name} memory"
    if agent in ("cpu", "both") and info.cpu == "none":
        return f"the CPU cannot reach {name} memory of {device.name}"
    return ""


def outcome_of(claim: PaperClaim, agree: int, contradict: int, total: int) -> ClaimOutcome:
    """What so many comparisons of so many say of a claim, by how many of them it needs."""
    outcome: ClaimOutcome = "no clear difference"
    if claim.holds_for == "all":
        return "does not hold" if contradict else "holds" if agree == total else outcome
    if claim.holds_for == "most":
        return "holds" if 2 * agree > total else "does not hold" if 2 * contradict >= total else outcome
    return "holds" if agree else "does not hold" if contradict == total else outcome


def _judge_claim(verdict: Verdict, claim: PaperClaim, comparisons: Sequence[ClaimComparison]) -> None:
    """Fills in what follows from the comparisons: the verdict, and those that decide, first."""
    by = {agrees: [c for c in comparisons if c.agrees == agrees] for agrees in ("yes", "no", "unclear")}
    total, yes, no = len(comparisons), len(by["yes"]), len(by["no"])
    outcome = outcome_of(claim, yes, no, total)
    decisive = {"holds": by["yes"], "does not hold": by["no"]}.get(outcome, by["unclear"])
    alike = isinstance(claim.test, Alike) or (isinstance(claim.test, Compare) and claim.test.relation == "same")
    extreme_first = alike or outcome == "does not hold"
    kinds = [decisive, *(kind for kind in by.values() if kind is not decisive)]
    ordered = [sorted(kind, key=_distance_from_equal, reverse=extreme_first)[:MOST_LISTED] for kind in kinds]
    verdict.verdict, verdict.agree, verdict.contradict, verdict.unclear = outcome, yes, no, len(by["unclear"])
    verdict.comparisons = [comparison for kind in ordered for comparison in kind]


def _distance_from_equal(comparison: ClaimComparison) -> float:
    """How far a ratio is from 1."""
    ratio = comparison.ratio
    return abs(math.log(ratio.value)) if ratio is not None and ratio.value > 0 else math.inf
