"""The program of an application, recorded without a device: nothing is computed and nothing is copied.

The application runs with its real parameters, but its kernels are not run, and its memory is all zeros, of which only
what numpy code writes becomes real. If its CPU code reads what kernels would have written, it runs again with numbers
that end each loop that waits for data after as many rounds as the application expects (App.expected_rounds), or ROUNDS.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from msgspec.structs import replace

from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_size
from firsttouch.program.declarations import Agent, Params
from firsttouch.program.execution.agents import Cpu, Entry, Gpu, KernelArgument, KernelFile, LaunchSequence
from firsttouch.program.execution.arrays import Array, ByteRange, Memory, Strided
from firsttouch.program.execution.exchange import Exchange, Message
from firsttouch.program.execution.group_atomics import group_atomics
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.host_items import items_of
from firsttouch.program.program import (
    RANDOM,
    SEQUENCE,
    Access,
    AwaitAll,
    Block,
    Combine,
    ExchangeMark,
    Exchanging,
    Item,
    Launch,
    LoopMark,
    Messages,
    Program,
    Repeat,
    Swap,
    append_body,
    fold,
    launch_alike,
)
from firsttouch.program.stand_ins import SMALL, StandIns, Zeros
from firsttouch.workers.protocol import describe

ROUNDS = 10
"""The rounds that are assumed of a loop that depends on data that a dry run does not have."""
MOST_KEPT = 256
"""The most programs that a process keeps."""
ENDLESS = 20_000
"""A loop whose CPU code reads what kernels wrote, and of which so many rounds are equal, is taken to wait for data."""
ALIKE_ROUNDS = 256
"""A loop of which so many rounds are equal, one after the other, is not run further: its last two rounds stand for all
that are left, or one where they are odd, so that buffers that change places each round are where they would be.
"""
MOST_ITEMS = 500_000
"""The most launches and repetitions that are recorded of a loop that may wait for data."""
WANT_OF_DATA = (ArithmeticError, LookupError, ValueError, AssertionError)
"""Errors that may be due to the zeros that a dry run has instead of data."""
UNSETTLED = 8
"""The last launches, which may still be taken back, because a kernel fills a view that was taken for its address."""


class Declares(Protocol):
    """What a dry run needs of an application (harness/app.py)."""

    name: ClassVar[str]
    expected_rounds: ClassVar[int]
    tiled: ClassVar[Sequence[str]]
    strided: ClassVar[Sequence[str]]
    arrays: dict[str, Array]

    def footprint(self, params: Params) -> int: ...
    def kernel_files(self) -> list[KernelFile]: ...
    def prepare(self, gpu: Any) -> None: ...
    def read_from_files(self) -> Sequence[Array]: ...
    def initialise(self, cpu: Any, gpu: Any) -> None: ...
    def compute(self, cpu: Any, gpu: Any) -> None: ...


class ProcessPart(NamedTuple):
    """The part of the work that a process has, of several that share it."""

    rank: int = 0
    ranks: int = 1


WHOLE = ProcessPart()


class _Endless(BaseException):
    """Ends a dry run in a loop that waits for data. Not an Exception, so that no application catches it."""


class _Recorder(Workspace):
    """A workspace that records a program instead of moving memory.

    stand_ins: for computed numbers. rounds: how many are assumed of a loop that ends when data say so. ranks: processes
    that share the work.
    """

    def __init__(self, stand_ins: StandIns, rounds: int, ranks: int) -> None:
        self.stand_ins, self.rounds, self.ranks, self.arrays = stand_ins, rounds, ranks, []
        queue: Any = _Queue(self)
        self.device = queue
        self.computing = self.read_computed = self.ended = False
        self._may_wait = False
        """Whether the CPU has read, in any phase, what kernels wrote."""
        self.assumptions: list[str] = []
        self.assumes_rounds = False
        self._lists: list[list[Item]] = [[]]
        """What is recorded: of a phase, and of each loop that has begun."""
        self._recent: list[Launch] = []
        """The last launches of the innermost list, which are not in it yet."""
        self._scattered: set[int] = set()
        """The arrays that the launch that is being declared goes through in no order."""
        self._passes: dict[int, float] = {}
        """What the launch that is being declared says of arrays, by their numbers."""
        self._accesses: list[Access] = []
        """Those of the launch that is being declared."""
        self._updates = dict[int, int]()
        """By buffer, how many thread groups update it by atomics."""

    # ------------------------------------------------------------------------------------------------ recording

    def touch(self, agent: Agent, byte_range: ByteRange, *, reads: bool, writes: bool) -> None:
        """Adds an access to the launch that is being declared."""
        if byte_range.start < byte_range.end:
            number = byte_range.array.number
            self._accesses.append(Access(number, byte_range.start, byte_range.end, reads, writes))

    def declare_passes(self, passes: Mapping[Array, float]) -> None:
        if passes or self._passes:
            self._passes = {array.number: times for array, times in passes.items()}

    def declare_scattered(self, arrays: Sequence[Array]) -> None:
        self._scattered = {array.number for array in arrays}

    def updated_by(self, groups: int, array: Array) -> None:
        """Declares how many thread groups of the next launch update an array by atomics, once each."""
        self._updates[array.number] = groups

    def launched(
        self,
        agent: Agent,
        by: Literal["kernel", "view", "file"] = "kernel",
        kernel: str = "",
        threads: int = 0,
        at_once: bool = False,
        passes: float = 1.0,
        share: float = 1.0,
        items: int = 0,
    ) -> None:
        """The launch whose accesses were declared, each with so many passes over its bytes, or a share of those that
        were declared for the array. items: that the CPU's threads share.
        """
        accesses = self._accesses
        if passes != 1 or self._passes:
            passes_by_block = {number: share * times for number, times in self._passes.items()}
            accesses = [replace(a, passes=passes_by_block.get(a.block, passes)) for a in accesses]
            for i, a in enumerate(accesses):
                if isinstance(times := self._passes.get(a.block), Strided):
                    accesses[i] = replace(a, places=times.places, apart=times.apart)
            self._passes = {}
        if self._updates:
            accesses = [replace(a, updates=self._updates.pop(a.block, 0)) for a in accesses]
            self._updates.clear()
        if self._scattered:
            accesses = [replace(a, spread=RANDOM) if a.block in self._scattered else a for a in accesses]
            self._scattered = set()
        if items:
            accesses = [replace(a, rows=rows) if (rows := self._rows(a, items)) > 1 else a for a in accesses]
        launch = Launch(agent, tuple(accesses), by, kernel, threads, at_once, items)
        self._accesses.clear()
        if not launch.accesses:
            return
        for a in launch.accesses:
            zeros = self._zeros(a.block)
            if by == "view":
                self._may_wait |= a.reads and zeros.computed
                self.read_computed |= a.reads and zeros.computed and self.computing
            elif a.writes:
                zeros.computed = True
        if by == "kernel" and agent == "cpu":
            self._forget_views(launch)
        self._recent.append(launch)
        if len(self._recent) > UNSETTLED:
            self._settle(self._recent.pop(0))

    def _rows(self, a: Access, items: int) -> int:
        """The rows of an access if every item is a place in each of them."""
        array = self.arrays[a.block]
        whole = (a.end - a.start) % max(1, array.row_bytes) == 0
        places = array.row_bytes // array.dtype.itemsize
        count = (a.end - a.start) // array.row_bytes if whole and array.row_bytes else 1
        return count if count > 1 and places == items and count != items else 1

    def _zeros(self, block: int) -> Any:
        return self.arrays[block].memory.host

    def _forget_views(self, kernel: Launch) -> None:
        """A view that a kernel fills next was only taken for its address, unless the GPU was given work in between."""
        for a in kernel.accesses:
            for i in range(len(self._recent) - 1, -1, -1):
                past = self._recent[i]
                alike = [access for access in past.accesses if access.block == a.block]
                if past.agent == "gpu" or (alike and past.by != "view"):
                    break
                if any(access.writes and a.start <= access.start and access.end <= a.end for access in alike):
                    del self._recent[i]

    def _settle(self, item: Item) -> None:
        fold(self._lists[-1], item)
        last = self._lists[-1][-1]
        if not self._may_wait:
            return
        if isinstance(last, Repeat) and last.count >= ENDLESS:
            self._lists[-1][-1], self.assumes_rounds = Repeat(self.rounds, last.body), True
            assumed = f"{self.rounds} rounds are assumed"
        elif (count := sum(map(len, self._lists))) >= MOST_ITEMS:
            assumed = f"no two rounds are equal, and everything after {count} launches is left out"
        else:
            return
        self.assumptions.append(f"the length of a loop depends on data: {assumed}")
        self.ended = True
        self._recent.clear()
        raise _Endless

    def settled(self) -> list[Item]:
        """The innermost list, with all that was recorded."""
        for launch in self._recent:
            self._settle(launch)
        self._recent.clear()
        return self._lists[-1]

    def item(self, item: Item) -> None:
        fold(self.settled(), item)

    def exchanging(self, item: Exchanging) -> None:
        """One process alone exchanges nothing with others."""
        if self.ranks > 1:
            self.item(item)

    def begin_body(self) -> None:
        self.settled()
        self._lists.append([])

    def end_body(self) -> list[Item]:
        body = self.settled()
        self._lists.pop()
        return body

    def end_phase(self) -> tuple[Item, ...]:
        """All that was recorded since the last phase ended, also in loops that have not ended."""
        while len(self._lists) > 1:
            body = self.end_body()
            self.settled().extend(body)
        self._lists, items = [[]], tuple(self.settled())
        return items

    # ------------------------------------------------------------------------------------------------ a Workspace

    def view(self, byte_range: ByteRange, *, reads: bool = True, writes: bool = False) -> np.ndarray[Any, Any]:
        self.touch("cpu", byte_range, reads=reads, writes=writes)
        array, number = byte_range.array, None
        zeros: Zeros = self._zeros(array.number)
        if reads and zeros.computed:
            number = self.stand_ins.number_for(array.dtype, (array.number, byte_range.start))
        numbers = zeros.numbers(array.dtype, byte_range.start, byte_range.end, number, writes=writes)
        self.launched("cpu", "view")
        return numbers.reshape(-1, *array.shape[1:])

    def load(self, array: Array, threads: int) -> None:
        self.touch("cpu", array, reads=False, writes=True)
        self.launched("cpu", "file")

    def swap(self, first: Array, second: Array) -> None:
        self.item(Swap(first.number, second.number))
        first.memory, second.memory = second.memory, first.memory

    def wait(self) -> None:
        self.item(AwaitAll())


class _Cpu(Cpu):
    workspace: _Recorder

    def _run(
        self, file: KernelFile, entry: Entry, arguments: Sequence[KernelArgument], over: int, at_once: bool
    ) -> None:
        if at_once:
            for argument, constant in zip(arguments, entry.constant, strict=True):
                if isinstance(argument, Array):
                    self.workspace.touch("cpu", argument, reads=True, writes=not constant)
        items = items_of(file.text, entry.name, dict(zip(entry.parameters, arguments, strict=True))) or over
        self.workspace.launched("cpu", kernel=entry.name, threads=over, at_once=at_once, items=items)


class _Queue:
    """Stands for the device's queue: takes launches as Device.launch does."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder

    def launch(self, kernel: str, groups: int, threads: int, arguments: object, timer: object) -> None:
        self._recorder.launched("gpu", kernel=kernel, threads=groups * threads)


