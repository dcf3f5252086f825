"""Heat maps: the content of cells, their order and their colours."""

from __future__ import annotations

import re

from drawn import drawing_of, drawn, point
from tests.texts import assert_states

from firsttouch.records.figures import Heat
from firsttouch.report.svg import to_svg

MIB = 2**20


RATIOS = Heat(x="cpu", y="gpu", z="ratio", centre=1, x_title="CPU threads", z_title="relative to alone")


def grid(**more):
    return [
        point({"cpu": c, "gpu": g, "allocator": "managed"}, counters={"ratio": 0.25 * c + g / 1e4}, **more)
        for c in (1, 2, 10)
        for g in (64, 1024)
    ]


def test_a_cell_shows_its_value():
    drawing, texts = drawn(RATIOS, grid())
    assert {"0.26", "0.35", "0.51", "0.60", "2.51", "2.60", "CPU threads", "gpu", "relative to alone"} <= set(texts)
    assert drawing.title == "Relative to alone by CPU threads and gpu"
    assert_states(drawing.notes, "cell", "counter ratio")
    assert_states(drawing.notes, "below 1", "above")
    assert "Held constant: allocator managed." in drawing.notes


def test_ratios_of_the_baseline_alone_are_not_drawn():
    baseline = [point({"cpu": c, "gpu": 64}, counters={"ratio": 1.0}) for c in (1, 2)]
    assert drawing_of(RATIOS, baseline) is None
    assert drawing_of(RATIOS, [*baseline, point({"cpu": 10, "gpu": 64}, counters={"ratio": 1.5})])


def test_numbers_are_sorted():
    _, texts = drawn(RATIOS, grid()[::-1])
    assert texts.index("1") < texts.index("2") < texts.index("10")
    assert texts.index("1,024") < texts.index("64")  # upwards, as on any axis


def test_sizes_are_binary_and_words_keep_their_order():
    records = [point({"size": s, "allocator": a}, s / 7) for a in ("zeta", "alpha") for s in (2**20, 4096)]
    _, texts = drawn(Heat(x="size", y="allocator"), records)
    assert texts.index("4 KiB") < texts.index("1 MiB")
    assert texts.index("zeta") < texts.index("alpha")


def test_other_conditions_get_panels_and_are_never_averaged():
    records = [
        point({"cpu": c, "gpu": g, "type": t, "scope": s}, counters={"ratio": 0.5 + 0.01 * n})
        for n, (t, s) in enumerate([("u64", "device"), ("u64", "system"), ("f64", "device"), ("f64", "system")])
        for c in (1, 2)
        for g in (64, 128)
    ]
    drawing, texts = drawn(Heat(x="cpu", y="gpu", z="ratio", facet="scope", centre=1), records)
    assert {"scope device type u64", "scope system type f64"} <= set(texts)  # in two lines
    assert [texts.count(f"0.5{n}") for n in range(4)] == [4] * 4
    assert_states(drawing.title, "Ratio", "cpu and gpu", "each scope and type")


def test_points_of_equal_conditions_are_not_drawn_over_each_other():
    drawing, texts = drawn(
        RATIOS, [*grid(), point({"cpu": 1, "gpu": 64, "allocator": "managed"}, counters={"ratio": 9})]
    )
    assert "9.00" not in texts
    assert_states(drawing.notes, "1 more point", "same conditions")


def test_what_was_not_measured_is_blank():
    drawing, texts = drawn(RATIOS, [r for r in grid() if r.factors["cpu"] != 10 or r.factors["gpu"] != 64])
    assert "2.51" not in texts
    assert "2.60" in texts
    assert_states(drawing.notes, "Blank cells")


def test_suspect_values_are_shown_and_do_not_set_the_colours():
    odd = point({"cpu": 2, "gpu": 128, "allocator": "managed"}, counters={"ratio": 7777.0}, suspect="not-positive")
    drawing, texts = drawn(RATIOS, [*grid(), odd])
    assert "Hollow purple diamonds: 1 suspect point (not-positive)." in drawing.notes
    assert "Blue is below 1, orange above." in drawing.notes, "its factor would be beyond the last colour"
    assert "7777" in texts


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


