"""Colours, shapes and dashes. Allocators and strategies have the same in every report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from firsttouch.machine.allocators.semantics import SEMANTICS
from firsttouch.program.strategies import STRATEGIES

# Chosen to differ for common colour vision, for protanopes and for deuteranopes, the first ones most. The contrast of
# each is at least 3 on both the light and the dark page. Colours that look alike have different shapes.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#4B4BFF", "#A51ED2", "#3C7878"),
    *("#5AA52D", "#808080", "#2D87FF", "#A0522D", "#E100C3", "#00783C", "#696996", "#3CA55A"),
    *("#4B96E1", "#4B69FF", "#00785A", "#D20000", "#FF3CD2", "#00965A", "#1E69E1"),
)
MOST_COLOURS = 15
"""The most values of a factor that are told apart by colour unless a figure asks for it."""
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
WRONG, SUSPECT, THROTTLED, INK, GRID = "#B00020", "#6A1B9A", "#8A5A00", "#1f2933", "#e4e7eb"


PHASES = ("context", "allocate", "initialise", "compute", "readback", "free", "input", "output")
"""The phases of an application (harness/measure.py)."""
FIXED: Mapping[str, Sequence[str]] = {"allocator": tuple(SEMANTICS), "strategy": tuple(STRATEGIES), "phase": PHASES}
"""All values of factors whose colours do not depend on the report. New values are added at the end of these tables."""


class Palette:
    """The colour and the shape of each value of a factor: by their place in FIXED, else in the order of first use."""

    def __init__(self) -> None:
        self._places = {name: {v: i for i, v in enumerate(values)} for name, values in FIXED.items()}

    def styles(self, name: str, values: Iterable[str]) -> tuple[list[str], list[str]]:
        """Colours and shapes of these values of the factor `name`."""
        places = self._places.setdefault(name, {})
        indices = [places.setdefault(v, len(places)) for v in values]
        return [COLOURS[i % len(COLOURS)] for i in indices], [SHAPES[i % len(SHAPES)] for i in indices]
