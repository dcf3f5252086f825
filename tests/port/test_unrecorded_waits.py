"""A program may wait in a way that is not recorded. What it then does with the bytes that were copied tells of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.port.traces import Calls

from firsttouch.advice.port.found import found
from firsttouch.advice.port.reading import findings_of, read_single, traced_run
from firsttouch.program.trace import trace

MIB = 1 << 20
JAX = Path(__file__).parents[2] / "docs/examples/profiles/h200-jax"


def rounds(
    *,
    apart: bool = False,
    kernel_seconds: float = 1e-4,
    copy_seconds: float | None = 1e-4,
    changed: bool = True,
    launched_again: bool = False,
    staged: int = 1,
) -> Calls:
    """Data go to the device from host memory to which the results of the round before went, without a call that waits.

    apart: they go there from other memory. launched_again: a kernel is launched after the results were asked for, and
    is still to run. staged: in how much such memory, in turn.
    """
    calls = Calls()
    into, result = calls.block(MIB, line=1), calls.block(MIB, line=2)
    arrays, other = [calls.host(MIB) for _ in range(staged)], calls.host(MIB)
    for n in range(6):
        host = arrays[n % staged]
        sample = n if changed else 7
        calls.copy(into, other if apart else host, MIB, blocking=False, host="pinned", stream=1, sample=sample, line=3)
        calls.launch(into, result, seconds=kernel_seconds, line=4)
        following = arrays[(n + 1) % staged]
        calls.copy(following, result, MIB, seconds=copy_seconds, blocking=False, host="pinned", stream=2, line=5)
        if launched_again:
            calls.launch(into, result, seconds=kernel_seconds, line=6)
    return calls


def concurrent(calls: Calls) -> list[tuple[str, int]]:
    findings = found(trace(calls.traced), {}).findings
    return [(finding.certainty, finding.count) for finding in findings if finding.kind == "concurrent"]


@pytest.mark.parametrize("staged", [1, 2, 3])
def test_who_prepares_data_where_results_arrived_has_waited_for_them(staged: int) -> None:
    assert concurrent(rounds(staged=staged)) == []


@pytest.mark.parametrize(
    "calls",
    [
        rounds(apart=True),
        rounds(kernel_seconds=0.02),
        rounds(copy_seconds=0.02),
        rounds(copy_seconds=None),
        rounds(launched_again=True),
    ],
    ids=[
        "from other memory",
        "sooner than the kernel",
        "sooner than the copy",
        "of unknown length",
        "of a later kernel",
    ],
)
def test_where_nothing_shows_that_it_waited_its_access_stays_concurrent(calls: Calls) -> None:
    assert concurrent(calls) == [("likely", 5)]


def test_results_that_go_on_to_another_block_unchanged_tell_of_no_wait() -> None:
    """A stream may copy them there in its order, as the CPU goes on and prepares data for a block that is in use."""
    calls = Calls()
    into, result, third = (calls.block(MIB, line=line) for line in (1, 2, 3))
    host, other = calls.host(MIB), calls.host(MIB)
    for n in range(3):
        calls.copy(into, other, MIB, blocking=False, host="pinned", stream=1, sample=n)
        calls.launch(into, result, seconds=1e-4)
        calls.copy(host, result, MIB, seconds=1e-4, blocking=False, host="pinned", stream=1)
        calls.copy(third, host, MIB, seconds=1e-4, blocking=False, host="pinned", stream=1, sample=0)
    assert concurrent(calls) == [("likely", 2)]


def test_the_recorded_program_of_jax_has_no_concurrent_access() -> None:
    profile = read_single(JAX)
    assert not findings_of(profile, traced_run(profile)).counted
