"""Applications whose work several processes share, with each MPI that FIRSTTOUCH_TEST_MPI names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.calls import call
from tests.harness.running import run_tiny
from tests.mpi import Mpi
from tests.texts import assert_states

from firsttouch.apps.transport import Transport
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record


def run(mpi: Mpi, out: Path, *arguments: str) -> Sequence[Record]:
    chosen = ["--device", "opencl:0", "--strategy", "svm-fine", "--size", "tiny", "--repeat", "1"]
    done = subprocess.run(
        [*mpi.command, "app", *chosen, *arguments, "--out", str(out)],
        env=os.environ | mpi.environment | {"POCL_DEVICES": "pthread pthread"},
        text=True, capture_output=True, timeout=110,
    )  # fmt: skip
    if "'opencl:0' is not available" in done.stderr and not os.environ.get("CI"):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return load_results(out).records


WAYS = {(1, "none"), *((ranks, interface) for ranks in (2, 4) for interface in ("mpi", "mpi-staged"))}


def test_particles_at_census_are_the_same_bit_for_bit_however_many_processes_track_them(
    mpi: Mpi, tmp_path: Path
) -> None:
    sets = ["--ranks", "4", "--set", "ranks=1,2,4", "--set", "buffers=svm-fine", "--set", "steps=2"]
    rows = run(mpi, tmp_path / "out", "transport", *sets)
    assert {(r.count("ranks"), r.text("interface"), r.status, r.verified) for r in rows} == {
        (*way, "ok", True) for way in WAYS
    }
    assert len({(r.counters["census"], r.counters["census_digest"]) for r in rows}) == 1
    for row in rows:
        ranks = row.count("ranks")
        assert len(row.parties) == (ranks if ranks > 1 else 0)
        assert ("messages" in row.counters) == (ranks > 1)  # a block that is the whole box has no neighbour


def test_particles_are_the_same_if_the_cpu_packs_them_and_receives_are_posted(mpi: Mpi, tmp_path: Path) -> None:
    ways = ["packing=cpu", "send_buffers=allocated", "receives=sized,posted", "batches=2", "facets=24"]
    sets = ["ranks=1,2", "interface=mpi", "buffers=malloc", "steps=2", *ways]
    rows = run(mpi, tmp_path / "out", "transport", "--ranks", "2", *(word for way in sets for word in ("--set", way)))
    assert [(r.text("receives"), r.verified) for r in rows] == [("sized", True), ("posted", True)]
    alone = Transport({**Transport.sizes["tiny"], "steps": 2})
    assert run_tiny(Transport, instance=alone).error == ""
    assert {r.counters["census_digest"] for r in rows} == {alone.used["census_digest"]}
    assert all(r.counter("messages") > 2 * alone.steps for r in rows)


def test_gas_is_the_same_bit_for_bit_in_any_blocks_staged_from_device_memory_and_in_place(
    mpi: Mpi, tmp_path: Path
) -> None:
    sets = ["--ranks", "4", "--set", "ranks=1,2,4", "--set", "buffers=device,svm-fine", "--set", "nx=13"]
    rows = run(mpi, tmp_path / "out", "halo", *sets)
    found = {(r.count("ranks"), r.text("interface"), r.text("buffers")): r for r in rows}
    for (ranks, interface, buffers), row in found.items():
        if (interface, buffers) == ("mpi", "device"):
            assert (row.status, "in place" in row.reason) == ("skipped", True)
            continue
        assert (row.status, row.verified) == ("ok", True)
        assert row.counters["fields_digest"] == found[1, "none", buffers].counters["fields_digest"]
        assert {b.allocator for b in row.buffers if b.name in ("outgoing", "incoming")} == {buffers}
        assert [party.rank for party in row.parties] == ([*range(ranks)] if ranks > 1 else [])
        if ranks == 1:  # a block within four walls has no neighbour
            assert "messages" not in row.counters
            continue
        assert row.counter("messages") == (3 * 6 + 1) * ranks / 2  # to one neighbour, or two
        assert all(row.counter(name) > 0 for name in ("calls_ms", "exchange_ms"))
        assert 0 < row.counter("exchange_part") <= 1
        assert row.counter("message_median_bytes") <= row.counter("message_largest_bytes")
    assert {key[:2] for key in found} == WAYS


def stderr_of(*arguments: str, status: int) -> str:
    done = call("app", *arguments)
    assert done.returncode == status, done.stderr
    return done.stderr


def test_ranks_of_an_application_without_parts_are_refused(tmp_path: Path) -> None:
    words = stderr_of("hotspot", "--ranks", "2", "--out", str(tmp_path / "out"), status=2)
    assert_states(words, "--ranks", "several processes", "accepted with: halo, transport")


def test_an_interface_without_ranks_says_how_to_start_them(tmp_path: Path) -> None:
    words = stderr_of(
        "halo", "--set", "interface=mpi", "--device", "opencl:0", "--out", str(tmp_path / "out"), status=2
    )
    if "'opencl:0' is not available" in words:
        pytest.skip(words)
    assert "--ranks 2 starts two" in words


@pytest.mark.parametrize("wrong", ["interface=shmem", "buffers=nowhere"])
def test_unknown_words_are_refused_with_those_that_are_accepted(tmp_path: Path, wrong: str) -> None:
    words = stderr_of("halo", "--set", wrong, "--out", str(tmp_path / "out"), status=2)
    assert "accepted:" in words
    assert len(words.splitlines()) == 1