class _Launches:
    """Stands for a native list of launches: how many threads each has."""

    def __init__(self, recorder: _Recorder) -> None:
        self._recorder = recorder
        self._threads: list[int] = []

    def __len__(self) -> int:
        return len(self._threads)

    def add(self, kernel: str, groups: int, threads: int, arguments: object) -> None:
        self._threads.append(groups * threads)

    def replay(self, first: int, count: int, timer: object) -> None:
        """Each launch is taken to use a part of the bytes, by its share of the threads of the largest launch."""
        threads = sum(self._threads[first : first + count])
        passes = max(1.0, threads / max(self._threads, default=1))
        share = threads / max(1, sum(self._threads))
        self._recorder.launched("gpu", kernel=SEQUENCE, threads=threads, passes=passes, share=share)


class _Exchange(Exchange):
    """Records where processes combine numbers. All are taken to have the same."""

    def __init__(self, recorder: _Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def total(self, number: int) -> int:
        self._recorder.exchanging(Combine())
        return number * self._recorder.ranks

    def largest(self, number: float) -> float:
        self._recorder.exchanging(Combine())
        return number


class _Gpu(Gpu):
    workspace: _Recorder

    def prepare_launch(
        self, kernel: str, arguments: Sequence[KernelArgument], over: int, groups: int, threads: int
    ) -> tuple[Any, int, int, list[object]]:
        file, entry = self._entry(kernel, arguments)
        if updated := group_atomics(file.text)[kernel]:
            for name, argument in zip(entry.parameters, arguments, strict=True):
                if name in updated and isinstance(argument, Array):
                    self.workspace.updated_by(groups, argument)
        return kernel, 1, over or groups * threads, []

    def _before_launch(self) -> None:
        """Nothing is timed."""

    def call(self, function: object, *arguments: object, **ranges: Any) -> None:
        """There are no library calls, since there is no library."""

    def library(self, kind: str, wanted: str = "auto") -> tuple[Any, str]:
        return None, "own kernels"

    @contextmanager
    def exchange(self) -> Iterator[None]:
        self.workspace.exchanging(ExchangeMark(begins=True))
        yield
        self.workspace.exchanging(ExchangeMark())

    def send_and_receive(self, outgoing: Sequence[Message], incoming: Sequence[Message]) -> None:
        """Messages have memory of their own under every strategy, but the process waits."""
        self.workspace.wait()
        self.workspace.exchanging(Messages(tuple(part.end - part.start for _, part in incoming)))

    def sequence(self) -> LaunchSequence:
        launches: Any = _Launches(self.workspace)
        return LaunchSequence(self, launches)

    def iterations(self, count: int) -> Iterator[int]:
        """Each round is a body; equal rounds become a Repeat. The last whole round of a loop that ends early is
        repeated as often as is assumed.
        """
        recorder, last, finished = self.workspace, list[Item](), 0
        recorder.item(LoopMark(begins=True))
        try:
            while finished < count:
                recorder.begin_body()
                yield finished
                recorder.item(LoopMark())
                last, finished = recorder.end_body(), finished + 1
                append_body(items := recorder.settled(), last)
                if (more := (count - finished - 1) // 2 * 2) > 0 and _recurs(items, last):
                    append_body(items, last, more)
                    finished += more
        except GeneratorExit:
            if recorder.ended:
                return
            body = recorder.end_body()
            recorder.settled().extend(body)
            if recorder.computing:
                self._assume(last or body, max(1, finished + _launches_kernels(body)), count)

    def _assume(self, body: Sequence[Item], finished: int, count: int) -> None:
        rounds = min(count, self.workspace.rounds)
        self.workspace.assumes_rounds = True
        append_body(self.workspace.settled(), body, max(0, rounds - finished))
        self.workspace.assumptions.append(
            f"the number of iterations depends on the data: {max(rounds, finished)} of at most {count} are assumed"
        )


def _recurs(items: Sequence[Item], body: Sequence[Item]) -> bool:
    """Whether a list ends with so many rounds of a body that the next ones are taken to be like them."""
    end = items[-1] if items else None
    return isinstance(end, Repeat) and end.count >= ALIKE_ROUNDS and end.body == tuple(body)


def program_of(
    app: Callable[..., Declares],
    params: Params,
    rounds: int = 0,
    options: Mapping[str, str] | None = None,
    part: ProcessPart = WHOLE,
) -> Program:
    """The program of an application with these parameters. Where a dry run ends for want of data: what its buffers say.
    The latest programs are kept.

    rounds: that are assumed of a loop that ends when data say so, instead of those that the application expects.
    options: with which the application is made. part: of the work, if several processes share it.

    Raises:
        UsageError: the application fails, for a reason that data do not change.
    """
    return _program_of(app, tuple(params.items()), rounds, tuple((options or {}).items()), part)


@lru_cache(maxsize=MOST_KEPT)
def _program_of(
    kind: Callable[..., Declares],
    items: tuple[tuple[str, int], ...],
    rounds: int,
    options: tuple[tuple[str, str], ...],
    part: ProcessPart,
) -> Program:
    app = _Made(kind, dict(options), part) if options or part != WHOLE else kind
    params, expected = dict(items), rounds or getattr(kind, "expected_rounds", 0) or ROUNDS
    first = _attempt(app, params, StandIns(0), expected)
    if first.program and not first.read_computed:
        return first.program
    varied = [run for run in _ending_runs(app, params, expected) if run.program and not run.ended]
    least = min((run.program for run in varied if run.program), key=lambda program: program.launches, default=None)
    second = None if first.program and least else _attempt(app, params, StandIns(1), expected).program
    usual = first.program or second
    program = usual if least is None or launch_alike(usual, least) else least
    return program or by_roles(app(params), params, first.reason)


class _Made:
    """Makes an application with options, or a process's part of it."""

    def __init__(self, kind: Callable[..., Declares], options: Mapping[str, str], part: ProcessPart) -> None:
        self.name, self._kind, self._options, self._part = _name(kind), kind, options, part

    def __call__(self, params: Params) -> Declares:
        shared = {} if self._part == WHOLE else {"rank": self._part.rank, "ranks": self._part.ranks}
        return self._kind(params, options=self._options, **shared)


def _ending_runs(app: Callable[[Params], Declares], params: Params, rounds: int) -> Iterator[_DryRun]:
    """Dry runs whose loops end because a number is small, and because it is zero where that makes a difference."""
    small = StandIns(rounds=rounds, last=SMALL)
    yield _attempt(app, params, small, rounds)
    if small.used_last:
        yield _attempt(app, params, StandIns(rounds=rounds, last=0.0), rounds)


@dataclass
class _DryRun:
    """A dry run that was tried. program: None, for the reason in `reason`. ended: whether a loop had no end."""

    program: Program | None = None
    reason: str = ""
    read_computed: bool = False
    ended: bool = False


def _attempt(app: Callable[[Params], Declares], params: Params, stand_ins: StandIns, rounds: int) -> _DryRun:
    try:
        return _dry_run(app(params), params, stand_ins, rounds)
    except _NoKernel as error:
        return _DryRun(reason=str(error))
    except WANT_OF_DATA as error:
        return _DryRun(reason=f"a dry run fails: {describe(error)}")
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"{_name(app)} fails: {describe(error)}") from None


def _name(app: object) -> str:
    return str(getattr(app, "name", app))


class _NoKernel(Exception):
    """A dry run launched no kernel in the phase compute, because of the reason that the exception states."""


def _blocks(app: Declares) -> list[Block]:
    return [replace(Block.of(a.declaration), strided=name in app.strided) for name, a in app.arrays.items()]


def _title(app: Declares, params: Params) -> str:
    return f"{app.name}, {format_size(app.footprint(params))}"


def _dry_run(app: Declares, params: Params, stand_ins: StandIns, rounds: int) -> _DryRun:
    recorder = _Recorder(stand_ins, rounds, getattr(app, "ranks", 1))
    for array in app.arrays.values():
        zeros: Any = Zeros(max(1, array.nbytes))
        array.number, array.memory = len(recorder.arrays), Memory(zeros, zeros)
        recorder.arrays.append(array)
    files = app.kernel_files()
    cpu, gpu = _Cpu(recorder, files), _Gpu(recorder, files)
    gpu.exchanges = _Exchange(recorder)
    initialise: tuple[Item, ...] = ()
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of code that divides by zeros, which real data are not
            app.prepare(gpu)
            for array in app.read_from_files():
                recorder.load(array, 0)
            app.initialise(cpu, gpu)
            initialise, recorder.computing = recorder.end_phase(), True
            app.compute(cpu, gpu)
    except _Endless:
        if not recorder.computing:
            raise _NoKernel("its initialisation does not end without data") from None
    compute = recorder.end_phase()
    if not _launches_kernels(compute):
        raise _NoKernel("without data it launches no kernel")
    assumptions = list(recorder.assumptions)
    if stand_ins.number is None and not recorder.assumes_rounds:
        recorder.assumes_rounds = True
        assumptions.append(f"each loop whose length depends on results of kernels is assumed to run {rounds} rounds")
    elif recorder.read_computed and not assumptions:
        assumptions.append(f"numbers that the CPU reads from results of kernels are assumed to be {stand_ins.number}")
    blocks = tuple(_blocks(app))
    fields = (_title(app, params), blocks, initialise, compute, tuple(assumptions), bool(app.tiled))
    program = Program(*fields, rounds if recorder.assumes_rounds else 0)
    return _DryRun(program, "", recorder.read_computed, recorder.ended)


def _launches_kernels(items: Sequence[Item]) -> bool:
    return any(
        _launches_kernels(i.body) if isinstance(i, Repeat) else isinstance(i, Launch) and i.agent == "gpu"
        for i in items
    )


def by_roles(app: Declares, params: Params, reason: str) -> Program:
    """The program that the roles of the buffers imply: each crosses once in each direction that its role says."""
    blocks = _blocks(app)
    initialise = [
        Launch("cpu", (Access(n, 0, b.nbytes, reads=False, writes=True),))
        for n, b in enumerate(blocks)
        if b.starts_on == "cpu"
    ]
    used = tuple(
        Access(n, 0, b.nbytes, reads=b.starts_on is not None, writes=b.role not in ("input", "constant"))
        for n, b in enumerate(blocks)
        if b.sides != "cpu"
    )
    assumption = f"each buffer moves once in each direction that its role says, because {reason}"
    compute = (Launch("gpu", used),)
    return Program(_title(app, params), tuple(blocks), tuple(initialise), compute, (assumption,), bool(app.tiled))
