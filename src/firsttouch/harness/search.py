"""The search of --placements: which advice and prefetches of single buffers make an application faster.

It has three steps. The strategies are measured as they are. Then changes of one buffer are tried from the fastest of
them, with one run each. The best of these, and all changes that helped together, are measured as often as the
strategies. Each step is a request that follows from the records of the one before, so that a search can be resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from firsttouch.harness.app import App, Params
from firsttouch.harness.outcomes.derive import application, strategy
from firsttouch.harness.outcomes.placements import PLACEMENT, conditions_of, finalists_of, searches, word_of
from firsttouch.harness.placements import BEST, placement_of
from firsttouch.program.declarations import Declaration
from firsttouch.program.guidance import BY_ITSELF, NONE, Guidance, Placement
from firsttouch.program.placement import placement
from firsttouch.program.strategies import STRATEGIES, Strategy
from firsttouch.records.schema import Factors, Record, Request, Scalar

MOST_TRIED, FEWEST_TRIED = 12, 3
SECONDS = 300.0
"""Fewer changes are tried if they would take longer than this, judged by the fastest strategy."""
_NOTABLE = 0.01
"""The part of all bytes below which a buffer is left as it is."""

_READ = (("read-mostly", "gpu"), (NONE, "gpu"), ("preferred-cpu+accessed-by-gpu", NONE), (NONE, NONE))
_CHANGES: Mapping[str, Sequence[tuple[str, str]]] = {
    "input": _READ,
    "constant": _READ,
    "output": (
        *((NONE, "cpu"), ("preferred-gpu", "gpu+cpu"), ("preferred-cpu+accessed-by-gpu", NONE)),
        *((NONE, NONE), (NONE, "gpu+cpu")),
    ),
    "inout": (
        *((NONE, "gpu+cpu"), ("preferred-gpu", "gpu+cpu")),
        *(("preferred-cpu+accessed-by-gpu", NONE), (NONE, NONE)),
    ),
}
"""By role, the advice and prefetches that are tried, those first from which most is expected."""
_OF_GPU = (("preferred-gpu", "gpu"), (NONE, "gpu"), (NONE, NONE))
"""The same for buffers that only the GPU uses."""


def changes(declared: Sequence[Declaration], strategy: Strategy, now: Placement = BY_ITSELF) -> list[str]:
    """The placements that are tried from a strategy, each with another guidance of one buffer, large buffers first."""
    total = sum(d.nbytes for d in declared)
    placed = [d for d in declared if placement(d, strategy, now) == "strategy"]
    large = sorted((d for d in placed if d.nbytes >= _NOTABLE * total), key=lambda d: -d.nbytes)
    lists = [_setting_changes(d, strategy) for d in large]
    rounds = max(map(len, lists), default=0)
    return [each[i] for i in range(rounds) for each in lists if i < len(each)][:MOST_TRIED]


def _setting_changes(declared: Declaration, strategy: Strategy) -> list[str]:
    now = BY_ITSELF.of(declared, strategy)
    changes = []
    for advice, prefetch in _OF_GPU if declared.sides == "gpu" else _CHANGES.get(declared.role, ()):
        if declared.ends_on != "cpu":
            prefetch = {"gpu+cpu": "gpu", "cpu": NONE}.get(prefetch, prefetch)
        if Guidance.of(advice, prefetch) != now:
            changes.append(f"{declared.name}={advice}/{prefetch}")
    return list(dict.fromkeys(changes))


def further(request: Request, records: Sequence[Record], known: Mapping[str, type[App]]) -> list[Request]:
    """The requests of the next step of each search, from what the steps before measured."""
    if BEST not in request.set.get(PLACEMENT, ()):
        return []
    requests = []
    for search in searches(records):
        base, app = search.base, known.get(application(search.base))
        if app is None or application(base) not in request.experiments or base.device not in request.devices:
            continue
        words = _changed_placements(base, app)
        attempted = {
            word_of(r) for r in records if conditions_of(r) == conditions_of(base) and r.factors.get("repeat") == 1
        }
        if words:
            requests.append(_placement_request(request, base, words, 1))
        if attempted.issuperset(words) and (best := finalists_of(search.tried, base)):
            requests.append(_placement_request(request, base, best, base.factors.get("repeat")))
    return requests


def _changed_placements(base: Record, app: type[App]) -> list[str]:
    params: Params = {name: int(v) for name, v in base.parameters.items() if isinstance(v, int)}
    words = changes(app.declarations(params), STRATEGIES[strategy(base)], placement_of(app, Factors(base.factors)))
    return words[: max(FEWEST_TRIED, int(SECONDS / max(base.seconds, 0.1)))]


def _placement_request(request: Request, base: Record, words: Sequence[str], repeat: Scalar) -> Request:
    """The request for placements under the conditions of a record."""
    same: dict[str, list[Scalar]] = {name: [v] for name, v in base.factors.items() if name != "app"}
    same |= {PLACEMENT: list(words)}
    if repeat is not None:
        same["repeat"] = [repeat]
    return msgspec.structs.replace(request, experiments=[application(base)], devices=[base.device], set=same)
