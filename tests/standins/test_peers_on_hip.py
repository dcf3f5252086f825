"""An experiment with two devices on the HIP stand-in, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record

MODULE = Path(__file__).parents[2] / "docs/examples/neighbour.py"


def copies(out: Path, *words: str, **settings: str) -> list[Record]:
    call = [sys.executable, "-m", "firsttouch.cli.main", "run", "neighbour", "--module", str(MODULE), "--out", str(out)]
    done = subprocess.run(
        [*call, "--set", "size=64KiB", "--set", "direction=to", *words],
        env=os.environ | {"STANDIN_DEVICES": "3"} | settings, text=True, capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return list(load_results(out).records)


@pytest.mark.exhaustive
def test_every_device_copies_to_every_other(tmp_path: Path) -> None:
    names = [f"hip:{n}" for n in range(3)]
    chosen = [word for name in names for word in ("--device", name)]
    found = copies(tmp_path / "out", *chosen)
    pairs = [(r.device, r.text("peer").replace("self", r.device)) for r in found]
    assert sorted(pairs) == sorted((a, b) for a in names for b in names)
    assert {(r.status, r.verified) for r in found} == {("ok", True)}
    assert all([p.device for p in r.parties] == [r.device, r.factors["peer"]] for r in found if r.parties)


def test_a_peer_out_of_reach_is_skipped_in_the_drivers_words(tmp_path: Path) -> None:
    found = copies(tmp_path / "out", "--device", "hip:0", "--set", "peer=hip:1,hip:2", STANDIN_UNREACHABLE="0>1")
    assert [(r.factors["peer"], r.status, r.reason) for r in found] == [
        ("hip:1", "skipped", "hipDeviceCanAccessPeer: hip:0 has no peer access to hip:1"),
        ("hip:2", "ok", ""),
    ]


def test_access_that_the_driver_refuses_when_it_is_opened_is_skipped_too(tmp_path: Path) -> None:
    (one,) = copies(tmp_path / "out", "--device", "hip:0", "--set", "peer=hip:1",
                    STANDIN_FAIL="hipDeviceEnablePeerAccess=801")  # fmt: skip
    assert one.status == "skipped"
    assert one.reason.startswith("hip:0 cannot reach hip:1: ")
    assert "operation not supported" in one.reason
