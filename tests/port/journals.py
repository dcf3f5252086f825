"""Writes the calls of a trace made by hand as a profile: a journal, and profile.jsonl beside it."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from tests.profile import profiles

from firsttouch import _core
from firsttouch.profile.calls import (
    AnyCall,
    Arguments,
    BlockCall,
    HostPlace,
    HostUse,
    LaunchCall,
    MoveCall,
    MoveKind,
    PointersCall,
    QueryCall,
    TracedCalls,
    WaitCall,
    WaitKind,
)
from firsttouch.profile.recorded import CallFrame, CallSite, MemoryKind
from firsttouch.profile.schema import Caller, ProfileLine

VERSION = 3
HEADER, CHUNK = 4096, 1 << 15


class JournalBytes:
    """The bytes of a journal, record by record. Fields that are not given are 0."""

    def __init__(self, pid: int, version: int = VERSION) -> None:
        self._layout: Mapping[str, Any] = _core.journal_layout(version)
        self.version = version
        self._defaults: dict[str, dict[str, Any]] = {
            record: {name: b"" if name == "magic" else 0 for name in names}
            for record, (_, _, names) in self._layout.items()
        }
        self._forms = {record: struct.Struct(form) for record, (_, form, _) in self._layout.items()}
        header = self.packed("file", magic=b"FTJRNL\r\n", version=version, header_bytes=HEADER, chunk_bytes=CHUNK,
                             process=pid)  # fmt: skip
        self.content = bytearray(header.ljust(HEADER, b"\0"))
        self._texts: dict[str, int] = {"": 0}
        self._sites: dict[CallSite, int] = {(): 0}
        self._arguments: dict[Arguments | None, int] = {None: 0}

    @property
    def file(self) -> bytes:
        """The records, and what is reserved behind them: whole chunks. The header states how many bytes they have."""
        content = bytes(self.content)
        if self.version >= 3:
            records = content[HEADER:]
            complete = len(records) // 8 << 32 | _core.add_to_journal_sum(0, records)
            form = self._layout["file"][1]
            content = (
                struct.pack(form, *struct.unpack_from(form, content)[:-1], complete).ljust(HEADER, b"\0") + records
            )
        return content + bytes(-(len(content) - HEADER) % CHUNK)

    def packed(self, record: str, /, **fields: Any) -> bytes:
        defaults = self._defaults[record]
        values = defaults | fields
        assert len(values) == len(defaults), f"{record} has no field {[*(values.keys() - defaults.keys())]}"
        return self._forms[record].pack(*values.values())

    def add(self, record: str, more: bytes = b"", /, **fields: Any) -> None:
        content = self.packed(record, **fields) + more
        content += bytes(-len(content) % 8)
        kind = self._layout[record][0]
        if len(content) + 8 > (left := CHUNK - (len(self.content) - HEADER) % CHUNK):  # no record crosses a chunk
            self.content += self.packed("record", size=left, kind=0).ljust(left, b"\0")
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

    def call(self, call: AnyCall) -> None:
        time = round(call.t * 1e9)
        if isinstance(call, LaunchCall):
            numbers = {"arguments": self.arguments(call.arguments), "site": self.site(call.site)}
            flags = call.captured + 4 * call.cooperative
            self.add("launch", time=time, correlation=call.correlation, flags=flags, **numbers)
        elif isinstance(call, MoveCall):
            self._move(call, time)
        elif isinstance(call, PointersCall):
            more = struct.pack(f"<{len(call.addresses)}Q", *call.addresses)
            self.add("pointers", more, time=time, target=call.target, correlation=call.correlation,
                     addresses=len(call.addresses))  # fmt: skip
        elif isinstance(call, BlockCall):
            self.add("call", time=time, correlation=call.correlation, site=self.site(call.site))
            kind = get_args(MemoryKind).index(call.kind)
            self.add("block", time=time, address=call.address, bytes=call.bytes, correlation=call.correlation,
                     name=self.text(call.name), begins=call.begins, memory=kind)  # fmt: skip
        elif isinstance(call, WaitCall):
            what = get_args(WaitKind).index(call.what)
            self.add("wait", time=time, stack=call.stack, thread=call.thread, what=what, site=self.site(call.site),
                     **self._began(call))  # fmt: skip
        elif isinstance(call, HostUse):
            self._host_use(call, time)
        elif isinstance(call, QueryCall):
            self.add("query", time=time, free=call.free, total=call.total, site=self.site(call.site))

    def _began(self, call: MoveCall | WaitCall) -> dict[str, int]:
        return {"began": round((call.began or 0) * 1e9)} if self.version > 2 else {}

    def _host_use(self, use: HostUse, time: int) -> None:
        pages = use.address // 4096 * 4096
        pieces = [((start - pages) // 4096, (end - start) // 4096) for start, end in use.writes]
        more = b"".join(self.packed("piece", first=first, count=count) for first, count in pieces)
        read = 2**64 - 1 if use.read is None else use.read
        flags = 2 * use.was_gone + 4 * bool(use.late)
        self.add("host", more, since=round(use.since * 1e9), time=time, address=use.address, bytes=use.bytes,
                 pages=pages, read=read, pieces=len(pieces), flags=flags)  # fmt: skip

    def _move(self, call: MoveCall, time: int) -> None:
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
            **self._began(call),
            **{name: getattr(call, name) for name in same},
        )


def journal(traced: TracedCalls, version: int = VERSION) -> JournalBytes:
    """The journal that a process with these calls would have written."""
    written = JournalBytes(traced.pid, version)
    written.add("clocks", stamp=0, time=0)
    for call in traced.calls:
        written.call(call)
    for correlation, seconds in traced.durations.items():
        written.add("kernel", start_stamp=0, end_stamp=round(seconds * 1e9), correlation=correlation)
    for number, failed in enumerate(each for each in traced.failed for _ in range(each.calls)):
        written.add("failure", time=round(failed.t * 1e9), function=written.text(failed.function), error=failed.error,
                    correlation=2**31 + number, site=written.site(failed.site))  # fmt: skip
    written.add("clocks", stamp=0, time=0)
    return written


def profile(
    directory: Path,
    *processes: TracedCalls,
    callers: Mapping[tuple[str, int], Caller] | None = None,
    lines: Sequence[ProfileLine] = (),
    version: int = VERSION,
) -> Path:
    """A directory with the journals of processes. callers: names of the places of their calls; lines: more of
    profile.jsonl.
    """
    directory.mkdir(parents=True, exist_ok=True)
    profiles.write(directory, *(callers or {}).values(), *lines, command=["/app/p", "arg"])
    for traced in processes:
        (directory / f"journal-{traced.pid}-0.bin").write_bytes(journal(traced, version).file)
    return directory
