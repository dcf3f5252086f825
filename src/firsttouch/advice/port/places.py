"""Names of the calls of a traced program, and sums of what they do."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from firsttouch.base.units import format_size
from firsttouch.profile.call_journal import VENDOR
from firsttouch.profile.headline import short
from firsttouch.profile.recorded import CallSite
from firsttouch.profile.symbols.names import function_name
from firsttouch.profile.trace import is_of_a_package
from firsttouch.profile.traced import CallerTable, CallLocation, FailedCallRow, calling_frame, place_of
from firsttouch.profile.user_lines import library_name, told_by_offset
from firsttouch.program.trace import TracedBlock
from firsttouch.records.text import join_names, join_some

T = TypeVar("T")
UNKNOWN_LINE = "an unknown line"
_OF_PYTHON = re.compile(r"/lib\w*/python3\.\d+/|^<")
"""Files of Python that are neither the user's nor of a package."""
MOST_PLACES = 5
"""The most calls of which a finding tells."""
_LONGEST_FUNCTION = 60


class Places:
    """The place in the program of each call, by its site."""

    def __init__(self, names: CallerTable) -> None:
        self.names, self._known = names, dict[int, tuple[CallSite, CallLocation]]()
        """By the identity of a site, since it takes long to compare them."""
        self._in_program = dict[int, tuple[CallSite, CallLocation]]()

    def of(self, site: CallSite) -> CallLocation:
        if id(site) not in self._known:
            self._known[id(site)] = site, self._named(site)
        return self._known[id(site)][1]

    def in_program(self, site: CallSite) -> CallLocation:
        """The place of a call that a library of the vendor makes is where the program calls that."""
        if id(site) not in self._in_program:
            program_frame = next((n for n, frame in enumerate(site) if not VENDOR.search(frame.file)), 0)
            self._in_program[id(site)] = site, self.of(site[program_frame:])
        return self._in_program[id(site)][1]

    def _named(self, site: CallSite) -> CallLocation:
        """A call whose line is unknown is told from others of its file by its offset in it."""
        place = place_of(site, self.names)
        frame = calling_frame(site, self.names)
        return told_by_offset(place, frame) if frame and place.file else place


class PlaceGroups(Generic[T]):
    """What belongs to calls, by their places in the program and what else tells it apart, in order of the first."""

    def __init__(self, places: Places) -> None:
        self.groups: dict[tuple[Hashable, tuple[CallLocation, ...]], list[T]] = {}
        self._places, self._by_sites = places, dict[tuple[Hashable, tuple[int, ...]], list[T]]()
        """By the identities of sites, since it takes long to compare places."""

    def add(self, member: T, *sites: CallSite, apart: Hashable = None) -> None:
        """sites: of its calls, which have to live on."""
        key = apart, tuple(map(id, sites))
        if (group := self._by_sites.get(key)) is None:
            places = tuple(map(self._places.in_program, sites))
            group = self._by_sites[key] = self.groups.setdefault((apart, places), [])
        group.append(member)


def blocks_told_apart(blocks: Sequence[TracedBlock], names: CallerTable) -> dict[CallSite, CallSite]:
    """What tells apart the blocks that a helper of the program allocates for others: by the place of each, its frames
    from the innermost one on that differs. Only of calls that allocate half of all blocks or more.
    """
    sites = [block.site for block in blocks if block.site and not block.on_host and not block.name]
    chains = {site: _frames_with_lines(site, names) for site in dict.fromkeys(sites)}
    by_call: defaultdict[Hashable, list[CallSite]] = defaultdict(list)
    for site, chain in chains.items():
        if len(chain) > 1:
            by_call[chain[0][1]].append(site)
    apart: dict[CallSite, CallSite] = {}

    def differ(group: Sequence[CallSite], depth: int, named: int) -> None:
        by_line: defaultdict[Hashable, list[CallSite]] = defaultdict(list)
        for site in group:
            by_line[chains[site][depth][1] if depth < len(chains[site]) else None].append(site)
        for line, alike in by_line.items():
            at = depth if len(by_line) > 1 and line is not None else named
            if len(alike) > 1 and line is not None:
                differ(alike, depth + 1, at)
            elif at:
                apart.update((site, site[chains[site][at][0] :]) for site in alike)

    for group in by_call.values():
        if len(group) > 1 and 2 * len(group) >= len(chains):
            differ(group, 1, 0)
    return apart


