"""An experiment with two devices, run by the command on the HIP stand-in."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from tests.calls import call
from tests.texts import assert_states

from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record

MODULE = Path(__file__).parents[2] / "docs/examples/neighbour.py"


def run_neighbour(out: Path, *options: str, **settings: str) -> list[Record]:
    words = ["run", "neighbour", "--module", MODULE, "--out", out, "--set", "size=64KiB", "--set", "direction=to"]
    process = call(*words, *options, **{"STANDIN_DEVICES": "3", **settings})
    assert process.returncode == 0, process.stderr
    return list(load_results(out).records)


def assert_refused(reason: str, first: str, second: str) -> None:
    """Asserts that the driver's answer is why one device may not use the memory of another."""
    assert_states(reason, "hipDeviceCanAccessPeer", first, f"no peer access to {second}")


@pytest.mark.exhaustive
def test_every_device_copies_to_every_other(tmp_path: Path) -> None:
    names = [f"hip:{n}" for n in range(3)]
    chosen = [word for name in names for word in ("--device", name)]
    records = run_neighbour(tmp_path / "out", *chosen)
    pairs = [(r.device, r.text("peer").replace("self", r.device)) for r in records]
    assert sorted(pairs) == sorted((a, b) for a in names for b in names)
    assert {(r.status, r.verified) for r in records} == {("ok", True)}
    assert all([p.device for p in r.parties] == [r.device, r.factors["peer"]] for r in records if r.parties)


def test_a_machine_with_several_gpus_says_what_has_run_on_stand_ins_only() -> None:
    """One with a single GPU does not; test_hip.py."""
    done = call("machine", STANDIN_DEVICES="2")
    assert "not on a machine with several GPUs" in " ".join(done.stdout.split())


def test_a_peer_without_access_is_skipped_with_the_drivers_reason(tmp_path: Path) -> None:
    records = run_neighbour(
        tmp_path / "out", "--device", "hip:0", "--set", "peer=hip:1,hip:2", STANDIN_UNREACHABLE="0>1"
    )
    refused, reached = records
    assert [(r.factors["peer"], r.status) for r in records] == [("hip:1", "skipped"), ("hip:2", "ok")]
    assert_refused(refused.reason, "hip:0", "hip:1")
    assert reached.reason == ""


@pytest.mark.exhaustive
def test_a_peer_whose_access_the_driver_fails_to_open_is_skipped(tmp_path: Path) -> None:
    (record,) = run_neighbour(tmp_path / "out", "--device", "hip:0", "--set", "peer=hip:1",
                    STANDIN_FAIL="hipDeviceEnablePeerAccess=801")  # fmt: skip
    assert record.status == "skipped"
    assert record.reason.startswith("hip:0 cannot reach hip:1: ")
    assert "operation not supported" in record.reason


@pytest.mark.exhaustive
def test_kernels_use_the_memory_of_every_other_device(tmp_path: Path) -> None:
    """The stand-in fails a kernel that touches another device's memory to which access was not opened."""
    names = [f"hip:{n}" for n in range(4)]
    chosen = [word for name in names for word in ("--device", name)]
    process = call(
        "run",
        "p2p-latency",
        "p2p-direct",
        *chosen,
        "--set",
        "size=64KiB",
        "--set",
        "allocator=device,vmm",
        "--out",
        str(tmp_path / "out"),
        STANDIN_DEVICES="4",
        STANDIN_UNREACHABLE="2>3",
    )
    assert process.returncode == 0, process.stderr
    for experiment in ("p2p-latency", "p2p-direct"):
        records = [r for r in load_results(tmp_path / "out").records if r.experiment == experiment]
        found = {(r.device, r.text("peer").replace("self", r.device)): r for r in records}
        assert found.keys() == {(a, b) for a in names for b in names}
        assert_refused(found.pop(("hip:2", "hip:3")).reason, "hip:2", "hip:3")
        assert {(r.status, r.verified) for r in found.values()} == {("ok", True)}


@pytest.mark.exhaustive
def test_the_cpu_loads_from_the_memory_of_another_apu_where_it_reaches_it_in_place(tmp_path: Path) -> None:
    chosen = ["--device", "hip:0", "--set", "peer=self,hip:1", "--set", "size=64KiB", "--set", "allocator=device,vmm"]
    process = call(
        "run",
        "p2p-latency",
        *chosen,
        "--set",
        "agent=cpu",
        "--out",
        str(tmp_path / "out"),
        STANDIN_DEVICES="2",
        STANDIN_INTEGRATED="1",
        STANDIN_ARCH="gfx942",
    )
    assert process.returncode == 0, process.stderr
    records = load_results(tmp_path / "out").records
    found = {(r.text("peer"), r.text("allocator")): (r.status, r.verified, r.reason) for r in records}
    refused = ("skipped", None, "the CPU cannot reach vmm memory")
    assert found == {
        ("self", "device"): ("ok", True, ""), ("hip:1", "device"): ("ok", True, ""),
        ("self", "vmm"): refused, ("hip:1", "vmm"): refused,
    }  # fmt: skip
    assert {r.factors["agent"] for r in records} == {"cpu"}


