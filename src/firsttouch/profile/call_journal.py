"""Reads the calls of traced programs from journals of version 2 and later, in program order.

What a launch or a copy took on the GPU is recorded later than its call, and belongs to it by its correlation. What a
graph runs, and the copies of a batch, have the correlation of one call; each gets a number of its own here.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from firsttouch.base.errors import UsageError
from firsttouch.profile.calls import (
    AnyCall,
    Arguments,
    ArgumentWord,
    BlockCall,
    CopyCause,
    DifferenceKind,
    FoldedCalls,
    HostDifference,
    HostPlace,
    HostUse,
    KernelAccess,
    LaunchCall,
    LaunchShape,
    MappedView,
    MoveCall,
    MoveKind,
    PointersCall,
    QueryCall,
    Sharing,
    TracedCalls,
    WaitCall,
    WaitKind,
)
from firsttouch.profile.content import Profile
from firsttouch.profile.journal import (
    DIRECTIONS,
    JournalFile,
    JournalReader,
    PlaceColumn,
    Rows,
    journal_files,
    layout_of,
    memory_kind,
    notice,
)
from firsttouch.profile.loops import MiddleIterations, middle_iterations, mixed
from firsttouch.profile.recorded import CallSite, CopyDirection
from firsttouch.profile.trace import caller
from firsttouch.profile.traced import CallerTable

_MOVES: tuple[MoveKind, ...] = get_args(MoveKind)
_PLACES: tuple[HostPlace, ...] = get_args(HostPlace)
_DIRECTIONS: tuple[CopyDirection, ...] = ("unknown", "h2d", "d2h", "d2d", "h2h")
_WAITS: tuple[WaitKind, ...] = get_args(WaitKind)
_CAUSES: tuple[CopyCause, ...] = get_args(CopyCause)
_ACCESS: tuple[KernelAccess, ...] = get_args(KernelAccess)
_SHARING = [
    frozenset(word for bit, word in enumerate(get_args(Sharing)) if flags >> bit & 1)
    for flags in range(1 << len(get_args(Sharing)))
]
"""How a block is shared, by the bits of its record."""
_CAPTURED, _WHILE_CAPTURED, _COOPERATIVE, _BY_GRAPH = 1, 2, 4, 8
"""Flags of a launch."""
_BLOCKING, _SAMPLE, _BEFORE, _MOVED_BY_GRAPH, _SAMPLED_WHOLE = 4, 8, 16, 32, 64
"""Flags of a move, besides the first two."""
_DIFFERENCES: tuple[DifferenceKind, ...] = get_args(DifferenceKind)
_SOME, _NOT_ALL, _GIVEN_BACK, _IN_HEAP = 1, 2, 4, 8
"""Flags of a difference."""
_PIECE, _NOT_KNOWN = 4096, 2**64 - 1
"""The unit of what the CPU wrote, and what stands for a number of bytes that is not known."""
_GOES_ON, _WAS_GONE, _LATE = 1, 2, 4
"""Flags of what the CPU did with a range."""
_STATIC = 6, 7
_Kernel: TypeAlias = tuple[int, str, float, int]
"""A kernel that ran: start, name, seconds, and the number of its shape."""
_OfKinds: TypeAlias = Mapping[str, tuple[PlaceColumn, Rows]]
"""The calls of each kind: their places, and their records."""
_Copied: TypeAlias = tuple[int, CopyDirection, int, float]
"""A copy or a fill that ran: start, way, bytes and seconds."""
VENDOR = re.compile(
    r"(?:^|/)lib(?:cublas|cublasLt|cudnn\w*|cufft\w*|cusparse\w*|cusolver\w*|curand|cutensor\w*|nvrtc|nccl|nvshmem\w*"
    r"|npp\w*|cufile\w*|nvjpeg\w*|nvJitLink|cudart)\.so"
)


@cache
def is_of_vendor(site: CallSite) -> bool:
    """Whether a library of the vendor made a call, which the program cannot change."""
    return bool(site) and VENDOR.search(site[0].file) is not None


def read_calls(directory: Path, names: CallerTable | None = None, *, folds_loops: bool = False) -> list[TracedCalls]:
    """The calls of each process that was traced, of a profile's directory.

    names: the functions of places, by which frames of a CUDA runtime that was linked statically are told from those of
    the program, whose stack pointer a wait has. folds_loops: of long loops, `FoldedCalls` stand for most iterations.

    Raises:
        UsageError: A journal is broken, or of version 1, which does not tell what launches and copies name.
    """
    read = (_CallReader(path, names or {}, folds_loops=folds_loops).read_calls() for path in journal_files(directory))
    return [calls for calls in read if calls is not None]


def calls_of(profile: Profile) -> list[TracedCalls]:
    """The calls of each process of a profile that was traced. They are read once. Raises as `read_calls`."""
    if profile.calls is None:
        profile.calls = read_calls(profile.directory, profile.callers, folds_loops=profile.folds_loops)
    return profile.calls


def unfolded(calls: TracedCalls, names: CallerTable) -> TracedCalls:
    """The same calls with each iteration of loops, read again from their journal."""
    assert calls.journal is not None
    return _CallReader(calls.journal, names).read_calls() or calls


def frames(directory: Path) -> list[tuple[str, int]]:
    """The places of all calls in the journals of a profile: files, and offsets in them. Frames of Python have their
    lines already.

    Raises:
        UsageError: A journal is broken.
    """
    found: dict[tuple[str, int], None] = {}
    for path in journal_files(directory):
        for site in _CallReader(path, {}).read_sites():
            found |= {(frame.file, frame.offset): None for frame in site if not frame.function}
    return list(found)


def _joined(parts: Sequence[tuple[PlaceColumn, Rows]]) -> tuple[PlaceColumn, Rows]:
    import numpy as np

    return np.concatenate([places for places, _ in parts]), np.concatenate([rows for _, rows in parts])


def _columns(rows: Rows, *fields: str) -> Iterator[list[Any]]:
    """The values of these fields; 0 of one that the version of the journal does not have."""
    known = rows.dtype.names or ()
    return (rows[field].tolist() if field in known else [0] * len(rows) for field in fields)


def _times(rows: Rows) -> list[float]:
    return (rows["time"] * 1e-9).tolist()  # type: ignore[no-any-return]


def _seconds(rows: Rows) -> PlaceColumn:
    import numpy as np

    start, end = rows["start_stamp"], rows["end_stamp"]
    return np.where(end > start, end - start, 0) * 1e-9


_MANY = ("memory", "copy", "kernel", "call", "launch", "move", "block", "wait")
"""The kinds of records of which there may be millions."""
_ALIKE_MOVE_FIELDS = (
    *("source", "target", "bytes", "rows", "source_pitch", "target_pitch", "site"),
    *("thread", "device", "stream", "advice", "what", "host", "flags", "direction", "cause"),
)
_MOVE_FIELDS = (*_ALIKE_MOVE_FIELDS, "sample", "before", "correlation", "began")
_WAIT_FIELDS = "stack", "thread", "site"
_ALIKE_FIELDS: Mapping[str, Sequence[str]] = {
    "launch": ("arguments", "site", "flags"),
    "move": (*_ALIKE_MOVE_FIELDS, "stack"),
    "copied": _WAIT_FIELDS,
    "block": ("address", "bytes", "begins", "memory", "registered", "name", "sharing", "access", "host"),
    "wait": (*_WAIT_FIELDS, "what"),
}
"""What calls of a kind that are alike have in common. copied: the end of a copy that blocks."""


def _times_of_several(asked: Sequence[tuple[CopyDirection, int]], ran: Sequence[_Copied]) -> list[float | None]:
    """What each copy or fill of one call took, by its way and bytes, or by its bytes alone where no record has that
    way. Those that are alike have their times in their order; None if there are not as many records. Slices of a copy,
    which has one record, share its time by their bytes.
    """
    times: list[float | None] = [None] * len(asked)
    left = sorted(ran)
    for by_way in (True, False):
        alike: defaultdict[tuple[object, int], tuple[list[int], list[_Copied]]] = defaultdict(lambda: ([], []))
        for place, (way, nbytes) in enumerate(asked):
            if times[place] is None:
                alike[way if by_way else way == "set", nbytes][0].append(place)
        for record in left:
            alike[record[1] if by_way else record[1] == "set", record[2]][1].append(record)
        for places, records in alike.values():
            if len(places) == len(records):
                for place, record in zip(places, records, strict=True):
                    times[place] = record[3]
        left = sorted(r for places, records in alike.values() if len(places) != len(records) for r in records)
    for by_way in (True, False):
        left = _share_times(asked, left, times, by_way=by_way)
    return times


def _share_times(
    asked: Sequence[tuple[CopyDirection, int]], ran: Sequence[_Copied], times: list[float | None], *, by_way: bool
) -> list[_Copied]:
    """Divides what records took among what has no time, of each way that has as many bytes in records as asked for, or
    of all ways but fills. Returns the other records.
    """
    slices: defaultdict[object, list[int]] = defaultdict(list)
    records: defaultdict[object, list[_Copied]] = defaultdict(list)
    for place, (way, _) in enumerate(asked):
        if times[place] is None:
            slices[way if by_way else way == "set"].append(place)
    for record in ran:
        records[record[1] if by_way else record[1] == "set"].append(record)
    for kind, places in slices.items():
        size = sum(asked[place][1] for place in places)
        if size and sum(record[2] for record in records[kind]) == size:
            seconds = sum(record[3] for record in records.pop(kind))
            for place in places:
                times[place] = seconds * asked[place][1] / size
    return [record for of_kind in records.values() for record in of_kind]


class _CallReader(JournalReader):
    """Reads the calls of one journal."""

    def __init__(self, path: Path, names: CallerTable, *, folds_loops: bool = False) -> None:
        super().__init__(path)
        self._names, self._folds_loops = names, folds_loops
        self._above: dict[int, int] = {0: 0}
        """How far the program's stack pointer is above that of the first frame, by the number of a site."""
        self._all = TracedCalls(0, [])
        self._arguments: dict[int, Arguments | None] = {0: None}
        self._shapes: dict[int, LaunchShape] = {}
        self._devices: dict[int, int] = {}
        self._variables: list[BlockCall] = []
        self._graphs: defaultdict[int, list[int]] = defaultdict(list)
        """Of launches of graphs: the places of their kernels in the list of calls, by correlation."""
        self._of_graphs: defaultdict[int, list[_Kernel]] = defaultdict(list)
        """The kernels that graphs ran, by correlation."""
        self._several: defaultdict[int, list[int]] = defaultdict(list)
        """Of calls that may copy or fill several times, as graphs and batches do: the places of that in the list of
        calls, by correlation.
        """
        self._unknown: dict[int, str] = {}
        """The kernels of launches whose arguments are not known, by correlation."""
        self._written: list[tuple[int, int]] = []
        """What the CPU wrote, of a record that goes on in the next one."""
        self._reservations: list[tuple[int, int, int]] = []
        """Where in the file the program reserves or frees a range, its address, and its bytes, or 0."""
        self._differences: list[HostDifference] = []
        self._others: list[AnyCall] = []
        self._calls_at: list[int] = []
        """The calls of kinds of which there are few, and their places in the file."""
        self._loops: list[MiddleIterations] = []
        """Iterations that are folded, of which the calls before the first one are in the list of calls."""
        self._lost = 0
        self._notices: list[str] = []

    def read_calls(self) -> TracedCalls | None:
        """None if the process was not traced."""
        file = self._file
        before = JournalFile(file.path)
        try:
            self._read_clocks(before)
            if not self._is_traced:
                return None
            if before.version < 2:
                raise UsageError(
                    f"{file.path} was written by a version of firsttouch that did not record the arguments of calls; "
                    "trace it again: firsttouch port -- COMMAND"
                )
            self._read_all(before.layout)
        except struct.error:
            raise file.broken() from None
        self._all.pid, self._all.failed = file.pid, tuple(self._failed_calls())
        self._all.journal = file.path
        self._all.differences = tuple(self._differences) or None
        self._finish()
        return self._all

    def read_sites(self) -> Iterable[CallSite]:
        """Reads nothing but where calls came from."""
        file = self._file
        try:
            layout = layout_of(1)
            for kind, content in file.records(layout["text"].kind, layout["site"].kind):
                if kind == layout["text"].kind:
                    self._add_text(content)
                else:
                    self._add_site(content)
        except struct.error:
            raise file.broken() from None
        return self._sites.values()

    def _adders(self, layout: Mapping[str, Any]) -> dict[int, Callable[[memoryview], None]]:
        adders: dict[str, Callable[[memoryview], None]] = {
            "text": self._add_text,
            "site": self._add_site,
            "arguments": self._add_arguments,
            "pointers": self._add_pointers,
            "notice": self._add_notice,
            "host": self._add_host,
        }
        if "difference" in layout:
            adders["difference"] = self._add_difference
        of_fields: dict[str, Callable[..., None]] = {
            "lost": self._add_losses,
            "shape": self._add_shape,
            "query": self._add_query,
            "reserved": self._add_reserved,
            "runtime": self._add_runtime,
            "view": self._add_view,
            "unfinished": self._add_unfinished,
            "failure": self._add_failure,
        }
        adders |= {name: layout[name].passed_to(add) for name, add in of_fields.items() if name in layout}
        return {layout[name].kind: add for name, add in adders.items()}

    def _read_all(self, layout: Mapping[str, Any]) -> None:
        """Reads the records of which there are few one by one, and then all of each other kind at a time."""
        adders, rows = self._adders(layout), {name: list[tuple[PlaceColumn, Rows]]() for name in _MANY}
        for block in self._file.blocks():
            for name, parts in rows.items():
                parts.append(block.rows(layout[name]))
            for kind, content in block.records(*adders):
                adders[kind](content)
        of_kind = {name: _joined(parts) for name, parts in rows.items() if parts}
        try:
            self._take_rows(of_kind)
        except (IndexError, KeyError):  # a number of nothing
            raise self._file.broken() from None

    def _take_rows(self, rows: Mapping[str, tuple[PlaceColumn, Rows]]) -> None:
        if not rows:
            return
        import numpy as np

        self._calls = dict(zip(*_columns(rows["call"][1], "correlation", "site"), strict=True))
        self._take_devices(rows["memory"][1])
        places, moves = rows["move"]
        waited = moves["stack"] != 0
        kinds = {**rows, "copied": (places[waited] + 1, moves[waited])}
        of_kinds: _OfKinds = {kind: kinds[kind] for kind in _ALIKE_FIELDS}
        order, times = self._in_order(of_kinds)
        if self._folds_loops and not self._differences:  # which are between calls
            order, of_kinds = self._fold(order, times, of_kinds)
        self._make_calls(order, of_kinds)
        ran = [rows["kernel"], rows["copy"]]
        if self._loops:
            shown = np.concatenate([of_kinds[kind][1]["correlation"] for kind in ("launch", "move")])
            ran = [(at[part], of[part]) for at, of in ran for part in [np.isin(of["correlation"], shown)]]
        self._take_times(*ran)

    def _in_order(self, of_kinds: _OfKinds) -> tuple[PlaceColumn, PlaceColumn]:
        """The order of all calls, of which those of kinds with few come first, and their times in this order."""
        import numpy as np

        places = np.concatenate([self._calls_at, *(at for at, _ in of_kinds.values())])
        times = np.concatenate([[call.t for call in self._others], *(of["time"] * 1e-9 for _, of in of_kinds.values())])
        order = np.argsort(places, kind="stable")
        if (np.diff(times[order]) < 0).any():  # calls of several threads
            order = order[np.argsort(times[order], kind="stable")]
        return order, times[order]

    def _fold(self, order: PlaceColumn, times: PlaceColumn, of_kinds: _OfKinds) -> tuple[PlaceColumn, _OfKinds]:
        """The order and the kinds of calls without those in iterations of loops that are folded."""
        import numpy as np

        others = np.zeros(len(self._others), np.uint64)
        numbers = np.concatenate([others, *(self._alike(kind, rows) for kind, (_, rows) in of_kinds.items())])[order]
        loaded = np.searchsorted(times, [variable.t for variable in self._variables])
        numbers[loaded[loaded < len(numbers)]] = 0
        numbers[numbers == 0] = mixed(np.flatnonzero(numbers == 0))
        is_shown, left_out = np.ones(len(order), bool), 0
        for loop in middle_iterations(numbers):
            is_shown[order[loop.begin : loop.end]] = False
            self._loops.append(loop._replace(begin=loop.begin - left_out))
            left_out += loop.end - loop.begin
        if not left_out:
            return order, of_kinds
        parts = np.split(is_shown, np.cumsum([len(others), *(len(at) for at, _ in of_kinds.values())]))[1:]
        chosen = {kind: (at[part], of[part]) for (kind, (at, of)), part in zip(of_kinds.items(), parts, strict=False)}
        return (np.cumsum(is_shown) - 1)[order[is_shown[order]]], chosen

    def _make_calls(self, order: PlaceColumn, of_kinds: _OfKinds) -> None:
        import numpy as np

        launches, moves, copied, blocks, waits = (of for _, of in of_kinds.values())
        calls: list[AnyCall] = [
            *self._others,
            *self._launches(launches),
            *self._moves(moves),
            *self._waits(copied, repeat("copy")),
            *self._blocks(of_kinds["block"][0], blocks),
            *self._waits(waits, map(_WAITS.__getitem__, waits["what"].tolist())),
        ]
        self._all.calls = [calls[place] for place in order.tolist()]
        at = np.argsort(order)[len(self._others) :]
        odd = np.flatnonzero((launches["flags"] & _BY_GRAPH != 0) | (launches["arguments"] == 0))
        graphs = launches[odd][["correlation", "flags"]].tolist()
        for place, (correlation, flags) in zip(at[odd].tolist(), graphs, strict=True):
            if flags & _BY_GRAPH:
                self._graphs[correlation].append(place)
            else:
                self._unknown[correlation] = ""
        self._find_several(at[len(launches) : len(launches) + len(moves)], moves)

    def _alike(self, kind: str, rows: Rows) -> PlaceColumn:
        """A number for each call of a kind: the same for those that are alike, 0 for one that may be like no other.
        Samples are alike if they are equal, or if each is like no other.
        """
        import numpy as np

        known = rows.dtype.names or ()
        columns = [rows[field] for field in _ALIKE_FIELDS[kind] if field in known]
        is_alone = np.zeros(len(rows), bool)
        if kind in ("launch", "move"):
            is_alone |= rows["flags"] & (_CAPTURED | _WHILE_CAPTURED) != 0
        if kind == "launch":
            is_alone |= rows["arguments"] == 0
        elif kind == "move":
            samples = np.where(rows["flags"] & _SAMPLE, rows["sample"], 0)
            _, number, counts = np.unique(samples, return_inverse=True, return_counts=True)
            columns += [np.where(counts[number] > 1, samples, 0), rows["sample"] == rows["before"]]
        elif kind == "block":
            correlations = rows["correlation"].tolist()
            columns += [np.array([of.get(c, 0) for c in correlations]) for of in (self._calls, self._devices)]
            is_alone |= bool(self._reservations)
        numbers = mixed(np.full(len(rows), [*_ALIKE_FIELDS].index(kind)), *columns)
        return np.where(is_alone, np.uint64(0), numbers)

    def _find_several(self, places: PlaceColumn, moves: Rows) -> None:
        import numpy as np

        ran = (moves["correlation"] != 0) & (moves["what"] <= _MOVES.index("fill"))
        numbers, counts = np.unique(moves["correlation"][ran], return_counts=True)
        several = ran & np.isin(moves["correlation"], numbers[counts > 1])
        several |= ran & (moves["flags"] & _MOVED_BY_GRAPH != 0)
        for place, correlation in zip(places[several].tolist(), moves["correlation"][several].tolist(), strict=True):
            self._several[correlation].append(place)

    def _add_other(self, call: AnyCall) -> None:
        """Adds a call of a kind of which there are few."""
        self._others.append(call)
        self._calls_at.append(self._file.reached)

    # ------------------------------------------------------------------------------------------ times, from CUPTI

    def _take_devices(self, rows: Rows) -> None:
        import numpy as np

        of_device = rows[(rows["operation"] == 1) & (rows["device"] != 0)]
        self._devices = dict(zip(*_columns(of_device, "correlation", "device"), strict=True))
        for row in rows[np.isin(rows["memory"], _STATIC)]:
            begins = int(row["operation"]) == 1
            self._variables.append(
                BlockCall(
                    t=self._time_of(int(row["stamp"])),
                    correlation=int(row["correlation"]),
                    address=int(row["address"]),
                    bytes=int(row["bytes"]) if begins else 0,
                    begins=begins,
                    kind=memory_kind(int(row["memory"])),
                    device=int(row["device"]),
                    name=self._text_of(int(row["name"])),
                )
            )

    def _take_times(self, kernels: tuple[PlaceColumn, Rows], copies: tuple[PlaceColumn, Rows]) -> None:
        """What launches and copies took on the GPU, those of one call added up in their order."""
        import numpy as np

        places, ran = kernels
        if len(ran) and not self._clock:
            raise self._file.broken()
        names = {number: self._text_of(number) for number in np.unique(ran["name"]).tolist()}
        of_graphs = np.isin(ran["correlation"], [*self._graphs])
        if "graph_node" in (ran.dtype.names or ()):
            of_graphs |= ran["graph_node"] != 0
        by_graphs = ran[of_graphs]
        fields = _columns(by_graphs, "correlation", "start_stamp", "name", "shape")
        for correlation, start, name, shape, seconds in zip(*fields, _seconds(by_graphs).tolist(), strict=True):
            self._of_graphs[correlation].append((start, names[name], seconds, shape))
        places, ran = places[~of_graphs], ran[~of_graphs]
        copied_at, copied = copies
        of_several = np.isin(copied["correlation"], [*self._several])
        ran_in_several, copied_at, copied = copied[of_several], copied_at[~of_several], copied[~of_several]
        order = np.argsort(np.concatenate([places, copied_at]), kind="stable")
        correlations = np.concatenate([ran["correlation"], copied["correlation"]])[order].tolist()
        seconds = np.concatenate([_seconds(ran), _seconds(copied)])[order].tolist()
        durations = self._all.durations = dict(zip(correlations, seconds, strict=True))
        if len(durations) < len(correlations):
            durations.clear()
            for correlation, took in zip(correlations, seconds, strict=True):
                durations[correlation] = durations.get(correlation, 0.0) + took
        self._add_several_times(ran_in_several)
        correlations, shapes = _columns(ran[ran["shape"] != 0], "correlation", "shape")
        self._all.shapes = dict(zip(correlations, map(self._shapes.__getitem__, shapes), strict=True))
        if self._unknown:
            for correlation, name in zip(*_columns(ran, "correlation", "name"), strict=True):
                if correlation in self._unknown:
                    self._unknown[correlation] = names[name]

    def _add_several_times(self, copied: Rows) -> None:
        """Gives each copy and fill of a call of several a correlation of its own, and what it took."""
        ran: defaultdict[int, list[_Copied]] = defaultdict(list)
        fields = _columns(copied, "correlation", "start_stamp", "direction", "bytes")
        for correlation, start, direction, nbytes, seconds in zip(*fields, _seconds(copied).tolist(), strict=True):
            way = DIRECTIONS.get(direction, "unknown")
            ran[correlation].append((start, "d2d" if way == "p2p" else way, nbytes, seconds))
        for correlation, places in self._several.items():
            moves = [move for place in places if isinstance(move := self._all.calls[place], MoveCall)]
            asked = [("set" if move.what == "fill" else move.direction, move.bytes * move.rows) for move in moves]
            times = _times_of_several(asked, ran[correlation])
            first = len(self._graphs.get(correlation, ())) + 1  # after those of the kernels
            for number, (place, move, took) in enumerate(zip(places, moves, times, strict=True), first):
                of_its_own = (number << 32) | correlation
                self._all.calls[place] = replace(move, correlation=of_its_own)
                if took is not None:
                    self._all.durations[of_its_own] = took

    def _shape_of(self, number: int) -> LaunchShape:
        try:
            return self._shapes[number]
        except KeyError:
            raise self._file.broken() from None

    def _add_notice(self, content: memoryview) -> None:
        layer_notice = notice(self._file, content)
        if layer_notice.layer != "phases":
            self._notices.append(layer_notice.text)

    def _add_losses(self, records: int) -> None:
        self._lost += records

    def _add_shape(
        self, number: int, grid_x: int, grid_y: int, grid_z: int, block_x: int, block_y: int, block_z: int
    ) -> None:
        self._shapes[number] = (grid_x, grid_y, grid_z), (block_x, block_y, block_z)

    # ------------------------------------------------------------------------------------------------------ calls

    def _add_arguments(self, content: memoryview) -> None:
        form, word = self._file.layout["arguments"], self._file.layout["word"]
        record = form.read(content)
        if form.size + record.words * word.size > len(content):
            raise self._file.broken()
        words = (word.read(content, form.size + i * word.size) for i in range(record.words))
        self._arguments[record.number] = Arguments(
            self._text_of(record.kernel),
            tuple(ArgumentWord(w.parameter, w.offset, w.address, self._access_of(w)) for w in words),
            bool(record.sizes_known),
        )

    def _launches(self, rows: Rows) -> list[LaunchCall]:
        fields = _columns(rows, "correlation", "arguments", "site", "flags")
        arguments, sites = self._arguments, self._sites
        return [
            LaunchCall(t=t, correlation=correlation, arguments=arguments[words], site=sites[site])
            if not flags
            else LaunchCall(
                t=t,
                correlation=correlation,
                arguments=arguments[words],
                site=sites[site],
                captured=bool(flags & (_CAPTURED | _WHILE_CAPTURED)) and not flags & _BY_GRAPH,
                graph=bool(flags & _BY_GRAPH),
                cooperative=bool(flags & _COOPERATIVE),
            )
            for t, correlation, words, site, flags in zip(_times(rows), *fields, strict=True)
        ]

    def _moves(self, rows: Rows) -> list[MoveCall]:
        fields = _columns(rows, *_MOVE_FIELDS)
        return [
            MoveCall(
                t=t,
                correlation=correlation,
                what=_MOVES[what],
                source=source,
                target=target,
                bytes=nbytes,
                rows=number,
                source_pitch=source_pitch,
                target_pitch=target_pitch,
                blocking=bool(flags & _BLOCKING),
                host=_PLACES[host],
                thread=thread,
                stream=stream,
                sample=sample if flags & _SAMPLE else None,
                before=before if flags & _BEFORE else None,
                advice=advice,
                device=device,
                captured=bool(flags & (_CAPTURED | _WHILE_CAPTURED)) and not flags & _MOVED_BY_GRAPH,
                graph=bool(flags & _MOVED_BY_GRAPH),
                sampled_whole=bool(flags & _SAMPLED_WHOLE),
                direction=_DIRECTIONS[direction],
                site=self._sites[site],
                began=began * 1e-9 if began else None,
                cause=_CAUSES[cause],
            )
            for t, source, target, nbytes, number, source_pitch, target_pitch, site,
            thread, device, stream, advice, what, host, flags, direction, cause, sample, before, correlation, began
            in zip(_times(rows), *fields, strict=True)
        ]  # fmt: skip

    def _add_pointers(self, content: memoryview) -> None:
        form = self._file.layout["pointers"]
        record = form.read(content)
        if form.size + record.addresses * 8 > len(content):
            raise self._file.broken()
        addresses = struct.unpack_from(f"<{record.addresses}Q", content, form.size)
        self._add_other(
            PointersCall(
                t=record.time * 1e-9, correlation=record.correlation, target=record.target, addresses=addresses
            )
        )

    def _blocks(self, places: PlaceColumn, rows: Rows) -> list[BlockCall]:
        fields = _columns(
            rows,
            *("address", "bytes", "correlation", "name", "begins", "memory", "registered", "sharing", "access", "host"),
        )
        return [
            BlockCall(
                t=t,
                correlation=correlation,
                address=address,
                bytes=nbytes,
                begins=bool(begins),
                kind=memory_kind(memory),
                registered=bool(registered),
                site=self._sites[self._calls.get(correlation, 0)],
                name=self._texts[name],
                reserved=number,
                sharing=_SHARING[sharing & 31],
                access=_ACCESS[access],
                host=host,
            )
            for t, number, address, nbytes, correlation, name, begins, memory, registered, sharing, access, host in zip(
                _times(rows), self._reserved(places, rows), *fields, strict=True
            )
        ]

    def _add_view(
        self, time: int, address: int, bytes: int, site: int, begins: int, use: int, waits: int, host: int = 0
    ) -> None:
        self._add_other(
            MappedView(
                t=time * 1e-9,
                address=address,
                bytes=bytes,
                begins=bool(begins),
                use=_ACCESS[use],
                waits=bool(waits),
                site=self._site_of(site),
                host=host,
            )
        )

    def _access_of(self, word: Any) -> KernelAccess:
        return _ACCESS[word.access] if self._file.version > 3 else ""

    def _add_runtime(self, api: int, version: int, device: int, architecture: int) -> None:
        self._all.runtimes.append(self._runtime_of(api, version, device, architecture))

    def _add_reserved(self, address: int, bytes: int) -> None:
        self._reservations.append((self._file.reached, address, bytes))

    def _reserved(self, places: PlaceColumn, rows: Rows) -> list[int | None]:
        """Of each block that begins, the number of the reserved range that has its address then, 0 if none has."""
        begins = (rows["begins"] != 0).tolist()
        if "reserved" not in self._file.layout:
            return [None] * len(begins)
        ranges: list[tuple[int, int, int]] = []  # that are reserved, in order: begin, end and number
        coming, at, made, found = deque(self._reservations), 0, 0, list[int | None]()
        for place, address, is_begin in zip(places.tolist(), rows["address"].tolist(), begins, strict=True):
            while coming and coming[0][0] < place:
                _, begin, nbytes = coming.popleft()
                at = bisect_left(ranges, (begin,))
                if nbytes:
                    made += 1
                    insort(ranges, (begin, begin + nbytes, made))
                elif at < len(ranges):
                    del ranges[at]
            at = bisect_left(ranges, (address + 1,)) - 1
            number = ranges[at][2] if at >= 0 and address < ranges[at][1] else 0
            found.append(number if is_begin else None)
        return found

    def _add_host(self, content: memoryview) -> None:
        form, piece = self._file.layout["host"], self._file.layout["piece"]
        record = form.read(content)
        if form.size + record.pieces * piece.size > len(content):
            raise self._file.broken()
        for i in range(record.pieces):
            first, count = piece.read(content, form.size + i * piece.size)
            self._written.append((record.pages + first * _PIECE, record.pages + (first + count) * _PIECE))
        if record.flags & _GOES_ON:
            return
        writes, self._written = tuple(self._written), []
        use = HostUse(
            since=record.since * 1e-9,
            t=record.time * 1e-9,
            address=record.address,
            bytes=record.bytes,
            writes=writes,
            read=None if record.read == _NOT_KNOWN else record.read,
            was_gone=bool(record.flags & _WAS_GONE),
            late=bool(record.flags & _LATE) if self._file.version >= 3 else None,
        )
        self._add_other(use)

    def _add_difference(self, content: memoryview) -> None:
        form, piece = self._file.layout["difference"], self._file.layout["piece"]
        record = form.read(content)
        if form.size + record.pieces * piece.size > len(content) or not 1 <= record.what <= len(_DIFFERENCES):
            raise self._file.broken()
        pieces = [piece.read(content, form.size + i * piece.size) for i in range(record.pieces)]
        self._differences.append(
            HostDifference(
                kind=_DIFFERENCES[record.what - 1],
                since=record.since * 1e-9,
                t=record.time * 1e-9,
                copied=record.copied * 1e-9,
                address=record.address,
                bytes=record.bytes,
                device=record.device,
                differing=record.differing,
                pages=tuple(
                    (record.pages + first * _PIECE, record.pages + (first + n) * _PIECE) for first, n in pieces
                ),
                after=self._site_of(record.after),
                before=self._site_of(record.before),
                site=self._site_of(record.site),
                some=bool(record.flags & _SOME),
                is_partial=bool(record.flags & _NOT_ALL),
                was_gone=bool(record.flags & _GIVEN_BACK),
                in_heap=bool(record.flags & _IN_HEAP),
            )
        )

    def _add_site(self, content: memoryview) -> None:
        super()._add_site(content)
        form, frame = self._file.layout["site"], self._file.layout["frame"]
        record = form.read(content)
        program = caller(self._sites[record.number], self._function_of)
        if program is not None and "above" in frame.fields:
            place = self._sites[record.number].index(program)
            self._above[record.number] = frame.read(content, form.size + place * frame.size).above

    def _function_of(self, file: str, offset: int) -> str:
        location = self._names.get((file, offset))
        return location.function if location else ""

    def _waits(self, rows: Rows, kinds: Iterable[WaitKind]) -> list[WaitCall]:
        above, sites = self._above, self._sites
        return [
            WaitCall(
                t=t,
                thread=thread,
                what=kind,
                stack=stack + above.get(site, 0),
                site=sites[site],
                began=began * 1e-9 if began else None,
            )
            for t, stack, thread, site, began, kind in zip(
                _times(rows), *_columns(rows, *_WAIT_FIELDS, "began"), kinds, strict=False
            )
        ]

    def _add_query(self, time: int, free: int, total: int, site: int) -> None:
        frames = self._site_of(site)
        vendor = is_of_vendor(frames)
        self._add_other(QueryCall(t=time * 1e-9, free=free, total=total, site=frames, vendor=vendor))

    # ----------------------------------------------------------------------------------------------------- the end

    def _finish(self) -> None:
        """Brings together what was recorded at different times."""
        self._add_graph_times()
        for i, call in enumerate(self._all.calls):
            if type(call) is LaunchCall:
                if call.captured or call.arguments is None:
                    self._complete_launch(i, call)
            elif type(call) is MoveCall:
                if call.captured and call.correlation in self._all.durations:
                    self._all.calls[i] = replace(call, captured=False)
            elif type(call) is BlockCall and (device := self._devices.get(call.correlation)):
                self._all.calls[i] = replace(call, device=device)
        for loop in reversed(self._loops):
            t = self._all.calls[loop.begin - 1].t
            self._all.calls.insert(loop.begin, FoldedCalls(t=t, calls=loop.length, times=loop.times))
        self._add_variables()
        self._all.incomplete = tuple(self._losses())

    def _complete_launch(self, place: int, launch: LaunchCall) -> None:
        if launch.captured and launch.correlation in self._all.durations:  # not on the stream that was captured
            self._all.calls[place] = launch = replace(launch, captured=False)
        if launch.arguments is None and (kernel := self._unknown.get(launch.correlation)):
            self._all.calls[place] = replace(launch, kernel=kernel)

    def _add_graph_times(self) -> None:
        """Gives the launches of a graph the kernels that ran, by their names and in their order."""
        for correlation, places in self._graphs.items():
            ran = sorted(self._of_graphs.get(correlation, ()))
            by_name: defaultdict[str, deque[_Kernel]] = defaultdict(deque)
            for kernel in ran:
                by_name[kernel[1]].append(kernel)
            for number, place in enumerate(places, 1):
                launch = self._all.calls[place]
                assert isinstance(launch, LaunchCall)
                of_its_own = (number << 32) | correlation
                self._all.calls[place] = replace(launch, correlation=of_its_own)
                of_name = by_name[launch.arguments.kernel] if launch.arguments is not None else None
                if of_name:
                    self._add_graph_time(of_its_own, [of_name.popleft()])
                elif (
                    len(places) == 1 and launch.arguments is None and ran
                ):  # a graph that was not seen when it was made
                    self._add_graph_time(of_its_own, ran)
                    self._unknown[of_its_own] = ran[0][1]

    def _add_graph_time(self, correlation: int, kernels: Sequence[_Kernel]) -> None:
        self._all.durations[correlation] = sum(seconds for _, _, seconds, _ in kernels)
        if shape := kernels[0][3]:
            self._all.shapes[correlation] = self._shape_of(shape)

    def _add_variables(self) -> None:
        """Static variables that no call looked up, at the time at which their module was loaded or unloaded."""
        if not self._variables:
            return
        calls = self._all.calls
        looked_up = {call.address for call in calls if type(call) is BlockCall and call.begins}
        for variable in self._variables:
            if variable.address not in looked_up:
                calls.insert(bisect_left(calls, variable.t, key=attrgetter("t")), variable)

    def _losses(self) -> list[str]:
        unknown = sum(type(call) is LaunchCall and call.arguments is None for call in self._all.calls)
        counts = {
            "copies and kernels that had not ended when the program or its context did": self._into.unfinished,
            "records that CUPTI had no room for": self._lost,
            "records that the journal had no room for": self._file.left_out,
            "launches with arguments that are not known": unknown,
        }
        damage = self._damage()
        self._all.is_partial = bool(damage or self._lost or self._file.left_out)
        return [
            *([damage] if damage else []),
            *dict.fromkeys(self._notices),
            *(f"{count:,} {records}" for records, count in counts.items() if count),
        ]
