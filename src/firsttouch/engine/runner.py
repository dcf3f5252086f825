"""Measures a plan: points one by one in workers. Each point is recorded before the next one begins."""

from __future__ import annotations

import os
import shlex
import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from firsttouch.counters.tool import why_none
from firsttouch.engine.counted import PointCounter
from firsttouch.engine.discover import discover_devices
from firsttouch.engine.job import Job, blank_record
from firsttouch.engine.launching import Launching
from firsttouch.engine.plan import BUDGETS, Planned, PointGroup, choose, choose_devices, choose_preset, make_plan
from firsttouch.engine.ranked import RankedWorker
from firsttouch.engine.reporting import write_report
from firsttouch.engine.sampled import PointSampler
from firsttouch.engine.selections import selecting, selections, together
from firsttouch.engine.work import Listing, Work
from firsttouch.errors import UsageError
from firsttouch.events import log as events
from firsttouch.events.trace import Trace
from firsttouch.machine.backends import BACKENDS, kind_of
from firsttouch.machine.limits import environment_limits, host_limit
from firsttouch.machine.peers import with_other_backends
from firsttouch.modules import add_modules
from firsttouch.profile.timelines import why_no_device
from firsttouch.records.reading import has_results, read_request
from firsttouch.records.schema import FAILURES, PEER, SCHEMA, DeviceInfo, Machine, Record, Request, Scalar
from firsttouch.records.store import Store
from firsttouch.workers.process import TaskResult, Worker

TIMEOUT = 30.0
"""Seconds that a point may take; more if twenty times its sampling time, or what its experiment grants, is longer."""
ALLOW = "FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION"
"""The environment variable that, if '1', lets the guard grant more managed memory than a device has free."""
SLACK = 2**30
"""Bytes of host memory that a worker may use beyond the guard's limit, for the interpreter and vendor libraries."""
TOTAL_FACT = "memory_bytes"
"""The fact of a device that states its total memory."""
OUTPUTS_KEPT = 64
"""The number of digests of checked outputs that a worker is sent: the latest."""
GIVE_UP_AFTER = 2
"""The number of new workers of one group that fail in a row before measuring, after which the group is not tried again.
"""


@dataclass
class RunOptions:
    """The options of the call. None and empty mean that an option was not given."""

    experiments: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    preset: str | None = None
    set: dict[str, list[Scalar]] = field(default_factory=dict)
    out: Path | None = None
    resume: bool = False
    timeout: float | None = None
    seed: int | None = None
    events: bool = False
    counters: bool = False
    """Run points once more under the vendor's profiler, and add its counters (--counters)."""
    modules: list[str] = field(default_factory=list)
    allow_oversubscription: bool = False
    ranks: int | None = None
    """The most processes that carry out a point together (--ranks)."""
    launcher: str = ""
    """The command that starts ranks, with {ranks} for their number; without it, the mpirun of mpi4py's MPI."""
    retry: bool = False
    """Try all points again that crashed, timed out or failed, however often they were tried (--retry)."""
    all_names: bool = False
    """Everything that the kind of work has (--all)."""
    trust: Callable[[Sequence[DeviceInfo]], list[DeviceInfo]] | None = None
    """Adds verified facts that drivers do not state (--trust-verified). Raises UsageError if they are from another
    machine.
    """

    def selects_points(self) -> bool:
        """True if the call itself chooses what is measured."""
        return bool(self.experiments or self.all_names or self.devices or self.set or self.preset or self.ranks)


@dataclass
class RunOutcome:
    """The outcome of a run.

    counts: the number of points in the directory by status. suspect: the number of suspect points by the rule that they
    break. summary: what the kind of work adds to the output of --json.
    """

    directory: Path
    counts: dict[str, int]
    unverified: int
    suspect: dict[str, int]
    seconds: float
    report: Path | None = None
    summary: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {
            "directory": str(self.directory),
            "report": str(self.report) if self.report else None,
            "counts": self.counts,
            "unverified": self.unverified,
            "suspect": self.suspect,
            "seconds": self.seconds,
            **self.summary,
        }

    @property
    def exit_status(self) -> int:
        if self.unverified:
            return 3
        return 1 if any(self.counts.get(status) for status in FAILURES) else 0


