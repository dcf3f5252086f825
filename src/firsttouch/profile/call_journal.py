"""Reads what journals of version 2 tell of a program's calls: launches, copies, blocks and waits, in program order.

A call is there from when it returned. What CUPTI tells of it later, how long it took on the GPU, is found by its
correlation. Launches of a graph are those of its kernels, in the order of its nodes.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import msgspec

from firsttouch.errors import UsageError
from firsttouch.profile.calls import (
    Arguments,
    ArgumentWord,
    CudaBlock,
    CudaCall,
    CudaLaunch,
    CudaMove,
    CudaPointers,
    CudaQuery,
    CudaWait,
    HostPlace,
    MoveKind,
    TracedCalls,
    WaitKind,
)
from firsttouch.profile.cuda import CallFrame, CallSite, MemoryKind
from firsttouch.profile.journal import JournalFile, Structure, journal_files

_KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)
_PLACES: tuple[HostPlace, ...] = get_args(HostPlace)
_MOVES: tuple[MoveKind, ...] = get_args(MoveKind)
_WAITS: tuple[WaitKind, ...] = get_args(WaitKind)
_CAPTURED, _COOPERATIVE, _BLOCKING, _SAMPLE, _BEFORE = 1, 4, 4, 8, 16
"""Flags of a launch and of a move, as records.def has them."""
_KERNEL_NODE = 0
"""Source: CUgraphNodeType of cuda.h."""
_VENDORS = re.compile(r"/lib(?:cu[a-z]+(?:Lt)?|nccl|npp\w+|nv[A-Za-z]+)\.so[\w.]*$")
"""Libraries that the vendor adds to CUDA."""


def read_calls(directory: Path) -> list[TracedCalls]:
    """The calls of each traced process of a profile.

    Raises:
        UsageError: A journal is broken, or of a version that does not tell what calls name.
    """
    readers = [_CallReader(path) for path in journal_files(directory)]
    return [calls for calls in (reader.read() for reader in readers) if calls is not None]


def frames(directory: Path) -> list[tuple[str, int]]:
    """The places of all calls in the journals of a profile: files, and offsets in them.

    Raises:
        UsageError: A journal is broken.
    """
    found: dict[tuple[str, int], None] = {}
    for path in journal_files(directory):
        reader = _CallReader(path)
        reader.read_sites()
        found |= {(frame.file, frame.offset): None for site in reader.sites for frame in site}
    return list(found)


class _CallReader:
    """Reads one journal once. What refers to records that may come later is settled at the end."""

    def __init__(self, path: Path) -> None:
        self._file = JournalFile(path)
        self._texts: dict[int, str] = {0: ""}
        self._sites: dict[int, CallSite] = {0: ()}
        self._site_of_call: dict[int, int] = {}
        self._arguments: dict[int, Arguments | None] = {0: None}
        self._graphs: dict[int, list[tuple[int, int]]] = {}
        """Of each graph, the kernels among its nodes: node and arguments."""
        self._graph_launches: dict[tuple[int, int], int] = {}
        """The correlations that the kernels of a launched graph have in the result, which are negative."""
        self._unplaced: list[int] = []
        self._durations: dict[int, float] = defaultdict(float)
        self._of_graphs: dict[tuple[int, int], float] = defaultdict(float)
        self._calls: list[CudaCall] = []
        self._traced, self._lost, self._other_nodes, self._notices = False, 0, False, list[str]()

    def read(self) -> TracedCalls | None:
        """The calls, or None if the process was not traced."""
        adders: Mapping[int, Callable[[memoryview], None]] | None = None
        try:
            for kind, content in self._file.records():
                adders = adders or self._adders(self._file.layout)
                if (add := adders.get(kind)) is not None:
                    add(content)
        except (struct.error, KeyError, IndexError):
            raise self._file.broken() from None
        if not self._traced:
            return None
        if "launch" not in self._file.layout:
            raise UsageError(
                f"{self._file.path} was written by a version of firsttouch that did not record what calls name; "
                "trace it again: firsttouch port -- COMMAND"
            )
        return self._settled()

    def read_sites(self) -> None:
        """Reads nothing but where calls came from."""
        try:
            adders: Mapping[int, Callable[[memoryview], None]] | None = None
            for kind, content in self._file.records():
                if adders is None:
                    layout = self._file.layout
                    adders = {layout["text"].kind: self._add_text, layout["site"].kind: self._add_site}
                if (add := adders.get(kind)) is not None:
                    add(content)
        except (struct.error, KeyError):
            raise self._file.broken() from None

    @property
    def sites(self) -> Iterable[CallSite]:
        return self._sites.values()

    def _settled(self) -> TracedCalls:
        calls = self._calls
        for index in self._unplaced:
            block = calls[index]
            assert isinstance(block, CudaBlock)
            if site := self._sites.get(self._site_of_call.get(block.correlation, 0)):
                calls[index] = msgspec.structs.replace(block, site=site)
        if any(later.t < earlier.t for earlier, later in pairwise(calls)):
            calls.sort(key=lambda call: call.t)  # calls of several threads
        durations = dict(self._durations)
        for key, number in self._graph_launches.items():
            if key in self._of_graphs:
                durations[number] = self._of_graphs[key]
        return TracedCalls(self._file.pid, calls, durations, tuple(self._incomplete()))

    def _incomplete(self) -> list[str]:
        said = list(dict.fromkeys(self._notices))
        if self._file.left_out:
            said.append(f"{self._file.left_out:,} records that the journal had no room for")
        if self._lost:
            said.append(f"{self._lost:,} records that CUPTI had no room for")
        if self._other_nodes:
            said.append("copies and fills of CUDA graphs, of which only the kernels are recorded")
        return said

    def _adders(self, layout: Mapping[str, Structure]) -> Mapping[int, Callable[[memoryview], None]]:
        """What adds the content of a record, by its kind. Kinds that this version of the format lacks are left out."""
        whole: dict[str, Callable[[memoryview], None]] = {
            "text": self._add_text,
            "site": self._add_site,
            "notice": self._add_notice,
            "arguments": self._add_arguments,
            "pointers": self._add_pointers,
            "graph": self._add_graph,
        }
        of_fields: dict[str, Callable[..., None]] = {
            "call": self._add_call,
            "lost": self._add_lost,
            "clocks": self._add_clocks,
            "launch": self._add_launch,
            "move": self._add_move,
            "block": self._add_block,
            "wait": self._add_wait,
            "query": self._add_query,
            "graph_launch": self._add_graph_launch,
        }
        if "launch" in layout:
            of_fields |= {"copy": self._add_time, "kernel": self._add_time}
        adders = whole | {name: layout[name].passed_to(add) for name, add in of_fields.items() if name in layout}
        return {layout[name].kind: add for name, add in adders.items() if name in layout}

    def _read(self, name: str, content: memoryview) -> Any:
        return self._file.layout[name].read(content)

    def _parts(self, name: str, after: str, number: int, content: memoryview) -> list[Any]:
        """The structures that follow a record, which says how many they are."""
        part, start = self._file.layout[name], self._file.layout[after].size
        if start + number * part.size > len(content):
            raise self._file.broken()
        return [part.read(content, start + index * part.size) for index in range(number)]

    # ------------------------------------------------------------------------------------------------ what is named

    def _add_text(self, content: memoryview) -> None:
        record, start = self._read("text", content), self._file.layout["text"].size
        self._texts[record.number] = bytes(content[start : start + record.bytes]).decode(errors="replace")

    def _add_site(self, content: memoryview) -> None:
        record = self._read("site", content)
        frames = self._parts("frame", "site", record.frames, content)
        self._sites[record.number] = tuple(CallFrame(self._texts[frame.file], frame.offset) for frame in frames)

    def _add_notice(self, content: memoryview) -> None:
        record, start = self._read("notice", content), self._file.layout["notice"].size
        if record.layer == 1:
            self._notices.append(bytes(content[start : start + record.bytes]).decode(errors="replace"))

    def _add_call(self, correlation: int, site: int) -> None:
        self._site_of_call[correlation] = site

    def _add_lost(self, records: int) -> None:
        self._lost += records

    def _add_clocks(self, time: int) -> None:
        self._traced = True

    def _add_arguments(self, content: memoryview) -> None:
        record = self._read("arguments", content)
        words = self._parts("word", "arguments", record.words, content)
        self._arguments[record.number] = Arguments(
            kernel=self._texts[record.kernel],
            words=tuple(ArgumentWord(word.parameter, word.offset, word.address) for word in words),
            sizes_known=record.sizes_known == 1,
        )

    def _add_graph(self, content: memoryview) -> None:
        record = self._read("graph", content)
        nodes = self._parts("node", "graph", record.nodes, content)
        self._graphs[record.number] = [(node.node, node.arguments) for node in nodes if node.kind == _KERNEL_NODE]
        self._other_nodes |= any(node.kind in (1, 2) for node in nodes)  # copies and fills

    # ------------------------------------------------------------------------------------------------ calls

    def _add_launch(self, time: int, correlation: int, arguments: int, site: int, flags: int) -> None:
        self._calls.append(
            CudaLaunch(
                t=time * 1e-9,
                correlation=correlation,
                arguments=self._arguments[arguments],
                site=self._sites[site],
                captured=bool(flags & _CAPTURED),
                cooperative=bool(flags & _COOPERATIVE),
            )
        )

    def _add_graph_launch(self, time: int, correlation: int, graph: int, site: int) -> None:
        for node, arguments in self._graphs.get(graph, [(0, 0)]):
            number = -1 - len(self._graph_launches)
            self._graph_launches[correlation, node] = number
            self._calls.append(
                CudaLaunch(
                    t=time * 1e-9,
                    correlation=number,
                    arguments=self._arguments[arguments],
                    site=self._sites[site],
                    graph=True,
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
        correlation: int,
        site: int,
        thread: int,
        device: int,
        stream: int,
        advice: int,
        what: int,
        host: int,
        flags: int,
    ) -> None:
        self._calls.append(
            CudaMove(
                t=time * 1e-9,
                correlation=correlation,
                what=_MOVES[what],
                source=source,
                target=target,
                bytes=bytes,
                rows=max(1, rows),
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
                captured=bool(flags & _CAPTURED),
                site=self._sites[site],
            )
        )

    def _add_pointers(self, content: memoryview) -> None:
        record = self._read("pointers", content)
        start = self._file.layout["pointers"].size
        addresses = struct.unpack_from(f"<{record.addresses}Q", content, start)
        self._calls.append(
            CudaPointers(
                t=record.time * 1e-9, correlation=record.correlation, target=record.target, addresses=addresses
            )
        )

    def _add_block(
        self, time: int, address: int, bytes: int, correlation: int, name: int, begins: int, memory: int
    ) -> None:
        self._unplaced.append(len(self._calls))
        self._calls.append(
            CudaBlock(
                t=time * 1e-9,
                correlation=correlation,
                address=address,
                bytes=bytes,
                begins=begins == 1,
                kind=_KINDS[memory] if memory < len(_KINDS) else "unknown",
                name=self._texts[name],
            )
        )

    def _add_wait(self, time: int, stack: int, thread: int, what: int) -> None:
        self._calls.append(CudaWait(t=time * 1e-9, thread=thread, what=_WAITS[what], stack=stack))

    def _add_query(self, time: int, free: int, total: int, site: int) -> None:
        frames = self._sites[site]
        vendor = bool(frames and _VENDORS.search(frames[0].file))
        self._calls.append(CudaQuery(t=time * 1e-9, free=free, total=total, site=frames, vendor=vendor))

    # ------------------------------------------------------------------------------------------------ times

    def _add_time(self, start_stamp: int, end_stamp: int, correlation: int, graph_node: int) -> None:
        seconds = max(0, end_stamp - start_stamp) * 1e-9
        if graph_node:
            self._of_graphs[correlation, graph_node] += seconds
        else:
            self._durations[correlation] += seconds
