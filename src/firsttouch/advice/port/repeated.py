"""Copies of bytes that the other side has had already, and which of them are not needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator

from firsttouch.advice.port.blocks import ProgramUse
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.port_findings import MOST_RECORDS, NeedlessCopies, StepRecord
from firsttouch.profile.exact import GRANULE
from firsttouch.program.needless import RepeatedCopy, repeated_copies
from firsttouch.program.trace import TracedCopy, TracedLaunch, TracedRun

_UNWRITTEN = "a kernel writes them, although the buffer is never copied back"
_REST = "the rest of their bytes differs (--check-copies)"


class RepeatedBytes:
    """The copies of a run that repeat others. not_compared: how many may, of which the bytes are not known.

    Of a block that nothing is copied from, a kernel that names it is taken to read it only, unless it says of another
    that it only reads that one.
    """

    def __init__(self, run: TracedRun, use: ProgramUse, places: Places) -> None:
        self._run, self._use, self._places = run, use, places
        found = run.once(repeated_copies)
        self._copies, self.not_compared = found.copies, found.not_compared

    def copy(self, number: int) -> TracedCopy:
        step = self._run.steps[number]
        assert isinstance(step, TracedCopy)
        return step

    def _is_needless(self, repeated: RepeatedCopy) -> bool:
        copied_from = self._use.blocks[self.copy(repeated.copy).device.block].copied_from
        is_written = copied_from or self._run.is_partial or self.is_sure(repeated) or self._is_said_to_write(repeated)
        return repeated.why == "needless" or not is_written

    def _is_said_to_write(self, repeated: RepeatedCopy) -> bool:
        """Whether the kernel tells parameters that it writes from others."""
        launch = self._run.steps[repeated.writer] if repeated.writer >= 0 else None
        if type(launch) is not TracedLaunch:
            return False
        block = self.copy(repeated.copy).device.block
        writes = {use.may_write for use in launch.uses if use.by == "argument" and use.block != block}
        return False in writes and any(use.block == block and use.may_write for use in launch.uses)

    def doubtful_steps(self) -> list[int]:
        """The numbers of the copies that are needless if a kernel does not write what it names."""
        return [each.copy for each in self._copies if each.why != "needless" and self._is_needless(each)]

    def is_sure(self, repeated: RepeatedCopy) -> bool:
        """Whether the bytes were overwritten in between, as far as it is known by whom."""
        return repeated.surely or self._was_seen_to_write(repeated)

    def is_same(self, repeated: RepeatedCopy) -> bool:
        """Whether all bytes are those of the earlier copy: they were compared, or nobody wrote them in between. A
        sample of them does not tell, for a program may change a single number.
        """
        copy = self.copy(repeated.copy)
        return repeated.unwritten or copy.call.sampled_bytes >= copy.device.total

    def _was_seen_to_write(self, repeated: RepeatedCopy) -> bool:
        """Whether a second run told that the launch writes granules that are wholly among the bytes of the copy."""
        exact, side = self._run.exact, self.copy(repeated.copy).device
        low, high = -(-side.start // GRANULE) * GRANULE, side.end
        if high < self._run.blocks[side.block].nbytes:
            high = high // GRANULE * GRANULE
        pieces = [
            piece
            for used in (exact.uses.get(repeated.writer, ()) if exact is not None else ())
            if used.block == side.block and not used.assumed
            for piece in used.pieces
        ]
        return any(piece.writes and max(piece.start, low) < min(piece.end, high) for piece in pieces)

    def needless_steps(self) -> list[int]:
        """The numbers of the needless copies, in order."""
        return [repeated.copy for repeated in filter(self._is_needless, self._copies)]

    def needless(self, record: Callable[[int], StepRecord], only_waits: Collection[int] = ()) -> list[NeedlessCopies]:
        """The needless copies by call and by the call whose bytes they repeat; those with the most bytes first.

        only_waits: the numbers of those without which a wait is missing.
        """
        rows: dict[tuple[object, ...], list[RepeatedCopy]] = defaultdict(list)
        for repeated in filter(self._is_needless, self._copies):
            copy, since = self.copy(repeated.copy), self.copy(repeated.since)
            places = self._places.of(copy.call.site), self._places.of(since.call.site)
            key = copy.way, *places, copy.device.total, repeated.why, self.is_same(repeated), repeated.life > 0
            rows[key].append(repeated)
        made = []
        for alike in rows.values():
            copies = [self.copy(repeated.copy) for repeated in alike]
            lives = {(copy.device.block, again.life): again.copy for copy, again in zip(copies, alike, strict=True)}
            first, reading = copies[0], "" if alike[0].why == "needless" else _UNWRITTEN
            each, is_same = first.device.total, self.is_same(alike[0])
            compared = each if is_same else first.call.sampled_bytes
            made.append(
                NeedlessCopies(
                    certainty="possible" if reading or not is_same else "seen",
                    reading=_REST if not is_same else reading,
                    direction="h2d" if first.way == "h2d" else "d2h",
                    blocks=list(dict.fromkeys(copy.device.block for copy in copies)),
                    copies=(times := self._run.count(repeated.copy for repeated in alike)),
                    bytes=times * each,
                    place=self._places.of(first.call.site),
                    since=self._places.of(self.copy(alike[0].since).call.site),
                    compared=compared,
                    each=each,
                    records=[record(repeated.copy) for repeated in alike[:MOST_RECORDS]],
                    only_wait=any(repeated.copy in only_waits for repeated in alike),
                    renewed=self._run.count(number for (_, life), number in lives.items() if life),
                )
            )
        return sorted(made, key=lambda row: -row.bytes)

    def restoring(self) -> Iterator[RepeatedCopy]:
        """The copies that one buffer would lose."""
        return (repeated for repeated in self._copies if not (self._is_needless(repeated) or repeated.life))
