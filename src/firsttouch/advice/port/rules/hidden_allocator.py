"""Memory that is copied, which the program did not allocate itself. Its first touches tell: those of a container are in
the C++ library's code, those of a library in none of the files from which the program allocates blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import sqrt

from firsttouch import _core
from firsttouch.advice.port.places import Places, counted
from firsttouch.advice.port.rule import Coverage, FindingWords, Hazard
from firsttouch.advice.port.touched import place_of_touch
from firsttouch.profile.callers import is_of_the_c_library
from firsttouch.profile.recorded import CallSite
from firsttouch.profile.touches import RangeTouches, TouchPlace
from firsttouch.profile.trace import is_of_a_runtime
from firsttouch.profile.user_lines import OFFSET

_FUNCTION = re.compile(r"^(?:[\w:<>,*& ]+ )?(?:std|__gnu_cxx)::")
"""A demangled name, perhaps behind the type that it returns."""
_STRING = re.compile(r"^(?:[\w:<>,*& ]+ )?std::(?:__cxx11::)?basic_string<")
_CALLS_THE_PROGRAM = re.compile(
    r"^(?:[\w:<>,*& ]+ )?std::(?:__\w+::)?"
    r"(?:j?thread|_Function|function|__future_base|_Bind|__?invoke|for_each|transform|generate)"
)
"""Functions of the C++ library into which the program's own may be inlined."""
_HEADERS = re.compile(r"/c\+\+/v?\d[\w.]*/")
"""Headers of the C++ library, whose functions are inlined."""
_OF_CONTAINERS = re.compile(
    _HEADERS.pattern + r"(?:[\w-]+/)*(?:stl_|__)?(?:b?vector|deque|(?:forward_)?list|tree|(?:multi)?(?:map|set)"
    r"|hash_?table\w*|unordered_\w+|(?:basic_)?string|valarray\w*|uninitialized\w*|construct(?:_at)?"
    r"|(?:new_)?allocator|alloc(?:ator)?_traits|unique_ptr|shared_ptr\w*|split_buffer|bit_reference)(?:\.h|\.tcc)?$"
)
"""Those that allocate, not those of algorithms: std::fill also fills memory that the program allocated."""
HALF = 0.5
"""The part of the first touches of a range from which on they are a container's: one that doubles as it grows moves at
least half of what it holds in the end.
"""
_REUSED = "that memory was freed and reused, or the program allocated it itself"


class HiddenAllocator(Hazard):
    """Ranges of whose sampled first touches half are in the C++ library's code or in a library."""

    name = "hidden"
    title = "hidden allocator"
    order = 6
    words = {
        "container": FindingWords(
            "a container of the C++ library touches the memory first", _REUSED, memory="memory of malloc"
        ),
        "library": FindingWords("a library touches the memory first", _REUSED, memory="memory of malloc"),
    }
    strategy = "give the container an allocator of unified memory, and reserve its final size"
    chapter = "hidden-allocators"
    limits = {
        "not sampled": "no first touches were sampled (--faults)",
        "none sampled": "none of the sampled first touches is in a copied buffer",
        "partly sampled": "{unknown} of {ranges} of host memory have no sampled first touch",
    }

    def finish(self) -> None:
        run, places = self.state.run, self.state.places
        program_files = {file for block in run.blocks for file in _files_of_the_program(block.site, places)}
        for touched in self.state.touched or ():
            for place, variant in _hidden_place(touched.touches, program_files):
                row = self.row(variant, "likely", (touched.block, touched.start))
                row.add(touched.number, touched.end - touched.start, place_of_touch(place), touched.block)

    def coverage(self) -> Coverage:
        touched = self.state.touched
        if touched is None:
            return Coverage(False, "not sampled")
        unknown = sum(not touched_range.touches.samples for touched_range in touched)
        if touched and unknown == len(touched):
            return Coverage(False, "none sampled")
        grounds = {"unknown": str(unknown), "ranges": counted(len(touched), "range")}
        return Coverage(True, "partly sampled", grounds) if unknown else Coverage()


def _files_of_the_program(site: CallSite, places: Places) -> Iterator[str]:
    """The file that allocates a block, and those that lead to this call, which may be in a library of the program's. Of
    Python only the first: the others are the interpreter and packages.
    """
    if site:
        yield places.of(site).file.partition(OFFSET)[0]
    if not any(frame.function for frame in site):
        yield from (frame.file for frame in site)


def _hidden_place(touches: RangeTouches, program_files: set[str]) -> Iterator[tuple[TouchPlace, str]]:
    """The place with most touches and the variant of what hides there, if half of them are there."""
    places = [place for place in touches.places if not is_of_a_runtime(place.file, place.function)]
    hidden = [(place, variant) for place in places if (variant := _variant_of_place(place, program_files))]
    samples = sum(place.samples for place in places)
    share = sum(place.samples for place, _ in hidden) / max(1, samples)
    if hidden and share + HALF / sqrt(samples) >= HALF:  # allows for the standard error of a sampled half
        yield hidden[0]


def _variant_of_place(place: TouchPlace, program_files: set[str]) -> str:
    name = _core.demangle(place.function) if place.function else ""
    if is_of_the_c_library(place.file):  # which also reads numbers and text into the program's memory
        return "container" if _STRING.match(name) else ""
    if any(map(_OF_CONTAINERS.search, place.headers)):
        return "container"
    if _HEADERS.search(place.source) if place.source else not _CALLS_THE_PROGRAM.match(name) and _FUNCTION.match(name):
        return "container"
    return "library" if place.file.startswith("/") and place.file not in program_files else ""
