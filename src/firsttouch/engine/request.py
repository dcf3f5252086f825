"""The request of a call: what it asks for, together with what earlier calls for its directory asked for."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from firsttouch.base.errors import UsageError
from firsttouch.base.modules import add_modules
from firsttouch.engine.choices import choose, choose_preset
from firsttouch.engine.quiet import check_minutes
from firsttouch.engine.selections import selections
from firsttouch.engine.work import Work
from firsttouch.records.reading import has_results, read_request
from firsttouch.records.schema import LONGEST_TIMEOUT, MOST_RANKS, SCHEMA, DeviceInfo, Request, Scalar


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
    relative_to: str = ""
    """The strategy to which applications are compared (--relative-to)."""
    ranks: int | None = None
    """The most processes that carry out a point together (--ranks)."""
    launcher: str = ""
    """The command that starts ranks, with {ranks} for their number; without it, the mpirun of mpi4py's MPI."""
    retry: bool = False
    """Try all points again that crashed, timed out or failed, however often they were tried (--retry)."""
    all_names: bool = False
    """Everything that the kind of work has (--all)."""
    wait: float | None = None
    """The most minutes to wait until other programs leave the processors alone (--wait)."""
    report: bool = True
    """Whether report.html is written (--no-report)."""
    trust: Callable[[Sequence[DeviceInfo]], list[DeviceInfo]] | None = None
    """Adds verified facts that drivers do not state (--trust-verified). Raises UsageError if they are from another
    machine.
    """

    def selects_points(self) -> bool:
        """True if the call itself chooses what is measured."""
        return bool(self.experiments or self.all_names or self.devices or self.set or self.preset or self.ranks)


def resolve(work: Work, options: RunOptions, warn: Callable[[str], None]) -> Request:
    """Returns the request of a call, with what earlier calls selected for the directory in `earlier`. A call with
    --resume that selects nothing continues the request in run.json. Code to run and limits to lift are never taken from
    run.json, because the directory may be from someone else.

    Raises:
        UsageError: an experiment or preset is unknown, or the results were taken with another preset or seed.
    """
    _check_numbers(options)
    if options.retry and not options.resume:
        raise UsageError("--retry needs --resume and --out DIR, the directory whose points are to be tried again")
    stored = _stored_request(work, options)
    base = stored or Request(schema=SCHEMA, experiments=[], devices=[], preset="quick", seed=1)
    add_modules(options.modules)
    work.check_modules(options.modules)
    if options.relative_to:
        work.check_relative_to(options.relative_to)
    if base.allow_oversubscription and not options.allow_oversubscription:
        warn(f"{options.out} was measured with --allow-oversubscription; this call does not give it")
    selection = options if options.selects_points() else base
    names = _required_names(work, options, base) if work.names_required else selection.experiments
    earlier = base.earlier
    if stored is not None and options.selects_points():
        earlier = selections(stored)
    else:
        for previous in earlier:
            choose(work.planning.noun, previous.experiments, work.names())
    request = Request(
        schema=SCHEMA,
        experiments=choose(work.planning.noun, names, work.names() if names else work.usual_names()),
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
        relative_to=options.relative_to or base.relative_to,
        every_device=base.every_device,
        earlier=earlier,
    )
    if options.selects_points() or stored is None:
        request.every_device = bool(options.devices) or work.every_device(request)
    return request


def _check_numbers(options: RunOptions) -> None:
    """Raises UsageError for a number that no option accepts. The command line has read its own before."""
    if options.timeout is not None and not 0 < options.timeout <= LONGEST_TIMEOUT:
        raise UsageError(f"timeout={options.timeout} is not more than 0 and at most {LONGEST_TIMEOUT:g} seconds")
    check_minutes(options.wait)
    for name, value, least, most in (("ranks", options.ranks, 1, MOST_RANKS), ("seed", options.seed, 0, 2**63 - 1)):
        if value is not None and not least <= value <= most:
            raise UsageError(f"{name}={value} is not from {least} to {most}")


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
    has_stored = options.out is not None and has_results(options.out)
    if not options.resume:
        if has_stored:
            raise UsageError(
                f"{options.out} already holds results; add --resume to continue that run, or choose another --out"
            )
        return None
    if options.out is None:
        raise UsageError("--resume needs --out DIR, the directory of the run to continue")
    stored = read_request(options.out)
    if has_stored and stored is None:
        raise UsageError(f"{options.out} holds results but no run.json; choose another --out")
    if stored is not None:
        _check_stored(work, options, stored)
    for name, requested in (("preset", options.preset), ("seed", options.seed)):
        before = getattr(stored, name, None)
        if has_stored and requested not in (None, before):
            raise UsageError(
                f"{options.out} was measured with --{name} {before}, not {requested}; "
                f"accepted: --{name} {before}, or another --out"
            )
    return stored


def _check_stored(work: Work, options: RunOptions, stored: Request) -> None:
    """Raises UsageError if a stored run is of another kind, or needs modules that this call does not name."""
    if stored.kind != work.name:
        raise UsageError(f"{options.out} holds results of `firsttouch {stored.kind}`; resume the run with that command")
    module_names = {Path(path).name for path in options.modules}
    if missing := [path for path in stored.modules if Path(path).name not in module_names]:
        words = " ".join(f"--module {shlex.quote(path)}" for path in missing)
        raise UsageError(
            f"{options.out} was measured with modules that this call does not name, and code that only a results "
            f"directory names is never run; to continue, add {words}"
        )
