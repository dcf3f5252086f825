"""`run --counters`: a point is run once more under a profiler, and only what is counted is added to its record."""

from __future__ import annotations

import dataclasses
import errno
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.calls import call
from tests.matrix import matrix
from tests.texts import assert_states

from firsttouch.engine import counted
from firsttouch.engine.runner import missing
from firsttouch.experiments.contract.base import ONE_AT_A_TIME, Experiment
from firsttouch.machine.backends import BACKENDS
from firsttouch.profile.counters.marks import ITERATION_MARK, PHASE_MARK
from firsttouch.profile.counters.perf import Perf
from firsttouch.profile.counters.tool import COUNTED_ELSEWHERE, STATE, HwCounter
from firsttouch.profile.counters.tools import TOOLS
from firsttouch.records.reading import load_results
from firsttouch.records.schema import NONE, SCHEMA, Record, Request

HERE = Path(__file__).parent
NCU_CSV = (HERE / "recorded/ncu.csv").read_text()
DENIED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with the fake profiler for all tests, because devices are looked for once for each PATH."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "ncu").symlink_to(HERE / "fake_ncu")
    return folder


@pytest.fixture
def fake_ncu(monkeypatch: pytest.MonkeyPatch, programs: Path) -> Path:
    """Lets the profiler of CUDA devices count an OpenCL device, and sets a fake one. Returns its folder, in which it
    finds what it writes and lists its calls.
    """
    row = dataclasses.replace(BACKENDS["opencl"], counters="ncu")
    monkeypatch.setattr(counted, "BACKENDS", {**BACKENDS, "opencl": row})
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    (programs / "counters.csv").write_text(NCU_CSV)
    for name in ("listed", "calls"):
        (programs / name).unlink(missing_ok=True)
    return programs


def calls_of(fake_ncu: Path) -> list[str]:
    return (fake_ncu / "calls").read_text().splitlines()


