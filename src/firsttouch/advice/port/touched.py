"""Who touched the bytes of the host that copies join with blocks first, as page faults were sampled (--faults)."""

from __future__ import annotations

from dataclasses import dataclass

from firsttouch.profile.callers import is_of_the_c_library
from firsttouch.profile.schema import TOUCH_GRANULE
from firsttouch.profile.touches import RangeTouches, TouchIndex, TouchPlace
from firsttouch.profile.trace import is_of_a_runtime
from firsttouch.profile.traced import CallLocation
from firsttouch.program.partners import Partners
from firsttouch.program.trace import TracedCopy, TracedRun, beside_launches


@dataclass(frozen=True)
class TouchedRange:
    """A range of the host that copies join with a block. block: its number; number: the step of the first copy."""

    block: int
    number: int
    start: int
    end: int
    touches: RangeTouches


def touched_ranges(run: TracedRun, partners: Partners, touches: TouchIndex) -> list[TouchedRange]:
    """The partners of each block in the life that has most of them, with who touched them first. What the program
    allocated through CUDA is left out: the driver touches it.
    """
    first: dict[int, int] = {}
    for number, step in run.once(beside_launches):
        if type(step) is TracedCopy and step.way in ("h2d", "d2h"):
            first.setdefault(step.device.block, number)
    ranges = []
    for block, lives in enumerate(partners):
        life = max(lives, key=lambda life: life.all_host().total(), default=None)
        for start, end, place in life.spans_with_places() if life is not None else ():
            if place == "pinned":
                continue
            ranges.append(TouchedRange(block, first[block], start, end, _touches_inside(touches, start, end)))
    return ranges


def _touches_inside(touches: TouchIndex, start: int, end: int) -> RangeTouches:
    """The touches of granules that lie wholly in a range: other granules hold other data too."""
    first, last = -(-start // TOUCH_GRANULE) * TOUCH_GRANULE, end // TOUCH_GRANULE * TOUCH_GRANULE
    return touches.of(first, last) if first < last else RangeTouches()


def touched_by(touches: RangeTouches) -> CallLocation | None:
    """The place of the earliest sampled touch that is neither of CUDA nor of an unknown caller of the C library; of
    those that were read together, the one with most.
    """
    program_places = (
        p for p in touches.places if not (is_of_a_runtime(p.file, p.function) or is_of_the_c_library(p.file))
    )
    place = min(program_places, key=lambda place: (place.since, -place.samples), default=None)
    return place_of_touch(place) if place is not None else None


def place_of_touch(place: TouchPlace) -> CallLocation:
    return CallLocation(place.function, place.source, place.line, place.file)
