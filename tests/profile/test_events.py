"""Unified-memory events: windows, totals, the trace, and a run that records them from a stand-in for CUPTI."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.calls import UNDRAWN, call
from tests.event_sources import Untotalled
from tests.matrix import matrix
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.base.errors import UsageError
from firsttouch.profile.events.log import EventLog, MemoryEvent, Span, Window, totals
from firsttouch.profile.events.sums import Busy, CauseSums, Course, CourseRow, PhaseTotals
from firsttouch.profile.events.trace import TRACE, Trace, read_trace
from firsttouch.records.reading import load_results
from firsttouch.records.schema import SCHEMA, Record

RECORDED = Path(__file__).with_name("recorded.py")
SCRIPT = {"h2d", "d2h", "cpu_fault", "gpu_fault", "thrashing", "throttling", "remote_map", "d2d"}
KIB, MIB = 2**10, 2**20


class Listed(Untotalled):
    """A source of the events that a test puts into it. Their totals are those of the phase in which they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[MemoryEvent] = []
        self.lost = 0

    def take(self) -> list[MemoryEvent]:
        taken, self.events = self.events, []
        return taken

    def dropped(self) -> int:
        lost, self.lost = self.lost, 0
        return lost

    def mark(self, phase: str, restart_course: bool) -> int:
        self.rows[-1][1].extend(CauseSums(e.kind, e.cause, 1, e.bytes) for e in self.events)
        return super().mark(phase, restart_course)


def moved(start: float, **more: object) -> MemoryEvent:
    return MemoryEvent(**{"kind": "h2d", "start": start, "end": start, "bytes": 10, "cause": "fault", **more})


# ---------------------------------------------------------------------------------------------- windows and totals


def test_events_belong_to_windows_by_time_not_by_arrival(monkeypatch):
    ticks = itertools.count(1.0)
    monkeypatch.setattr("firsttouch.profile.events.log.time", SimpleNamespace(monotonic=lambda: next(ticks)))
    source = Listed()
    log = EventLog(source)
    with log.window() as outer:
        with log.window() as first:
            early = moved(next(ticks))
        with log.window() as second:
            late = moved(next(ticks))
            source.events = [late, early]  # both arrive now
        source.lost = 2
    assert (first.events, second.events) == ([], [late])
    assert outer.events == [early, late]
    assert (first.dropped, outer.dropped) == (0, 2)
    assert outer.totals()["um_dropped"] == 2
    assert [w.totals()["um_h2d_migrations"] for w in (first, second, outer)] == [0, 2, 2]  # all in one phase
    assert (outer.start, first.start, early.start, first.end) == (1, 2, 3, 4)
    assert (second.start, late.start, second.end, outer.end) == (5, 6, 7, 8)
    assert log.cut(first.start, first.end).events == [early, late]  # all since `forget`
    log.forget()
    assert log.cut(0, 1e300).events == []


def test_events_beyond_the_limit_are_counted_but_not_listed(monkeypatch):
    monkeypatch.setattr("firsttouch.profile.events.log.MOST_LISTED", 5)
    source = Listed()
    log = EventLog(source)
    for expected in (3, 2, 0):
        with log.window() as window:
            source.events = [moved(time.monotonic()) for _ in range(3)]
        assert (len(window.events), window.unlisted) == (expected, 3 - expected)
        assert window.totals()["um_h2d_migrations"] == 3
        assert "um_dropped" not in window.totals()
    log.forget()
    with log.window() as window:
        source.events = [moved(time.monotonic())]
    assert (len(window.events), window.unlisted) == (1, 0)


