"""For which kernels a library copied in a thread of its own, as XLA does. No line of the user leads to such a copy, but
the line is known that launched the kernels which were given the same memory of the device.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from firsttouch.profile.calls import AnyCall, BlockCall, LaunchCall, MoveCall
from firsttouch.profile.living import Living
from firsttouch.profile.recorded import CallSite


class _Given(NamedTuple):
    """An address that a launch was given. order: the number of the launch in the direction that is searched."""

    order: int
    launch: LaunchCall
    nbytes: int = 1


def launches_of_copies(calls: Sequence[AnyCall], copies: Collection[MoveCall]) -> dict[int, CallSite]:
    """By the identity of a copy: where the next launch was called that is given an address of what a copy brings to the
    device, or the last launch that was given one of what it brings to the host. An allocation ends the search.
    """
    found: dict[int, CallSite] = {}
    ours = {id(copy) for copy in copies}
    for way, in_order in (("d2h", calls), ("h2d", calls[::-1])) if ours else ():
        given = Living[_Given]()
        for order, call in enumerate(in_order):
            if isinstance(call, LaunchCall) and not call.captured:
                for word in call.arguments.words if call.arguments else ():
                    given.add(word.address, _Given(order, call))
            elif isinstance(call, BlockCall) and call.begins:
                for address in given.within(call.address, call.bytes):
                    given.remove(address)
            elif isinstance(call, MoveCall) and id(call) in ours and call.direction == way:
                start = call.source if way == "d2h" else call.target
                near = [given.at[address] for address in given.within(start, call.bytes * call.rows)]
                if near:
                    found[id(call)] = max(near, key=lambda address: address.order).launch.site
    return found
