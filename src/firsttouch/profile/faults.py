"""Sampled page faults: which instruction of which file touched a page first, and in which mapping the page is.

The kernel's records tell each mapping when it is made. An address space is therefore known at every instant: a child
begins with its parent's, a program that is executed with an empty one, and later mappings replace those below them.
Two changes are not told, munmap and mremap, so that an address may seem to be in a mapping that is gone; an address
that is in none is looked up in /proc/PID/maps, at most once a second for each process.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from firsttouch.profile.callers import Callers, FileOffset, is_of_the_c_library, plain_name
from firsttouch.profile.perf import (
    FaultSample,
    NameChange,
    NewMapping,
    PerfBatch,
    ProcessEnd,
    ProcessStart,
    PythonLine,
)
from firsttouch.profile.schema import AnyLine, Faults, Site, Symbol, TouchSamples
from firsttouch.profile.symbols.lookup import TIME_LIMIT, symbolize
from firsttouch.profile.touches import TouchRecorder
from firsttouch.profile.trace import is_of_a_runtime

ANONYMOUS = "anonymous"
ANONYMOUS_CODE = "anonymous executable memory"
"""The file of code that is in no file, such as that of a just-in-time compiler."""
UNKNOWN = "unknown"
OTHERS = "others"
"""Stands for mappings and sites beyond the first `MOST_NAMES`."""
BRIEF = -1
"""The process key of faults whose process has no key, because it started and ended between two ticks."""
MOST_NAMES, MOST_MAPPINGS, MOST_SITES = 10_000, 70_000, 200_000

_NAMES = {
    "//anon": ANONYMOUS,
    "": ANONYMOUS,
    "/dev/zero (deleted)": "shared anonymous",
    "/anon_hugepage (deleted)": "anonymous, of the pool of huge pages",
}
_UNNAMED = {ANONYMOUS, UNKNOWN, OTHERS, "shared anonymous", "[heap]", "[stack]"}


_LIBRARY = re.compile(r"/(?:lib\w*|site-packages|dist-packages)/|/(?:lib)?python[\d.]+[^/]*$")
"""Files of installed libraries and of Python: what they touch is told by the line of Python that called them."""


class Mapped(NamedTuple):
    """A range of addresses. offset: that of `begin` in the file."""

    begin: int
    end: int
    offset: int
    name: str


class AddressSpace:
    """What a process has mapped, by address. owners: the processes that share this object until one changes it."""

    def __init__(self, rows: Sequence[Mapped] = ()) -> None:
        self.owners = 1
        self._rows = sorted(rows)
        self._begins = [row.begin for row in self._rows]

    def __len__(self) -> int:
        return len(self._rows)

    def copy(self) -> AddressSpace:
        return AddressSpace(self._rows)

    def add(self, new: Mapped) -> None:
        """Maps a range, in place of what was there."""
        if new.begin >= new.end:
            return
        first = bisect_right(self._begins, new.begin) - 1
        if first < 0 or self._rows[first].end <= new.begin:
            first += 1
        last = bisect_left(self._begins, new.end)
        rest = [new]
        for old in self._rows[first:last]:
            if old.begin < new.begin:
                rest.insert(0, old._replace(end=new.begin))
            if old.end > new.end:
                rest.append(old._replace(begin=new.end, offset=old.offset + new.end - old.begin))
        self._rows[first:last] = rest
        self._begins[first:last] = [row.begin for row in rest]

    def at(self, address: int) -> Mapped | None:
        place = bisect_right(self._begins, address) - 1
        if place >= 0 and address < self._rows[place].end:
            return self._rows[place]
        return None


def read_maps(pid: int, proc: Path = Path("/proc")) -> list[Mapped]:
    """The mappings of a process now; none if it has ended or is another user's. Source: proc_pid_maps(5)."""
    rows = []
    try:
        with (proc / str(pid) / "maps").open(errors="surrogateescape") as lines:
            for line in lines:
                words = line.rstrip("\n").split(maxsplit=5)
                begin, _, end = words[0].partition("-")
                rows.append(Mapped(int(begin, 16), int(end, 16), int(words[2], 16), words[5] if len(words) > 5 else ""))
    except (OSError, ValueError, IndexError):
        return []
    return rows


