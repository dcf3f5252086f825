"""Writes the calls of a trace made by hand as a profile: a journal, and profile.jsonl beside it."""

from __future__ import annotations

import struct
from collections import namedtuple
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from tests.profile import profiles

from firsttouch import _core
from firsttouch.profile.calls import (
    Arguments,
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
from firsttouch.profile.schema import Caller, ProfileLine

VERSION = 3


class JournalBytes:
    """The bytes of a journal, record by record. Fields that are not given are 0."""

    def __init__(self, pid: int, version: int = VERSION) -> None:
        self._layout: Mapping[str, Any] = _core.journal_layout(version)
        self.version = version
        header = self.packed("file", magic=b"FTJRNL\r\n", version=version, header_bytes=4096, chunk_bytes=1 << 18,
                             process=pid)  # fmt: skip
        self.content = header.ljust(4096, b"\0")
        self._texts: dict[str, int] = {"": 0}
        self._sites: dict[CallSite, int] = {(): 0}
        self._arguments: dict[Arguments | None, int] = {None: 0}

    def packed(self, record: str, /, **fields: Any) -> bytes:
        _, form, names = self._layout[record]
        defaults = namedtuple("Fields", names, defaults=[b"" if n == "magic" else 0 for n in names])
        return struct.pack(form, *defaults(**fields))

    def add(self, record: str, more: bytes = b"", /, **fields: Any) -> None:
        content = self.packed(record, **fields) + more
        content += bytes(-len(content) % 8)
        kind = self._layout[record][0]
        self.content += self.packed("record", size=len(content) + 8, kind=kind) + content

    def text(self, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = len(self._texts)
            self.add("text", text.encode(), number=self._texts[text], bytes=len(text.encode()))
        return self._texts[text]

    def site(self, site: CallSite) -> int:
        if site not in self._sites:
            frames = b"".join(
                self.packed("frame", offset=frame.offset, file=self.text(frame.file), **self._python(frame))
                for frame in site
            )
            self._sites[site] = len(self._sites)
            self.add("site", frames, number=self._sites[site], frames=len(site))
        return self._sites[site]

    def _python(self, frame: CallFrame) -> dict[str, int]:
        return {"function": self.text(frame.function)} if self.version > 2 else {}

    def arguments(self, arguments: Arguments | None) -> int:
        if arguments not in self._arguments:
            assert arguments is not None
            words = b"".join(
                self.packed("word", address=word.address, parameter=word.parameter, offset=word.offset)
                for word in arguments.words
            )
            kernel = self.text(arguments.kernel)
            self._arguments[arguments] = len(self._arguments)
            self.add("arguments", words, number=self._arguments[arguments], kernel=kernel, words=len(arguments.words),
                     sizes_known=arguments.sizes_known)  # fmt: skip
        return self._arguments[arguments]

    def call(self, call: CudaCall) -> None:
        time = round(call.t * 1e9)
        if isinstance(call, CudaLaunch):
            numbers = {"arguments": self.arguments(call.arguments), "site": self.site(call.site)}
            flags = call.captured + 4 * call.cooperative
            self.add("launch", time=time, correlation=call.correlation, flags=flags, **numbers)
        elif isinstance(call, CudaMove):
            self._move(call, time)
        elif isinstance(call, CudaPointers):
            more = struct.pack(f"<{len(call.addresses)}Q", *call.addresses)
            self.add("pointers", more, time=time, target=call.target, correlation=call.correlation,
                     addresses=len(call.addresses))  # fmt: skip
        elif isinstance(call, CudaBlock):
            self.add("call", time=time, correlation=call.correlation, site=self.site(call.site))
            kind = get_args(MemoryKind).index(call.kind)
            self.add("block", time=time, address=call.address, bytes=call.bytes, correlation=call.correlation,
                     name=self.text(call.name), begins=call.begins, memory=kind)  # fmt: skip
        elif isinstance(call, CudaWait):
            what = get_args(WaitKind).index(call.what)
            self.add("wait", time=time, stack=call.stack, thread=call.thread, what=what)
        elif isinstance(call, CudaQuery):
            self.add("query", time=time, free=call.free, total=call.total, site=self.site(call.site))

    def _move(self, call: CudaMove, time: int) -> None:
        flags = call.captured + 4 * call.blocking + 8 * (call.sample is not None) + 16 * (call.before is not None)
        same = ("source", "target", "bytes", "rows", "source_pitch", "target_pitch", "correlation", "thread", "device",
                "stream", "advice")  # fmt: skip
        self.add(
            "move",
            time=time,
            site=self.site(call.site),
            what=get_args(MoveKind).index(call.what),
            host=get_args(HostPlace).index(call.host),
            flags=flags,
            sample=call.sample or 0,
            before=call.before or 0,
            **{name: getattr(call, name) for name in same},
        )


def journal(traced: TracedCalls) -> JournalBytes:
    """The journal that a process with these calls would have written."""
    written = JournalBytes(traced.pid)
    written.add("clocks", stamp=0, time=0)
    for call in traced.calls:
        written.call(call)
    for correlation, seconds in traced.durations.items():
        written.add("kernel", start_stamp=0, end_stamp=round(seconds * 1e9), correlation=correlation)
    return written


def profile(
    directory: Path,
    *processes: TracedCalls,
    callers: Mapping[tuple[str, int], Caller] | None = None,
    lines: Sequence[ProfileLine] = (),
) -> Path:
    """A directory with the journals of processes. callers: names of the places of their calls; lines: more of
    profile.jsonl.
    """
    directory.mkdir(exist_ok=True)
    profiles.write(directory, *(callers or {}).values(), *lines, command=["/app/p", "arg"])
    for traced in processes:
        (directory / f"journal-{traced.pid}-0.bin").write_bytes(journal(traced).content)
    return directory
