"""The accesses that an application declares, recorded without a device: nothing is computed and nothing is copied.

The application runs with its real parameters, but its kernels are not run, and its memory is all zeros, of which only
what numpy code writes becomes real. So loops that end when the data say so end at their first test; ROUNDS says how
many iterations are assumed then.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from firsttouch.harness.app import App, Params
from firsttouch.units import format_size
from firsttouch.workspace.agents import Cpu, Gpu, Value
from firsttouch.workspace.exchange import Message
from firsttouch.workspace.strategies import STRATEGIES
from firsttouch.workspace.workspace import Agent, Array, ByteRange, Declaration, Store, Workspace

Phase = Literal["initialise", "compute"]
ROUNDS = 10
"""The iterations that are assumed of a loop that depends on data that a dry run does not have."""
STAND_INS = (0, 1)
"""What stands for each number that kernels would have written, until the application launches kernels with it."""
REAL = 64 << 20
"""The most bytes of memory that stand for a block."""
FIXED, NO_RESERVE = 0x10, 0x4000
"""Flags of mmap(2) on Linux that Python does not name in all versions."""
MOST_ACCESSES = 12_000
MOST_SECONDS = 3.0
"""A dry run ends when it has declared so many accesses, or has computed so long."""


@dataclass
class Access:
    """One use of bytes [start, end) of a block of memory by an agent.

    launch: the number of the launch, copy or view that it belongs to. passes: how often the bytes are used. by: a
    parallel kernel, single-threaded numpy code, or a copy of a file. simultaneous: the CPU uses them while a kernel
    that uses them runs. spread: the kernel touches a few bytes in each stretch, in the words of the experiment
    migration; passes is then the part that it uses.
    """

    phase: Phase
    launch: int
    agent: Agent
    block: int
    start: int
    end: int
    reads: bool
    writes: bool
    passes: float = 1.0
    by: Literal["kernel", "view", "file"] = "kernel"
    simultaneous: bool = False
    spread: str = ""


@dataclass(frozen=True)
class Block:
    """The memory of one declared buffer. Buffers that an application swaps exchange their blocks."""

    index: int
    declaration: Declaration


@dataclass
class Declared:
    """What a program declares.

    title: its name and size. computing, ending: the block of each buffer before the first launch of the phase compute,
    and at the end. tiled: whether it can work on parts of its data that fit on the device.
    """

    title: str
    blocks: list[Block]
    accesses: list[Access] = field(default_factory=list)
    computing: dict[str, int] = field(default_factory=dict)
    ending: dict[str, int] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)
    tiled: bool = False


class _Memory:
    """Zeros instead of a block, mapped when an address is needed. A large block is one piece of memory over and over,
    so that it takes no more than REAL even where code writes all of it.
    """

    allocator = ""

    def __init__(self, index: int, size: int) -> None:
        self.index, self.size = index, size
        self._mapping: mmap.mmap | None = None

    @property
    def address(self) -> int:
        if self._mapping is None:
            self._mapping = mmap.mmap(-1, self.size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE)
            if self.size > REAL:
                _repeat(ctypes.addressof(ctypes.c_char.from_buffer(self._mapping)), self.size)
        return ctypes.addressof(ctypes.c_char.from_buffer(self._mapping))

    device_address = address


def _repeat(address: int, size: int) -> None:
    """Replace a mapping by one of REAL bytes of memory after another."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    file = os.memfd_create("firsttouch")
    try:
        os.ftruncate(file, REAL)
        for at in range(0, size, REAL):
            flags, access = mmap.MAP_SHARED | FIXED, mmap.PROT_READ | mmap.PROT_WRITE
            if libc.mmap(address + at, min(REAL, size - at), access, flags, file, 0) != address + at:
                raise OSError(ctypes.get_errno(), "mmap failed")
    finally:
        os.close(file)


class _Enough(BaseException):
    """Ends a dry run that has declared too many accesses. Not an Exception, so that no application catches it."""