def measure(tmp_path: Path, *names: str, device: str = "opencl:0", **sets: str) -> tuple[list[Record], list[str]]:
    """The records of a run with --counters, and its warnings."""
    words = [word for name, value in sets.items() for word in ("--set", f"{name}={value}")]
    done = call("run", *names, "--device", device, *words, "--counters", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    return list(load_results(tmp_path / "out").records), warnings


@pytest.mark.slow
def test_counters_are_added_and_the_samples_stay_those_without(fake_ncu: Path, tmp_path: Path) -> None:
    (record,), warnings = measure(
        tmp_path, "bandwidth", agent="gpu", allocator="device", kernel="triad", arrays="sweep", size="256KiB"
    )
    assert (record.status, record.verified, warnings) == ("ok", True, [])
    assert len(record.samples) >= 3
    assert record.counters["hw_counters"] == "ncu (application replay)"
    assert record.counters["hw_kernels"] == 2
    assert record.counters["hw_device_write_bytes"] == 2 * 1073812992
    assert record.counters["shape_blocks"] > 0
    (line,) = calls_of(fake_ncu)
    assert "--metrics l1tex__t_bytes.sum,lts__t_sectors_srcunit_tex.sum,dram__bytes_read.sum," in line


@pytest.mark.parametrize(
    ("name", "sets"),
    matrix(
        [
            ("latency", {"agent": "gpu", "allocator": "device", "size": "64KiB", "order": "random"}),
            ("tlb", {"agent": "gpu", "allocator": "device", "method": "chase", "stride": "4KiB", "pages": "16"}),
        ],
        1,
    ),
)
@pytest.mark.slow
def test_a_chase_says_over_how_many_loads_it_was_counted(
    fake_ncu: Path, tmp_path: Path, name: str, sets: dict[str, str]
) -> None:
    (record,), warnings = measure(tmp_path, name, **sets)
    assert (record.status, record.verified, warnings) == ("ok", True, [])
    assert record.counters["hw_loads"] >= 1000
    assert record.counters["hw_loads"] % 32 == 0


@pytest.mark.parametrize("error", ["ENOSPC", "EROFS", "ENOENT"])
def test_no_place_for_the_files_of_the_tool(
    fake_ncu: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str
) -> None:
    def refuse(**_: object) -> None:
        raise OSError(getattr(errno, error), "refused")

    monkeypatch.setattr(counted, "tempfile", SimpleNamespace(TemporaryDirectory=refuse))
    (record,), warnings = measure(tmp_path, "latency", agent="gpu", allocator="device", size="4KiB", order="random")
    why = str(record.counters[STATE]).removeprefix(NONE)
    assert record.status == "ok"
    assert_states(why, "ncu", "(refused)", "set TMPDIR")
    assert why in warnings[0]


@pytest.mark.exhaustive
def test_only_the_counters_that_the_tool_lists_are_asked_for(fake_ncu: Path, tmp_path: Path) -> None:
    (fake_ncu / "listed").write_text("dram__bytes_read Counter byte\n")
    (record,), _ = measure(tmp_path, "latency", agent="gpu", allocator="device", size="4KiB", order="random")
    assert "--metrics dram__bytes_read.sum,gpu__time_duration.sum --replay-mode" in calls_of(fake_ncu)[0]
    names = {name for name in record.counters if name.startswith("hw_")}
    assert names == {"hw_counters", "hw_kernels", "hw_loads", "hw_device_read_bytes"}


@pytest.mark.slow
def test_a_refusal_is_said_once_and_the_tool_is_not_started_again(fake_ncu: Path, tmp_path: Path) -> None:
    (fake_ncu / "counters.csv").write_text(DENIED)
    records, warnings = measure(tmp_path, "latency", agent="gpu", allocator="device", size="4KiB,8KiB,16KiB",
                                order="random")  # fmt: skip
    assert [(r.status, r.verified) for r in records] == [("ok", True)] * 3
    assert {r.counters["hw_counters"] for r in records} == {f"none: {warnings[0].partition('counters: ')[2]}"}
    assert len(warnings) == 1
    assert "ERR_NVGPUCTRPERM" in warnings[0]
    assert len(calls_of(fake_ncu)) == 1


@pytest.mark.exhaustive
def test_a_tool_that_fails_at_every_point_is_given_up(fake_ncu: Path, tmp_path: Path) -> None:
    (fake_ncu / "counters.csv").write_text("==WARNING== No kernels were profiled.\n")
    records, _ = measure(tmp_path, "latency", agent="gpu", allocator="device", size="4KiB,8KiB,16KiB,32KiB,64KiB",
                         order="random")  # fmt: skip
    first, second, third, *further = [str(r.counters[STATE]) for r in records]
    assert first == second == third
    assert first.startswith(f"{NONE}ncu ")
    assert len(further) == 2
    for text in further:
        assert_states(text, f"{NONE}ncu ", "3 points", first.removeprefix(NONE))
    assert len(calls_of(fake_ncu)) == 3


@pytest.mark.exhaustive
def test_experiments_in_which_both_agents_work_say_why_they_are_not_counted(tmp_path: Path) -> None:
    records, warnings = measure(
        tmp_path, "locking", "allocation", device="cpu", allocator="malloc", inside="1", size="64KiB"
    )
    assert all(str(r.counters["hw_counters"]).startswith("none: ") for r in records if r.status == "ok")
    assert [w.partition("counters: ")[2] for w in warnings if "counters" in w] == [
        Experiment.counting,
        ONE_AT_A_TIME,
    ]


def test_perf_counts_the_timed_samples_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A software event, which every kernel counts: the time on the processor within the timed sample, in ms."""
    perf = shutil.which("perf")
    if perf is None or subprocess.run([perf, "stat", "--delay", "-1", "true"], capture_output=True).returncode:
        pytest.skip("no perf that works")

    class Clock(Perf):
        quantities = (HwCounter("hw_clock_ms", "time on a processor", [{"task-clock": 1}]),)

    monkeypatch.setattr(counted, "TOOLS", {**TOOLS, "perf": Clock()})
    (record,), warnings = measure(tmp_path, "latency", device="cpu", allocator="malloc", size="4KiB", order="random")
    assert warnings == []
    assert str(record.counters[STATE]).startswith("perf (stat")
    assert record.counters["hw_loads"] >= 100_000
    assert "hw_clock_ms" in record.counters


def test_the_command_warns_and_goes_on_without_a_tool(tmp_path: Path) -> None:
    sets = ["--set", "size=4KiB", "--set", "allocator=malloc", "--set", "order=random"]
    words = ["latency", "--device", "cpu", *sets, "--counters", "--out", tmp_path / "out"]
    done = call("run", *words, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert_states(done.stderr, "warning: ", "without counters", "perf is not on the PATH")
    (record,) = load_results(tmp_path / "out").records
    assert record.status == "ok"
    assert '"counters":true' in (tmp_path / "out/run.json").read_text().replace(" ", "")


def test_the_list_says_which_experiments_offer_counters(tmp_path: Path) -> None:
    listing = call("run", "tlb", "allocation", "--list", "--device", "cpu").stdout
    of_tlb, of_allocation = listing.split("allocation: ")
    assert "--counters" in of_tlb
    assert "--counters" not in of_allocation


def test_a_point_that_another_point_counts_for_gives_no_warning() -> None:
    request = Request(schema=SCHEMA, experiments=[], devices=[], preset="quick", seed=1, counters=True)
    record = Record(schema=SCHEMA, experiment="app", device="cuda:0", factors={}, unit="ms", status="ok")
    record.counters = {STATE: NONE + COUNTED_ELSEWHERE}
    assert missing(request, record) == {}
    record.counters = {STATE: f"{NONE}no ncu"}
    assert missing(request, record) == {"counters": "no ncu"}


@pytest.mark.exhaustive
def test_an_application_under_ncu_is_counted_by_iteration(fake_ncu: Path, tmp_path: Path) -> None:
    head, units, counted_launch, *_ = [line for line in NCU_CSV.splitlines() if line.startswith('"')]
    names = [PHASE_MARK, "srad_extract", *[ITERATION_MARK, "srad_reduce"] * 4, ITERATION_MARK, PHASE_MARK, "fill_32"]
    rows = [counted_launch.replace("counted_stream_triad", name) for name in ["fill_32", *names]]
    (fake_ncu / "counters.csv").write_text("\n".join([head, units, *rows]) + "\n")
    words = ["srad", "--device", "opencl:0", "--strategy", "explicit", "--size", "tiny", "--repeat", "1", "--counters"]
    done = call("app", *words, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    (record,) = load_results(tmp_path / "out").records
    assert_states(str(record.counters[STATE]), "ncu (application replay", "phase compute)")
    assert (record.counters["hw_kernels"], record.counters["hw_iterations"]) == (5, 4)
    assert record.counters["hw_iteration_3_device_write_bytes"] == 1073812992
    assert record.counters["hw_iteration_3_kernel_ms"] == pytest.approx(0.731456)
    assert "--kernel-name" not in calls_of(fake_ncu)[0]
    assert_states(done.stdout, "GB/s", "phase compute")
