"""What a traced program did with its memory: blocks with their lives, and steps that name them, in program order.

A run is made of the calls of one process (`profile/calls.py`). Steps name a block by its number and bytes by their
offset in it. The host's memory that CUDA did not allocate has addresses only. Times are seconds of CLOCK_MONOTONIC.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, cast

import msgspec

from firsttouch import _core
from firsttouch.profile.call_journal import is_of_vendor
from firsttouch.profile.calls import (
    AnyCall,
    Arguments,
    ArgumentWord,
    BlockCall,
    FoldedCalls,
    HostDifference,
    HostUse,
    KernelAccess,
    LaunchCall,
    LaunchShape,
    MappedView,
    MoveCall,
    PointersCall,
    QueryCall,
    Sharing,
    TracedCalls,
    WaitCall,
)
from firsttouch.profile.living import Living
from firsttouch.profile.recorded import CallSite, FailedCalls, MemoryKind, Runtime
from firsttouch.profile.traced import CallerTable
from firsttouch.program.extents import Extent, extents_of
from firsttouch.program.page_locked import with_page_locked
from firsttouch.program.temporaries import library_temporaries

if TYPE_CHECKING:
    from firsttouch.program.exact_run import ExactRun

T = TypeVar("T")
HOST_KINDS: frozenset[MemoryKind] = frozenset(("pageable", "pinned"))
STATIC_KINDS: frozenset[MemoryKind] = frozenset(("device_static", "managed_static"))
MANAGED_KINDS: frozenset[MemoryKind] = frozenset(("managed", "managed_static"))
NO_BLOCK = -1
_MOST_ROWS = 1 << 20
"""More rows than these are taken to be adjacent."""
_MOST_SEARCHED = 64 << 10
"""Bytes of a copy to the device up to which the injected library looks for addresses of blocks in it."""
_MOST_RANGES = 4096
"""The most sides of copies that are kept to be used again, so that copies which never recur take little memory."""
_ASSUMED_REGION = "target_region"
"""The name of the kernel of a target region whose arguments are not known."""
CopyWay: TypeAlias = Literal["h2d", "d2h", "d2d", "h2h"]
"""Between which sides bytes are copied. Managed blocks count as the device's; their kind tells."""
_WAYS: dict[tuple[bool, bool], CopyWay] = {
    (True, False): "h2d", (False, True): "d2h", (False, False): "d2d", (True, True): "h2h"
}  # fmt: skip
"""By whether the source and the target are on the host."""
NamedBy: TypeAlias = Literal["argument", "pointer", "symbol"]
"""How a launch names a block: in its parameters, by a pointer in a block that these name, or by a static variable of
the device, or a pointer in one, which any kernel of the program may use."""


class Life(msgspec.Struct, gc=False):
    """One allocation. end: None if it was not given back. first, last: numbers of the steps at which it begins and
    ends; last is the number of steps if it was not given back.
    """

    address: int
    begin: float
    first: int
    end: float | None = None
    last: int = 0


MAPPED_GRANULE = 2 << 20
"""Bytes of which memory that is mapped is a multiple. Source: cuMemGetAllocationGranularity of CUDA's GPUs."""


class TracedBlock(msgspec.Struct):
    """Memory of CUDA: the allocations of one call, size and kind of which no two were alive at once.

    number: its place among the blocks; site: of its first allocation; name: of a static variable. in_pool: "part" if it
    is assumed to be a part of an allocation that an allocator of the program divides, "whole" if it is all of one.
    is_of_vendor: whether a library of the vendor allocates it, or its templates for one of their calls, which the
    program cannot change. is_mapped: into a range that the program reserved, in whole granules (`MAPPED_GRANULE`).
    sharing, access, host: as of `BlockCall`.
    """

    number: int
    nbytes: int
    kind: MemoryKind
    device: int
    site: CallSite
    name: str
    lives: list[Life] = []
    in_pool: Literal["", "part", "whole"] = ""
    is_of_vendor: bool = False
    is_mapped: bool = False
    sharing: frozenset[Sharing] = frozenset()
    access: KernelAccess = ""
    host: int = 0

    @property
    def on_host(self) -> bool:
        """Whether it is memory of the host alone, such as pinned memory."""
        return self.kind in HOST_KINDS


