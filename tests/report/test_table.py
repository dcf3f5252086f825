"""Tables: their cells, headings and marks."""

from __future__ import annotations

from drawn import drawing_of, point

from firsttouch.records.figures import Table


def test_each_counter_of_a_series_is_a_row():
    records = [point({"allocator": "malloc"}, counters={"cost_read_us": 1500.0, "cost_write_us": 2.0})]
    table = drawing_of(Table(columns=("series", "allocator", "value"), series="cost_{}_us"), records)
    assert table.columns == ["cost", "allocator", "cost us"]
    assert table.rows == [["read", "malloc", "1.5 ms"], ["write", "malloc", "2 us"]]


def test_headings_as_titled_and_equal_rows_once():
    records = [point({"n": 1, "size": size}, 7.0) for size in (4096, 4096, 2**20)]
    table = drawing_of(Table(columns=("size", "median"), titles={"median": "time"}), records)
    assert table.columns == ["size", "time"]
    assert table.rows == [["4 KiB", "7 ns"], ["1 MiB", "7 ns"]]
    assert table.title == "Size, time"


def test_wrong_and_throttled_rows_are_marked():
    records = [point({"n": 1}, verified=False), point({"n": 2}, throttled=True), point({"n": 3})]
    table = drawing_of(Table(columns=("n",)), records)
    assert table.columns == ["n", "mark"]
    assert table.rows == [["1", "failed verification"], ["2", "throttled"], ["3", ""]]
    assert table.row_classes == ["wrong", "", ""]
    assert table.wrong == 1


def test_suspect_rows_name_the_rule():
    records = [point({"n": 1}, suspect="not-positive", throttled=True), point({"n": 2}, suspect="x", verified=False)]
    table = drawing_of(Table(columns=("n",)), records)
    assert table.rows == [["1", "suspect: not-positive"], ["2", "failed verification"]]


def test_no_records_give_no_table():
    assert drawing_of(Table(columns=("n",), where={"n": 2}), [point({"n": 1})]) is None
