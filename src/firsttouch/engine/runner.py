"""Carries out a call: makes its plan, measures the points one by one, and records each before the next one begins."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from firsttouch import __version__
from firsttouch.base.encoding import host_name
from firsttouch.base.errors import UsageError
from firsttouch.base.modules import add_modules
from firsttouch.engine import disturbed
from firsttouch.engine.choices import choose, choose_devices, choose_preset
from firsttouch.engine.counted import PointCounter
from firsttouch.engine.discover import find_devices, memory_limits
from firsttouch.engine.executor import PointExecutor
from firsttouch.engine.filling import blank_record
from firsttouch.engine.launching import Launching
from firsttouch.engine.modelled import check_one_sort, check_request, modelled_machine, notes, platform_title
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.engine.quiet import wait_until_quiet
from firsttouch.engine.reporting import write_report
from firsttouch.engine.request import RunOptions, resolve
from firsttouch.engine.sampled import PointSampler
from firsttouch.engine.selections import selecting, selections, together
from firsttouch.engine.work import Listing, Work
from firsttouch.machine.backends import BACKENDS, is_modelled, kind_of
from firsttouch.machine.measurement_warnings import conditions
from firsttouch.profile.counters.tool import why_lacking
from firsttouch.profile.events import log as events
from firsttouch.profile.events.trace import Trace
from firsttouch.profile.timelines import why_no_device
from firsttouch.records.reading import Results
from firsttouch.records.schema import FAILURES, PEER, DeviceInfo, Machine, Record, Request
from firsttouch.records.store import Store

ALLOW = "FIRSTTOUCH_ALLOW_OVERSUBSCRIPTION"
"""The environment variable that, if '1', lets the guard grant more managed memory than a device has free."""


@dataclass
class RunOutcome:
    """The outcome of a run.

    results: what the directory holds now. counts: the number of its points by status. suspect: the number of suspect
    points by the rule that they break. disturbed: the number of points measured while other programs used the
    processors. summary: what the kind of work adds to the output of --json.
    """

    directory: Path
    results: Results
    counts: dict[str, int]
    unverified: int
    suspect: dict[str, int]
    disturbed: int
    seconds: float
    report: Path | None = None
    summary: dict[str, Any] = field(default_factory=dict)

    @property
    def exit_status(self) -> int:
        if self.unverified:
            return 3
        return 1 if any(self.counts.get(status) for status in FAILURES) else 0


class Watcher(Protocol):
    """Shows the progress of a run."""

    def warn(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def begin(self, directory: Path, todo: Sequence[Planned], held: int) -> None: ...
    def point(self, planned: Planned) -> None: ...
    def recorded(self, planned: Planned, record: Record) -> None: ...


def run(work: Work, options: RunOptions, watcher: Watcher) -> RunOutcome:
    """Carries out a call of a kind of work, from its options to the report.

    Raises:
        UsageError: the call was wrong. No point was measured, and no earlier result is lost.
        KeyboardInterrupt: the run was interrupted. Every point that ended is recorded.
    """
    request = resolve(work, options, watcher.warn)
    check_request(request)
    for sentence in notes(request):
        watcher.note(sentence)
    lifted = request.allow_oversubscription and not any(map(is_modelled, request.devices))
    with oversubscription(watcher) if lifted else nullcontext():
        outcome = _carry_out(work, options, request, watcher)
    problem = write_report(outcome.directory) if options.report else ""
    if problem:
        watcher.warn(problem)
    elif options.report:
        outcome.report = outcome.directory / "report.html"
    return outcome


@contextmanager
def oversubscription(watcher: Watcher) -> Iterator[None]:
    """Lifts the limit on managed memory for this run, and not for what the same process does afterwards."""
    before = os.environ.get(ALLOW)
    os.environ[ALLOW] = "1"
    watcher.warn("managed memory may exceed what the device has free; that can hang it for every process on it")
    try:
        yield
    finally:
        if before is None:
            del os.environ[ALLOW]
        else:
            os.environ[ALLOW] = before


def _carry_out(work: Work, options: RunOptions, request: Request, watcher: Watcher) -> RunOutcome:
    """Plans and measures what a call selects."""
    modelled = any(map(is_modelled, request.devices))
    if options.wait is not None and not modelled:
        wait_until_quiet(options.wait, watcher.note)
    started = time.monotonic()
    chosen = (
        [request] if options.selects_points() else [selecting(request, selected) for selected in selections(request)]
    )
    named = [name for selected in chosen for name in (*selected.devices, *_named_peers(selected))]
    devices = find_devices(named if all(selected.devices for selected in chosen) else [])
    if options.trust is not None:
        devices = options.trust(devices)
    for selected in (request, *chosen):
        selected.devices = selected.devices or work.default_devices(choose_devices([], devices), selected)
    limits = memory_limits(devices, [name for selected in chosen for name in selected.devices])
    launching = Launching(options.launcher)
    plans = [
        make_plan(selected, devices, work.experiments(selected.set), limits, work.planning, watcher.warn)
        for selected in chosen
    ]
    plans = [startable(plan, selected, launching) for selected, plan in zip(chosen, plans, strict=True)]
    out = options.out or default_directory(request.devices)
    with (
        Store(out, resume=options.resume, own=options.out is None) as store,
        PointSampler(store.directory) as sampler,
    ):
        machine, whole_request = checked_machine(store, devices), together(request)
        store.describe(machine, whole_request)
        if not modelled and (distortions := conditions(machine.facts)):
            watcher.warn(f"this distorts what is measured: {'; '.join(distortions)}; firsttouch machine says more")
        retried, noted = store.to_retry(all_failures=options.retry), disturbed.DisturbedPoints()
        for selected, plan in zip(chosen, plans, strict=True):
            counter = PointCounter(work.experiments(selected.set)) if selected.counters else None
            measure(plan, selected, store, watcher, retried, counter, launching, sampler, noted)
            retried -= {planned.key for planned in plan}
            while more := further_points(work, selected, devices, limits, store):
                for sentence in work.why_further(selected, store.records):
                    watcher.note(sentence)
                measure(more, selected, store, watcher, (), counter, launching, sampler, noted)
        if options.wait is not None and noted.points:
            wait_until_quiet(options.wait, watcher.note)
        measure_again(noted, store, watcher, launching, sampler)
        results = Results(machine, whole_request, store.records, store.warnings)
        return summarise(store.directory, results, work, time.monotonic() - started)


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


def list_work(work: Work, options: RunOptions) -> Listing:
    """Returns the output of --list for the names in the call, or for everything if there are none."""
    add_modules(options.modules)
    work.check_modules(options.modules)
    names = choose(work.planning.noun, options.experiments, work.names())
    return work.listing(names, options.devices, choose_preset(options.preset or "quick"))


def _named_peers(request: Request) -> list[str]:
    """The devices that --set names as peers."""
    return [str(name) for name in request.set.get(PEER, []) if kind_of(str(name)) in BACKENDS]


def default_directory(devices: Sequence[str]) -> Path:
    """A new directory, named after the machine and the time."""
    where = platform_title(devices) if any(map(is_modelled, devices)) else host_name()
    return Path("firsttouch-results") / f"{where.replace('/', '_')}-{time.strftime('%Y%m%d-%H%M%S')}"


def checked_machine(store: Store, devices: list[DeviceInfo]) -> Machine:
    """Returns the content of machine.json, with every build of firsttouch that measured.

    Raises UsageError if the results were taken on another machine.
    """
    stored = store.machine()
    if stored is None or not store.keys:
        return described_machine(devices)
    check_one_sort(store.directory, stored.devices, devices)
    before = {d.name: d for d in stored.devices}
    modelled = any(device.modelled for device in devices)
    identities = [] if modelled else [("host", stored.host, host_name())]
    for device in devices:
        if (old := before.get(device.name)) is not None:
            identities.append((device.name, old.identity, device.identity))
    for noun, then, now in identities:
        if then != now:
            raise UsageError(f"{store.directory} was measured on another machine ({noun}: {then}, here {now}); "
                             "resume it there or choose another --out")  # fmt: skip
    stored.devices += [d for d in devices if d.name not in before]
    stored.firsttouch = ", ".join(dict.fromkeys([*stored.firsttouch.split(", "), __version__]))
    return stored


def described_machine(devices: list[DeviceInfo]) -> Machine:
    """This machine with its devices, or the one that platform files describe."""
    from firsttouch.machine.facts import collect_machine

    return modelled_machine(devices) if any(device.modelled for device in devices) else collect_machine(devices)


def measure(
    plan: Sequence[Planned],
    request: Request,
    store: Store,
    watcher: Watcher,
    retried: Collection[str] = (),
    counter: PointCounter | None = None,
    launching: Launching | None = None,
    sampler: PointSampler | None = None,
    noted: disturbed.DisturbedPoints | None = None,
) -> None:
    """Measures the points of `plan` that have no record yet. Each is recorded before the next one begins.

    retried: the keys of points that are measured although they have a record. counter: adds the counters of the
    vendor's profiler to the records. sampler: samples the memory of those points that ask for it. noted: collects those
    that were disturbed.
    """
    todo = [planned for planned in plan if planned.key not in store.keys or planned.key in retried]
    for warning in store.warnings:
        watcher.warn(warning)
    watcher.begin(store.directory, todo, len(plan) - len(todo))
    reported: set[tuple[str, str]] = set()
    with PointExecutor(Trace(store.directory), launching, sampler) as executor:
        for planned in todo:
            began = time.monotonic()
            watcher.point(planned)
            skipped = blank_record(planned, "skipped", planned.reason) if planned.reason else None
            record = skipped or executor.measure(planned)
            if counter is not None:
                counter.add(planned, record, executor.outputs)
            store.append(record)
            watcher.recorded(planned, record)
            if noted is not None:
                noted.note(planned, record, counter, time.monotonic() - began)
            for missing_part, reason in missing(request, record).items():
                if (missing_part, reason) not in reported:
                    reported.add((missing_part, reason))
                    done = "predicted" if record.modelled else "measured"
                    watcher.warn(f"{done} without {missing_part}: {reason}")


def measure_again(
    noted: disturbed.DisturbedPoints,
    store: Store,
    watcher: Watcher,
    launching: Launching,
    sampler: PointSampler,
) -> None:
    """Measures the disturbed points of a call once more, and says how many stay disturbed."""
    if noted.points:
        watcher.warn(disturbed.why(point.record for point in noted.points))
        with PointExecutor(Trace(store.directory), launching, sampler) as executor:
            for record in noted.measure_again(executor, watcher.point):
                store.append(record)
    if remaining := disturbed.what_remains(store.records):
        watcher.warn(remaining)


def missing(request: Request, record: Record) -> dict[str, str]:
    """What was requested and is missing in `record`, with the reason."""
    reasons = {
        "events": events.why_none(record) if request.events and record.modelled is None else None,
        "counters": why_lacking(record) if request.counters else None,
        "the device's memory over time": why_no_device(record),
    }
    return {missing_part: reason for missing_part, reason in reasons.items() if reason}


def summarise(directory: Path, results: Results, work: Work, seconds: float) -> RunOutcome:
    records = results.records
    return RunOutcome(
        directory,
        results,
        counts=dict(Counter(r.status for r in records)),
        unverified=sum(r.verified is False for r in records),
        suspect=dict(Counter(r.suspect for r in records if r.suspect)),
        disturbed=sum(r.is_disturbed for r in records),
        seconds=round(seconds, 3),
        summary=work.summary(records),
    )
