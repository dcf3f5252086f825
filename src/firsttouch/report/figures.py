"""From a Figure, which is data, and the records of one experiment on one device to a Vega-Lite figure or a table.

Nothing here knows an experiment. Strings of a results file enter a specification only as data values, scale domains
and titles, never as expressions; the SVG that comes back is reduced to an allowed set of shapes and text.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from firsttouch.analysis.plateaus import find_plateaus, name_plateaus
from firsttouch.analysis.statistics import distinct, expand, group_by, value, varying
from firsttouch.analysis.tlb import name_levels
from firsttouch.experiments.base import Figure
from firsttouch.report import heat, stack
from firsttouch.report.text import SECONDS, count, is_size, label, quantity
from firsttouch.schema import DeviceInfo, Record, Scalar

if TYPE_CHECKING:
    from firsttouch.run.trace import Course

Spec = dict[str, Any]

# Okabe and Ito's palette, then Paul Tol's muted one: told apart with any common colour vision. Shapes go round at
# another pace, so that more series than colours still differ.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#000000", "#7A5195"),
    *("#882255", "#117733", "#88A03C", "#E69F00", "#332288", "#AA4499", "#808080"),
)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
WRONG, THROTTLED, INK, GRID = "#B00020", "#8A5A00", "#1f2933", "#e4e7eb"
NAMES: Mapping[str, Any] = {"labelLimit": 200, "titlePadding": 26}
"""Of an axis of names: its title stays clear of names that the reader's font makes longer than ours."""
MOST_PANELS = 12
MOST_STEPS = 1000
MOST_TICKS = 15
"""Of whole numbers, each with a tick of its own."""
MOST_DOTS = 40
"""Of one line over a series."""

FLAGS = {"wrong": "failed verification", "throttled": "throttled"}


class Palette:
    """Colours and shapes that stay with a value through a whole report."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, int]] = {}

    def styles(self, name: str, values: Iterable[str]) -> tuple[list[str], list[str]]:
        places = self._places.setdefault(name, {})
        found = [places.setdefault(v, len(places)) for v in values]
        return [COLOURS[i % len(COLOURS)] for i in found], [SHAPES[i % len(SHAPES)] for i in found]


@dataclass(frozen=True)
class Drawing:
    """A figure ready to be rendered: `columns` and `rows` for a table, else `spec`; notes caption it."""

    title: str
    spec: Spec | None = None
    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wrong: int = 0

    @property
    def kinds(self) -> list[str]:
        """The CSS class of each row of a table."""
        return ["wrong" if FLAGS["wrong"] in row else "" for row in self.rows]


def draw(figure: Figure, records: Sequence[Record], device: DeviceInfo | None, palette: Palette) -> Drawing | None:
    """The figure over the ok records of one experiment on one device; None where no point has what it shows."""
    if figure.kind == "stack":
        figure, records = replace(figure, y="value"), stack.with_sums(records, figure)
    elif figure.series:
        records = expand(records, figure.series)
    records = [r for r in records if all(value(r, name) == wanted for name, wanted in figure.where.items())]
    if figure.kind == "table":
        return _table(figure, records)
    shown = [r for r in records if _has_place(r, figure)]
    if not shown:
        return None
    roles = _roles(figure, shown)
    shown, notes = _fitting(figure, roles, shown)
    flagged = {flag: _count([r for r in shown if _flag(r) == flag]) for flag in FLAGS}
    if flagged["throttled"]:
        notes.append(f"Hollow brown triangles: {count(flagged['throttled'], 'point')} taken while throttled.")
    rows = [_row(r, figure, roles) for r in shown]
    if figure.levels and figure.kind == "line":
        rows += _levels(figure, roles, shown, device)
    how = {"line": _line, "bar": _bar, "heat": _heat, "stack": _stack}[figure.kind]
    spec = how(figure, roles, shown, rows, palette)
    return Drawing(_title(figure, roles, shown), spec, notes=notes, wrong=flagged["wrong"])


def _has_place(record: Record, figure: Figure) -> bool:
    """Whether the record has all that one mark of the figure needs."""
    amount, others = (figure.z, [figure.x, figure.y]) if figure.kind == "heat" else (figure.y, [figure.x])
    return _finite(value(record, amount)) and all(value(record, n) is not None for n in others)


def _fitting(figure: Figure, roles: Roles, shown: list[Record]) -> tuple[list[Record], list[str]]:
    """The records that are drawn, and what the caption says of them and of those that are not."""
    notes = [_uncertainty(figure)] if figure.kind != "heat" and figure.y == "median" else []
    names = [n for n in shown[0].factors if n not in (*varying(shown), *figure.where, "series")]
    if held := {n: v for n in names if (v := shown[0].factors[n]) is not None}:
        notes.append("The same everywhere: " + ", ".join(f"{n} {label(n, v)}" for n, v in held.items()) + ".")
    panels = list(group_by(shown, *roles.panel)) if roles.panel else []
    if len(panels) > MOST_PANELS:
        kept = {repr(p) for p in panels[:MOST_PANELS]}
        shown = [r for r in shown if repr(tuple(value(r, n) for n in roles.panel)) in kept]
        notes.append(f"The first {MOST_PANELS} of {len(panels)} panels are drawn; the table has every point.")
    if figure.kind == "heat":
        cells = group_by(shown, *roles.panel, figure.x, figure.y)
        notes = [*_heat_notes(figure, roles, shown, len(cells)), *notes]
        shown = [cell[0] for cell in cells.values()]
    if figure.kind == "stack":
        bars = group_by(shown, *roles.panel, figure.x)
        notes = [*stack.notes(figure, len(shown) - len(bars)), *notes]
        shown = [bar[0] for bar in bars.values()]
    return shown, notes


def _count(records: Sequence[Record]) -> int:
    """How many measured points these are: those of one series are one."""
    whole = [{n: v for n, v in r.factors.items() if n != "series"} for r in records if "series" in r.factors]
    return len(records) - len(whole) + len({repr(w) for w in whole})


def _finite(v: Scalar) -> bool:
    return isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)


def _uncertainty(figure: Figure) -> str:
    return f"{'Bands' if figure.kind == 'line' else 'Whiskers'} are the 95 % interval of the median."


def _flag(record: Record) -> str:
    return "wrong" if record.verified is False else "throttled" if record.throttled else ""


# ---------------------------------------------------------------------------------------------- what goes where


@dataclass(frozen=True)
class Roles:
    """Which names the colour, the dash and the panels stand for; '' where nothing varies."""

    colour: str
    dash: str
    panel: tuple[str, ...]


def _roles(figure: Figure, records: Sequence[Record]) -> Roles:
    """Give every varying factor a place, so that no line, no bar and no cell mixes different conditions."""

    def varies(name: str | None) -> str:
        return name if name and len(distinct(records, name)) > 1 else ""

    facet = varies(figure.facet)
    coloured = figure.kind in ("line", "bar")
    colour = varies(figure.colour) if coloured else ""
    dash = varies(figure.dash) if figure.kind == "line" else ""
    panel = [facet] if facet else []
    axes = {"bar": [figure.x], "stack": [figure.x], "heat": [figure.x, figure.y]}.get(figure.kind, [])
    if figure.kind == "bar":
        colour = "" if colour == figure.x else colour
        panel += [n for n in [varies(figure.dash)] if n]
    for name in varying(records):
        taken = [n for n in (colour, dash, *panel, *axes) if n]
        told_apart = len(group_by(records, *taken)) == len(group_by(records, *taken, name))
        if name in (*taken, figure.x, figure.y) or told_apart:
            continue
        values = len(distinct(records, name))
        if not colour and values <= len(COLOURS) and coloured:
            colour = name
        elif figure.kind == "line" and not dash and values <= len(DASHES):
            dash = name
        else:
            panel.append(name)
    return Roles(colour, dash, tuple(panel))


def _unit(figure: Figure, name: str, record: Record) -> str:
    """The unit of what a name stands for: a counter's is the end of its name, 'latency_us' or 'moved_bytes'."""
    if name == "median":
        return record.unit
    counter = figure.series if name == "value" else name
    last = counter.rpartition("_")[2]
    return "B" if is_size(counter) else last if last in SECONDS else ""


