"""The sixth hazard: memory that is copied, which the program did not allocate itself. Its first touches tell: those of
a container are in the C++ library's code, those of a library in another file than the calls of CUDA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt

from firsttouch import _core
from firsttouch.advice.port.hazards import Findings
from firsttouch.advice.port.places import OFFSET, Places
from firsttouch.profile.callers import is_of_the_c_library
from firsttouch.profile.schema import TOUCH_GRANULE
from firsttouch.profile.touches import RangeTouches, TouchIndex, TouchPlace
from firsttouch.profile.trace import is_of_cuda
from firsttouch.profile.traced import CallLocation
from firsttouch.program.partners import Partners
from firsttouch.program.trace import TracedCopy, TracedRun

_FUNCTION = re.compile(r"^(?:[\w:<>,*& ]+ )?(?:std|__gnu_cxx)::")
"""A demangled name, perhaps behind the type that it returns."""
_STRING = re.compile(r"^(?:[\w:<>,*& ]+ )?std::(?:__cxx11::)?basic_string<")
_CONTAINER = "a container of the C++ library"
_HEADERS = re.compile(r"/c\+\+/(?:v?\d[\w.]*/)")
"""Headers of the C++ library, whose functions are inlined."""
HALF = 0.5
"""The part of the first touches of a range from which on they are a container's: one that doubles as it grows moves at
least half of what it holds in the end.
"""


@dataclass(frozen=True)
class TouchedRange:
    """A range of the host that copies join with a block. block: its number; number: the step of the first copy."""

    block: int
    number: int
    start: int
    end: int
    touches: RangeTouches


def touched_ranges(run: TracedRun, partners: Partners, touches: TouchIndex) -> list[TouchedRange]:
    """The partners of each block in the life that has most of them, with who touched them first."""
    first: dict[int, int] = {}
    for number, step in enumerate(run.steps):
        if isinstance(step, TracedCopy) and step.way in ("h2d", "d2h"):
            first.setdefault(step.device.block, number)
    ranges = []
    for block, lives in enumerate(partners):
        life = max(lives, key=lambda life: life.all_host().total(), default=None)
        for start, end in life.spans if life is not None else ():
            ranges.append(TouchedRange(block, first[block], start, end, _touches_inside(touches, start, end)))
    return ranges


def _touches_inside(touches: TouchIndex, start: int, end: int) -> RangeTouches:
    """The touches of granules that lie wholly in a range: other granules hold other data too."""
    first, last = -(-start // TOUCH_GRANULE) * TOUCH_GRANULE, end // TOUCH_GRANULE * TOUCH_GRANULE
    return touches.of(first, last) if first < last else RangeTouches()


def touched_by(touches: RangeTouches) -> CallLocation | None:
    """The place of most first touches that are neither of CUDA nor of an unknown caller of the C library."""
    program_places = (p for p in touches.places if not (is_of_cuda(p.file, p.function) or is_of_the_c_library(p.file)))
    place = next(program_places, None)
    return place_of_touch(place) if place is not None else None


def place_of_touch(place: TouchPlace) -> CallLocation:
    return CallLocation(place.function, place.source, place.line, place.file)


def find_hidden(run: TracedRun, ranges: Sequence[TouchedRange], places: Places, findings: Findings) -> None:
    """Adds ranges of whose sampled first touches half are in the C++ library's code or in a library."""
    program_files = {places.of(block.site).file.partition(OFFSET)[0] for block in run.blocks if block.site}
    for touched_range in ranges:
        for place, word in _hidden_place(touched_range.touches, program_files):
            text = f"the first touches are in {word}"
            reading = "that memory was given back and is used anew, or comes from an allocator of the program"
            found = findings.of("hidden", "likely", text, reading, apart=(touched_range.block, touched_range.start))
            found.add(
                touched_range.number,
                touched_range.end - touched_range.start,
                place_of_touch(place),
                touched_range.block,
            )


def _hidden_place(touches: RangeTouches, program_files: set[str]) -> Iterator[tuple[TouchPlace, str]]:
    """The place with most touches and a word for what hides there, if half of them are there."""
    places = [place for place in touches.places if not is_of_cuda(place.file, place.function)]
    hidden = [(place, word) for place in places if (word := _word_for_place(place, program_files))]
    samples = sum(place.samples for place in places)
    share = sum(place.samples for place, _ in hidden) / max(1, samples)
    if hidden and share + HALF / sqrt(samples) >= HALF:  # allows for the standard error of a sampled half
        yield hidden[0]


def _word_for_place(place: TouchPlace, program_files: set[str]) -> str:
    name = _core.demangle(place.function) if place.function else ""
    if is_of_the_c_library(place.file):  # which also reads numbers and text into the program's memory
        return _CONTAINER if _STRING.match(name) else ""
    if _FUNCTION.match(name) or _HEADERS.search(place.source):
        return _CONTAINER
    return "a library" if place.file.startswith("/") and place.file not in program_files else ""
