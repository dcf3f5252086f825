from __future__ import annotations

import pytest
from tests.harness.running import assert_detected, opencl, run_tiny

from firsttouch.apps.pointer_tree import PointerTree
from firsttouch.base.errors import Unsupported
from firsttouch.program.strategies import STRATEGIES


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if (here <= sought) value", "if (here < sought) value"),
        ("depth < 64", "depth < 9"),
        ("value = node[3]", "value = node[3] + (i == 1234)"),
        ("value = node[3]", "value = node[2]"),
        ("sums[i] += value", "sums[i] = value"),
        ("sums[i] += value", "if (i % 1024 < 960) sums[i] += value"),
        ("sums[i] += value", "if (i != 77) sums[i] += value"),
        ("first + i) % n", "first + i + 1) % n"),
        ("node[here < sought]", "node[here + 1 < sought]"),
        ("if (here == sought) break", "if (here >= sought) break"),
        ("first + i) % n", "first + i) % (n - 1)"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(PointerTree, before, after)


@pytest.mark.parametrize("n", [1, 2, 3, 64, 65, 1000])
def test_any_number_of_nodes(n: int) -> None:
    assert run_tiny(PointerTree, params={"n": n, "searches": 4 * n}).error == ""


def test_pointers_need_the_same_addresses_on_both_agents() -> None:
    with pytest.raises(Unsupported, match="different addresses"):
        run_tiny(PointerTree, "buffer")
    assert "original" in (PointerTree.refuses(STRATEGIES["explicit"], opencl()[0]) or "")
