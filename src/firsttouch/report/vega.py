"""Parts of Vega-Lite specifications as dictionaries."""

from __future__ import annotations

from typing import Any

from firsttouch.report.drawing import Spec

_TYPES = {"Q": "quantitative", "N": "nominal"}
_FOLLOWING = ("area", "line", "rule", "text")
"""Kinds of mark that belong to a series. The others are points."""


def field(shorthand: str, **more: Any) -> Spec:
    """A channel that shows a field of the rows. shorthand: its name and type, as in 'y:Q'."""
    name, _, kind = shorthand.partition(":")
    return {"field": name, **({"type": _TYPES[kind]} if kind else {}), **more}


def constant(value: Any) -> Spec:
    """A channel that is the same for all rows."""
    return {"value": value}


def layer(mark: str, encoding: Spec, *filters: str, **look: Any) -> Spec:
    """The marks of one kind for the rows that pass all filters. Each carries its number or that of its series."""
    described = field("series:N" if mark in _FOLLOWING else "mark:N")
    transform = {"transform": [{"filter": test} for test in filters]} if filters else {}
    return {
        "mark": {"type": mark, "aria": True, **look}, "encoding": {**encoding, "description": described}, **transform
    }  # fmt: skip