@dataclass
class _FaultingProcess:
    space: AddressSpace
    key: int | None = None
    looked_up: float = 0.0


_Change: TypeAlias = ProcessStart | NameChange | NewMapping | FaultSample | ProcessEnd


class FaultRecorder:
    """Collects the samples of a profile and makes its lines `site`, `faults` and, at its end, `symbol`.

    key_of: returns the key of the process that has a pid now, None if it has none.
    attached: processes that ran before the events began. touches: where the addresses of samples go, if anywhere.
    """

    def __init__(
        self,
        every: int,
        key_of: Callable[[int], int | None],
        attached: Iterable[int] = (),
        touches: TouchRecorder | None = None,
    ) -> None:
        self.every, self._touches = every, touches
        self._key_of = key_of
        self._names: dict[str, str] = {}
        self._sites: dict[tuple[FileOffset, int | None], int] = {}
        self._callers = Callers()
        self._new_sites: list[Site] = []
        self._of_site: Counter[int] = Counter()
        self._counts: Counter[tuple[int, int, str]] = Counter()
        self._lost = self._with_line = self._sure = 0
        self._lines: list[PythonLine] = []
        self._of_lines: dict[int, int] = {}
        """Sites by the numbers of lines of Python."""
        self._processes = {pid: _FaultingProcess(self._space_of(pid)) for pid in attached}

    def take(self, batch: PerfBatch) -> None:
        """Adds what perf events told. Call it when the batch's starts have keys, and its ends still have theirs."""
        self._lost += batch.lost
        self._lines += batch.lines
        changes: list[_Change] = [*batch.starts, *(c for c in batch.names if c.executed), *batch.mappings, *batch.ends]
        if not changes:
            for sample in batch.samples:
                self._sample(sample)
            return
        changes += batch.samples
        changes.sort(key=lambda change: change.t)  # stable: at one time, samples come last
        for change in changes:
            self._take[type(change)](self, change)

    def _space_of(self, pid: int) -> AddressSpace:
        return AddressSpace([row._replace(name=self._name(row.name)) for row in read_maps(pid)])

    def _process(self, pid: int) -> _FaultingProcess:
        process = self._processes.get(pid)
        if process is None:
            process = self._processes[pid] = _FaultingProcess(self._space_of(pid), looked_up=time.monotonic())
        return process

    def _start(self, start: ProcessStart) -> None:
        space = self._process(start.parent).space
        space.owners += 1
        self._processes[start.pid] = _FaultingProcess(space)

    def _execute(self, change: NameChange) -> None:
        if (process := self._processes.get(change.pid)) is not None:
            process.space.owners -= 1
        self._processes[change.pid] = _FaultingProcess(AddressSpace())

    def _end(self, end: ProcessEnd) -> None:
        if (process := self._processes.pop(end.pid, None)) is not None:
            process.space.owners -= 1

    def _map(self, new: NewMapping) -> None:
        process = self._process(new.pid)
        if process.space.owners > 1 or len(process.space) > MOST_MAPPINGS:
            process.space.owners -= 1
            full = len(process.space) > MOST_MAPPINGS  # more than the kernel permits: most are gone
            process.space = self._space_of(new.pid) if full else process.space.copy()
        process.space.add(Mapped(new.address, new.address + new.length, new.offset, self._name(new.file)))

    def _sample(self, sample: FaultSample) -> None:
        process = self._process(sample.pid)
        if process.key is None:
            process.key = self._key_of(sample.pid)
        mapping = process.space.at(sample.address) or self._look_up(sample.pid, process, sample.address)
        place = _place(process.space, sample.instruction) or (ANONYMOUS_CODE, 0)
        caller = self._line_of(sample, place[0])
        if caller is not None:
            self._with_line, self._sure = self._with_line + 1, self._sure + sample.is_sure
        elif sample.stack and is_of_the_c_library(place[0]):
            place_of_caller = self._callers.find(sample.stack, lambda address: _place(process.space, address))
            caller = self._site(place_of_caller) if place_of_caller else None
        site = self._site(place, caller)
        for number in (site, caller):
            if number is not None:
                self._of_site[number] += 1
        key = BRIEF if process.key is None else process.key
        self._counts[site, key, UNKNOWN if mapping is None else mapping.name] += 1
        if self._touches is not None:
            self._touches.add(site, key, sample.tid, sample.address)

    def _look_up(self, pid: int, process: _FaultingProcess, address: int) -> Mapped | None:
        now = time.monotonic()
        if now < process.looked_up + 1.0:
            return None
        process.looked_up = now
        space = self._space_of(pid)
        if len(space):
            process.space.owners -= 1
            process.space = space
        return process.space.at(address)

    def _site(self, place: FileOffset, caller: int | None = None) -> int:
        number = self._sites.get((place, caller))
        if number is None:
            if len(self._sites) >= MOST_SITES:
                place, caller = (OTHERS, 0), None
            number = self._sites.setdefault((place, caller), len(self._sites))
            if number == len(self._sites) - 1:
                self._new_sites.append(Site(site=number, file=place[0], offset=place[1], caller=caller))
        return number

    def _line_of(self, sample: FaultSample, file: str) -> int | None:
        """The site of the line of Python that a sample has. None: the code is the user's, which has lines of its own,
        or the driver's, which writes what copies bring.
        """
        if not sample.line or (file.startswith("/") and not _LIBRARY.search(file)):
            return None
        if self._touches is not None and is_of_a_runtime(file, ""):
            return None
        site = self._of_lines.get(sample.line)
        if site is None:
            source, function, line = self._lines[sample.line - 1]
            source = source.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            site = self._of_lines[sample.line] = len(self._sites)
            self._sites[(f"{source}\0{function}", line), None] = site
            self._new_sites.append(Site(site=site, file=source, offset=line))
        return site

    def _name(self, file: str) -> str:
        """The name under which a mapping is counted, as text that can be written."""
        name = self._names.get(file)
        if name is None:
            if len(self._names) >= MOST_NAMES:
                return OTHERS
            readable = file.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            if readable.startswith("[anon:"):  # named by prctl(PR_SET_VMA), which perf events do not tell
                readable = ""
            name = self._names[file] = _NAMES.get(readable, readable)
        return name

    def flush(self, t: float) -> list[Site | Faults | TouchSamples]:
        """The lines of what came since the last call; t: the time in the file. None if nothing came."""
        if not self._counts and not self._lost:
            return []
        rows = [(*place, count) for place, count in self._counts.most_common()]
        faults = Faults(t=t, every=self.every, rows=rows, lost=self._lost)
        faults.lines, faults.sure, self._with_line, self._sure = self._with_line, self._sure, 0, 0
        touches = self._touches.flush(t) if self._touches is not None else []
        lines: list[Site | Faults | TouchSamples] = [*self._new_sites, faults, *touches]
        self._new_sites, self._lost = [], 0
        self._counts.clear()
        return lines

    def symbols(self, limit: float = TIME_LIMIT) -> list[Symbol]:
        """The functions and source lines of all sites, those with most faults first. limit: seconds for lines."""
        places = {number: place for (place, _), number in self._sites.items()}
        of_python = {site: self._lines[number - 1] for number, site in self._of_lines.items()}
        ranked = [number for number, _ in self._of_site.most_common() if number not in of_python]
        locations = symbolize([places[number] for number in ranked], limit)
        symbols = ((number, locations[places[number]]) for number in ranked)
        lines = [
            Symbol(site=site, function=line.function, source=line.file, number=line.line)
            for site, line in of_python.items()
        ]
        return lines + [
            Symbol(
                site=number,
                function=place.function,
                source=place.source,
                number=place.number,
                headers=list(place.headers),
            )
            for number, place in symbols
            if place.function or place.source
        ]

    _take: dict[type, Callable[..., None]] = {
        ProcessStart: _start,
        NameChange: _execute,
        NewMapping: _map,
        FaultSample: _sample,
        ProcessEnd: _end,
    }


