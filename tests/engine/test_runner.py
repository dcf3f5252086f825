"""Every outcome of a point is recorded, and the run continues."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path

import pytest
from tests import calls
from tests.matrix import matrix
from tests.texts import assert_states

from firsttouch.engine.discover import discover_devices
from firsttouch.engine.executor import PointExecutor
from firsttouch.engine.planned import Planned
from firsttouch.engine.reporting import draw
from firsttouch.experiments.contract.base import Point
from firsttouch.records.reading import load_results
from firsttouch.records.schema import DeviceInfo, Factors, Metric, Record

FAULTS = Path(__file__).with_name("faults.py")
ENDS = {
    "segv": ("crashed", "SIGSEGV.*last words before the fault"),
    "kill": ("crashed", "SIGKILL"),
    "exit": ("crashed", "exit status 7"),
    "sleep": ("timeout", "did not finish within 2 s"),
    "beyond-guard": ("skipped", ".+"),
    "raise": ("failed", "RuntimeError: the driver said no"),
    "junk": ("failed", "the worker's reply is not valid: "),
    "sys-exit": ("failed", "SystemExit: 5"),
    "no-memory": ("failed", "MemoryError: no memory"),
    "unsupported": ("skipped", "this driver has no such call"),
    "nan": ("failed", "not finite"),
    "empty": ("failed", "no samples"),
    "no-why": ("failed", "bug in the experiment"),
    "odd-counter": ("failed", "can't be stored"),
    "flip": ("ok", ""),
    "chatter": ("ok", ""),
    "why": ("ok", ""),
}


def _by_what(directory: Path) -> dict[str, Record]:
    return {str(r.factors["what"]): r for r in load_results(directory).records}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of every fault and of the experiments with workers of their own: its call and its records."""
    names, sets = ("fault", "shaped", "alone", "steady", "fresh"), (f"what={','.join([*ENDS, 'fine'])}", "n=1,2,3")
    words = [*names, "--device", "cpu", *(word for one in sets for word in ("--set", one)), "--timeout", "2"]
    folder = tmp_path_factory.mktemp("runner")
    done = calls.call("run", *words, "--out", "out", "--json", cwd=folder, FIRSTTOUCH_MODULES=str(FAULTS))
    return done, load_results(folder / "out").records


@pytest.mark.slow
def test_every_outcome_is_recorded_and_the_run_continues(run):
    done, found = run
    assert done.returncode == 3, done.stderr
    outcome = json.loads(done.stdout)
    records = {str(r.factors["what"]): r for r in found if r.experiment == "fault"}
    assert list(records) == [*ENDS, "fine"]
    for what, (status, reason) in ENDS.items():
        assert records[what].status == status, (what, records[what])
        assert re.search(reason, records[what].reason), (what, records[what].reason)
        assert "\n" not in records[what].reason
    assert records["fine"].status == "ok"
    assert records["fine"].counters == {"pages": 7}
    assert records["fine"].summary.median == 2.0
    assert records["flip"].verified is False
    assert records["flip"].verified_why == "1 of 100000 bytes differ"
    assert records["why"].verified is None
    assert outcome["counts"] == {"ok": 4 + 4 + 9, "skipped": 2, "failed": 8, "timeout": 1, "crashed": 3}
    assert outcome["unverified"] == 1
    assert Path(outcome["directory"]) == Path("out")


@pytest.mark.exhaustive
def test_a_worker_beyond_the_memory_limit_is_killed(call, tmp_path):
    done = call("fault", "--device", "cpu", "--set", "what=exhaust,fine", "--out", "out", FIRSTTOUCH_MAX_HOST="64MiB")
    assert done.returncode == 1, done.stderr
    records = _by_what(tmp_path / "out")
    assert records["exhaust"].status == "failed"
    assert_states(records["exhaust"].reason, "host memory", "limit is 1.062 GiB")
    assert records["fine"].status == "ok"


@pytest.mark.exhaustive
def test_an_endless_kernel_is_ended(call, tmp_path):
    done = call("fault", "--device", "opencl:0", "--set", "what=spin,fine", "--timeout", "3", "--out", "out")
    assert done.returncode == 1, done.stderr
    records = _by_what(tmp_path / "out")
    assert (records["spin"].status, records["spin"].reason) == ("timeout", "did not finish within 3 s")
    assert records["fine"].status == "ok"


