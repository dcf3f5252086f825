"""trace.json: valid JSON whose slices nest and whose counters have the values of the curves."""

import json

import pytest
from tests.profile.profiles import MiB, gpu, mark, write

from firsttouch.profile import perfetto
from firsttouch.profile import schema as s
from firsttouch.profile.events.trace import TraceEvent
from firsttouch.profile.perfetto import write_trace
from firsttouch.profile.reading import read


def events_of(directory, *lines, more=(), **changes):
    path = directory / "trace.json"
    write_trace(read(write(directory, *lines, **changes)), path, more)
    return json.loads(path.read_text())


def names_of(events):
    return {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}


def counter(events, process, name):
    number = next(pid for pid, text in names_of(events).items() if text == process)
    return {e["ts"]: e["args"]["bytes"] for e in events if e["ph"] == "C" and e["pid"] == number and e["name"] == name}


def test_counters_have_the_values_and_the_clock_of_the_machine(tmp_path):
    free = s.Samples(of="machine", columns=["node0_free"], rows=[[0.5, 7 * MiB]])
    nodes = [s.Node(node=0, total=9 * MiB, processors=True)]
    events = events_of(tmp_path, free, gpus=[gpu()], nodes=nodes)
    total = counter(events, "all processes of the target", "resident")
    assert total[1001.0e6] == max(total.values()) == 1000 * MiB
    assert counter(events, "app", "resident")[1001.0e6] == 800 * MiB
    child = counter(events, "child", "resident")
    assert (min(child), max(child)) == (1000.5e6, 1002.0e6)
    assert [child.pop(1002.0e6), *set(child.values())] == [0, 200 * MiB]
    assert max(counter(events, "gpu:0 M", "used").values()) == 1100 * MiB
    assert counter(events, "machine here", "node0 free") == {1000.5e6: 7 * MiB}


def test_processes_are_slices_of_their_lifetime(tmp_path):
    events = events_of(tmp_path)
    lives = {e["name"]: (e["pid"], e["ts"], e["dur"], e["args"]["status"]) for e in events if e["ph"] == "X"}
    assert lives == {"app": (100, 1000.0e6, 3.99e6, 3), "child": (101, 1000.5e6, 1.5e6, -9)}


def test_phases_nest_on_the_track_of_their_thread(tmp_path):
    marks = [
        mark(0.1, "load"), mark(1.0, kind="end"), mark(1.0, "solve"), mark(1.5, "inner"), mark(1.8, kind="end"),
        mark(3.0, kind="end"), mark(1.2, "other", pid=101, thread=777), mark(1.6, kind="end", pid=101, thread=777),
        mark(2.5, "here", "instant", source="app"),
    ]  # fmt: skip
    events = events_of(tmp_path, *marks)
    tracks = {e["name"]: (e["pid"], e["tid"]) for e in events if e["ph"] == "X" and "source" in e["args"]}
    assert tracks == {"load": (100, 100), "solve": (100, 100), "inner": (100, 100), "other": (101, 777)}
    slices = {e["name"]: (e["ts"], round(e["ts"] + e["dur"])) for e in events if e["ph"] == "X"}
    assert slices["solve"][0] < slices["inner"][0] < slices["inner"][1] < slices["solve"][1]
    assert slices["load"][1] <= slices["solve"][0]
    (instant,) = [e for e in events if e["ph"] == "i"]
    assert (instant["name"], instant["ts"], instant["pid"]) == ("here", 1002.5e6, 100)


def test_phases_that_overlap_get_tracks_of_their_own(tmp_path):
    spans = [(0.5, 2.0), (1.0, 3.0), (1.5, 1.8), (2.5, 3.5)]
    marks = [
        mark(t, f"{i}", kind, source="nvtx", number=i)
        for i, span in enumerate(spans)
        for t, kind in zip(span, ("begin", "end"), strict=True)
    ]
    events = events_of(tmp_path, *sorted(marks, key=lambda m: m.t))
    by_track = {}
    for e in events:
        if e["ph"] == "X" and "source" in e["args"]:
            by_track.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
    assert sum(map(len, by_track.values())) == 4
    assert len(by_track) == 2
    for slices in by_track.values():
        for a, b in slices:
            assert all(d <= a or c >= b or (a <= c and d <= b) or (c <= a and b <= d) for c, d in slices)
    named = [e["args"]["name"] for e in events if e["name"] == "thread_name" and e["tid"] in by_track]
    assert sorted(named) == ["phases of thread 100", "phases of thread 100 (2)"]


def test_a_pid_that_is_used_again_is_another_process(tmp_path):
    again = s.Started(t=3.0, key=2, pid=101, parent=0, name="second")
    names = names_of(events_of(tmp_path, again, mark(3.1, "late", pid=101), mark(3.2, kind="end", pid=101)))
    assert names[101] == "child"
    (number,) = [pid for pid, name in names.items() if name == "second"]
    assert number != 101
    events = json.loads((tmp_path / "trace.json").read_text())
    assert [e["pid"] for e in events if e["name"] == "late"] == [number]


def test_events_of_the_caller_are_appended(tmp_path):
    record = TraceEvent("copy h2d", "X", 100, 5, ts=1001.0e6, dur=10.0, args={"bytes": 4096})
    events = events_of(tmp_path, more=iter([record]))
    assert events[-1] == {
        "name": "copy h2d",
        "ph": "X",
        "pid": 100,
        "tid": 5,
        "ts": 1001.0e6,
        "dur": 10.0,
        "args": {"bytes": 4096},
    }


def test_names_of_the_target_stay_inside_their_strings(tmp_path):
    events = events_of(tmp_path, mark(0.1, '"}],\n</script>\x00' + "x" * 5000), mark(0.2, kind="end"))
    (phase,) = [e for e in events if e["ph"] == "X" and "source" in e["args"]]
    assert phase["name"].startswith('"}],\n</script>\x00')
    assert len(phase["name"]) == 200


def test_a_long_profile_is_thinned_and_a_full_trace_says_what_is_missing(tmp_path, monkeypatch):
    rows = [[4 + i / 1000, i, i] for i in range(100_000)]
    profile = read(write(tmp_path, s.Samples(of="total", columns=["resident", "minor"], rows=rows)))
    assert write_trace(profile, tmp_path / "a.json") == 0
    total = counter(json.loads((tmp_path / "a.json").read_text()), "all processes of the target", "resident")
    assert len(total) <= perfetto.MOST_READINGS
    assert max(total.values()) == 1000 * MiB
    monkeypatch.setattr(perfetto, "MOST_BYTES", 10_000)
    left_out = write_trace(profile, tmp_path / "b.json", [TraceEvent("late", "i", 1)])
    assert left_out > 1
    assert len(json.loads((tmp_path / "b.json").read_text())) > 20
    assert (tmp_path / "b.json").stat().st_size <= 10_000


@pytest.mark.parametrize("whole", [True, False])
def test_a_profile_without_an_end_has_a_trace(tmp_path, whole):
    assert events_of(tmp_path, whole=whole)