class TracedRange(msgspec.Struct, frozen=True, gc=False):
    """One side of a copy: bytes of a block, or of the host's memory by address, if block is NO_BLOCK.

    start: of the first row; nbytes: of a row; pitch: from row to row. Adjacent rows are one.
    """

    block: int
    start: int
    nbytes: int
    rows: int = 1
    pitch: int = 0

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The pieces [start, end), in order."""
        if self.rows == 1:
            return [(self.start, self.start + self.nbytes)]
        return [(a, a + self.nbytes) for a in (self.start + row * self.pitch for row in range(self.rows))]

    @property
    def end(self) -> int:
        return self.start + (self.rows - 1) * self.pitch + self.nbytes

    @property
    def total(self) -> int:
        """The bytes of all rows."""
        return self.rows * self.nbytes


class TracedUse(msgspec.Struct, frozen=True, gc=False):
    """A launch names a block. start: the first byte that it names. may_write: the parameter is not a pointer to const.

    parameter: the number of the first that names it, -1 if none does; word: the offset of the pointer in it.
    """

    block: int
    start: int
    by: NamedBy = "argument"
    may_write: bool = True
    parameter: int = -1
    word: int = 0


class TracedAllocation(msgspec.Struct, frozen=True, gc=False):
    """A block begins or ends. Its bytes are then valid nowhere.

    change: how many bytes more the program has then, negative where it ends; 0 of what is mapped in pieces. offset: of
    the block in what the call allocates, of which it may be a part.
    """

    call: BlockCall
    block: int
    change: int
    offset: int = 0

    @property
    def begins(self) -> bool:
        return self.call.begins


class TracedMapping(msgspec.Struct, frozen=True, gc=False):
    """A piece of a block is mapped or unmapped while the block is alive: the block's bytes [start, end) or, if the
    block is a part of a pool, those of the piece in it. offset: of these in the piece.
    """

    call: BlockCall
    block: int
    start: int
    end: int
    offset: int

    @property
    def change(self) -> int:
        """How many bytes more the program has then."""
        return self.end - self.start if self.call.begins else self.start - self.end


class TracedCopy(msgspec.Struct, frozen=True, gc=False):
    call: MoveCall
    way: CopyWay
    source: TracedRange
    target: TracedRange

    @property
    def host(self) -> TracedRange:
        """The host's side of a copy between host and device."""
        return self.target if self.way == "d2h" else self.source

    @property
    def device(self) -> TracedRange:
        return self.source if self.way == "d2h" else self.target


class TracedFill(msgspec.Struct, frozen=True, gc=False):
    call: MoveCall
    target: TracedRange


class TracedView(msgspec.Struct, frozen=True, gc=False):
    """A mapping of bytes of a block, through which the CPU uses them, begins or ends."""

    call: MappedView
    target: TracedRange


class TracedHint(msgspec.Struct, frozen=True, gc=False):
    """A prefetch or an advice."""

    call: MoveCall
    target: TracedRange


class TracedLaunch(msgspec.Struct, frozen=True, gc=False):
    """uses: the blocks that it names, by number; equal ones are the same object. strangers: words of its parameters
    that are addresses of the device but in no block.
    """

    call: LaunchCall
    uses: tuple[TracedUse, ...]
    strangers: int = 0

    @property
    def kernel(self) -> str:
        """As the compiler mangled it; '' if unknown."""
        return self.call.arguments.kernel if self.call.arguments else ""


class FoldedSteps(msgspec.Struct, frozen=True, gc=False):
    """The last `steps` steps, an iteration of a loop, were taken `call.times` times more."""

    call: FoldedCalls
    steps: int


TracedStep: TypeAlias = (
    TracedAllocation
    | TracedMapping
    | TracedCopy
    | TracedFill
    | TracedHint
    | TracedLaunch
    | TracedView
    | WaitCall
    | QueryCall
    | HostUse
    | FoldedSteps
)
"""None of these has subclasses. Loops over all steps ask for `type(step)`: a run has millions, and `isinstance` takes
several times as long for a step that is of another kind.
"""


