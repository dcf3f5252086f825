"""`firsttouch profile`: starts a target or attaches to one, samples it until it ends, and leaves it as it is.

The profiler is a bystander: the target has the terminal, its signals and its process group. SIGTERM and SIGHUP are
handed on; Ctrl-C and Ctrl-Z reach the target from the terminal. Whatever fails in the profiler, the target goes on.
"""

from __future__ import annotations

import itertools
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from firsttouch.base.errors import UsageError
from firsttouch.base.files import as_usage_error, make_new_directory
from firsttouch.base.processes import why_foreign
from firsttouch.machine.tree import Tree, drop_missing, parse_int
from firsttouch.profile import launch, process_memory, schema
from firsttouch.profile.call_journal import frames
from firsttouch.profile.gpu_sampler import INTERVAL, GpuSampler
from firsttouch.profile.inject import inject_environment
from firsttouch.profile.marks import VARIABLE
from firsttouch.profile.perf import TargetEvents, open_processes
from firsttouch.profile.program_names import program_name
from firsttouch.profile.records import Writer, header
from firsttouch.profile.sampler import Sampler
from firsttouch.profile.traced import callers

ENVIRONMENT = (
    *("OMP_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "CUDA_VISIBLE_DEVICES"),
    *("CUDA_MODULE_LOADING", "CUDA_MANAGED_FORCE_DEVICE_ALLOC", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    *("HSA_XNACK", "HSA_ENABLE_SDMA", "NVIDIA_VISIBLE_DEVICES"),
)
"""The variables of the target's environment that are recorded. No others are."""
_SETTINGS = {
    "transparent_hugepage": "sys/kernel/mm/transparent_hugepage/enabled",
    "numa_balancing": "proc/sys/kernel/numa_balancing",
    "overcommit_memory": "proc/sys/vm/overcommit_memory",
}
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "FLUX_TASK_RANK")
_LAUNCHES = (
    *(("PMIX_NAMESPACE",), ("OMPI_MCA_ess_base_jobid",), ("PALS_APID",), ("FLUX_JOB_ID",)),
    *(("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMI_JOBID",)),
)
"""Variables that are the same for all ranks of a launch, and differ from those of other launches."""
_LAUNCH = ".launch"
"""The link in the directory of several ranks whose target says which launch they are of."""
_HANDED_ON = (signal.SIGTERM, signal.SIGHUP)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_WAKE = signal.SIGRTMIN + 3
"""The signal by which the core's thread asks for a step at once."""
_WATCHED = {signal.SIGCHLD, signal.SIGTSTP, _WAKE, *_HANDED_ON, *_FROM_TERMINAL}
_TIME_IS_UP = "the time was up"
_KERNEL_THREAD = 0x00200000
"""A flag in /proc/PID/stat: PF_KTHREAD of the kernel's include/linux/sched.h."""
_BY_KERNEL = 0x80
"""si_code of a signal that the kernel sent, as for Ctrl-C: sigaction(2)."""


@dataclass
class ProfileCall:
    """What to profile: a command, or the process `pid`, for at most `duration` seconds. A command is killed then, with
    all processes that it started.

    follow: until every process that was started has ended, not only the first one.
    faults: sample every so many page faults; 0: none. trace: load a library into the target that records what its GPU
    driver does. host: with the trace, also what the CPU does with host buffers that are copied; shadow: beside what
    the device's have, however long that takes. check_copies: with the trace, all bytes of copies are compared, not a
    part. exact: with the trace, a second run tells what kernels use (second_run.py), in which this file, `patch`, is
    put into them. inject: whether ranges of NVTX are recorded, by a library too. to_stderr: where the target's stdout
    goes. foreseen: what will not be traced (`foreseen.foreseen`).
    """

    command: Sequence[str] = ()
    pid: int = 0
    duration: float | None = None
    follow: bool = False
    interval: float = INTERVAL
    out: Path | None = None
    faults: int = 0
    trace: bool = False
    host: bool = False
    shadow: bool = False
    check_copies: bool = False
    exact: bool = False
    patch: Path | None = None
    inject: bool = True
    to_stderr: bool = False
    foreseen: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    tree: Tree = field(default_factory=Tree)


@dataclass(frozen=True)
class ProfileOutcome:
    """How a profile ended. status: the target's, as a shell states it; None if the target goes on."""

    directory: Path
    status: int | None
    failure: str = ""
    """Why the data are not complete, in one sentence."""


def rank_of(environment: Mapping[str, str]) -> str:
    """The number of this process among those of an MPI launcher; '' if there is none."""
    of_slurm = environment.get("SLURM_STEP_NUM_TASKS", "1") != "1"  # in a batch script itself, SLURM_PROCID is set too
    ranks = (environment.get(name, "") for name in (*_RANKS, *(["SLURM_PROCID"] if of_slurm else [])))
    return next((rank for rank in ranks if rank.isascii() and rank.isdecimal()), "")


def default_directory(call: ProfileCall) -> Path:
    """The directory of a profile that the call does not name; those of ranks lie beside each other."""
    name = program_name(call.command) if call.command else f"pid-{call.pid}"
    # Ranks begin one after the other, but what launched them began once.
    begun = time.time() - (_age(call.tree, os.getppid()) if rank_of(call.environment) else 0.0)
    return Path("firsttouch-profiles") / f"{name}-{time.strftime('%Y%m%d-%H%M%S', time.localtime(begun))}"


def _shared_launch(shared: Path, launched: str) -> str:
    """The launch that has a directory of several ranks; this one if no other has. The link is made at once or not."""
    with suppress(OSError):  # another has it, or the file system has no links
        os.symlink(launched, shared / _LAUNCH)
    with suppress(OSError):
        return os.readlink(shared / _LAUNCH)
    return launched


def _age(tree: Tree, pid: int) -> float:
    """For how many seconds a process has run, 0 if that is unknown. Source: proc(5)."""
    fields = tree.stat(pid)
    started = parse_int(fields[19]) if len(fields) > 19 else None
    return 0.0 if started is None else max(0.0, time.monotonic() - started / os.sysconf("SC_CLK_TCK"))


def directory_of(call: ProfileCall) -> Path:
    """The directory of this process's profile: with a rank, a folder of that name in the directory of the call. One
    that the call does not name is made here, so that no other call has it. Raises OSError if it can't be.
    """
    rank = rank_of(call.environment)
    if call.out:
        return call.out / f"rank-{rank}" if rank else call.out
    directory = default_directory(call)
    return _make_rank_directory(directory, rank, launch_of(call.environment)) if rank else make_new_directory(directory)


def launch_of(environment: Mapping[str, str]) -> str:
    """What distinguishes the ranks of a launch from those of another; '' if the launcher states nothing."""
    names = next((names for names in _LAUNCHES if all(environment.get(name) for name in names)), ())
    return "-".join(environment[name] for name in names)


def _make_rank_directory(directory: Path, rank: str, launched: str) -> Path:
    """Makes the folder of a rank in the directory of its launch, which ranks of other launches do not use."""
    for number in itertools.count(1):
        shared = directory if number == 1 else directory.with_name(f"{directory.name}-{number}")
        shared.mkdir(parents=True, exist_ok=True)
        if launched and _shared_launch(shared, launched) != launched:
            continue
        with suppress(FileExistsError):
            (shared / f"rank-{rank}").mkdir()
            break
    return shared / f"rank-{rank}"


def profile(
    call: ProfileCall, gpus: GpuSampler | None = None, ended: Callable[[Path], None] = lambda directory: None
) -> ProfileOutcome:
    """Carries out a call. gpus: what reads the GPUs, if it was made before, so that NVML has begun to answer. ended: is
    called with the profile's directory when the target has ended, before the end of the profile is written.

    Raises:
        UsageError: the call was wrong, or /proc is that of other processes; nothing was started.
        launch.NotStarted: the program can't be executed.
    """
    if call.command and (not_started := launch.why_not(call.command)):
        raise not_started
    if foreign := why_foreign(call.tree.path("proc")):
        raise UsageError(f"no process can be profiled here: {foreign}")
    if call.pid:
        _check_pid(call.tree, call.pid)
    return _Profiler(call, gpus or GpuSampler(call.tree, call.interval), ended).run()


def _check_pid(tree: Tree, pid: int) -> None:
    if not tree.exists(f"proc/{pid}"):
        raise UsageError(f"there is no process {pid}; give --pid the number of one that runs")
    if pid == os.getpid():
        raise UsageError(f"process {pid} is this one; give --pid a process of yours that runs")
    fields = tree.stat(pid)
    is_kernels = len(fields) > 6 and (parse_int(fields[6]) or 0) & _KERNEL_THREAD != 0
    if fields[:1] == ["Z"] or is_kernels or tree.bytes(f"proc/{pid}/environ") is None:
        who = "has ended already" if fields[:1] == ["Z"] else "is the kernel's" if is_kernels else "is another user's"
        raise UsageError(f"process {pid} {who}; give --pid a process of yours that runs")


class _Profiler:
    def __init__(self, call: ProfileCall, gpus: GpuSampler, ended: Callable[[Path], None]) -> None:
        self.call, self.gpus, self._ended = call, gpus, ended
        with as_usage_error("write", call.out or default_directory(call), "a directory that can be written"):
            self.directory = directory_of(call)
        self.writer = Writer(self.directory)
        self.layers: list[schema.LayerState] = []
        self.sampler: Sampler | None = None
        self.stop = ""
        """Why the profile is to end although the target goes on."""
        self._terminal_stops = False
        """Whether the terminal has sent SIGTSTP, as for Ctrl-Z."""

    def run(self) -> ProfileOutcome:
        call = self.call
        gpus = self.gpus
        profiled, layers = gpus.start()  # before the target is started
        self.layers += layers
        environment, layers = self._environment() if call.command else ({}, [])
        self.layers += layers
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
        of_children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # if it is ignored, the kernel tells of no end
        ignored = [signal.SIGCHLD] if of_children is signal.SIG_IGN else []
        self._before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        try:
            if call.command:

                def begin(pid: int) -> None:
                    try:
                        self._begin(pid, gpus, profiled)
                    except Exception as error:
                        self._give_up(error)

                inherited = {signal.Signals(number) for number in mask}
                pid = launch.start(
                    call.command, environment, begin, mask=inherited, ignored=ignored, to_stderr=call.to_stderr
                )
                self._sampling(pid)
                status: int | None = self._sample_until_end(pid)
            else:
                launch.permit_descriptors()
                self._begin(call.pid, gpus, profiled)
                self._sampling(call.pid)
                self._sample_until_gone(call.pid)
                status = None
        except (launch.NotStarted, UsageError):
            self._discard()
            raise
        finally:
            if self.sampler is not None:
                self.sampler.processes.stop()
            of_target = _FROM_TERMINAL if call.command else ()
            while signal.sigtimedwait({_WAKE, *of_target}, 0) is not None:
                pass  # one that is pending would end this process now
            signal.signal(signal.SIGCHLD, of_children)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            gpus.stop()
        return ProfileOutcome(self.directory, status, self.writer.failure)

    def _discard(self) -> None:
        """Removes what was written before it turned out that there is nothing to profile."""
        self.writer.close()
        with suppress(OSError):
            (self.directory / schema.FILE).unlink()
            self.directory.rmdir()

    # ------------------------------------------------------------------------------- layers

    def _environment(self) -> tuple[dict[str, str], list[schema.LayerState]]:
        """The target's environment, and the layers that it needs to be told of."""
        call = self.call
        if not call.inject:
            return dict(call.environment), []
        added, layers = inject_environment(
            self.directory,
            nvtx=call.patch is None,
            trace=call.trace,
            host=call.host,
            shadow=call.shadow,
            check_copies=call.check_copies,
            patch=call.patch,
            current=call.environment,
        )
        layers = [replace(row, why=call.foreseen) if row.layer == "trace" and row.active else row for row in layers]
        return {**call.environment, VARIABLE: str(self.directory.absolute()), **added}, layers

    def _open_perf(self, pid: int) -> TargetEvents | None:
        perf, layers = open_processes(pid, self.call.faults, enable_on_exec=bool(self.call.command))
        self.layers += layers
        return perf

    # ------------------------------------------------------------------------------- begin and end

    def _begin(self, pid: int, gpus: GpuSampler, profiled: list[schema.ProfiledGpu]) -> None:
        """Writes the header and begins to sample. The target waits, or has run for a while."""
        call = self.call
        perf = self._open_perf(pid)
        nodes = process_memory.nodes(call.tree, profiled)
        began = time.monotonic()
        first = header(
            command=call.command,
            pid=pid,
            attached=not call.command,
            clock=began,
            interval=call.interval,
            rank=rank_of(call.environment),
            environment={name: value for name in ENVIRONMENT if (value := call.environment.get(name)) is not None},
            settings={k: str(v) for k, v in _settings(call.tree).items()},
            layers=self.layers,
            gpus=profiled,
            nodes=nodes,
        )
        self.writer.add(first)
        self.writer.flush()
        marker = str(self.directory.absolute()) if call.inject and call.command else ""
        untold = any(gpu.shares_host_memory and gpu.before.used is None for gpu in profiled)
        self.sampler = Sampler(
            *(call.tree, self.writer, began, call.interval, nodes, gpus, perf, marker),
            host_tells_of_gpu=untold,
            touches=call.trace,
        )

    def _sampling(self, pid: int) -> None:
        """Begins to read the target, which has been executed."""
        if self.sampler is None:
            return
        try:
            self._read_first(self.sampler, pid)
        except UsageError:
            raise
        except Exception as error:
            self._give_up(error)

    def _read_first(self, sampler: Sampler, pid: int) -> None:
        if sampler.begin(pid, is_child=bool(self.call.command), wake=_WAKE):
            return
        if not self.call.command:
            raise UsageError(f"process {pid} has ended already; give --pid a process of yours that runs")
        name, command = Path(self.call.command[0]).name, list(self.call.command)
        self.writer.add(schema.Started(t=0.0, key=0, pid=pid, name=name, command=command))

    def _sample_until_end(self, pid: int) -> int:
        """Samples until the target ends. Returns its exit status."""
        until = None if self.call.duration is None else time.monotonic() + self.call.duration
        while True:
            if until is not None and time.monotonic() >= until:
                self._kill(pid)
            self._tick(lambda number: os.kill(pid, number))
            ended, status, usage = os.wait4(pid, os.WNOHANG | os.WUNTRACED)
            if ended and os.WIFSTOPPED(status):
                if self._is_stopped_by_terminal(os.WSTOPSIG(status)):
                    self._terminal_stops = False
                    os.kill(os.getpid(), signal.SIGSTOP)  # the shell takes the terminal when its own child stops
            elif ended:
                code = os.waitstatus_to_exitcode(status)
                is_written = self.call.follow and self.sampler is not None
                if self.call.follow and self.sampler is not None:
                    self._follow_descendants(self.sampler, code, usage)
                self._finish(self.stop or schema.TARGET_ENDED, code, None if is_written else usage)
                return code if code >= 0 else 128 - code

    def _kill(self, pid: int) -> None:
        self.stop = _TIME_IS_UP
        for process_id in (pid, *(self.sampler.processes.members if self.sampler else ())):
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)

    def _follow_descendants(self, sampler: Sampler, status: int, usage: resource.struct_rusage) -> None:
        """Goes on after the first process has ended, until no process is left or a signal comes."""
        sampler.step()
        self._write_first(sampler, round(time.monotonic() - sampler.began, 5), status, usage)
        processes = sampler.processes
        while not self.stop and not self.writer.failure:
            if not processes.members:  # the last may have started others between two searches
                processes.scan(time.monotonic() - sampler.began)
            if not processes.members:
                break
            self._tick(self._end_by_signal)

    def _is_stopped_by_terminal(self, number: int) -> bool:
        """Whether this process is to stop with the target. After a stop from elsewhere nobody would let it go on."""
        if number == signal.SIGTSTP:  # a terminal sends it to both
            return self._terminal_stops or signal.sigtimedwait({signal.SIGTSTP}, 0.05) is not None
        return number in (signal.SIGTTIN, signal.SIGTTOU) and _in_background()

    def _sample_until_gone(self, pid: int) -> None:
        """Samples a process that somebody else started, until it ends, time is up, or Ctrl-C."""
        assert self.sampler is not None
        until = None if self.call.duration is None else self.sampler.began + self.call.duration
        members = self.sampler.processes.members
        while not self.stop and (members if self.call.follow else pid in members):
            self._tick(self._end_by_signal)
            if until is not None and time.monotonic() >= until:
                self.stop = _TIME_IS_UP
        self._finish(self.stop or schema.TARGET_ENDED, None, None)

    def _end_by_signal(self, number: int) -> None:
        self.stop = f"ended by {signal.Signals(number).name}"

    def _tick(self, pass_on: Callable[[int], None]) -> None:
        """Waits for the next tick or a signal, whichever comes first."""
        received = signal.sigtimedwait(_WATCHED, self.sampler.wait() if self.sampler else 1.0)
        if received is None or received.si_signo == _WAKE:
            try:
                if self.sampler is not None:
                    self.sampler.step()
            except Exception as error:
                self._give_up(error)
            return
        number = signal.Signals(received.si_signo)
        self._terminal_stops |= number == signal.SIGTSTP
        from_terminal = number in _FROM_TERMINAL and received.si_code == _BY_KERNEL
        is_targets = from_terminal and self.call.command and pass_on != self._end_by_signal
        if number in (*_HANDED_ON, *_FROM_TERMINAL) and not is_targets:
            with suppress(ProcessLookupError):
                pass_on(number)

    def _give_up(self, error: Exception) -> None:
        """After a bug of the profiler, the target goes on without."""
        if not self.writer.failure:
            self.writer.failure = f"sampling failed: {type(error).__name__}: {' '.join(str(error).split()):.200}"
        if self.sampler is not None:
            self.sampler.step = lambda *, last=False: None  # type: ignore[method-assign]

    def _finish(self, reason: str, status: int | None, usage: resource.struct_rusage | None) -> None:
        try:
            self._ended(self.directory)
            if self.sampler is not None:
                self._write_end(self.sampler, reason, status, usage)
        except Exception as error:
            self._give_up(error)
        finally:
            self.writer.close()

    def _write_end(
        self, sampler: Sampler, reason: str, status: int | None, usage: resource.struct_rusage | None
    ) -> None:
        sampler.processes.stop()
        self.gpus.ask_to_stop()
        with suppress(Exception):
            sampler.step(last=True)
        now = time.monotonic()
        t = round(now - sampler.began, 5)
        if usage is not None:
            self._write_first(sampler, t, status, usage)
        self.gpus.stop()
        sampler.flush(now, last=True)
        if self.call.trace:
            with suppress(UsageError):  # views say what is wrong with a journal
                for line in callers(frames(self.directory)):
                    self.writer.add(line)
        running = len(sampler.processes.members)
        code = None if status is None else status if status >= 0 else 128 - status
        self.writer.add(schema.End(t=t, status=code, why=reason, still_running=running))

    def _write_first(self, sampler: Sampler, t: float, status: int | None, usage: resource.struct_rusage) -> None:
        """Writes how the first process ended."""
        # The kernel's peak includes that of this process, of which the target was a copy until it was executed.
        peak = usage.ru_maxrss * 1024 if usage.ru_maxrss * 1024 > self._before else None
        ended = schema.Ended(t=t, key=0, status=status, peak=peak, with_children=True)
        ended.minor, ended.major = usage.ru_minflt, usage.ru_majflt
        if first := sampler.processes.members.get(sampler.root):
            sampler.processes.end(t, first, ended)
        else:
            self.writer.add(ended)


def _in_background() -> bool:
    """Whether this process group is not the one that the terminal belongs to."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) != os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _settings(tree: Tree) -> Mapping[str, Any]:
    return drop_missing({name: tree.selected(path) for name, path in _SETTINGS.items()})
