"""What names are called on axes, in legends and in captions, and in what unit their values are."""

from __future__ import annotations

from firsttouch.figures import Figure
from firsttouch.records.schema import Record
from firsttouch.text import SECONDS, is_size


def unit(figure: Figure, name: str, record: Record) -> str:
    """The unit of what a name stands for: a counter's is the end of its name, 'latency_us' or 'moved_bytes'."""
    if name == "median":
        return record.unit
    counter = figure.series if name == "value" else name
    last = counter.rpartition("_")[2]
    return "B" if is_size(counter) else last if last in SECONDS else ""


def called(figure: Figure, name: str) -> str:
    """What a name is called in words about it: its own name, as --set takes it."""
    return heading(figure, name) if name == "series" else name


def heading(figure: Figure, name: str) -> str:
    """What a name is called on an axis, in a legend or over a column."""
    if name in figure.titles:
        return figure.titles[name]
    if figure.series and name == "series":
        return figure.series.partition("{}")[0].strip("_").replace("_", " ") or name
    if figure.series and name == "value":
        return " ".join(figure.series.replace("{}", " ").replace("_", " ").split()) or name
    return name.replace("_", " ")


def amount_title(figure: Figure, name: str, title: str, record: Record) -> str:
    """The title of the axis of amounts: as given; else the unit of a median, or what the name is called."""
    return title or (record.unit if name == "median" else heading(figure, name))


def quantity_title(figure: Figure, name: str, title: str) -> str:
    """What is shown, in a caption: the title of its axis, less a unit after a comma."""
    words, comma, last = (title or heading(figure, name)).rpartition(", ")
    return words if comma and " " not in last else title or heading(figure, name)


def without_unit(title: str, unit: str) -> str:
    """'ns per load' is 'time per load', and 'time per free, ns' is 'time per free'."""
    return " ".join("time" if word == unit else word for word in title.removesuffix(f", {unit}").split(" "))
