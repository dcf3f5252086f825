"""firsttouch profile: the memory of any program over time."""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

from firsttouch.base.errors import UsageError
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import path, process_of
from firsttouch.cli.output import print_error, print_failure, print_json, print_stderr, print_stdout

if TYPE_CHECKING:
    from firsttouch.base.outputs import Output
    from firsttouch.engine.reporting import ProfilePage
    from firsttouch.profile.gpu_sampler import GpuSampler
    from firsttouch.profile.profiler import ProfileCall, ProfileOutcome
    from firsttouch.profile.sources import LayerSource
    from firsttouch.profile.summary import ProfileSummary

EVERY = 64
"""Of how many page faults one is sampled, if --faults does not say."""
_UNITS = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)", re.ASCII)
_LONGEST = 366 * 86400.0


def _is_stored(word: str) -> bool:
    """Whether a word names the directory of a profile, or of those of ranks; a command of the same name comes first."""
    from firsttouch.profile.reading import is_profile, profiles_in

    path = Path(word)
    return path.is_dir() and shutil.which(word) is None and any(map(is_profile, profiles_in([path])))


class ProfileCommand(TyperCommand):
    """Lets --faults stand without a value: the next word is never taken for one."""

    faults_every = EVERY

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        valued = {name for param in self.params if not getattr(param, "is_flag", False) for name in param.opts}
        place = 0
        while place < len(args) and args[place].startswith("-") and args[place] != "--":
            if args[place] == "--faults":
                args[place] = f"--faults={self.faults_every}"
            place += 2 if args[place] in valued else 1
        if args[place + 1 :] == ["--json"] and _is_stored(args[place]):
            args = [*args[:place], "--json", args[place]]
        return super().parse_args(ctx, args)


def _time(option: str, text: str, least: float, accepted: str) -> float:
    match = _TIME.fullmatch(text.strip())
    scale = _UNITS.get(match[2]) if match else None
    if match is None or scale is None or not least <= float(match[1]) * scale <= _LONGEST:
        raise UsageError(f"{option} '{text:.40}' is not {accepted}")
    return float(match[1]) * scale


def interval(text: str) -> float:
    """Parses the value of --interval."""
    return _time("--interval", text, 1e-3, "a time of at least 1ms, such as 10ms or 0.1s")


def duration(text: str) -> float:
    """Parses the value of --duration."""
    return _time("--duration", text, 1e-3, "a time such as 60s or 5min")


def every(text: str) -> int:
    """Parses the value of --faults."""
    value = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if value < 1:
        raise UsageError(f"--faults={text:.40} is not a whole number; --faults=64 samples every 64th page fault")
    return value


@declare(
    "profile",
    "Profile the memory of any program.",
    {"profile": "profile.summary:ProfileSummary", "profile-sources": "cli.schemas:SourcesOutput"},
    function=None,
    kind=ProfileCommand,
    settings={"allow_interspersed_args": False},
    prints=True,
)
def command(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DIR | -- COMMAND [ARG]...", help="The program to start and profile, or a profile to show."
        ),
    ] = None,
    attach: Annotated[
        int | None,
        typer.Option(
            "--pid", parser=process_of("--pid"), metavar="PID", help="Profile a process that is already running."
        ),
    ] = None,
    lasting: Annotated[
        float | None,
        typer.Option("--duration", parser=duration, metavar="TIME", help="With --pid: stop after a time such as 60s."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until every process has ended, not only the first one.")
    ] = False,
    tick: Annotated[
        float | None,
        typer.Option("--interval", parser=interval, metavar="TIME", help="Time between two readings; default: 10ms."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            parser=path,
            metavar="DIR",
            help="Directory of the profile; default: firsttouch-profiles/NAME-DATE.",
        ),
    ] = None,
    faults: Annotated[
        int | None,
        typer.Option(
            "--faults",
            parser=every,
            metavar="[=N]",
            help="Sample every N-th page fault, by default every 64th, to find which source line touched a page first.",
        ),
    ] = None,
    trace: Annotated[
        bool,
        typer.Option(
            "--trace",
            help="Record allocations, copies and kernels of CUDA, HIP, OpenCL and OpenMP by a library in the program.",
        ),
    ] = False,
    host: Annotated[
        bool,
        typer.Option(
            "--host", help="Like --trace, and also record which pages of copied host buffers the CPU writes and reads."
        ),
    ] = False,
    check_copies: Annotated[
        bool,
        typer.Option("--check-copies", help="Like --trace, and compare all bytes of repeated copies, not just a part."),
    ] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact",
            help="Like --trace, and run the program a second time, slowly, to record which bytes its kernels access.",
        ),
    ] = False,
    no_inject: Annotated[
        bool,
        typer.Option("--no-inject", help="Load no library into the program: no NVTX ranges and no phases."),
    ] = False,
    sources: Annotated[
        bool, typer.Option("--sources", help="Show what can be recorded on this machine; start nothing.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print profile.json; the output of the program goes to stderr.")
    ] = False,
) -> None:
    """Profile the memory of any program and of the processes that it starts, on the host and on each GPU.

    Writes profile.json, trace.json (for Perfetto) and report.html. Phases are NVTX ranges,
    `with firsttouch.phase("solve"):` in Python, and `firsttouch mark solve` in a script.

    Exit status: that of the program; 128 + n if signal n ended it; 2 the call was wrong; 126, 127 the
    program can't be executed.

    With DIR, the summary of that profile is shown again, and nothing is run.

    Example: firsttouch profile --out first -- ./app arg
    """
    if sources:
        if words or attach is not None:
            raise UsageError("--sources starts nothing; leave the command and --pid out")
        _show_sources(as_json)
        return
    asked = (("--exact", exact), ("--host", host), ("--check-copies", check_copies), ("--trace", trace))
    loads = next((name for name, is_given in asked if is_given), "")
    if words and not words[1:] and _is_stored(words[0]):
        given = {"--pid": attach, "--duration": lasting, "--follow": follow, "--interval": tick, "--out": out,
                 "--faults": faults, loads: loads, "--no-inject": no_inject}  # fmt: skip
        if unused_options := [name for name, value in given.items() if value]:
            raise UsageError(f"with a directory nothing is profiled; leave out {', '.join(unused_options)}")
        _show_stored(Path(words[0]), as_json)
        return
    _check_options(words or [], attach, lasting, loads, no_inject=no_inject)
    gpus = launched_gpus(tick)
    with signals_for_this_thread():
        from firsttouch.profile.profiler import ProfileCall

    call = ProfileCall(
        command=words or [],
        pid=attach or 0,
        duration=lasting,
        follow=follow,
        interval=gpus.interval,
        out=out,
        faults=faults or 0,
        trace=bool(loads),
        host=host,
        check_copies=check_copies,
        exact=exact,
        inject=not no_inject,
        to_stderr=as_json,
    )
    raise typer.Exit(carry_out(call, gpus, _show, as_json, "profile"))