def _place(space: AddressSpace, address: int) -> FileOffset | None:
    """The file that is mapped at an address, and the offset in it; None if it is no file."""
    code = space.at(address)
    if code is None or code.name in _UNNAMED:
        return None
    return code.name, address - code.begin + code.offset


@dataclass(frozen=True)
class FaultRow:
    """The page faults at one place of a program: where pages were touched first.

    file: the program or library; source and line: '' and 0 if unknown; function: '' if unknown. through: the function
    of the C library that touched the page, if the place is a call of it; '' otherwise.
    faults: an estimate, the samples times the period; percent: of all sampled faults.
    mappings: (name, faults), the most faults first.
    """

    function: str
    source: str
    line: int
    file: str
    faults: int
    percent: float
    mappings: tuple[tuple[str, int], ...]
    through: str = ""


@dataclass
class _FaultSum:
    faults: int = 0
    mappings: Counter[str] = field(default_factory=Counter)


def fault_table(lines: Iterable[AnyLine]) -> list[FaultRow]:
    """Where pages were touched first, the most faults first.

    Sites of one line of one function are one row; those of a function without lines too, and those of a file without
    symbols.
    """
    sites: dict[int, Site] = {}
    symbols: dict[int, Symbol] = {}
    sums: defaultdict[int, _FaultSum] = defaultdict(_FaultSum)
    for line in lines:
        if isinstance(line, Site):
            sites[line.site] = line
        elif isinstance(line, Symbol):
            symbols[line.site] = line
        elif isinstance(line, Faults):
            for number, _, mapping, count in line.rows:
                sums[number].faults += count * line.every
                sums[number].mappings[mapping] += count * line.every
    rows: defaultdict[tuple[str, str, int, str, str], _FaultSum] = defaultdict(_FaultSum)
    for number, sum_of_site in sums.items():
        site, through = sites.get(number) or Site(site=number, file=UNKNOWN, offset=0), ""
        if site.caller is not None and (caller := sites.get(site.caller)) is not None:
            through = symbols[number].function if number in symbols else ""
            through, site = through or Path(site.file).name, caller
        symbol = symbols.get(site.site) or Symbol(site=site.site)
        row = rows[symbol.function, symbol.source, symbol.number, site.file, through]
        row.faults += sum_of_site.faults
        row.mappings.update(sum_of_site.mappings)
    total = sum(row.faults for row in rows.values())
    table = [
        FaultRow(
            function,
            source,
            line_number,
            file,
            row.faults,
            100.0 * row.faults / total,
            tuple(row.mappings.most_common()),
            plain_name(through),
        )
        for (function, source, line_number, file, through), row in rows.items()
        if row.faults
    ]
    return sorted(table, key=lambda row: (-row.faults, row.file, row.function, row.source, row.line))


@dataclass(frozen=True)
class SeenShare:
    """Which part of a target's page faults perf events saw. share: None if there were none at all."""

    share: float | None
    sentence: str


def seen_share(user_faults: int, faults: int) -> SeenShare:
    """user_faults: page faults in user mode, as the events counted them or estimated from samples; faults: all minor
    and major faults of the target's processes.
    """
    if faults <= 0:
        return SeenShare(None, "The kernel states no page faults of these processes.")
    share = min(1.0, user_faults / faults)
    return SeenShare(
        share,
        f"{100 * share:.1f} % of the {faults:,} page faults were in user mode and could be sampled; "
        "those inside system calls are not seen.",
    )


def estimated(lines: Iterable[AnyLine]) -> int:
    """The sampled faults of a profile times their period."""
    return sum(line.every * row[3] for line in lines if isinstance(line, Faults) for row in line.rows)