class TracedRun(msgspec.Struct, dict=True):
    """What a process did. blocks: by number; steps: in program order; durations: seconds on the GPU by correlation, as
    are shapes, the grids and blocks of launches. exact: what a second run told of kernels, which launches then name.

    launches, unknown: how many there are, and of how many the arguments are not known. outside: copies and fills that
    were left out because no block has their bytes on the device. incomplete: what the journal lacks, in sentences;
    is_partial: whether it lacks records. failed: calls that returned an error, which made no step.
    others: processes of the same profile that were traced too; this one's number if it ran several programs (exec).
    runtimes: that it used, but for CUDA. differences: from both sides of copies as one memory; None: they were not
    looked for.
    """

    pid: int
    blocks: list[TracedBlock]
    steps: list[TracedStep]
    durations: dict[int, float]
    launches: int = 0
    unknown: int = 0
    outside: int = 0
    incomplete: tuple[str, ...] = ()
    is_partial: bool = False
    failed: tuple[FailedCalls, ...] = ()
    shapes: dict[int, LaunchShape] = {}
    exact: ExactRun | None = None
    others: tuple[int, ...] = ()
    runtimes: Sequence[Runtime] = ()
    differences: tuple[HostDifference, ...] | None = None

    @property
    def apis(self) -> tuple[str, ...]:
        """Those by which the program asked for memory of a device."""
        return (*dict.fromkeys(runtime.api for runtime in self.runtimes),) or ("CUDA",)

    @property
    def guesses_arguments(self) -> bool:
        """Whether a target region of OpenMP, whose call was not seen, is taken to use all that is mapped."""
        return self.once(_guesses_arguments)

    def once(self, make: Callable[[TracedRun], T]) -> T:
        """What a function makes of the run, which is made once. After that, the run must not change."""
        made = self.__dict__.setdefault("made", {})
        if make not in made:
            made[make] = make(self)
        return cast(T, made[make])

    @property
    def is_folded(self) -> bool:
        return bool(self.once(_folded))

    @property
    def times(self) -> Mapping[int, int]:
        """How many steps a step stands for, by its number, if it is in the last iteration before `FoldedSteps`."""
        return self.once(_times)

    def count(self, numbers: Iterable[int]) -> int:
        """How many steps those with these numbers stand for."""
        return sum(self.times.get(number, 1) for number in numbers)

    def place(self, number: int) -> int:
        """How many steps the process had taken before a step."""
        return number + sum(left for at, left in self.once(_left_out) if at <= number)

    def ordinals(self, numbers: Sequence[int]) -> list[int]:
        """How many of some steps, in order, the process had taken before each of them."""
        found, left_out, folds = list[int](), 0, [*reversed(self.once(_folded))]
        for place, number in enumerate(numbers):
            while folds and folds[-1][0] <= number:
                at, fold = folds.pop()
                left_out += fold.call.times * (place - bisect_left(numbers, at - fold.steps))
            found.append(place + left_out)
        return found

    def seconds(self, step: TracedCopy | TracedFill | TracedHint | TracedLaunch) -> float | None:
        """How long a step took on the GPU; None if that is not known."""
        return self.durations.get(step.call.correlation) if step.call.correlation else None


def _folded(run: TracedRun) -> list[tuple[int, FoldedSteps]]:
    return [(number, step) for number, step in enumerate(run.steps) if type(step) is FoldedSteps]


def _times(run: TracedRun) -> dict[int, int]:
    return {n: 1 + fold.call.times for number, fold in run.once(_folded) for n in range(number - fold.steps, number)}


def _left_out(run: TracedRun) -> list[tuple[int, int]]:
    """Where steps are folded, and how many more they are than one."""
    return [(number, fold.steps * fold.call.times - 1) for number, fold in run.once(_folded)]


def _guesses_arguments(run: TracedRun) -> bool:
    return any(step.kernel == _ASSUMED_REGION for step in run.steps if type(step) is TracedLaunch)


def trace(
    calls: TracedCalls,
    call_of: Callable[[CallSite], Hashable] = lambda site: site,
    names: CallerTable = MappingProxyType({}),
) -> TracedRun:
    """What the calls of a process did. call_of: what of a site tells the call apart in which a block is allocated.
    names: of the places of calls.
    """
    calls = msgspec.structs.replace(calls, calls=with_page_locked(calls.calls))
    return _Tracer(calls, call_of, names).run()


def beside_launches(run: TracedRun) -> list[tuple[int, TracedStep]]:
    """The steps that launch no kernel, with their numbers: mostly few. Take them with `run.once`."""
    return [(number, step) for number, step in enumerate(run.steps) if type(step) is not TracedLaunch]


