"""Heat maps and series: what their cells and points say, and what never happens to them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
import sample

from firsttouch.experiments.base import Figure
from firsttouch.report import heat
from firsttouch.report.figures import Palette, draw, to_png, to_svg

MIB = 2**20


def point(factors, median=1.0, counters=None, **more):
    return sample.point("allocation", "cpu", median, factors=factors, counters=counters or {}, **more)


def drawn(figure, records):
    """The drawing, and all text of its SVG; lines of one label are joined."""
    drawing = draw(figure, records, None, Palette())
    assert drawing
    assert to_png(drawing.spec).startswith(b"\x89PNG")
    texts = []
    for text in ElementTree.fromstring(to_svg(drawing.spec)).iter("{http://www.w3.org/2000/svg}text"):
        texts.append(" ".join(t for t in text.itertext()))
    return drawing, texts


def grid(**more):
    return [
        point({"cpu": c, "gpu": g, "allocator": "managed"}, counters={"ratio": 0.25 * c + g / 1e4}, **more)
        for c in (1, 2, 10)
        for g in (64, 1024)
    ]


RATIOS = Figure("heat", x="cpu", y="gpu", z="ratio", centre=1, x_title="CPU threads", z_title="relative to alone")


def test_a_cell_says_its_value():
    drawing, texts = drawn(RATIOS, grid())
    assert {"0.26", "0.35", "0.51", "0.60", "2.51", "2.60", "CPU threads", "gpu", "relative to alone"} <= set(texts)
    assert drawing.title == "relative to alone over CPU threads and gpu"
    assert drawing.notes[:2] == ["Each cell shows the counter ratio of one point.", "Blue is below 1, orange above."]
    assert "The same everywhere: allocator managed." in drawing.notes


def test_numbers_are_in_order_whatever_the_order_of_the_records():
    _, texts = drawn(RATIOS, grid()[::-1])
    assert texts.index("1") < texts.index("2") < texts.index("10")
    assert texts.index("1,024") < texts.index("64")  # upwards, as on any axis


def test_sizes_are_binary_and_words_keep_their_order():
    records = [point({"size": s, "allocator": a}, s / 7) for a in ("zeta", "alpha") for s in (2**20, 4096)]
    _, texts = drawn(Figure("heat", x="size", y="allocator"), records)
    assert texts.index("4 KiB") < texts.index("1 MiB")
    assert texts.index("zeta") < texts.index("alpha")


def test_other_conditions_get_panels_and_are_never_averaged():
    records = [
        point({"cpu": c, "gpu": g, "type": t, "scope": s}, counters={"ratio": 0.5 + 0.01 * n})
        for n, (t, s) in enumerate([("u64", "device"), ("u64", "system"), ("f64", "device"), ("f64", "system")])
        for c in (1, 2)
        for g in (64, 128)
    ]
    drawing, texts = drawn(Figure("heat", x="cpu", y="gpu", z="ratio", facet="scope", centre=1), records)
    assert {"scope device, type u64", "scope system, type f64"} <= set(texts)
    assert [texts.count(f"0.5{n}") for n in range(4)] == [4] * 4
    assert drawing.title.endswith("by scope, type")


def test_points_of_equal_conditions_are_not_drawn_over_each_other():
    drawing, texts = drawn(
        RATIOS, [*grid(), point({"cpu": 1, "gpu": 64, "allocator": "managed"}, counters={"ratio": 9})]
    )
    assert "9.00" not in texts
    assert any(note.startswith("1 more point of the same conditions") for note in drawing.notes)


def test_what_was_not_measured_is_blank():
    drawing, texts = drawn(RATIOS, [r for r in grid() if r.factors["cpu"] != 10 or r.factors["gpu"] != 64])
    assert "2.51" not in texts
    assert "2.60" in texts
    assert "Blank cells were not measured." in drawing.notes


def test_wrong_data_have_neither_colour_nor_text():
    wrong = point({"cpu": 2, "gpu": 128, "allocator": "managed"}, counters={"ratio": 7777.0}, verified=False)
    drawing, texts = drawn(RATIOS, [*grid(), wrong])
    assert drawing.wrong == 1
    assert not any("7" in text and "k" in text for text in texts)
    assert "8" not in texts  # the scale does not reach for it either
    assert to_svg(drawing.spec).count('stroke="#B00020"') == 2  # the cell's edge and the cross


def test_throttled_cells_are_marked():
    drawing, texts = drawn(RATIOS, grid(throttled=True))
    assert "Hollow brown triangles: 6 points taken while throttled." in drawing.notes
    assert "2.60" in texts
    assert to_svg(drawing.spec).count('stroke="#8A5A00"') == 6


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (256 * MIB, "B", "+256 MiB"),
        (-1000 * MIB, "B", "−1000 MiB"),  # noqa: RUF001
        (1.5 * 2**30, "B", "+1.5 GiB"),
        (0, "B", "0"),
        (0.97, heat.RATIO, "0.97"),
        (1, heat.RATIO, "1.00"),
        (0.0123, heat.RATIO, "0.012"),
        (12.34, heat.RATIO, "12.3"),
        (0, "", "0"),
        (3.14159, "", "3.14"),
        (1234, "", "1234"),
        (12345, "", "12.3k"),
        (-2.5e9, "", "−2.5G"),  # noqa: RUF001
        (1e300, "", "1e+300"),
        (1500, "ns", "1.5 us"),
    ],
)
def test_how_cells_read(value, unit, text):
    assert heat.cell_text(value, unit) == text


def contrast(a, b):
    return heat._contrast(heat._luminance(a), heat._luminance(b))


@pytest.mark.parametrize(("centre", "low"), [(None, 0.0), (None, 1e-4), (1, 0.01), (0, -40.0)])
def test_text_is_readable_on_every_colour(centre, low):
    """WCAG 2.1, 1.4.3 asks for 4.5."""
    scale = heat.shades([low, 50.0], centre)
    for i in range(101):
        value = low + (50 - low) * (i / 100) ** 3
        assert contrast(scale._colour(value), heat._rgb(scale.ink(value))) >= 4.5


def test_colours_do_not_make_patterns_of_noise():
    ends = [heat.shades(v, c).stops for v, c in (([100.0, 101.0], None), ([0.99, 1.01], 1))]
    assert [(stops[0], stops[-1]) for stops in ends] == [(75.75, 101.0), (0.8, 1.25)]
    assert heat.shades([0.5, 1e6], 1).cut


@pytest.mark.parametrize("values", [[0.0], [-3.0, -3.0], [1e308, -1e308], [5e-324, 1e308], [1e308], []])
@pytest.mark.parametrize("centre", [None, 0, 1, -1e300])
def test_any_numbers_have_colours(values, centre):
    scale = heat.shades(values, centre)
    assert scale.stops == sorted(scale.stops)
    assert scale.stops[0] < scale.stops[-1]
    assert all(re.fullmatch("#[0-9a-f]{6}", scale.ink(v)) for v in values)


def test_extreme_values_are_drawn():
    for centre in (None, 0, 1):
        records = [point({"cpu": i, "gpu": 1}, counters={"ratio": v}) for i, v in enumerate([1e308, 5e-324, 0, -1e308])]
        drawn(Figure("heat", x="cpu", y="gpu", z="ratio", centre=centre), records)


def test_sixteen_columns_stay_within_the_page():
    sizes = [2**k for k in range(16)]
    records = [point({"size": s, "n": n}, counters={"moved_bytes": (s - n) * MIB}) for s in sizes for n in range(20)]
    figure = Figure("heat", x="size", y="n", z="moved_bytes", z_unit="B", centre=0)
    drawing, texts = drawn(figure, records)
    width = float(re.search(r'width="([\d.]+)"', to_svg(drawing.spec))[1])
    assert width <= 912
    assert {"+1 MiB", "−18 MiB"} <= set(texts)  # noqa: RUF001


def test_values_that_read_alike_keep_cells_of_their_own():
    records = [point({"size": s, "n": 1}, 50.0 + i) for i, s in enumerate((MIB, MIB + 1))]
    _, texts = drawn(Figure("heat", x="size", y="n"), records)
    assert {"1048576", "1048577", "50", "51"} <= set(texts)


def iterations(advice, **more):
    counters = {f"iteration_{i}_ms": 10.0 * i + len(advice) for i in range(1, 13)}
    return point({"advice": advice}, counters={**counters, "passes": 12}, **more)


TIMES = Figure("line", x="series", y="value", series="iteration_{}_ms", colour="advice", x_title="iteration")


def test_each_matching_counter_is_a_point():
    drawing, texts = drawn(TIMES, [iterations("none"), iterations("read-mostly")])
    assert {"iteration", "iteration ms", "none", "read-mostly", "2", "12"} <= set(texts)
    rows = drawing.spec["datasets"]["rows"]
    assert [(r["x"], r["y"]) for r in rows if r["colour"] == "none"] == [(i, 10.0 * i + 4) for i in range(1, 13)]
    assert not any("interval" in note for note in drawing.notes)
    assert 'fill-opacity="0.18"' not in to_svg(drawing.spec)
    assert "mark_area" not in str(drawing.spec)


def test_a_record_without_such_counters_contributes_nothing():
    drawing, _ = drawn(TIMES, [iterations("none"), point({"advice": "other"}, counters={"iteration__ms": 3, "x": 1})])
    assert len(drawing.spec["datasets"]["rows"]) == 12
    assert draw(TIMES, [point({"advice": "other"})], None, Palette()) is None


def test_a_wrong_point_counts_once_however_long_its_series():
    drawing, _ = drawn(TIMES, [iterations("none", verified=False), iterations("other")])
    assert drawing.wrong == 1


def test_a_series_of_words_makes_a_matrix():
    records = [
        point(
            {"allocator": a}, counters={"change_rss_bytes": n * MIB, "change_node0_bytes": -MIB, "change_free_bytes": 0}
        )
        for n, a in enumerate(("malloc", "managed"), 1)
    ]
    figure = Figure("heat", x="series", y="allocator", z="value", z_unit="B", centre=0, series="change_{}_bytes")
    drawing, texts = drawn(figure, records)
    assert texts.index("rss") < texts.index("node0") < texts.index("free")
    assert texts.count("−1 MiB") >= 2  # noqa: RUF001
    assert {"+1 MiB", "+2 MiB", "0", "change"} <= set(texts)
    assert drawing.notes[0] == "Each cell shows one counter (change_…_bytes) of one point."


def test_bars_and_tables_of_a_series():
    records = [point({"allocator": "malloc"}, counters={"cost_read_us": 1500.0, "cost_write_us": 2.0})]
    _, texts = drawn(Figure("bar", x="series", y="value", series="cost_{}_us"), records)
    assert {"read", "write", "1.5 ms", "2 us"} <= set(texts)
    table = draw(Figure("table", x="series", y="value", series="cost_{}_us"), records, None, Palette())
    assert table.columns == ["cost", "allocator", "cost us"]
    assert table.rows == [["read", "malloc", "1.5 ms"], ["write", "malloc", "2 us"]]


def test_a_logarithmic_axis_with_a_zero_names_its_points():
    records = [point({"outside": n}, 50.0 + n) for n in (0, 100, 10_000)]
    _, texts = drawn(Figure("line", x="outside", log_x=True, log_y=True), records)
    assert [text for text in texts if text in ("0", "100", "10,000")] == ["0", "100", "10,000"]
    assert "1,000" not in texts