def _called(figure: Figure, name: str) -> str:
    """What a name is called in words about it: its own name, as --set takes it."""
    return _head(figure, name) if name == "series" else name


def _head(figure: Figure, name: str) -> str:
    """What a name is called on an axis or a legend."""
    if name in figure.titles:
        return figure.titles[name]
    if figure.series and name == "series":
        return figure.series.partition("{}")[0].strip("_").replace("_", " ") or name
    if figure.series and name == "value":
        return " ".join(figure.series.replace("{}", " ").replace("_", " ").split()) or name
    return name.replace("_", " ")


def _row(record: Record, figure: Figure, roles: Roles) -> Spec:
    x, y = value(record, figure.x), value(record, figure.y)
    low, high = y, y
    if figure.y == "median" and record.summary is not None:
        low, high = record.summary.ci_low, record.summary.ci_high
    return {
        "kind": "point",
        "x": x if figure.kind == "line" and _finite(x) else label(figure.x, x),
        "y": y,
        "low": low,
        "high": high,
        "flag": _flag(record),
        "text": quantity(y, _unit(figure, figure.y, record)) if isinstance(y, int | float) else "",
        **_condition(record, figure, roles),
    }


def _condition(record: Record, figure: Figure, roles: Roles) -> Spec:
    panel = ", ".join(f"{_called(figure, n)} {label(n, value(record, n))}" for n in roles.panel)
    one = {key: label(n, value(record, n)) if n else "" for key, n in (("colour", roles.colour), ("dash", roles.dash))}
    return {**one, "panel": panel}


def _levels(figure: Figure, roles: Roles, records: Sequence[Record], device: DeviceInfo | None) -> list[Spec]:
    """The names of the plateaus of one curve of each panel: the device's own agent's, the one with most points."""
    agent = "cpu" if device is None or device.name == "cpu" else "gpu"
    rows: list[Spec] = []
    for panel in group_by(records, *roles.panel).values():
        curves = group_by(panel, *filter(None, (roles.colour, roles.dash))).values()
        main = max(curves, key=lambda c: (c[0].factors.get("agent", agent) == agent, len(c)))
        points = [(x, y) for r in main if _finite(x := value(r, figure.x)) and _finite(y := value(r, figure.y))]
        xs, ys = [int(x) for x, _ in points], [float(y) for _, y in points]  # type: ignore[arg-type]
        if figure.level_names == "tlb":
            named = name_levels(xs, ys)
        else:
            named = name_plateaus(find_plateaus(xs, ys), device.facts if device else {})
        for name, p in named:
            text = [name, quantity(p.value, main[0].unit.partition(" ")[0])]
            middle = math.sqrt(p.low * p.high)
            rows.append(
                {"kind": "level", "x": middle, "y": p.value, "text": text, **_condition(main[0], figure, roles)}
            )
    return rows


