"""The blocks of a traced program with their copies, partners and launches, and what of them is not needed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from firsttouch import _core
from firsttouch.advice.port.cpu_use import CpuUse, cpu_uses
from firsttouch.advice.port.host_arrays import array_numbers, largest_lives, shared_bytes
from firsttouch.advice.port.places import Places, blocks_told_apart, largest, summed
from firsttouch.advice.port.port_findings import (
    MOST_PARTNERS,
    CopyCount,
    HostPartner,
    OtherCopied,
    OtherCopies,
    PortBlock,
)
from firsttouch.advice.port.touched import TouchedRange, touched_by
from firsttouch.base.units import format_size
from firsttouch.profile.recorded import CallSite
from firsttouch.profile.touches import RangeTouches
from firsttouch.program.partners import LifePartners, Partners, may_pair
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import (
    MANAGED_KINDS,
    NO_BLOCK,
    STATIC_KINDS,
    TracedAllocation,
    TracedBlock,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedMapping,
    TracedRun,
    TracedUse,
    beside_launches,
)
from firsttouch.program.watched import has_looks


@dataclass
class _SiteCopies:
    """Copies in one direction: their number, and their bytes by call."""

    copies: int = 0
    total: int = 0
    sites: dict[int, CallSite] = field(default_factory=dict)
    """The calls by identity, since it takes long to compare them."""
    bytes: Counter[int] = field(default_factory=Counter)

    def add(self, site: CallSite, nbytes: int, times: int = 1) -> None:
        self.copies += times
        self.total += times * nbytes
        self.sites[id(site)] = site
        self.bytes[id(site)] += times * nbytes

    def counted(self, places: Places) -> CopyCount:
        by_place = summed((places.of(self.sites[key]), size) for key, size in self.bytes.items())
        return CopyCount(copies=self.copies, bytes=self.total, places=largest(by_place))


@dataclass
class BlockUse:
    """What a program does with a block. copied_from: whether any copy reads it, back or to another block. launches:
    that name it; last: the step that used it last in each life. idle: whether it was not used any more when blocks held
    most.
    """

    into: _SiteCopies = field(default_factory=_SiteCopies)
    out: _SiteCopies = field(default_factory=_SiteCopies)
    copied_from: bool = False
    launches: int = 0
    may_write: bool = False
    last: dict[int, int] = field(default_factory=dict)
    idle: bool = False


@dataclass
class ProgramUse:
    """blocks: by number. copies, copied: between the host and blocks that may have a partner. other: other copies."""

    blocks: dict[int, BlockUse]
    copies: int = 0
    copied: int = 0
    other: defaultdict[OtherCopied, _SiteCopies] = field(default_factory=lambda: defaultdict(_SiteCopies))

    def others(self, places: Places) -> Iterator[OtherCopies]:
        """The other copies, those of most bytes first."""
        for of, copies in sorted(self.other.items(), key=lambda row: -row[1].total):
            counted = copies.counted(places)
            yield OtherCopies(of=of, copies=counted.copies, bytes=counted.bytes, places=counted.places)


@dataclass
class _Alike:
    """Copies of the same bytes by the same call. copy: the first; last: the step of the last."""

    copy: TracedCopy
    times: int = 0
    last: int = -1


def block_use(run: TracedRun) -> ProgramUse:
    """What the steps of a program do with its blocks."""
    use = ProgramUse(defaultdict(BlockUse))
    lives = Counter[int]()
    sets = Counter[int]()
    named: dict[int, tuple[TracedUse, ...]] = {}
    latest: dict[int, int] = {}
    alike: dict[tuple[object, ...], _Alike] = {}
    """The copies since a block began or ended."""

    def settle() -> None:
        for copies in alike.values():
            copy = copies.copy
            use.blocks[copy.source.block].copied_from = True
            for side in (copy.source, copy.target):
                last, life = use.blocks[side.block].last, lives[side.block] - 1
                last[life] = max(copies.last, last.get(life, -1))
            if copy.way in ("h2d", "d2h") and copy.device.block != NO_BLOCK:
                _count_copies(use, run, copies)
            elif copy.way == "d2d":
                sides = (run.blocks[side.block] for side in (copy.source, copy.target))
                if (managed := next((block for block in sides if block.kind in MANAGED_KINDS), None)) is not None:
                    _add_other(use, _other_kind(managed, copy), copies)
        alike.clear()
        for key, number in latest.items():
            for traced_use in named[key]:
                last = use.blocks[traced_use.block].last
                life = lives[traced_use.block] - 1
                last[life] = max(number, last.get(life, -1))
        latest.clear()

    for number, step in enumerate(run.steps):
        if type(step) is TracedLaunch:
            if not step.call.captured:
                key = id(step.uses)
                named[key] = step.uses
                sets[key] += 1
                latest[key] = number
        elif type(step) is TracedAllocation:
            settle()
            lives[step.block] += step.begins
        elif type(step) is TracedCopy:
            of_copy = id(step.source), id(step.target), id(step.call.site), step.call.host
            if (known := alike.get(of_copy)) is None:
                known = alike[of_copy] = _Alike(step)
            known.times += 1
            known.last = number
        elif type(step) is TracedFill:
            last, life = use.blocks[step.target.block].last, lives[step.target.block] - 1
            last[life] = max(number, last.get(life, -1))
    settle()
    for key, count in sets.items():
        for traced in named[key]:
            block = use.blocks[traced.block]
            block.launches += count
            block.may_write |= traced.may_write
    _mark_idle(use, run)
    return use


def _mark_idle(use: ProgramUse, run: TracedRun) -> None:
    """Marks the blocks that were alive when all blocks held most, and not used from then on."""
    held_bytes = most = at = 0
    for number, step in run.once(beside_launches):
        if isinstance(step, TracedAllocation | TracedMapping) and not run.blocks[step.block].on_host:
            held_bytes += step.change
            if held_bytes > most:
                most, at = held_bytes, number
    for block in run.blocks:
        for life, block_life in enumerate(block.lives):
            last = use.blocks[block.number].last.get(life)
            if block_life.first < at < block_life.last and last is not None and last < at:
                use.blocks[block.number].idle = True


def _count_copies(use: ProgramUse, run: TracedRun, copies: _Alike) -> None:
    copy = copies.copy
    block = use.blocks[copy.device.block]
    way, nbytes = block.into if copy.way == "h2d" else block.out, copy.device.total
    way.add(copy.call.site, nbytes, copies.times)
    if may_pair(run.blocks[copy.device.block], copy):
        use.copies += copies.times
        use.copied += copies.times * nbytes
    else:
        _add_other(use, _other_kind(run.blocks[copy.device.block], copy), copies)


def _add_other(use: ProgramUse, of: OtherCopied, copies: _Alike) -> None:
    use.other[of].add(copies.copy.call.site, copies.copy.target.total, copies.times)


def _other_kind(block: TracedBlock, copy: TracedCopy) -> OtherCopied:
    if block.kind in MANAGED_KINDS:
        return "sharing" if block.sharing else "managed"
    if block.kind in STATIC_KINDS:
        return "static"
    return "array" if block.kind == "array" else "stack" if copy.call.host == "stack" else "library"


def port_blocks(
    run: TracedRun,
    partners: Partners,
    use: ProgramUse,
    places: Places,
    touched: Sequence[TouchedRange],
    kept: Mapping[int, Ranges],
) -> list[PortBlock]:
    """The blocks of the device, those that save most first. kept: the host's bytes that stay beside each."""
    of_cpu = run.once(cpu_uses).blocks if has_looks(run) else None
    by_address = {(touched_range.block, touched_range.start): touched_range.touches for touched_range in touched}
    apart, lives = blocks_told_apart(run.blocks, places.names), largest_lives(run, partners)
    arrays, shared = array_numbers(lives), shared_bytes(lives, kept)
    blocks = [_block(run, block, lives[block.number].joint, shared[block.number], arrays, use.blocks[block.number],
                     places, by_address, None if of_cpu is None else of_cpu.get(block.number, CpuUse()),
                     apart.get(block.site), kept.get(block.number, Ranges()))
              for block in run.blocks if not block.on_host]  # fmt: skip
    return sorted(blocks, key=lambda block: (-block.saves, -block.bytes))