def _show_stored(directory: Path, as_json: bool) -> None:
    """Shows a profile that was made before; of ranks, one for each."""
    from firsttouch.advice.link import summary_of
    from firsttouch.cli.profiled import lines
    from firsttouch.profile.reading import profiles_in, read

    directories = profiles_in([directory])
    if as_json and len(directories) > 1:
        raise UsageError(f"--json shows one profile; name that of one rank, such as {directories[0]}")
    for profile in map(read, directories):
        summary = summary_of(profile)
        if as_json:
            print_json(summary)
        else:
            print_stdout("\n".join(lines(summary)))


def _command_of(pid: int) -> str:
    from firsttouch.machine.tree import Tree
    from firsttouch.profile.headline import retyped

    words = (Tree().bytes(f"proc/{pid}/cmdline") or b"").split(b"\0")[:-1]
    return retyped([word.decode(errors="replace") for word in words])


def _check_options(
    words: Sequence[str], attach: int | None, lasting: float | None, loads: str, *, no_inject: bool
) -> None:
    """Raises UsageError for options that do not go together. loads: the option that loads a library; '': none does."""
    if not words and attach is None:
        raise UsageError("there is nothing to profile; name a command, as in firsttouch profile -- ./app, or a --pid")
    if words and attach is not None:
        raise UsageError("a command and --pid were given; profile one of them")
    if lasting is not None and attach is None:
        raise UsageError("--duration needs --pid; a command is profiled until it ends")
    if loads and attach is not None:
        reason = f"the driver loads the library of {loads} at the program's start only"
        mend = f"firsttouch profile {loads} -- {_command_of(attach)}"
        raise UsageError(f"{loads} and --pid were given; {reason}: {mend}")
    if loads and no_inject:
        raise UsageError(f"{loads} and --no-inject were given; {loads} loads a library into the target")


_ONE_TOOL = "CUPTI serves one tool: while it traces, a profiler within the program (torch.profiler) gets no GPU events"
_KEEPS_THEM = {"profile": "without --trace it does", "port": "under `firsttouch profile` without --trace it does"}
"""What a user of each command does to keep a program's own profile."""

Show: TypeAlias = "Callable[[ProfileOutcome, ProfilePage, bool], None]"
"""Shows a profile whose page another process is about to draw; whether as JSON."""


def launched_gpus(interval: float | None) -> GpuSampler:
    """What will read the GPUs each `interval` seconds. NVML begins to answer while this process loads its modules."""
    with signals_for_this_thread():
        from firsttouch.machine.tree import Tree
        from firsttouch.profile.gpu_sampler import INTERVAL, GpuSampler

        gpus = GpuSampler(Tree(), INTERVAL if interval is None else interval)
        gpus.launch()
    return gpus


