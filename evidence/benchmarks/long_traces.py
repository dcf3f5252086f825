"""Times `port` and the views of `profile --trace` on traces of many calls, which are made here: no GPU is needed.

    python evidence/benchmarks/long_traces.py [CALLS [FOLDER]]

For each trace, of CALLS calls (default 1,000,000) and of a quarter of them: the processor time and the largest memory
of `port DIR --json` and of writing profile.json and trace.json, the time by which they exceed those of a trace of 100
calls, and its ratio between the two lengths: 4 if it is linear. FOLDER: where traces are kept, and found again, so that
two versions see the same. Exits with status 1 if a ratio exceeds 5. None is told of what takes less than half a second.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.port.journals import JournalBytes
from tests.profile import profiles

from firsttouch.profile.calls import Arguments, ArgumentWord
from firsttouch.profile.recorded import CallFrame, CallSite
from firsttouch.profile.schema import Caller

PID, TIMES, MOST, LEAST = 100, 4, 5.0, 0.5
FEW = 100
DEVICE, HOST = 0x7F0000000000, 0x100000000
H2D, D2H = 1, 2
MIB = 1 << 20
VIEWS = "import sys; from pathlib import Path; from firsttouch.profile.views import write; write(Path(sys.argv[1]))"
COMMANDS: dict[str, list[str]] = {
    "port": [sys.executable, "-m", "firsttouch.cli.main", "port", "--json"],
    "views": [sys.executable, "-c", VIEWS],
}


class Program:
    """Calls and what CUPTI records of them, 10 us after each other."""

    def __init__(self) -> None:
        self.journal, self.calls, self._sites = JournalBytes(PID), 0, set[CallSite]()
        self._t = 1_000_000_000_000
        self._clocks()

    def _clocks(self) -> None:
        self.journal.add("clocks", stamp=self._t, time=self._t)

    def _when(self) -> dict[str, int]:
        self.calls += 1
        self._t += 10_000
        return {"time": self._t, "correlation": self.calls}

    def _site(self, site: CallSite) -> int:
        self._sites.add(site)
        return self.journal.site(site)

    def block(self, address: int, nbytes: int, site: CallSite, *, begins: bool = True) -> None:
        when, number = self._when(), self._site(site)
        self.journal.add("call", **when, site=number)
        self.journal.add("block", **when, address=address, bytes=nbytes if begins else 0, begins=begins, memory=3)
        self.journal.add("memory", stamp=self._t, address=address, bytes=nbytes, operation=1 if begins else 2, memory=3,
                         correlation=self.calls)  # fmt: skip

    def copy(self, target: int, source: int, nbytes: int, site: CallSite, *, blocking: bool, sample: int) -> None:
        when, into = self._when(), target >= DEVICE
        self.journal.add("move", **when, source=source, target=target, bytes=nbytes, rows=1, site=self._site(site),
                         flags=8 + 4 * blocking, sample=sample, began=self._t - 8000, direction=H2D if into else D2H,
                         stack=1 << 40 if blocking else 0, thread=1)  # fmt: skip
        kinds = (1, 3) if into else (3, 1)
        self.journal.add("copy", start_stamp=self._t - 6000, end_stamp=self._t - 1000, bytes=nbytes, source=kinds[0],
                         target=kinds[1], direction=H2D if into else D2H, correlation=self.calls)  # fmt: skip

    def launch(self, arguments: Arguments, site: CallSite) -> None:
        when = self._when()
        self.journal.add("launch", **when, arguments=self.journal.arguments(arguments), site=self._site(site))
        name = self.journal.text(arguments.kernel)
        self.journal.add("kernel", start_stamp=self._t, end_stamp=self._t + 2000, correlation=self.calls, name=name)

    def wait(self, site: CallSite) -> None:
        self.journal.add("wait", **self._when(), stack=1 << 40, thread=1, what=2, site=self._site(site),
                         began=self._t - 5000)  # fmt: skip

    def write(self, directory: Path) -> Path:
        self._clocks()
        callers = {
            (frame.file, frame.offset): Caller(
                file=frame.file, offset=frame.offset, function=f"f{frame.offset}", source="/app/p.cu",
                number=frame.offset,
            )
            for site in self._sites for frame in site if not frame.function
        }  # fmt: skip
        profiles.write(directory, *callers.values(), command=["/app/p"])
        (directory / f"journal-{PID}-0.bin").write_bytes(self.journal.file)
        return directory


def line(number: int) -> CallSite:
    return (CallFrame("/app/p", number),)


def python_line(number: int) -> CallSite:
    native = tuple(CallFrame(f"/usr/lib/libwork{n}.so", 4096 * n + number % 20) for n in range(6))
    return native + tuple(CallFrame(f"/app/m{n}.py", number + n, f"function_{n}") for n in range(8))


def kernel(number: int, *addresses: int) -> Arguments:
    words = tuple(ArgumentWord(n, 0, address) for n, address in enumerate(addresses))
    return Arguments(f"_Z{len(str(number)) + 1}k{number}PfS_", words, sizes_known=True)


def copies(calls: int, at: Callable[[int], CallSite] = line, lines: int = 4) -> Program:
    """A loop of a copy, a launch and a copy back."""
    program = Program()
    program.block(DEVICE, MIB, at(1))
    program.block(DEVICE + MIB, MIB, at(2))
    both = kernel(1, DEVICE, DEVICE + MIB)
    for n in range(calls // 3):
        of = 10 * (n % lines) + 10
        program.copy(DEVICE, HOST, MIB, at(of), blocking=False, sample=2 * n + 1)
        program.launch(both, at(of + 1))
        program.copy(HOST + MIB, DEVICE + MIB, MIB, at(of + 2), blocking=True, sample=2 * n + 2)
    return program


def python(calls: int) -> Program:
    """The same from a program in Python, from many lines."""
    return copies(calls // 2, python_line, 60)


def launches(calls: int) -> Program:
    """Launches of ten kernels."""
    program = Program()
    for n in range(4):
        program.block(DEVICE + n * MIB, MIB, line(n + 1))
    program.copy(DEVICE, HOST, MIB, line(8), blocking=True, sample=1)
    kernels = [kernel(n, DEVICE + n % 4 * MIB, DEVICE + (n + 1) % 4 * MIB) for n in range(10)]
    for n in range(calls):
        program.launch(kernels[n % 10], line(20 + n % 10))
    program.copy(HOST, DEVICE, MIB, line(9), blocking=True, sample=2)
    return program


def allocations(calls: int) -> Program:
    """Memory of ever other sizes, allocated by 50 lines, copied to, used and freed: a tenth as many blocks as calls."""
    program, chosen, alive = Program(), random.Random(1), list[tuple[int, int]]()
    for n in range(calls // 10):
        nbytes, address = chosen.randrange(1, 1 << 16), DEVICE + n * (1 << 17)
        program.block(address, nbytes, line(1 + n % 50))
        program.copy(address, HOST + n % 100 * MIB, nbytes, line(100 + n % 50), blocking=True, sample=n + 1)
        program.launch(kernel(n % 10, address), line(200 + n % 10))
        alive.append((address, nbytes))
        if len(alive) > 500:
            program.block(*alive.pop(chosen.randrange(len(alive))), line(300 + n % 50), begins=False)
    return program


def kept(calls: int) -> Program:
    """Blocks in a random order of addresses, a tenth as many as calls, which all stay; each is copied to and used."""
    program, chosen = Program(), random.Random(1)
    places = list(range(calls // 10))
    chosen.shuffle(places)
    for n, place in enumerate(places):
        nbytes, address, array = chosen.randrange(1, 1 << 16), DEVICE + place * (1 << 17), HOST + place * (1 << 17)
        program.block(address, nbytes, line(1 + n % 50))
        for again in range(4):
            program.copy(address, array, nbytes, line(100 + n % 50), blocking=True, sample=n + again)
            program.launch(kernel(n % 10, address), line(200 + n % 10))
        program.copy(array, address, nbytes, line(400 + n % 50), blocking=True, sample=n + 9)
    return program


def irregular(calls: int) -> Program:
    """Calls in a random order, copies of random bytes."""
    program, chosen = Program(), random.Random(2)
    blocks = [DEVICE + n * 4 * MIB for n in range(64)]
    for n, address in enumerate(blocks):
        program.block(address, 2 * MIB, line(1 + n))
    for n in range(calls):
        what, block = chosen.randrange(10), chosen.choice(blocks)
        nbytes = 4 * chosen.randrange(1, 1 << 18)
        host = HOST + chosen.randrange(1 << 10) * MIB
        inside = block + 4 * chosen.randrange(1 << 18)
        if what < 3:
            program.copy(inside, host, nbytes, line(100 + what), blocking=what == 0, sample=n + 1)
        elif what < 6:
            program.copy(host, inside, nbytes, line(100 + what), blocking=what == 5, sample=n + 1)
        elif what < 9:
            program.launch(kernel(chosen.randrange(40), block, chosen.choice(blocks)), line(120 + what))
        else:
            program.wait(line(140))
    return program


PROGRAMS: tuple[Callable[[int], Program], ...] = copies, launches, allocations, kept, irregular, python


class Cost(NamedTuple):
    """seconds: of processors; memory: bytes."""

    seconds: float
    memory: int


def cost(command: Iterable[str], directory: Path) -> Cost:
    process = subprocess.Popen([*command, str(directory)], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"{directory}: status {process.returncode}")
    return Cost(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def trace(folder: Path, make: Callable[[int], Program], calls: int) -> Path:
    directory = folder / f"{make.__name__}-{calls}"
    return directory if directory.exists() else make(calls).write(directory)


def main() -> int:
    calls, is_long = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000, False
    with tempfile.TemporaryDirectory() as made:
        folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(made)
        for name, command in COMMANDS.items():
            few = min(cost(command, trace(folder, copies, FEW)) for _ in range(3))
            print(f"{name:6} {copies.__name__:12} {FEW:9,} calls {few.seconds:6.2f} s {few.memory / MIB:6.0f} MiB")
            for make in PROGRAMS:
                costs = {n: cost(command, trace(folder, make, n)) for n in (calls // TIMES, calls)}
                for n, (seconds, memory) in costs.items():
                    print(f"{name:6} {make.__name__:12} {n:9,} calls {seconds:6.2f} s {memory / MIB:6.0f} MiB", end="")
                    print(f" {seconds - few.seconds:6.2f} s more", end="" if n == calls else "\n")
                shorter, longer = (costs[n].seconds - few.seconds for n in costs)
                is_told = shorter >= LEAST
                print(f", {longer / shorter:.2f} times" if is_told else "", flush=True)
                is_long |= is_told and longer > MOST * shorter
    return int(is_long)


if __name__ == "__main__":
    sys.exit(main())
