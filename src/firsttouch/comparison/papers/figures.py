"""The papers' figures and tables by their own numbers."""

from __future__ import annotations

from functools import cache

from firsttouch.base.errors import UsageError
from firsttouch.base.outputs import Output
from firsttouch.records.papers.studies import studies
from firsttouch.records.schema import Struct


class PaperFigure(Struct):
    """A figure or a table. shows: what, in a few words. measured: false for a drawing or a listing without results."""

    id: str
    shows: str
    measured: bool = True
    paper: str = ""


class PaperFigures(Output, frozen=True, kw_only=True, tag="firsttouch-published-figures/1"):
    """What `firsttouch published --figures --json` prints."""

    figures: list[PaperFigure]


@cache
def all_figures() -> dict[str, list[PaperFigure]]:
    """The figures of each paper, in the order of the paper."""
    return {
        paper: [PaperFigure(part.id, part.shows, part.measured, paper) for part in study.parts if part.shows]
        for paper, study in studies().items()
    }


def figures(search: str | None = None) -> PaperFigures:
    """The figures and tables of all papers, or those in which every word of `search` occurs.

    Raises:
        UsageError: no figure has the words.
    """
    words = (search or "").casefold().split()
    chosen = [
        figure
        for paper_figures in all_figures().values()
        for figure in paper_figures
        if all(word in f"{figure.paper} {figure.id} {figure.shows}".casefold() for word in words)
    ]
    if not chosen:
        raise UsageError(f"no figure or table of the papers has '{search}'; leave --search out to see all")
    return PaperFigures(summary=f"Figures and tables of papers: {len(chosen)}.", figures=chosen)
