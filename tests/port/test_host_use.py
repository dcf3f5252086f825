"""--host: what the CPU writes and reads of buffers that are copied, against what a program says that it did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from tests.calls import call
from tests.port.played import FIXTURES, PlayedCuda
from tests.profile import injected
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import HostUse, LaunchCall, MoveCall, TracedCalls, WaitCall
from firsttouch.profile.inject import HOST_VARIABLE

PAGE, PAGES = 4096, 1500
WHOLE = "1000000"
"""Percent of the run that the watch may take: all that it needs."""

pytestmark = pytest.mark.skipif(bool(_core.why_no_page_tracking()), reason=_core.why_no_page_tracking())


def traced(
    cuda: PlayedCuda, directory: Path, how: str, percent: str = WHOLE, program: str = "host_use.c"
) -> tuple[TracedCalls, str]:
    """The calls of a program, and what it printed."""
    built = cuda.built(FIXTURES / program, "-pthread")
    variables = injected.environment(directory, nvtx=False, trace=True) | cuda.environment
    printed = injected.run([built, how], variables | ({HOST_VARIABLE: percent} if percent else {}))
    (calls,) = read_calls(directory)
    return calls, printed


def said(printed: str) -> Mapping[str, set[int]]:
    """The pages that the program says it wrote or read, by phase."""
    return {line.split()[0]: set(map(int, line.split()[1:])) for line in printed.splitlines()}


def pages(use: HostUse) -> set[int]:
    """The pages that were written, counted from the start of the buffer."""
    return {
        page for start, end in use.writes for page in range((start - use.address) // PAGE, (end - use.address) // PAGE)
    }


@pytest.mark.parametrize("how", ["plain", "threads", "read", "fork", "huge", "pinned"])
def test_pages_equal_what_the_program_wrote(how: str, cuda: PlayedCuda, tmp_path: Path) -> None:
    calls, printed = traced(cuda, tmp_path, how)
    phases = said(printed)
    uses = [each for each in calls.calls if isinstance(each, HostUse)]
    assert all((use.bytes, use.since <= use.t) == (PAGES * PAGE, True) for use in uses)
    assert [use.late for use in uses] == [False, True, True, False, False, False]  # two from a launch on
    assert [pages(use) for use in uses] == [
        phases["before"],
        set(),  # nothing was written while the first two kernels ran
        phases["pending"],
        phases["pending"] | phases["after"],
        set(),
        phases["last"],
    ]
    first, quiet, pending, between, unwritten, last = uses
    assert (quiet.read, pending.read) == (None, None)
    if how != "huge":  # of a huge page, parts are not read alone
        for use, read in zip((first, between, unwritten, last), (0, 0, len(phases["read"]), 0), strict=True):
            assert use.read is not None
            assert 0 <= use.read // PAGE - read <= 32  # the kernel may mark a few pages besides

    launches = [each.t for each in calls.calls if isinstance(each, LaunchCall)]
    waits = [each.t for each in calls.calls if isinstance(each, WaitCall) and each.what != "copy"]
    assert (pending.since, pending.t, quiet.since, quiet.t) == (launches[2], waits[2], launches[0], waits[1])
    assert calls.calls.index(pending) < next(
        place for place, each in enumerate(calls.calls) if isinstance(each, WaitCall) and each.t == pending.t
    )
    copies = [each.t for each in calls.calls if isinstance(each, MoveCall)]
    for use, copy, following in zip((first, between, unwritten), copies, copies[1:], strict=False):
        assert copy <= use.since <= use.t <= following
    assert calls.incomplete == ()


@pytest.mark.parametrize("percent", [0, 37, 100])
def test_a_sixteenth_tells_what_is_read_of_much(percent: int, cuda: PlayedCuda, tmp_path: Path) -> None:
    calls, _ = traced(cuda, tmp_path, str(percent), program="host_reads.c")
    (use,) = (each for each in calls.calls if isinstance(each, HostUse))
    assert (use.bytes, use.writes, use.was_gone) == (64 << 20, (), True)
    assert use.read is not None
    assert use.read / use.bytes == pytest.approx(percent / 100, abs=0.02)


def test_the_program_prints_the_same_without(cuda: PlayedCuda, tmp_path: Path) -> None:
    outputs = []
    for number, percent in enumerate(("", WHOLE)):
        (tmp_path / str(number)).mkdir()
        outputs.append(traced(cuda, tmp_path / str(number), "threads", percent)[1])
    assert outputs[0] == outputs[1]


def test_what_it_may_not_take_is_left_out_and_said(cuda: PlayedCuda, tmp_path: Path) -> None:
    calls, _ = traced(cuda, tmp_path, "plain", "0")
    assert not any(isinstance(each, HostUse) for each in calls.calls)
    assert any("looks at host data" in text for text in calls.incomplete)


def test_a_kernel_that_does_not_tell_is_named(
    cuda: PlayedCuda, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = "userfaultfd is refused, by a filter"
    monkeypatch.setattr(_core, "why_no_page_tracking", lambda: why)
    for name, value in cuda.environment.items():
        monkeypatch.setenv(name, value)
    out = tmp_path / "out"
    result = call("port", "--out", out, "--json", "--", cuda.built(FIXTURES / "host_use.c", "-pthread"), "plain")
    assert result.returncode == 0, result.stderr
    (told,) = [text for text in msgspec.json.decode(result.stdout)["incomplete"] if why in text]
    assert_states(told, "the CPU", "host data", "not seen")
    (calls,) = read_calls(out)
    assert not any(isinstance(each, HostUse) for each in calls.calls)


def test_a_process_that_runs_already_is_not_watched() -> None:
    result = call("profile", "--host", "--pid", "1")
    assert (result.returncode, "--host and --pid were given" in result.stderr) == (2, True)
