"""firsttouch measures how CPU-GPU memory management behaves on a machine.

The functions of this module are the commands, and return what these print with --json. docs/api.md
describes them. firsttouch.api has the names for experiments and applications of your own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from firsttouch.profile.marks import phase

if TYPE_CHECKING:
    import os

    from firsttouch.cli.library import Points

try:
    from firsttouch._version import __version__
except ModuleNotFoundError:  # the folder src/ is on the path, without a build
    __version__ = "0+source"

__all__ = [
    "__version__",
    "advise",
    "claims",
    "compare",
    "describe_machine",
    "interfaces",
    "load",
    "methods",
    "phase",
    "platforms",
    "port",
    "published",
    "run",
    "run_app",
    "validate",
]


def load(*directories: str | os.PathLike[str]) -> Points:
    """The records of results directories as a sequence of flat rows, all with the same columns, one row per point.

    Columns are `host` and `run` (the directory), then the fields of a record; the nested ones are spread as
    ``factors.size``, ``summary.median``, ``counters.faults``, ``clocks_before.core_mhz``; samples, buffers and parties
    stay lists. What a record lacks is None. ``to_pandas()`` makes a data frame of it, ``plot()`` draws it.

    Raises:
        UsageError: a directory holds no results, or a broken file (the text names file and line).
    """
    from firsttouch.cli import library

    return library.load(directories)


def compare(*sides: str | os.PathLike[str], fail_over: float | str | None = None) -> dict[str, Any]:
    """What `firsttouch compare --json` prints: what differs between results directories, and by how much.

    sides: directories; several of one machine joined by commas; "published:NAME". fail_over: the percentage by which
    something may be worse before it becomes one of `regressions`.
    """
    from firsttouch.cli import library

    return library.compare(sides, fail_over)


def advise(
    *directories: str | os.PathLike[str],
    device: str | None = None,
    app: str | None = None,
    size: int | str | None = None,
    pattern: str | None = None,
    set: Mapping[str, Any] | None = None,
    module: str | Iterable[str] | None = None,
    profile: str | os.PathLike[str] | None = None,
    process: int | None = None,
) -> dict[str, Any]:
    """What `firsttouch advise --json` prints: which memory strategy to take, from the records of a run.

    set: settings of the pattern, such as {"kernels": 100}. module: files with applications of your own, one of which
    `app` names. profile: a directory of `firsttouch profile --trace`, whose program the advice is then about, and of
    its processes `process`, by default the one that copies and launches most.
    """
    from firsttouch.cli import library

    asked = {"app": app, "device": device, "size": size, "pattern": pattern, "sets": set, "process": process}
    return library.advise(directories, module, profile, **asked)


def platforms(name: str | None = None, *, what_if: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What `firsttouch platforms --json` prints: the machines that can be modelled, or one with all its values.

    name: of a platform, or the path of a file. what_if: other values of it, such as {"host.page": "4KiB"}.
    """
    from firsttouch.cli import library

    return library.platforms(name, what_if)


def port(directory: str | os.PathLike[str], *, process: int | None = None) -> dict[str, Any]:
    """What `firsttouch port --json` prints: what stands between the program of a profile and unified memory.

    directory: of a profile with a trace. process: the number of one of several; by default the busiest one.
    """
    from firsttouch.cli import library

    return library.port(directory, process)


def published(search: str | None = None, figures: bool = False) -> dict[str, Any]:
    """What `firsttouch published --json` prints: what papers of the field state; or their figures by number."""
    from firsttouch.cli import library

    return library.published(search, figures)


def claims(*directories: str | os.PathLike[str]) -> dict[str, Any]:
    """What `firsttouch claims --json` prints: which claims of papers hold in runs of one machine."""
    from firsttouch.cli import library

    return library.claims(directories)


def validate(
    *names: str,
    rows: str | os.PathLike[str] | None = None,
    measured: Iterable[str | os.PathLike[str]] = (),
) -> dict[str, Any]:
    """What `firsttouch validate --json` prints: how right predictions are for the machines of platform files.

    rows: a file of published rows to judge by. measured: results of applications to judge by.
    """
    from firsttouch.cli import library

    return library.validate(names, rows, [*measured])


def interfaces(directory: str | os.PathLike[str], kind: str | Iterable[str] | None = None) -> dict[str, Any]:
    """What `firsttouch interfaces --json` prints: by which interface data move fastest, by size, and where it changes.

    kind: "direct", "copy", "message" or "collective", or several of them; by default all.
    """
    from firsttouch.cli import library

    return library.interfaces(directory, kind)


