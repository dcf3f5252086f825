"""--wait: what it waits for, how long, and what it says."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.calls import call
from tests.texts import assert_states

from firsttouch.base.errors import UsageError
from firsttouch.engine import quiet
from firsttouch.machine import processor_time

Wait = Callable[..., "tuple[bool, list[str], float]"]


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Wait:
    """wait(minutes, shares): waits while others use these shares, second by second; the last of them on."""

    def run(
        minutes: float, shares: Sequence[float | None], names: Sequence[str] = ("stress-ng",)
    ) -> tuple[bool, list[str], float]:
        left, clock, said = [*shares], [100.0], list[str]()

        def second(*of: object) -> list[str]:
            clock[0] += 1
            return [*names]

        monkeypatch.setattr(quiet.time, "monotonic", lambda: clock[0])
        monkeypatch.setattr(processor_time, "busiest", second)
        monkeypatch.setattr(processor_time, "use_now", lambda: None)
        monkeypatch.setattr(processor_time, "share_since", lambda before: left.pop(0) if len(left) > 1 else left[0])
        return quiet.wait_until_quiet(minutes, said.append), said, clock[0] - 100

    return run


def test_a_quiet_machine_is_measured_after_three_quiet_seconds(wait: Wait) -> None:
    assert wait(10, [0.0]) == (True, [], 3)
    assert wait(10, [0.05, 0.0, 0.3, 0.0, 0.09, 0.0])[::2] == (True, 6)


def test_what_is_waited_for_is_named_every_half_minute(wait: Wait) -> None:
    done, said, seconds = wait(1, [0.45])
    assert (done, seconds) == (False, 60)
    *waiting, last = said
    assert len(waiting) == 2
    for text in said:
        assert_states(text, "1 min: stress-ng uses 45 %")
    assert [text.startswith("waiting") for text in said] == [True, True, False]
    assert_states(last, "still busy", "marked")


@pytest.mark.parametrize(
    ("names", "who"), [([], "other programs use 50 %"), (["a", "b", "c"], "a, b and c use 50 % of the processors")]
)
def test_programs_that_cannot_be_seen_are_other_programs(wait: Wait, names: Sequence[str], who: str) -> None:
    assert who in wait(0.5, [0.5], names)[1][0]


def test_where_the_kernel_does_not_state_it_nothing_is_waited_for(wait: Wait) -> None:
    assert wait(10, [None])[::2] == (False, 1)


@pytest.mark.parametrize("minutes", [-1.0, float("nan"), 1e9])
def test_times_that_cannot_be_waited_are_refused(minutes: float) -> None:
    with pytest.raises(UsageError, match="not a number of minutes from 0 to 1440"):
        quiet.check_minutes(minutes)


@pytest.mark.parametrize(
    ("words", "minutes"),
    [
        (["--wait", "latency"], 10.0),
        (["latency", "--wait"], 10.0),
        (["--wait=2.5", "latency"], 2.5),
        (["--wait", "3", "latency"], 3.0),
        (["latency"], None),
    ],
)
@pytest.mark.parametrize("command", ["run", "app"])
def test_minutes_may_be_left_out(
    command: str, words: list[str], minutes: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float | None] = []
    monkeypatch.setattr(
        f"firsttouch.cli.{command}.measure_in_terminal",
        lambda work, options, *more, **others: given.append(options.wait) or 0,
    )
    assert call(command, *words).returncode == 0
    assert given == [minutes]


def test_a_run_says_what_it_waits_for_and_then_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor_time, "busiest", lambda tree, seconds: ["make"])
    monkeypatch.setattr(processor_time, "share_since", lambda before: 0.7)
    done: subprocess.CompletedProcess[str] = call(
        "run", "latency", "--device", "cpu", "--set", "size=4KiB", "--wait=0", "--out", tmp_path / "o"
    )
    assert done.returncode == 0, done.stderr
    assert_states(done.stderr.splitlines()[0], "still busy", "0 min: make uses 70 %", "marked")
    assert call("run", "latency", "--wait=x").returncode == 2
