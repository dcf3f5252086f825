"""The words for factors and counters on axes, in legends and in captions, and the units of their values."""

from __future__ import annotations

from firsttouch.records.figures import Figure
from firsttouch.records.schema import Record
from firsttouch.records.text import SECONDS, is_size


def unit(figure: Figure, name: str, record: Record) -> str:
    """The unit of a name's values. That of a counter is the end of its name, as in 'latency_us' or 'moved_bytes';
    a rate such as 'pages_per_s' has none.
    """
    if name == "median":
        return record.unit
    counter = figure.series if name == "value" else name
    rest, _, last = counter.rpartition("_")
    return "B" if is_size(counter) else last if last in SECONDS and not rest.endswith("_per") else ""


def called(figure: Figure, name: str) -> str:
    """The word for a name in a sentence: the name itself, as --set accepts it, except for a series."""
    return heading(figure, name) if name in ("series", "part") else name


def heading(figure: Figure, name: str) -> str:
    """The title of an axis, a legend or a column."""
    if name in figure.titles:
        return figure.titles[name]
    if figure.series and name == "series":
        return figure.series.partition("{}")[0].strip("_").replace("_", " ") or name
    if figure.series and name == "value":
        return " ".join(figure.series.replace("{}", " ").replace("_", " ").split()) or name
    return name.replace("_", " ")


def amount_title(figure: Figure, name: str, title: str, record: Record) -> str:
    """The title of the axis of amounts: the given title, or the unit of a median, or the heading of the name."""
    return title or (record.unit if name == "median" else heading(figure, name))


def quantity_title(figure: Figure, name: str, title: str) -> str:
    """The words for a quantity in a caption: the title of its axis without a unit after a comma."""
    words, comma, last = (title or heading(figure, name)).rpartition(", ")
    return words if comma and " " not in last else title or heading(figure, name)


def without_unit(title: str, unit: str) -> str:
    """Turns 'ns per load' into 'time per load', and 'time per free, ns' into 'time per free'."""
    return " ".join("time" if word == unit else word for word in title.removesuffix(f", {unit}").split(" "))
