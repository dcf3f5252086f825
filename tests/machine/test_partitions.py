"""Partitions of GPUs are devices with a name and a memory of their own: MIG by a made-up NVML, CPX by a made-up KFD."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests import calls
from tests.machine.test_gpus import FakeNvml
from tests.machine.test_links import NODES, FakeDevice, MakeTree, io_link

from firsttouch.cli import machine as cli
from firsttouch.cli.console import Console
from firsttouch.engine import discover
from firsttouch.machine import amd, backends, devices, nvidia
from firsttouch.machine.facts import host_topics
from firsttouch.machine.measurement_warnings import measurement_warnings
from firsttouch.machine.partitions import Partition, name_partitions
from firsttouch.machine.peers import add_peers
from firsttouch.records.reading import load_results
from firsttouch.records.schema import SCHEMA, DeviceCapabilities, DeviceInfo, Machine, Scalar
from firsttouch.workers.process import TaskResult, Worker
from firsttouch.workers.protocol import Reply, Task

GIB = 2**30
MIG_NAME = "NVIDIA H100 80GB HBM3 MIG"


def mig(instances: dict[str, int], *, on: bool = True) -> nvidia.Nvml:
    """Two GPUs of which the first is partitioned. instances: the GPU instance of each MIG device."""
    handles = list(instances)
    gigabytes = {name: int(name.rpartition(".")[2].partition("gb")[0]) for name in handles}
    return nvidia.Nvml(
        FakeNvml(
            DeviceGetMigMode=lambda h: [int(on and h == "h0"), 0],
            DeviceGetMaxMigDeviceCount=7,
            DeviceGetMigDeviceHandleByIndex=lambda h, i: handles[i],
            DeviceGetPciInfo=lambda h: SimpleNamespace(busId=b"00000000:17:00.0" if h == "h0" else b"00000000:2A:00.0"),
            DeviceGetName=lambda h: f"{MIG_NAME} {h[:-2]}" if h in instances else "NVIDIA H100 80GB HBM3",
            DeviceGetUUID=lambda h: f"MIG-{h[-1]}" if h in instances else f"GPU-{h}",
            DeviceGetGpuInstanceId=lambda h: instances[h],
            DeviceGetAttributes=lambda h: SimpleNamespace(multiprocessorCount=16),
            DeviceGetMemoryInfo=lambda h, *version: SimpleNamespace(total=gigabytes.get(h, 80) * GIB),
        )
    )


APART = {"1g.10gb a": 7, "1g.10gb b": 8, "3g.40gb c": 1}
TOGETHER = {"1c.3g.40gb a": 1, "1c.3g.40gb b": 1, "3g.40gb c": 2}


def device(name: str, bus: str, title: str = "AMD Instinct MI300X", **facts: Scalar) -> DeviceInfo:
    kernels = DeviceCapabilities(runs_kernels=True)
    return DeviceInfo(name=name, kind=name[:-2], title=title, facts={"pci_bus": bus, **facts}, capabilities=kernels)


def nodes_of(count: int, memory: str, *, function: bool = False, second: bool = False) -> dict[str, str | bytes]:
    """One MI300X with compute partitions, and one whole GPU if `second`. function: whether the kernel writes the number
    of a partition where a PCI address has the function, as some do; others use the upper bits.
    """
    files: dict[str, str | bytes] = {
        f"{NODES}/0/properties": "cpu_cores_count 96\nsimd_count 0\n",
        "sys/bus/pci/devices/0000:c1:00.0/current_compute_partition": "CPX\n",
        "sys/bus/pci/devices/0000:c1:00.0/current_memory_partition": f"{memory}\n",
    }
    for number in range(count):
        location = 0xC100 | (number if function else number << 28)
        node = f"{NODES}/{number + 1}"
        files[f"{node}/properties"] = f"simd_count 152\nsimd_per_cu 4\nlocation_id {location}\ndomain 0\n"
        files[f"{node}/mem_banks/0/properties"] = f"heap_type 1\nsize_in_bytes {192 * GIB // count}\n"
        files[f"{node}/io_links/0/properties"] = io_link(number + 1, (number + 1) % count + 1, 11, 13, 0, 0)
        files[f"{node}/io_links/1/properties"] = io_link(number + 1, count + 1, 11, 41, 0, 64000)
    if second:
        files[f"{NODES}/{count + 1}/properties"] = f"simd_count 1216\nlocation_id {0xD100}\ndomain 0\n"
    return files


@pytest.mark.parametrize(
    ("visible", "instances", "title", "number", "note"),
    [
        ("", APART, f"{MIG_NAME} 1g.10gb", 0, "each has a part of the memory and of its bandwidth"),
        ("MIG-c", APART, f"{MIG_NAME} 3g.40gb", 2, "`CUDA_VISIBLE_DEVICES=MIG-a firsttouch run` measures another"),
        ("MIG-b,MIG-a", APART, f"{MIG_NAME} 1g.10gb", 1, "Each is opened by processes of its own, and none reaches"),
        ("0", TOGETHER, f"{MIG_NAME} 1c.3g.40gb", 0, "up to 2 share a memory and its bandwidth"),
        ("", APART, "another name", None, "one of 3 partitions of one GPU (MIG, 0000:17:00.0)"),
    ],
)
def test_a_mig_device_is_named_with_what_it_shares_and_how_others_are_measured(
    visible: str, instances: dict[str, int], title: str, number: int | None, note: str
) -> None:
    """CUDA's PCI address and UUID of a MIG device are those of its GPU."""
    parts = mig(instances).partitions({"CUDA_VISIBLE_DEVICES": visible} if visible else {})
    cuda = device("cuda:0", "0000:17:00.0", title, uuid="GPU-h0", memory_bytes=10 * GIB)
    name_partitions([cuda, device("cuda:1", "0000:2A:00.0", "NVIDIA H100 80GB HBM3")], parts)
    assert (cuda.facts.get("partition"), cuda.facts["partitions"]) == (number, 3)
    which = "one of 3 partitions" if number is None else f"partition {number + 1} of 3"
    assert cuda.title == f"{title}, {which} (MIG)"
    assert cuda.facts["uuid"] == ("GPU-h0" if number is None else f"MIG-{'abc'[number]}")
    assert note in cuda.notes[0]


