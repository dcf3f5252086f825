"""Bytes of each iteration: the figure, the throughput, and what the terminal prints."""

from __future__ import annotations

import sample
from drawn import drawing_of, rows_of, texts_of
from tests.texts import assert_states

from firsttouch.cli import iterations as terminal
from firsttouch.harness.outcomes import iterations, report
from firsttouch.harness.outcomes.derive import derive
from firsttouch.records.schema import Record

MB = 10**6


def counted(strategy: str, first: int, n: int = 3, **more: float) -> Record:
    """A record whose kernels read `first` bytes over the link in the first iteration, and as much from memory later."""
    counters: dict[str, float] = {"hw_kernel_ms": 2.0 * n, "hw_l2_bytes": 8 * MB * n, **more}
    for i in range(n):
        tiers = {"l2": 8 * MB, "link_read": 0 if i else first, "device_read": first if i else 0, "link_write": 0}
        counters |= {f"hw_iteration_{i}_{tier}_bytes": size for tier, size in tiers.items()}
        counters |= {f"iteration_{i}_ms": 1.0 if i else 30.0, f"hw_iteration_{i}_kernel_ms": 2.0}
    return sample.app("srad", strategy, counters=counters, iterations=0)


def test_a_column_for_each_strategy_has_the_time_above_the_bytes_of_each_tier() -> None:
    records = derive([counted("managed", MB), counted("system", 4 * MB)])
    drawing = drawing_of(iterations.BY_TIER, records)
    bytes_of = {(r["panel"], r["colour"]): [] for r in rows_of(drawing) if r["of"] == "part"}
    for r in rows_of(drawing):
        if r["of"] == "part":
            bytes_of[r["panel"], r["colour"]].append((r["x"], r["y"]))
    assert bytes_of["strategy system", iterations.TIERS["link_read"]] == [(0, 4 * MB), (1, 0), (2, 0)]
    assert bytes_of["strategy managed", "device memory, read"] == [(0, 0), (1, MB), (2, MB)]
    assert len(bytes_of) == 6
    assert [r["y"] for r in rows_of(drawing) if r["of"] == "time"] == 2 * [30.0, 1.0, 1.0]
    assert_states(drawing.notes, "zero", iterations.TIERS["link_write"])
    assert {"strategy managed", "strategy system", "L1-L2", "time, ms"} <= set(texts_of(drawing))


def test_all_panels_have_the_scales_of_all_points() -> None:
    drawing = drawing_of(iterations.BY_TIER, derive([counted("explicit", 0), counted("managed", MB)]))
    spec = drawing.spec
    halves = [half["layer"][0]["encoding"]["y"]["scale"] for panel in spec["concat"] for half in panel["vconcat"]]
    assert len(halves) == 4
    assert halves[:2] == halves[2:]
    assert halves[1]["domain"] == [0, 8 * MB]


def test_of_many_iterations_few_have_a_dot() -> None:
    drawing = drawing_of(iterations.BY_TIER, derive([counted("managed", MB, n=200)]))
    assert sum(r["dot"] for r in rows_of(drawing) if r["of"] == "time") == 40


def test_the_figures_that_are_shown_are_those_of_what_is_known() -> None:
    known = {f"memory_iteration_{i}_device_bytes": i * MB for i in range(3)}
    assert iterations.figures([sample.app("a", "explicit")]) == []
    assert iterations.figures([sample.app("a", "explicit", counters=known)]) == [iterations.IN_USE]
    assert iterations.figures(derive([counted("managed", MB)])) == [iterations.BY_TIER, iterations.THROUGHPUT]


def test_moves_of_the_events_run_stand_beside_the_times_of_the_point() -> None:
    moved = {"um_iteration_0_h2d_bytes": 5 * MB, "um_iteration_1_h2d_bytes": 0, "um_iteration_0_d2h_bytes": 0}
    events = sample.app("srad", "managed", factors={"events": "on"}, counters={**moved, "iteration_0_ms": 99.0})
    (record,) = derive([counted("managed", MB), events])
    assert iterations.rows(record)[0] == {
        "iteration": 0,
        "ms": 30.0,
        "hw_l2_bytes": 8 * MB,
        "hw_device_read_bytes": 0,
        "hw_link_read_bytes": MB,
        "hw_link_write_bytes": 0,
        "um_h2d_bytes": 5 * MB,
        "um_d2h_bytes": 0,
    }
    assert iterations.MOVED in iterations.figures([record])
    (alone,) = iterations.figures([events])
    assert (alone.series, "without" in alone.title) == (iterations.MOVED.series, False)


def test_moves_that_were_not_seen_are_stated_in_the_figure_and_in_the_terminal(capsys) -> None:
    moved = {"um_iteration_0_h2d_bytes": 5 * MB, "um_h2d_bytes": 5 * MB, "um_least_h2d_bytes": 20 * MB}
    (record,) = derive([counted("managed", MB, **moved)])
    (figure,) = [f for f in iterations.figures([record]) if f.title == iterations.MOVED.title]
    assert_states(figure.note, "Not seen", "to the device", "75 % (managed)")
    terminal.show(report.summary([record]))
    assert_states(capsys.readouterr().out, "srad under managed:", "75 %", "to the device not seen")


def test_throughput_is_of_the_run_under_the_profiler() -> None:
    (record,) = derive([counted("managed", MB, throughput_l1_gbs=7.0)])
    assert iterations.throughput(record) == {"l2": 4.0}  # 24 MB in 6 ms
    assert "throughput_l1_gbs" not in record.counters
    (record,) = derive([sample.app("a", "explicit", counters={"hw_l2_bytes": 8 * MB, "hw_kernel_ms": 0.0})])
    assert iterations.throughput(record) == {}


def test_the_terminal_prints_twelve_lines_at_most_for_each_point(capsys, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    terminal.show(report.summary([counted("managed", MB, n=20), sample.app("srad", "explicit")]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")][-13:] == [
        *map(str, range(11)),
        "11-19,",
        "GB/s",
    ]
    (mean,) = (line for line in lines if "11-19" in line)
    assert "976.6 KiB" in mean
    assert "written" not in "".join(lines)
    monkeypatch.setenv("COLUMNS", "40")
    in_use = {f"memory_iteration_{i}_device_bytes": MB for i in range(3)}
    terminal.show(report.summary([counted("managed", MB, **in_use)]))
    narrow = capsys.readouterr().out
    assert narrow.count("srad managed") == 2
    assert narrow.count("  GB/s") == 1  # not where there are no tiers
    terminal.show(report.summary([sample.app("srad", "explicit")]))
    assert capsys.readouterr().out == ""