def describe_machine() -> dict[str, Any]:
    """What `firsttouch machine --json` prints: the facts about this machine."""
    from firsttouch.cli import library

    return library.describe_machine()


def methods(device: str | Iterable[str] | None = None, *, verify: bool = False) -> dict[str, Any]:
    """What `firsttouch methods --json` prints: `cells`, the properties of each allocator on this machine.

    verify: find them by experiment.
    """
    from firsttouch.cli import library

    return library.methods(device, verify)


def run(
    *experiments: str,
    device: str | Iterable[str] | None = None,
    what_if: Mapping[str, Any] | None = None,
    preset: str | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    retry: bool = False,
    timeout: float | None = None,
    seed: int | None = None,
    events: bool = False,
    counters: bool = False,
    ranks: int | None = None,
    launcher: str = "",
    module: str | Iterable[str] | None = None,
    allow_oversubscription: bool = False,
    trust_verified: str | os.PathLike[str] | None = None,
    wait: float | None = None,
) -> dict[str, Any]:
    """Measures this machine as `firsttouch run` does, and returns what that prints with --json.

    what_if: other values of a modelled machine, such as {"host.page": ["4KiB", "64KiB"]}.
    set: values of factors, such as {"size": ["4KiB", "1MiB"]}. Without experiments, all are run. ranks: processes that
    may carry out a point together. trust_verified: a directory of `firsttouch methods --verify --out`. wait: the most
    minutes to wait until the machine is quiet.

    Raises:
        UsageError: the call was wrong.
    """
    from firsttouch.cli import library

    return library.measure(
        "run",
        experiments,
        device=device,
        what_if=what_if,
        preset=preset,
        sets=set,
        out=out,
        resume=resume,
        retry=retry,
        timeout=timeout,
        seed=seed,
        events=events,
        counters=counters,
        ranks=ranks,
        launcher=launcher,
        modules=module,
        allow_oversubscription=allow_oversubscription,
        trust_verified=trust_verified,
        wait=wait,
    )


def run_app(
    *names: str,
    strategy: str | Iterable[str] | None = None,
    size: int | str | None = None,
    budget: int | str | None = None,
    oversubscribe: float | str | None = None,
    iterations: int | None = None,
    repeat: int | None = None,
    relative_to: str = "",
    device: str | Iterable[str] | None = None,
    what_if: Mapping[str, Any] | None = None,
    kernels: str | os.PathLike[str] | None = None,
    set: Mapping[str, Any] | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    retry: bool = False,
    timeout: float | None = None,
    seed: int | None = None,
    ranks: int | None = None,
    launcher: str = "",
    module: str | Iterable[str] | None = None,
    allow_oversubscription: bool = False,
    trust_verified: str | os.PathLike[str] | None = None,
    wait: float | None = None,
    timeline: bool = False,
    counters: bool = False,
    placements: bool = False,
    explain: bool = False,
) -> dict[str, Any]:
    """Runs applications under memory strategies as `firsttouch app` does, and returns what that prints with --json.

    Without names, all applications. set: further factors and parameters, such as {"pages": "huge"}. timeline: sample
    host and device memory over time. relative_to: the strategy that ratios are to, by default explicit. placements: try
    other advice and prefetches of single buffers. explain: say where predicted time goes. kernels: a directory of runs
    that say what kernels take, for predictions. what_if, counters, ranks, trust_verified, wait: as of `run`.

    Raises:
        UsageError: the call was wrong.
    """
    from firsttouch.cli import library

    named = {"strategy": strategy, "size": size, "budget": budget, "oversubscribe": oversubscribe}
    named |= {"iterations": iterations, "repeat": repeat, "timeline": "on" if timeline else None}
    return library.measure(
        "app",
        names,
        device=device,
        what_if=what_if,
        kernels=kernels,
        sets={**{name: value for name, value in named.items() if value is not None}, **(set or {})},
        out=out,
        resume=resume,
        retry=retry,
        timeout=timeout,
        seed=seed,
        ranks=ranks,
        launcher=launcher,
        modules=module,
        allow_oversubscription=allow_oversubscription,
        trust_verified=trust_verified,
        wait=wait,
        counters=counters,
        placements=placements,
        explain=explain,
        relative_to=relative_to,
        all_names=not names,
    )