class _Recorder(Workspace):
    """A workspace that records accesses."""

    def __init__(self, declared: Declared, number: int) -> None:
        self.declared, self.number, self.phase = declared, number, "initialise"
        self.strategy = STRATEGIES["explicit"]
        self.transferred = {"cpu": 0, "gpu": 0}
        self.arrays = []
        self.launch = 0
        self.computed: set[int] = set()
        """Blocks that kernels have written."""
        self.read_computed = self.stopped = False
        self._started = time.process_time()

    def touch(self, agent: Agent, byte_range: ByteRange, *, reads: bool, writes: bool) -> None:
        self.note(agent, byte_range, reads=reads, writes=writes)

    def note(self, agent: Agent, byte_range: ByteRange, **more: Any) -> None:
        memory = byte_range.array.store.host
        if byte_range.start >= byte_range.end or memory is None:
            return
        index = memory.index  # type: ignore[attr-defined]
        access = Access(self.phase, self.launch, agent, index, byte_range.start, byte_range.end, **more)  # type: ignore[arg-type]
        if agent == "cpu" and access.by == "kernel":
            self._forget_views(access)
        if access.by == "view":
            self.read_computed |= access.reads and index in self.computed and self.phase == "compute"
        elif access.writes:
            self.computed.add(index)
        self.declared.accesses.append(access)
        if len(self.declared.accesses) > MOST_ACCESSES or time.process_time() - self._started > MOST_SECONDS:
            self.stopped = True
            raise _Enough

    def _forget_views(self, kernel: Access) -> None:
        """A view that a kernel fills next was only taken for its address."""
        accesses = self.declared.accesses
        for i in range(len(accesses) - 1, max(-1, len(accesses) - 8), -1):
            past = accesses[i]
            if past.block == kernel.block and (past.agent == "gpu" or past.by != "view"):
                return
            if past.block == kernel.block and past.writes and kernel.start <= past.start and past.end <= kernel.end:
                del accesses[i]

    def begin_launch(self) -> None:
        self.launch += 1

    def view(self, byte_range: ByteRange, *, reads: bool = True, writes: bool = False) -> np.ndarray[Any, Any]:
        self.begin_launch()
        self.note("cpu", byte_range, reads=reads, writes=writes, by="view")
        array, count = byte_range.array, byte_range.end - byte_range.start
        assert array.store.host is not None
        raw = (ctypes.c_uint8 * count).from_address(array.store.host.address + byte_range.start)
        numbers = np.ctypeslib.as_array(raw).view(array.dtype)
        if self.number and array.store.host.index in self.computed:  # type: ignore[attr-defined]
            numbers[: REAL // array.dtype.itemsize] = self.number  # what a larger block has again and again
        return numbers.reshape(-1, *array.shape[1:])

    def load(self, array: Array, threads: int) -> None:
        self.begin_launch()
        self.note("cpu", array, reads=False, writes=True, by="file")

    def wait(self) -> None:
        """There is no work to wait for."""


class _Cpu(Cpu):
    workspace: _Recorder

    def launch(
        self,
        kernel: str,
        *arguments: Value,
        over: int,
        reads: Sequence[ByteRange] = (),
        updates: Sequence[ByteRange] = (),
        writes: Sequence[ByteRange] = (),
        concurrent_with_gpu: bool = False,
    ) -> None:
        _, entry = self._entry(kernel, arguments)
        self.workspace.begin_launch()
        if not concurrent_with_gpu:
            self._declare(entry, arguments, reads, updates, writes)
            return
        for argument, constant in zip(arguments, entry.constant, strict=True):
            if isinstance(argument, Array):
                shared = argument.declaration.sides == "both"
                self.workspace.note("cpu", argument, reads=True, writes=not constant, simultaneous=shared)


class _Sequence:
    """The launches of a sequence: how many threads each has."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.arrays: dict[Array, object] = {}

    def add(self, kernel: str, *arguments: Value, over: int = 0, groups: int = 0, threads: int = 0) -> None:
        self.threads.append(over or groups * threads)

    def __len__(self) -> int:
        return len(self.threads)


class _Gpu(Gpu):
    workspace: _Recorder

    def launch(
        self,
        kernel: str,
        *arguments: Value,
        over: int = 0,
        groups: int = 0,
        threads: int = 0,
        reads: Sequence[ByteRange] = (),
        updates: Sequence[ByteRange] = (),
        writes: Sequence[ByteRange] = (),
    ) -> None:
        _, entry = self._entry(kernel, arguments)
        self.workspace.begin_launch()
        self._declare(entry, arguments, reads, updates, writes)

    def call(self, function: object, *arguments: object, **ranges: Any) -> None:
        """There are no library calls, since there is no library."""

    def library(self, kind: str, wanted: str = "auto") -> tuple[Any, str]:
        return None, "own kernels"

    @contextmanager
    def exchange(self) -> Iterator[None]:
        yield

    def send_and_receive(self, outgoing: Sequence[Message], incoming: Sequence[Message]) -> None:
        """What is exchanged is memory of its own under every strategy."""

    def sequence(self) -> Any:
        return _Sequence()

    def replay(
        self,
        sequence: Any,
        *,
        first: int = 0,
        count: int | None = None,
        reads: Sequence[ByteRange] = (),
        updates: Sequence[ByteRange] = (),
        writes: Sequence[ByteRange] = (),
    ) -> None:
        """Each launch is taken to use a part of the bytes, by its share of the threads of the largest launch."""
        launches = sequence.threads[first : None if count is None else first + count]
        self.workspace.begin_launch()
        passes = max(1.0, sum(launches) / max(sequence.threads, default=1))
        for ranges, reading, writing in ((reads, True, False), (updates, True, True), (writes, False, True)):
            for one in ranges:
                self.workspace.note("gpu", one, reads=reading, writes=writing, passes=passes)

    def iterations(self, count: int) -> Iterator[int]:
        declared, starts = self.workspace.declared, list[int]()
        ended = False
        try:
            for index in range(count):
                starts.append(len(declared.accesses))
                yield index
            ended = True
        finally:
            if not (ended or self.workspace.stopped) and self.workspace.phase == "compute":
                self._repeat(starts, count)

    def _repeat(self, starts: list[int], count: int) -> None:
        """Repeat the last whole iteration of a loop that ended early, as often as is assumed."""
        declared, done = self.workspace.declared, max(1, len(starts) - 1)
        body = declared.accesses[starts[-2] : starts[-1]] if len(starts) > 1 else declared.accesses[starts[-1] :]
        rounds = min(count, ROUNDS)
        for _ in range(max(0, rounds - done)):
            if len(declared.accesses) + len(body) < MOST_ACCESSES:
                declared.accesses += body
        declared.assumptions.append(
            f"the number of iterations depends on the data: {max(rounds, done)} of at most {count} are assumed"
        )


def declared_by(app: type[App], params: Params, options: Mapping[str, str] | None = None) -> Declared:
    """The accesses that an application declares with given parameters."""
    reason = ""
    for number in STAND_INS:
        try:
            return _dry_run(app, params, options, number)
        except _NoKernel:
            reason = reason or "without data it launches no kernel"
        except Exception as error:
            reason = reason or f"a dry run fails: {type(error).__name__}: {' '.join(str(error).split())}"
    return by_roles(_declared(app(params, 1, options), params), reason)


def _declared(instance: App, params: Params) -> Declared:
    blocks = [Block(i, array.declaration) for i, array in enumerate(instance.arrays.values())]
    first = {name: i for i, name in enumerate(instance.arrays)}
    title = f"{instance.name}, {format_size(instance.footprint(params))}"
    return Declared(title, blocks, [], first, first, tiled=bool(instance.tiled))


class _NoKernel(Exception):
    """A dry run launched no kernel in the phase compute."""


def _dry_run(app: type[App], params: Params, options: Mapping[str, str] | None, number: int) -> Declared:
    instance = app(params, 1, options)
    declared = _declared(instance, params)
    recorder = _Recorder(declared, number)
    for i, array in enumerate(instance.arrays.values()):
        memory: Any = _Memory(i, max(1, array.nbytes))
        array.store = Store(memory, memory)
    files = instance.kernel_files()
    cpu, gpu = _Cpu(recorder, files), _Gpu(recorder, files)

    def blocks() -> dict[str, int]:
        return {name: array.store.host.index for name, array in instance.arrays.items()}  # type: ignore[union-attr]

    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of code that divides by zeros, which real data are not
            instance.prepare(gpu)
            instance.initialise(cpu, gpu)
            declared.computing, recorder.phase = blocks(), "compute"
            instance.compute(cpu, gpu)
    except _Enough:
        declared.assumptions.append(f"the dry run ended after {len(declared.accesses):,} accesses")
    if not any(access.agent == "gpu" and access.phase == "compute" for access in declared.accesses):
        raise _NoKernel
    declared.ending = blocks()
    if recorder.read_computed and not declared.assumptions:
        declared.assumptions.append(
            f"numbers that the CPU reads from what kernels wrote are taken as {number}, so loops may end early"
        )
    return declared


def by_roles(declared: Declared, reason: str) -> Declared:
    """The accesses that the roles of the buffers imply: each crosses once in each direction that its role says."""
    found = Declared(declared.title, declared.blocks, computing=declared.computing, ending=declared.computing)
    found.tiled = declared.tiled
    found.assumptions.append(f"each buffer moves once in each direction that its role says, because {reason}")
    for block in declared.blocks:
        d = block.declaration
        if d.starts_on == "cpu":
            found.accesses.append(
                Access("initialise", block.index, "cpu", block.index, 0, d.nbytes, reads=False, writes=True)
            )
    for block in declared.blocks:
        d = block.declaration
        if d.sides != "cpu":
            writes = d.role not in ("input", "constant")
            found.accesses.append(
                Access(
                    "compute",
                    len(declared.blocks),
                    "gpu",
                    block.index,
                    0,
                    d.nbytes,
                    reads=d.starts_on is not None,
                    writes=writes,
                )
            )
    return found
