"""Memory over time: what is sampled of a worker while a point is measured, and what its record says of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.calls import call, devices, quiet
from tests.texts import assert_states

from firsttouch.engine import discover, runner
from firsttouch.engine.filling import blank_record
from firsttouch.engine.planned import Planned
from firsttouch.engine.request import RunOptions
from firsttouch.engine.sampled import LOST, PointSampler, marks, peaks
from firsttouch.engine.work_kinds import APP
from firsttouch.profile.reading import read
from firsttouch.profile.sampler import Sampler
from firsttouch.profile.timelines import folder_of, read_course
from firsttouch.records.reading import load_results
from firsttouch.records.schema import NONE, DeviceInfo, Factors, Metric, Point, Record
from firsttouch.records.timeline import MemoryCourse, Phase

STANDIN = Path(__file__).parents[1] / "profile" / "pynvml_standin"
MiB = 1 << 20
RATE = 50 * MiB
"""Bytes by which the memory of the GPU grows in a second."""


WORDS = ("--size", "1MiB", "--repeat", "2", "--strategy", "explicit", "--timeline", "--device", "opencl:0")


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder of a run on the host's processor, which is in o, and its call."""
    folder = tmp_path_factory.mktemp("sampled")
    return folder, call("app", "hotspot", *WORDS, "--out", "o", cwd=folder)


