from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny, skip_reason

from firsttouch.apps.heartwall import Heartwall
from firsttouch.apps.support.film import MAX_DISPLACEMENT, MAX_STEP
from firsttouch.harness.app import Gpu, solve
from firsttouch.program.ledger import Ledger


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
        ("0.13f", "0.13013f"),
        ("product += expected * value", "product += 1.001f * expected * value"),
        ("square += value * value", "square += value * expected"),
        ("x < (part + 1) * SIDE / PARTS", "x < (part + 1) * SIDE / PARTS - (part == 4)"),
        ("peaks[number * count + GROUP_ID] = score[best]", "if (GROUP_ID != 3) peaks[number * count + GROUP_ID] = 0"),
        ("(x + shift / SEARCH) * REACH", "(x + shift % SEARCH) * REACH"),
        ("frame[(ulong)col * rows + (ulong)row]", "frame[(ulong)(col == 60 ? 61 : col) * rows + (ulong)row]"),
        ("templates[i] = frame[col * rows + row];", "templates[i] = frame[col * rows + row + (at == 900)];"),
        ("if (at == 0) peaks[point] = 1.0f", "if (at == 0) peaks[point] = 0.999f"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(Heartwall, before, after)


def test_film_moves_within_the_search_region() -> None:
    path = Heartwall({**Heartwall.sizes["tiny"], "iterations": 500}).film.path
    assert np.abs(path).max() == MAX_DISPLACEMENT
    assert np.abs(np.diff(path, axis=0)).max() == MAX_STEP
    assert not path[0].any()


@pytest.mark.parametrize("changed", [{"iterations": 1}, {"points": 1}, {"rows": 97, "cols": 97}, {"iterations": 45}])
def test_other_films(changed: dict[str, int]) -> None:
    assert run_tiny(Heartwall, params=changed).error == ""


@pytest.mark.parametrize("strategy", ["explicit", "svm-fine", "svm-coarse"])
def test_next_frame_is_generated_while_the_gpu_searches(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []

    def recorded(of: type, name: str) -> None:
        original = getattr(of, name)

        def call(*given: Any, **named: Any) -> Any:
            result = original(*given, **named)
            happened.append(name)
            return result

        monkeypatch.setattr(of, name, call)

    for of, name in ((Heartwall, "generate_frame"), (Gpu, "launch"), (Ledger, "_wait")):
        recorded(of, name)
    if skip_reason(Heartwall, strategy):
        pytest.skip(f"no {strategy} here")
    assert run_tiny(Heartwall, strategy).error == ""
    after = [happened[i + 1] for i, name in enumerate(happened) if name == "launch"]
    assert after.count("generate_frame") == Heartwall.sizes["tiny"]["iterations"] - 1


def test_with_copies_there_is_one_frame_on_each_side_and_elsewhere_two() -> None:
    params = Heartwall.sizes["tiny"]
    for strategy, expected in (("explicit", ["device", "malloc"]), ("svm-fine", ["svm-fine"] * 2)):
        run = run_tiny(Heartwall, strategy)
        frames = [(allocator, nbytes) for name, allocator, nbytes in run.buffers if name in ("frame", "next")]
        assert sorted(frames) == [(allocator, 4 * params["rows"] * params["cols"]) for allocator in expected]
        assert run.transferred["gpu"] >= params["iterations"] * 4 * params["rows"] * params["cols"]


def test_frames_smaller_than_a_window_are_rejected() -> None:
    assert "cols must be above 96" in Heartwall.problem({**Heartwall.sizes["tiny"], "cols": 96})


def test_size_in_bytes() -> None:
    assert 0.999 * 2**32 < Heartwall.footprint(solve(Heartwall, 2**32)) <= 2**32