def test_extreme_values_are_drawn():
    for centre in (None, 0, 1):
        records = [point({"cpu": i, "gpu": 1}, counters={"ratio": v}) for i, v in enumerate([1e308, 5e-324, 0, -1e308])]
        drawn(Heat(x="cpu", y="gpu", z="ratio", centre=centre), records)


def test_sixteen_columns_stay_within_the_page():
    sizes = [2**k for k in range(16)]
    records = [point({"size": s, "n": n}, counters={"moved_bytes": (s - n) * MIB}) for s in sizes for n in range(20)]
    figure = Heat(x="size", y="n", z="moved_bytes", z_unit="B", centre=0)
    drawing, texts = drawn(figure, records)
    width = float(re.search(r'width="([\d.]+)"', to_svg(drawing.spec))[1])
    assert width <= 912
    assert {"+1 MiB", "−18 MiB"} <= set(texts)  # noqa: RUF001


def test_values_with_equal_labels_have_separate_cells():
    records = [point({"size": s, "n": 1}, 50.0 + i) for i, s in enumerate((MIB, MIB + 1))]
    _, texts = drawn(Heat(x="size", y="n"), records)
    assert {"1048576", "1048577", "50", "51"} <= set(texts)


def test_a_series_of_words_makes_a_matrix():
    records = [
        point(
            {"allocator": a}, counters={"change_rss_bytes": n * MIB, "change_node0_bytes": -MIB, "change_free_bytes": 0}
        )
        for n, a in enumerate(("malloc", "managed"), 1)
    ]
    figure = Heat(x="series", y="allocator", z="value", z_unit="B", centre=0, series="change_{}_bytes")
    drawing, texts = drawn(figure, records)
    assert texts.index("rss") < texts.index("node0") < texts.index("free")
    assert texts.count("−1 MiB") >= 2  # noqa: RUF001
    assert {"+1 MiB", "+2 MiB", "0", "change"} <= set(texts)
    assert_states(drawing.notes, "counter (change_…_bytes)")


def test_values_that_are_not_sure_are_marked_and_told_with_their_interval():
    wide, narrow = {"spread": 0.15}, {"spread": 0.01}
    records = [
        point({"cpu": 1, "gpu": 64}, 40.0, counters={"ratio": 0.5}, **wide),
        point({"cpu": 2, "gpu": 64}, 40.0, counters={"ratio": 0.6}, **narrow),
        point({"cpu": 1, "gpu": 128}, 40.0, counters={"ratio": 0.7, "ratio_low": 0.69, "ratio_high": 0.71}, **wide),
        point({"cpu": 2, "gpu": 128}, 40.0, counters={"ratio": 0.8, "ratio_low": 0.5, "ratio_high": 0.9}, **narrow),
    ]
    drawing, texts = drawn(RATIOS, records)
    assert {"~0.50", "0.60", "0.70", "~0.80"} <= set(texts)
    assert "~: not known to within 10 %." in drawing.notes
    tips = [tip.split("\N{BROKEN BAR}") for _, tip, *_ in drawing.spec["usermeta"]["points"]]
    assert tips[3][:3] == ["0.8", "0.5 to 0.9", "median of the point 40 ns (39.6 to 40.4 ns)"]
    assert not any("~" in text for text in drawn(RATIOS, records[1:3])[1])
    medians = Heat(x="cpu", y="gpu")
    assert [row["text"] for row in drawn(medians, records)[0].spec["datasets"]["rows"]] == ["~40", "40", "~40", "40"]


def test_a_single_sample_is_not_sure_and_counts_are():
    records = [point({"cpu": c, "gpu": 64}, 40.0 + c, counters={"ratio": 0.5 + c, "held": c}) for c in (1, 2)]
    for record in records:
        record.summary.n = 1
    drawing, texts = drawn(RATIOS, records)
    assert {"1.50", "2.50"} <= set(texts)
    assert "No value is known to within 10 %." in drawing.notes
    assert "2" in drawn(Heat(x="cpu", y="gpu", z="held"), records)[1]