class Watcher(Protocol):
    """Shows the progress of a run."""

    def warn(self, text: str) -> None: ...
    def begin(self, directory: Path, todo: Sequence[Planned], held: int) -> None: ...
    def point(self, planned: Planned) -> None: ...
    def recorded(self, planned: Planned, record: Record) -> None: ...


def run(work: Work, options: RunOptions, watcher: Watcher) -> RunOutcome:
    """Carries out a call of a kind of work, from its options to the report.

    Raises:
        UsageError: the call was wrong. No point was measured, and no earlier result is lost.
        KeyboardInterrupt: the run was interrupted. Every point that ended is recorded.
    """
    started = time.monotonic()
    request = resolve(work, options, watcher)
    if request.allow_oversubscription:
        os.environ[ALLOW] = "1"
        watcher.warn("managed memory may exceed what the device has free; that can hang it for every process on it")
    chosen = [request] if options.selects_points() else [selecting(request, one) for one in selections(request)]
    named = [name for one in chosen for name in (*one.devices, *_named_peers(one))]
    devices = find_devices(named if all(one.devices for one in chosen) else [])
    if options.trust is not None:
        devices = options.trust(devices)
    for one in (request, *chosen):
        one.devices = one.devices or work.default_devices(choose_devices([], devices), one)
    limits = memory_limits(devices, [name for one in chosen for name in one.devices])
    launching = Launching(options.launcher)
    plans = [make_plan(one, devices, work.experiments(one.set), limits, work.planning, watcher.warn) for one in chosen]
    plans = [startable(plan, one, launching) for one, plan in zip(chosen, plans, strict=True)]
    with (
        Store(options.out or default_directory(), resume=options.resume) as store,
        PointSampler(store.directory) as sampler,
    ):
        store.describe(checked_machine(store, devices), together(request))
        retried = store.to_retry(all_failures=options.retry)
        by_name = {d.name: d for d in devices}
        for one, plan in zip(chosen, plans, strict=True):
            counter = PointCounter(work.experiments(one.set)) if one.counters else None
            measure(plan, one, by_name, store, watcher, retried, counter, launching, sampler)
            retried -= {planned.key for planned in plan}
            while more := further_points(work, one, devices, limits, store):
                measure(more, one, by_name, store, watcher, (), counter, launching, sampler)
        outcome = summarise(store, work, time.monotonic() - started)
    if problem := write_report(store.directory):
        watcher.warn(problem)
    else:
        outcome.report = store.directory / "report.html"
    return outcome


def startable(plan: list[Planned], request: Request, launching: Launching) -> list[Planned]:
    """The plan. Points with MPI are skipped if there is none and the call did not ask for ranks.

    Raises:
        UsageError: it did, with --ranks; the text says what to install.
    """
    try:
        if any(planned.mpi and not planned.reason for planned in plan):
            launching.check()
    except UsageError as error:
        if request.ranks is not None:
            raise
        return [replace(p, reason=str(error)) if p.mpi and not p.reason else p for p in plan]
    return plan


def further_points(
    work: Work, request: Request, devices: Sequence[DeviceInfo], limits: Mapping[str, int], store: Store
) -> list[Planned]:
    """The points that follow from what was measured, and that have no record yet."""
    plans = [
        make_plan(more, devices, work.experiments(more.set), limits, work.planning)
        for more in work.further(request, store.records)
    ]
    return [planned for plan in plans for planned in plan if planned.key not in store.keys]


def resolve(work: Work, options: RunOptions, watcher: Watcher) -> Request:
    """Returns the request of a call, with what earlier calls selected for the directory in `earlier`. A call with
    --resume that selects nothing continues the request in run.json. Code to run and limits to lift are never taken from
    run.json, because the directory may be from someone else.

    Raises:
        UsageError: an experiment or preset is unknown, or the results were taken with another preset or seed.
    """
    if options.retry and not options.resume:
        raise UsageError("--retry needs --resume and --out DIR, the directory whose points are to be tried again")
    stored = _stored_request(work, options)
    base = stored or Request(schema=SCHEMA, experiments=[], devices=[], preset="quick", seed=1)
    add_modules(options.modules)
    work.check_modules(options.modules)
    if base.allow_oversubscription and not options.allow_oversubscription:
        watcher.warn(f"{options.out} was measured with --allow-oversubscription; this call does not give it")
    selection = options if options.selects_points() else base
    names = _required_names(work, options, base) if work.names_required else selection.experiments
    earlier = base.earlier
    if stored is not None and options.selects_points():
        earlier = selections(stored)
    else:
        for one in earlier:
            choose(work.planning.noun, one.experiments, work.names())
    return Request(
        schema=SCHEMA,
        experiments=choose(work.planning.noun, names, work.names()),
        devices=selection.devices,
        preset=choose_preset(base.preset if options.preset is None else options.preset),
        seed=base.seed if options.seed is None else options.seed,
        timeout=(base.timeout or work.timeout) if options.timeout is None else options.timeout,
        set=selection.set,
        events=options.events or base.events,
        counters=options.counters or base.counters,
        ranks=selection.ranks,
        kind=work.name,
        modules=options.modules,
        allow_oversubscription=options.allow_oversubscription,
        earlier=earlier,
    )