def test_totals_count_what_each_kind_means():
    found = totals([
        moved(1.0, bytes=4096), moved(1.0, bytes=65536, cause="speculative"), moved(1.0, bytes=1, cause=""),
        moved(1.0, kind="d2h", cause="eviction", bytes=2 * MIB), moved(1.0, kind="d2d", cause="prefetch", bytes=5),
        MemoryEvent("gpu_fault", 1.0, 2.0, count=3), MemoryEvent("gpu_fault", 1.0, 2.0, count=4),
        MemoryEvent("cpu_fault", 1.0, 1.0), MemoryEvent("thrashing", 1.0, 1.0, bytes=65536),
        MemoryEvent("remote_map", 1.0, 1.0, bytes=4096, cause="policy"),
    ])  # fmt: skip
    shown = {name: value for name, value in found.items() if value}
    assert shown == {
        "um_h2d_migrations": 3, "um_h2d_bytes": 69633, "um_h2d_fault_bytes": 4096, "um_h2d_speculative_bytes": 65536,
        "um_h2d_unknown_bytes": 1, "um_d2h_migrations": 1, "um_d2h_bytes": 2 * MIB, "um_d2h_eviction_bytes": 2 * MIB,
        "um_d2d_migrations": 1, "um_d2d_bytes": 5, "um_d2d_prefetch_bytes": 5, "um_gpu_fault_groups": 2,
        "um_gpu_faults": 7, "um_cpu_faults": 1, "um_thrashing": 1, "um_remote_maps": 1, "um_remote_map_bytes": 4096,
    }  # fmt: skip
    assert found["um_throttling"] == 0
    assert {f"um_d2h_{cause}_bytes" for cause in _core.migration_causes()} <= set(found)


def test_no_total_of_what_the_driver_does_not_record():
    assert set(totals([], ["gpu_fault"])) == {"um_gpu_fault_groups", "um_gpu_faults"}
    assert totals([moved(1.0)], ["gpu_fault"]).get("um_h2d_bytes") is None


def test_times_of_a_window_are_those_of_its_phases():
    first = PhaseTotals(
        "compute", 1.0, 10_000_000,
        [CauseSums("h2d", "fault", 2, 8192, 0, 5_000_000), CauseSums("gpu_fault", "read", 1, 0, 3, 7_000_000)],
        [Busy("h2d", 4_000_000), Busy("gpu_fault", 7_000_000, 1_000_000)], 4_000_000, 0, 3_500_000,
    )  # fmt: skip
    second = PhaseTotals(
        "", 2.0, 5_000_000, [CauseSums("d2h", "eviction", 1, 4096, 0, 2_000_000)], [Busy("d2h", 2_000_000)]
    )
    window = Window(1.0, phases=[first, second])
    found = window.totals()
    times = {name: value for name, value in found.items() if name.endswith("_ms")}
    assert times == {
        "um_h2d_ms": 4, "um_h2d_sum_ms": 5, "um_d2h_ms": 2, "um_d2h_sum_ms": 2, "um_gpu_fault_ms": 7,
        "um_gpu_fault_sum_ms": 7, "um_uncertain_ms": 1,
    }  # fmt: skip
    assert (found["um_h2d_fault_bytes"], found["um_d2h_eviction_bytes"], found["um_gpu_faults"]) == (8192, 4096, 3)
    assert window.shares("compute") == {"nothing_recorded": 2.5, "gpu_faults": 3.5, "to_device": 4, "to_host": 0}
    unknown = Window(1.0, ("h2d", "d2h"), phases=[first])
    assert unknown.shares("compute") == {}
    assert "um_gpu_fault_ms" not in unknown.totals()


# ---------------------------------------------------------------------------------------------- the trace


def record(n: object = 0) -> Record:
    return Record(schema=SCHEMA, experiment="moved", device="cuda:0", factors={"n": n}, unit="ns", status="ok")


def span(start: float, count: int = 3) -> Span:
    starts = [start + i / 100 for i in range(count)]
    moves = [MemoryEvent("h2d", s, s + 0.015, 4096, 2 * MIB, 1, "cpu", "cuda:0", "fault") for s in starts]
    fault = MemoryEvent("cpu_fault", start + 0.5, start + 0.5, 4096, cause="write", source="cpu", symbol='<b>"x"')
    sums = [0] * 10
    for move in moves:
        sums[int((move.end - start) * 10)] += move.bytes
    course = Course(start, 100_000_000, [CourseRow("h2d", "fault", [1] * 10, sums, [0] * 10)])
    phases = [("compute", start + 0.1, start + 0.9)]
    return Span(start=start, end=start + 1, events=[*moves, fault], phases=phases, course=course)


def points(directory: Path) -> list[object]:
    return [e.args["n"] for e in read_trace(directory) if e.ph == "X" and e.args.get("experiment") == "moved"]


