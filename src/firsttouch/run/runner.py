"""Measures a plan: points one by one in workers, every end of a point recorded before the next begins."""

from __future__ import annotations

import os
import socket
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from firsttouch.errors import UsageError
from firsttouch.run import catalogue, events
from firsttouch.run.discover import KINDS, discover_devices
from firsttouch.run.plan import BUDGETS, Planned, choose, choose_devices, choose_preset, list_experiment, make_plan
from firsttouch.run.process import Answer, Worker
from firsttouch.run.store import Store, has_results, read_request
from firsttouch.run.trace import Trace
from firsttouch.run.worker import Job, blank_record
from firsttouch.schema import SCHEMA, DeviceInfo, Kind, Machine, Record, Request, Scalar
from firsttouch.units import parse_size

if TYPE_CHECKING:
    from firsttouch.apps.report import Row

TIMEOUT = 30.0
"""Seconds that a point may take, or twenty times its sampling where that is more."""
APP_TIMEOUT = 600.0
"""Seconds that one point of an application may take, with all its repetitions."""
ALLOW = "FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION"
"""The variable that lets the guard promise more managed memory than a device has free: '1' for yes."""
SLACK = 2**30
"""Bytes of host memory that a worker may take beyond the guard's limit: the interpreter and the vendor's libraries."""
TOTAL_FACT = "memory_bytes"
"""The fact of a device that states its memory."""
GIVE_UP_AFTER = 2
"""Fresh workers of one group in a row that did not come to measuring, after which the group is not tried again."""


Group: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]


@dataclass
class Wish:
    """What the call asked for; None and empty mean not said."""

    experiments: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    preset: str | None = None
    set: dict[str, list[Scalar]] = field(default_factory=dict)
    out: Path | None = None
    resume: bool = False
    timeout: float | None = None
    seed: int | None = None
    events: bool = False
    kind: Kind = "run"
    modules: list[str] = field(default_factory=list)
    allow_oversubscription: bool = False
    every: bool = False
    """All applications. Without a name or this there are none, whereas experiments are all without a name."""

    def says_what(self) -> bool:
        return bool(self.experiments or self.every or self.devices or self.set or self.preset)


@dataclass
class Outcome:
    """How a run ended. counts is by status over everything the directory holds, and so are the rows of applications,
    where it is a run of those.
    """

    directory: Path
    counts: dict[str, int]
    unverified: int
    seconds: float
    report: Path | None = None
    applications: list[Row] | None = None

    def as_dict(self) -> dict[str, Any]:
        found = {
            "directory": str(self.directory),
            "report": str(self.report) if self.report else None,
            "counts": self.counts,
            "unverified": self.unverified,
            "seconds": self.seconds,
        }
        return found if self.applications is None else found | {"applications": self.applications}

    @property
    def exit_status(self) -> int:
        if self.unverified:
            return 3
        return 1 if any(self.counts.get(status) for status in ("failed", "timeout", "crashed")) else 0


class Watcher(Protocol):
    """Who shows progress."""

    def warn(self, text: str) -> None: ...
    def begin(self, directory: Path, todo: Sequence[Planned], held: int) -> None: ...
    def point(self, planned: Planned) -> None: ...
    def recorded(self, planned: Planned, record: Record) -> None: ...


def run(wish: Wish, watcher: Watcher) -> Outcome:
    """Carry out `wish`, from words to a report.

    Raises:
        UsageError: the call was wrong; no point was measured and no earlier result is lost.
        KeyboardInterrupt: interrupted; every point that ended is recorded.
    """
    started = time.monotonic()
    request = settle(wish)
    experiments = catalogue.experiments(request.kind, request.set)
    if request.allow_oversubscription:
        os.environ[ALLOW] = "1"
        watcher.warn("managed memory may exceed what the device has free; that can hang it for every process on it")
    devices = find_devices(request.devices)
    request.devices = chosen_devices(request, devices)
    plan = make_plan(request, devices, experiments, memory_limits(devices, request.devices))
    with Store(wish.out or default_directory(), resume=wish.resume) as store:
        store.describe(same_machine(store, devices), request)
        measure(plan, request, {d.name: d for d in devices}, store, watcher)
        outcome = summarise(store, request.kind, time.monotonic() - started)
    outcome.report = write_report(store.directory)
    return outcome


def chosen_devices(request: Request, devices: Sequence[DeviceInfo]) -> list[str]:
    """The devices of a run by name. Applications need two agents, so that the CPU alone is left out unless named."""
    chosen = [d.name for d in choose_devices(request.devices, devices)]
    with_two = [name for name in chosen if name != "cpu"]
    return with_two if request.kind == "app" and not request.devices and with_two else chosen


