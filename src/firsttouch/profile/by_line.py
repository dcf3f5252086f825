"""What a traced program costs, by line of the user's files: bytes over the link, waits, round trips, the same bytes
copied again, and what libraries did on their own account.

All is computed from the calls of a process (calls.py) and from the records of its GPUs (cuda.py). Samples are hashes of
some bytes of a copy: two copies with equal ones are possibly of the same bytes, and surely where all were hashed.
Times are seconds, sizes bytes.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from firsttouch.profile.calls import (
    OF_CALL,
    PAGE_LOCKED,
    BlockCall,
    LaunchCall,
    MoveCall,
    QueryCall,
    TracedCalls,
    WaitCall,
)
from firsttouch.profile.copied_for import launches_of_copies
from firsttouch.profile.gpu_work import GpuWork
from firsttouch.profile.link import LinkSpeed, LinkWay, ReachedSpeed, TimedCopy
from firsttouch.profile.living import Living
from firsttouch.profile.recorded import ProcessJournal, RecordedCopy
from firsttouch.profile.traced import CallerTable, CallLocation
from firsttouch.profile.user_lines import UserPlace, UserPlaces

CostKind: TypeAlias = Literal["copies", "waits", "round trips", "copied again", "allocations", "queries"]
HostMemory: TypeAlias = Literal["", "pageable", "page-locked", "managed"]
RowCertainty: TypeAlias = Literal["exact", "seen", "possible", "at most"]
M = TypeVar("M")
LEAST_COMPARED = 1 << 10
"""Bytes of the smallest copies whose samples are compared: fewer bytes, such as a zero, are often equal by chance."""
STAGED = 64 << 10
"""The driver takes a copy to the device of so many bytes of pageable memory at once, without waiting."""
PREALLOCATED = 1 << 30
"""Bytes that a library obtains at once and that are told, also if a line of the user led to it: a pool of its own."""
LOCKED: Literal["page-locked"] = "page-locked"
MOST_ROWS = 200
_LAUNCHING = LaunchCall, MoveCall


class LineRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one line did, or one library without a line of the user.

    kind: copies: over the link, one way, of one kind of memory. waits: calls that waited for work of the GPU. round
    trips: bytes that went from `since` to the other side and came back at `place` unchanged; first_way: how they went
    first. copied again: bytes that the same line had copied before, with a kernel in between. allocations: of the
    device, by libraries alone, or of PREALLOCATED bytes and more, which are half of the memory that the program
    obtained; queries: of free memory, by libraries alone.

    library: the one that made the call, if no line of the user is known to lead to it; is_its_own: none leads to it;
    kernels: of its own copies, the user's line that launched the kernels which were given what came to the device, or
    had been given what went to the host. calls: round trips are counted once. h2d, d2h: bytes over the link. memory: of
    the host's side of the copies; memory_of: the library that obtained it, if it is page-locked and a library did,
    maybe to take on the way what the program has elsewhere. rounds: how many times the line did it, where calls without
    a kernel between them are one time. seconds: on the link, None if no record tells; best: what page-locked memory
    would take for the same copies, None if unknown. saves: what page-locking would save on the link, at most; None if
    nothing, if it is unknown, or if the line copies once only, since locking memory takes about as long as copying it.
    waited: how long the program waited, at most; idle: for how long GPUs stood idle because of it, at most. held: bytes
    of the device that were allocated; of what is copied again, those of the different contents, which would have to
    stay on the other side. compared: of how many bytes samples are, of `h2d` and `d2h` together. certainty: exact:
    recorded; seen: all bytes were compared; possible: some were; at most: a bound.
    """

    place: CallLocation
    kind: CostKind
    since: CallLocation | None = None
    first_way: Literal["", "h2d", "d2h"] = ""
    library: str = ""
    is_its_own: bool = False
    kernels: CallLocation | None = None
    calls: int = 0
    rounds: int = 0
    h2d: int = 0
    d2h: int = 0
    memory: HostMemory = ""
    memory_of: str = ""
    seconds: float | None = None
    best: float | None = None
    saves: float | None = None
    waited: float | None = None
    idle: float | None = None
    held: int = 0
    compared: int = 0
    certainty: RowCertainty = "exact"

    @property
    def cost(self) -> float:
        """The time that it costs at most, as far as it need not be."""
        if self.kind == "waits":
            return self.idle or 0.0
        return (self.saves if self.kind == "copies" else self.seconds) or 0.0


