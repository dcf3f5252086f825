"""collective: operations of several ranks, with each MPI that FIRSTTOUCH_TEST_MPI names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from fake_devices import DISCRETE
from fake_records import a_record, findings_of
from tests.calls import call
from tests.findings import assert_finding
from tests.mpi import Mpi

from firsttouch.base.errors import UsageError
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.experiments import all_experiments
from firsttouch.experiments.collective import GROWS, ITSELF, OPERATIONS, QUICKEST, proportional_from
from firsttouch.records.findings import Quantity
from firsttouch.records.reading import load_results
from firsttouch.records.schema import SCHEMA, DeviceInfo, Peer, Record, Request

NAME = "collective"


def records(mpi: Mpi, out: Path, *arguments: str, **more: str) -> Sequence[Record]:
    words = [*mpi.command, "run", NAME, "--out", str(out), *arguments]
    done = subprocess.run(words, env=os.environ | mpi.environment | more, text=True, capture_output=True, timeout=100)
    if "'opencl:0' is not available" in done.stderr and not os.environ.get("CI"):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    return load_results(out).records


def test_every_operation_of_two_to_four_ranks_is_verified(mpi: Mpi, tmp_path: Path) -> None:
    """A size that three ranks do not divide is rounded, and the record says to what."""
    large = 100 * 2**10
    rows = records(mpi, tmp_path / "out", "--ranks", "4", "--device", "cpu", "--set", "ranks=2,3,4",
                   "--set", "allocator=malloc", "--set", "size=4,100KiB")  # fmt: skip
    assert {(r.text("operation"), r.count("ranks"), r.count("size"), r.status, r.verified) for r in rows} == {
        (operation, ranks, size, "ok", True) for operation in OPERATIONS for ranks in (2, 3, 4)
        for size in (4, large)
    }  # fmt: skip
    for row in rows:
        ranks, summary = row.count("ranks"), row.summary
        assert [party.rank for party in row.parties] == list(range(ranks))
        assert summary is not None
        assert 0 < row.counter("least_us") <= row.counter("mean_us")
        assert row.counter("algorithm_gbs") == pytest.approx(row.counter("bytes") / row.counter("interval_us") / 1e3)
        assert row.counter("bus_gbs") == pytest.approx(
            row.counter("algorithm_gbs") * OPERATIONS[row.text("operation")].bus(ranks)
        )
    found = {
        (r.text("operation"), r.count("size")): (r.counters["bytes"], r.counters["block_bytes"])
        for r in rows if r.count("ranks") == 3
    }  # fmt: skip
    assert found["all-reduce", large] == (large, large)
    assert found["all-gather", large] == (large - 4, (large - 4) // 3)
    assert found["all-to-all", large] == (large - 4, (large - 4) // 3)
    assert found["reduce-scatter", large] == (large - 4, large - 4)
    assert found["all-to-all", 4] == (12, 4)


def test_device_memory_is_staged_and_shared_memory_used_as_it_is(mpi: Mpi, tmp_path: Path) -> None:
    rows = records(mpi, tmp_path / "out", "--ranks", "2", "--device", "opencl:0", "--set", "size=64KiB",
                   "--set", "allocator=device,svm-fine", POCL_DEVICES="pthread pthread")  # fmt: skip
    ok = {(r.text("operation"), r.text("interface"), r.text("allocator")) for r in rows if r.status == "ok"}
    assert ok == {
        (operation, *way) for operation in OPERATIONS for way in (("mpi", "svm-fine"), ("mpi-staged", "device"))
    }
    assert {r.verified for r in rows if r.status == "ok"} == {True}
    assert {tuple(party.device for party in r.parties) for r in rows if r.status == "ok"} == {("opencl:0", "opencl:1")}


def planned(devices: Sequence[DeviceInfo], ranks: int | None, preset: str = "quick", **sets: str) -> list[Planned]:
    request = Request(schema=SCHEMA, experiments=[NAME], devices=[d.name for d in devices], preset=preset, seed=1,
                      set={name: value.split(",") for name, value in sets.items()}, ranks=ranks)  # fmt: skip
    return make_plan(request, devices, all_experiments(), {})


def gpus(count: int) -> list[DeviceInfo]:
    names = [f"cuda:{n}" for n in range(count)]
    return [
        msgspec.structs.replace(
            DISCRETE, name=name, peers=[Peer(name=other, access="direct") for other in names if other != name]
        )
        for name in names
    ]


def test_ranks_are_dealt_out_among_the_devices_of_a_driver() -> None:
    plan = planned(gpus(4), ranks=None)
    assert {p.point.device for p in plan if not p.reason} == {"cuda:0"}
    assert {p.places for p in plan if not p.reason} == {
        ("cuda:0", "cuda:1"), ("cuda:0", "cuda:1", "cuda:2", "cuda:3"),
    }  # fmt: skip
    assert {p.environment["NCCL_NVLS_ENABLE"] for p in plan if p.point.factors.get("interface") == "xccl"} == {"0"}
    shared = planned(gpus(1), ranks=2)
    assert {p.places for p in shared if p.point["interface"] == "mpi"} == {("cuda:0", "cuda:0")}
    (reason,) = {p.reason for p in shared if p.point["interface"] == "xccl"}
    assert "refuse two ranks" in reason
    assert reason.endswith("driver has 1")


def test_one_process_may_have_the_devices_of_all_ranks() -> None:
    plan = [p for p in planned(gpus(4), None, preset="standard") if p.one_process]
    assert {(p.point["interface"], p.point["processes"], p.places) for p in plan} == {
        ("xccl", "one", tuple(f"cuda:{n}" for n in range(ranks))) for ranks in (2, 3, 4)
    }  # fmt: skip
    assert {tuple(d.name for d in p.peers) for p in plan if len(p.places) == 3} == {("cuda:1", "cuda:2")}
    assert {p.point.factors["processes"] for p in planned(gpus(4), None)} == {"each"}  # in quick
    chosen = planned(gpus(2), ranks=None, processes="one")
    assert {(p.point["interface"], p.places) for p in chosen} == {("xccl", ("cuda:0", "cuda:1"))}
    assert {p.point["allocator"] for p in chosen} == {"device"}  # the preset quick leaves out the others in any case
    assert {p.point.factors.get("processes") for p in planned(gpus(1), ranks=2)} == {None}
    for count, sentence in (
        (1, "a process of its own"),
        (2, "refuse two ranks"),
    ):
        try:
            reasons = " ".join(p.reason for p in planned(gpus(1), ranks=count, processes="one"))
        except UsageError as error:
            reasons = str(error)
        assert sentence in reasons


def test_one_rank_takes_nccl_and_is_labelled_so() -> None:
    plan = planned(gpus(1), ranks=1)
    assert {(p.point["interface"], p.places) for p in plan} == {("xccl", ("cuda:0",))}
    with pytest.raises(UsageError, match="--ranks 2 starts"):
        planned(gpus(1), ranks=None)


@pytest.mark.parametrize(
    ("times", "begins"),
    [
        ({8: 1.0, 4096: 1.1, 65536: 2.0, 2**20: 32.0, 2**24: 512.0}, 65536),
        ({8: 1.0, 4096: 512.0, 65536: 8192.0}, 8),
        ({8: 1.0, 4096: 1.0, 65536: 1.0}, None),
        ({8: 1.0}, None),
    ],
)
def test_from_where_the_time_grows_in_proportion(times: dict[int, float], begins: float | None) -> None:
    rows = [a_record(NAME, us, {"size": size}) for size, us in times.items()]
    assert proportional_from(rows) == begins


def test_a_wrong_number_of_ranks_gets_one_sentence(tmp_path: Path) -> None:
    for words, sentence in (
        (["--ranks", "1"], "; --ranks 2 starts two"),
        (
            ["--ranks", "2", "--set", "operation=gather"],
            "'gather' (did you mean 'all-gather'?)",
        ),
        (["--ranks", "2", "--set", "size=6"], "size"),
    ):
        out = tmp_path / "out"
        done = call("run", NAME, "--device", "cpu", "--out", out, *words)
        assert done.returncode == 2, words
        assert sentence in done.stderr
        assert done.stderr.count("\n") == 1
        assert not out.exists()


def test_the_findings_name_the_quickest_interface_and_where_time_grows() -> None:
    def row(interface: str, ranks: int, size: int, us: float, **counters: float) -> Record:
        factors = {"operation": "all-reduce", "interface": interface, "ranks": ranks, "allocator": "device"}
        return a_record(NAME, us, {**factors, "size": size}, **counters)

    rows = [
        row("xccl", 4, 8, 20, bus_gbs=0.1),
        row("xccl", 4, 2**20, 40, bus_gbs=90),
        row("mpi", 4, 8, 3, bus_gbs=0.2),
        row("mpi", 4, 2**16, 4, bus_gbs=9),
        row("mpi", 4, 2**20, 64, bus_gbs=12),
        row("mpi", 2, 8, 1, bus_gbs=0.3),
    ]
    (grows,) = findings_of(NAME, rows)
    all_reduce = {"operation": "all-reduce", "allocator": "device", "size": 8}
    mpi = {**all_reduce, "interface": "mpi", "ranks": 4, "parties": "processes", "value": Quantity(3, "us")}
    bus = {"bus": Quantity(90, "GB/s"), "bus_size": "1 MiB", "bus_interface": "xccl"}
    assert_finding([grows], GROWS, **mpi, begins="64 KiB", **bus)
    of_one = {"operation": "all-reduce", "interface": "xccl", "ranks": 4, "processes": "one", "allocator": "device"}
    (quickest,) = findings_of(NAME, [a_record(NAME, 20, {**of_one, "size": 8}, bus_gbs=0.1)])
    xccl = {**all_reduce, "interface": "xccl", "ranks": 4, "parties": "devices of one process"}
    bus = {"bus": Quantity(0.1, "GB/s"), "bus_size": "8 B", "bus_interface": "xccl"}
    assert_finding([quickest], QUICKEST, **xccl, value=Quantity(20, "us"), **bus)
    (itself,) = findings_of(NAME, [row("xccl", 1, 8, 12)])
    assert_finding([itself], ITSELF, **all_reduce, interface="xccl", value=Quantity(12, "us"))
