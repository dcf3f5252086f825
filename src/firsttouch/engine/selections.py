"""What the calls that wrote to one directory asked for, as one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from firsttouch.records.schema import Request, Scalar, Selection

_Selects = TypeVar("_Selects", Request, Selection)
_Parts: TypeAlias = Mapping[tuple[str, str], Sequence[Scalar]]
"""What is selected: names and values by the field, and by the factor for `set`."""


_ALIKE = ("events", "counters", "ranks", "every_device")
"""What two selections must have in common to be one."""


def selections(request: Request) -> list[Selection]:
    """All that a request holds, the earliest first."""
    selected_fields = {name: getattr(request, name) for name in Selection.__struct_fields__}
    return [*request.earlier, Selection(**selected_fields)]


def selecting(request: Request, selection: Selection) -> Request:
    """The request of one selection alone."""
    selected_fields: dict[str, Any] = {name: getattr(selection, name) for name in selection.__struct_fields__}
    return msgspec.structs.replace(request, earlier=[], **selected_fields)


def together(request: Request) -> Request:
    """A request with as few earlier selections as hold exactly the same points.

    Two selections are one if one holds the other, or if they differ in one part alone: the experiments, the devices, or
    the values of one factor. The union of others would hold points that nobody asked for.
    """
    merged, earlier = request, list[Selection]()
    for selection in reversed(request.earlier):
        union = _unite_selections(selection, merged)
        if union is None:
            earlier.insert(0, selection)
        else:
            merged = union
    return msgspec.structs.replace(merged, earlier=earlier)


def _unite_selections(old: Selection, new: Request) -> Request | None:
    before, after = _selection_parts(old), _selection_parts(new)
    if before.keys() != after.keys() or any(getattr(old, name) != getattr(new, name) for name in _ALIKE):
        return None
    added = [part for part in after if not set(after[part]) <= set(before[part])]
    removed = [part for part in before if not set(before[part]) <= set(after[part])]
    if added and removed and not (added == removed and len(added) == 1):
        return None
    parts = {part: list(dict.fromkeys([*before[part], *after[part]])) for part in after}
    values = {factor: parts["set", factor] for factor in new.set}
    return msgspec.structs.replace(new, experiments=parts["experiments", ""], devices=parts["devices", ""], set=values)


def _selection_parts(selected: _Selects) -> _Parts:
    parts: dict[tuple[str, str], Sequence[Scalar]] = {
        ("experiments", ""): selected.experiments,
        ("devices", ""): selected.devices,
    }
    return parts | {("set", factor): values for factor, values in selected.set.items()}
