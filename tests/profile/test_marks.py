"""Launches that a profiler lists are divided by marks into iterations."""

from __future__ import annotations

import pytest

from firsttouch.profile.counters.marks import ITERATION_MARK, PHASE_MARK, counters
from firsttouch.profile.counters.tool import KernelCounts, RefusedError

FORMS = {"hw_l2_bytes": {"sectors": 32.0}, "hw_device_read_bytes": {"dram": 1.0}}
NAMES = {"P": f"{PHASE_MARK}(int)", "I": f"{ITERATION_MARK}.kd"}


def listed(text: str) -> list[KernelCounts]:
    """P and I are marks; any other letter is a kernel, which counts its place in the text."""
    return [
        KernelCounts(NAMES.get(letter, letter), {"sectors": place, "dram": 1000}, 0.5)
        for place, letter in enumerate(text)
    ]


@pytest.mark.parametrize(
    ("text", "groups", "iterations", "sums"),
    [
        ("aPbIcdIeIfP", 2, 2, [(2, 4 + 5), (1, 7)]),
        ("PIaIbIP", 2, 2, [(1, 2), (1, 4)]),
        ("PIaIbIcIdIeIP", 2, 2, [(1, 8), (1, 10)]),  # of two loops, the last
        ("PIaIIP", 2, 2, [(1, 2), (0, 0)]),  # an iteration without a kernel
        ("PIaaaIaP", 1, 1, [(3, 2 + 3 + 4)]),
        ("PabcP", 0, 0, []),
    ],
)
def test_each_launch_is_in_the_iteration_between_whose_marks_it_is(
    text: str, groups: int, iterations: int, sums: list[tuple[int, int]]
) -> None:
    values = counters(FORMS, listed(text), groups, iterations)
    for i, (kernels, sectors) in enumerate(sums):
        assert values[f"hw_iteration_{i}_l2_bytes"] == 32 * sectors
        assert values[f"hw_iteration_{i}_device_read_bytes"] == 1000 * kernels
        assert values[f"hw_iteration_{i}_kernel_ms"] == 0.5 * kernels
    assert f"hw_iteration_{len(sums)}_l2_bytes" not in values
    inside = text.partition("P")[2].rpartition("P")[0]
    assert values["hw_kernels"] == sum(letter not in NAMES for letter in inside)


def test_of_iterations_that_are_marked_together_it_is_the_mean() -> None:
    values = counters(FORMS, listed("PIaaIaaIaIP"), 3, 5)
    assert [values[f"hw_iteration_{i}_device_read_bytes"] for i in range(3)] == [1000, 1000, 1000]


@pytest.mark.parametrize(("text", "groups"), [("abc", 1), ("PIaIb", 1), ("PaP", 1), ("PIaIP", 2), ("PIaIPP", 1)])
def test_marks_that_are_missing_are_a_reason(text: str, groups: int) -> None:
    with pytest.raises(RefusedError, match="marks"):
        counters(FORMS, listed(text), groups, groups)
