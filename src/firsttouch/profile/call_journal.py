"""Reads the calls of traced programs from journals of version 2 and later, in program order.

What a launch or a copy took on the GPU is recorded later than its call, and belongs to it by its correlation. The
kernels of a graph have the correlation of its launch; each gets a number of its own here.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, insort
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from firsttouch.base.errors import UsageError
from firsttouch.profile.calls import (
    Arguments,
    ArgumentWord,
    CudaBlock,
    CudaLaunch,
    CudaMove,
    CudaPointers,
    CudaQuery,
    CudaWait,
    HostPlace,
    HostUse,
    LaunchShape,
    MoveKind,
    TracedCalls,
    WaitKind,
)
from firsttouch.profile.content import Profile
from firsttouch.profile.cuda import CallSite, CopyDirection
from firsttouch.profile.journal import JournalFile, JournalReader, journal_files, memory_kind, notice
from firsttouch.profile.trace import caller
from firsttouch.profile.traced import CallerTable

_MOVES: tuple[MoveKind, ...] = get_args(MoveKind)
_PLACES: tuple[HostPlace, ...] = get_args(HostPlace)
_DIRECTIONS: tuple[CopyDirection, ...] = ("unknown", "h2d", "d2h", "d2d", "h2h")
_WAITS: tuple[WaitKind, ...] = get_args(WaitKind)
_CAPTURED, _WHILE_CAPTURED, _COOPERATIVE, _BY_GRAPH = 1, 2, 4, 8
"""Flags of a launch."""
_BLOCKING, _SAMPLE, _BEFORE, _MOVED_BY_GRAPH, _SAMPLED_WHOLE = 4, 8, 16, 32, 64
"""Flags of a move, besides the first two."""
_PIECE, _NOT_KNOWN = 4096, 2**64 - 1
"""The unit of what the CPU wrote, and what stands for a number of bytes that is not known."""
_GOES_ON, _WAS_GONE, _LATE = 1, 2, 4
"""Flags of what the CPU did with a range."""
_STATIC = 6, 7
_Kernel: TypeAlias = tuple[int, str, float, int]
"""A kernel that ran: start, name, seconds, and the number of its shape."""
VENDOR = re.compile(
    r"(?:^|/)lib(?:cublas|cublasLt|cudnn\w*|cufft\w*|cusparse\w*|cusolver\w*|curand|cutensor\w*|nvrtc|nccl|nvshmem\w*"
    r"|npp\w*|cufile\w*|nvjpeg\w*|cudart)\.so"
)


@cache
def is_of_vendor(site: CallSite) -> bool:
    """Whether a library of the vendor made a call, which the program cannot change."""
    return bool(site) and VENDOR.search(site[0].file) is not None


def read_calls(directory: Path, names: CallerTable | None = None) -> list[TracedCalls]:
    """The calls of each process that was traced, of a profile's directory.

    names: the functions of places, by which frames of a CUDA runtime that was linked statically are told from those of
    the program, whose stack pointer a wait has.

    Raises:
        UsageError: A journal is broken, or of version 1, which does not tell what launches and copies name.
    """
    return [
        calls for path in journal_files(directory) if (calls := _CallReader(path, names or {}).read_calls()) is not None
    ]


def calls_of(profile: Profile) -> list[TracedCalls]:
    """The calls of each process of a profile that was traced. They are read once. Raises as `read_calls`."""
    if profile.calls is None:
        profile.calls = read_calls(profile.directory, profile.callers)
    return profile.calls


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


class _CallReader(JournalReader):
    """Reads the calls of one journal."""

    def __init__(self, path: Path, names: CallerTable) -> None:
        super().__init__(path)
        self._names = names
        self._above: dict[int, int] = {0: 0}
        """How far the program's stack pointer is above that of the first frame, by the number of a site."""
        self._all = TracedCalls(0, [])
        self._arguments: dict[int, Arguments | None] = {0: None}
        self._shapes: dict[int, LaunchShape] = {}
        self._devices: dict[int, int] = {}
        self._variables: list[CudaBlock] = []
        self._graphs: defaultdict[int, list[int]] = defaultdict(list)
        """Of launches of graphs: the places of their kernels in the list of calls, by correlation."""
        self._of_graphs: defaultdict[int, list[_Kernel]] = defaultdict(list)
        """The kernels that graphs ran, by correlation."""
        self._unknown: dict[int, str] = {}
        """The kernels of launches whose arguments are not known, by correlation."""
        self._written: list[tuple[int, int]] = []
        """What the CPU wrote, of a record that goes on in the next one."""
        self._reserved: list[tuple[int, int, int]] = []
        """The ranges of addresses that the program has reserved, in order: begin, end and number."""
        self._reservations = 0
        self._lost = 0
        self._notices: list[str] = []

    def read_calls(self) -> TracedCalls | None:
        """None if the process was not traced."""
        file = self._file
        before = JournalFile(file.path)
        try:
            self._read_clocks(before)
            if not self._clock:
                return None
            if before.version < 2:
                raise UsageError(
                    f"{file.path} was written by a version of firsttouch that did not record the arguments of calls; "
                    "trace it again: firsttouch port -- COMMAND"
                )
            self._read_all(before.layout)
        except struct.error:
            raise file.broken() from None
        self._all.pid = file.pid
        self._finish()
        return self._all

    def read_sites(self) -> Iterable[CallSite]:
        """Reads nothing but where calls came from."""
        file = self._file
        try:
            for kind, content in file.records():
                if kind == file.layout["text"].kind:
                    self._add_text(content)
                elif kind == file.layout["site"].kind:
                    self._add_site(content)
        except struct.error:
            raise file.broken() from None
        return self._sites.values()

    def _call_adders(self) -> dict[str, Callable[..., None]]:
        return {
            "memory": self._add_device,
            "copy": self._add_copy_time,
            "kernel": self._add_kernel_time,
            "call": self._add_call,
            "lost": self._add_losses,
            "shape": self._add_shape,
            "launch": self._add_launch,
            "move": self._add_move,
            "block": self._add_block,
            "wait": self._add_wait,
            "query": self._add_query,
            "reserved": self._add_reserved,
        }

    def _adders(self, layout: Mapping[str, Any]) -> Mapping[int, Callable[[memoryview], None]]:
        adders: dict[str, Callable[[memoryview], None]] = {
            "text": self._add_text,
            "site": self._add_site,
            "arguments": self._add_arguments,
            "pointers": self._add_pointers,
            "notice": self._add_notice,
            "host": self._add_host,
        }
        adders |= {name: layout[name].passed_to(add) for name, add in self._call_adders().items() if name in layout}
        return {layout[name].kind: add for name, add in adders.items()}

    # ------------------------------------------------------------------------------------------ times, from CUPTI

    def _add_device(
        self,
        stamp: int,
        address: int,
        bytes: int,
        operation: int,
        memory: int,
        device: int,
        correlation: int,
        name: int,
    ) -> None:
        if operation == 1 and device:
            self._devices[correlation] = device
        if memory in _STATIC:
            self._variables.append(
                CudaBlock(
                    t=self._time_of(stamp),
                    correlation=correlation,
                    address=address,
                    bytes=bytes if operation == 1 else 0,
                    begins=operation == 1,
                    kind=memory_kind(memory),
                    device=device,
                    name=self._text_of(name),
                )
            )

    def _add_copy_time(self, start_stamp: int, end_stamp: int, correlation: int) -> None:
        seconds = max(0, end_stamp - start_stamp) * 1e-9
        self._all.durations[correlation] = self._all.durations.get(correlation, 0.0) + seconds

    def _add_kernel_time(
        self, start_stamp: int, end_stamp: int, correlation: int, name: int, graph_node: int, shape: int
    ) -> None:
        if not self._clock:
            raise self._file.broken()
        seconds, text = max(0, end_stamp - start_stamp) * 1e-9, self._text_of(name)
        if graph_node or correlation in self._graphs:
            self._of_graphs[correlation].append((start_stamp, text, seconds, shape))
            return
        durations = self._all.durations
        durations[correlation] = durations.get(correlation, 0.0) + seconds
        if shape:
            self._all.shapes[correlation] = self._shape_of(shape)
        if correlation in self._unknown:
            self._unknown[correlation] = text

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
            tuple(ArgumentWord(w.parameter, w.offset, w.address) for w in words),
            bool(record.sizes_known),
        )

    def _add_launch(self, time: int, correlation: int, arguments: int, site: int, flags: int) -> None:
        if arguments not in self._arguments:
            raise self._file.broken()
        calls = self._all.calls
        if flags & _BY_GRAPH:
            self._graphs[correlation].append(len(calls))
        elif not arguments:
            self._unknown[correlation] = ""
        calls.append(
            CudaLaunch(
                t=time * 1e-9,
                correlation=correlation,
                arguments=self._arguments[arguments],
                site=self._site_of(site),
                captured=bool(flags & (_CAPTURED | _WHILE_CAPTURED)) and not flags & _BY_GRAPH,
                graph=bool(flags & _BY_GRAPH),
                cooperative=bool(flags & _COOPERATIVE),
            )
        )

    def _add_move(
        self,
        time: int,
        source: int,
        target: int,
        bytes: int,
        rows: int,
        source_pitch: int,
        target_pitch: int,
        sample: int,
        before: int,
        stack: int,
        correlation: int,
        site: int,
        thread: int,
        device: int,
        stream: int,
        advice: int,
        what: int,
        host: int,
        flags: int,
        direction: int,
        began: int = 0,
    ) -> None:
        if what >= len(_MOVES) or host >= len(_PLACES) or direction >= len(_DIRECTIONS):
            raise self._file.broken()
        self._all.calls.append(
            CudaMove(
                t=time * 1e-9,
                correlation=correlation,
                what=_MOVES[what],
                source=source,
                target=target,
                bytes=bytes,
                rows=rows,
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
                site=self._site_of(site),
                began=began * 1e-9 if began else None,
            )
        )
        if stack:
            self._all.calls.append(self._wait(time, stack, thread, site, "copy", began))

    def _add_pointers(self, content: memoryview) -> None:
        form = self._file.layout["pointers"]
        record = form.read(content)
        if form.size + record.addresses * 8 > len(content):
            raise self._file.broken()
        addresses = struct.unpack_from(f"<{record.addresses}Q", content, form.size)
        self._all.calls.append(
            CudaPointers(
                t=record.time * 1e-9, correlation=record.correlation, target=record.target, addresses=addresses
            )
        )

    def _add_block(
        self,
        time: int,
        address: int,
        bytes: int,
        correlation: int,
        name: int,
        begins: int,
        memory: int,
        registered: int,
    ) -> None:
        self._all.calls.append(
            CudaBlock(
                t=time * 1e-9,
                correlation=correlation,
                address=address,
                bytes=bytes,
                begins=bool(begins),
                kind=memory_kind(memory),
                registered=bool(registered),
                site=self._site_of(self._calls.get(correlation, 0)),
                name=self._text_of(name),
                reserved=self._reserved_at(address) if begins and "reserved" in self._file.layout else None,
            )
        )

    def _add_reserved(self, address: int, bytes: int) -> None:
        if bytes:
            self._reservations += 1
            insort(self._reserved, (address, address + bytes, self._reservations))
        elif (place := bisect_left(self._reserved, (address,))) < len(self._reserved):
            del self._reserved[place]

    def _reserved_at(self, address: int) -> int:
        """The number of the reserved range that has an address; 0 if none has."""
        place = bisect_left(self._reserved, (address + 1,)) - 1
        return self._reserved[place][2] if place >= 0 and address < self._reserved[place][1] else 0

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
        self._all.calls.append(use)

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

    def _add_wait(self, time: int, stack: int, thread: int, site: int, what: int, began: int = 0) -> None:
        if what >= len(_WAITS):
            raise self._file.broken()
        self._all.calls.append(self._wait(time, stack, thread, site, _WAITS[what], began))

    def _wait(self, time: int, stack: int, thread: int, site: int, kind: WaitKind, began: int) -> CudaWait:
        return CudaWait(
            t=time * 1e-9,
            thread=thread,
            what=kind,
            stack=stack + self._above.get(site, 0),
            site=self._site_of(site),
            began=began * 1e-9 if began else None,
        )

    def _add_query(self, time: int, free: int, total: int, site: int) -> None:
        frames = self._site_of(site)
        vendor = is_of_vendor(frames)
        self._all.calls.append(CudaQuery(t=time * 1e-9, free=free, total=total, site=frames, vendor=vendor))

    # ----------------------------------------------------------------------------------------------------- the end

    def _finish(self) -> None:
        """Brings together what was recorded at different times."""
        self._add_graph_times()
        for i, call in enumerate(self._all.calls):
            if isinstance(call, CudaLaunch):
                self._complete_launch(i, call)
            elif isinstance(call, CudaMove):
                if call.captured and call.correlation in self._all.durations:
                    self._all.calls[i] = replace(call, captured=False)
            elif isinstance(call, CudaBlock) and (device := self._devices.get(call.correlation)):
                self._all.calls[i] = replace(call, device=device)
        if any(later.t < earlier.t for earlier, later in pairwise(self._all.calls)):
            self._all.calls.sort(key=attrgetter("t"))  # calls of several threads
        self._add_variables()
        self._all.incomplete = tuple(self._losses())

    def _complete_launch(self, place: int, launch: CudaLaunch) -> None:
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
                assert isinstance(launch, CudaLaunch)
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
        calls = self._all.calls
        looked_up = {call.address for call in calls if isinstance(call, CudaBlock) and call.begins}
        for variable in self._variables:
            if variable.address not in looked_up:
                calls.insert(bisect_left(calls, variable.t, key=attrgetter("t")), variable)

    def _losses(self) -> list[str]:
        unknown = sum(isinstance(call, CudaLaunch) and call.arguments is None for call in self._all.calls)
        counts = {
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
