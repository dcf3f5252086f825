"""Tries a program under memory strategies: plain runs, a plan, a checked run, and timed runs in alternating rounds."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from firsttouch import _core
from firsttouch.advice.advisor import prices_under
from firsttouch.advice.port.processes import is_watched
from firsttouch.advice.port.reading import read_single, traced_run
from firsttouch.advice.port.shadowed import ShadowRun, shadow_run
from firsttouch.advice.profiled import gpu_of
from firsttouch.advice.tried.edit_list import edits_of_pairs
from firsttouch.advice.tried.findings import (
    BASELINE,
    LEAST_ROUNDS,
    UNIFIED,
    CheckedCopies,
    ComparedOutput,
    Faster,
    PairApart,
    PredictedTime,
    TracedMemory,
    TriedPair,
    TriedResult,
    TriedStatus,
    TriedStrategy,
    TriedTime,
    TryFindings,
)
from firsttouch.advice.tried.outputs import OutputJudge
from firsttouch.advice.tried.plan import FROM_THE_TRACE, Joined, Plan, plan_of
from firsttouch.advice.tried.predicting import beside, differences
from firsttouch.advice.tried.recorded import ProcessNotes, compare_copies, name_as, read_notes
from firsttouch.advice.tried.running import NO_RESULT, FinishedRun, Runner
from firsttouch.advice.tried.stored import PROFILE, write_findings
from firsttouch.advice.tried.tracing import traced_memory
from firsttouch.base.errors import UsageError
from firsttouch.machine.limits import environment_limits
from firsttouch.profile.profiler import ProfileCall, profile
from firsttouch.profile.program_names import program_name
from firsttouch.profile.reading import read
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedRun
from firsttouch.records.text import count, join_names

_FAULTS = 8
"""Of how many page faults one is sampled."""
_LEAST_SHADOW_SECONDS, _SHADOW_TIMES_PLAIN = 300.0, 100.0
_KILLED = 128
"""From here on a status is that of a program which a signal ended, as shells count."""
_NO_PAIR = "no array and block of the program can be one memory"


@dataclass(frozen=True)
class TryCall:
    """What to try. tolerance: the share by which numbers of outputs may differ. prices: the results of a run by which
    times are predicted too, or None. tell: is told what is under way.
    """

    command: Sequence[str]
    strategies: Sequence[TriedStrategy]
    rounds: int
    out: Path
    tolerance: float = 0.0
    prices: Path | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    tell: Callable[[str], None] = lambda text: None


@dataclass
class _Result:
    """What is known of a strategy so far, by round."""

    runs: dict[int, FinishedRun] = field(default_factory=dict)
    differing: list[FinishedRun] = field(default_factory=list)
    """Those of the runs whose outputs differ from both plain runs."""
    status: TriedStatus = "ok"
    reason: str = ""
    traced: TracedMemory | None = None

    def stop(self, status: TriedStatus, reason: str) -> None:
        self.status, self.reason = status, reason


def try_program(call: TryCall) -> TryFindings:
    """Tries a program, and writes what was found to `RESULT` in the directory.

    Raises:
        UsageError: The call was wrong, or the program is none that can be tried.
    """
    if call.prices is not None:
        prices_under([call.prices], None, {})  # refuses what has none, before anything runs
    return _Trial(call).go()


class _Trial:
    def __init__(self, call: TryCall) -> None:
        self._call = call
        most = environment_limits().get("FIRSTTOUCH_MAX_MANAGED")
        self._runner = Runner(call.command, call.out, call.environment, most)
        self._plan_file, self._traced_plan = (call.out.absolute() / name for name in ("plan", "plan-traced"))
        self._results = {strategy: _Result() for strategy in dict.fromkeys((BASELINE, *call.strategies))}
        self._checked: CheckedCopies | None = None
        self._not_predicted = ""
        self._shadow: ShadowRun | None = None

    def go(self) -> TryFindings:
        tell = self._call.tell
        tell("plain, traced")
        first = self._trace("plain-1", self._profile)
        tell("plain, again")
        second = self._runner.run("plain-2", "record")
        statuses = [plain.outputs.status for plain in (first, second)]
        if statuses[0] != statuses[1] or not 0 <= statuses[0] < _KILLED:
            told = join_names([*map(str, dict.fromkeys(statuses))])
            raise UsageError(f"the program itself ended with status {told}; "
                             "try one that ends by itself, always with the same status")  # fmt: skip
        self._runner.limit(second.seconds)
        self._plain_copies = _busiest(second).copies
        plan, notes = self._plan(self._profile, "plain-1", second)
        plan = self._shadowed(plan, second)
        self._judge = OutputJudge([first.outputs, second.outputs], self._call.tolerance)
        self._refuse(plan)
        self._check(notes, second)
        self._time()
        self._compare_outputs([first, second])
        self._trace_strategies(plan.device)
        findings = self._findings(plan, self._predicted())
        write_findings(findings, self._call.out)
        return findings

    # ------------------------------------------------------------------------------------------------ plain runs

    def _trace(self, name: str, out: Path, *, shadow: bool = False, most: float | None = None) -> FinishedRun:
        """A plain run that is traced as of `firsttouch port`. most: seconds that it may take."""
        call = ProfileCall(out=out, faults=_FAULTS, host=True, shadow=shadow, duration=most)
        return self._profiled(name, "record", call)

    def _profiled(self, name: str, asked: str, call: ProfileCall, plan: Path | None = None) -> FinishedRun:
        """A run under `profile --trace`, with what else the call asks for. name: of its folder."""
        with self._runner.prepared(name) as (folder, stdout):
            before = self._runner.files()
            environment = self._runner.environment(folder, asked, plan)
            with stdout.open("wb") as out, _stdout_to(out.fileno()):
                outcome = profile(replace(call, command=self._call.command, trace=True, environment=environment))
            outputs = self._runner.outputs(folder, stdout, outcome.status or 0, before)
            return FinishedRun(outputs, 0.0, read_notes(folder))

    @property
    def _profile(self) -> Path:
        return self._call.out / PROFILE

    def _plan(self, traced: Path, name: str, untraced: FinishedRun) -> tuple[Plan, ProcessNotes]:
        """By the profile of a run, and what the library noted in it."""
        recorded = read_single(traced)
        run = traced_run(recorded)
        self._check_kind(run)
        notes = next((each for each in read_notes(self._runner.folder(name)) if each.pid == run.pid), None)
        if notes is None:
            raise UsageError("the library of try was not loaded into the program: it is linked statically, or it runs "
                             "as another user or with file capabilities; build it with shared libraries")  # fmt: skip
        self._recorded, self._run, self._shadow = recorded, run, run.once(shadow_run)
        plan = plan_of(run, recorded.callers, notes, watched=is_watched(recorded))
        self._traced_plan.write_text(plan.text(notes.queries, by_size=True))
        again = _busiest(untraced)
        name_as(notes, again)
        self._plan_file.write_text(plan.text(again.queries))
        return plan, notes

    def _shadowed(self, plan: Plan, untraced: FinishedRun) -> Plan:
        """The plan by a shadow run, which sees what the first run leaves in doubt."""
        is_of_use = any({*each.apart} <= FROM_THE_TRACE for each in (*plan.pairs, *plan.apart))
        if not is_of_use or not UNIFIED & {*self._results}:
            return plan
        self._call.tell("shadow")
        most = max(_LEAST_SHADOW_SECONDS, _SHADOW_TIMES_PLAIN * untraced.seconds)
        run = self._trace("shadow", self._call.out / "shadow-profile", shadow=True, most=most)
        if run.outputs.status != untraced.outputs.status:
            self._call.tell(f"the shadow run ended with status {run.outputs.status}, and is of no use")
            return plan
        try:
            return self._plan(self._call.out / "shadow-profile", "shadow", untraced)[0]
        except UsageError as error:
            self._call.tell(f"the shadow run is of no use: {error}")
            return plan

    def _check_kind(self, run: TracedRun) -> None:
        if run.apis not in (("CUDA",), ("HIP",)):
            raise UsageError(f"the program uses {join_names(run.apis)}; try runs programs that use CUDA or HIP alone")
        if run.others:
            raise UsageError("several processes of the program use the GPU; try runs programs of which one does")

    # ------------------------------------------------------------------------------------------------ what may be tried

    def _refuse(self, plan: Plan) -> None:
        for strategy, result in self._results.items():
            if strategy in UNIFIED and not plan.pairs:
                result.stop("impossible", _NO_PAIR)

    def _going(self) -> list[TriedStrategy]:
        return [strategy for strategy, result in self._results.items() if result.status == "ok"]

    def _check(self, notes: ProcessNotes, again: FinishedRun) -> None:
        """Runs the first strategy that unifies memory with a look at the bytes of each copy."""
        strategy = next((each for each in self._going() if each in UNIFIED), None)
        if strategy is None:
            return
        self._call.tell(f"checked: {strategy}")
        run = self._runner.run("checked", strategy, self._plan_file, checks=True)
        if self._ended_early(self._results[strategy], run):
            if run.left:
                self._stop_all("left the plan", run.left)
            return
        found = compare_copies(notes.copies, _busiest(again).copies, _busiest(run).copies)
        self._checked = CheckedCopies(
            strategy=strategy, equal=found.equal, different=found.different, unsure=found.unsure
        )
        if found.different or found.missing:
            missing = f"; {abs(found.missing)} copies {'fewer' if found.missing > 0 else 'more'}" * bool(found.missing)
            many = "1 copy carries" if found.different == 1 else f"{found.different} copies carry"
            self._stop_all("differs", f"{many} other bytes than in the plain run{missing}")

    def _stop_all(self, status: TriedStatus, reason: str) -> None:
        for strategy, result in self._results.items():
            if strategy in UNIFIED and result.status in ("ok", status):
                result.stop(status, reason)

    @staticmethod
    def _ended_early(result: _Result, run: FinishedRun) -> bool:
        if run.too_long:
            result.stop("too long", "it took more than 20 times as long as the plain run")
        elif run.impossible:
            result.stop("impossible", run.impossible)
        elif run.left:
            result.stop("left the plan", run.left)
        elif run.outputs.status == NO_RESULT:
            result.stop("left the plan", "the program ended with status 96, by which a run that leaves the plan ends")
        return result.status != "ok"

    # ------------------------------------------------------------------------------------------------ timed runs

    def _time(self) -> None:
        for number in range(self._call.rounds):
            self._call.tell(f"timed, round {number + 1} of {self._call.rounds}")
            going = self._going()
            turn = number % len(going)
            for strategy in (*going[turn:], *going[:turn]):
                result = self._results[strategy]
                if result.status != "ok":
                    continue
                plan = None if strategy == BASELINE else self._plan_file
                run = self._runner.run(f"round-{number + 1}-{strategy}", strategy, plan)
                if self._ended_early(result, run):
                    continue
                result.runs[number] = run
                if self._judge.difference(run.outputs):
                    result.differing.append(run)
                else:  # what is as in plain runs need not be kept
                    shutil.rmtree(run.outputs.stdout.parent / "files", ignore_errors=True)

    def _trace_strategies(self, device: int) -> None:
        """Runs each strategy that was timed once more, to see what it moves and holds."""
        for strategy in self._going():
            result = self._results[strategy]
            if not result.runs:
                continue
            if strategy == BASELINE:
                result.traced = self._memory(self._profile, strategy, device)
                continue
            self._call.tell(f"traced: {strategy}")
            name = f"traced-{strategy}"
            folder = self._runner.folder(name) / PROFILE
            run = self._profiled(name, strategy, ProfileCall(out=folder), self._traced_plan)
            if run.outputs.status == 0:
                result.traced = self._memory(folder, strategy, device)

    def _memory(self, profile: Path, strategy: TriedStrategy, device: int) -> TracedMemory:
        runs = self._results[strategy].runs
        return traced_memory(read(profile), strategy, device, runs[max(runs)].counts, self._call.out)

    def _predicted(self) -> Mapping[str, PredictedTime]:
        """By how many seconds strategies are predicted to take longer than the program as it is."""
        if self._call.prices is None:
            return {}
        self._call.tell("predicted")
        try:
            return differences(self._profile, self._call.prices)
        except UsageError as error:
            self._not_predicted = str(error)
            return {}

    def _compare_outputs(self, plain: Sequence[FinishedRun]) -> None:
        """What differs between plain runs, or from them under the baseline, proves nothing of a strategy."""
        others = [run.outputs for run in self._results[BASELINE].differing]
        self._judge = judge = OutputJudge([*(run.outputs for run in plain), *others], self._call.tolerance)
        for strategy in self._going():
            result = self._results[strategy]
            found = filter(None, (judge.difference(run.outputs) for run in result.differing))
            if strategy != BASELINE and (difference := next(found, None)):
                result.stop("differs", difference.text)

    def _findings(self, plan: Plan, predicted: Mapping[str, PredictedTime]) -> TryFindings:
        baseline, judge = self._results[BASELINE], self._judge
        rows = [
            self._row(strategy, result, baseline, predicted.get(strategy)) for strategy, result in self._results.items()
        ]
        return TryFindings(
            summary=_summary(program_name(self._call.command) or "the program", rows, self._call.rounds),
            directory=str(self._call.out),
            command=list(self._call.command),
            rounds=self._call.rounds,
            device=gpu_of(self._run, self._recorded.header),
            prices=str(self._call.prices or ""),
            tolerance=self._call.tolerance,
            not_predicted=self._not_predicted,
            pairs=[*_pairs(plan.pairs)],
            apart=[*_apart(plan.apart)],
            shadow=self._shadow.look if self._shadow is not None else None,
            checked=self._checked,
            outputs=[ComparedOutput(name=name, compared=judge.compared(name)) for name in judge.names],
            results=rows,
            edits_for=(advised := _to_edit_for(rows)),
            edits=edits_of_pairs(self._recorded, self._run, plan, advised) if advised else [],
        )

    def _row(
        self, strategy: TriedStrategy, result: _Result, baseline: _Result, longer: PredictedTime | None
    ) -> TriedResult:
        """longer: than the program as it is, by how much it is predicted to take; None: unknown."""
        runs = result.runs
        if result.status != "ok" or not runs:
            return TriedResult(strategy=strategy, status=result.status, reason=result.reason)
        counts = runs[max(runs)].counts
        if counts and strategy == BASELINE:  # under which the library looks at no copy
            made = self._plain_copies
            counts = msgspec.structs.replace(counts, made=len(made), made_bytes=sum(copy.bytes for copy in made))
        both = [number for number in runs if number in baseline.runs] if strategy != BASELINE else []
        ratio = _time([runs[number].seconds / baseline.runs[number].seconds for number in both]) if both else None
        none = [run.seconds for run in baseline.runs.values()]
        return TriedResult(
            strategy=strategy,
            status="ok",
            time=_time([run.seconds for run in runs.values()]),
            predicted=None if longer is None or not none else beside(_time(none).median, longer),
            ratio=ratio,
            compared=_compared(ratio) if ratio else None,
            counts=counts,
            traced=result.traced,
        )


def _busiest(run: FinishedRun) -> ProcessNotes:
    """The process of a run that copied most."""
    return max(run.notes, key=lambda notes: len(notes.copies), default=ProcessNotes(0))


@contextmanager
def _stdout_to(descriptor: int) -> Iterator[None]:
    """What a child of this process writes to its standard output goes there."""
    sys.stdout.flush()
    before = os.dup(1)
    os.dup2(descriptor, 1)
    try:
        yield
    finally:
        os.dup2(before, 1)
        os.close(before)


def _time(samples: Sequence[float]) -> TriedTime:
    _, median, *_, low, high = _core.summarise(samples)
    return TriedTime(median=median, low=low, high=high, samples=list(samples))


def _to_edit_for(rows: Sequence[TriedResult]) -> TriedStrategy | None:
    """The fastest strategy that has one memory for pairs, or is faster without."""
    timed = [row for row in rows if row.ratio and (row.strategy in UNIFIED or row.compared == "faster")]
    known = [row for row in timed if row.strategy in STRATEGIES]
    return min(known, key=_ratio).strategy if known else None


def _compared(ratio: TriedTime) -> Faster:
    if len(ratio.samples) < LEAST_ROUNDS or ratio.low <= 1 <= ratio.high:
        return "unsure"
    return "faster" if ratio.high < 1 else "slower"


def _pairs(pairs: Sequence[Joined]) -> Iterator[TriedPair]:
    rows: Counter[TriedPair] = Counter()
    for pair in pairs:
        assert pair.array is not None
        assert pair.block is not None
        copied_at, allocated_at = pair.names
        rows[
            TriedPair(
                array=pair.array.bytes,
                block=pair.block.bytes,
                copied_in=pair.bytes_in,
                copied_back=pair.bytes_back,
                copied_at=copied_at,
                allocated_at=allocated_at,
            )
        ] += 1
    for row, number in rows.items():
        yield msgspec.structs.replace(row, count=number)


def _apart(joined: Sequence[Joined]) -> Iterator[PairApart]:
    rows: dict[tuple[str, ...], PairApart] = {}
    for each in joined:
        reason = each.reason
        assert reason is not None
        copied_at, allocated_at = each.names
        key = reason, each.apart[reason], copied_at, allocated_at
        known = rows.get(key)
        rows[key] = PairApart(
            reason=reason,
            text=each.apart[reason],
            copied=each.bytes + (known.copied if known else 0),
            copied_at=copied_at,
            allocated_at=allocated_at,
            count=1 + (known.count if known else 0),
        )
    yield from sorted(rows.values(), key=lambda row: -row.copied)


def _summary(name: str, rows: Sequence[TriedResult], rounds: int) -> str:
    timed = [row for row in rows if row.ratio is not None]
    faster = min((row for row in timed if row.compared == "faster"), key=_ratio, default=None)
    if faster is not None:
        return f"{name}: {faster.strategy} takes {_ratio(faster):.2f} times as long as the program as it is"
    if not timed:
        reason = next((row.reason for row in rows if row.reason), "")
        return f"{name}: nothing could be timed{f': {reason}' if reason else ''}"
    if rounds < LEAST_ROUNDS:
        return f"{name}: {count(rounds, 'round')} cannot tell which is faster; give --rounds {LEAST_ROUNDS} or more"
    if all(row.compared == "slower" for row in timed):
        return f"{name}: leave it as it is; every strategy that was tried is slower"
    return f"{name}: no strategy that was tried is clearly faster than the program as it is"


def _ratio(row: TriedResult) -> float:
    assert row.ratio is not None
    return row.ratio.median