def _title(figure: Figure, roles: Roles, records: Sequence[Record]) -> str:
    names = [n for n in (roles.colour, roles.dash, *roles.panel) if n]
    by = f", by {', '.join(_called(figure, n) for n in names)}" if names else ""
    per = f", for each {' and '.join(_called(figure, n) for n in names)}" if names else ""
    if figure.title:
        return figure.title + (per if figure.kind == "stack" else by)
    x, y = figure.x_title or _head(figure, figure.x), figure.y_title or _head(figure, figure.y)
    if figure.kind == "heat":
        return f"{_z_title(figure, records)} over {x} and {y}{by}"
    if figure.kind == "stack":
        return f"{_without_unit(y, _unit(figure, 'value', records[0]))} by {x} and {_head(figure, 'series')}{per}"
    return f"{y} over {x}{by}"


def _table(figure: Figure, records: Sequence[Record]) -> Drawing | None:
    names = list(dict.fromkeys(figure.columns or [figure.x, figure.colour, figure.y]))
    rows = [[*(_entry(figure, n, record) for n in names), FLAGS.get(_flag(record), "")] for record in records]
    rows = [list(r) for r in dict.fromkeys(tuple(r) for r in rows)]
    if not rows:
        return None
    if not any(r[-1] for r in rows):
        rows, last = [r[:-1] for r in rows], []
    else:
        last = ["mark"]
    wrong = _count([r for r in records if r.verified is False])
    heads = [figure.y_title if n == figure.y and figure.y_title else _head(figure, n) for n in names]
    return Drawing(figure.title or ", ".join(heads), columns=[*heads, *last], rows=rows, wrong=wrong)


def _entry(figure: Figure, name: str, record: Record) -> str:
    """A cell of a table. A ratio, which is called relative, has two decimals."""
    v = record.verified if name == "verified" else value(record, name)
    if name == "verified":
        return "not checked" if v is None else label(name, v)
    if not _finite(v) or isinstance(v, str | None):
        return label(name, v)
    if name.startswith("relative"):
        return heat.cell_text(v, heat.RATIO)
    unit = _unit(figure, name, record)
    with_unit = name in ("median", "value") or (unit in SECONDS and name in figure.titles)
    return quantity(v, unit) if with_unit else label(name, v)


# ---------------------------------------------------------------------------------------------- axes


def _log_ticks(values: Sequence[float], base: int) -> tuple[list[float], list[float]]:
    """Domain and tick values of a logarithmic axis: whole powers; for base 10, 2 and 5 too where they are few."""
    low, high = min(values), max(values)
    first, last = math.floor(math.log(low, base) + 1e-9), math.ceil(math.log(high, base) - 1e-9)
    if base == 2:
        step = max(1, math.ceil((last - first) / 8))
        ticks = [2.0**e for e in range(first, last + 1) if e % step == 0]
        return ([low, high] if high > low else [low / 2, high * 2]), ticks
    last = max(last, first + 1)
    multiples = (1, 2, 5) if last - first <= 3 else (1,)
    step = max(1, math.ceil((last - first) / 8))
    ticks = [m * 10.0**e for e in range(first, last + 1, step) for m in multiples]
    inside = [t for t in ticks if low / 2.5 <= t <= high * 2.5]
    if len(inside) < 2:
        return [10.0**first, 10.0**last], ticks
    return [min(low, inside[0]), max(high, inside[-1])], inside


def _byte_ticks(most: float) -> list[float]:
    """Ticks from 0 to `most` bytes or a little beyond, a power of two apart."""
    step = 2.0 ** math.ceil(math.log2(max(most, 6.0) / 6))
    return [i * step for i in range(math.ceil(most / step) + 1)]


def _size_label(digits: str = "") -> str:
    """An expression for the binary unit that suits each value of an axis."""
    units = ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB"), (0, "B"))
    parts = [
        f"abs(datum.value) >= {2**shift} ? format(datum.value / {2**shift}, '{digits}~r') + ' {unit}'"
        for shift, unit in units
    ]
    return " : ".join(parts) + f" : format(datum.value, '{digits}~r')"


def _time_label(scale: float) -> str:
    parts = [
        f"abs(datum.value) >= {10.0**power / scale} ? format(datum.value * {scale / 10.0**power}, '.3~r') + ' {unit}'"
        for unit, power in (("s", 0), ("ms", -3), ("us", -6))
    ]
    return " : ".join(parts) + f" : format(datum.value * {scale / 1e-9}, '.3~r') + ' ns'"