def _required_names(work: Work, options: RunOptions, base: Request) -> list[str]:
    """Returns the names in the call, or those of the run to continue; an empty list means all. Raises UsageError if
    neither a name nor --all is given.
    """
    if options.all_names and options.experiments:
        raise UsageError(f"--all was given, and {', '.join(options.experiments)} too; give one or the other")
    names = options.experiments or base.experiments
    if not (names or options.all_names):
        nothing = f"{options.out} holds no run to continue; " if options.resume else ""
        raise UsageError(
            f"{nothing}name {work.planning.noun}s, or give --all; firsttouch {work.name} --list lists them"
        )
    return [] if options.all_names else names


def _stored_request(work: Work, options: RunOptions) -> Request | None:
    """Returns the request of the run to continue, or None if the call does not resume one."""
    held = options.out is not None and has_results(options.out)
    if not options.resume:
        if held:
            raise UsageError(
                f"{options.out} already holds results; add --resume to continue that run, or choose another --out"
            )
        return None
    if options.out is None:
        raise UsageError("--resume needs --out DIR, the directory of the run to continue")
    stored = read_request(options.out)
    if held and stored is None:
        raise UsageError(f"{options.out} holds results but no run.json; choose another --out")
    if stored is not None:
        _check_stored(work, options, stored)
    for name, given in (("preset", options.preset), ("seed", options.seed)):
        before = getattr(stored, name, None)
        if held and given not in (None, before):
            raise UsageError(
                f"{options.out} was measured with --{name} {before}, not {given}; "
                f"accepted: --{name} {before}, or another --out"
            )
    return stored


def _check_stored(work: Work, options: RunOptions, stored: Request) -> None:
    """Raises UsageError if a stored run is of another kind, or needs modules that this call does not name."""
    if stored.kind != work.name:
        raise UsageError(f"{options.out} holds results of `firsttouch {stored.kind}`; resume the run with that command")
    given = {Path(path).name for path in options.modules}
    if missing := [path for path in stored.modules if Path(path).name not in given]:
        words = " ".join(f"--module {shlex.quote(path)}" for path in missing)
        raise UsageError(
            f"{options.out} was measured with modules that this call does not name, and code that only a results "
            f"directory names is never run; to continue, add {words}"
        )


def list_work(work: Work, options: RunOptions) -> Listing:
    """Returns the output of --list for the names in the call, or for everything if there are none."""
    add_modules(options.modules)
    work.check_modules(options.modules)
    names = choose(work.planning.noun, options.experiments, work.names())
    return work.listing(names, options.devices, choose_preset(options.preset or "quick"))


def _named_peers(request: Request) -> list[str]:
    """The devices that --set names as peers."""
    return [str(name) for name in request.set.get(PEER, []) if kind_of(str(name)) in BACKENDS]


def find_devices(names: Sequence[str]) -> list[DeviceInfo]:
    """Returns the devices of the kinds in `names`; of all kinds if there is no name or an unknown one."""
    environment_limits()  # otherwise an invalid limit is only reported as a refusal of all memory by a worker's guard
    kinds = list(dict.fromkeys(map(kind_of, names)))
    devices = discover_devices(kinds) if kinds and set(kinds) <= set(BACKENDS) else discover_devices()
    rest = [kind for kind in BACKENDS if kind not in {d.kind for d in devices}]
    known = {d.name for d in devices}
    # Otherwise the call fails, and the message lists all devices.
    complete = known.issuperset(names) and any(d.available for d in devices)
    return with_other_backends(devices if complete else devices + discover_devices(rest))


