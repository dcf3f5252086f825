"""Which parameters of a kernel each thread group updates once by an atomic operation."""

from __future__ import annotations

import pytest

from firsttouch.program.execution.group_atomics import group_atomics

TEXT = """
#define COUNT(what) ATOMIC_ADD_U64_DEVICE(control + (what), 1ul)
#define ADD_UP(place, v) \\
    GROUP_SUM(part, v, 64) \\
    if (LOCAL_ID == 0) ATOMIC_ADD_F64_DEVICE((place) + 1, part[0]);
#define ADD_BOTH(found, v) \\
    if (LOCAL_ID == 0) { \\
        ATOMIC_ADD_U64_DEVICE((found), (v)[0]); \\
        ATOMIC_ADD_U64_DEVICE((found) + 1, 2); \\
    }

HELPER void add(GLOBAL double* sum, double mine, uint n) { ATOMIC_ADD_F64_DEVICE(&sum[n], mine); }
HELPER void add_first(GLOBAL double* sum, double mine) { if (LOCAL_ID == 0) { add(sum, mine, 0); } }

KERNEL by_each(GLOBAL uint* seen, GLOBAL const uint* given, uint n) {
    FOR_EACH(i, n) if (given[i]) ATOMIC_OR_U32_DEVICE(seen + i / 32, 1u);
}
GROUP_KERNEL first(GLOBAL ulong* seen, GLOBAL ulong* p) {
    if (LOCAL_ID == 0) ATOMIC_ADD_U64_DEVICE(seen, 1ul);
    ATOMIC_ADD_U64_DEVICE(p, 1ul);
}
GROUP_KERNEL by_macro(GLOBAL double* sums, GLOBAL const double* p) { ADD_UP(sums + 1, p[0]) }
GROUP_KERNEL by_block(GLOBAL ulong* found, GLOBAL ulong* p) { ADD_BOTH(found, p) }
GROUP_KERNEL by_helper(GLOBAL double* sums, GLOBAL const double* p, ulong n) { add_first(sums + 1, p[min(n, 2ul)]); }
GROUP_KERNEL calls_first(GLOBAL double* sums, GLOBAL double* p) { if (LOCAL_ID == 0) add(sums, 1, 0); add(p, 1, 0); }
GROUP_KERNEL free_name(GLOBAL ulong* control, GLOBAL ulong* p) { if (LOCAL_ID == 0) { p[0] = 1; COUNT(2); } }
KERNEL plain(GLOBAL ulong* p, GLOBAL ulong* control) { p[0] = control[0]; }
"""


@pytest.mark.parametrize(
    ("kernel", "parameters"),
    [
        ("by_each", set[str]()),
        ("first", {"seen"}),
        ("by_macro", {"sums"}),
        ("by_block", {"found"}),
        ("by_helper", {"sums"}),
        ("calls_first", {"sums"}),
        ("free_name", {"control"}),
        ("plain", set[str]()),
    ],
)
def test_parameters_that_each_group_updates(kernel: str, parameters: set[str]) -> None:
    assert group_atomics(TEXT)[kernel] & {"seen", "given", "sums", "p", "control", "found"} == parameters
