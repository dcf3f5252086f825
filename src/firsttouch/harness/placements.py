"""Placements: advice and prefetches of single buffers as factors, the published ones, and a search for better ones.

A placement is a word: `strategy` (what the strategy does by itself), `paper` (what the published version declares), or
settings of buffers separated by blanks, such as `advice.power=read-mostly prefetch.next=none`.
"""

from __future__ import annotations

from collections.abc import Mapping

from firsttouch.experiments.base import Factor
from firsttouch.harness.app import App
from firsttouch.records.schema import DeviceInfo, Factors
from firsttouch.workspace.guidance import ADVICE_OF, PREFETCH_OF, Guidance, Placement, settings_of
from firsttouch.workspace.strategies import Strategy, why_unguided
from firsttouch.workspace.workspace import Declaration, placement

PLACEMENT = "placement"
AS_IS, PAPER = "strategy", "paper"


def factors_of(app: type[App]) -> list[Factor]:
    """The optional factors of an application: its placement, and the settings of its buffers."""
    declared = app.declarations(app.sizes["tiny"])
    words = {name: accepted for one in declared for name, accepted in settings_of(one).items()}
    docs = {ADVICE_OF: "advice to the driver about buffer ", PREFETCH_OF: "prefetches of buffer "}
    each = [
        Factor(name, accepted[:1], choices=accepted, doc=docs[prefix] + name.removeprefix(prefix))
        for name, accepted in words.items()
        for prefix in docs
        if name.startswith(prefix)
    ]
    doc = "advice and prefetches of the buffers: as the strategy does by itself, or as in the published version"
    return [Factor(PLACEMENT, (AS_IS,), choices=(AS_IS, PAPER), doc=doc), *each]


def settings_in(factors: Factors) -> dict[str, str]:
    """The settings of single buffers at a point."""
    return {name: str(v) for name, v in factors.items() if name.startswith((ADVICE_OF, PREFETCH_OF))}


def placement_of(app: type[App], factors: Factors) -> Placement:
    """Where the guidance of the buffers comes from at a point."""
    declared: Mapping[str, Guidance] | None = None
    if factors.get(PLACEMENT) == PAPER:
        declared = {name: Guidance.of(*words) for name, words in app.paper.items()}
    return Placement(declared, settings_in(factors))


def why_not_placed(app: type[App], strategy: Strategy, factors: Factors, device: DeviceInfo) -> str | None:
    """Why the settings of a point cannot be applied under its strategy, in one sentence, or None."""
    if factors.get(PLACEMENT) == PAPER and not app.paper:
        return f"{app.name} has no published version whose advice and prefetches are known"
    settings = settings_in(factors)
    if not settings:
        return None
    if reason := why_unguided(strategy, device):
        return reason
    names = {name.partition(".")[2] for name in settings}
    for declared in app.declarations(app.sizes["tiny"]):
        if declared.name in names and not _is_placed(declared, strategy, factors):
            return (
                f"buffer {declared.name} of {app.name} is scratch in device memory, for which there is no advice; "
                "--set scratch=strategy places it with the others"
            )
    return None


def _is_placed(declared: Declaration, strategy: Strategy, factors: Factors) -> bool:
    """Whether a buffer is memory of the strategy."""
    return placement(declared, strategy, place_scratch=factors.get("scratch") == AS_IS) == "strategy"
