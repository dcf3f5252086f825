"""Which part of a block a launch uses: from where it names it up to where the next part begins."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict

from firsttouch.program.trace import TracedLaunch, TracedRun


class UsedParts:
    """Take it with `run.once`."""

    def __init__(self, run: TracedRun) -> None:
        self._blocks = run.blocks
        starts, seen = defaultdict[tuple[int, str], set[int]](set), set[tuple[int, str]]()
        for step in run.steps:
            if type(step) is TracedLaunch and (key := (id(step.uses), step.kernel)) not in seen:
                seen.add(key)
                for use in step.uses:
                    starts[use.block, step.kernel].add(use.start)
        self._starts = {key: sorted(of_block) for key, of_block in starts.items()}

    def end(self, block: int, start: int, kernel: str) -> int:
        """The end of the part that begins at `start`: where the next begins that launches of the same kernel name."""
        starts = self._starts[block, kernel]
        place = bisect_right(starts, start)
        return starts[place] if place < len(starts) else self._blocks[block].nbytes
