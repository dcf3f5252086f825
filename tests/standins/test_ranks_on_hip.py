"""Messages between ranks with devices of the HIP stand-in, by an MPI behind a library that may change a byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import standin
from tests import rank_ends
from tests.calls import UNDRAWN, call
from tests.mpi import Mpi
from tests.rank_ends import Misbehaving
from tests.texts import assert_states

from firsttouch.experiments.collective import OPERATIONS
from firsttouch.experiments.p2p_message import P2pMessage
from firsttouch.machine.mpi import LIBRARY
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record
from firsttouch.records.statistics import group_by

EXHAUSTIVE = bool(os.environ.get("FIRSTTOUCH_EXHAUSTIVE"))
REAL = {"openmpi": "libmpi.so.40", "mpich": "libmpi.so.12"}


@pytest.fixture
def in_front(mpi: Mpi) -> dict[str, str]:
    """The variables that put the stand-in in front of the MPI."""
    real = Path(mpi.command[0]).parents[1] / "lib" / REAL[mpi.name]
    return {LIBRARY: str(standin.build("mpi_in_front")), "STANDIN_MPI": str(real)}


def run(mpi: Mpi, out: Path, *arguments: str, status: int = 0, **more: str) -> Sequence[Record]:
    settings = {"STANDIN_DEVICES": "2", "STANDIN_INTEGRATED": "1", "STANDIN_ARCH": "gfx942"}
    chosen = [*mpi.command, "run", "p2p-message", "--ranks", "2", "--device", "hip:0", "--device", "hip:1"]
    arguments = ("--set", "interface=mpi,mpi-staged", *arguments)
    sides = [word for side in ("source", "target") for word in ("--set", f"{side}=device")]
    done = subprocess.run(
        [*chosen, "--set", "peer=hip:1", *sides, *arguments, "--out", str(out)],
        env=os.environ | mpi.environment | settings | more, text=True, capture_output=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == status, done.stderr
    return [r for r in load_results(out).records if r.device == "hip:0"]


def test_memory_of_apus_is_sent_as_it_is_and_staged(mpi: Mpi, tmp_path: Path) -> None:
    rows = run(mpi, tmp_path / "out", "--set", "size=8,64KiB")
    assert {(r.text("interface"), r.count("size"), r.status, r.verified) for r in rows} == {
        (interface, size, "ok", True) for interface in ("mpi", "mpi-staged") for size in (8, 2**16)
    }
    assert {tuple(party.device for party in r.parties) for r in rows} == {("hip:0", "hip:1")}
    asked = [r for r in rows if r.text("interface") == "mpi"]
    assert {r.counters["mpi_takes_device_memory"] for r in asked} == {"no"}
    assert {r.counters["mpi_environment"] for r in asked} == {"MPICH_GPU_SUPPORT_ENABLED=1"}
    assert not any("mpi_environment" in r.counters for r in rows if r not in asked)


def test_an_mpi_that_takes_memory_of_apus_is_recorded_as_such(
    mpi: Mpi, tmp_path: Path, in_front: dict[str, str]
) -> None:
    rows = run(mpi, tmp_path / "out", "--set", "size=8", MPICH_GPU_SUPPORT_ENABLED="0", **in_front)
    (asked,) = (r for r in rows if r.text("interface") == "mpi")
    assert asked.counters["mpi_takes_device_memory"] == "yes"
    assert asked.counters["mpi_environment"] == "MPICH_GPU_SUPPORT_ENABLED=0"


def test_a_route_needs_an_mpi_that_takes_device_memory(mpi: Mpi, tmp_path: Path, in_front: dict[str, str]) -> None:
    chosen = ("--set", "size=64KiB", "--set", "route=default,direct,staged")
    rows = {r.text("route"): r for r in run(mpi, tmp_path / "real", *chosen)}
    assert rows["default"].status == "ok"
    for route in ("direct", "staged"):
        assert rows[route].status == "skipped"
        assert_states(rows[route].reason, "this MPI", "ROCm memory (")
    rows = {r.text("route"): r for r in run(mpi, tmp_path / "in-front", *chosen, **in_front)}
    assert {(r.status, r.verified) for r in rows.values()} == {("ok", True)}


@pytest.fixture
def rccl() -> dict[str, str]:
    return {"FIRSTTOUCH_LIB_RCCL": str(standin.build("rccl_on_host"))}


def collectives(out: Path, *arguments: str, mpi: Mpi | None = None, status: int = 0, **more: str) -> Sequence[Record]:
    """Records of collective operations of devices of the stand-in, in device memory."""
    words = ["run", "collective", "--device", "hip:0", "--set", "allocator=device", *arguments, "--out", str(out)]
    if mpi is None:
        done = call(*words, **more)
    else:
        environment = os.environ | mpi.environment | more
        done = subprocess.run([*mpi.command, *words], env=environment, text=True, capture_output=True, timeout=100)
    assert done.returncode == status, done.stderr
    return load_results(out).records


EACH, ONE = ("1,2,3,4", "2,3,4") if EXHAUSTIVE else ("1,4", "3")  # tests below have two
"""The numbers of devices that have a process each, and that have one process."""


@pytest.mark.slow
def test_rccl_carries_out_every_operation_of_up_to_four_devices(tmp_path: Path, rccl: dict[str, str]) -> None:
    rows = collectives(tmp_path / "out", "--ranks", "4", "--set", f"ranks={EACH}", "--set", "interface=xccl",
                       "--set", "size=4,70000", STANDIN_DEVICES="4", **rccl)  # fmt: skip
    names = [f"hip:{n}" for n in range(4)]
    assert {(r.text("operation"), r.count("size"), len(r.parties), r.status, r.verified) for r in rows} == {
        (operation, size, ranks, "ok", True)
        for operation in OPERATIONS for size in (4, 70000) for ranks in map(int, EACH.split(","))
    }  # fmt: skip
    for row in rows:
        assert row.counter("back_to_back") >= 20
        assert [party.device for party in row.parties] == names[: row.count("ranks")]
        assert ("bus_gbs" in row.counters) == (row.count("ranks") > 1)


@pytest.mark.slow
def test_one_process_carries_out_every_operation_of_up_to_four_devices(tmp_path: Path, rccl: dict[str, str]) -> None:
    rows = collectives(tmp_path / "out", "--ranks", "4", "--set", f"ranks={ONE}", "--set", "processes=one",
                       "--set", "size=4,70000", STANDIN_DEVICES="4", **rccl)  # fmt: skip
    names = [f"hip:{n}" for n in range(4)]
    assert {(r.text("operation"), r.text("interface"), r.count("size"), len(r.parties), r.status, r.verified)
            for r in rows} == {
        (operation, "xccl", size, ranks, "ok", True)
        for operation in OPERATIONS for size in (4, 70000) for ranks in map(int, ONE.split(","))
    }  # fmt: skip
    found = {(r.text("operation"), r.count("ranks"), r.count("size")): r for r in rows}
    for (_, ranks, _), row in found.items():
        assert [party.device for party in row.parties] == names[:ranks]
        assert {party.rank for party in row.parties} == {0}
        assert [b.name for b in row.buffers] == [f"{s} of {n}" for n in names[:ranks] for s in ("source", "target")]
        assert row.counter("bus_gbs") == pytest.approx(
            row.counter("bytes") / row.counter("interval_us") / 1e3 * OPERATIONS[row.text("operation")].bus(ranks)
        )
        assert "mean_us" not in row.counters
    assert found["all-gather", 3, 70000].counters["bytes"] == 69996
    assert found["all-gather", 3, 70000].counters["block_bytes"] == 23332


@pytest.mark.slow
def test_an_rccl_without_an_all_to_all_of_its_own(tmp_path: Path) -> None:
    library = str(standin.build("rccl_on_host", without="ncclAllToAll"))
    rows = collectives(tmp_path / "out", "--ranks", "3", "--set", "ranks=3", "--set", "processes=each,one",
                       "--set", "operation=all-to-all", "--set", "size=70000", "--set", "interface=xccl",
                       STANDIN_DEVICES="3", FIRSTTOUCH_LIB_RCCL=library)  # fmt: skip
    assert {(r.text("processes"), r.status, r.verified) for r in rows} == {("each", "ok", True), ("one", "ok", True)}


RECEIVERS = {0: {*OPERATIONS} - {"broadcast"}, 1: {*OPERATIONS} - {"reduce"}}
"""By rank, the operations in which it receives anything. The root is rank 0."""


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.slow
def test_a_number_that_rccl_changes_is_found_in_every_operation(
    tmp_path: Path, rccl: dict[str, str], rank: int
) -> None:
    rows = collectives(tmp_path / "out", "--ranks", "2", "--set", "interface=xccl", "--set", "size=8,64KiB",
                       status=3, STANDIN_DEVICES="2", STANDIN_RCCL_FLIP=str(rank), **rccl)  # fmt: skip
    wrong_is_found(rows, rank)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_number_that_rccl_changes_at_a_device_of_one_process_is_found(
    tmp_path: Path, rccl: dict[str, str], rank: int
) -> None:
    rows = collectives(tmp_path / "out", "--ranks", "2", "--set", "processes=one", "--set", "size=8,64KiB",
                       status=3, STANDIN_DEVICES="2", STANDIN_RCCL_FLIP=str(rank), **rccl)  # fmt: skip
    wrong_is_found(rows, rank, f"rank {rank} (hip:{rank}) received wrong data")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_number_that_mpi_changes_is_found_in_every_operation(
    mpi: Mpi, tmp_path: Path, in_front: dict[str, str], rank: int
) -> None:
    apus = {"STANDIN_DEVICES": "2", "STANDIN_INTEGRATED": "1", "STANDIN_ARCH": "gfx942"}
    rows = collectives(tmp_path / "out", "--ranks", "2", "--set", "interface=mpi,mpi-staged", "--set", "size=8,64KiB",
                       mpi=mpi, status=3, STANDIN_MPI_FLIP=str(rank), **apus, **in_front)  # fmt: skip
    assert {r.text("interface") for r in rows} == {"mpi", "mpi-staged"}
    wrong_is_found(rows, rank)


def wrong_is_found(rows: Sequence[Record], rank: int, why: str = "") -> None:
    for row in rows:
        assert row.verified is (row.text("operation") not in RECEIVERS[rank])
        if not row.verified:
            assert row.verified_why.startswith(why or f"rank {rank} (hip:{rank} at ")
    assert {(r.text("operation"), r.count("size")) for r in rows} == {(o, s) for o in OPERATIONS for s in (8, 2**16)}


def run_rccl(
    out: Path, *arguments: str, devices: Sequence[str] = ("hip:0", "hip:1"), status: int = 0, **more: str
) -> Sequence[Record]:
    named = [word for device in devices for word in ("--device", device)]
    chosen = ["run", "p2p-message", *named, "--set", "interface=xccl", *arguments]
    memory = ["--set", "source=device,pinned", "--set", "target=device,pinned"]
    done = call(*chosen, *memory, "--out", out, STANDIN_DEVICES="2", **more)
    assert done.returncode == status, done.stderr
    return load_results(out).records


@pytest.mark.slow
def test_rccl_between_devices_and_of_a_rank_to_itself(tmp_path: Path, rccl: dict[str, str]) -> None:
    """Without MPI: these ranks need no launcher, and two GPUs need no option."""
    rows = run_rccl(tmp_path / "out", "--set", "size=1,70001", **rccl)
    assert {(r.status, r.verified) for r in rows} == {("ok", True)}
    names = ("hip:0", "hip:1")
    assert {(r.device, r.text("peer"), r.text("source"), r.text("target"), r.count("size")) for r in rows} == {
        (a, "self" if a == b else b, source, target, size)
        for a in names for b in names for source in ("device", "pinned") for target in ("device", "pinned")
        for size in (1, 70001)
    }  # fmt: skip
    for row in rows:
        assert [party.device for party in row.parties] == [
            row.device,
            *([] if row.text("peer") == "self" else [row.text("peer")]),
        ]


def test_one_rank_sends_to_itself_alone(tmp_path: Path, rccl: dict[str, str]) -> None:
    rows = run_rccl(tmp_path / "out", "--ranks", "1", "--set", "size=4KiB", "--set", "peer=self", devices=["hip:0"],
                    **rccl)  # fmt: skip
    assert {(r.status, r.verified, len(r.parties)) for r in rows} == {("ok", True, 1)}
    found = P2pMessage().findings(rows, None)
    assert [f.claim.id for f in found] == ["p2p-message.itself"]


@pytest.mark.slow
def test_large_messages_are_queued_back_to_back_too(tmp_path: Path, rccl: dict[str, str]) -> None:
    """20, of which 256 MiB would be 16, or as many as are quick enough; the last window is compared."""
    chosen = ["interface=xccl", "peer=hip:1", "source=device", "target=device", "size=16MiB"]
    words = ["run", "p2p-message", "--device", "hip:0", *(word for setting in chosen for word in ("--set", setting))]
    done = call(*words, "--out", tmp_path / "out", STANDIN_DEVICES="2", **rccl)
    assert done.returncode == 0, done.stderr
    (row,) = load_results(tmp_path / "out").records
    assert row.verified
    assert 16 <= row.counter("window") <= 20


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.slow
def test_a_byte_that_rccl_changes_is_found(tmp_path: Path, rccl: dict[str, str], rank: int) -> None:
    rows = run_rccl(tmp_path / "out", "--set", "size=1,64KiB", "--set", "peer=hip:1", devices=["hip:0"], status=3,
                    STANDIN_RCCL_FLIP=str(rank), **rccl)  # fmt: skip
    assert {row.device for row in rows} == {"hip:0"}
    for row in rows:
        assert row.verified is False
        assert row.verified_why.startswith(f"rank {rank} (hip:{rank} at ")


ENDS = tuple(rank_ends.ENDS) if EXHAUSTIVE else ("segv", "raise", "sleep")
"""What the relay of a rank says of its end is read by the same code with every launcher; test_ranks.py has all ends."""


@pytest.fixture(scope="module")
def misbehaving(tmp_path_factory: pytest.TempPathFactory, library: Path, cache: Path) -> Misbehaving:
    settings = dict.fromkeys(standin.VARIABLES, str(library)) | {"FIRSTTOUCH_CACHE": str(cache)}
    settings |= {"FIRSTTOUCH_LIB_RCCL": str(standin.build("rccl_on_host"))}
    settings |= {"RANKS_WITH_XCCL": "1", "STANDIN_DEVICES": "2"}
    out = tmp_path_factory.mktemp("ends") / "out"
    return Misbehaving(Mpi("no MPI", UNDRAWN), out, ("hip:0", "hip:1"), ENDS, settings)


@pytest.mark.slow
def test_the_end_of_a_rank_with_rccl_ends_its_point_alone(misbehaving: Misbehaving) -> None:
    misbehaving.check_ends()


@pytest.mark.slow
def test_a_rank_with_rccl_that_takes_too_much_memory_is_named(misbehaving: Misbehaving) -> None:
    misbehaving.check_memory()


@pytest.mark.slow
def test_a_rank_with_rccl_that_never_says_hello(misbehaving: Misbehaving) -> None:
    misbehaving.check_late()


def test_without_rccl_its_points_are_skipped(tmp_path: Path) -> None:
    rows = run_rccl(tmp_path / "out", "--set", "size=4KiB", "--set", "peer=self", FIRSTTOUCH_LIB_RCCL="/none")
    assert {r.status for r in rows} == {"skipped"}
    for r in rows:
        assert_states(r.reason, "rccl library", "not found", "/none")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_byte_that_the_library_changes_is_found(
    mpi: Mpi, tmp_path: Path, in_front: dict[str, str], rank: int
) -> None:
    rows = run(mpi, tmp_path / "out", "--set", "size=1,64KiB", status=3, STANDIN_MPI_FLIP=str(rank), **in_front)
    assert len(rows) == 4
    for row in rows:
        assert row.verified is False
        assert row.verified_why.startswith(f"rank {rank} (hip:{rank} at ")


@pytest.mark.slow
def test_applications_exchange_by_rccl(tmp_path: Path, rccl: dict[str, str]) -> None:
    counts = (1, 2, 4) if EXHAUSTIVE else (1, 3)
    words = ["app", "halo", "transport", "--device", "hip:0", "--size", "tiny", "--strategy", "explicit",
             "--repeat", "1", "--ranks", "4", "--set", f"ranks={','.join(map(str, counts))}",
             "--set", "interface=none,xccl"]  # fmt: skip
    done = call(*words, "--out", tmp_path / "out", STANDIN_DEVICES="4", **rccl)
    assert done.returncode == 0, done.stderr
    found = group_by(load_results(tmp_path / "out").records, "app")
    assert [*found] == [("halo",), ("transport",)]
    for rows in found.values():
        assert [(r.count("ranks"), r.status, r.verified) for r in rows] == [(n, "ok", True) for n in counts]
        assert [[party.device for party in r.parties] for r in rows] == [
            [],
            *([f"hip:{n}" for n in range(k)] for k in counts[1:]),
        ]
        for digest in ("census_digest", "fields_digest"):
            assert len({r.counters.get(digest) for r in rows}) == 1
