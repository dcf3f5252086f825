"""Assigns factors to the visual channels of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firsttouch.records.figures import Figure
from firsttouch.records.schema import Record
from firsttouch.records.statistics import distinct, group_by, varying
from firsttouch.records.text import join_names, label, meant, named
from firsttouch.report.drawing import Spec
from firsttouch.report.naming import called
from firsttouch.report.palette import DASHES, MOST_COLOURS

MOST_PANELS = 6
MOST_SERIES = 8
"""The most combinations of colour and dash in one figure."""


@dataclass(frozen=True)
class Roles:
    """The factors that colour, dash and panels represent; '' for a channel that is not used."""

    colour: str = ""
    dash: str = ""
    panel: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(n for n in (self.colour, self.dash, *self.panel) if n))


def assign(
    records: Sequence[Record],
    *,
    axes: Sequence[str],
    apart: Sequence[str] = (),
    colour: str | None = None,
    dash: str | None = None,
    facet: str = "",
) -> Roles:
    """Assigns every varying factor to a channel, so that no line, bar or cell mixes different conditions.

    axes: names that need no channel because they are on the x or y axis. apart: those of them whose values are drawn
    separately, as bars and cells are. colour, dash: the factor that the figure prefers for the channel; None if the
    kind of figure does not have the channel.
    """

    def varies(name: str | None) -> str:
        return name if name and len(distinct(records, name)) > 1 else ""

    panel = [n for n in [varies(facet)] if n]
    has_colour, has_dash = colour is not None, dash is not None
    colour = "" if colour in apart else varies(colour)
    dash = varies(dash)
    for name in varying(records):
        taken = [n for n in (colour, dash, *panel, *apart) if n]
        determined = len(group_by(records, *taken)) == len(group_by(records, *taken, name))
        if name in (*taken, *axes) or determined:
            continue
        values = len(distinct(records, name))
        if has_colour and not colour and values <= MOST_COLOURS:
            colour = name
        elif has_dash and not dash and values <= len(DASHES):
            dash = name
        else:
            panel.append(name)
    if len(group_by(records, *filter(None, (colour, dash)))) > MOST_SERIES and dash:
        wider = [*panel, dash]  # rather more panels than series that are left out
        panel, dash = (wider, "") if len(group_by(records, *wider)) <= MOST_PANELS else (panel, dash)
    return Roles(colour, dash, tuple(panel))


def labels(records: Sequence[Record], name: str) -> list[str]:
    """What a legend lists for a name: its values, and a dash where it means nothing."""
    meant_values = {v for r in records if (v := meant(r, name)) is not None}
    dash_label = [label(name, None)] if any(meant(r, name) is None for r in records) else []
    return [*dash_label, *(label(name, v) for v in distinct(records, name) if v in meant_values)]


def condition(record: Record, figure: Figure, roles: Roles) -> Spec:
    """The values of colour, dash and panel of one mark."""
    panels = [(n, v) for n in roles.panel if (v := meant(record, n)) is not None]
    panel = ", ".join(named(n, v, called(figure, n)) for n, v in panels)
    if roles.panel and not panels:  # an empty text would become null in Vega, which no panel's filter equals
        panel = f"no {join_names([called(figure, n) for n in roles.panel])}"
    line = {key: label(n, meant(record, n)) if n else "" for key, n in (("colour", roles.colour), ("dash", roles.dash))}
    return {**line, "panel": panel}


def channels(figure: Figure, roles: Roles, word: str = "by") -> str:
    """The end of a caption that names the channels: ', by allocator and agent'."""
    return f", {word} {join_names([called(figure, n) for n in roles.names])}" if roles.names else ""