@pytest.mark.slow
def test_a_run_on_the_hosts_processor_has_the_memory_of_the_host_and_is_resumed(
    sampled: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    folder, done = sampled
    assert done.returncode == 0, done.stderr
    shutil.copytree(folder / "o", tmp_path / "o")
    (record,) = load_results(tmp_path / "o").records
    assert (record.verified, record.suspect, record.factors["timeline"]) == (True, "", "on")
    assert record.counters["timeline"] == "timelines/0001"
    why = str(record.counters["timeline_source"]).removeprefix(NONE)
    assert_states(why, "memory of opencl:0", "the host's")
    assert_states(done.stderr, "warning: measured without ", "memory over time", why)
    assert "peak_device_bytes" not in record.counters
    in_use = [v for name, v in record.counters.items() if name.startswith("memory_iteration_") and "_host_" in name]
    assert len(in_use) == sum(name.startswith("iteration_") for name in record.counters)
    assert min(in_use) > 0

    profile = read(tmp_path / "o" / "timelines" / "0001")
    assert profile.end is not None
    phases = [phase.name for phase in profile.phases if phase.depth == 0]
    assert phases == ["allocate", "initialise", "compute", "readback"]
    parts = [phase for phase in profile.phases if phase.depth == 1]
    compute = next(phase for phase in profile.phases if phase.name == "compute")
    assert len(parts) == sum(name.startswith("iteration_") for name in record.counters)
    assert all(compute.start <= part.start and part.end <= compute.end for part in parts)

    again = call("app", "--resume", "--out", "o", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert load_results(tmp_path / "o").records == [record]
    more = call("app", "hotspot", *WORDS, "--strategy", "pinned", "--resume", "--out", "o", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    folders = [folder_of(one) for one in load_results(tmp_path / "o").records]
    assert folders == ["timelines/0001", "timelines/0002"]


def test_without_the_option_nothing_is_sampled(tmp_path: Path) -> None:
    words = ("--size", "tiny", "--repeat", "1", "--strategy", "explicit", "--device", "opencl:0", "--out", "o")
    assert call("app", "hotspot", *words, cwd=tmp_path).returncode == 0
    (record,) = load_results(tmp_path / "o").records
    assert not {"timeline", "timeline_source"} & record.counters.keys()
    assert not (tmp_path / "o" / "timelines").exists()


class Silent:
    def __init__(self) -> None:
        self.said: list[str] = []

    def warn(self, text: str) -> None:
        self.said.append(text)

    def begin(self, directory: Path, todo: Sequence[Planned], held: int) -> None: ...
    def point(self, planned: Planned) -> None: ...
    def recorded(self, planned: Planned, record: Record) -> None: ...


def as_gpu(devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """The devices of PoCL as if they were the GPU of the stand-in."""
    return [
        msgspec.structs.replace(
            device,
            facts={**device.facts, "pci_bus": "0000:01:00.0"},
            capabilities=msgspec.structs.replace(device.capabilities, on_host_processor=False),
        )
        for device in devices
    ]


Measure = Callable[..., tuple[list[Record], list[str]]]


@pytest.fixture
def measure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """measure(strategies, gpu, plan): runs hotspot on PoCL as if it was the GPU of the stand-in for NVML."""
    found = devices(["opencl"])
    monkeypatch.setattr(discover, "discover_devices", lambda kinds: found)

    def run(
        strategies: Sequence[str], gpu: dict[str, Any], size: str = "16MiB", **plan: Any
    ) -> tuple[list[Record], list[str]]:
        file = tmp_path / "nvml.json"
        file.write_text(json.dumps({"gpus": [{"total": 100 * RATE, **gpu}], **plan}))
        paths = [str(STANDIN), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        monkeypatch.setenv("PYNVML_STANDIN", str(file))
        monkeypatch.setattr(runner, "write_report", lambda directory: "")
        sets: dict[str, list[Any]] = {"size": [size], "strategy": [*strategies], "repeat": ["1"], "timeline": ["on"]}
        options = RunOptions(["hotspot"], ["opencl:0"], set=sets, out=tmp_path / "o", trust=as_gpu)
        watcher = Silent()
        with quiet():
            runner.run(APP, options, watcher)
        return load_results(tmp_path / "o").records, watcher.said

    return run


@pytest.mark.slow
def test_the_devices_peak_is_the_largest_reading_of_the_last_repetition(measure: Measure, tmp_path: Path) -> None:
    ramp = {"used": [[0, 7 * RATE], [90, 97 * RATE]], "ramp": True}
    now = time.monotonic()
    records, said = measure(["explicit", "pinned"], ramp, begins=now)
    assert said == []
    for number, record in enumerate(records, 1):
        assert (record.status, record.suspect) == ("ok", "")
        assert record.counters["timeline_source"] == "NVML"
        folder = tmp_path / "o" / folder_of(record)
        assert folder.name == f"{number:04}"
        course = read_course(folder, load_results(tmp_path / "o").machine.devices[0])
        assert record.counters["peak_device_bytes"] == max(value for _, value in course.device)
        assert course.device[0] == (0.0, 0.0)
    profile = read(tmp_path / "o" / "timelines" / "0002")
    before = profile.header.gpus[0].before.used
    earlier = read(tmp_path / "o" / "timelines" / "0001").curve("gpu:0", "used")
    assert before is not None
    assert earlier is not None
    assert earlier.values[-1] <= before, "what was read before this point, not before the first"


@pytest.mark.slow
def test_a_page_that_may_be_in_both_counters_is_in_no_sum(measure: Measure, tmp_path: Path) -> None:
    grows = {"used": [[0, 0], [90, 90 * RATE]], "ramp": True, "node": 1}
    now = time.monotonic()
    (record,), _ = measure(["explicit"], grows, begins=now)
    course = read_course(tmp_path / "o" / folder_of(record), load_results(tmp_path / "o").machine.devices[0])
    assert course.apart.startswith("The memory of gpu:0 is NUMA node 1, ")
    assert course.device
    sides = [record.counters[f"peak_{side}_bytes"] for side in ("host", "device")]
    assert record.counters["peak_bytes"] == max(sides)  # type: ignore[type-var]


@pytest.mark.slow
def test_nvml_that_ends_leaves_the_host_and_a_reason(measure: Measure) -> None:
    (record,), said = measure(["explicit"], {"used": [[0, 5]]}, fail="crash", at=0.4)
    assert record.counters["timeline_source"] == f"{NONE}{LOST}"
    assert record.counters["timeline"] == "timelines/0001"
    assert "peak_device_bytes" not in record.counters
    (warning,) = said
    assert_states(warning, "measured without ", "memory over time", LOST)


@pytest.mark.slow
def test_another_gpu_is_not_taken_for_the_device(measure: Measure) -> None:
    (record,), _ = measure(["explicit"], {"bus": "00000000:02:00.0"}, "tiny")
    assert_states(str(record.counters["timeline_source"]), f"{NONE}none of the GPUs", "opencl:0")


def test_sampling_that_fails_does_not_fail_the_point(tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "timelines").write_text("in the way")
    words = ("--size", "tiny", "--repeat", "1", "--strategy", "explicit", "--timeline", "--device", "opencl:0")
    done = call("app", "hotspot", *words, "--out", "o", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (record,) = load_results(tmp_path / "o").records
    assert (record.status, record.verified) == ("ok", True)
    assert str(record.counters["timeline_source"]).startswith("none: sampling failed: ")
    assert "timeline" not in record.counters


@pytest.mark.slow
def test_a_sampler_that_fails_in_the_midst_does_not_fail_the_point(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(self: Sampler, *, last: bool = False) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Sampler, "step", fails)
    (record,), said = measure(["explicit"], {}, "tiny")
    assert (record.status, record.verified) == ("ok", True)
    assert record.counters["timeline_source"] == "none: sampling failed: RuntimeError: a bug"
    assert "timeline" not in record.counters
    assert len(said) == 1


def a_point() -> Planned:
    device = DeviceInfo("opencl:0", "opencl", "PoCL")
    return Planned(Point("app", device.name, Factors()), Metric("ms", "lower"), device)


def test_points_of_several_processes_are_not_sampled_and_say_so(tmp_path: Path) -> None:
    record = blank_record(a_point(), "ok")
    with PointSampler(tmp_path) as sampler, sampler.sampling(None, a_point()) as profile:
        profile.take(None)
    profile.add_to(record)
    assert list(record.counters) == ["timeline_source"]
    assert_states(str(record.counters["timeline_source"]), NONE, "several processes")
    assert not list(tmp_path.iterdir())


def test_nothing_is_sampled_where_proc_is_of_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firsttouch.engine.sampled.why_foreign", lambda: "/proc is another's")
    record = blank_record(a_point(), "ok")
    with PointSampler(tmp_path) as sampler, sampler.sampling(os.getpid(), a_point()) as profile:
        profile.take(None)
    profile.add_to(record)
    assert record.counters == {"timeline_source": "none: /proc is another's"}


def test_spans_in_spans_become_marks_that_are_nested() -> None:
    spans = [("a", 10.0, 11.0), ("b", 11.0, 14.0), ("b 0", 11.0, 12.0), ("b 1", 12.0, 14.0), ("c", 14.0, 15.0)]
    found = [(mark.kind, mark.name, mark.t) for mark in marks(spans, 10.0, 4711)]
    assert found == [
        *(("begin", "a", 0), ("end", "a", 1)),
        *(("begin", "b", 1), ("begin", "b 0", 1), ("end", "b 0", 2), ("begin", "b 1", 2), ("end", "b 1", 4)),
        *(("end", "b", 4), ("begin", "c", 4), ("end", "c", 5)),
    ]


def course(host: Sequence[float], device: Sequence[float], **more: Any) -> MemoryCourse:
    """A second of phases, with a reading of both every 0.1 s."""
    lines = [[(i / 10, value) for i, value in enumerate(line)] for line in (host, device)]
    facts = {"source": "NVML", "why": "", "apart": "", "interval": 0.01}
    return MemoryCourse([Phase("compute", 0.0, 1.0)], *lines, **{**facts, **more})


def test_peaks_are_those_of_readings_where_they_are_higher() -> None:
    seen = course([0, 50, 10], [0, 10, 50])
    read_before = {"peak_host_bytes": 40, "peak_device_bytes": 30, "peak_bytes": 45}
    assert peaks(read_before, seen) == {"peak_host_bytes": 50, "peak_device_bytes": 50, "peak_bytes": 60}
    assert peaks({"peak_host_bytes": 90, "peak_bytes": 95}, seen) == {
        "peak_host_bytes": 90,
        "peak_device_bytes": 50,
        "peak_bytes": 95,
    }
    apart = course([0, 50, 10], [0, 10, 50], apart="a page may be in both")
    assert peaks({"peak_host_bytes": 1, "peak_device_bytes": 1}, apart) == {
        "peak_host_bytes": 50,
        "peak_device_bytes": 50,
    }
    assert peaks(read_before, course([0, 50], [0, 50], interval=0.3)) == {}  # too few readings
    assert peaks({"peak_host_bytes": 40}, course([0, 50], [])) == {"peak_host_bytes": 50}


@pytest.mark.parametrize("name", ["../../etc", "timelines/0001/../..", "timelines/1", "/timelines/0001", 7, None])
def test_records_of_others_name_no_folder_elsewhere(name: Any) -> None:
    assert folder_of(msgspec.structs.replace(blank_record(a_point(), "ok"), counters={"timeline": name})) == ""


@pytest.mark.slow
def test_the_profile_of_a_point_is_drawn_like_any_other(
    sampled: tuple[Path, subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    shutil.copytree(sampled[0] / "o", tmp_path / "o")
    done = call("report", "o/timelines/0001", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "o" / "timelines" / "0001" / "report.html").read_text()
    assert "strategy=explicit" in page
    assert "readback" in page
