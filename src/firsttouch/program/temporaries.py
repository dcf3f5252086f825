"""Allocations that the templates of a library make for one of their calls, such as the temporary storage of Thrust.
Such code is in the program's own file, but the program cannot change it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence, Set
from functools import lru_cache

import msgspec

from firsttouch.profile.calls import AnyCall, BlockCall, LaunchCall
from firsttouch.profile.living import Living
from firsttouch.profile.recorded import CallSite
from firsttouch.profile.symbols.names import function_name, kernel_name
from firsttouch.profile.trace import is_of_the_runtime
from firsttouch.profile.traced import CallerTable

_NAMESPACES = ("thrust::", "cub::")


class _Temporary(msgspec.Struct, eq=False):
    """An allocation of the device. place: that of its call. by_library, by_others: kernels got it."""

    place: int
    nbytes: int
    by_library: bool = False
    by_others: bool = False


def library_temporaries(calls: Sequence[AnyCall], names: CallerTable) -> Set[int]:
    """The places of the calls that allocate what is freed within the same call of the program's line, and that only
    kernels of the library get. An allocator that keeps memory, and a container, free it elsewhere or not at all.
    """
    candidates = {*_freed_at_their_line(calls, names)} if names else frozenset()
    if not candidates:
        return frozenset()
    alive, found, seen = Living[_Temporary](), set[int](), set[int]()
    for place, call in enumerate(calls):
        if isinstance(call, BlockCall):
            ended = alive.remove(call.address)
            if ended is not None and ended.by_library and not ended.by_others:
                found.add(ended.place)
            if place in candidates:
                alive.add(call.address, _Temporary(place, call.bytes))
            seen.clear()
        elif isinstance(call, LaunchCall) and alive.at and call.arguments and id(call.arguments) not in seen:
            seen.add(id(call.arguments))
            is_library = _is_library_kernel(call.arguments.kernel)
            for word in call.arguments.words:
                if (named := alive.find(word.address)) is not None:
                    named[0].by_library |= is_library
                    named[0].by_others |= not is_library
    return found


def _freed_at_their_line(calls: Sequence[AnyCall], names: CallerTable) -> Iterator[int]:
    """The places of the calls that allocate memory of the device which the same line frees."""
    begun: dict[int, tuple[int, Hashable]] = {}
    lines: dict[int, Hashable] = {}
    """By the identity of a site, since it takes long to compare them."""
    for place, call in enumerate(calls):
        if not isinstance(call, BlockCall):
            continue
        before = begun.pop(call.address, None)
        if id(call.site) not in lines:
            lines[id(call.site)] = _program_line(call.site, names)
        line = lines[id(call.site)]
        if call.begins and call.kind == "device" and call.bytes and line is not None:
            begun[call.address] = place, line
        elif not call.begins and before is not None and before[1] == line:
            yield before[0]


def _program_line(site: CallSite, names: CallerTable) -> Hashable:
    """The line of the program that led to a call, also where the library's code was inlined there; the place in its
    file if the line is unknown; None if there is neither.
    """
    for frame in site:
        caller = names.get((frame.file, frame.offset))
        if caller is not None and (is_of_the_runtime(caller.function) or _is_of_library(caller.function)):
            continue
        return (caller.source, caller.number) if caller is not None and caller.source else frame
    return None


def _is_of_library(demangled: str) -> bool:
    return function_name(demangled).startswith(_NAMESPACES)


@lru_cache(maxsize=4096)
def _is_library_kernel(mangled: str) -> bool:
    return kernel_name(mangled).startswith(_NAMESPACES)