def test_the_trace_is_valid_json_after_every_point(tmp_path):
    trace = Trace(tmp_path)
    for n in range(3):
        trace.add(record(n), span(10.0 + n))
        events = json.loads((tmp_path / TRACE).read_text())
        assert [e["args"]["n"] for e in events if e["ph"] == "X" and "experiment" in e["args"]] == [*range(n + 1)]
    lines = (tmp_path / TRACE).read_text().splitlines()
    assert (lines[0], lines[-1]) == ("[", "]")
    assert all(line.endswith("},") for line in lines[1:-2])
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert names == ["cuda:0"]
    assert {(e["ph"], type(e["ts"])) for e in events if e["ph"] != "M"} == {("X", float), ("C", float), ("i", float)}
    faulted = next(e for e in events if e["name"] == "cpu_fault write")
    assert faulted["args"] == {"address": "0x1000", "cause": "write", "source": "cpu", "symbol": '<b>"x"'}
    assert faulted["ts"] == 10_500_000.0


def test_slices_of_one_track_do_not_overlap(tmp_path):
    Trace(tmp_path).add(record(), span(10.0, count=50))
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for e in read_trace(tmp_path):
        if e.ph == "X":
            tracks.setdefault((e.pid, e.tid), []).append((e.ts, e.ts + e.dur))
    assert len(tracks) == 4  # points, phases, and two lanes of migrations
    for slices in tracks.values():
        assert all(a[1] <= b[0] for a, b in pairwise(slices))


def test_sums_end_at_what_was_moved(tmp_path):
    Trace(tmp_path).add(record(), span(10.0, count=50))
    sums = [(e.ts, e.args["bytes"]) for e in read_trace(tmp_path) if e.ph == "C"]
    assert (sums[0], sums[-1]) == ((10e6, 0), (11e6, 100 * MIB))
    assert sums == sorted(sums)


