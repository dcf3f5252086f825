"""`run --counters` on the stand-in for AMD's runtime, under a fake rocprofv3 that sees every launch of a kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from command import app, run
from tests.calls import call
from tests.texts import assert_states

from firsttouch.records.reading import load_results

FAKE = Path(__file__).parents[1] / "profile/fake_rocprofv3"


@pytest.fixture
def tool(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "rocprofv3").symlink_to(FAKE)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}"}


@pytest.mark.exhaustive
def test_a_stream_is_counted_over_one_launch(tmp_path: Path, tool: dict[str, str]) -> None:
    (record,) = run(tmp_path / "out", "bandwidth", "--counters", "--set", "agent=gpu", "--set", "allocator=device",
                    "--set", "kernel=triad", "--set", "arrays=sweep", "--set", "size=256KiB", **tool)  # fmt: skip
    assert (record.status, record.verified) == ("ok", True)
    assert_states(str(record.counters["hw_counters"]), "rocprofv3 (", "each group of counters")
    assert record.counters["hw_kernels"] == 1
    assert record.counters["hw_tlb_misses"] == 1000
    assert record.counters["hw_memory_read_bytes"] == 64 * 1000 - 32 * 1000 + 64 * 1000


@pytest.mark.exhaustive
def test_a_chase_is_counted_over_the_launch_that_is_timed(tmp_path: Path, tool: dict[str, str]) -> None:
    (record,) = run(tmp_path / "out", "tlb", "--counters", "--set", "agent=gpu", "--set", "allocator=device",
                    "--set", "method=chase", "--set", "stride=4KiB", "--set", "pages=16", **tool)  # fmt: skip
    assert (record.status, record.verified) == ("ok", True)
    assert record.counters["hw_kernels"] == 1
    assert record.counters["hw_loads"] >= 1000


@pytest.mark.exhaustive
def test_migration_is_counted_over_its_passes_and_not_with_events(tmp_path: Path, tool: dict[str, str]) -> None:
    (record,) = run(tmp_path / "out", "migration", "--counters", "--set", "allocator=managed", "--set", "size=2MiB",
                    "--set", "events=off", "--set", "iterations=3", "--set", "touch=dense", "--set", "prefetch=none",
                    "--set", "advice=none", "--set", "starts_on=cpu", "--set", "operation=update",
                    "--set", "order=parallel", **tool)  # fmt: skip
    assert (record.status, record.verified) == ("ok", True), record.reason
    assert record.counters["hw_kernels"] == 3


@pytest.mark.slow
def test_an_application_is_counted_by_iteration(tmp_path: Path, tool: dict[str, str]) -> None:
    words = ["--size", "tiny", "--repeat", "1", "--strategy", "explicit", "--device", "hip:0", "--counters", "--json"]
    done = call("app", "srad", *words, "--out", tmp_path / "out", **tool)
    (row,) = json.loads(done.stdout)["applications"]
    assert [line["hw_memory_read_bytes"] for line in row["by_iteration"]] == [96 * 1000 * n for n in (4, 3, 3, 3)]
    (record,) = load_results(tmp_path / "out").records
    assert (record.status, record.verified) == ("ok", True)
    assert len(record.samples) == 1
    assert record.counters["hw_kernels"] == 14  # three in each of four iterations, one more in the first, and one after
    by_iteration = [record.counters[f"hw_iteration_{i}_l2_bytes"] for i in range(4)]
    assert by_iteration == [128 * 1000 * n for n in (4, 3, 3, 3)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("producer_consumer", "--strategy", "managed"), "CPU and GPU would not work at once"),
        (("kmeans_concurrent", "--strategy", "managed", "--set", "gpu_share=best"), "a search runs the application"),
    ],
)
def test_an_application_that_is_not_counted_says_why(
    tmp_path: Path, tool: dict[str, str], words: tuple[str, ...], why: str
) -> None:
    records = app(tmp_path / "out", *words, "--size", "tiny", "--repeat", "1", "--counters", **tool)
    assert all(r.status == "ok" and why in str(r.counters["hw_counters"]) for r in records), records