def test_suspect_points_are_marked_and_left_out_of_the_findings(call, tmp_path):
    done = call("fault", "--device", "cpu", "--set", "what=negative,fine", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert_states(done.stdout, "1 suspect point", "left out", "1 against the rule not-positive: ")
    assert "2 ok, 1 suspect" in done.stderr
    records = _by_what(tmp_path / "out")
    assert {what: (r.status, r.suspect) for what, r in records.items()} == {
        "negative": ("ok", "not-positive"),
        "fine": ("ok", ""),
    }
    (report,) = draw([tmp_path / "out"])
    assert "not-positive" in report.read_text()
    again = call("fault", "--device", "cpu", "--set", "what=negative,fine", "--out", "out", "--resume", "--json")
    outcome = json.loads(again.stdout)
    assert (outcome["suspect"], outcome["counts"]) == ({"not-positive": 1}, {"ok": 2})
    (finding,) = outcome["findings"]
    assert [point["factors"]["what"] for point in finding["points"]] == ["fine"]


@pytest.mark.parametrize(("what", "status"), matrix([("fine", 0), ("unsupported", 0), ("raise", 1), ("flip", 3)], 1))
def test_exit_status(call, what, status):
    done = call("fault", "--device", "cpu", "--set", f"what={what}", "--out", "out")
    assert done.returncode == status, done.stderr


@pytest.mark.slow
def test_one_worker_per_group_and_a_new_one_where_asked(run):
    names, records = ("alone", "steady", "fresh"), run[1]
    pids = {name: {r.samples[0] for r in records if r.experiment == name} for name in names}
    assert [len(pids[name]) for name in names] == [1, 1, 3]
    assert len(set.union(*pids.values())) == 5


@pytest.mark.slow
def test_a_group_has_its_environment(run):
    records = [r for r in run[1] if r.experiment == "shaped"]
    assert [r.verified for r in records] == [True] * 4
    assert [r.factors["mode"] for r in records] == ["0", "0", "1", "1"]


def steady(device: DeviceInfo, n: int) -> Planned:
    return Planned(Point("steady", device.name, Factors(n=n)), Metric("ns", "lower"), device, seconds=0.01)


def test_a_device_that_does_not_open_is_not_tried_again(with_faults):
    info = DeviceInfo(name="cuda:99", kind="cuda", title="none")
    with PointExecutor() as executor:
        records = [executor.measure(steady(info, n)) for n in range(4)]
    assert {r.status for r in records} <= {"failed", "skipped"}
    assert [r.reason.startswith("not tried") for r in records] == [False, False, True, True]


@pytest.mark.exhaustive
def test_a_point_that_crashed_is_tried_again_once_by_resume_and_always_by_retry(call, tmp_path):
    asked = ("fault", "--device", "cpu", "--set", "what=segv,raise,fine")

    def tries(*words: str) -> int:
        done = call(*words, "--out", "out")
        assert done.returncode == 1, done.stderr
        lines = (tmp_path / "out" / "results.jsonl").read_text().splitlines()
        return sum(json.loads(line)["factors"]["what"] == "segv" for line in lines)

    assert tries(*asked) == 1
    assert tries("--resume") == 2
    assert tries(*asked, "--resume") == 2
    assert tries("--resume", "--retry") == 3
    assert {str(r.factors["what"]): r.status for r in load_results(tmp_path / "out").records} == {
        "segv": "crashed", "raise": "failed", "fine": "ok"}  # fmt: skip
    alone = call(*asked, "--out", "out", "--retry")
    assert (alone.returncode, alone.stderr.count("\n")) == (2, 1)
    assert "--retry needs --resume" in alone.stderr


def test_a_process_that_cannot_be_started_fails_its_point(with_faults, monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refused)
    (device,) = discover_devices(["cpu"])
    said = "Resource temporarily unavailable"
    assert_states(device.reason, "no process", said)
    with PointExecutor() as executor:
        record = executor.measure(steady(device, 0))
    assert record.status == "failed"
    assert_states(record.reason, "no process", said)