def copy(out: Path, *options: str, peers: str = "self,hip:1", status: int = 0, **settings: str) -> list[Record]:
    """Copies of 64 KiB between two devices, by the command, which must end with this exit status."""
    process = call(
        "run",
        "p2p-copy",
        "--device",
        "hip:0",
        "--set",
        f"peer={peers}",
        "--set",
        "size=64KiB",
        *options,
        "--out",
        str(out),
        STANDIN_DEVICES="2",
        **settings,
    )
    assert process.returncode == status, process.stderr
    return list(load_results(out).records)


@pytest.mark.slow
def test_each_of_two_devices_copies_its_own_memory_or_one_copies_both_ways(tmp_path: Path) -> None:
    """Access is opened both ways, unless --set says that only the device that copies has it."""
    engines, refused = ("copy-engine", "kernel"), "hipDeviceCanAccessPeer: hip:1 has no peer access to hip:0"
    chosen = ("--set", f"engine={','.join(engines)}", "--set", "access=one-way,both-ways", *DEVICE_MEMORY)
    states = {}
    for unreachable in ("", "1>0"):
        rows = copy(tmp_path / f"out{unreachable}", *chosen, peers="hip:1", STANDIN_UNREACHABLE=unreachable)
        states[unreachable] = {(r.text("access"), r.status, r.verified, r.reason) for r in rows}
        assert {(r.text("engine"), r.text("direction")) for r in rows} == set(
            itertools.product(engines, ("out", "in", "both"))
        )
    ok = ("ok", True, "")
    assert states == {
        "": {("both-ways", *ok), ("one-way", *ok)}, "1>0": {("both-ways", "skipped", None, refused), ("one-way", *ok)},
    }  # fmt: skip


DEVICE_MEMORY = ("--set", "source=device", "--set", "target=device")


@pytest.mark.parametrize(("flipped", "wrong"), [("1", {"out", "both"}), ("0", {"in", "both"})])
def test_a_wrong_byte_in_either_of_two_copies_fails_the_run(tmp_path: Path, flipped: str, wrong: set[str]) -> None:
    """With both ways at once, one byte that arrives wrong at either device is enough."""
    options = ("--set", "engine=copy-engine", *DEVICE_MEMORY)
    records = copy(tmp_path / "out", *options, peers="hip:1", status=3, STANDIN_FLIP=flipped)
    assert {r.text("direction") for r in records if r.verified is False} == wrong
    assert {r.text("direction") for r in records if r.verified} == {"out", "in", "both"} - wrong


@pytest.mark.exhaustive
def test_memory_whose_pages_may_move_is_touched_anew_before_each_copy(tmp_path: Path) -> None:
    """Managed memory, and plain host memory that the devices reach; each agent touches first."""
    memory = ("--set", "source=device,managed,malloc", "--set", "target=device,managed,malloc", "--preset", "standard")
    records = copy(
        tmp_path / "out", *memory, "--set", "engine=copy-engine,kernel", HSA_XNACK="1", STANDIN_ARCH="gfx942"
    )
    assert {(r.status, r.verified) for r in records} == {("ok", True)}
    for r in records:
        moving = {r.text("source"), r.text("target")} != {"device"}
        assert r.counters.get("touched_anew", False) is moving
        assert r.factors["first_touch"] == "gpu" or moving
    assert {r.text("first_touch") for r in records} == {"gpu", "cpu"}


@pytest.mark.exhaustive
def test_the_cpu_copies_device_memory_of_apus_where_it_reaches_it(tmp_path: Path) -> None:
    options = (*DEVICE_MEMORY, "--set", "engine=cpu", "--set", "threads=1,0", "--preset", "standard")
    records = copy(tmp_path / "out", *options, STANDIN_INTEGRATED="1", STANDIN_ARCH="gfx942")
    assert {(r.status, r.verified) for r in records} == {("ok", True)}
    varied = ("peer", "direction", "threads", "first_touch")
    assert {tuple(r.factors[name] for name in varied) for r in records} == set(
        itertools.product(("self", "hip:1"), ("out", "in"), (0, 1), ("gpu", "cpu"))
    )


@pytest.mark.exhaustive
def test_copies_between_devices_by_every_engine(tmp_path: Path) -> None:
    """The call that names both devices needs no access; the stand-in refuses any other copy without it."""
    chosen = ["--device", "hip:0", "--set", "peer=self,hip:1,hip:2", "--set", "size=64KiB"]
    memory = ["--set", "source=device,vmm,malloc", "--set", "target=device"]
    process = call(
        "run",
        "p2p-copy",
        *chosen,
        *memory,
        "--out",
        str(tmp_path / "out"),
        STANDIN_DEVICES="3",
        STANDIN_UNREACHABLE="0>2",
    )
    assert process.returncode == 0, process.stderr
    records = load_results(tmp_path / "out").records
    assert {(r.status, r.verified) for r in records if r.status != "skipped"} == {("ok", True)}
    by_call = {r.text("peer"): r for r in records if r.text("engine") == "peer-call" and r.text("source") == "device"}
    assert {peer: r.status for peer, r in by_call.items()} == {"self": "ok", "hip:1": "ok", "hip:2": "ok"}
    assert [peer for peer, r in by_call.items() if r.counters.get("staged_by_driver")] == ["hip:2"]
    others = [r for r in records if r.text("peer") == "hip:2" and r.text("engine") != "peer-call"]
    (refused,) = {r.reason for r in others if "hipDeviceCanAccessPeer" in r.reason}
    assert_refused(refused, "hip:0", "hip:2")
    assert {r.text("direction") for r in records if r.status == "ok"} == {"out", "in", "both"}
