"""Buffers that a program makes only to have page-locked memory of the host, for which OpenCL has no other call: they
are mapped, and what is mapped is the host's side of copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from firsttouch.profile.calls import AnyCall, BlockCall, LaunchCall, MappedView, MoveCall
from firsttouch.profile.living import Living


@dataclass(eq=False)
class _Buffer:
    """address: of its own; host: where the CPU finds it, 0 unless it was mapped. staged: whether copies of other
    buffers use it; used: whether the device may use it otherwise.
    """

    address: int
    nbytes: int
    used: bool
    host: int = 0
    staged: bool = False

    @property
    def is_page_locked(self) -> bool:
        return self.host != 0 and self.staged and not self.used


def with_page_locked(calls: list[AnyCall]) -> list[AnyCall]:
    """The calls, with such buffers as page-locked memory at the addresses where the CPU finds them."""
    if not any(type(call) is BlockCall and "made" in call.sharing for call in calls):
        return calls
    page_locked = {place: buffer for place, buffer in _buffers(calls).items() if buffer.is_page_locked}
    return [*_moved(calls, page_locked)] if page_locked else calls


def _buffers(calls: Sequence[AnyCall]) -> dict[int, _Buffer]:
    """All blocks by the numbers of the calls that make them."""
    made, alive, mapped = dict[int, _Buffer](), Living[_Buffer](), Living[_Buffer]()
    for place, call in enumerate(calls):
        if type(call) is BlockCall and call.begins:
            made[place] = _Buffer(call.address, call.bytes, used="made" not in call.sharing)
            alive.add(call.address, made[place])
        elif type(call) is BlockCall:
            gone = alive.remove(call.address)
            if gone is not None and mapped.at.get(gone.host) is gone:
                mapped.remove(gone.host)
        elif type(call) is LaunchCall:
            words = call.arguments.words if call.arguments else ()
            named = [at[0] for word in words if (at := alive.find(word.address) or mapped.find(word.address))]
            for buffer in named if call.arguments else alive.at.values():
                buffer.used = True
        elif type(call) is MappedView and call.begins and (at := alive.find(call.address)):
            buffer, host = at[0], call.host - at[1]
            buffer.used |= call.host == 0 or buffer.host not in (0, host)
            buffer.host = buffer.host or host
            if not buffer.used:
                mapped.add(host, buffer)
        elif type(call) is MoveCall and call.what == "copy":
            for one, other in ((call.source, call.target), (call.target, call.source)):
                if at := mapped.find(one) or alive.find(one):
                    beside = alive.find(other)
                    is_staged = beside is not None and beside[0] is not at[0]
                    at[0].staged |= is_staged
                    at[0].used |= not is_staged
        elif type(call) is MoveCall and (at := alive.find(call.target)):
            at[0].used = True
    return made


def _moved(calls: Sequence[AnyCall], page_locked: Mapping[int, _Buffer]) -> Iterator[AnyCall]:
    """page_locked: by the numbers of the calls that make them."""
    alive, mapped = Living[_Buffer](), Living[_Buffer]()

    def host_of(address: int) -> int:
        at = alive.find(address)
        return at[0].host + at[1] if at else address

    for place, call in enumerate(calls):
        if type(call) is BlockCall and (place in page_locked or (not call.begins and call.address in alive.at)):
            buffer = page_locked[place] if call.begins else alive.at[call.address]
            if call.begins:
                alive.add(buffer.address, buffer)
                mapped.add(buffer.host, buffer)
            else:
                alive.remove(buffer.address)
                mapped.remove(buffer.host)
            yield msgspec.structs.replace(call, address=buffer.host, kind="pinned", sharing=frozenset())
        elif type(call) is MoveCall and call.what == "copy":
            source, target = host_of(call.source), host_of(call.target)
            if mapped.find(source) or mapped.find(target):
                yield msgspec.structs.replace(call, source=source, target=target, host="pinned")
            else:
                yield call
        elif not (type(call) is MappedView and alive.find(call.address)):
            yield call
