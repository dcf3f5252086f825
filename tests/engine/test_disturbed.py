"""Points that other programs disturbed: measured again at the end of a call, or marked."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

import msgspec
import pytest
from tests import calls
from tests.fabricated import MACHINES
from tests.texts import assert_states

from firsttouch.engine import disturbed
from firsttouch.engine.disturbed import DisturbedPoints
from firsttouch.engine.executor import share_of_others
from firsttouch.engine.planned import Planned
from firsttouch.machine import processor_time
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Factors, Metric, Party, Point, Record
from firsttouch.workers.process import TaskResult
from firsttouch.workers.protocol import Reply

Call = Callable[..., "subprocess.CompletedProcess[str]"]
WORDS = ("steady", "--device", "cpu", "--out", "o", "--set")


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[float | None]], None]:
    """others(shares): what other programs use of the processors at each point of later calls; the last of them on."""

    def use(shares: Sequence[float | None]) -> None:
        left = [*shares]

        def share(*uses: object, **options: object) -> float | None:
            return left.pop(0) if len(left) > 1 else left[0]

        quiet = calls.quiet

        @contextlib.contextmanager
        def busy() -> Iterator[None]:
            with quiet(), patch.object(processor_time, "others_share", share):
                yield

        monkeypatch.setattr(calls, "quiet", busy)
        monkeypatch.setattr(disturbed, "SHARE", 1e9)

    return use


def records(folder: Path) -> list[Record]:
    return sorted(load_results(folder / "o").records, key=lambda record: record.count("n"))


def test_a_disturbed_point_is_measured_again_at_the_end(
    call: Call, others: Callable[[Sequence[float | None]], None], tmp_path: Path
) -> None:
    others([0.05, 0.5, None, 0.02])
    done = call(*WORDS, "n=0,1,2", "--json")
    assert done.returncode == 0, done.stderr
    assert_states(done.stderr, "warning: measured 1 point while other programs", "measuring again")
    assert "marked" not in done.stderr
    assert [record.others_share for record in records(tmp_path)] == [0.05, 0.02, None]
    lines = (tmp_path / "o" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["factors"]["n"] for line in lines] == [0, 1, 2, 1]
    outcome = json.loads(done.stdout)
    assert (outcome["counts"], outcome["disturbed"]) == ({"ok": 3}, 0)
    again = call(*WORDS, "n=0,1,2", "--resume")
    assert len((tmp_path / "o" / "results.jsonl").read_text().splitlines()) == 4, again.stderr


def test_what_stays_disturbed_is_marked_and_said_everywhere(
    call: Call, others: Callable[[Sequence[float | None]], None], tmp_path: Path
) -> None:
    others([0.45])
    done = call(*WORDS, "n=0,1,2,3,4", drawn=True)
    assert len((tmp_path / "o" / "results.jsonl").read_text().splitlines()) == 5
    page = (tmp_path / "o" / "report.html").read_text()
    outcome = json.loads(call(*WORDS, "n=0", "--resume", "--json").stdout)
    assert outcome["disturbed"] == 5
    said = outcome["conditions"][0]
    assert_states(said, "5 of 5 points", "other programs", "45 %")
    assert_states(done.stderr, f"warning: {said}", "marked", "--wait")
    assert_states(done.stdout, said)
    assert page.index("Conditions: " + said) < page.index("other programs used 45 % of the processors")


def test_wait_also_waits_before_points_are_measured_again(
    call: Call, others: Callable[[Sequence[float | None]], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others([0.5, 0.0])
    monkeypatch.setattr(processor_time, "busiest", lambda tree, seconds: ["make"])
    monkeypatch.setattr(processor_time, "share_since", lambda before: 0.7)
    done = call(*WORDS, "n=0", "--wait=0")
    assert done.stderr.count("still busy after 0 min: make uses 70 % of the processors") == 2
    assert [record.others_share for record in records(tmp_path)] == [0.0]


@pytest.mark.slow
def test_what_distorts_the_values_is_said_before_they_are_measured(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextlib.contextmanager
    def busy() -> Iterator[None]:
        load = patch.object(processor_time, "load_since", lambda before: {"others_percent": 45.0})
        with load, patch.dict("os.environ", MALLOC_ARENA_MAX="1"):
            yield

    monkeypatch.setattr(calls, "quiet", busy)
    done = call(*WORDS, "n=0", "--json")
    said = [one for one in json.loads(done.stdout)["conditions"] if "45 %" in one or "MALLOC_ARENA_MAX" in one]
    assert len(said) == 2
    assert_states(done.stderr.splitlines()[0], "warning: ", "distorts", *said)


class _Executor:
    """Measures each point as the records say, one after the other."""

    def __init__(self, shares: Sequence[float | None]) -> None:
        self.shares, self.measured = [*shares], 0

    def measure(self, planned: object) -> Record:
        self.measured += 1
        return record(self.shares[self.measured - 1])


def record(share: float | None, seconds: float = 1e-6, **more: object) -> Record:
    summary = dict.fromkeys(("median", "p5", "p95", "min", "max", "ci_low", "ci_high"), 1.0) | {"n": 3}
    fields = {
        "schema": "",
        "experiment": "x",
        "device": "cpu",
        "factors": {},
        "unit": "ns",
        "status": "ok",
        "better": "lower",
    }
    return msgspec.convert(fields | {"summary": summary, "others_share": share, "seconds": seconds} | more, Record)


@pytest.mark.parametrize(
    ("shares", "measured", "kept"),
    [
        ([0.0] * 5, 5, 5),
        ([None] * 5, 3, 0),
        ([0.5] * 5, 3, 0),
        ([0.5, 0.5, 0.0, 0.5, 0.0], 5, 2),
        ([0.0, 0.5, 0.5, 0.5, 0.0], 4, 1),
    ],
)
def test_a_machine_that_is_still_busy_is_given_up(shares: list[float | None], measured: int, kept: int) -> None:
    executor, noted = _Executor(shares), DisturbedPoints()
    for _ in shares:
        noted.note(None, record(0.5), None, 100.0)  # type: ignore[arg-type]
    assert len([*noted.measure_again(executor, lambda planned: None)]) == kept  # type: ignore[arg-type]
    assert executor.measured == measured


def test_measuring_again_takes_a_part_of_the_time_of_the_call() -> None:
    executor, noted = _Executor([0.0] * 9), DisturbedPoints()
    noted.note(None, record(0.0), None, 50.0)  # type: ignore[arg-type]
    noted.note(None, record(0.5, seconds=9.0), None, 0.0)  # type: ignore[arg-type]
    noted.note(None, record(0.5, seconds=11.0), None, 0.0)  # type: ignore[arg-type]
    assert len([*noted.measure_again(executor, lambda planned: None)]) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "doubtful"),
    [
        ({}, False),
        ({"others_share": None}, False),
        ({"others_share": 0.09}, False),
        ({"others_share": 0.1}, True),
        ({"others_share": 0.9, "unit": "instructions", "better": "neither"}, False),
        ({"throttled": True}, True),
        ({"status": "failed", "others_share": 0.9}, False),
    ],
)
def test_points_that_are_throttled_or_disturbed_are_measured_again(fields: dict[str, object], doubtful: bool) -> None:
    assert disturbed.is_doubtful(msgspec.structs.replace(record(0.0), **fields)) == doubtful


@pytest.mark.parametrize(
    ("shares", "gpu", "share"),
    [
        ({"": [(6.0, 1.0)]}, False, 0.2),
        ({"": [(6.0, 1.0)]}, True, 0.05),
        ({"": [(6.0, 1.0), (6.0, 3.0)]}, False, 0.05),
        ({"one": [(6.0, 5.0)], "two": [(6.0, 1.0)]}, False, 0.2),
    ],
)
def test_what_others_used_is_the_most_on_any_host_of_the_ranks(
    shares: dict[str, list[tuple[float, float]]], gpu: bool, share: float
) -> None:
    """Each rank has seen user and system time of all, half of it in the kernel, and its own time of a user."""
    replies = []
    for host, uses in shares.items():
        for used, own in uses:
            times = {"user": used / 2, "system": used / 2, "stolen": 0.0, "own_user": own, "own_system": 0.0}
            use = processor_time.ProcessorUse(processors="0-1", seconds=10.0, **times)
            parties = [Party(device="cpu", host=host)] if host else []
            replies.append(Reply(state="done", use=use, record=record(0.0, parties=parties)))
    info = MACHINES["pascal"].devices[1 if gpu else 0]
    planned = Planned(Point("x", info.name, Factors()), Metric("ns", "lower"), info)
    result = TaskResult("done", "", replies[0], replies if len(replies) > 1 else ())
    assert share_of_others(planned, result, 1.0) == pytest.approx(share)