def time_of(step: TracedStep) -> float:
    """When a step's call returned, as a reading of CLOCK_MONOTONIC."""
    return step.t if isinstance(step, WaitCall | QueryCall | HostUse) else step.call.t


def is_wait(step: TracedStep) -> bool:
    """Whether the program waits for the device, as a copy that blocks does too."""
    return type(step) is WaitCall or ((type(step) is TracedCopy or type(step) is TracedFill) and step.call.blocking)


def traced_process(processes: Sequence[TracedCalls], pid: int | None = None) -> TracedCalls | None:
    """The process that a view shows: the one with this number, or the one with the most bytes copied, and then the most
    launches. None if there is none.
    """

    def size(calls: TracedCalls) -> tuple[int, int]:
        copied = launches = 0
        for call, times in calls.counted():
            if type(call) is LaunchCall:
                launches += times
            elif type(call) is MoveCall and call.what == "copy":
                copied += times * call.bytes * call.rows
        return copied, launches

    chosen = [p for p in processes if pid is None or p.pid == pid]
    return max(chosen, key=size, default=None) if len(chosen) > 1 else next(iter(chosen), None)


@lru_cache(maxsize=4096)
def writable_parameters(kernel: str) -> tuple[bool, ...] | None:
    """Which parameters of a kernel are no pointers or references to const; None if its name does not tell."""
    text = _core.demangle(kernel)
    if text == kernel or not text.endswith(")"):
        return None
    depth, parts, end = 0, list[str](), len(text) - 1
    for position in range(len(text) - 1, -1, -1):
        letter = text[position]
        depth += (letter in ")>]}") - (letter in "(<[{")
        if (letter == "," and depth == 1) or not depth:
            parts.append(text[position + 1 : end].strip())
            end = position
        if not depth:
            break
    return tuple(not part.endswith((" const*", " const&", " const* restrict")) for part in reversed(parts))


class _Pointers(msgspec.Struct):
    """Addresses that were copied to a place of a block, by the copy with this correlation."""

    correlation: int
    addresses: tuple[int, ...]


def _ended(call: BlockCall, address: int) -> BlockCall:
    """The end, unseen, of what was at an address before a call."""
    return BlockCall(
        t=call.t, correlation=0, address=address, bytes=0, begins=False, kind=call.kind, device=call.device
    )