def settle(wish: Wish) -> Request:
    """The request that `wish` means, going on from run.json where it resumes.

    Raises:
        UsageError: an unknown experiment or preset; results that were taken with another preset or seed.
    """
    if wish.seed is not None and not 0 <= wish.seed < 2**63:
        raise UsageError(f"--seed '{wish.seed}' is not a whole number from 0 to 2^63 - 1")
    if wish.timeout is not None and not wish.timeout > 0:
        raise UsageError(f"--timeout '{wish.timeout:g}' is not a number of seconds, more than 0")
    stored = _stored_request(wish)
    base = stored or Request(schema=SCHEMA, experiments=[], devices=[], preset="quick", seed=1)
    base.modules += wish.modules
    catalogue.show_modules(base.modules)
    usual = APP_TIMEOUT if wish.kind == "app" else None
    what = wish if wish.says_what() else base
    names = _applications(wish, base) if wish.kind == "app" else what.experiments
    return Request(
        schema=SCHEMA,
        experiments=choose(catalogue.WORDS[wish.kind], names, catalogue.names(wish.kind)),
        devices=what.devices,
        preset=choose_preset(base.preset if wish.preset is None else wish.preset),
        seed=base.seed if wish.seed is None else wish.seed,
        timeout=(base.timeout or usual) if wish.timeout is None else wish.timeout,
        set=what.set,
        events=wish.events or base.events,
        kind=wish.kind,
        modules=base.modules,
        allow_oversubscription=wish.allow_oversubscription or base.allow_oversubscription,
    )


def _applications(wish: Wish, base: Request) -> list[str]:
    """Those that are named, or those of the run to go on with; none means all. Raises UsageError for none said."""
    if wish.every and wish.experiments:
        raise UsageError(f"--all was given, and {', '.join(wish.experiments)} too; give one or the other")
    names = wish.experiments or base.experiments
    if not (names or wish.every):
        nothing = f"{wish.out} holds no run to go on with; " if wish.resume else ""
        raise UsageError(f"{nothing}name applications, or give --all; firsttouch app --list lists them")
    return [] if wish.every else names


def _stored_request(wish: Wish) -> Request | None:
    """What to go on from, where the wish is to resume."""
    held = wish.out is not None and has_results(wish.out)
    if not wish.resume:
        if held:
            raise UsageError(f"{wish.out} already holds results; add --resume to go on with them or give another --out")
        return None
    if wish.out is None:
        raise UsageError("--resume needs --out DIR, the directory to go on with")
    stored = read_request(wish.out)
    if held and stored is None:
        raise UsageError(f"{wish.out} holds results but no run.json; give another --out")
    if stored is not None and stored.kind != wish.kind:
        raise UsageError(f"{wish.out} holds results of `firsttouch {stored.kind}`; resume it with that")
    for name, wanted in (("preset", wish.preset), ("seed", wish.seed)):
        before = getattr(stored, name, None)
        if held and wanted not in (None, before):
            raise UsageError(
                f"{wish.out} was measured with --{name} {before}, not {wanted}; "
                f"accepted: --{name} {before}, or another --out"
            )
    return stored


def list_experiments(wish: Wish) -> list[dict[str, Any]]:
    """Every wished experiment: name, question, and by device its factors with their values or why it is not there."""
    request = settle(wish)
    experiments = catalogue.experiments("run", {})
    devices = choose_devices(request.devices, find_devices(request.devices))
    return [list_experiment(experiments[name], devices, choose_preset(request.preset)) for name in request.experiments]


def find_devices(names: Sequence[str]) -> list[DeviceInfo]:
    """The devices of the kinds that `names` need; of all kinds where none or an unknown one is named."""
    kinds = list(dict.fromkeys(name.partition(":")[0] for name in names))
    devices = discover_devices(kinds) if kinds and set(kinds) <= set(KINDS) else discover_devices()
    rest = [kind for kind in KINDS if kind not in {d.kind for d in devices}]
    known = {d.name for d in devices}
    return devices if known.issuperset(names) else devices + discover_devices(rest)


def memory_limits(devices: Iterable[DeviceInfo], selected: Sequence[str]) -> dict[str, int]:
    """Bytes that the host and each selected device can give at most."""
    totals = {d.name: d.facts.get(TOTAL_FACT) for d in devices if d.name in selected and d.kind != "cpu"}
    return {"host": host_limit()} | {name: total for name, total in totals.items() if isinstance(total, int)}


def host_limit() -> int:
    """Bytes of host memory that the guard lets one worker take."""
    from firsttouch import _core

    text = os.environ.get("FIRSTTOUCH_MAX_HOST", "")
    try:
        own = [parse_size(text)] if text else []
    except ValueError as error:
        raise UsageError(f"FIRSTTOUCH_MAX_HOST: {error}") from None
    return min([*own, _core.guard_limits()["host"] or 0])


def default_directory() -> Path:
    return Path("firsttouch-results") / f"{socket.gethostname()}-{time.strftime('%Y%m%d-%H%M%S')}"


def same_machine(store: Store, devices: list[DeviceInfo]) -> Machine:
    """What machine.json is to hold. Raises UsageError where the results were taken on another machine."""
    from firsttouch.machine.facts import collect_machine

    stored = store.machine()
    if stored is None or not store.held:
        return collect_machine(devices)
    before = {d.name: d for d in stored.devices}
    differs = [("host", stored.host, socket.gethostname())]
    for device in devices:
        if (old := before.get(device.name)) is not None:
            differs.append((device.name, _identity(old), _identity(device)))
    for what, then, here in differs:
        if then != here:
            raise UsageError(f"{store.directory} was measured on another machine ({what}: {then}, here {here}); "
                             "resume it there or give another --out")  # fmt: skip
    stored.devices += [d for d in devices if d.name not in before]
    return stored


