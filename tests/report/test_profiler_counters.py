"""Counters of the vendor's profiler in the report."""

from __future__ import annotations

import pytest
import sample
from test_event_totals import point, results, text_of

from firsttouch.report.page import render

MIB = 2**20
COUNTED = {"hw_counters": "ncu (application replay)", "hw_kernels": 1, "hw_device_read_bytes": 2 * MIB,
           "hw_link_write_bytes": 0}  # fmt: skip


@pytest.mark.usefixtures("undrawn")
def test_counters_of_the_counted_points():
    twice = COUNTED | {"hw_device_read_bytes": 4 * MIB, "hw_iteration_0_device_read_bytes": 4 * MIB}
    text = text_of(render({"out": results(point(MIB, COUNTED), point(2 * MIB, twice))}, sample.EXPERIMENTS))
    assert "sizekernelsdevice read 1 MiB12 MiB 2 MiB14 MiB" in text
    assert "link write" not in text  # nowhere any
    assert "iteration" not in text  # they have a figure
    assert "under ncu (application replay)" in text


@pytest.mark.usefixtures("undrawn")
def test_points_without_counters_have_a_reason():
    none = {"hw_counters": f"none: {sample.EVIL}"}
    page = render({"out": results(point(MIB, none), point(2 * MIB, none))}, sample.EXPERIMENTS)
    assert f"requested counters 2 points: {sample.EVIL}" in text_of(page)
    assert page.count("<script") == 1  # the page's own
    assert "Counters of the profiler" not in page
