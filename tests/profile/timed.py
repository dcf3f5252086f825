"""A program of which every call and all work of the GPU have their times: what its lines cost is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from tests.port.journals import JournalBytes, profile

from firsttouch.profile.by_line import ByLine, CostKind, LineRow, TracedProcess, by_line
from firsttouch.profile.calls import (
    Arguments,
    ArgumentWord,
    BlockCall,
    LaunchCall,
    MoveCall,
    QueryCall,
    TracedCalls,
    WaitCall,
)
from firsttouch.profile.link import LinkSpeed
from firsttouch.profile.recorded import CallFrame, CallSite, MemoryKind, ProcessJournal, RecordedCopy, RecordedKernel
from firsttouch.profile.schema import Caller, ProfileLine

TORCH, SCRIPT, PYTHON = (
    "/venv/lib/python3.12/site-packages/torch/lib/libtorch.so",
    "/home/u/train.py",
    "/usr/bin/python3",
)
MIB = 1 << 20
DEVICE, HOST = 0x7F0000000000, 0x100000000


def line(number: int) -> CallSite:
    """A call by a line of the script, through a library and the interpreter."""
    return (CallFrame(TORCH, 7), CallFrame(PYTHON, 3), CallFrame(SCRIPT, number))


NAMES = {
    (SCRIPT, number): Caller(file=SCRIPT, offset=number, function="train", source=SCRIPT, number=number)
    for number in range(100)
}


class TimedProgram:
    """Times are ms. Calls are told when they return; `gpu` is when their work runs."""

    def __init__(self, pid: int = 1) -> None:
        self.calls, self.journal = TracedCalls(pid, []), ProcessJournal(pid, 0.0, traced=True)
        self._correlation = 0

    def _next(self) -> int:
        self._correlation += 1
        return self._correlation

    def launch(
        self, t: float, gpu: tuple[float, float], at: int = 1, device: int = 0, given: Sequence[int] = ()
    ) -> None:
        """given: the addresses that the kernel gets."""
        number = self._next()
        words = tuple(ArgumentWord(n, 0, address) for n, address in enumerate(given))
        arguments = Arguments("_Z1kv", words)
        self.calls.calls.append(LaunchCall(t=t / 1e3, correlation=number, arguments=arguments, site=line(at)))
        self.journal.kernels.append(
            RecordedKernel(start=gpu[0] / 1e3, end=gpu[1] / 1e3, name="k", device=device, stream=1, correlation=number)
        )

    def copy(
        self, t: float, gpu: tuple[float, float], at: int, way: Any, nbytes: int = MIB, *, memory: Any = "pageable",
        host: int = HOST, device: int = DEVICE, site: CallSite | None = None, **more: Any,
    ) -> None:  # fmt: skip
        """blocks, if it is from pageable memory and not told otherwise."""
        number, is_in = self._next(), way == "h2d"
        source, target = (host, DEVICE - DEVICE + device) if is_in else (device, host)
        more = {"blocking": memory == "pageable", **more}
        self.calls.calls.append(
            MoveCall(t=t / 1e3, correlation=number, what="copy", source=source, target=target, bytes=nbytes,
                     direction=way, host="pinned" if memory == "pinned" else "other", site=site or line(at), **more)
        )  # fmt: skip
        kinds = (memory, "device") if is_in else ("device", memory)
        self.journal.copies.append(
            RecordedCopy(start=gpu[0] / 1e3, end=gpu[1] / 1e3, bytes=nbytes, direction=way, device=0, stream=1,
                     source=kinds[0], target=kinds[1], correlation=number)
        )  # fmt: skip

    def wait(self, t: float, at: int, thread: int = 0, began: float | None = None) -> None:
        since = None if began is None else began / 1e3
        self.calls.calls.append(WaitCall(t=t / 1e3, thread=thread, what="stream", stack=0, site=line(at), began=since))

    def query(self, t: float, site: CallSite) -> None:
        self.calls.calls.append(QueryCall(t=t / 1e3, free=1, total=2, site=site))

    def block(self, t: float, nbytes: int, site: CallSite, *, address: int = DEVICE, kind: Any = "device") -> None:
        self.calls.calls.append(
            BlockCall(t=t / 1e3, correlation=self._next(), address=address, bytes=nbytes, begins=True, kind=kind,
                      site=site)
        )  # fmt: skip

    def by_line(self, link: LinkSpeed | None = None) -> ByLine:
        found = by_line([TracedProcess(self.calls, self.journal)], NAMES, link)
        assert found is not None
        return found

    def rows(self, kind: CostKind, link: LinkSpeed | None = None) -> dict[int, LineRow]:
        """The rows of one kind by their lines."""
        return {row.place.line: row for row in self.by_line(link).rows if row.kind == kind}


def training(steps: int = 20) -> TimedProgram:
    """A loop of 10 ms each with three habits: line 11 copies 4 MiB of the same bytes from pageable memory (1 ms), and
    the GPU then waits 0.5 ms for a kernel; line 14 reads a number, after which it waits 2 ms; each fifth step, line 16
    copies weights of 8 MiB to the CPU, and line 17 back to another place. Line 10 copies other inputs, page-locked.
    """
    program = TimedProgram()
    for i in range(5):  # the model: of its layers, some are alike
        place = {"host": HOST + i * 4 * MIB, "device": DEVICE + i * 4 * MIB}
        program.copy(i + 1, (i + 0.5, i + 1), 5, "h2d", 2 * MIB, sample=7, **place)
    for step in range(steps):
        t = 10.0 * (step + 1)
        program.copy(t + 0.1, (t + 0.1, t + 0.3), 10, "h2d", 8 * MIB, memory="pinned", host=HOST + 1 * 10**9,
                     device=DEVICE + 10**9, sample=1000 + step)  # fmt: skip
        program.launch(t + 0.2, (t + 0.3, t + 1), 12)
        program.copy(t + 2, (t + 1, t + 2), 11, "h2d", 4 * MIB, host=HOST + 2 * 10**9, device=DEVICE + 2 * 10**9,
                     sample=2)  # fmt: skip
        program.launch(t + 2.1, (t + 2.5, t + 6), 13)
        program.copy(t + 6, (t + 5.99, t + 6), 14, "d2h", 4, host=HOST + 3 * 10**9, device=DEVICE + 3 * 10**9, sample=0)
        program.launch(t + 6.1, (t + 8, t + 8.1), 15)
        if step % 5 == 4:
            weights = HOST + 4 * 10**9 + step * 10**8
            program.copy(t + 8.6, (t + 8.1, t + 8.6), 16, "d2h", 8 * MIB, host=weights, device=DEVICE + 4 * 10**9,
                         sample=50 + step)  # fmt: skip
            program.copy(t + 9.1, (t + 8.6, t + 9.1), 17, "h2d", 8 * MIB, host=weights,
                         device=DEVICE + 5 * 10**9 + step * 10**8, sample=50 + step)  # fmt: skip
    program.launch(10.0 * (steps + 1), (10.0 * (steps + 1), 10.0 * (steps + 1) + 1))
    return program


def stored(directory: Path, program: TimedProgram, *lines: ProfileLine, version: int = 2) -> Path:
    """The profile of a program. lines: more of profile.jsonl."""
    directory = profile(directory, callers=NAMES, lines=lines)
    written = JournalBytes(program.calls.pid, version)
    written.add("clocks", stamp=0, time=0)
    for call in program.calls.calls:
        written.call(call)
    for kernel in program.journal.kernels:
        written.add("kernel", **_times(kernel), name=written.text(kernel.name))
    kinds = get_args(MemoryKind)
    for copy in program.journal.copies:
        written.add("copy", **_times(copy), bytes=copy.bytes, direction=1 if copy.direction == "h2d" else 2,
                    source=kinds.index(copy.source), target=kinds.index(copy.target))  # fmt: skip
    (directory / f"journal-{program.calls.pid}-0.bin").write_bytes(written.file)
    return directory


def _times(work: RecordedKernel | RecordedCopy) -> dict[str, int]:
    span = {"start_stamp": round(work.start * 1e9), "end_stamp": round(work.end * 1e9)}
    return {**span, "device": work.device, "stream": work.stream, "correlation": work.correlation}