class _PointerTable:
    """What is known of the pointers in a block, by offset."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self.at: dict[int, _Pointers] = {}

    def put(self, offset: int, pointers: _Pointers) -> None:
        if offset not in self.at:
            insort(self._offsets, offset)
        self.at[offset] = pointers

    def remove(self, offset: int) -> None:
        del self.at[offset], self._offsets[bisect_left(self._offsets, offset)]

    def within(self, start: int, end: int) -> list[tuple[int, _Pointers]]:
        """Those at offsets from `start` to before `end`, in order."""
        offsets = self._offsets[bisect_left(self._offsets, start) : bisect_left(self._offsets, end)]
        return [(offset, self.at[offset]) for offset in offsets]


class _Tracer:
    """Goes through the calls of a process once."""

    def __init__(self, calls: TracedCalls, call_of: Callable[[CallSite], Hashable], names: CallerTable) -> None:
        self._calls, self._call_of = calls, call_of
        self.traced = TracedRun(
            calls.pid, [], [], calls.durations, incomplete=calls.incomplete, is_partial=calls.is_partial,
            failed=calls.failed, shapes=calls.shapes, runtimes=calls.runtimes,
            differences=calls.differences,
        )  # fmt: skip
        self._temporaries = library_temporaries(calls.calls, names)
        self._extents = extents_of(calls.calls, self._temporaries)
        self._live = Living[TracedBlock]()
        self._statics: dict[int, None] = {}
        """The numbers of the static variables that are alive."""
        self._divided: dict[int, Extent] = {}
        """The living pools that are divided, by address."""
        self._pieces: dict[int, tuple[Extent, int]] = {}
        """The ranges and the bytes of the pieces that are mapped, by address."""
        self._mapped: Counter[int] = Counter()
        """How many pieces of a range are mapped, by the range's identity."""
        self._free: dict[Hashable, list[int]] = defaultdict(list)
        """The numbers of blocks of each kind of allocation that are not alive."""
        self._keys: list[Hashable] = []
        self._pointers: dict[int, _PointerTable] = defaultdict(_PointerTable)
        """By block."""
        self._uses: dict[int, tuple[tuple[TracedUse, ...], int]] = {}
        """What arguments name, by their identity, while neither blocks nor pointers change."""
        self._ranges: dict[tuple[int, int, int, int], TracedRange] = {}
        """The sides of copies by address, bytes, rows and pitch, while no block begins or ends."""
        self._equal_uses: dict[tuple[TracedUse, ...], tuple[TracedUse, ...]] = {}
        self._before_iteration = 0, 0, 0
        """How many steps, launches, and copies without a block there were before an iteration that is folded."""

    def run(self) -> TracedRun:
        run = self.traced
        append = run.steps.append
        calls = self._calls.calls
        iterations = {n - call.calls for n, call in enumerate(calls) if type(call) is FoldedCalls}
        for place, call in enumerate(calls):
            if place in iterations:
                self._before_iteration = len(run.steps), run.launches, run.outside
            if type(call) is LaunchCall:
                append(self._launch(call))
                continue
            for step in self._steps(place, call):
                append(step)
        for block in run.blocks:
            for life in block.lives:
                if life.end is None:
                    life.last = len(run.steps)
        return run

    def _steps(self, place: int, call: AnyCall) -> Iterator[TracedStep]:
        assert not isinstance(call, LaunchCall)
        if isinstance(call, MoveCall):
            if step := self._move(call):
                yield step
        elif isinstance(call, BlockCall):
            yield from self._begin(place, call) if call.begins else self._end(call)
        elif isinstance(call, PointersCall):
            self._hold(call)
        elif isinstance(call, FoldedCalls):
            yield from self._fold(call)
        elif isinstance(call, MappedView):
            if found := self._live.find(call.address):
                yield TracedView(call, TracedRange(found[0].number, found[1], call.bytes))
        else:
            yield call

    def _fold(self, folded: FoldedCalls) -> Iterator[TracedStep]:
        run, (steps, launches, outside) = self.traced, self._before_iteration
        run.launches += (run.launches - launches) * folded.times
        run.outside += (run.outside - outside) * folded.times
        if len(run.steps) > steps:
            yield FoldedSteps(folded, len(run.steps) - steps)

    # ------------------------------------------------------------------------------------------------ blocks

    def _begin(self, place: int, call: BlockCall) -> Iterator[TracedStep]:
        """An allocation begins, or a piece of one. What has any of its bytes has ended, unseen."""
        extent = self._extents.get(place)
        if not call.bytes:
            return
        if extent is not None and extent.pieces:
            yield from self._map(call, extent)
            return
        yield from self._end_unseen(call, call.address, call.bytes)
        if extent is None:
            yield self._begin_block(call, call.address, call.bytes, call.bytes, is_temporary=place in self._temporaries)
            return
        if extent.parts:
            self._divided[call.address] = extent
        for address, nbytes in extent.units():
            yield self._begin_block(call, address, nbytes, nbytes, extent)

    def _begin_block(
        self,
        call: BlockCall,
        address: int,
        nbytes: int,
        change: int,
        extent: Extent | None = None,
        *,
        is_temporary: bool = False,
    ) -> TracedAllocation:
        self._uses.clear()
        self._ranges.clear()
        offset = address - extent.address if extent is not None else 0
        key = (
            *(self._call_of(call.site), nbytes, call.kind, call.device, call.name, offset),
            *(is_temporary, call.sharing, call.access),
        )
        if self._free[key]:
            block = self.traced.blocks[heapq.heappop(self._free[key])]
        else:
            block = TracedBlock(
                len(self.traced.blocks), nbytes, call.kind, call.device, call.site, call.name,
                is_of_vendor=is_temporary or is_of_vendor(call.site), is_mapped=bool(call.reserved),
                sharing=call.sharing, access=call.access, host=call.host,
            )  # fmt: skip
            if extent is not None and extent.is_pool:
                block.in_pool = "part" if extent.parts else "whole"
            self.traced.blocks.append(block)
            self._keys.append(key)
        if block.kind in STATIC_KINDS:
            self._statics[block.number] = None
        block.lives.append(Life(address, call.t, len(self.traced.steps)))
        self._live.add(address, block)
        return TracedAllocation(call, block.number, change, offset)

    def _map(self, call: BlockCall, extent: Extent) -> Iterator[TracedStep]:
        """A piece of a range is mapped. The first one begins its blocks."""
        if call.address in self._pieces:
            yield from self._unmap(call)
        if not self._mapped[id(extent)]:
            yield from self._end_unseen(call, extent.address, extent.nbytes)
            for address, nbytes in extent.units():
                yield self._begin_block(call, address, nbytes, 0, extent)
        self._mapped[id(extent)] += 1
        self._pieces[call.address] = extent, call.bytes
        yield from self._mappings(call, extent, call.bytes)

    def _unmap(self, call: BlockCall) -> Iterator[TracedStep]:
        extent, nbytes = self._pieces.pop(call.address)
        ended = call if not call.begins else _ended(call, call.address)
        yield from self._mappings(ended, extent, nbytes)
        self._mapped[id(extent)] -= 1
        if not self._mapped[id(extent)]:
            for address, _ in extent.units():
                yield from self._end_block(ended, address, 0)

    def _mappings(self, call: BlockCall, extent: Extent, nbytes: int) -> Iterator[TracedStep]:
        """The bytes of a piece in each block of its range."""
        for address, unit in extent.units():
            start, end = max(address, call.address), min(address + unit, call.address + nbytes)
            if start < end and (block := self._live.at.get(address)) is not None:
                yield TracedMapping(call, block.number, start - address, end - address, start - call.address)

    def _end_unseen(self, call: BlockCall, address: int, nbytes: int) -> Iterator[TracedStep]:
        for begin in self._live.within(address, nbytes):
            yield from self._end_block(_ended(call, begin), begin)

    def _end(self, call: BlockCall) -> Iterator[TracedStep]:
        if call.address in self._pieces:
            yield from self._unmap(call)
            return
        divided = self._divided.pop(call.address, None)
        for address in divided.parts if divided is not None else [call.address]:
            yield from self._end_block(call, address)

    def _end_block(self, call: BlockCall, address: int, change: int | None = None) -> Iterator[TracedStep]:
        """change: 0 of what is mapped in pieces; None: the block's bytes."""
        block = self._live.remove(address)
        if block is None:
            return
        self._uses.clear()
        self._ranges.clear()
        self._statics.pop(block.number, None)
        self._pointers.pop(block.number, None)
        life = block.lives[-1]
        life.end, life.last = call.t, len(self.traced.steps)
        heapq.heappush(self._free[self._keys[block.number]], block.number)
        yield TracedAllocation(call, block.number, -block.nbytes if change is None else change)

    # ------------------------------------------------------------------------------------------------ copies

    def _rows(self, call: MoveCall) -> int:
        """The rows of a call, no more than the blocks of both sides have."""
        rows = max(1, call.rows)
        for address, pitch in ((call.target, call.target_pitch), (call.source, call.source_pitch)):
            if rows > 1 and pitch and (found := self._live.find(address)):
                rows = min(rows, 1 + max(0, found[0].nbytes - found[1] - call.bytes) // pitch)
        return rows

    def _range(self, call: MoveCall, address: int, pitch: int) -> TracedRange:
        """The bytes of one side of a call, at most those that the block at their address has."""
        key = address, call.bytes, self._rows(call) if call.rows > 1 else 1, pitch
        known = self._ranges.get(key)
        if known is None:
            if len(self._ranges) >= _MOST_RANGES:
                self._ranges.clear()
            known = self._ranges[key] = self._new_range(*key)
        return known

    def _new_range(self, address: int, nbytes: int, rows: int, pitch: int) -> TracedRange:
        if rows > 1 and (pitch in (0, nbytes) or rows > _MOST_ROWS):
            nbytes, rows = nbytes * rows, 1
        found = self._live.find(address)
        block, start = (found[0].number, found[1]) if found else (NO_BLOCK, address)
        if found:
            left = found[0].nbytes - start
            nbytes = min(nbytes, left)
            rows = min(rows, 1 + (left - nbytes) // pitch) if pitch else rows
        return TracedRange(block, start, nbytes, rows, pitch if rows > 1 else 0)

    def _on_host(self, side: TracedRange) -> bool:
        return side.block == NO_BLOCK or self.traced.blocks[side.block].on_host

    def _move(self, call: MoveCall) -> TracedStep | None:
        if not call.bytes or call.captured:  # which a graph does, when it is launched
            return None
        target = self._range(call, call.target, call.target_pitch)
        if call.what in ("prefetch", "advice"):
            return TracedHint(call, target) if target.block != NO_BLOCK else None
        if call.what == "fill":
            self._forget_pointers(call, target)
            if target.block == NO_BLOCK:
                self.traced.outside += 1
                return None
            return TracedFill(call, target)
        source = self._range(call, call.source, call.source_pitch)
        if source.block == NO_BLOCK and target.block == NO_BLOCK:
            self.traced.outside += 1
            return None
        way = _WAYS[self._on_host(source), self._on_host(target)]
        self._forget_pointers(call, target, searched=way == "h2d" and target.total <= _MOST_SEARCHED)
        if way == "d2d":
            self._copy_pointers(call, source, target)
        return TracedCopy(call, way, source, target)

    # ------------------------------------------------------------------------------------------------ pointers

    def _hold(self, call: PointersCall) -> None:
        if found := self._live.find(call.target):
            block, offset = found
            self._pointers[block.number].put(offset, _Pointers(call.correlation, call.addresses))
            self._uses.clear()

    def _forget_pointers(self, call: MoveCall, target: TracedRange, *, searched: bool = False) -> None:
        """Forgets the pointers that a copy or a fill overwrites, except those of this copy.

        searched: for pointers, which were recorded only if they are others than those of the last copy to this place.
        """
        pointers = self._pointers.get(target.block)
        if pointers is None:
            return
        if overwritten := [
            offset
            for offset, p in pointers.within(target.start, target.end)
            if p.correlation != call.of_call and not (searched and offset == target.start)
        ]:
            for offset in overwritten:
                pointers.remove(offset)
            self._uses.clear()

    def _copy_pointers(self, call: MoveCall, source: TracedRange, target: TracedRange) -> None:
        if source.block not in self._pointers:
            return
        for offset, pointers in self._pointers[source.block].within(source.start, source.end):
            moved = _Pointers(call.of_call, pointers.addresses)
            self._pointers[target.block].put(offset - source.start + target.start, moved)
            self._uses.clear()

    # ------------------------------------------------------------------------------------------------ launches

    def _launch(self, call: LaunchCall) -> TracedLaunch:
        if not call.captured:
            self.traced.launches += 1
            self.traced.unknown += call.arguments is None
        named = self._uses.get(id(call.arguments))
        if named is None:
            uses, strangers = self._named_blocks(call.arguments)
            named = self._equal_uses.setdefault(uses, uses), strangers
            self._uses[id(call.arguments)] = named
        return TracedLaunch(call, *named)

    def _named_blocks(self, arguments: Arguments | None) -> tuple[tuple[TracedUse, ...], int]:
        """What arguments name, by number of the block, and how many of their words are in no block."""
        uses, strangers = dict[int, TracedUse](), 0
        for word in arguments.words if arguments else ():
            if (found := self._live.find(word.address)) is None:
                strangers += 1
                continue
            assert arguments is not None
            block, offset = found
            writes = self._may_write(arguments.kernel, word, block.access)
            if (had := uses.get(block.number)) is not None:
                offset, writes = min(offset, had.start), writes or had.may_write
            place = (had.parameter, had.word) if had else (word.parameter, word.offset)
            uses[block.number] = TracedUse(block.number, offset, "argument", writes, *place)
        self._follow_pointers(uses, [*uses], "pointer")
        symbols = [*self._statics]
        uses |= {number: TracedUse(number, 0, "symbol") for number in symbols if number not in uses}
        self._follow_pointers(uses, symbols, "symbol")
        return tuple(uses[number] for number in sorted(uses)), strangers

    def _follow_pointers(self, uses: dict[int, TracedUse], blocks: Sequence[int], by: NamedBy) -> None:
        """Adds the blocks that pointers in blocks lead to, and so on from these."""
        waiting = [*blocks]
        while waiting:
            table = self._pointers.get(waiting.pop())
            for pointers in table.at.values() if table else ():
                for address in pointers.addresses:
                    if (found := self._live.find(address)) and found[0].number not in uses:
                        number = found[0].number
                        uses[number] = TracedUse(number, 0, by)
                        waiting.append(number)

    def _may_write(self, kernel: str, word: ArgumentWord, of_block: KernelAccess) -> bool:
        """of_block: what the program says that kernels do with the block."""
        if access := word.access or of_block:
            return access != "reads"
        writable = None if word.offset else writable_parameters(kernel)
        return writable is None or word.parameter >= len(writable) or writable[word.parameter]
