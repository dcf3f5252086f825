"""The program of a traced run: what a unified version of it does with its memory, with what the program does itself.

=====================  ===========================================================  ==================================
step                   access                                                       certainty
=====================  ===========================================================  ==================================
copy to the device     the CPU writes the bytes, unless the copy only repeats one;  bytes exact, writing assumed, unless
                       those of a block's first copy before compute                 the host's pages were watched
copy back              the CPU reads the bytes; those of the last ones are results  bytes exact
fill, copy on device   the GPU writes and reads                                     exact
launch                 the GPU uses the bytes of the blocks that it names: those    assumed: least nothing, most the
                       that are valid there, or all if none is. It reads if any is  whole block
                       valid, or if it does not write. It writes unless the
                       parameter is const; if none is known to be, what is copied
                       from later, or what one like it wrote by that parameter
launch of which a      the GPU uses the granules of 64 KiB that the kernel used     exact
second run told
=====================  ===========================================================  ==================================

Compute begins with the first launch that names the block to which most bytes are copied, so that what libraries launch
while they are set up belongs to initialise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import prod

from firsttouch.profile.calls import HostUse, WaitCall
from firsttouch.profile.events.log import MemoryEvent
from firsttouch.profile.symbols.names import kernel_name
from firsttouch.program.ahead import look_ahead
from firsttouch.program.declarations import Agent, Role
from firsttouch.program.exact_run import ExactRun, UsedBlock
from firsttouch.program.folding import FoldedPhase
from firsttouch.program.layout import Layout, NameOf, UnifiedPiece, name_of, unique, used_blocks
from firsttouch.program.migrated import ManagedUse, managed_uses
from firsttouch.program.needless import repeated_copies
from firsttouch.program.partners import joined, partners
from firsttouch.program.program import (
    Access,
    AwaitAll,
    Block,
    Certainty,
    CopiedWay,
    Item,
    Launch,
    Move,
    Obtained,
    Program,
    Renew,
)
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import (
    MANAGED_KINDS,
    STATIC_KINDS,
    TracedAllocation,
    TracedCopy,
    TracedFill,
    TracedLaunch,
    TracedRange,
    TracedRun,
    TracedUse,
    writable_parameters,
)
from firsttouch.program.watched import HostWatch
from firsttouch.records.text import count

ROWS = 16
"""The most pieces of a copy or of a block's valid bytes that are accesses of their own; more are one, from the first to
the last."""
SMALL = 64 << 10
"""A block of at most so many bytes that is copied back again and again controls what the program does next."""
FILL, COPY = "fill", "copy on the device"
"""The kernel names of launches that stand for what the driver does."""


def program_of_trace(
    run: TracedRun,
    *,
    title: str = "a traced program",
    name: NameOf = name_of,
    threads: Callable[[int, int], int] = lambda start, end: 1,
    exact: ExactRun | None = None,
    events: Iterable[MemoryEvent] = (),
) -> Program:
    """The program of a run.

    title, name: what the program and its blocks are called. threads: how many threads of the CPU touch bytes
    [start, end) of the host first. exact: what a second run told of what kernels use. events: of its managed memory.
    """
    maker = _Maker(run, title, name, threads, exact or ExactRun(run.launches))
    return maker.program(managed_uses(run, events))


class _BlockUse:
    """What a unified block is used for. copied: how often to the device, back, and back between launches."""

    def __init__(self) -> None:
        self.into = self.back = self.turns = 0
        self.starts_on: Agent | None = None
        self.by_cpu = self.by_kernels = False
        self.times = 1


class _Maker:
    """Goes through the steps of a run once."""

    def __init__(
        self, run: TracedRun, title: str, name: NameOf, threads: Callable[[int, int], int], exact: ExactRun
    ) -> None:
        self.exact = exact
        self.run, self.title, self.name, self.threads = run, title, name, threads
        self.layout = Layout(run, run.once(partners), used_blocks(run))
        self.repeated = {c.copy for c in run.once(repeated_copies).copies if c.why == "needless" and not c.life}
        self.watch = HostWatch(run)
        count = len(self.layout.blocks)
        self.uses = [_BlockUse() for _ in range(count)]
        self.valid = [Ranges() for _ in range(count)]
        """The bytes of each unified block that are valid on the device."""
        self.version = 0
        """How often it has changed which bytes of blocks are valid, or where they are."""
        self._launches: dict[Hashable, tuple[int, int]] = {}
        """By what a launch names, what a second run told of it, its kernel and shape: the version for which its item
        is known, and its number.
        """
        self._moves: dict[Hashable, int] = {}
        """The numbers of items that a copy has become."""
        self.touched = Ranges()
        """The host's bytes that the CPU or a copy has touched."""
        self._samples: dict[tuple[int, int], int] = {}
        """What windows showed of the host's bytes when they were copied last."""
        self.initialise = self.phase = FoldedPhase()
        self.written = [Ranges() for _ in range(count)]
        """The bytes of each unified block that anybody has written, since the program began."""
        self.computing = self.waited = False
        self.life = Counter[int]()
        self.names_of: dict[str, str] = {}
        self.ahead = look_ahead(run, self.layout, self.watch)

    # ------------------------------------------------------------------------------------------------ the items

    def program(self, managed: Mapping[int, Sequence[ManagedUse]]) -> Program:
        """managed: what the CPU used of managed blocks, by the step before which it did."""
        read = {use.block for uses in managed.values() for use in uses if not use.writes}
        self.ahead.sources |= {block_of.number for block, block_of in self.layout.own.items() if block in read}
        for index, step in enumerate(self.run.steps):
            for use in managed.get(index, ()):
                self._managed_use(use)
            if type(step) is TracedLaunch:
                self._launch(index, step)
            elif type(step) is TracedCopy:
                self._copy(index, step)
            elif type(step) is TracedFill:
                self._write(step.target, FILL, step, index)
            elif type(step) is TracedAllocation:
                self._allocation(step)
            elif type(step) is WaitCall:
                if self.computing and not self.waited:
                    self._add(AwaitAll())
                    self.waited = True
            elif type(step) is HostUse:
                self._host_use(index, step)
        for use in managed.get(len(self.run.steps), ()):
            self._managed_use(use)
        compute = self.phase if self.computing else FoldedPhase()
        phases = self.initialise.items(), compute.items()
        assumptions = self._assumptions()
        if compute.is_grouped or self.initialise.is_grouped:
            assumptions.append("kernels between two copies are treated as one, since their order does not recur")
        return Program(
            self.title,
            self._blocks(),
            *phases,
            tuple(assumptions),
            obtained=tuple(self._obtained()),
        )

    def _add(self, item: Item, step: TracedCopy | TracedFill | TracedLaunch | None = None) -> int:
        number = self.phase.folder.number(item)
        self._append(number, step)
        return number

    def _append(self, number: int, step: TracedCopy | TracedFill | TracedLaunch | None) -> None:
        self.phase.append(number, None if step is None else self.run.seconds(step))
        self.waited = False

    def _make_valid(self, block: int, start: int, end: int) -> None:
        self.written[block].add(start, end)
        valid = self.valid[block]
        if valid.bytes_in(start, end) < end - start:
            valid.add(start, end)
            self.version += 1

    def _launch(self, index: int, step: TracedLaunch) -> None:
        call = step.call
        if call.captured:
            return
        if not self.computing and index >= self.ahead.begin:
            self.phase, self.computing = FoldedPhase(), True
            self._launches.clear()
            self._moves.clear()
        used_by_launch, shape = self.exact.uses.get(index), self.run.shapes.get(call.correlation)
        key = (id(step.uses), id(used_by_launch), step.kernel, id(shape))
        version, number = self._launches.get(key, (-1, 0))
        before = self.version
        if version == before:
            self._append(number, step)
            return
        if used_by_launch is None:
            accesses = self._used_by(index, step)
        else:
            accesses = [access for used in used_by_launch for access in self._exact_accesses(index, used)]
        if step.kernel not in self.names_of:
            self.names_of[step.kernel] = kernel_name(step.kernel)
        threads = prod((*shape[0], *shape[1])) if shape else 0
        launch = Launch("gpu", tuple(accesses), kernel=self.names_of[step.kernel], threads=threads)
        for access in accesses:
            self.uses[access.block].starts_on = self.uses[access.block].starts_on or "gpu"
            if access.writes:
                self.uses[access.block].by_kernels = True
                self._make_valid(access.block, access.start, access.end)
        number = self._add(launch, step)
        if self.version == before:
            self._launches[key] = before, number

    def _used_by(self, index: int, step: TracedLaunch) -> list[Access]:
        """What a launch is taken to use. If its kernel has a parameter that is const, it writes by all others; if none
        is, it writes what is copied from or not valid, or else what is never copied to, or else all.
        """
        tells, inputs = False in (writable_parameters(step.kernel) or ()), self.ahead.inputs
        accesses = list[Access]()
        for written in ((lambda _: tells), (lambda block: block not in inputs), (lambda _: True)):
            accesses = [a for use in step.uses for a in self._accesses_of_use(index, use, written, step.kernel)]
            if any(access.writes for access in accesses):
                break
        return accesses

    def _accesses_of_use(self, index: int, use: TracedUse, written: Callable[[int], bool], kernel: str) -> list[Access]:
        """What a launch is taken to use of a block that it names. written: whether a block is though nothing is copied
        from it; static variables are not.
        """
        pieces = self.layout.used(index, use.block, use.start)
        place = (kernel, use.parameter, use.word)
        is_output = place in self.ahead.outputs
        if sum(self.valid[p.block].number_in(p.start, p.end) for p in pieces) > ROWS:
            extents = [self.valid[p.block].extent(p.start, p.end) for p in pieces]
            valid = [UnifiedPiece(pieces[0].block, min(e[0] for e in extents), max(e[1] for e in extents))]
        else:
            valid = [
                UnifiedPiece(p.block, start, end)
                for p in pieces
                for start, end in self.valid[p.block].common(p.start, p.end)
            ]
        if pieces and not (valid or is_output) and use.may_write and use.by == "argument":
            self.ahead.outputs.add(place)
            self.version += 1
        found = []
        for p in valid or pieces:
            is_writing_known = p.block in self.ahead.sources or not valid or is_output
            writes = use.may_write and (is_writing_known or (use.by != "symbol" and written(p.block)))
            reads = bool(valid) or not writes
            found.append(Access(p.block, p.start, p.end, reads, writes, certainty="assumed", least=0))
        return found

    def _exact_accesses(self, index: int, used: UsedBlock) -> list[Access]:
        """What a launch used of a block in the second run."""
        return [
            used_piece.access(piece.block, piece.start, piece.end)
            for used_piece in used.pieces
            for piece in self.layout.used(index, used.block, used_piece.start, used_piece.end)
        ]

    # ------------------------------------------------------------------------------------------------ copies

    def _copy(self, index: int, copy: TracedCopy) -> None:
        if copy.way == "h2d":
            self._copy_in(index, copy)
        elif copy.way == "d2h":
            self._copy_back(index, copy)
        elif copy.way == "d2d":
            reads = self._accesses(self._pieces(index, copy.source), reads=True, writes=False)
            self._write(copy.target, COPY, copy, index, reads)

    def _pieces(self, index: int, side: TracedRange) -> list[UnifiedPiece]:
        """The bytes of a side of a copy on the device, or of a fill."""
        return [p for start, end in side.pieces for p in self.layout.used(index, side.block, start, end)]

    def _accesses(
        self, pieces: Sequence[UnifiedPiece], *, reads: bool, writes: bool, assumed: bool = False
    ) -> list[Access]:
        """Accesses of these bytes. Many pieces are one access."""
        if len(pieces) > ROWS and len({piece.block for piece in pieces}) == 1:
            start, end = min(p.start for p in pieces), max(p.end for p in pieces)
            least = sum(p.end - p.start for p in pieces)
            return [Access(pieces[0].block, start, end, reads, writes, certainty="assumed", least=least)]
        certainty: Certainty = "assumed" if assumed else "exact"
        return [Access(p.block, p.start, p.end, reads, writes, certainty=certainty) for p in pieces]

    def _write(
        self, target: TracedRange, kernel: str, step: TracedCopy | TracedFill, index: int, reads: Iterable[Access] = ()
    ) -> None:
        """The driver writes bytes of a block on the device."""
        writes = self._accesses(self._pieces(index, target), reads=False, writes=True)
        for access in writes:
            self.uses[access.block].starts_on = self.uses[access.block].starts_on or "gpu"
            self._make_valid(access.block, access.start, access.end)
        if accesses := (*reads, *writes):
            self._add(Launch("gpu", accesses, kernel=kernel), step)

    def _move(self, copy: TracedCopy, pieces: Sequence[UnifiedPiece]) -> None:
        pinned = copy.call.host in ("pinned", "registered")
        new = 0
        for start, end, host in joined(copy):
            if missing := (end - start) - self.touched.bytes_in(host, host + end - start):
                self.touched.add(host, host + end - start)
                new += 0 if pinned else missing
        key = (copy.way, copy.device, copy.host, pinned)
        number = -1 if new else self._moves.get(key, -1)
        if number < 0:
            first, last = min((p.start for p in pieces), default=0), max((p.end for p in pieces), default=0)
            way: CopiedWay = "h2d" if copy.way == "h2d" else "d2h"
            block = self.layout.block_of(copy.device.block)
            number = self.phase.folder.number(Move(way, block, first, last, copy.device.total, pinned, new))
            if not new:
                self._moves[key] = number
        self._append(number, copy)

    def _copy_in(self, index: int, copy: TracedCopy) -> None:
        pieces = self.layout.copied(copy)
        self.version += self.layout.is_window(copy.device.block)
        for piece in pieces:
            use = self.uses[piece.block]
            use.into, use.starts_on = use.into + 1, use.starts_on or "cpu"
        if pieces and not (index in self.repeated or self._is_shown_again(copy) or self.watch.covers(copy, pieces)):
            self._use_by_cpu(copy, pieces)
        self.watch.copied(copy, pieces)
        self._move(copy, pieces)
        for piece in pieces:
            self._make_valid(piece.block, piece.start, piece.end)

    def _use_by_cpu(self, copy: TracedCopy, pieces: Sequence[UnifiedPiece]) -> None:
        """The CPU writes what is copied to the device, or reads what was copied back. What is copied first was written
        before compute, as far as is known: the host's bytes were there.
        """
        key = (copy.way, copy.device, copy.host)
        number = self._moves.get(key)
        if self.computing and copy.way == "h2d" and self._is_first_write(copy, pieces):
            self.initialise.append(self.initialise.folder.number(self._cpu_launch(copy, pieces)), None)
            return
        if number is None:
            number = self._moves[key] = self.phase.folder.number(self._cpu_launch(copy, pieces))
        self._append(number, None)

    def _is_first_write(self, copy: TracedCopy, pieces: Sequence[UnifiedPiece]) -> bool:
        """Whether nobody has written the bytes of a block before. What a window shows comes as it is copied."""
        written = any(self.written[piece.block].overlaps(piece.start, piece.end) for piece in pieces)
        return not (written or self.layout.is_window(copy.device.block))

    def _cpu_launch(self, copy: TracedCopy, pieces: Sequence[UnifiedPiece]) -> Launch:
        into = copy.way == "h2d"
        accesses = self._accesses(pieces, reads=not into, writes=into, assumed=into)
        parallel = into and any(self.threads(host, host + end - start) > 1 for start, end, host in joined(copy))
        return Launch("cpu", tuple(accesses), "kernel" if parallel else "view")

    def _is_shown_again(self, copy: TracedCopy) -> bool:
        """Whether a window shows bytes that it, or another, has shown before, and that have not changed since."""
        if not self.layout.is_window(copy.device.block) or copy.call.sample is None or copy.host.rows > 1:
            return False
        key = (copy.call.source, copy.host.nbytes)
        is_same = self._samples.get(key) == copy.call.sample
        self._samples[key] = copy.call.sample
        return is_same

    def _copy_back(self, index: int, copy: TracedCopy) -> None:
        pieces = self.layout.copied(copy)
        for piece in pieces:
            self.uses[piece.block].back += 1
            self.uses[piece.block].turns += self.computing
        self._move(copy, pieces)
        self.watch.copied(copy, pieces)
        if index in self.ahead.results:
            return
        if pieces and not self.watch.reads_after(index):
            self._use_by_cpu(copy, pieces)

    def _host_use(self, index: int, step: HostUse) -> None:
        """The CPU used the host's bytes, as far as they were watched."""
        writes, reads = self.watch.used(index, step)
        for accesses in (reads, writes):
            for access in accesses:
                self.uses[access.block].by_cpu = True
            if accesses:
                self._add(Launch("cpu", tuple(accesses), "view"))

    def _managed_use(self, use: ManagedUse) -> None:
        """The CPU used a managed block. What it wrote before the GPU used it, it wrote before compute."""
        if (unified := self.layout.own.get(use.block)) is None:
            return
        block_use, block = self.uses[unified.number], unified.number
        block_use.into, block_use.back, block_use.by_cpu = (
            block_use.into + use.writes,
            block_use.back + (not use.writes),
            True,
        )
        launch = Launch("cpu", (Access(block, use.start, use.end, not use.writes, use.writes),), "view")
        is_first = use.writes and not self.written[block].overlaps(use.start, use.end)
        phase = self.initialise if is_first else self.phase
        phase.append(phase.folder.number(launch), None)
        if use.writes:
            block_use.starts_on = block_use.starts_on or "cpu"
            self._make_valid(block, use.start, use.end)

    def _allocation(self, step: TracedAllocation) -> None:
        if not step.begins:
            self.layout.ended(step.block)
            if step.block in self.layout.own:
                self.valid[self.layout.own[step.block].number].clear()
            self.version += 1
            return
        self.life[step.block] += 1
        life, unified = self.life[step.block] - 1, self.layout.own.get(step.block)
        if life and unified and not self.layout.keeps(step.block, life):
            self.uses[unified.number].times += 1
            self._add(Renew(unified.number))

    def _blocks(self) -> tuple[Block, ...]:
        names = unique([self._name(n) for n in range(len(self.layout.blocks))])
        return tuple(map(self._block, range(len(names)), names))

    def _name(self, number: int) -> str:
        traced_number = self.layout.blocks[number].own
        return self.name(self.run.blocks[traced_number]) if traced_number >= 0 else f"host block {number}"

    def _block(self, number: int, name: str) -> Block:
        block, use = self.layout.blocks[number], self.uses[number]
        traced = self.run.blocks[block.own] if block.own >= 0 else None
        on_both = bool(traced and (traced.on_host or (traced.kind in MANAGED_KINDS and not use.by_cpu)))
        into, back = bool(use.into) or on_both, bool(use.back) or on_both
        back = back or (into and use.by_kernels)
        role: Role = "inout" if into and back else "input" if into else "output" if back else "scratch"
        if into and back and block.nbytes <= SMALL and use.turns > 1:
            role = "control"
        elif role == "input" and traced and traced.kind in STATIC_KINDS:
            role = "constant"
        on_both_sides = into or back or use.by_cpu
        ends_on: Agent | None = "cpu" if number in self.ahead.result_blocks else None
        return Block(
            name, block.nbytes, role, "both" if on_both_sides else "gpu", use.starts_on, ends_on, times=use.times
        )

    def _obtained(self) -> list[Obtained]:
        """What the program allocates itself."""
        count = Counter[tuple[int, bool, bool]]()
        for step in self.run.steps:
            if type(step) is not TracedAllocation or not step.begins or step.offset:
                continue
            block = self.run.blocks[step.block]
            if block.kind in ("device", "pinned"):
                pinned, nbytes = block.kind == "pinned", step.call.bytes if step.change else block.nbytes
                count[nbytes, pinned, not pinned and self._is_alone(block.number)] += 1
        return [Obtained(nbytes, times, pinned, alone) for (nbytes, pinned, alone), times in count.items()]

    def _is_alone(self, number: int) -> bool:
        """Whether the CPU neither uses a block nor copies to it or from it."""
        if self.layout.is_window(number):
            return False
        if (unified := self.layout.own.get(number)) is None:
            return True
        use = self.uses[unified.number]
        return not (use.into or use.back or use.by_cpu)

    def _assumptions(self) -> list[str]:
        found, run, exact_count = [], self.run, len(self.exact.uses)
        if exact_count and run.launches > exact_count:
            rest = (
                f"{run.launches - exact_count:,} of {run.launches:,} launches were not told of by the second run, and"
            )
            found.append(f"{rest} are taken to use all valid bytes of the blocks that they name")
        elif run.launches > max(run.unknown, exact_count):
            found.append("kernels are taken to use all valid bytes of the blocks that their launches name")
        if scattered := sum(any(u.scattered for u in uses) for uses in self.exact.uses.values()):
            launches = count(scattered, "launch", "launches")
            found.append(f"what is between scattered bytes of {launches} is taken to be used too")
        if run.unknown:
            found.append(f"{run.unknown:,} of {run.launches:,} launches have unknown arguments, and use nothing here")
        if self.ahead.inputs:
            found.append("what is copied to the device is taken to be written by one thread of the CPU")
        unified_of = self.layout.own
        managed = (unified_of.get(block.number) for block in run.blocks if block.kind in MANAGED_KINDS)
        if unseen := sum(block is not None and not self.uses[block.number].by_cpu for block in managed):
            blocks = f"{unseen:,} blocks" if unseen > 1 else "a block"
            found.append(f"what the CPU does with {blocks} of managed memory, of which no page moved, was not seen")
        return found
