"""Placements: advice and prefetches of single buffers as factors, the published ones, and a search for better ones.

A placement is a word: `strategy` (what the strategy does by itself), `paper` (what the published version declares),
`paper-text` (what the text of the publication says, where that differs), or the advice and the prefetches of some
buffers, such as `power=read-mostly/gpu next=none/none`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firsttouch.errors import UsageError
from firsttouch.experiment.base import Factor
from firsttouch.harness.app import App
from firsttouch.outcomes.placements import AS_IS, PLACEMENT, is_of_buffers, parse
from firsttouch.records.schema import DeviceInfo, Factors, Scalar
from firsttouch.workspace.declarations import Declaration, placement
from firsttouch.workspace.guidance import ADVICE, ADVICE_OF, PREFETCH_OF, Guidance, Placement, settings_of
from firsttouch.workspace.strategies import STRATEGIES, Strategy, why_unguided

PAPER, PAPER_TEXT = "paper", "paper-text"
BEST = "best"
"""What a call gives to have better placements searched (search.py)."""


def factors_of(app: type[App], requested: Sequence[Scalar] = ()) -> list[Factor]:
    """The optional factors of an application: its placement, and the settings of its buffers.

    requested: placements that the call names. Those that are settings of the application's buffers are accepted too.
    """
    declared = app.declarations(app.sizes["tiny"])
    words = {name: accepted for buffer in declared for name, accepted in settings_of(buffer).items()}
    docs = {ADVICE_OF: "advice to the driver about buffer ", PREFETCH_OF: "prefetches of buffer "}
    each = [
        Factor(name, accepted[:1], choices=accepted, doc=docs[prefix] + name.removeprefix(prefix))
        for name, accepted in words.items()
        for prefix in docs
        if name.startswith(prefix)
    ]
    doc = "advice and prefetches of the buffers: as the strategy does by itself, or as in the published version"
    own = [text for text in map(str, requested) if is_of_buffers(text) and _all_accepted(text, words)]
    published = (PAPER, PAPER_TEXT) if app.paper_text else (PAPER,)
    return [Factor(PLACEMENT, (AS_IS,), choices=(AS_IS, *published, *own), known={BEST: AS_IS}, doc=doc), *each]


def with_search(chosen: Mapping[str, list[Scalar]]) -> dict[str, list[Scalar]]:
    """The factors of a call with --placements. Without --strategy: the strategies that differ only by their hints.

    Raises UsageError if the call also names a placement.
    """
    if PLACEMENT in chosen:
        raise UsageError("--placements searches for placements; leave out --set placement")
    guided = {s.allocator for s in STRATEGIES.values() if s.advise or s.prefetch}
    names: list[Scalar] = [s.name for s in STRATEGIES.values() if s.allocator in guided]
    return {"strategy": names, **chosen, PLACEMENT: [BEST]}


def _all_accepted(word: str, words: Mapping[str, Sequence[str]]) -> bool:
    try:
        return all(value in words.get(name, ()) for name, value in parse(word).items())
    except ValueError:
        return False


def guided_buffers(app: type[App]) -> list[str]:
    """The names of the buffers that have settings."""
    return [d.name for d in app.declarations(app.sizes["tiny"]) if settings_of(d)]


BY_BUFFER: Mapping[str, Mapping[str, str]] = {
    f"{ADVICE_OF}BUFFER": {"accepts": ", ".join(ADVICE), "doc": "advice to the driver about a buffer"},
    f"{PREFETCH_OF}BUFFER": {
        "accepts": "none, gpu; cpu, gpu+cpu for results",
        "doc": "before the first launch to the GPU, before results are read to the CPU",
    },
    PLACEMENT: {
        "accepts": f"{AS_IS}, {PAPER}, {PAPER_TEXT}",
        "doc": "advice and prefetches of the strategy, or as published",
    },
}
"""The same factors for any buffer, for --list."""


def settings_in(factors: Factors) -> dict[str, str]:
    """The settings of single buffers at a point: those in its placement, and those that replace them."""
    word = str(factors.get(PLACEMENT, ""))
    own = {name: str(v) for name, v in factors.items() if name.startswith((ADVICE_OF, PREFETCH_OF))}
    return {**(parse(word) if is_of_buffers(word) else {}), **own}


def placement_of(app: type[App], factors: Factors) -> Placement:
    """Where the guidance of the buffers comes from at a point."""
    published = {PAPER: app.paper, PAPER_TEXT: app.paper_text}.get(str(factors.get(PLACEMENT)))
    declared = None if published is None else {name: Guidance.of(*words) for name, words in published.items()}
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
            if declared.role == "control":
                return f"buffer {declared.name} of {app.name} is copied (control=copied) and takes no advice"
            return (
                f"buffer {declared.name} of {app.name} is scratch in device memory, for which there is no advice; "
                "--set scratch=strategy places it with the others"
            )
    return None


def _is_placed(declared: Declaration, strategy: Strategy, factors: Factors) -> bool:
    """Whether a buffer is memory of the strategy."""
    place_scratch, copy_control = factors.get("scratch") == AS_IS, factors.get("control") == "copied"
    return placement(declared, strategy, place_scratch=place_scratch, copy_control=copy_control) == "strategy"
