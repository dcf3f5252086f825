"""Applies an edit list to the source of a program by machine: each change at the line that it names, and no other.

The programs are those of tests/port/programs. What the list leaves to the reader, namely which variable is which array,
is read from the copies that it drops: `cudaMemcpy(frame, host, bytes, ...)` says that `frame` and `host` are one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from firsttouch.advice.edit import Edit

_COPY = re.compile(r"cudaMemcpy\((.+?), (.+?), [^,]+, cudaMemcpy(HostToDevice|DeviceToHost)\)")
_ALLOCATION = re.compile(r"cudaMalloc\(\(void\*\*\)&(\w+), (?:[^();]|\([^()]*\))+\)")
_FILL = re.compile(r"cudaMemset\([^()]+\)")
_FREE = re.compile(r"cudaFree\(\w+\)")
_NAME = re.compile(r"\w+")
_WAIT = "CHECK(cudaDeviceSynchronize());"
_MANAGED = """
static inline void* managed_memory(size_t bytes) {
    void* address;
    if (cudaMallocManaged(&address, bytes, cudaMemAttachGlobal) != 0) exit(94);
    return memset(address, 1, bytes);
}
"""
_ALLOCATOR = """
template <class T>
struct Managed {
    using value_type = T;
    Managed() = default;
    template <class U>
    Managed(const Managed<U>&) {}
    T* allocate(size_t count) { return static_cast<T*>(managed_memory(count * sizeof(T))); }
    void deallocate(T* address, size_t) { cudaFree(address); }
    bool operator==(const Managed&) const { return true; }
    bool operator!=(const Managed&) const { return false; }
};
"""


@dataclass(frozen=True)
class _Pair:
    """A copy that is dropped: what it names on the device and on the host."""

    device: str
    host: str

    @property
    def block(self) -> str:
        found = _NAME.match(self.device)
        assert found is not None, self.device
        return found.group()


def edited(source: str, edits: Sequence[Edit], *, waits: bool = True) -> str:
    """The source with its changes. waits: False leaves out the calls that wait."""
    lines = source.splitlines()
    numbers = {what: {_number(line) for edit in edits if edit.what == what for line in edit.lines}
               for what in ("allocate", "drop", "omit", "wait", "free")}  # fmt: skip
    pairs = [_pair_at(lines[number - 1]) for number in sorted(numbers["drop"])]
    owners: dict[str, str] = {}
    for pair in pairs:
        if pair.device == pair.block:
            owners.setdefault(pair.block, pair.host)
    for number in numbers["drop"]:
        lines[number - 1] = _COPY.sub("0", lines[number - 1])
    for number in numbers["omit"]:
        lines[number - 1] = _FILL.sub("0", lines[number - 1])
    for number in numbers["allocate"]:
        lines[number - 1] = _ALLOCATION.sub(lambda found: _shared(found, owners), lines[number - 1])
    for number in numbers["free"]:  # when the program ends, as its host arrays are
        lines[number - 1] = _FREE.sub("0", lines[number - 1])
    for number in numbers["wait"] if waits else ():
        lines[number - 1] += f" {_WAIT}"
    text = "\n".join(lines)
    for pair in pairs:
        text = _as_one(text, pair, owners)
    return _with_prelude(text)


def _number(line: str) -> int:
    return int(line.rpartition(":")[2])


def _pair_at(line: str) -> _Pair:
    found = _COPY.search(line)
    assert found is not None, line
    target, source, way = found.groups()
    return _Pair(target, source) if way == "HostToDevice" else _Pair(source, target)


def _shared(found: re.Match[str], owners: dict[str, str]) -> str:
    block = found.group(1)
    host = owners[block]
    return f"(({block} = (__typeof__({block}))({host})), 0)"


def _as_one(text: str, pair: _Pair, owners: dict[str, str]) -> str:
    """The host's side is memory of both from its allocation on; or, of a part of a block, that part."""
    if pair.host.endswith(".data()"):
        vector = pair.host.partition(".")[0]
        return re.sub(rf"std::vector<(\w+)> {vector};", rf"std::vector<\1, Managed<\1>> {vector};", text)
    if owners.get(pair.block) == pair.host:
        return re.sub(rf"(\b{pair.host} = (?:static_cast<\w+\*>\()?)host_memory\(", r"\1managed_memory(", text)
    declared = re.compile(rf"\b{pair.host} = host_memory")
    return "\n".join(
        line if declared.search(line) else re.sub(rf"\b{pair.host}\b", f"({pair.device})", line)
        for line in text.split("\n")
    )


def _with_prelude(text: str) -> str:
    include = '#include "cudart.h"\n'
    if 'extern "C" {' in text:
        include += "}\n"
        return text.replace(include, include + _MANAGED + _ALLOCATOR)
    return text.replace(include, include + _MANAGED)
