from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import assert_caught, run_tiny, why_not

from firsttouch.apps.heartwall import STEP, SWING, Heartwall
from firsttouch.harness.app import Cpu, solve


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("(part + 1) * SIDE / PARTS", "(part + 1) * (SIDE - 1) / PARTS"),
        ("0.87f", "0.86f"),
        ("number % 10", "number % 9"),
        ("10 * count + GROUP_ID", "10 * count + (GROUP_ID + 1) % count"),
        ("(AREA - 1) * spread", "AREA * spread"),
        ("last[0] - 5", "last[0] - 4"),
        ("product - sum * total / AREA", "product"),
        ("mine[i] = 0.87f", "if (i > 0) mine[i] = 0.87f"),
    ],
)
def test_a_wrong_kernel_is_caught(before: str, after: str) -> None:
    assert_caught(Heartwall, before, after)


def test_the_film_moves_within_what_is_searched() -> None:
    path = Heartwall({**Heartwall.sizes["tiny"], "iterations": 500}).path
    assert np.abs(path).max() == SWING
    assert np.abs(np.diff(path, axis=0)).max() == STEP
    assert not path[0].any()


@pytest.mark.parametrize("changed", [{"iterations": 1}, {"points": 1}, {"rows": 97, "cols": 97}, {"iterations": 45}])
def test_other_films(changed: dict[str, int]) -> None:
    assert run_tiny(Heartwall, params=changed).error == ""


@pytest.mark.parametrize("strategy", ["explicit", "svm-fine", "svm-coarse"])
def test_a_frame_is_delivered_while_the_one_before_it_is_searched(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched, film = [], Heartwall.film

    def delivered(self: Heartwall, cpu: Cpu, number: int) -> None:
        film(self, cpu, number)
        searched.append(bool(self.frame.store.busy_read or self.frame.store.busy_written))

    monkeypatch.setattr(Heartwall, "film", delivered)
    if why_not(Heartwall, strategy):
        pytest.skip(f"no {strategy} here")
    assert run_tiny(Heartwall, strategy).error == ""
    assert searched == [False] + [True] * (Heartwall.sizes["tiny"]["iterations"] - 1)


def test_a_frame_that_holds_no_window() -> None:
    assert "cols must be above 96" in Heartwall.problem({**Heartwall.sizes["tiny"], "cols": 96})


def test_a_size_in_bytes_is_met() -> None:
    assert 0.999 * 2**32 < Heartwall.footprint(solve(Heartwall, 2**32)) <= 2**32
