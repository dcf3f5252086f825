"""Colours, shapes and dashes. A value has the same colour and shape in the whole report."""

from __future__ import annotations

from collections.abc import Iterable

# Okabe and Ito's palette, then Paul Tol's muted one: distinguishable with any common colour vision. There are fewer
# shapes than colours, so that a colour that is used again has another shape.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#000000", "#7A5195"),
    *("#882255", "#117733", "#88A03C", "#E69F00", "#332288", "#AA4499", "#808080"),
)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
WRONG, SUSPECT, THROTTLED, INK, GRID = "#B00020", "#6A1B9A", "#8A5A00", "#1f2933", "#e4e7eb"


class Palette:
    """The colour and the shape of each value of a factor, assigned in the order of first use."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, int]] = {}

    def styles(self, name: str, values: Iterable[str]) -> tuple[list[str], list[str]]:
        """Colours and shapes of these values of the factor `name`."""
        places = self._places.setdefault(name, {})
        found = [places.setdefault(v, len(places)) for v in values]
        return [COLOURS[i % len(COLOURS)] for i in found], [SHAPES[i % len(SHAPES)] for i in found]
