"""Names of the calls of a traced program, and sums of what they do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence

from msgspec.structs import replace

from firsttouch.base.units import format_size
from firsttouch.profile.cuda import CallSite
from firsttouch.profile.symbols.names import function_name
from firsttouch.profile.trace import caller
from firsttouch.profile.traced import CallerTable, CallLocation, place_of
from firsttouch.records.text import join_some

OFFSET = "+0x"
"""What is between a file and the offset of a call in it."""
UNKNOWN_LINE = "an unknown line"
MOST_PLACES = 5
"""The most calls of which a finding tells."""


class Places:
    """The place in the program of each call, by its site."""

    def __init__(self, names: CallerTable) -> None:
        self._names, self._known = names, dict[int, tuple[CallSite, CallLocation]]()
        """By the identity of a site, since it takes long to compare them."""

    def of(self, site: CallSite) -> CallLocation:
        if id(site) not in self._known:
            self._known[id(site)] = site, self._named(site)
        return self._known[id(site)][1]

    def _named(self, site: CallSite) -> CallLocation:
        """A call whose line is unknown is told from others of its file by its offset in it."""
        place = place_of(site, self._names)
        if place.source or not place.file:
            return place
        frame = caller(site, lambda file, offset: self._names[file, offset].function if (file, offset) in self._names
                       else "")  # fmt: skip
        return replace(place, file=f"{place.file}{OFFSET}{frame.offset:x}") if frame else place


def lines_of(site: CallSite, names: CallerTable) -> Hashable:
    """What tells a call apart from others: the lines that lead to it, of which a template may have several copies; or
    the place in the file where the line is unknown.
    """
    lines = (names.get((frame.file, frame.offset)) for frame in site)
    return tuple(
        (line.source, line.number) if line is not None and line.source else (frame.file, frame.offset)
        for frame, line in zip(site, lines, strict=True)
    )


def largest(sums: Mapping[CallLocation, int], most: int = MOST_PLACES) -> list[CallLocation]:
    """The places with the largest sums."""
    return sorted(sums, key=lambda place: -sums[place])[:most]


def summed(pairs: Iterable[tuple[CallLocation, int]]) -> dict[CallLocation, int]:
    sums: defaultdict[CallLocation, int] = defaultdict(int)
    for place, value in pairs:
        sums[place] += value
    return sums


def line_of(place: CallLocation) -> str:
    """'file:line' of a place, without folders; the offset in the file of the program if its line is unknown."""
    if place.source and place.line:
        return f"{place.source.rpartition('/')[2]}:{place.line}"
    return place.file.rpartition("/")[2] or place.function or UNKNOWN_LINE


def counted(number: int, noun: str, several: str = "") -> str:
    """'1 copy', '28,640 copies'. several: the plural, if it has not just an s."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def compared_part(compared: int, each: int) -> str:
    """How many of the bytes of a copy were compared with those of another one; '' if all were."""
    return "" if compared >= each else f" ({format_size(compared, 3)} of {format_size(each, 3)} compared)"


def where(place: CallLocation, after: CallLocation | None = None) -> str:
    """A call in few words: 'bpnn_train_cuda backprop_cuda.cu:99'. after: the place that was named just before, of which
    the same function and file are left out: ':165'.
    """
    source = place.source.rpartition("/")[2]
    if after is not None and place.source and place.source == after.source and place.function == after.function:
        return f":{place.line}"
    line = f"{source}:{place.line}" if source else place.file.rpartition("/")[2]
    return f"{function_name(place.function)} {line}".strip() or "an unknown call"


def named_places(places: Sequence[CallLocation], before: CallLocation | None = None, most: int = 0) -> str:
    """Several calls, those of one file and function with their lines only. before: one that was named just before.
    most: so many are named, and the others are counted; 0: all.
    """
    texts: list[str] = []
    for place in places:
        texts.append(where(place, before))
        before = place
    return join_some(list(dict.fromkeys(texts)), most or len(texts))