def memory_limits(devices: Iterable[DeviceInfo], selected: Sequence[str]) -> dict[str, int]:
    """The most bytes that can be allocated on the host and on each selected device."""
    totals = {d.name: d.facts.get(TOTAL_FACT) for d in devices if d.name in selected and d.capabilities.runs_kernels}
    return {"host": host_limit()} | {name: total for name, total in totals.items() if isinstance(total, int)}


def default_directory() -> Path:
    return Path("firsttouch-results") / f"{socket.gethostname()}-{time.strftime('%Y%m%d-%H%M%S')}"


def checked_machine(store: Store, devices: list[DeviceInfo]) -> Machine:
    """Returns the content of machine.json. Raises UsageError if the results were taken on another machine."""
    from firsttouch.machine.facts import collect_machine

    stored = store.machine()
    if stored is None or not store.keys:
        return collect_machine(devices)
    before = {d.name: d for d in stored.devices}
    identities = [("host", stored.host, socket.gethostname())]
    for device in devices:
        if (old := before.get(device.name)) is not None:
            identities.append((device.name, _identity(old), _identity(device)))
    for what, there, here in identities:
        if there != here:
            raise UsageError(f"{store.directory} was measured on another machine ({what}: {there}, here {here}); "
                             "resume it there or choose another --out")  # fmt: skip
    stored.devices += [d for d in devices if d.name not in before]
    return stored


def _identity(device: DeviceInfo) -> str:
    return f"{device.title} {device.facts.get('uuid') or ''}".strip()


def measure(
    plan: Sequence[Planned],
    request: Request,
    devices: Mapping[str, DeviceInfo],
    store: Store,
    watcher: Watcher,
    retried: Collection[str] = (),
    counter: PointCounter | None = None,
    launching: Launching | None = None,
    sampler: PointSampler | None = None,
) -> None:
    """Measures the points of `plan` that have no record yet. Each is recorded before the next one begins.

    retried: the keys of points that are measured although they have a record. counter: adds the counters of the
    vendor's profiler to the records. sampler: samples the memory of those points that ask for it.
    """
    todo = [planned for planned in plan if planned.key not in store.keys or planned.key in retried]
    for warning in store.warnings:
        watcher.warn(warning)
    watcher.begin(store.directory, todo, len(plan) - len(todo))
    reported: set[tuple[str, str]] = set()
    with PointExecutor(request, Trace(store.directory), launching, sampler) as executor:
        for planned in todo:
            watcher.point(planned)
            job = make_job(planned, request, devices)
            record = blank_record(job, "skipped", planned.reason) if planned.reason else executor.measure(planned, job)
            if counter is not None:
                counter.add(planned, job, record)
            store.append(record)
            watcher.recorded(planned, record)
            for what, reason in missing(request, record).items():
                if (what, reason) not in reported:
                    reported.add((what, reason))
                    watcher.warn(f"measured without {what}: {reason}")


def make_job(planned: Planned, request: Request, devices: Mapping[str, DeviceInfo]) -> Job:
    return Job(
        experiment=planned.point.experiment,
        device=devices[planned.point.device],
        factors=planned.point.factors,
        metric=planned.metric,
        preset=request.preset,
        seed=request.seed,
        seconds=planned.seconds,
        limit=request.timeout or max(TIMEOUT, 20 * planned.seconds, planned.timeout),
        tolerance=BUDGETS[choose_preset(request.preset)].tolerance,
        kind=request.kind,
        peers=[devices[name] for name in planned.others if name in devices],
        ranks=[] if planned.one_process else [devices[name] for name in planned.places],
    )


