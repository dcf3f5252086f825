"""Copies of bytes that the other side has had already: those that are not needed, and those that restore something."""

from __future__ import annotations

from collections import defaultdict

from firsttouch.advice.port.blocks import ProgramUse
from firsttouch.advice.port.hazards import Findings, RecordOf
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.port_findings import MOST_RECORDS, NeedlessCopies, PortFinding
from firsttouch.base.units import format_size
from firsttouch.profile.exact import GRANULE
from firsttouch.profile.symbols.names import kernel_name
from firsttouch.profile.traced import CallLocation
from firsttouch.program.needless import RepeatedCopy, repeated_copies
from firsttouch.program.trace import TracedCopy, TracedLaunch, TracedRun

_UNWRITTEN = "a kernel writes them, though nothing copies the block back"


class RepeatedBytes:
    """The copies of a run that repeat others. not_compared: how many may, of which the bytes are not known.

    Of a block that nothing is copied from, a kernel that names it is taken to read it only.
    """

    def __init__(self, run: TracedRun, use: ProgramUse, places: Places) -> None:
        self._run, self._use, self._places = run, use, places
        found = repeated_copies(run)
        self._copies, self.not_compared = found.copies, found.not_compared

    def _copy(self, number: int) -> TracedCopy:
        step = self._run.steps[number]
        assert isinstance(step, TracedCopy)
        return step

    def _is_needless(self, repeated: RepeatedCopy) -> bool:
        copied_from = self._use.blocks[self._copy(repeated.copy).device.block].copied_from
        return repeated.why == "needless" or not (copied_from or self._is_sure(repeated))

    def _is_sure(self, repeated: RepeatedCopy) -> bool:
        """Whether the bytes were overwritten in between, as far as it is known by whom."""
        return repeated.surely or self._was_seen_to_write(repeated)

    def _was_seen_to_write(self, repeated: RepeatedCopy) -> bool:
        """Whether a second run told that the launch writes granules that are wholly among the bytes of the copy."""
        exact, side = self._run.exact, self._copy(repeated.copy).device
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

    def needless(self, record: RecordOf) -> list[NeedlessCopies]:
        """The needless copies by call and by the call whose bytes they repeat; those with the most bytes first."""
        rows: dict[tuple[object, ...], list[RepeatedCopy]] = defaultdict(list)
        for repeated in filter(self._is_needless, self._copies):
            copy, since = self._copy(repeated.copy), self._copy(repeated.since)
            places = self._places.of(copy.call.site), self._places.of(since.call.site)
            key = copy.way, *places, copy.device.total, repeated.why
            rows[key].append(repeated)
        made = []
        for alike in rows.values():
            copies = [self._copy(repeated.copy) for repeated in alike]
            first, reading = copies[0], "" if alike[0].why == "needless" else _UNWRITTEN
            compared, each = first.call.sampled_bytes, first.device.total
            made.append(
                NeedlessCopies(
                    certainty="likely" if reading or compared < each else "seen",
                    reading=reading or ("" if compared >= each else "the rest of their bytes differs"),
                    direction="h2d" if first.way == "h2d" else "d2h",
                    blocks=list(dict.fromkeys(copy.device.block for copy in copies)),
                    copies=len(copies),
                    bytes=sum(copy.device.total for copy in copies),
                    place=self._places.of(first.call.site),
                    since=self._places.of(self._copy(alike[0].since).call.site),
                    compared=min(compared, each),
                    each=each,
                    records=[record(repeated.copy) for repeated in alike[:MOST_RECORDS]],
                )
            )
        return sorted(made, key=lambda row: -row.bytes)

    def restoring(self, record: RecordOf) -> list[PortFinding]:
        """The copies that one buffer would lose."""
        findings = Findings(record)
        for repeated in self._copies:
            if not self._is_needless(repeated):
                self._add_restoring(repeated, findings)
        return findings.all()

    def _add_restoring(self, repeated: RepeatedCopy, findings: Findings) -> None:
        copy, since = self._copy(repeated.copy), self._copy(repeated.since)
        compared, each = copy.call.sampled_bytes, copy.device.total
        written = self._is_sure(repeated)
        surely = written and compared >= each
        part = "" if compared >= each else f" ({format_size(compared, 3)} of {format_size(each, 3)} compared)"
        at = f"{_format_line(self._places.of(since.call.site))}{part}"
        if copy.way == "d2h":
            text = f"a copy back of what the CPU overwrote, with the bytes of {at}"
        else:
            may = "has" if written else "may have"
            text = f"its bytes are those of {at}, and {self._writer_name(repeated)} {may} overwritten them"
        reading = "" if surely else "the rest of them differs" if written else "that kernel does not write them"
        place = self._places.of(copy.call.site)
        apart = copy.device.block, place, self._places.of(since.call.site)
        found = findings.of("restoring", "seen" if surely else "likely", text, reading, apart)
        found.add(repeated.copy, each, place, copy.device.block)

    def _writer_name(self, repeated: RepeatedCopy) -> str:
        step = self._run.steps[repeated.writer] if repeated.writer >= 0 else None
        if isinstance(step, TracedLaunch) and step.kernel:
            return kernel_name(step.kernel)
        return "a kernel" if isinstance(step, TracedLaunch) else "a fill or a copy on the device"


def _format_line(place: CallLocation) -> str:
    return f":{place.line}" if place.source else place.function or "an earlier copy"
