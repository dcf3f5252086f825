"""Perf events on the target: starts and ends of its processes, and sampled page faults. Source: perf_event_open(2).

Both come from software events, which any user may open on their own processes where kernel.perf_event_paranoid is 2 or
less. The kernel delivers them; nothing is loaded into the target.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from firsttouch import _core
from firsttouch.profile.schema import LayerState

PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")


class ProcessStart(NamedTuple):
    """A process was started by another. Times in this module are seconds of time.monotonic()."""

    t: float
    pid: int
    parent: int


class NameChange(NamedTuple):
    """A process executed a program or named itself. name: at most 15 bytes, as in /proc/PID/comm."""

    t: float
    pid: int
    name: str
    executed: bool


class ProcessEnd(NamedTuple):
    """The last thread of a process ended."""

    t: float
    pid: int


class NewMapping(NamedTuple):
    """A process mapped `length` bytes at `address`, from `offset` of `file` on. The kernel also tells this when a
    mapping grows or changes its protection. file: a path, or "//anon", "[heap]", "[stack]", "[vdso]".
    """

    t: float
    pid: int
    address: int
    length: int
    offset: int
    file: str


class FaultSample(NamedTuple):
    """A page fault in user mode: which instruction touched which address. stack: the words at the top of the stack.

    line: the number of the user's line of Python that the thread was in, 0 if there is none or it is not known. It is
    read after the fault. is_sure: the thread was in the same line before the fault and after it.
    """

    t: float
    pid: int
    tid: int
    instruction: int
    address: int
    stack: bytes = b""
    line: int = 0
    is_sure: bool = False


class PythonLine(NamedTuple):
    """A line of Python. function: also '<module>', '<lambda>' or the like."""

    file: str
    function: str
    line: int


class PerfBatch(NamedTuple):
    """What was told since the last one, each in the order of time. lost: how many records of any kind there was no room
    for. lines: those that have numbers for the first time, in the order of their numbers, from 1 on.
    """

    starts: list[ProcessStart]
    names: list[NameChange]
    ends: list[ProcessEnd]
    mappings: list[NewMapping]
    samples: list[FaultSample]
    lost: int
    lines: Sequence[PythonLine] = ()


class TargetEvents:
    """Perf events on a tree of processes, open until the object is deleted. every: one of how many faults is
    sampled; 0: none, and no mappings are told either.
    """

    def __init__(self, pid: int, every: int, *, enable_on_exec: bool) -> None:
        """Raises OSError, whose second argument names the call that failed: perf_event_open or mmap."""
        self.every = every
        self.core = _core.PerfEvents(pid, every, enable_on_exec)

    def read(self, *, rest: bool = False) -> PerfBatch:
        """Returns what was told since the last call, up to a millisecond ago, since the buffers of all processors are
        merged by time. rest: up to now; for the last call.
        """
        starts, names, ends, mappings, samples, lost, lines = self.core.read(rest)
        return PerfBatch(
            list(starmap(ProcessStart, starts)),
            list(starmap(NameChange, names)),
            list(starmap(ProcessEnd, ends)),
            list(starmap(NewMapping, mappings)),
            list(starmap(FaultSample, samples)),
            lost,
            list(starmap(PythonLine, lines)),
        )

    def counted(self) -> int | None:
        """How many page faults in user mode there were so far, exactly. None: faults are not sampled."""
        if not self.every:
            return None
        try:
            return self.core.counted()
        except OSError:
            return None

    @property
    def why_no_lines(self) -> str:
        """Why lines of Python are not read in some process; '' if there is no reason to name."""
        return self.core.why_no_lines

    @property
    def attached(self) -> list[int]:
        """The processes that were there at the begin."""
        return self.core.attached


def open_processes(
    pid: int, every: int = 0, *, enable_on_exec: bool = True
) -> tuple[TargetEvents | None, list[LayerState]]:
    """Opens the events, and says which of the layers "processes" and, if every > 0, "faults" see the target.

    enable_on_exec: `pid` is a child that is about to execute the command. Otherwise all threads of the process and of
    its descendants are attached to, and what they did before is not seen.
    """
    layers = ("processes", "faults") if every else ("processes",)
    try:
        events = TargetEvents(pid, every, enable_on_exec=enable_on_exec)
    except OSError as error:
        reason, mend = why_refused(error, pid)
        return None, [LayerState(layer=layer, active=False, why=reason, mend=mend) for layer in layers]  # type: ignore[arg-type]
    return events, [LayerState(layer=layer, active=True, why=_UNSEEN[layer, enable_on_exec]) for layer in layers]  # type: ignore[arg-type]


_UNSEEN = {
    ("processes", True): "",
    ("processes", False): "",
    ("faults", True): "",
    ("faults", False): "page faults before the profile began are not seen",
}


def why_refused(error: OSError, pid: int) -> tuple[str, str]:
    """Why perf events could not be opened, and the line to type, '' if there is none."""
    number = error.errno or 0
    if error.args[1:2] == ("mmap",):
        return (
            "the kernel lends this user no more memory for the buffers of perf events (kernel.perf_event_mlock_kb)",
            "sudo sysctl kernel.perf_event_mlock_kb=4096",
        )
    if number in (errno.EACCES, errno.EPERM):
        return _refused(number, pid)
    return _REASONS.get(number, (f"perf events cannot be opened: {errno.errorcode.get(number, number)}", ""))


def _refused(number: int, pid: int) -> tuple[str, str]:
    try:
        level = int(PARANOID.read_text())
    except (OSError, ValueError):
        return "this kernel has no perf events", ""
    if level > 2:
        return (
            f"kernel.perf_event_paranoid is {level}; 2 or less permits perf events",
            "sudo sysctl kernel.perf_event_paranoid=2",
        )
    if number == errno.EPERM:
        return (
            "a filter of system calls, such as a container's, refuses perf_event_open",
            "docker run --cap-add=PERFMON ...",
        )
    return f"process {pid} is another user's or protects itself, so perf events may not be opened on it", ""


_REASONS = {
    errno.ENOSYS: ("this kernel, or the emulator it runs in, has no perf events", ""),
    errno.ENOENT: ("this kernel lacks the software events page-faults and dummy", ""),
    errno.EOPNOTSUPP: ("this kernel lacks the software events page-faults and dummy", ""),
    errno.EINVAL: ("this kernel is older than Linux 4.1, whose perf events lack what is needed here", ""),
    errno.E2BIG: ("this kernel is older than Linux 4.1, whose perf events lack what is needed here", ""),
    errno.EMFILE: (
        "perf events need one or two descriptors for each thread and processor, more than this process may have",
        "sudo prlimit --pid $$ --nofile=1048576",
    ),
    errno.ENFILE: ("this machine has no descriptor left for perf events (fs.file-max)", ""),
    errno.ENOMEM: ("the kernel has no memory for perf events", ""),
    errno.ESRCH: ("the process has ended", ""),
}