def test_a_trace_truncated_at_any_byte_loads_and_can_be_continued(tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    trace = Trace(whole)
    trace.add(record(0), span(10.0, count=1))
    trace.add(record(1), span(12.0, count=1))
    data = (whole / TRACE).read_bytes()
    ends = [data.index(b"}}", data.index(b'"experiment"', at)) + 2 for at in (0, data.rindex(b'"experiment"') - 1)]
    for size in [*range(9), *range(ends[0] - 5, ends[0] + 300, 7), *range(ends[1] - 150, len(data) + 1)]:
        cut = tmp_path / str(size)
        cut.mkdir()
        (cut / TRACE).write_bytes(data[:size])
        before = [n for n, end in enumerate(ends) if end <= size]
        assert points(cut) == before, size
        if (end := data[:size].rfind(b"},\n")) > 0:  # whole lines make an array once it is ended
            json.loads(data[: end + 1] + b"]")
        Trace(cut).add(record(2), span(14.0))
        assert points(cut) == [*before, 2]
        json.loads((cut / TRACE).read_bytes())


@pytest.mark.parametrize("text", ["{}", '[\n{"a": 1},\n', "[1,2]", '[\n{"name":"x","ph":"Q","pid":1},\n{"na'])
def test_a_foreign_file_is_not_changed(tmp_path, text):
    (tmp_path / TRACE).write_text(text)
    with pytest.raises(UsageError, match="not a trace"):
        Trace(tmp_path)
    assert (tmp_path / TRACE).read_text() == text


def test_a_broken_line_is_refused_with_its_number(tmp_path):
    Trace(tmp_path).add(record(), span(10.0))
    path = tmp_path / TRACE
    path.write_text(path.read_text().replace('"dur"', '"duration"', 1))
    with pytest.raises(UsageError, match=rf"{TRACE}:\d+: not an event"):
        list(read_trace(tmp_path))


LINE = '{"name":"x","ph":"X","pid":1,'


@pytest.mark.parametrize(
    "rest", ['"args":{"bytes":1' + "0" * 400 + "}}", '"ts":1e300}', '"args":{"a":' + "[" * 100_000]
)
def test_an_invalid_line_is_refused(tmp_path, rest):
    (tmp_path / TRACE).write_text("[\n" + LINE + rest + ",\n" + LINE + '"ts":1}\n]\n')
    with pytest.raises(UsageError, match=rf"{TRACE}:2: not an event"):
        list(read_trace(tmp_path))


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_the_trace_is_refused(tmp_path):
    os.mkfifo(tmp_path / TRACE)
    for use in (Trace, lambda path: list(read_trace(path))):
        with pytest.raises(UsageError, match=f"{TRACE} is a FIFO, not a regular file"):
            use(tmp_path)


def test_a_missing_trace_has_no_events(tmp_path):
    assert list(read_trace(tmp_path)) == []


# ---------------------------------------------------------------------------------------------- a run


@pytest.fixture
def library(standin, monkeypatch):
    """Makes calls use the stand-in and the experiments of recorded.py, and undoes what loading them changes."""
    monkeypatch.setattr("firsttouch.profile.events.log.why_not_offered", lambda device: "")
    monkeypatch.setenv("FIRSTTOUCH_MODULES", str(RECORDED))
    monkeypatch.setenv("FIRSTTOUCH_LIB_CUPTI", str(standin()))


def run(cwd: Path, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
    return call("run", *words, "--device", "cpu", "--out", "out", cwd=cwd, **more)


def test_totals_and_the_trace_of_a_run(library, tmp_path):
    done = run(tmp_path, "moved", "--events", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"ok": 3}
    assert "without events" not in done.stderr
    records = load_results(tmp_path / "out").records
    for one in records:
        assert one.counters["um_events"] == "recorded"
        assert one.counters["um_h2d_bytes"] == 2 * MIB + 64 * KIB
        assert one.counters["um_h2d_prefetch_bytes"] == 64 * KIB
        assert one.counters["um_gpu_faults"] == 7
        assert one.counters["um_cpu_faults"] == -1  # the counter of the experiment takes precedence
    events = list(read_trace(tmp_path / "out"))
    slices = [e for e in events if e.ph == "X" and "experiment" in e.args]
    assert [e.name for e in slices] == ["moved n=0", "moved n=1", "moved n=2"]
    counted = Counter(e.name.split()[0] for e in events if e.args.get("address"))
    assert (counted.keys(), min(counted.values())) == (SCRIPT, len(slices)), counted
    assert any(e.args.get("symbol", "").startswith("strtou") for e in events)
    assert json.loads((tmp_path / "out" / "run.json").read_text())["events"] is True


def test_windows_of_an_experiment_and_points_without(library, tmp_path):
    for words in (["--events"], ["--resume"]):
        done = run(tmp_path, "windowed", *words)
        assert done.returncode == 0, done.stderr
    records = {r.factors["n"]: r for r in load_results(tmp_path / "out").records}
    assert records[0].counters == {"asked": False}
    for n in (1, 2):
        assert records[n].counters.items() >= {"first": 9, "second": 9, "um_events": "recorded"}.items()
        assert records[n].counters["um_cpu_faults"] >= 2
    assert [e.name for e in read_trace(tmp_path / "out") if "experiment" in e.args] == ["windowed n=1", "windowed n=2"]


@pytest.mark.exhaustive
def test_a_point_that_opens_its_device_itself(library, tmp_path):
    done = run(tmp_path, "own", "--events")
    assert done.returncode == 0, done.stderr
    records = {r.factors["n"]: r.counters for r in load_results(tmp_path / "out").records}
    assert_states(str(records[0]["um_events"]), "none: own ", "its own process")
    assert records[1]["um_h2d_migrations"] == 2


def test_resume_appends_to_the_trace(library, tmp_path):
    run(tmp_path, "moved", "--events", "--set", "n=1")
    run(tmp_path, "moved", "--resume", "--set", "n=1,2")
    json.loads((tmp_path / "out" / TRACE).read_text())
    assert points(tmp_path / "out") == [1, 2]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    matrix(
        [
            ({"STANDIN_CUPTI_FAILS": "cuptiSubscribe=39"}, "another tool uses CUPTI"),
            (
                {"STANDIN_CUPTI_FAILS": "cuptiActivityConfigureUnifiedMemoryCounter=28"},
                "unified-memory events on this platform",
            ),
            ({"STANDIN_CUPTI_FAILS": "cuptiActivityConfigureUnifiedMemoryCounter=29"}, "exclude it with CUDA_VISIBLE"),
            ({"STANDIN_CUPTI_FAILS": "cuptiActivityConfigureUnifiedMemoryCounter=30"}, "peer access to each other"),
            ({"STANDIN_CUPTI_FAILS": "cuptiActivityConfigureUnifiedMemoryCounter=31"}, "under MPS"),
            ({"STANDIN_CUPTI_FAILS": "cuptiActivityEnable=35"}, "has no permission"),
            ({"STANDIN_CUPTI_FAILS": "cuptiActivityFlushAll=999"}, "cuptiActivityFlushAll: STANDIN_ERROR"),
            ({"FIRSTTOUCH_LIB_CUPTI": "/nowhere/libcupti.so"}, "the cupti library was not found"),
            ({"FIRSTTOUCH_LIB_CUPTI": "old"}, "has no function cuptiGetTimestamp"),
        ]
    ),
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)
def test_measuring_continues_without_events(library, standin, tmp_path, settings, sentence):
    settings = {k: str(standin("STANDIN_CUPTI_IS_OLD")) if v == "old" else v for k, v in settings.items()}
    done = run(tmp_path, "moved", "--events", "--json", **settings)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"] == {"ok": 3}
    told = [line for line in done.stderr.splitlines() if "without events" in line]
    assert len(told) == 1
    assert sentence in told[0]
    for one in load_results(tmp_path / "out").records:
        assert one.counters["um_events"].startswith("none: ")
        assert sentence in one.counters["um_events"]
    assert not (tmp_path / "out" / TRACE).exists()


def test_counters_that_the_driver_refuses_have_no_totals(library, tmp_path):
    done = run(tmp_path, "moved", "--events", "--set", "n=1", STANDIN_CUPTI_REFUSES="5678")
    assert done.returncode == 0, done.stderr
    (one,) = load_results(tmp_path / "out").records
    assert one.counters["um_gpu_fault_groups"] == 1
    assert not {"um_thrashing", "um_remote_maps", "um_d2d_bytes"} & set(one.counters)


@pytest.mark.exhaustive
def test_many_events_are_all_counted_and_some_sent(library, tmp_path):
    done = run(tmp_path, "moved", "--events", "--set", "n=1", STANDIN_CUPTI_REPEAT="3000", STANDIN_CUPTI_DROPPED="5")
    assert done.returncode == 0, done.stderr
    (one,) = load_results(tmp_path / "out").records
    assert one.counters["um_gpu_fault_groups"] == 3000
    assert one.counters["um_dropped"] == 5
    events = list(read_trace(tmp_path / "out"))
    (point,) = (e for e in events if "experiment" in e.args)
    sent = sum("address" in e.args for e in events)
    assert (sent, point.args["events left out"]) == (20_000, 7_000)


def test_nothing_is_recorded_unless_requested(library, tmp_path):
    done = run(tmp_path, "moved", "--set", "n=1")
    assert done.returncode == 0, done.stderr
    (one,) = load_results(tmp_path / "out").records
    assert one.counters == {"um_cpu_faults": -1}
    assert not (tmp_path / "out" / TRACE).exists()


@pytest.mark.exhaustive
def test_the_trace_of_a_killed_run_can_be_continued(library, tmp_path):
    words = ["moved", "--events", "--set", "n=" + ",".join(map(str, range(200)))]
    command = [*UNDRAWN, "run", *words, "--device", "cpu", "--out", "out"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    results = tmp_path / "out" / "results.jsonl"
    while process.poll() is None and not (results.exists() and results.read_bytes().count(b"\n") > 20):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    held = [r.factors["n"] for r in load_results(tmp_path / "out").records]
    traced = points(tmp_path / "out")
    assert traced[: len(held)] == held  # none is missing; only the point in flight may appear twice later
    done = run(tmp_path, *words, "--resume")
    assert done.returncode == 0, done.stderr
    json.loads((tmp_path / "out" / TRACE).read_text())
    assert set(points(tmp_path / "out")) == set(range(200))