def _block(
    run: TracedRun,
    block: TracedBlock,
    joint: LifePartners,
    shared: int,
    arrays: Mapping[tuple[int, int], int],
    use: BlockUse,
    places: Places,
    touches: Mapping[tuple[int, int], RangeTouches],
    of_cpu: CpuUse | None,
    apart: CallSite | None,
    kept: Ranges,
) -> PortBlock:
    partners = _host_partners(block.number, joint, arrays, touches, kept)
    return PortBlock(
        number=block.number,
        name=_core.demangle(block.name) if block.name else "",
        bytes=block.nbytes,
        kind=block.kind,
        allocations=len(block.lives),
        place=places.of(apart or block.site),
        helper=places.of(block.site) if apart else None,
        partners=partners[:MOST_PARTNERS],
        ranges=len(partners),
        into=use.into.counted(places),
        out=use.out.counted(places),
        saves=joint.saves - shared,
        launches=None if run.unknown else use.launches,
        may_write=use.may_write,
        unread=of_cpu.unread if of_cpu else None,
        unwatched=of_cpu.unwatched if of_cpu else None,
        read_again=of_cpu.read_again if of_cpu else None,
        unused=_unneeded_parts(run, block, use, of_cpu),
        in_pool=block.in_pool,
    )


def _host_partners(
    number: int,
    life: LifePartners,
    arrays: Mapping[tuple[int, int], int],
    touches: Mapping[tuple[int, int], RangeTouches],
    kept: Ranges,
) -> list[HostPartner]:
    """The host partners of one life of a block; other lives most likely have the same ranges at other addresses."""
    rows = []
    for start, end, place in life.spans_with_places():
        touch = touches.get((number, start), RangeTouches())
        for ranges, window in ((life.host, False), (life.windows, True)):
            if nbytes := ranges.bytes_in(start, end):
                row = HostPartner(
                    bytes=nbytes, place=place, window=window, touched=touched_by(touch), every=touch.every,
                    threads=touch.threads, kept=kept.overlaps(start, end), array=arrays[number, start],
                )  # fmt: skip
                rows.append(row)
    return sorted(rows, key=lambda row: -row.bytes)


def _unneeded_parts(run: TracedRun, block: TracedBlock, use: BlockUse, of_cpu: CpuUse | None) -> list[str]:
    """What of a block is not needed, as far as the trace tells."""
    if block.name or block.is_of_vendor or run.is_partial:  # what follows is of what the program did not do
        return []
    sentences = []
    if block.in_pool:
        pass  # it is used through the allocator that has it, which decides when it is given back
    elif not use.launches and not run.unknown:
        copied = use.into.copies or use.out.copies
        sentences.append("passed to no kernel" if copied else "passed to no kernel and not copied")
    elif use.may_write and not use.out.copies and use.into.copies and "OpenMP" not in run.apis:  # no const tells there
        sentences.append("possibly written by a kernel, never copied back")
    if use.idle and not block.in_pool:
        sentences.append("no longer used when memory use peaks")
    if of_cpu and of_cpu.unread:
        part = "" if of_cpu.unread >= use.out.total else f"{format_size(of_cpu.unread, 3)} "
        least = "at least " if part and of_cpu.unwatched else ""
        sentences.append(f"{least}{part}copied back and never read")
    return sentences
