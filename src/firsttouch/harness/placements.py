"""Placements: advice, prefetches and memory of single buffers as factors, the published ones, and a search.

A placement is a word: `strategy` (what the strategy does by itself), `paper` (what the published version does),
`paper-text` (what the text of the publication says, where that differs), or the advice and the prefetches of some
buffers, such as `power=read-mostly/gpu next=none/none`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firsttouch.base.errors import UsageError
from firsttouch.experiments.contract.base import Factor
from firsttouch.harness.app import App
from firsttouch.harness.outcomes.placements import AS_IS, PLACEMENT, is_of_buffers, parse
from firsttouch.program.declarations import Declaration
from firsttouch.program.guidance import (
    ADVICE,
    ADVICE_OF,
    MEMORY_OF,
    OF_STRATEGY,
    ON_DEVICE,
    PREFETCH_OF,
    Guidance,
    Placement,
    memory_words,
    settings_of,
)
from firsttouch.program.placement import placement
from firsttouch.program.strategies import STRATEGIES, Strategy, why_unguided
from firsttouch.records.codebook import FormerFactor
from firsttouch.records.schema import DeviceInfo, Factors, Scalar
from firsttouch.records.text import first_few

PAPER, PAPER_TEXT = "paper", "paper-text"
FORMER = "scratch"
"""The former factor for the memory of all scratch buffers at once."""
BEST = "best"
"""What a call gives to have better placements searched (search.py)."""


def factors_of(app: type[App], requested: Sequence[Scalar] = ()) -> list[Factor]:
    """The optional factors of an application: its placement, and the settings of its buffers.

    requested: placements that the call names. Those that are settings of the application's buffers are accepted too.
    """
    declared = app.declarations(app.sizes["tiny"])
    words = {name: accepted for buffer in declared for name, accepted in settings_of(buffer).items()}
    docs = {ADVICE_OF: "advice to the driver about buffer ", PREFETCH_OF: "prefetches of buffer "}
    docs[MEMORY_OF] = "memory of its own on the GPU, or the strategy's, for buffer "
    factors_of_buffers = [
        Factor(name, accepted[:1], choices=accepted, doc=docs[prefix] + name.removeprefix(prefix))
        for name, accepted in words.items()
        for prefix in docs
        if name.startswith(prefix)
    ]
    doc = "advice, prefetches and memory of the buffers: as the strategy does by itself, or as in the published version"
    requested_words = [text for text in map(str, requested) if is_of_buffers(text) and _all_accepted(text, words)]
    published = (PAPER, PAPER_TEXT) if app.published.as_stated else (PAPER,)
    return [
        Factor(PLACEMENT, (AS_IS,), choices=(AS_IS, *published, *requested_words), known={BEST: AS_IS}, doc=doc),
        *factors_of_buffers,
    ]


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
    f"{MEMORY_OF}BUFFER": {
        "accepts": f"{ON_DEVICE}, {OF_STRATEGY}",
        "doc": "memory of a buffer between kernels: the GPU's own, or the strategy's",
    },
    PLACEMENT: {
        "accepts": f"{AS_IS}, {PAPER}, {PAPER_TEXT}",
        "doc": "advice, prefetches and memory of the strategy, or as published",
    },
}
"""The same factors for any buffer, for --list."""


def settings_in(factors: Factors) -> dict[str, str]:
    """The settings of single buffers at a point: those in its placement, and those that replace them."""
    word = str(factors.get(PLACEMENT, ""))
    single_settings = {
        name: str(v) for name, v in factors.items() if name.startswith((ADVICE_OF, PREFETCH_OF, MEMORY_OF))
    }
    return {**(parse(word) if is_of_buffers(word) else {}), **single_settings}


def placement_of(app: type[App], factors: Factors) -> Placement:
    """Where the guidance of the buffers comes from at a point."""
    published = {PAPER: app.published.advice, PAPER_TEXT: app.published.as_stated}.get(str(factors.get(PLACEMENT)))
    declared = {name: Guidance.of(*words) for name, words in published.items()} if published else None
    return Placement(declared, settings_in(factors), (app.published.memory or {}) if published is not None else {})


def why_no_setting(app: type[App], name: str) -> str:
    """Why an application has no factor of that name, or ''. There was one for all scratch buffers."""
    if name == FORMER:
        buffers = [f"{MEMORY_OF}{d.name}" for d in app.declarations(app.sizes["tiny"]) if memory_words(d)]
        single = f"{MEMORY_OF}BUFFER={ON_DEVICE}|{OF_STRATEGY}"
        return f"{name} is now {single}, of {app.name} for {first_few(buffers, 3) or 'none'}"
    buffer = name.removeprefix(MEMORY_OF)
    for d in app.declarations(app.sizes["tiny"]) if name.startswith(MEMORY_OF) else ():
        if d.name == buffer and not memory_words(d):
            return (
                f"{name}: the CPU, or a message, uses {buffer} of {app.name} too, so that its memory cannot be chosen"
            )
    return ""


def former_factors(apps: Mapping[str, type[App]]) -> dict[str, FormerFactor]:
    """The factor `scratch` of older records: device memory or the strategy's for all buffers of the role that the GPU
    uses.
    """
    instead: dict[str, dict[str, Scalar]] = {}
    for name, app in apps.items():
        instead[name] = {f"{MEMORY_OF}{b}": OF_STRATEGY for b in _scratch(app)}
    return {FORMER: FormerFactor(usual=ON_DEVICE, now={OF_STRATEGY: instead})}


def _scratch(app: type[App]) -> list[str]:
    """The buffers that are device memory by their role."""
    return [d.name for d in app.declarations(app.sizes["tiny"]) if memory_words(d)[:1] == (ON_DEVICE,)]


def why_not_placed(app: type[App], strategy: Strategy, factors: Factors, device: DeviceInfo) -> str | None:
    """Why the settings of a point cannot be applied under its strategy, in one sentence, or None."""
    if factors.get(PLACEMENT) == PAPER and not app.published.advice and app.published.memory is None:
        return f"{app.name} has no published version whose advice, prefetches and memory are known"
    settings = [name for name in settings_in(factors) if not name.startswith(MEMORY_OF)]
    if not settings:
        return None
    if reason := why_unguided(strategy, device):
        return reason
    names = {name.partition(".")[2] for name in settings}
    for declared in app.declarations(app.sizes["tiny"]):
        if declared.name in names and not _is_placed(declared, strategy, app, factors):
            if declared.role == "control":
                return f"buffer {declared.name} of {app.name} is copied (control=copied) and takes no advice"
            return (
                f"buffer {declared.name} of {app.name} is device memory, for which there is no advice; "
                f"--set {MEMORY_OF}{declared.name}={OF_STRATEGY} places it with the others"
            )
    return None


def _is_placed(declared: Declaration, strategy: Strategy, app: type[App], factors: Factors) -> bool:
    """Whether a buffer is memory of the strategy."""
    copy_control = factors.get("control") == "copied"
    return placement(declared, strategy, placement_of(app, factors), copy_control=copy_control) == "strategy"