def _identity(device: DeviceInfo) -> str:
    return f"{device.title} {device.facts.get('uuid') or ''}".strip()


def measure(
    plan: Sequence[Planned], request: Request, devices: Mapping[str, DeviceInfo], store: Store, watcher: Watcher
) -> None:
    """Every point of `plan` that the store does not hold, one by one, recorded before the next begins."""
    todo = [planned for planned in plan if planned.key not in store.held]
    for warning in store.warnings:
        watcher.warn(warning)
    watcher.begin(store.directory, todo, len(plan) - len(todo))
    without: set[str] = set()
    with Crew(request, Trace(store.directory)) as crew:
        for planned in todo:
            watcher.point(planned)
            job = make_job(planned, request, devices[planned.point.device])
            record = blank_record(job, "skipped", planned.reason) if planned.reason else crew.measure(planned, job)
            store.append(record)
            watcher.recorded(planned, record)
            if request.events and (reason := why_no_events(record)) not in ("", *without):
                without.add(reason)
                watcher.warn(f"measured without events: {reason}")


def make_job(planned: Planned, request: Request, device: DeviceInfo) -> Job:
    return Job(
        experiment=planned.point.experiment,
        device=device,
        factors=planned.point.factors,
        unit=planned.unit,
        preset=request.preset,
        seed=request.seed,
        seconds=planned.seconds,
        tolerance=BUDGETS[choose_preset(request.preset)].tolerance,
    )


class Crew:
    """The worker at work, and its successors. One worker serves the points of one group: device and environment."""

    def __init__(self, request: Request, trace: Trace | None = None) -> None:
        self._trace = trace
        self._timeout = request.timeout
        self._memory = host_limit() + SLACK
        self._worker: Worker | None = None
        self._group: Group | None = None
        self._misses: dict[Group, list[Record]] = {}

    def measure(self, planned: Planned, job: Job) -> Record:
        """The protocol of one point, whatever becomes of its worker."""
        group = (planned.point.device, tuple(sorted(planned.environment.items())))
        record = blank_record(job, "failed")
        if self._given_up(group, record):
            return record
        worker = self._worker_for(group, planned)
        answer = worker.ask(job, timeout=self._timeout or max(TIMEOUT, 20 * planned.seconds), memory=self._memory)
        record = conclude(record, answer)
        if self._trace is not None and answer.reply is not None and answer.reply.span is not None:
            self._trace.add(record, answer.reply.span)  # before the record: whoever ends us now measures it again
        self._note_start(group, answer, record)
        if planned.fresh or answer.how != "done" or record.status == "failed":  # a failure may have spoilt the device
            self.dismiss()
        return record

    def _given_up(self, group: Group, record: Record) -> bool:
        misses = self._misses.get(group, [])
        if len(misses) < GIVE_UP_AFTER:
            return False
        record.status = "skipped" if misses[-1].status == "skipped" else "failed"
        record.reason = f"not tried: its device did not open {len(misses)} times in a row: {misses[-1].reason}"
        return True

    def _worker_for(self, group: Group, planned: Planned) -> Worker:
        if planned.fresh or group != self._group or not (self._worker and self._worker.alive()):
            self.dismiss()
        if self._worker is None:
            self._worker, self._group = Worker(planned.environment), group
        return self._worker

    def _note_start(self, group: Group, answer: Answer, record: Record) -> None:
        if answer.after in ("", "opening") and record.status != "ok":
            self._misses.setdefault(group, []).append(record)
        else:
            self._misses.pop(group, None)

    def dismiss(self) -> None:
        if self._worker is not None:
            self._worker.stop()
        self._worker = None

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._worker is not None and kind is not None:  # interrupted in the middle of a point
            self._worker.kill()
        self.dismiss()


def conclude(record: Record, answer: Answer) -> Record:
    """The record that the worker gave, or `record` with what became of the worker."""
    if answer.how == "done" and answer.reply is not None and answer.reply.record is not None:
        return answer.reply.record
    record.status = "failed" if answer.how == "done" else answer.how
    record.reason = answer.reason
    record.seconds = answer.seconds
    return record


def why_no_events(record: Record) -> str:
    """Why events that were asked for are missing in `record`; '' where they are not."""
    state = str(record.counters.get(events.STATE, ""))
    return state.removeprefix(events.NONE) if state.startswith(events.NONE) else ""


def summarise(store: Store, kind: Kind, seconds: float) -> Outcome:
    from firsttouch.apps.report import summary

    records = store.records
    return Outcome(
        store.directory,
        counts=dict(Counter(r.status for r in records)),
        unverified=sum(r.verified is False for r in records),
        seconds=round(seconds, 3),
        applications=summary(records) if kind == "app" else None,
    )


def write_report(directory: Path) -> Path:
    from firsttouch.report import page

    return page.write_report([directory], directory / "report.html")
