"""An array of the host and a block that copies join are used while their bytes differ, as a shadow run has seen."""

from __future__ import annotations

from firsttouch.advice.port.places import Places, line_of
from firsttouch.advice.port.port_findings import FindingCertainty
from firsttouch.advice.port.rule import FindingWords, Rule
from firsttouch.advice.port.shadowed import SeenDifference, shadow_run
from firsttouch.profile.callers import is_of_the_c_library
from firsttouch.profile.calls import HostDifference
from firsttouch.profile.recorded import CallSite
from firsttouch.program.trace import TracedCopy

_FREED = "the array was freed before, and its memory holds something else"


class BothSides(Rule):
    """What would be other bytes for the CPU or a kernel if both were one memory."""

    name = "both-sides"
    title = "use of both sides"
    words = {
        "read": FindingWords(
            "the CPU reads its array {at} while the block has newer bytes",
            "it reads only what the kernel left as it was, or the array was freed before",
        ),
        "written": FindingWords("the CPU writes its array {at} between the copy and the launch", _FREED),
        "running": FindingWords("the CPU writes its array {at} while a kernel may run", _FREED),
        "replaced": FindingWords("the CPU's bytes, written {at}, are replaced by a copy", _FREED),
        "restored": FindingWords("a copy brings back old bytes after a launch", _FREED, is_note=True),
    }
    strategy = "keep the array and its copies apart, or let each side use them only when the other has ended"
    chapter = "use-of-both-sides"

    def finish(self) -> None:
        shadow = self.state.run.once(shadow_run)
        for seen in shadow.found if shadow is not None else ():
            self._add(seen)

    def _add(self, seen: SeenDifference) -> None:
        places, step = self.state.places, self.state.run.steps[seen.step]
        difference = seen.difference
        assert isinstance(step, TracedCopy)
        place = places.of(in_program(difference.site) or step.call.site)
        grounds = {} if seen.hazard == "restored" else {"at": at(difference, places)}
        certainty: FindingCertainty = "seen" if seen.is_certain else "likely"
        row = self.row(seen.hazard, certainty, (seen.block, place), **grounds)
        row.add(
            seen.step, difference.differing or sum(end - start for start, end in difference.pages), place, seen.block
        )


def seen_text(seen: SeenDifference, places: Places) -> str:
    """What was seen, in a sentence without its end."""
    words = BothSides.words[seen.hazard]
    return words.text.format(at=at(seen.difference, places))


def at(difference: HostDifference, places: Places) -> str:
    """Where the CPU used its array: the line, or the two calls between which it did."""
    if site := in_program(difference.site):
        return f"at {line_of(places.of(site))}"
    until = line_of(places.of(difference.before)) if difference.before else "the end"
    return f"(between the calls at {line_of(places.of(difference.after))} and {until})"


def in_program(site: CallSite) -> CallSite:
    """The frames from the first one on that is not in the C library, which fills memory for its callers."""
    return site[next((n for n, frame in enumerate(site) if not is_of_the_c_library(frame.file)), len(site)) :]