class PointExecutor:
    """Measures points in workers, one at a time. One worker, or several ranks, serve the points of one group."""

    def __init__(
        self,
        request: Request,
        trace: Trace | None = None,
        launching: Launching | None = None,
        sampler: PointSampler | None = None,
    ) -> None:
        self._sampler = sampler
        self._launching = launching or Launching()
        self._trace = trace
        self._memory = host_limit() + SLACK
        self._worker: Worker | RankedWorker | None = None
        self._group: PointGroup | None = None
        self._failed_starts: dict[PointGroup, list[Record]] = {}
        self._outputs: list[str] = []

    def measure(self, planned: Planned, job: Job) -> Record:
        """Measures one point and returns its record, even if the worker crashes or hangs."""
        group = planned.group
        record = blank_record(job, "failed")
        if self._given_up(group, record):
            return record
        try:
            worker = self._worker_for(group, planned, job)
        except OSError as error:
            record.reason = f"no process could be started for it: {error.strerror}"
            return record
        job.outputs = self._outputs[-OUTPUTS_KEPT:]
        record, answer = self._ask(worker, planned, job, record)
        self._outputs += answer.reply.outputs if answer.reply is not None else []
        if self._trace is not None and answer.reply is not None and answer.reply.span is not None:
            # Before the record: if the process is killed in between, the point is measured again.
            self._trace.add(record, answer.reply.span)
        self._note_start(group, answer, record)
        # A failure may have left the device in an unusable state.
        if planned.fresh or answer.outcome != "done" or record.status == "failed":
            self.end_worker()
        return record

    def _ask(
        self, worker: Worker | RankedWorker, planned: Planned, job: Job, record: Record
    ) -> tuple[Record, TaskResult]:
        """Sends the point to the worker, and samples its memory meanwhile if that is asked for."""
        if not planned.sampled or self._sampler is None:
            answer = worker.ask(job, timeout=job.limit, memory=self._memory)
            return conclude(record, answer), answer
        with self._sampler.sampling(worker.pid if isinstance(worker, Worker) else None, job) as profile:
            answer = worker.ask(job, timeout=job.limit, memory=self._memory)
            profile.take(answer.reply)
        record = conclude(record, answer)
        if record.status == "ok":
            profile.add_to(record)
        return record, answer

    def _given_up(self, group: PointGroup, record: Record) -> bool:
        """True, with status and reason filled in, if the group is not tried again."""
        failed = self._failed_starts.get(group, [])
        if len(failed) < GIVE_UP_AFTER:
            return False
        record.status = failed[-1].status  # so that --resume tries after a crash
        record.reason = f"not tried: its device did not open {len(failed)} times in a row: {failed[-1].reason}"
        return True

    def _worker_for(self, group: PointGroup, planned: Planned, job: Job) -> Worker | RankedWorker:
        if planned.fresh or group != self._group or not (self._worker and self._worker.alive()):
            self.end_worker()
        if self._worker is None:
            self._worker, self._group = self._start(planned, job), group
        return self._worker

    def _start(self, planned: Planned, job: Job) -> Worker | RankedWorker:
        if not job.ranks:
            return Worker(planned.environment)
        launcher = self._launching.launcher(len(planned.places), planned.mpi)
        return RankedWorker(job.ranks, launcher, planned.environment, SLACK)

    def _note_start(self, group: PointGroup, answer: TaskResult, record: Record) -> None:
        if answer.last_state in ("", "opening") and record.status != "ok":
            self._failed_starts.setdefault(group, []).append(record)
        else:
            self._failed_starts.pop(group, None)

    def end_worker(self) -> None:
        if self._worker is not None:
            self._worker.stop()
        self._worker = None

    def __enter__(self) -> PointExecutor:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._worker is not None and kind is not None:  # interrupted in the middle of a point
            self._worker.kill()
        self.end_worker()


def conclude(record: Record, answer: TaskResult) -> Record:
    """Returns the record that the worker sent, or `record` with the status and reason of the worker's failure."""
    if answer.outcome == "done" and answer.reply is not None and answer.reply.record is not None:
        return answer.reply.record
    record.status = "failed" if answer.outcome == "done" else answer.outcome
    record.reason = answer.reason
    record.seconds = answer.seconds
    return record


def missing(request: Request, record: Record) -> dict[str, str]:
    """What was requested and is missing in `record`, with the reason."""
    found = {
        "events": events.why_none(record) if request.events else None,
        "counters": why_none(record) if request.counters else None,
        "the device's memory over time": why_no_device(record),
    }
    return {what: reason for what, reason in found.items() if reason}


def summarise(store: Store, work: Work, seconds: float) -> RunOutcome:
    records = store.records
    return RunOutcome(
        store.directory,
        counts=dict(Counter(r.status for r in records)),
        unverified=sum(r.verified is False for r in records),
        suspect=dict(Counter(r.suspect for r in records if r.suspect)),
        seconds=round(seconds, 3),
        summary=work.summary(records),
    )
