"""What to change in the source of a program so that the pairs of a plan, and no others, become one memory."""

from __future__ import annotations

from collections.abc import Iterable

from firsttouch.advice.edit import Edit
from firsttouch.advice.edits import edits
from firsttouch.advice.port.dropped import CopiesByFate
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.reading import findings_of
from firsttouch.advice.tried.plan import Joined, Plan
from firsttouch.profile.content import Profile
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedRun


def edits_of_pairs(profile: Profile, run: TracedRun, plan: Plan, strategy: str) -> list[Edit]:
    """profile, run: of the plain traced run, from which the plan is."""
    blocks, arrays = {pair.number for pair in plan.pairs}, {id(pair.array) for pair in plan.pairs}
    of_arrays = [joined for joined in plan.apart if id(joined.array) in arrays]
    of_blocks = [joined for joined in plan.apart if id(joined.array) not in arrays and joined.number in blocks]
    fates = CopiesByFate(dropped=_copies(plan.pairs), shared=_copies(of_arrays), kept=_copies(of_blocks))
    found = findings_of(profile, run, fates=fates)
    return edits(run, found, Places(profile.callers), STRATEGIES[strategy])


def _copies(joined: Iterable[Joined]) -> list[int]:
    """The numbers of the copies."""
    return sorted(number for each in joined for number in each.copies)