def _axis(name: str, title: str, unit: str, values: Sequence[float], log: bool, *, is_x: bool = False) -> Spec:
    """Title, scale and axis of one quantitative channel, as keyword arguments of altair's X and Y."""
    import altair as alt

    scale: Spec = {"zero": not is_x, "nice": not is_x}
    axis: Spec = {"grid": not is_x}
    head, bytes_ = unit.partition(" ")[0], is_size(name) or unit == "B"
    if bytes_:
        axis |= {"labelExpr": _size_label()}
    elif _as_time(head, values):
        axis |= {"labelExpr": _time_label(SECONDS[head])}
        title = _without_unit(title, head)
    elif name in ("median", "value"):
        axis |= {"format": ",~r"}
    elif is_x and not log and all(v.is_integer() for v in values):
        few = max(values) - min(values) < MOST_TICKS
        whole = {"values": [*range(int(min(values)), int(max(values)) + 1)], "format": ",d"}
        axis |= whole if few else {"tickMinStep": 1}
    positive = [v for v in values if v > 0]
    if log and min(values) <= 0:
        # Linear up to the least value above zero. Such a scale has no round ticks of its own.
        scale = {"type": "symlog", "nice": False, "constant": min(positive, default=1.0)}
        few = is_x and len(set(values)) <= 10
        axis["values"] = sorted(
            {0.0, *(values if few or not positive else _log_ticks(positive, 2 if bytes_ else 10)[1])}
        )
    elif log:
        powers = all(math.log2(v).is_integer() for v in values)
        domain, ticks = _log_ticks(values, 2 if bytes_ or (powers and name not in ("median", "value")) else 10)
        scale, axis["values"] = {"type": "log", "domain": domain, "nice": False}, ticks
    elif bytes_ and min(values) >= 0:
        axis["values"] = _byte_ticks(max(values))
    return {"title": title, "scale": alt.Scale(**scale), "axis": alt.Axis(**axis)}


def _time_axis(amount: Spec, unit: str) -> Spec:
    """Title and axis of `amount` with each tick in the unit that suits it, as the text in bars is; few ticks."""
    import altair as alt

    if unit not in SECONDS:
        return {}
    axis = {"grid": True, "tickCount": 7, "labelExpr": f"datum.value == 0 ? '0' : {_time_label(SECONDS[unit])}"}
    return {"title": _without_unit(amount["title"], unit), "axis": alt.Axis(**axis)}


def _as_time(unit: str, values: Sequence[float]) -> bool:
    """Whether values of this unit read better as times, each in the unit that suits it."""
    return unit in SECONDS and (max(values, default=0) >= 1e4 or 0 < max(values, default=0) < 0.1)


def _without_unit(title: str, unit: str) -> str:
    """'ns per load' is 'time per load', and 'time per free, ns' is 'time per free'."""
    return " ".join("time" if word == unit else word for word in title.removesuffix(f", {unit}").split(" "))


def _y_title(figure: Figure, records: Sequence[Record]) -> str:
    return figure.y_title or (records[0].unit if figure.y == "median" else _head(figure, figure.y))


def _numbers(rows: Iterable[Spec], *keys: str) -> list[float]:
    return [float(row[k]) for row in rows if row["kind"] == "point" for k in keys if _finite(row[k])]


# ---------------------------------------------------------------------------------------------- lines, bars and cells


def _line(figure: Figure, roles: Roles, records: Sequence[Record], rows: list[Spec], palette: Palette) -> Spec:
    import altair as alt

    base = alt.Chart()
    xs = _numbers(rows, "x")
    x_title = figure.x_title or _head(figure, figure.x)
    if len(xs) == len(records):
        x = alt.X("x:Q", **_axis(figure.x, x_title, "", xs, figure.log_x, is_x=True))
    else:
        rows = [row | {"x": label(figure.x, row["x"])} for row in rows if row["kind"] == "point"]
        x = alt.X("x:N", title=x_title, sort=[label(figure.x, v) for v in distinct(records, figure.x)])
    ys = _numbers(rows, "y")
    if figure.log_y and min(ys) > 0:
        for row in rows:  # an interval that reaches zero has no place on a logarithmic axis
            row["low"] = max(row.get("low", 0.0), min(ys) / 10)
    ys, unit = _numbers(rows, "y", "low", "high"), _unit(figure, figure.y, records[0])
    y = alt.Y("y:Q", **_axis(figure.y, _y_title(figure, records), unit, ys, figure.log_y))
    colour, shape = (_colour(figure, roles, records, palette, channel) for channel in ("colour", "shape"))
    dash = alt.value([1, 0])
    if roles.dash:
        dashes = [label(roles.dash, v) for v in distinct(records, roles.dash)]
        looks = alt.Scale(domain=dashes, range=[DASHES[i % len(DASHES)] for i in range(len(dashes))])
        strokes = alt.Legend(symbolType="stroke", symbolSize=500, symbolStrokeWidth=1.6)
        dash = alt.StrokeDash("dash:N", title=_head(figure, roles.dash), scale=looks, legend=strokes)
    points = base.transform_filter("datum.kind == 'point'")
    layers = [points.mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour, strokeDash=dash)]
    if figure.y == "median":
        band = points.mark_area(opacity=0.18, clip=True)
        layers.insert(0, band.encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour, detail="dash:N"))
    dots = points.transform_filter("datum.dot") if _thin_dots(figure, rows) else points
    layers.append(dots.mark_point(filled=True, size=26, opacity=1).encode(x=x, y=y, color=colour, shape=shape))
    layers += _flag_marks(base, x, y)
    named = base.transform_filter("datum.kind == 'level'")
    if figure.levels:
        for halo in ({"stroke": "white", "strokeWidth": 4, "strokeJoin": "round"}, {}):
            text = named.mark_text(dy=-27, fontSize=11, fontWeight="bold", lineBreak="\n", fill=INK, **halo)
            layers.append(text.encode(x=x, y=y, text="text:N"))
    return _finish(_facets(alt.layer(*layers), rows, roles, (720, 340), (345, 230)), rows)