class ByLine(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of a program by what they cost, the costliest first. seconds: from the first to the last work of its
    GPUs, of all processes together. best_from: where `best` of the rows is from: the directory of a run, or '' for the
    page-locked copies of the same trace. not_compared: copies to the device of what had been copied back, of which
    no sample was taken. library_ranges: NVTX ranges that libraries made, by their domain, which are no phases.
    """

    seconds: float
    rows: list[LineRow]
    rows_left_out: int = 0
    best_from: str = ""
    not_compared: int = 0
    library_ranges: dict[str, int] = {}


class TracedProcess(NamedTuple):
    calls: TracedCalls
    journal: ProcessJournal


def by_line(processes: Iterable[TracedProcess], names: CallerTable, link: LinkSpeed | None = None) -> ByLine | None:
    """What the lines of all processes cost; None if none of them used a GPU. link: what the machine can do, if it was
    measured; else what the page-locked copies of the trace reached counts.
    """
    places, readers = UserPlaces(names), list[_ProcessReader]()
    for process in processes:
        reader = _ProcessReader(process, places)
        reader.read()
        readers.append(reader)
    copies = [copy for reader in readers for copy in reader.copies]
    sums = _joined(readers)
    if not copies and not sums and not any(reader.work.last for reader in readers):
        return None
    locked = (copy for copy in copies if copy.memory == LOCKED)
    speed = link or ReachedSpeed(TimedCopy(copy.way, copy.nbytes, copy.seconds) for copy in locked)
    rows = [*_copy_rows(copies, speed), *_trip_rows(copies), *_again_rows(copies), *sums]
    rows.sort(key=lambda row: (row.cost, row.h2d + row.d2h, row.calls), reverse=True)
    return ByLine(
        seconds=sum(reader.work.last - reader.work.first for reader in readers),
        rows=rows[:MOST_ROWS],
        rows_left_out=max(0, len(rows) - MOST_ROWS),
        best_from=speed.source,
        not_compared=sum(reader.not_compared for reader in readers),
    )


class _Copy(msgspec.Struct, eq=False, gc=False):
    """A copy over the link. round: how many launches were before it, of its process. sample: of `compared` bytes."""

    process: int
    place: UserPlace
    way: LinkWay
    memory: HostMemory
    memory_of: str
    nbytes: int
    round: int
    seconds: float
    sample: int | None
    compared: int
    came_from: _Copy | None = None
    """The copy that brought the same bytes to where this one took them from."""
    is_same_place: bool = False
    """Whether it took them from where that copy brought them, not only equal bytes from elsewhere."""
    is_of_a_trip: bool = False
    """Whether its bytes came back, or are those that did."""

    @property
    def is_whole(self) -> bool:
        return self.compared >= self.nbytes


class _LockedBlock(NamedTuple):
    """Page-locked memory. owner: the library that obtained it; '' if the program did."""

    nbytes: int
    owner: str


@dataclass
class _Sum:
    """What waits, allocations or queries of one place add up to."""

    place: UserPlace = field(default_factory=lambda: UserPlace(CallLocation()))
    calls: int = 0
    rounds: int = 0
    round: int = -1
    """Of the last call."""
    waited: float = 0.0
    idle: float = 0.0
    held: int = 0


class _ProcessReader:
    """Goes through the calls of one process once."""

    def __init__(self, process: TracedProcess, places: UserPlaces) -> None:
        self._calls, journal = process.calls.calls, process.journal
        self._pid, self._places = process.calls.pid, places
        moves = [call for call in self._calls if isinstance(call, MoveCall) and call.what == "copy"]
        self._launches = launches_of_copies(self._calls, [move for move in moves if places.of(move.site).is_its_own])
        launched = {call.correlation & OF_CALL: call.t for call in self._calls if isinstance(call, _LAUNCHING)}
        self.work = GpuWork(journal, launched)
        self._records: dict[tuple[int, int], RecordedCopy | deque[RecordedCopy]] = {}
        """By correlation and bytes: copies of a batch or of a graph have the same correlation."""
        for record in sorted(journal.copies, key=attrgetter("start")):
            if record.direction != "set":  # which is no copy
                known = self._records.setdefault((record.correlation, record.bytes), record)
                if isinstance(known, deque):
                    known.append(record)
                elif known is not record:
                    self._records[record.correlation, record.bytes] = deque((known, record))
        self.copies: list[_Copy] = []
        self.sums: defaultdict[tuple[int, CostKind], _Sum] = defaultdict(_Sum)
        """By the identity of the place."""
        self.not_compared = 0
        self._round = self._obtained = 0
        self._called: dict[int, float] = {}
        """When the last call of each thread returned; of thread 0 those whose thread is not recorded."""
        self._locked = Living[_LockedBlock]()
        self._brought: dict[tuple[LinkWay, int, int], _Copy] = {}
        """The last copy to each address, by its way and size."""
        self._of_bytes: dict[tuple[LinkWay, int, int], _Copy] = {}
        """The last copy of each content, by its way, size and sample."""

    def read(self) -> None:
        for call in self._calls:
            if type(call) is LaunchCall:
                self._round += not call.captured
                self._called[0] = call.t
            elif type(call) is MoveCall:
                self._move(call)
                self._called[call.thread] = call.t
            elif type(call) is WaitCall:
                if call.what != "copy":  # that of a copy is told with it
                    self._wait(self._places.of(call.site), call)
                self._called[call.thread] = call.t
            elif isinstance(call, BlockCall | QueryCall):
                if type(call) is BlockCall and call.kind == "pinned":
                    self._note_locked(call)
                self._library_call(call)
                self._called[0] = call.t

    def _note_locked(self, call: BlockCall) -> None:
        if call.begins:
            self._locked.add(call.address, _LockedBlock(call.bytes, self._places.made_by(call.site)))
        else:
            self._locked.remove(call.address)

    def _owner(self, address: int) -> str:
        """The library that obtained page-locked memory; '' if the program did, or if it is not known."""
        found = self._locked.find(address)
        return found[0].owner if found is not None else ""

    def told_sums(self) -> Iterator[tuple[tuple[int, CostKind], _Sum]]:
        """All but the pools of libraries that a line of the user led to, and that are less than half of the memory."""
        for (place, kind), row in self.sums.items():
            if kind != "allocations" or row.place.is_its_own or 2 * row.held >= self._obtained:
                yield (place, kind), row

    def _began(self, call: MoveCall | WaitCall) -> float:
        """When a call began, at the earliest if that is not recorded."""
        if call.began is not None:
            return call.began
        called = self._called
        last = max(called.get(0, -1.0), called.get(call.thread, -1.0))
        return last if last >= 0 else call.t

    def _add(self, place: UserPlace, kind: CostKind) -> _Sum:
        row = self.sums[id(place), kind]
        row.place = place
        row.calls += 1
        row.rounds += row.round != self._round
        row.round = self._round
        return row

    def _wait(self, place: UserPlace, call: MoveCall | WaitCall, own: RecordedCopy | None = None) -> None:
        if cost := self.work.charge(self._began(call), call.t, own, is_bound=call.began is None):
            row = self._add(place, "waits")
            row.waited += cost.seconds
            row.idle += cost.idle

    def _library_call(self, call: BlockCall | QueryCall) -> None:
        place = self._places.of(call.site)
        if isinstance(call, QueryCall):
            if place.is_its_own:
                self._add(place, "queries")
        elif call.begins and call.kind in ("device", "managed"):
            is_large = call.bytes >= PREALLOCATED and (library := self._places.made_by(call.site))
            if is_large and not place.library:
                place = msgspec.structs.replace(place, library=library)
            self._obtained += call.bytes
            if place.is_its_own or is_large:
                self._add(place, "allocations").held += call.bytes

    def _move(self, call: MoveCall) -> None:
        if call.what != "copy" or call.captured:
            return
        nbytes = call.bytes * call.rows
        record = self._record(call, nbytes)
        way = record.direction if record else call.direction
        if way not in ("h2d", "d2h"):
            return
        place, memory = self._places.of(call.site), _memory_of(call, record, way)
        if launch := self._launches.get(id(call)):
            place = self._places.with_kernels(place, launch)
        copy = _Copy(
            process=self._pid,
            place=place,
            way=way,
            memory=memory,
            memory_of=self._owner(call.source if way == "h2d" else call.target) if memory == LOCKED else "",
            nbytes=nbytes,
            round=self._round,
            seconds=record.end - record.start if record else 0.0,
            sample=call.sample,
            compared=min(call.sampled_bytes, nbytes),
        )
        self.copies.append(copy)
        self._find_origin(copy, call)
        if call.blocking or self._was_held_back(call, copy, record):
            self._wait(place, call, record)

    def _record(self, call: MoveCall, nbytes: int) -> RecordedCopy | None:
        """The first record of a copy that is of no other: if it can be, one of its direction."""
        key = call.of_call, nbytes
        records = self._records.get(key) if call.correlation else None
        if isinstance(records, RecordedCopy):
            del self._records[key]
            return records
        if not records:
            return None
        record = next((record for record in records if record.direction == call.direction), records[0])
        records.remove(record)
        return record

    def _was_held_back(self, call: MoveCall, copy: _Copy, record: RecordedCopy | None) -> bool:
        """Whether a copy to the device from pageable memory returned only after earlier work had ended, for the driver
        had to take the bytes piece by piece.
        """
        return (
            record is not None
            and copy.memory == "pageable"
            and copy.way == "h2d"
            and copy.nbytes > STAGED
            and record.start < call.t
            and self.work.was_busy(self._began(call), record.device)
        )

    def _find_origin(self, copy: _Copy, call: MoveCall) -> None:
        """Finds the copy that brought the bytes to where this one takes them from: by their address and a sample, or by
        a sample alone where they were moved on in between, as by an allocator with memory of its own.
        """
        if copy.nbytes < LEAST_COMPARED:
            return
        back: LinkWay = "d2h" if copy.way == "h2d" else "h2d"
        at = back, call.source, copy.nbytes
        origin = self._brought.get(at)
        if origin is not None and None in (origin.sample, copy.sample):
            self.not_compared += 1
            del self._brought[at]
        elif origin is not None and origin.sample == copy.sample:
            copy.came_from, copy.is_same_place = origin, True
            del self._brought[at]
        if copy.sample is not None:
            of_content = self._of_bytes.pop((back, copy.nbytes, copy.sample), None)
            copy.came_from = copy.came_from or of_content
            self._of_bytes[copy.way, copy.nbytes, copy.sample] = copy
        self._brought[copy.way, call.target, copy.nbytes] = copy


def _memory_of(call: MoveCall, record: RecordedCopy | None, way: LinkWay) -> HostMemory:
    """The host's memory of a copy, as the driver states it, or else as the recorder found it."""
    stated = (record.source if way == "h2d" else record.target) if record else "unknown"
    if stated in ("pageable", "pinned"):
        return "pageable" if stated == "pageable" else LOCKED
    if call.host == "managed":
        return "managed"
    return LOCKED if call.host in PAGE_LOCKED else "pageable"


def _joined(readers: Sequence[_ProcessReader]) -> list[LineRow]:
    """The rows of waits, allocations and queries of all processes."""
    sums: defaultdict[tuple[int, CostKind], list[_Sum]] = defaultdict(list)
    for reader in readers:
        for key, of_process in reader.told_sums():
            sums[key].append(of_process)
    return [
        LineRow(
            **_where(parts[0].place),
            kind=kind,
            calls=sum(s.calls for s in parts),
            rounds=sum(s.rounds for s in parts),
            waited=sum(s.waited for s in parts) if kind == "waits" else None,
            idle=sum(s.idle for s in parts) if kind == "waits" else None,
            held=sum(s.held for s in parts),
            certainty="at most" if kind == "waits" else "exact",
        )
        for (_, kind), parts in sums.items()
    ]


def _where(place: UserPlace) -> dict[str, Any]:
    return {f: getattr(place, f) for f in place.__struct_fields__}


def _rounds(copies: Sequence[_Copy]) -> int:
    return len({(copy.process, copy.round) for copy in copies})


def _bytes_by_way(copies: Sequence[_Copy]) -> dict[str, Any]:
    ways = {way: sum(copy.nbytes for copy in copies if copy.way == way) for way in ("h2d", "d2h")}
    return {**ways, "calls": len(copies), "seconds": sum(copy.seconds for copy in copies) or None}


def _copy_rows(copies: Sequence[_Copy], speed: LinkSpeed) -> Iterator[LineRow]:
    for alike in _grouped(copies, lambda copy: (id(copy.place), copy.way, copy.memory, copy.memory_of)):
        first, rounds = alike[0], _rounds(alike)
        timed = [copy for copy in alike if copy.seconds]
        times = [speed.seconds(copy.way, copy.nbytes) for copy in timed]
        best = sum(time for time in times if time is not None) if times and None not in times else None
        saved = sum(copy.seconds for copy in timed) - best if best is not None else 0.0
        is_slower = first.memory == "pageable" and rounds > 1 and saved > 0
        yield LineRow(
            **_where(first.place),
            **_bytes_by_way(alike),
            kind="copies",
            rounds=rounds,
            memory=first.memory,
            memory_of=first.memory_of,
            best=best,
            saves=saved if is_slower else None,
        )


def _trip_rows(copies: Sequence[_Copy]) -> Iterator[LineRow]:
    """Round trips by both lines. Where the bytes were moved on in between, equal samples show a round trip only if the
    bytes are others each time: what never changes may be equal by chance.
    """
    returns = [(copy.came_from, copy) for copy in copies if copy.came_from is not None]
    for trips in _grouped(returns, lambda trip: (id(trip[0].place), id(trip[1].place), trip[1].way)):
        first, back = trips[0]
        if not any(copy.is_same_place for _, copy in trips) and len({copy.sample for _, copy in trips}) < 2:
            continue
        both = list(chain.from_iterable(trips))
        for copy in both:
            copy.is_of_a_trip = True
        yield LineRow(
            **_where(back.place), **{**_bytes_by_way(both), "calls": len(trips)}, kind="round trips",
            since=first.place.place, first_way=first.way, rounds=_rounds([copy for _, copy in trips]),
            **_compared(both),
        )  # fmt: skip


def _again_rows(copies: Sequence[_Copy]) -> Iterator[LineRow]:
    """Copies of bytes that their line has copied before, with a kernel in between, but for round trips."""
    for alike in _grouped(copies, lambda copy: (id(copy.place), copy.way)):
        last: dict[tuple[int, int, int], int] = {}
        again, contents = list[_Copy](), dict[tuple[int, int, int], int]()
        for copy in alike:
            if copy.sample is None or copy.nbytes < LEAST_COMPARED or copy.is_of_a_trip:
                continue
            key = copy.process, copy.nbytes, copy.sample
            if last.setdefault(key, copy.round) != copy.round:
                again.append(copy)
                contents[key] = copy.nbytes
            last[key] = copy.round
        if again:
            yield LineRow(
                **_where(again[0].place), **_bytes_by_way(again), kind="copied again", rounds=_rounds(again),
                held=sum(contents.values()), **_compared(again),
            )  # fmt: skip


def _compared(copies: Sequence[_Copy]) -> dict[str, Any]:
    is_whole = all(copy.is_whole for copy in copies)
    return {"compared": sum(copy.compared for copy in copies), "certainty": "seen" if is_whole else "possible"}


def _grouped(members: Iterable[M], key: Callable[[M], Hashable]) -> Iterable[list[M]]:
    groups: defaultdict[Hashable, list[M]] = defaultdict(list)
    for member in members:
        groups[key(member)].append(member)
    return groups.values()