def described(monkeypatch: pytest.MonkeyPatch, parts: list[Partition]) -> list[DeviceInfo]:
    """What a process states of CUDA's only device, which is a MIG device, and of the other ones."""
    cuda = replace(backends.BACKENDS["cuda"], partitions=lambda: parts, links=dict)
    title = next((part.name for part in parts if part.opened), "")
    monkeypatch.setattr(devices, "BACKENDS", {"cuda": cuda})
    monkeypatch.setattr(devices, "_count", lambda kind: 1)
    monkeypatch.setattr(
        devices, "_describe", lambda name, kind: (FakeDevice(name), device(name, "0000:17:00.0", title, l2_bytes=1))
    )
    return devices.describe_devices("cuda")


def test_mig_devices_that_only_a_process_of_their_own_opens_are_devices_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two models; the first is described by the one that is open, the second by one process."""
    six = {f"1g.10gb {letter}": number for number, letter in enumerate("abcd")} | {"3g.40gb e": 7, "3g.40gb f": 8}
    parts = mig(six).partitions({})
    found = described(monkeypatch, parts)
    started: list[dict[str, str]] = []

    class Asked(Worker):
        def __init__(self, environment: Mapping[str, str] | None = None) -> None:
            started.append(dict(environment or {}))

        def ask(self, task: Task, *, timeout: float, memory: int | None = None) -> TaskResult:
            with pytest.MonkeyPatch.context() as alone:
                for name, value in started[-1].items():
                    alone.setenv(name, value)
                others = mig(six).partitions(os.environ)
                return TaskResult("done", "", Reply(state="done", devices=described(alone, others) if started else []))

        def kill(self) -> None:
            pass

    monkeypatch.setattr(discover, "Worker", Asked)
    complete = discover._with_those_alone(found, 1)
    assert started == [{"CUDA_VISIBLE_DEVICES": "MIG-e", "FIRSTTOUCH_ALONE": "cuda:4"}]
    assert [(d.name, d.available, d.facts["uuid"]) for d in complete] == [
        (f"cuda:{number}", True, f"MIG-{letter}") for number, letter in enumerate("abcdef")
    ]
    assert complete[5].title == f"{MIG_NAME} 3g.40gb, partition 6 of 6 (MIG)"
    assert complete[3].facts["l2_bytes"] == 1
    assert {d.model for d in complete[:4]} == {complete[0].model} != {complete[5].model}
    environments = [{}] + [{"CUDA_VISIBLE_DEVICES": f"MIG-{d}", "FIRSTTOUCH_ALONE": f"cuda:{n}"}
                           for n, d in enumerate("bcdef", 1)]  # fmt: skip
    assert [d.environment for d in complete] == environments


@pytest.mark.exhaustive
def test_a_run_measures_a_device_that_only_some_variables_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PoCL's device under another number, as if it were the second partition."""
    known = calls.devices(["cpu", "opencl"])
    first = next((d for d in known if d.kind == "opencl" and d.available), None)
    if first is None:
        pytest.skip("there is no OpenCL device")
    second = msgspec.structs.replace(first, name="opencl:9", environment={"FIRSTTOUCH_ALONE": "opencl:9"})
    monkeypatch.setattr(calls, "devices", lambda kinds=(): [*known, second])
    size = ("--set", "size=4KiB", "--set", "allocator=device", "--set", "agent=gpu")
    done = calls.call("run", "latency", "--device", "opencl:9", *size, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert {(r.device, r.status) for r in load_results(tmp_path / "out").records} == {("opencl:9", "ok")}


def test_a_device_that_is_alone_in_its_process_is_the_first_of_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTTOUCH_ALONE", "cuda:3")
    monkeypatch.setattr(devices, "show_libraries", dict)
    monkeypatch.setattr(devices._core, "open", lambda name: name)
    assert [devices.open_device(name) for name in ("cuda:3", "cuda:1", "cpu")] == ["cuda:0", "cuda:1", "cpu"]


def test_the_facts_of_all_mig_devices_and_of_a_gpu_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    topics = mig(APART).topics()
    assert [topics[gpu].get("mig_devices") for gpu in ("gpu0", "gpu1")] == [3, None]
    assert topics["partition 0000:17:00.0 2"] == {
        "name": f"{MIG_NAME} 3g.40gb", "uuid": "MIG-c", "gpu": "0000:17:00.0", "number": 2, "mode": "MIG",
        "memory_bytes": 40 * GIB, "multiprocessors": 16, "memory_shared_by": 1,
    }  # fmt: skip
    assert any("no partition" in text for text in measurement_warnings(mig({}).topics()))


@pytest.mark.parametrize("function", [False, True])
@pytest.mark.parametrize(
    ("memory", "shared"),
    [("NPS1", "all share a memory"), ("NPS4", "every 2 share a memory"), ("NPS8", "each has a part of the memory")],
)
def test_compute_partitions_are_devices_of_one_gpu(
    memory: str, shared: str, function: bool, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "Tree", lambda: make_tree(nodes_of(8, memory, function=function, second=True)))
    hip = backends.BACKENDS["hip"]
    found = [device(f"hip:{n}", f"0000:C1:00.{n if function else 0}") for n in range(8)]
    found.append(device("hip:8", "0000:d1:00.0"))
    name_partitions(found, hip.partitions())
    assert found[2].title == f"AMD Instinct MI300X, partition 3 of 8 (CPX, {memory})"
    assert found[8].title == "AMD Instinct MI300X"
    assert found[0].model == found[7].model != found[8].model
    assert [bool(d.notes) for d in found] == [True] + 8 * [False]
    assert f"hip:0 to hip:7 are of 8 partitions of one GPU (CPX, {memory}, 0000:c1:00.0); {shared}" in found[0].notes[0]
    assert hip.extra(found[7].facts).facts["memory_bytes"] == 24 * GIB
    opened: Any = [(FakeDevice(info.name), info) for info in found]
    add_peers(opened, moves_buffers=False, links=hip.links())
    assert {peer.link for peer in found[0].peers[:7]} == {"same GPU"}
    assert (found[3].peers[7].link, found[3].peers[7].peak_out_gbs) == ("xGMI", 64.0)


def test_devices_that_are_hidden_leave_the_numbers_of_the_others_unknown(make_tree: MakeTree) -> None:
    shown = [device("hip:0", "0000:c1:00.0"), device("hip:1", "0000:c1:00.0")]
    name_partitions(shown, amd.partitions(make_tree(nodes_of(8, "NPS1"))))
    assert [d.title for d in shown] == ["AMD Instinct MI300X, one of 8 partitions (CPX, NPS1)"] * 2
    assert "partition" not in shown[0].facts


def test_whole_gpus_are_no_partitions(make_tree: MakeTree) -> None:
    tree = make_tree(nodes_of(1, "NPS1", second=True))
    assert (amd.partitions(tree), amd.driver(tree)) == ([], {"gpus": 2})
    assert amd.driver(make_tree(nodes_of(8, "NPS1", second=True))) == {"gpus": 2}
    assert mig(APART, on=False).partitions({}) == []
    cuda = device("cuda:0", "0000:17:00.0")
    name_partitions([cuda], [])
    assert (cuda.notes, list(cuda.facts)) == ([], ["pci_bus"])


def test_machine_lists_partitions_with_their_devices(make_tree: MakeTree, capsys: pytest.CaptureFixture[str]) -> None:
    found = [device("cuda:0", "0000:17:00.0", f"{MIG_NAME} 1g.10gb")]
    parts = mig(APART).partitions({})
    name_partitions(found, parts)
    facts = mig(APART).topics() | host_topics(make_tree(nodes_of(8, "NPS4")), {}, [0])
    machine = Machine(schema=SCHEMA, host="", created="", firsttouch="", facts=facts, devices=found)
    cli._partitions(Console(width=200), machine)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert f"0000:17:00.0 1 {MIG_NAME} 1g.10gb MIG 10 GiB 16 no other cuda:0" in lines
    assert f"0000:17:00.0 3 {MIG_NAME} 3g.40gb MIG 40 GiB 16 no other not offered: MIG-c" in lines
    assert "0000:c1:00.0 8 CPX, NPS4 24 GiB 38 2 partitions unknown" in lines