def _thin_dots(figure: Figure, rows: list[Spec]) -> bool:
    """Mark the points of a long series that get a dot, so that dots side by side do not hide the dashes of a line."""
    xs = sorted({row["x"] for row in rows}, key=str) if figure.series else []
    if len(xs) <= MOST_DOTS or not all(map(_finite, xs)):
        return False
    xs.sort()
    chosen = {*xs[:: -(-len(xs) // MOST_DOTS)]}
    for row in rows:
        row["dot"] = row["x"] in chosen
    return True


def _bar(figure: Figure, roles: Roles, records: Sequence[Record], rows: list[Spec], palette: Palette) -> Spec:
    """Bars by x; every panel has its own axes, since panels differ in what they hold and how large it is."""
    import altair as alt

    color = _colour(figure, roles, records, palette, "colour")
    panels: dict[str, list[tuple[Record, Spec]]] = {}
    for record, row in zip(records, rows, strict=True):
        panels.setdefault(str(row["panel"]), []).append((record, row))
    charts = []
    for title, pairs in panels.items():
        inside = alt.FieldEqualPredicate(field="panel", equal=title)
        header = {"title": alt.TitleParams(title, anchor="start", fontSize=11)} if roles.panel else {}
        one = _bars(figure, roles, [record for record, _ in pairs], [row for _, row in pairs], color)
        width = 270 if roles.panel else 560
        charts.append(one.transform_filter(inside).properties(width=width, **header))
    chart = alt.concat(*charts, columns=2).resolve_scale(color="shared") if roles.panel else charts[0]
    return _finish(chart, rows)


def _bars(figure: Figure, roles: Roles, records: Sequence[Record], rows: list[Spec], color: Any) -> Any:
    import altair as alt

    base = alt.Chart(alt.NamedData("rows"))
    ys = _numbers(rows, "y", "low", "high")
    log = figure.log_y and min(ys) > 0
    amount = _axis(figure.y, _y_title(figure, records), _unit(figure, figure.y, records[0]), ys, log)
    start = 0.0
    if log:
        domain = [10.0 ** (math.floor(math.log10(min(ys))) - (math.log10(min(ys)) % 1 < 0.1)), max(ys) * 1.6]
        start = domain[0]
        amount["scale"] = alt.Scale(type="log", domain=domain, nice=False)
    elif min(ys) >= 0:
        amount["scale"] = alt.Scale(domain=[0, max(ys) * 1.25 or 1])
    for row in rows:
        row["start"] = start
    names = [label(figure.x, v) for v in distinct(records, figure.x)]
    place: Spec = {
        "y": alt.Y("x:N", title=figure.x_title or _head(figure, figure.x), sort=names, axis=alt.Axis(**NAMES))
    }
    if roles.colour:
        inner = [label(roles.colour, v) for v in distinct(records, roles.colour)]
        place["yOffset"] = alt.YOffset("colour:N", sort=inner)
    x = alt.X("y:Q", **amount)
    bars = base.mark_bar(opacity=0.85).encode(x=x, x2="start:Q", color=color, **place)
    layers = [bars]
    if figure.y == "median":
        layers.append(base.mark_rule(color=INK).encode(x=alt.X("low:Q"), x2="high:Q", **place))
    layers.append(base.mark_text(align="left", dx=5, fontSize=10, fill=INK).encode(x="high:Q", text="text:N", **place))
    layers += _flag_marks(base, x, place["y"], **{k: v for k, v in place.items() if k != "y"})
    height = alt.Step(15 if roles.colour else 22, **({"for": "offset"} if roles.colour else {}))
    return alt.layer(*layers).properties(height=height)


def _stack(figure: Figure, roles: Roles, records: Sequence[Record], rows: list[Spec], palette: Palette) -> Spec:
    """A bar of segments by x; every panel has its own axes, as bars do."""
    import altair as alt

    segments = [stack.segments(record, figure) for record in records]
    names = list(dict.fromkeys(name for one in segments for name in one))
    fills = dict(zip(names, palette.styles(_head(figure, "series"), names)[0], strict=True))
    scale = alt.Scale(domain=names, range=[fills[n] for n in names])
    color = alt.Color("segment:N", title=_head(figure, "series"), scale=scale, legend=alt.Legend(columns=6))
    width, unit = 270 if roles.panel else 560, _unit(figure, "value", records[0])
    panels: dict[str, list[Spec]] = {}
    drawn: list[Spec] = []
    for row, one in zip(rows, segments, strict=True):
        panels.setdefault(str(row["panel"]), []).append(row | {"parts": one})
    charts = []
    for title, bars in panels.items():
        most = max(row["y"] for row in bars) * 1.25 or 1.0
        for row in bars:
            parts = stack.rows(row.pop("parts"), fills, width / most, unit)
            drawn += [row, *({**part, "x": row["x"], "panel": title} for part in parts)]
        header = {"title": alt.TitleParams(title, anchor="start", fontSize=11, limit=width + 60)} if roles.panel else {}
        one_panel = _stacked(figure, records, bars, color, alt.Scale(domain=[0, most]))
        inside = alt.FieldEqualPredicate(field="panel", equal=title)
        charts.append(one_panel.transform_filter(inside).properties(width=width, **header))
    chart = alt.concat(*charts, columns=2).resolve_scale(color="shared") if roles.panel else charts[0]
    return _finish(chart, drawn)


def _stacked(figure: Figure, records: Sequence[Record], bars: list[Spec], color: Any, scale: Any) -> Any:
    """The layers of one panel: segments, hairlines where they are too thin to see, what they hold, and totals."""
    import altair as alt

    amount = _axis("value", _y_title(figure, records), _unit(figure, "value", records[0]), _numbers(bars, "y"), False)
    amount |= _time_axis(amount, _unit(figure, "value", records[0])) | {"scale": scale}
    present = {row["x"] for row in bars}
    names = [n for v in distinct(records, figure.x) if (n := label(figure.x, v)) in present]
    y = alt.Y("x:N", title=figure.x_title or _head(figure, figure.x), sort=names, axis=alt.Axis(**NAMES))
    base = alt.Chart(alt.NamedData("rows"))
    part, point = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("segment", "point"))
    total = alt.X("y:Q", **amount)
    end = {"align": "left", "fontSize": 10, "fill": INK}
    layers = [
        part.mark_bar(height=15).encode(x=alt.X("start:Q", **amount), x2="end:Q", y=y, color=color),
        part.transform_filter("datum.thin").mark_tick(thickness=1.2, height=15).encode(x="start:Q", y=y, color=color),
        *(
            part.transform_filter(f"datum.ink == '{ink}'")
            .mark_text(fontSize=9, fill=ink)
            .encode(x="middle:Q", y=y, text="text:N")
            for ink in (heat.DARK, heat.LIGHT)
        ),
        point.transform_filter("datum.flag == ''").mark_text(dx=5, **end).encode(x=total, y=y, text="text:N"),
        point.transform_filter("datum.flag != ''").mark_text(dx=13, **end).encode(x=total, y=y, text="text:N"),
        *_flag_marks(point, total, y),
    ]
    return alt.layer(*layers).properties(height=alt.Step(22))


def _heat(figure: Figure, roles: Roles, records: Sequence[Record], rows: list[Spec], palette: Palette) -> Spec:
    """A cell per x and y; all panels have the same cells and the same colours."""
    import altair as alt

    shades, unit = _shades(figure, records), _z_unit(figure, records)
    x, y = _names(figure.x, records), _names(figure.y, records)
    for record, row in zip(records, rows, strict=True):
        row |= {"x": x[value(record, figure.x)], "y": y[value(record, figure.y)]}
        row |= _cell(record, figure, unit, shades)
    down = [*reversed(y.values())] if all(map(_finite, y)) else [*y.values()]
    room = heat.layout([row["text"] for row in rows], [*x.values()], down)
    for row in rows:
        row["text"] = row["text"].split(" ") if room.lines else row["text"]
    across = _band("x", figure.x_title or _head(figure, figure.x), [*x.values()], room)
    upright = _band("y", figure.y_title or _head(figure, figure.y), down, room)
    layers = _cells(alt.Chart(alt.NamedData("rows")), across, upright, _legend(figure, records, shades), room)
    cells = alt.layer(*layers).properties(width=room.width * len(x), height=room.height * len(y))
    if not roles.panel:
        return _finish(cells, rows)
    panels = [
        cells.transform_filter(alt.FieldEqualPredicate(field="panel", equal=title)).properties(
            title=alt.TitleParams(title, anchor="start", fontSize=11, limit=room.width * len(x) + 60)
        )
        for title in dict.fromkeys(row["panel"] for row in rows)
    ]
    return _finish(alt.concat(*panels, columns=room.columns).resolve_scale(color="shared"), rows)


def _cells(base: Any, x: Any, y: Any, colour: Any, room: heat.Layout) -> list[Any]:
    """The layers of a heat map. A cell that failed verification has neither colour nor text: nobody may read it."""
    right = base.transform_filter("datum.flag != 'wrong'")
    look = {"fontSize": heat.FONT_SIZE, "lineHeight": heat.LINE, "dy": -heat.LINE / 2 if room.lines else 0}
    corner = {"xOffset": 5 - room.width / 2, "yOffset": 5 - room.height / 2, "fill": "white", "size": 26}
    wrong, throttled = _flag_marks(base, x, y, throttled=corner)
    return [
        base.transform_filter("datum.flag == 'wrong'").mark_rect(fill="white", stroke=WRONG).encode(x=x, y=y),
        right.mark_rect().encode(x=x, y=y, color=colour),
        *(
            right.transform_filter(f"datum.ink == '{ink}'").mark_text(**look, fill=ink).encode(x=x, y=y, text="text:N")
            for ink in (heat.DARK, heat.LIGHT)
        ),
        wrong,
        throttled,
    ]


def _cell(record: Record, figure: Figure, unit: str, shades: heat.Shades) -> Spec:
    z = value(record, figure.z)
    assert isinstance(z, int | float)
    return {"z": z, "text": heat.cell_text(z, unit), "ink": shades.ink(z)}


def _shades(figure: Figure, records: Sequence[Record]) -> heat.Shades:
    """Colours of the values that are not proved wrong."""
    return heat.shades(_amounts(figure, [r for r in records if _flag(r) != "wrong"]), figure.centre)


def _amounts(figure: Figure, records: Iterable[Record]) -> list[float]:
    return [float(z) for r in records if isinstance(z := value(r, figure.z), int | float)]


def _z_unit(figure: Figure, records: Sequence[Record]) -> str:
    """How cells read: as declared; else as ratios about 1, or as times where they would be long numbers."""
    head = _unit(figure, figure.z, records[0]).partition(" ")[0]
    plain = heat.RATIO if figure.centre == 1 else ""
    return figure.z_unit or plain or (head if _as_time(head, _amounts(figure, records)) else "")


def _z_title(figure: Figure, records: Sequence[Record]) -> str:
    title = figure.z_title or (
        f"median, {records[0].unit}".rstrip(", ") if figure.z == "median" else _head(figure, figure.z)
    )
    return _without_unit(title, unit) if (unit := _z_unit(figure, records)) in SECONDS else title


def _heat_notes(figure: Figure, roles: Roles, records: Sequence[Record], cells: int) -> list[str]:
    """What a cell means, what its colour means, and why some are blank."""
    shades = _shades(figure, records)
    what = {"median": "the median", "value": f"one counter ({figure.series.replace('{}', '…')})"}
    notes = [] if figure.title else [f"Each cell shows {what.get(figure.z, f'the counter {figure.z}')} of one point."]
    if figure.centre is not None:
        end = f", strongest from a factor of {heat.MOST_FACTOR:g}" if shades.cut else ""
        notes.append(f"Blue is below {figure.centre:g}, orange above{end}.")
    elif shades.log:
        notes.append("Colours are on a logarithmic scale.")
    if cells < len(records):
        notes.append(f"{count(len(records) - cells, 'more point')} of the same conditions only in the table.")
    panels = len(group_by(records, *roles.panel))
    if cells < panels * len(distinct(records, figure.x)) * len(distinct(records, figure.y)):
        against = ", or have nothing to be compared with" if figure.z.startswith("relative") else ""
        notes.append(f"Blank cells were not measured{against}.")
    return notes


def _names(name: str, records: Sequence[Record]) -> dict[Scalar, str]:
    """The labels of an ordinal axis; values that would read alike are written out."""
    values = distinct(records, name)
    labels = [label(name, v) for v in values]
    return {v: repr(v) if labels.count(text) > 1 else text for v, text in zip(values, labels, strict=True)}


def _band(channel: str, title: str, names: list[str], room: heat.Layout) -> Any:
    import altair as alt

    look: Spec = {
        "ticks": False,
        "domain": False,
        "grid": False,
        "labelPadding": 6,
        "labelLimit": 200,
        "maxExtent": 280,
    }
    if channel == "y":
        look |= NAMES
    if channel == "x" and room.tilted:
        look |= {"labelAngle": -40, "labelAlign": "right", "labelBaseline": "middle", "labelLimit": 140}
        look |= {"titlePadding": 14}
    elif channel == "x":
        look |= {"labelAngle": 0}
    kind = alt.X if channel == "x" else alt.Y
    scale = alt.Scale(type="band", domain=names, paddingInner=0.04, paddingOuter=0)
    return kind(f"{channel}:N", title=title, scale=scale, axis=alt.Axis(**look, labelOverlap=False))


def _legend(figure: Figure, records: Sequence[Record], shades: heat.Shades) -> Any:
    """The colour channel of a heat map, with a bar that shows its scale."""
    import altair as alt

    unit, ends = _z_unit(figure, records), [shades.stops[0], shades.stops[-1]]
    look: Spec = {"gradientLength": 340, "gradientThickness": 10, "titleLimit": 560, "format": ".3~s"}
    if unit == "B":
        look |= {"labelExpr": _size_label(".3"), "values": shades.stops}
    elif unit in SECONDS:
        look |= {"labelExpr": _time_label(SECONDS[unit])}
    elif max(map(abs, ends)) < 1000:
        look |= {"format": ".2~f" if unit == heat.RATIO else ".3~r"}
    if shades.log:
        look |= {"values": shades.stops}
    kind = {"type": "log" if shades.log else "linear", "domain": shades.stops, "range": [*shades.colours]}
    scale = alt.Scale(**kind, interpolate="rgb", clamp=True, nice=False)
    return alt.Color("z:Q", title=_z_title(figure, records), scale=scale, legend=alt.Legend(**look))


def _colour(figure: Figure, roles: Roles, records: Sequence[Record], palette: Palette, channel: str) -> Any:
    """The colour or shape channel; constant where nothing varies, else with the value's own style of the report."""
    import altair as alt

    if not roles.colour:
        return alt.value(COLOURS[0] if channel == "colour" else SHAPES[0])
    values = [label(roles.colour, v) for v in distinct(records, roles.colour)]
    if roles.colour == figure.colour:
        palette.styles(roles.colour, figure.order)
    colours, shapes = palette.styles(roles.colour, values)
    chosen, kind = (colours, alt.Color) if channel == "colour" else (shapes, alt.Shape)
    return kind("colour:N", title=_head(figure, roles.colour), scale=alt.Scale(domain=values, range=chosen))


def _flag_marks(base: Any, x: Any, y: Any, *, throttled: Mapping[str, Any] | None = None, **place: Any) -> list[Any]:
    looks = {
        "wrong": {"shape": "M-1,-1L1,1M1,-1L-1,1", "stroke": WRONG, "strokeWidth": 3, "size": 130},
        "throttled": {"shape": "triangle-up", "stroke": THROTTLED, "strokeWidth": 1.3, "size": 70, **(throttled or {})},
    }
    return [
        base.transform_filter(f"datum.flag == '{flag}'")
        .mark_point(filled=False, opacity=1, **look)
        .encode(x=x, y=y, **place)
        for flag, look in looks.items()
    ]


def _facets(layered: Any, rows: list[Spec], roles: Roles, single: tuple[Any, Any], panel: tuple[Any, Any]) -> Any:
    """One chart, or one for each panel with common axes."""
    import altair as alt

    width, height = panel if roles.panel else single
    chart = layered.properties(width=width, height=height)
    if not roles.panel:
        return chart.properties(data=alt.NamedData("rows"))
    order = list(dict.fromkeys(row["panel"] for row in rows))
    header = alt.Header(title=None, labelFontWeight="bold", labelLimit=330, labelAnchor="start")
    return chart.facet(facet=alt.Facet("panel:N", sort=order, header=header), columns=2, data=alt.NamedData("rows"))


def _finish(chart: Any, rows: list[Spec]) -> Spec:
    """The specification with its data, which go in past altair's own handling of each value."""
    font = "Helvetica, Arial, 'Liberation Sans', sans-serif"
    axis: Spec = {"labelColor": INK, "titleColor": INK, "gridColor": GRID, "domainColor": "#9aa5b1"}
    axis |= {"tickColor": "#9aa5b1", "labelFontSize": 11, "titleFontSize": 12, "titleFontWeight": "normal"}
    axis |= {"labelFlush": False}
    legend: Spec = {"orient": "bottom", "direction": "horizontal", "columns": 4, "labelFontSize": 11, "labelLimit": 200}
    stacked = {"bottom": {"direction": "vertical", "anchor": "start"}}
    legend |= {"titleFontSize": 11, "symbolSize": 80, "symbolOpacity": 1, "layout": stacked}
    legend |= {"columnPadding": 26}  # the reader's font may be wider than the one that this is laid out with
    spec: Spec = chart.to_dict(validate=False) | {"datasets": {"rows": rows}, "data": {"name": "rows"}}
    spec["config"] = {
        "aria": False,
        "font": font,
        "background": "white",
        "axis": axis,
        "legend": legend,
        "view": {"stroke": None},
        "padding": 6,
    }
    return spec


def draw_course(course: Course) -> Drawing:
    """Bytes over time of one point, one line per direction."""
    import altair as alt

    rows: list[Spec] = []
    for way, steps in course.steps.items():
        every = -(-len(steps) // MOST_STEPS)
        kept = [*steps[:-1:every], steps[-1]]
        drawn = [(when, total) for when, total in kept if _finite(when) and _finite(total)]
        rows += [{"kind": "point", "x": when, "y": total, "colour": way} for when, total in drawn]
    most, until = max([*_numbers(rows, "y"), 1.0]), max([*_numbers(rows, "x"), 0.0])
    ticks = _byte_ticks(most)
    ways = list(course.steps)
    x = alt.X("x:Q", title="time since the point began", scale=alt.Scale(domain=[0, until]))
    y = alt.Y("y:Q", title="bytes moved", scale=alt.Scale(domain=[0, ticks[-1]]))
    chart = (
        alt.Chart()
        .mark_line(strokeWidth=1.6, interpolate="step-after")
        .encode(
            x=x.axis(grid=False, labelExpr=_time_label(1.0)),
            y=y.axis(values=ticks, labelExpr=_size_label()),
            color=alt.Color("colour:N", title="", scale=alt.Scale(domain=ways, range=COLOURS[: len(ways)])),
        )
        .properties(width=560, height=240)
    )
    which = ", ".join(f"{name} {label(name, v)}" for name, v in course.factors.items()) or "the only one"
    notes = [f"The point that moved most: {which}.", "events.json has every point, for Perfetto."]
    return Drawing("Bytes moved by the driver over time", _finish(chart, rows), notes=notes)


# ---------------------------------------------------------------------------------------------- rendering

_TAGS = {"svg", "g", "path", "text", "tspan", "rect", "line", "circle", "defs", "clipPath", "linearGradient", "stop"}
_CONTROL = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufffe\\uffff]")
_SVG = "{http://www.w3.org/2000/svg}"


def _clean(part: Any) -> Any:
    """The specification without the characters that XML forbids: they abort the process inside vl-convert."""
    if isinstance(part, str):
        return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", part)
    if isinstance(part, Mapping):
        return {key: _clean(inner) for key, inner in part.items()}
    return [_clean(inner) for inner in part] if isinstance(part, list | tuple) else part


def to_svg(spec: Mapping[str, Any]) -> str:
    """The figure as an SVG document of shapes and text only."""
    import vl_convert

    text: str = vl_convert.vegalite_to_svg(_clean(spec), allowed_base_urls=[])
    return sanitise(text)


def to_png(spec: Mapping[str, Any], scale: float = 2.0) -> bytes:
    """The figure as a PNG image."""
    import vl_convert

    image: bytes = vl_convert.vegalite_to_png(_clean(spec), scale=scale, allowed_base_urls=[])
    return image


def sanitise(svg: str, prefix: str = "") -> str:
    """The SVG reduced to allowed elements, without handlers, styles and links; its ids begin with `prefix`."""
    ElementTree.register_namespace("", "http://www.w3.org/2000/svg")
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if not isinstance(child.tag, str) or child.tag.removeprefix(_SVG) not in _TAGS:
                parent.remove(child)
        for name, text in list(parent.attrib.items()):
            plain = name.rpartition("}")[2].lower()
            outside = "url(" in text and not text.strip().startswith("url(#")
            if plain.startswith("on") or plain in ("href", "style", "class", "base") or outside:
                del parent.attrib[name]
            elif plain == "id":
                parent.set(name, prefix + text)
            elif "url(#" in text:
                parent.set(name, text.replace("url(#", f"url(#{prefix}"))
    return ElementTree.tostring(root, encoding="unicode")
