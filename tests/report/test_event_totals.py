"""Unified-memory events in the report, including those of an untrusted trace."""

from __future__ import annotations

import re

import msgspec
import pytest
import sample
from test_page import Elements, section
from tests.texts import assert_states

from firsttouch.profile.events.log import MemoryEvent, Span
from firsttouch.profile.events.sums import Course, CourseRow
from firsttouch.profile.events.trace import TRACE, Trace, read_timelines
from firsttouch.report.page import load, render, write_report

MIB = 2**20
MOVED = {
    "um_events": "recorded", "um_h2d_bytes": 3 * MIB, "um_h2d_fault_bytes": 2 * MIB, "um_h2d_speculative_bytes": MIB,
    "um_h2d_eviction_bytes": 0, "um_d2h_bytes": 0, "um_gpu_fault_groups": 12, "um_gpu_faults": 480, "um_cpu_faults": 5,
    "um_thrashing": 0, "um_remote_maps": 0,
}  # fmt: skip
STILL = dict.fromkeys(MOVED, 0) | {"um_events": "recorded"}


def point(size: int, counters: dict[str, object]):
    factors = {"size": size, "allocator": "managed"}
    return sample.point("latency", "cuda:0", 5.0, factors=factors | {"agent": "gpu"}, counters=counters)


def results(*records):
    made = sample.results()
    made.records = list(records)
    return made


def text_of(page: str) -> str:
    return section(page, "latency", "cuda:0")


@pytest.mark.usefixtures("undrawn")
def test_totals_of_points_that_had_events():
    text = text_of(
        render({"out": results(point(MIB, MOVED), point(2 * MIB, MOVED), point(4 * MIB, STILL))}, sample.EXPERIMENTS)
    )
    heads = "Unified-memory events of latency on cuda:0 sizebytes to the deviceGPU fault groupsGPU faultsCPU faults"
    assert heads + " 1 MiB3 MiB: 2 MiB fault, 1 MiB speculative124805" in text
    assert "bytes to the host" not in text  # nowhere any
    assert "1 point without any event" in text
    assert "take times from a run without events" in text


@pytest.mark.usefixtures("undrawn")
def test_points_without_events_have_a_reason():
    none = {"um_events": f"none: {sample.EVIL}"}
    page = render({"out": results(point(MIB, none), point(2 * MIB, none))}, sample.EXPERIMENTS)
    assert f"requested events 2 points: {sample.EVIL}" in text_of(page)
    assert page.count("<script") == 1  # the page's own
    assert "Unified-memory events" not in page


@pytest.mark.slow
def test_nothing_is_shown_if_no_events_were_requested(page):
    assert "Unified-memory" not in page


def test_invalid_counters_are_shown_unchanged():
    strange = MOVED | {"um_h2d_bytes": sample.EVIL, "um_gpu_faults": True, "um_cpu_faults": None, "um_dropped": 1e300}
    page = render({"out": results(point(MIB, strange), point(2 * MIB, MOVED))}, sample.EXPERIMENTS)
    assert sample.EVIL in Elements(page).text
    assert page.count("<script") == 1  # the page's own


def moves(start: float, count: int, size: int) -> Span:
    times = [start + i / 1000 for i in range(count)]
    events = [MemoryEvent("h2d", t, t + 0.0005, 4096, size, 1, "cpu", "cuda:0", "fault") for t in times]
    back = [MemoryEvent("d2h", t, t + 0.0005, 4096, size, 1, "cuda:0", "cpu", "fault") for t in times[::2]]
    ends = range(1, min(count, 999) + 1)
    rows = [
        CourseRow(kind, "fault", [1] * len(ends), [size * share] * len(ends), [0] * len(ends))
        for kind, share in (("h2d", 2), ("d2h", 1))
    ]
    course = Course(start, 1_000_000, rows)
    return Span(start=start, end=start + 1, events=[*events, *back], course=course)


def test_the_timeline_of_the_point_that_moved_most(write):
    records = [point(MIB, MOVED), point(2 * MIB, MOVED)]
    directory = write(results(*records))
    trace = Trace(directory)
    trace.add(records[0], moves(100.0, 20, 4096))
    trace.add(records[1], moves(200.0, 3000, 2 * MIB))
    page = write_report([directory]).read_text()
    text = text_of(page)
    assert "moved most: size 2 MiB, allocator managed, agent gpu." in text
    assert ">host to device</text>" in page
    assert ">device to host</text>" in page
    assert {"2 GiB", "4 GiB"} & set(re.findall(r">([^<>]+)</text>", page))


def test_an_untrusted_trace(write):
    record = point(MIB, MOVED)
    record.factors["allocator"] = sample.EVIL
    directory = write(results(record))
    Trace(directory).add(record, moves(100.0, 20, 4096))
    path = directory / TRACE
    path.write_text(path.read_text().replace("bytes host to device", msgspec.json.encode(sample.EVIL).decode()[1:-1]))
    page = write_report([directory]).read_text()
    assert page.count("<script") == 1  # the page's own
    assert sample.EVIL in Elements(page).text


@pytest.mark.usefixtures("undrawn")
def test_a_missing_trace_is_a_warning_where_bytes_moved(write):
    directory = write(results(point(MIB, MOVED)))
    (found,) = load([directory]).values()
    (warning,) = found.warnings
    assert_states(warning, f"{directory} has no events.json", "copy it", "draw the report again")
    assert "has no events.json" in write_report([directory]).read_text()
    Trace(directory).add(found.records[0], moves(100.0, 20, 4096))
    assert not next(iter(load([directory]).values())).warnings


@pytest.mark.usefixtures("undrawn")
def test_a_broken_trace_is_a_warning(write):
    directory = write(results(point(MIB, MOVED)))
    (directory / TRACE).write_text('[\n{"name": 5},\n{"name": "x"},\n')
    (found,) = load([directory]).values()
    assert found.warnings == [f"{directory / TRACE}:2: not an event as `firsttouch run --events` writes it"]
    assert "not an event" in write_report([directory]).read_text()


def test_phases_of_the_recorded_repetition_come_with_its_course(tmp_path):
    course = Course(start=4.0, bin_ns=10**9, rows=[CourseRow("h2d", "fault", [1], [MIB], [5])])
    phases = [("compute", 1.0, 2.0), ("allocate", 4.0, 4.5), ("compute", 5.0, 6.0)]
    Trace(tmp_path).add(point(MIB, MOVED), Span(0.0, 10.0, [], phases=phases, course=course))
    ((timeline,),) = read_timelines(tmp_path).values()
    assert timeline.phases == [("allocate", 0.0, 0.5), ("compute", 1.0, 2.0)]
    assert timeline.end == 2.0
