"""What the steps of a traced run mean by what comes later: where compute begins, and which copies bring results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from firsttouch.program.layout import Layout, on_host
from firsttouch.program.ranges import Ranges
from firsttouch.program.trace import TracedAllocation, TracedCopy, TracedFill, TracedLaunch, TracedRun
from firsttouch.program.watched import HostWatch

MOST = 0.99
"""The part of a block's bytes that is all of it but for padding."""


@dataclass
class Ahead:
    """begin: the step with which compute begins. sources, inputs: the unified blocks from which anything is ever
    copied, and to which anything is copied from the host.

    outputs: kernels, and the words of their parameters by which they must write, since of what they name only one block
    is copied from, or because nothing of a block is valid. So two buffers that take turns are both written.

    results: the last copies of results, which the CPU reads in the end; result_blocks: the unified blocks that have
    them.
    """

    begin: int
    sources: set[int] = field(default_factory=set)
    inputs: set[int] = field(default_factory=set)
    outputs: set[tuple[str, int, int]] = field(default_factory=set)
    results: set[int] = field(default_factory=set)
    result_blocks: set[int] = field(default_factory=set)


def look_ahead(run: TracedRun, layout: Layout, watch: HostWatch) -> Ahead:
    """Goes through the steps of a run."""
    ahead, last, back = (
        Ahead(compute_begins(run)),
        dict[int, int](),
        defaultdict[int, list[tuple[int, TracedCopy]]](list),
    )
    launched: dict[tuple[int, str], tuple[int, TracedLaunch]] = {}
    for index, step in enumerate(run.steps):
        if type(step) is TracedLaunch:
            launched[id(step.uses), step.kernel] = index, step
            continue
        if isinstance(step, (TracedFill, TracedCopy)) and not on_host(run, step.target.block):
            last[step.target.block] = index
        elif type(step) is TracedAllocation:
            last[step.block] = index if step.begins else last.get(step.block, -1)
        elif type(step) is TracedCopy and step.way == "d2h":
            back[step.device.block].append((index, step))
        if type(step) is TracedCopy and step.way == "h2d":
            ahead.inputs.add(layout.block_of(step.device.block))
        elif type(step) is TracedCopy and not on_host(run, step.source.block):
            whole_block = layout.own.get(step.source.block)
            ahead.sources |= {whole_block.number} if whole_block else set()
            if whole_block is None and step.way == "d2h":
                ahead.sources |= {piece.block for piece in layout.copied(step)}
    for _, step in launched.values():
        written = [
            use
            for use in step.uses
            if use.may_write and use.parameter >= 0 and _whole_block_number(layout, use.block) in ahead.sources
        ]
        if len(written) == 1:
            ahead.outputs.add((step.kernel, written[0].parameter, written[0].word))
    for index, step in launched.values():
        for use in step.uses:
            if use.may_write:
                last[use.block] = max(last.get(use.block, -1), index)
    for number, copies in back.items():
        mine = [(index, copy) for index, copy in copies if index > last.get(number, -1)]
        if (whole_block := layout.own.get(number)) and _are_whole_block(mine, whole_block.nbytes, watch):
            ahead.results |= {index for index, _ in mine}
            ahead.result_blocks.add(whole_block.number)
    return ahead


def _whole_block_number(layout: Layout, number: int) -> int | None:
    whole_block = layout.own.get(number)
    return None if whole_block is None else whole_block.number


def _are_whole_block(copies: Sequence[tuple[int, TracedCopy]], nbytes: int, watch: HostWatch) -> bool:
    """Whether the last copies from a block cover it as a whole, and nothing more is known of how the CPU used them."""
    whole = Ranges()
    for _, copy in copies:
        for start, end in copy.device.pieces:
            whole.add(start, end)
    return whole.total() >= MOST * nbytes and not any(watch.reads_after(index) for index, _ in copies)


def compute_begins(run: TracedRun) -> int:
    """The number of the step with which compute begins: the first launch that names the block to which most
    bytes are copied, after one of these copies; if there is none, the first launch; -1 without a launch.
    """
    into, first, copied = Counter[int](), -1, dict[int, int]()
    named: dict[int, int] = {}
    uses: object = None
    for index, step in enumerate(run.steps):
        if type(step) is TracedCopy and step.way == "h2d":
            into[step.device.block] += step.device.total
            copied.setdefault(step.device.block, index)
            uses = None
        elif type(step) is TracedLaunch and not step.call.captured:
            first = index if first < 0 else first
            if step.uses is not uses:
                uses = step.uses
                for use in step.uses:
                    if use.block in copied:
                        named.setdefault(use.block, index)
    largest = max(into, key=lambda number: into[number], default=-1)
    return named.get(largest, first)
