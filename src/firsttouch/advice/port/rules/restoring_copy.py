"""A copy of the bytes that one buffer would have lost: after an earlier copy of them, the other side overwrote them."""

from __future__ import annotations

from firsttouch.advice.port.places import compared_part
from firsttouch.advice.port.port_findings import FindingCertainty
from firsttouch.advice.port.rule import FindingWords, Rule
from firsttouch.advice.port.shadowed import shadow_run
from firsttouch.profile.symbols.names import kernel_name
from firsttouch.profile.traced import CallLocation
from firsttouch.program.needless import RepeatedCopy
from firsttouch.program.trace import TracedLaunch

_REST = "the bytes that were not compared differ"


class RestoringCopy(Rule):
    """Seen, if all bytes were compared and it is known that they were overwritten in between."""

    name = "restoring"
    title = "restoring copy"
    words = {
        "overwritten": FindingWords(
            "it copies the bytes of {since}{part} again, after {writer} overwrote them", _REST, is_note=True
        ),
        "perhaps overwritten": FindingWords(
            "it copies the bytes of {since}{part} again, and {writer} may have overwritten them",
            "that kernel does not write them",
            is_note=True,
        ),
        "back": FindingWords(
            "it copies the bytes of {since}{part} back again, after the CPU overwrote them", _REST, is_note=True
        ),
    }
    strategy = "a unified buffer has the kernel's values; keep a separate copy where the old ones are needed"
    chapter = "restoring-copies"

    def finish(self) -> None:
        shadow = self.state.run.once(shadow_run)  # tells it of the blocks that it looked at (both_sides.py)
        for repeated in self.state.repeated.restoring():
            if shadow is None or self.state.repeated.copy(repeated.copy).device.block not in shadow.looked:
                self._add(repeated)

    def _add(self, repeated: RepeatedCopy) -> None:
        copies, places = self.state.repeated, self.state.places
        copy = copies.copy(repeated.copy)
        place, since = (places.of(each.call.site) for each in (copy, copies.copy(repeated.since)))
        nbytes, is_sure, is_same = copy.device.total, copies.is_sure(repeated), copies.is_same(repeated)
        part = "" if is_same else compared_part(copy.call.sampled_bytes, nbytes)
        grounds = {"since": _line(since), "part": part}
        if copy.way == "h2d":
            grounds["writer"] = self._writer_name(repeated)
        variant = "back" if copy.way == "d2h" else "overwritten" if is_sure else "perhaps overwritten"
        certainty: FindingCertainty = "seen" if is_sure and is_same else "likely"
        if not is_sure and self.state.run.guesses_arguments:
            certainty = "possible"
        row = self.row(variant, certainty, (copy.device.block, place, since), **grounds)
        row.add(repeated.copy, nbytes, place, copy.device.block)

    def _writer_name(self, repeated: RepeatedCopy) -> str:
        step = self.state.run.steps[repeated.writer] if repeated.writer >= 0 else None
        if isinstance(step, TracedLaunch) and step.kernel:
            return kernel_name(step.kernel)
        return "a kernel" if isinstance(step, TracedLaunch) else "a fill or a copy on the device"


def _line(place: CallLocation) -> str:
    return f":{place.line}" if place.source else place.function or "an earlier copy"