def carry_out(call: ProfileCall, gpus: GpuSampler, show: Show, as_json: bool, command: str) -> int:
    """Profiles, shows what came of it, and returns the target's exit status, whatever happens to what is shown."""
    # With little address space, OpenBLAS ends this process when it reserves memory for more threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    with signals_for_this_thread():
        from firsttouch.engine.reporting import ProfilePage
        from firsttouch.machine.libraries import find_library
        from firsttouch.profile.foreseen import foreseen
        from firsttouch.profile.launch import NotStarted
        from firsttouch.profile.profiler import profile, rank_of
        from firsttouch.profile.second_run import profile_twice

    if call.trace:
        call = replace(call, foreseen=foreseen(call.command, call.environment))
        if rank_of(call.environment) in ("", "0"):
            notes = [] if find_library("cuda").reason else [f"{_ONE_TOOL}; {_KEEPS_THEM[command]}"]
            for text in filter(None, [call.foreseen, *notes]):
                print_stderr(f"firsttouch: {text}")
    pages: list[ProfilePage] = []
    try:
        if call.exact:
            outcome = profile_twice(call, gpus, lambda text: print_stderr(f"firsttouch: {text}"))
        else:
            outcome = profile(call, gpus, lambda directory: pages.append(ProfilePage(directory)))
    except NotStarted as error:
        print_failure(str(error), error.status, as_json, command)
        return error.status
    finally:
        gpus.stop()
    status = 0 if outcome.status is None else outcome.status
    page = pages[0] if pages else ProfilePage(outcome.directory)
    try:
        show(outcome, page, as_json)
    except KeyboardInterrupt:
        print_failure(f"interrupted; firsttouch report {outcome.directory} draws the profile", status, as_json)
    except UsageError as error:
        print_failure(str(error), status, as_json)
    except Exception as error:
        reason = " ".join(str(error).split())
        again = f"firsttouch report {outcome.directory} draws the profile"
        print_failure(f"no summary: {type(error).__name__}: {reason:.200}; {again}", status, as_json)
    finally:
        page.drop()
    return status


@contextmanager
def signals_for_this_thread() -> Iterator[None]:
    """Use while libraries are loaded that start threads. Such a thread would take the signals that the profiler waits
    for, and hands on, in this one.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _show_sources(as_json: bool) -> None:
    """Prints what this machine offers to each layer, and the line to type for what it lacks."""
    from firsttouch.profile.sources import of_this_machine

    sources = of_this_machine()
    if as_json:
        print_json(_sources_output(sources))
        return
    width = max(len(row.state.layer) for row in sources)
    for row in sources:
        state = "yes" if row.state.active else "no "
        for number, text in enumerate(row.texts):
            head = " " * (width + 5) if number else f"{row.state.layer:<{width}}  {state}"
            print_stdout(f"{head}  {text}")


def _sources_output(sources: Sequence[LayerSource]) -> Output:
    from msgspec.structs import asdict

    from firsttouch.cli.schemas import SourceOutput, SourcesOutput
    from firsttouch.records.text import join_names

    layers = dict.fromkeys(row.state.layer for row in sources)
    active = {layer: any(row.state.active for row in sources if row.state.layer == layer) for layer in layers}
    absent = [layer for layer, is_active in active.items() if not is_active]
    seen = f"{len(active) - len(absent)} of {len(active)} layers of a profile are available here"
    return SourcesOutput(
        summary=f"{seen}{f', all but {join_names(absent)}' if absent else ''}.",
        sources=[SourceOutput(**asdict(row.state), sees=row.sees) for row in sources],
    )


def write_views(
    outcome: ProfileOutcome, page: ProfilePage, meanwhile: Callable[[], None] = lambda: None
) -> tuple[ProfileSummary, list[str]]:
    """Writes the views of a profile. Returns its numbers, and the paths of what was written, or why it was not.
    meanwhile: is called while the page is drawn, with the numbers that this process adds up.
    """
    if outcome.failure:
        print_error(f"the profile is not complete: {outcome.failure}")
    page.go_on()
    from firsttouch.advice.link import link_speed
    from firsttouch.profile.views import SUMMARY, TRACE, write

    directory = outcome.directory
    summary, unwritten = write(directory, link_speed)
    if not unwritten:
        page.go_on()
    meanwhile()
    problem = unwritten or page.finish()
    files = [] if unwritten else [str(directory / name) for name in (SUMMARY, TRACE)]
    return summary, [*files, f"firsttouch: {problem}" if problem else str(directory / "report.html")]


def _show(outcome: ProfileOutcome, page: ProfilePage, as_json: bool) -> None:
    """Writes the views of a profile, and prints the summary."""
    from firsttouch.cli.profiled import lines

    summary, files = write_views(outcome, page)
    if as_json:
        print_json(summary)
    else:
        print_stderr("\n".join(lines(summary, files)))  # at once, since ranks share a terminal