def _frames_with_lines(site: CallSite, names: CallerTable) -> list[tuple[int, Hashable]]:
    """The program's frame that called CUDA and those around it with lines of the user, by their number in the site."""
    first = calling_frame(site, names)
    start = site.index(first) if first else 0
    frames = list[tuple[int, Hashable]]()
    for number, (frame, line) in enumerate(zip(site, lines_of(site, names), strict=True)):
        is_line = frame.function or (frame.file, frame.offset) != line
        if number == start or (number > start and is_line and not _is_of_python(frame.file)):
            frames.append((number, line))
    return frames


def _is_of_python(file: str) -> bool:
    """Whether a file belongs to a package, to the standard library or to code without a file."""
    return is_of_a_package(file) or _OF_PYTHON.search(file) is not None


def lines_of(site: CallSite, names: CallerTable) -> tuple[Hashable, ...]:
    """What tells a call apart from others: the lines that lead to it, of which a template may have several copies; or
    the place in the file where the line is unknown, or is that of other code.
    """
    lines = (names.get((frame.file, frame.offset)) for frame in site)
    return tuple(
        (line.source, line.number) if line is not None and line.source and not line.near else (frame.file, frame.offset)
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
    """'file:line' of a place, without folders, after 'near' if the call itself has no line; the offset in the file of
    the program if its line is unknown.
    """
    if place.source and place.line:
        return f"{'near ' if place.near else ''}{place.source.rpartition('/')[2]}:{place.line}"
    return place.file.rpartition("/")[2] or place.function or UNKNOWN_LINE


def counted(number: int, noun: str, several: str = "") -> str:
    """'1 copy', '28,640 copies'. several: the plural, if it has not just an s."""
    return f"{number:,} {noun if number == 1 else several or f'{noun}s'}"


def compared_part(compared: int, each: int) -> str:
    """How many of the bytes of a copy were compared with those of another one; '' if all were."""
    return "" if compared >= each else f" ({format_size(compared, 3)} of {format_size(each, 3)} compared)"


def where(place: CallLocation, after: CallLocation | None = None) -> str:
    """A call in few words: 'bpnn_train_cuda backprop_cuda.cu:99'. after: the place that was named just before, of which
    the same function and file are left out: ':165'. A function of an installed package without lines has its name:
    'CudaStream::Memcpy of jax_plugins'.
    """
    if is_of_a_package(place.file) and not place.source and place.function:
        name = "::".join(function_name(place.function).split("::")[-2:])
        return f"{short(name, _LONGEST_FUNCTION)} of {library_name(place.file)}"
    source = place.source.rpartition("/")[2]
    if after is not None and place.source and place.source == after.source and place.function == after.function:
        return f"{'near ' if place.near else ''}:{place.line}"
    line = line_of(place) if source else place.file.rpartition("/")[2]
    return f"{short(function_name(place.function), _LONGEST_FUNCTION)} {line}".strip() or "an unknown call"


def failed_words(rows: Sequence[FailedCallRow]) -> str:
    """How many calls failed, and the first of them; '' if none did."""
    if not rows:
        return ""
    first, calls = rows[0], sum(row.calls for row in rows)
    which = f"{first.function} at {where(first.place)}, error {first.error}"
    return f"{counted(calls, 'call')} failed ({'first: ' if calls > 1 else ''}{which})"


def untimed_words(apis: Sequence[str]) -> str:
    """'' of none."""
    names = join_names(apis)
    return f"{names} {'tells' if len(apis) == 1 else 'tell'} no times of copies and kernels" if names else ""


def unfinished_words(number: int) -> str:
    """'' of none."""
    if not number:
        return ""
    return (
        f"{counted(number, 'copy or kernel', 'copies and kernels')} had not ended when the program or its context did"
    )


def where_allocated(place: CallLocation, helper: CallLocation | None, after: CallLocation | None = None) -> str:
    """The call that allocates a block. helper: what it calls for that, if that is named too; after: as for `where`."""
    return where(place, after) + (f" by {function_name(helper.function) or line_of(helper)}" if helper else "")


def named_places(places: Sequence[CallLocation], before: CallLocation | None = None, most: int = 0) -> str:
    """Several calls, those of one file and function with their lines only. before: one that was named just before.
    most: so many are named, and the others are counted; 0: all.
    """
    texts: list[str] = []
    for place in places:
        texts.append(where(place, before))
        before = place
    return join_some(list(dict.fromkeys(texts)), most or len(texts))
