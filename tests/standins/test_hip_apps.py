"""Applications on the HIP device of the stand-in: every strategy that the device states, right or refused in words.

What ran here is the workspace and the HIP device's own code. Nothing is said of AMD's runtime or hardware.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command import app
from tests.matrix import matrix

from firsttouch.workspace.strategies import STRATEGIES

EVERYWHERE = {
    *("explicit", "managed", "managed+advise", "managed+prefetch", "managed+both", "pinned", "registered"),
}
NEEDS = {"system": "XNACK", "system+prefault": "XNACK", "unified": "cannot use device memory in place"}
XNACK = {"HSA_XNACK": "1"}
APU = {"STANDIN_INTEGRATED": "1", "STANDIN_ARCH": "gfx942:sramecc+"}


@pytest.mark.parametrize(
    ("name", "settings", "more"),
    matrix(
        [
            ("black_scholes", APU | XNACK, {"system", "system+prefault", "unified"}),
            ("hotspot", {}, set()),
            ("black_scholes", {}, set()),
            ("bfs", {}, set()),
            ("nw", {}, set()),
            ("black_scholes", XNACK, {"system", "system+prefault"}),
            ("bfs", XNACK, {"system", "system+prefault"}),
            ("nw", APU, {"unified"}),
        ]
    ),
)
def test_every_strategy_is_right_or_says_what_it_lacks(
    name: str, settings: dict[str, str], more: set[str], tmp_path: Path
) -> None:
    records = app(tmp_path / "out", name, "--size", "tiny", "--repeat", "1", **settings)
    assert {r.factors["strategy"] for r in records} == EVERYWHERE | set(NEEDS)
    for record in records:
        strategy = str(record.factors["strategy"])
        if strategy in EVERYWHERE | more:
            assert (record.status, record.reason, record.verified) == ("ok", "", True), strategy
            used = {b.allocator for b in record.buffers}
            own = {STRATEGIES[strategy].allocator}
            assert own <= used <= own | {"malloc", "device"}, strategy  # the two hold scratch and host arrays
        else:
            assert record.status == "skipped", strategy
            assert NEEDS[strategy] in record.reason


@pytest.mark.exhaustive
def test_only_explicit_copies_and_only_once(tmp_path: Path) -> None:
    words = ("--strategy", "explicit", "--strategy", "pinned", "--size", "tiny", "--repeat", "2")
    for record in app(tmp_path / "out", "black_scholes", *words):
        copies = sum(b.allocator == "device" for b in record.buffers)
        assert (record.factors["strategy"], copies) in {("explicit", 5), ("pinned", 0)}
        assert record.counters["copied_h2d_bytes"] == record.counters["footprint_bytes"] * 3 // 5  # type: ignore[operator]


@pytest.mark.exhaustive
def test_a_call_that_fails_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    words = [w for s in ("managed", "managed+prefetch", "pinned") for w in ("--strategy", s)]
    records = app(
        *(tmp_path / "out", "black_scholes", "--size", "tiny", "--repeat", "1", *words),
        status=1,
        STANDIN_FAIL="hipMemPrefetchAsync=801",
    )
    ends = {r.factors["strategy"]: (r.status, r.reason) for r in records}
    assert ends["managed"] == ends["pinned"] == ("ok", "")
    assert ends["managed+prefetch"][0] == "failed"
    assert "hipMemPrefetchAsync: operation not supported (hipErrorNotSupported)" in ends["managed+prefetch"][1]


@pytest.mark.exhaustive
def test_more_than_the_device_has_is_refused_before_anything_is_taken(tmp_path: Path) -> None:
    words = [w for s in ("explicit", "managed", "pinned") for w in ("--strategy", s)]
    records = app(
        tmp_path / "out", "black_scholes", "--size", "64MiB", "--repeat", "1", *words, STANDIN_MEMORY=str(2**25)
    )
    ends = {r.factors["strategy"]: (r.status, r.reason) for r in records}
    assert ends["pinned"] == ("ok", "")
    assert ends["explicit"][0] == ends["managed"][0] == "skipped"
    assert ends["managed"][1].endswith("which has 32 MiB; use --allow-oversubscription to run it anyway")
    assert ends["explicit"][1].endswith("of hip:0, which has 32 MiB")


def test_xnack_as_a_factor_lets_the_gpu_reach_plain_memory(tmp_path: Path) -> None:
    words = [w for s in ("explicit", "system") for w in ("--strategy", s)]
    words += ["--size", "tiny", "--repeat", "1", "--set", "xnack=0,1"]
    found = app(tmp_path / "out", "black_scholes", *words)
    ends = {(r.factors["strategy"], r.factors["xnack"]): (r.status, r.verified) for r in found}
    assert ends.pop(("system", "0")) == ("skipped", None)
    assert ends == dict.fromkeys((("explicit", "0"), ("explicit", "1"), ("system", "1")), ("ok", True))
