"""Why nothing was traced: what the processes had loaded, and what was known before they ran."""

from __future__ import annotations

from collections.abc import Iterator

from firsttouch.machine.libraries import LIBRARIES
from firsttouch.profile.content import Profile
from firsttouch.profile.fronts import FRONTS, TRACED, UNTRACED, Front, is_named, untraced_words
from firsttouch.profile.schema import LayerState
from firsttouch.records.text import join_names


def trace_layer(profile: Profile) -> LayerState | None:
    return next((state for state in profile.header.layers if state.layer == "trace"), None)


def why_untraced(profile: Profile) -> str:
    """Why nothing was traced although the layer was active, in a sentence without a full stop."""
    layer = trace_layer(profile)
    foreseen = [layer.why] if layer is not None and layer.why else []
    if reasons := foreseen or list(_of_loaded(profile)):
        return "; ".join(reasons)
    traced, others = (join_names([front.api for front in fronts], "or") for fronts in (TRACED, UNTRACED))
    return f"nothing in it used {traced}{how_failed(profile)}; programs that use {others} are not traced"


def _of_loaded(profile: Profile) -> Iterator[str]:
    """What the processes had loaded of each front, as far as their mappings were read."""
    names = sorted({row.name.rpartition("/")[2] for line in profile.mappings for row in line.rows if "/" in row.name})
    for front in FRONTS:
        loaded = [name for name in names if is_named(name, front.libraries)]
        around = [name for name in names if is_named(name, front.around)]
        if not loaded and around:
            yield f"it used {front.api} by {around[0]} in place of the loader, so that its calls are not traced"
        elif loaded and not front.traced:
            yield f"it used {front.api} ({loaded[0]}), {untraced_words(front)}"
        elif loaded:
            yield f"{front.api} was loaded ({join_names(loaded[:3])}), {_unused(front, names)}{how_failed(profile)}"


def _unused(front: Front, names: list[str]) -> str:
    """Why nothing was traced of a front that is traced, and was loaded."""
    sonames = [soname for driver in front.drivers for soname in LIBRARIES[driver].sonames[:1]]
    if sonames and not any(is_named(name, [soname.partition(".so")[0] for soname in sonames]) for name in names):
        return f"but no driver ({join_names(sonames, 'or')}), without which it does nothing"
    return "but no call of it was recorded"


def how_failed(profile: Profile) -> str:
    """How a program ended that did less than it would have done; '' if it did not fail."""
    status = profile.end.status if profile.end else None
    return f", before it ended with exit status {status}" if status else ""
