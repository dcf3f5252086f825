"""evidence/benchmarks/visit.py: what other tools print is read, and no step that fails loses the table."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

MIB = 1 << 20
NCCL_TESTS = """
# nThread 1 nGpus 2 minBytes 1024 maxBytes 32768 step: 32(factor) warmup iters: 5 iters: 50 agg iters: 1 validation: 0
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1     9.51    0.11    0.11    N/A     9.44    0.11    0.11    N/A
       32768          8192     float     sum      -1    12.25    2.67    2.67    N/A    12.31    2.66    2.66    N/A
# Avg bus bandwidth    : 1.39
"""


@pytest.fixture
def visit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import visit as module

    return module


def nvbandwidth(words: list[str]) -> str:
    """Two GPUs. A test of both ways has three matrices in one: each way, and the sum."""
    tests = words[words.index("-t") + 1 :]
    one = [["N/A", "390.5"], ["391.5", "N/A"]]
    two = [*one, *one, [["N/A", "781"], ["783", "N/A"]]]
    cases = [{"name": t, "bandwidth_matrix": sum(two[2:], one * 2) if "bidirectional" in t else one} for t in tests]
    return json.dumps({"nvbandwidth": {"testcases": cases}})


def record(device: str, peer: str, direction: str, median: float) -> dict[str, Any]:
    factors = {"engine": "copy-engine", "direction": direction, "peer": peer, "size": MIB}
    return {"device": device, "factors": factors, "status": "ok", "reason": "", "verified": True,
            "summary": {"median": median}}  # fmt: skip


def prepared(visit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    """A visit to two GPUs whose programs print what these tools print."""
    of = visit.Visit(visit.options(["--out", str(tmp_path), "--largest", str(MIB), *words]))
    of.names = ["cuda:0", "cuda:1"]

    def call(words: list[object], limit: float, accepted: tuple[int, ...] = (0,)) -> str:
        text = [str(w) for w in words]
        if text[0].endswith("nvbandwidth"):
            return nvbandwidth(text)
        return "0 1 1048576 380\n1 0 1048576 381\n" if text[0].endswith("reference_peer") else ""

    monkeypatch.setattr(of, "call", call)
    return of


def test_copies_are_compared_way_by_way_and_own_pairs_and_other_sizes_are_left_out(
    visit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = prepared(visit, tmp_path, monkeypatch, "--nvbandwidth", "nvbandwidth")
    records = [record("cuda:0", "cuda:1", "out", 389), record("cuda:1", "cuda:0", "both", 391.5),
               record("cuda:0", "self", "out", 2000)]  # fmt: skip
    records.append({**record("cuda:0", "cuda:1", "out", 1), "factors": {**records[0]["factors"], "size": 3 * MIB}})
    monkeypatch.setattr(of, "of_pairs", lambda *words, limit: records)
    of.step("copies, round 0", 60, lambda limit: of.compare_copies(0, limit))
    assert not of.failed
    assert of.compared == {("copy-engine out cuda:0 cuda:1", MIB, "copy"): [(389, 390.5)],
                           ("copy-engine both cuda:1 cuda:0", MIB, "copy"): [(391.5, 783)]}  # fmt: skip
    table = of.table()
    assert "0.996" in table
    assert "0.500  0.000  >= 0.98 MISSED" in table


def test_times_of_nccl_tests_are_read_by_the_bytes_that_were_asked_for(visit: ModuleType) -> None:
    found = visit.peers.nccl_tests(lambda words: NCCL_TESTS, Path("build"), "all-reduce", [1 << 10, 32 << 10], 2)
    assert found == {1 << 10: 9.51, 32 << 10: 12.25}


def test_what_fails_is_named_and_the_table_still_has_the_rest(
    visit: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    of = prepared(visit, tmp_path, monkeypatch)
    of.note("all-reduce, processes=each", 1024, 9.4, 9.5)
    of.note("all-reduce, processes=each", 1 << 30, 4000, 3900)

    def ended(limit: float) -> None:
        raise subprocess.CalledProcessError(2, ["firsttouch"], stderr="firsttouch: no such device")

    of.step("pairs", 60, ended)
    of.step("messages", 60, lambda limit: {}["cuda:7"])
    printed, table = capsys.readouterr().out, of.table()
    assert "pairs: FAILED" in printed
    assert "no such device" in printed
    assert "KeyError: 'cuda:7'" in printed
    assert "<= 1.05 met" in table
    assert ">= 0.98 MISSED" in table
    assert "failed steps: pairs, messages" in table
