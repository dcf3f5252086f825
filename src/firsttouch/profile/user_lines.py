"""Which line of the user's own files made a call, or which library did on its own account.

The innermost frame that is no library's is the user's: of a program with PyTorch a line of its script, of a program
with cuBLAS the line that calls it. A call that no such frame leads to is the library's own, unless frames may be
missing: the recorder keeps so many, and none of Python in journals of version 2.
"""

from __future__ import annotations

import re

import msgspec
from msgspec.structs import replace

from firsttouch.profile.call_journal import VENDOR
from firsttouch.profile.callers import is_of_the_c_library
from firsttouch.profile.recorded import CallFrame, CallSite
from firsttouch.profile.symbols.lookup import is_of_the_system
from firsttouch.profile.trace import PACKAGE, is_of_a_runtime, is_of_the_runtime
from firsttouch.profile.traced import CallerTable, CallLocation, place_of

OFFSET = "+0x"
"""What is between a file and the offset of a call in it."""
A_LIBRARY = "a library"
"""One whose name is not known."""
MOST_FRAMES = 12
"""The recorder keeps so many frames of a compiled program (native/profile/inject/core/places.cpp)."""
_INTERPRETER = re.compile(r"(?:^|/)(?:python[\d.]*|libpython[\w.]*\.so[\w.]*)$")
_PYTHON_SOURCE = re.compile(r"\.pyw?$|^<")


class UserPlace(msgspec.Struct, frozen=True):
    """Where a call came from. place: the user's line; or where in a library it was made, if `library` names one.

    is_its_own: no line of the user led to the library's call; else the line is unknown. kernels: of a library's own
    copy, the user's line that launched the kernels which it was for.
    """

    place: CallLocation
    library: str = ""
    is_its_own: bool = False
    kernels: CallLocation | None = None


def is_of_a_library(file: str) -> bool:
    """Whether a program or a source file belongs to a library, an interpreter or the system, not to the user."""
    named = any(pattern.search(file) for pattern in (PACKAGE, _INTERPRETER, VENDOR))
    return named or is_of_the_system(file) or is_of_the_c_library(file) or is_of_a_runtime(file, "")


def library_name(file: str) -> str:
    """'torch' of a file in its package, 'libcublas' of /usr/lib/libcublas.so.13, else the name of the file."""
    if package := PACKAGE.search(file):
        return package[1].removesuffix(".py")
    return file.rpartition("/")[2].partition(".so")[0] or "?"


def told_by_offset(place: CallLocation, frame: CallFrame) -> CallLocation:
    """A call whose line is unknown is told from others of its file by its offset in it."""
    return place if place.source else replace(place, file=f"{frame.file}{OFFSET}{frame.offset:x}")


class UserPlaces:
    """The user's place of each call, by its site. Equal places are the same object."""

    def __init__(self, names: CallerTable) -> None:
        self._names, self._places = names, dict[UserPlace, UserPlace]()
        self._known: dict[int, tuple[CallSite, UserPlace]] = {}
        """By the identity of the site, which is kept: the calls of a line share one."""

    def of(self, site: CallSite) -> UserPlace:
        if (known := self._known.get(id(site))) is None:
            place = self._find(site)
            known = self._known[id(site)] = site, self._places.setdefault(place, place)
        return known[1]

    def with_kernels(self, place: UserPlace, launch: CallSite) -> UserPlace:
        """The place of a library's own copy that was for the kernels of a launch, if a line of the user is known."""
        of_launch = self.of(launch)
        if of_launch.library or not of_launch.place.source:
            return place
        told = replace(place, kernels=of_launch.place)
        return self._places.setdefault(told, told)

    def made_by(self, site: CallSite) -> str:
        """The library in which a call was made, whoever called the library; '' if the user's program made it. A line of
        Python calls the driver through one, of which the recorder may have left out the frames.
        """
        for frame in site:
            place = self._place(frame)
            if _PYTHON_SOURCE.search(frame.file):
                return A_LIBRARY
            if not is_of_the_runtime(place.function):
                return library_name(frame.file) if self._is_passed(frame, place) else ""
        return ""

    def _find(self, site: CallSite) -> UserPlace:
        places = [self._place(frame) for frame in site]
        for frame, place in zip(site, places, strict=True):
            if not self._is_passed(frame, place):
                return UserPlace(place)
        made = [i for i, frame in enumerate(site) if not _INTERPRETER.search(frame.file)]
        if not made:
            return UserPlace(places[0] if places else CallLocation())
        library = next((i for i in made if not is_of_the_runtime(places[i].function)), made[0])
        is_python = any(_PYTHON_SOURCE.search(frame.file) for frame in site)
        is_interpreted = any(_INTERPRETER.search(frame.file) for frame in site)
        is_cut = len(site) >= MOST_FRAMES or (is_interpreted and not is_python)
        return UserPlace(places[library], library_name(site[library].file), not is_cut)

    def _place(self, frame: CallFrame) -> CallLocation:
        return told_by_offset(place_of((frame,), self._names), frame)

    def _is_passed(self, frame: CallFrame, place: CallLocation) -> bool:
        """Whether a frame is of a library, also where it was inlined into the user's program."""
        function = place.function
        return (
            not frame.file
            or is_of_a_library(frame.file)
            or is_of_a_runtime(frame.file, function)
            or is_of_a_library(place.source)
        )
