from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from firsttouch.machine import amd, backends, facts, host
from firsttouch.machine.facts import host_topics
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import DeviceInfo

MakeTree = Callable[[Mapping[str, "str | bytes"]], Tree]
NODES = "sys/class/kfd/kfd/topology/nodes"


def mi300x() -> dict[str, str | bytes]:
    """The topology node of a processor and that of a GPU."""
    gpu = f"{NODES}/2"
    caches = [(1, 32, 128, 9), (1, 64, 64, 10), (2, 4096, 128, 9), (3, 262144, 64, 9)]
    files: dict[str, str | bytes] = {
        "sys/module/amdgpu/version": "6.8.5\n",
        "sys/module/amdgpu/parameters/noretry": "-1\n",
        "sys/module/amdgpu/parameters/mtype_local": "0\n",
        "sys/module/amdgpu/parameters/unrelated": "1\n",
        f"{NODES}/0/properties": "cpu_cores_count 96\nsimd_count 0\n",
        f"{gpu}/properties": "cpu_cores_count 0\nsimd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\n"
        "location_id 49408\ndomain 1\nnum_sdma_engines 2\nnum_xcc 8\ncapability 680567424\nunique_id 12345\n",
        f"{gpu}/mem_banks/0/properties": "heap_type 1\nsize_in_bytes 206141652992\nflags 0\n",
        f"{gpu}/mem_banks/1/properties": "heap_type 0\nsize_in_bytes 4096\n",
    }
    for i, (level, kib, line, kind) in enumerate(caches):
        files[f"{gpu}/caches/{i}/properties"] = f"level {level}\nsize {kib}\ncache_line_size {line}\ntype {kind}\n"
    return files


def linked(weight: int, *, kind: int = 11) -> dict[str, str | bytes]:
    """The same nodes with a link between them, and a core with an L3 cache of 32 MiB."""
    core = "sys/devices/system/cpu/cpu0/cache/index3"
    return mi300x() | {
        f"{NODES}/2/io_links/0/properties": f"type {kind}\nnode_from 2\nnode_to 0\nweight {weight}\n",
        f"{core}/level": "3\n",
        f"{core}/size": "32768K\n",
        f"{core}/type": "Unified\n",
    }


def test_the_memory_side_cache_of_an_apu_is_a_cache_of_its_processor(
    make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make_tree(linked(13))
    assert amd.kfd_gpus(tree)[0]["in_socket"] is True
    facts = host.cpu(tree, [0])
    assert (facts["l3_bytes"], facts["infinity_cache_bytes"]) == (32 * 2**20, 256 * 2**20)
    monkeypatch.setattr(backends, "Tree", lambda: tree)
    monkeypatch.setattr(host, "usable_cores", lambda: [0])
    assert backends.BACKENDS["cpu"].extra({"title": ""}).facts["infinity_cache_bytes"] == 256 * 2**20


@pytest.mark.parametrize(
    ("shares", "weight", "expected"), [(True, 13, 256 * 2**20), (False, 13, None), (True, 15, None)]
)
def test_opencl_devices_in_the_hosts_memory_have_the_cache_of_the_cpu(
    shares: bool, weight: int, expected: int | None, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backends, "Tree", lambda: make_tree(linked(weight)))
    extra = backends.BACKENDS["opencl"].extra({"title": "gfx942", "shares_host_memory": shares})
    assert extra.facts.get("infinity_cache_bytes") == expected


@pytest.mark.parametrize(("weight", "kind"), [(15, 11), (20, 2)])
def test_the_cache_of_a_gpu_behind_a_link_is_not(make_tree: MakeTree, weight: int, kind: int) -> None:
    """Links between sockets, by Infinity Fabric and by PCIe."""
    tree = make_tree(linked(weight, kind=kind))
    assert amd.kfd_gpus(tree)[0]["in_socket"] is False
    assert "infinity_cache_bytes" not in host.cpu(tree, [0])


def test_a_link_between_two_gpus_of_a_socket_does_not_count(make_tree: MakeTree) -> None:
    files = linked(13) | {f"{NODES}/0/properties": "cpu_cores_count 0\nsimd_count 0\n"}
    assert amd.memory_side_cache(make_tree(files)) is None


def test_a_gpu_of_the_compute_driver(make_tree: MakeTree) -> None:
    (gpu,) = amd.kfd_gpus(make_tree(mi300x()))
    assert gpu == {
        "arch": "gfx942",
        "pci_bus": "0001:c1:00.0",
        "memory_bytes": 206141652992,
        "l1_bytes": 32 * 1024,
        "l2_bytes": 4 * 2**20,
        "infinity_cache_bytes": 256 * 2**20,
        "line_bytes": 128,
        "compute_units": 304,
        "sdma_engines": 2,
        "xccs": 8,
        "svm": True,
        "coherent_host_access": False,
    }


def test_memory_in_use_by_the_kernels_counters(make_tree: MakeTree) -> None:
    client = "drm-pdev: 0001:c1:00.0\ndrm-client-id: 5\ndrm-memory-vram: 3 KiB\ndrm-memory-gtt: 1 KiB\n"
    files = mi300x() | {
        "sys/bus/pci/devices/0001:c1:00.0/mem_info_vram_used": "9000",
        "sys/bus/pci/devices/0001:c1:00.0/mem_info_gtt_used": "800",
        "proc/17/fdinfo/4": client,
        "proc/17/fdinfo/5": client,
        "proc/18/fdinfo/4": client,
        "proc/19/fdinfo/4": client.replace("c1", "c2"),
        "proc/mounts": "",
    }
    topic = amd.kfd(make_tree(files))
    in_use = {"memory_used_bytes": 9000, "gtt_used_bytes": 800, "programs": 2, "programs_bytes": 2 * 4096}
    assert {f"gpu0_{name}": value for name, value in in_use.items()}.items() <= topic.items()


@pytest.mark.parametrize(("version", "name"), [(90010, "gfx90a"), (90402, "gfx942"), (110000, "gfx1100")])
def test_architectures(make_tree: MakeTree, version: int, name: str) -> None:
    tree = make_tree({f"{NODES}/1/properties": f"simd_count 4\ngfx_target_version {version}\n"})
    assert amd.kfd_gpus(tree) == [{"arch": name}]


def test_the_driver_and_the_environment(make_tree: MakeTree) -> None:
    topics = host_topics(make_tree(mi300x()), {"HSA_XNACK": "1", "HSA_ENABLE_SDMA": "0"}, [])
    assert topics["amd"] == {"kernel_module": "6.8.5", "gpus": 1, "noretry": -1, "mtype_local": 0}
    assert topics["amd_kfd"]["gpu0_arch"] == "gfx942"
    assert topics["environment"] == {"HSA_ENABLE_SDMA": "0", "HSA_XNACK": "1"}


def test_a_kernel_module_without_a_version(make_tree: MakeTree) -> None:
    tree = make_tree({"sys/module/amdgpu/parameters/noretry": "1"})
    assert amd.driver(tree) == {"kernel_module": "of the kernel", "noretry": 1}


def test_a_machine_without_an_amd_gpu_has_no_facts(make_tree: MakeTree) -> None:
    tree = make_tree({})
    assert (amd.driver(tree), amd.kfd(tree)) == ({}, {})


@pytest.mark.parametrize("garbage", [b"", b"\xff\xfe\x00", b"simd_count x", b"simd_count 1", b"9" * 30, b"a b c\n\nd"])
def test_garbage_is_no_error(make_tree: MakeTree, garbage: bytes) -> None:
    tree = make_tree(dict.fromkeys(mi300x(), garbage))
    amd.driver(tree)
    amd.kfd(tree)


def test_a_hip_device_gets_the_caches_of_its_gpu(make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = make_tree(mi300x())
    monkeypatch.setattr(backends, "Tree", lambda: tree)
    extra = backends.BACKENDS["hip"].extra({"pci_bus": "0001:C1:00.0", "l2_bytes": 1, "line_bytes": 64, "xnack": "off"})
    assert extra.facts["infinity_cache_bytes"] == 256 * 2**20
    assert extra.facts["line_bytes"] == 128
    assert "has not run on AMD hardware" in extra.notes[0]
    assert "XNACK was not on" in extra.notes[1]


class FakeSmi:
    """One GPU. Functions without an entry in `answers` raise, as unsupported functions of AMD SMI do."""

    AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hot", VRAM="vram")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="now")

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "get_processor_handles": ["h0"],
            "get_gpu_asic_info": {"market_name": "MI300X", "target_graphics_version": "gfx942"},
            "get_gpu_device_bdf": "0001:c1:00.0",
            "get_clock_info": lambda handle, which: {"gfx": {"clk": 132, "max_clk": 2100}, "mem": {"clk": "N/A"}}[
                which
            ],
            "get_temp_metric": lambda handle, sensor, metric: {"hot": 41, "vram": 38}[sensor],
            "get_power_info": {"current_socket_power": "N/A", "average_socket_power": 139},
            "get_gpu_activity": {"gfx_activity": 0},
            "get_gpu_vram_usage": {"vram_total": 196592, "vram_used": 283},
            "get_gpu_compute_partition": "SPX",
            "get_pcie_info": {"pcie_static": {"max_pcie_width": 16}, "pcie_metric": {"pcie_width": 16}},
        } | answers

    def __getattr__(self, name: str) -> Any:
        answer = self.answers.get(name.removeprefix("amdsmi_"))
        if answer is None:
            raise AttributeError(name)
        return answer if callable(answer) else lambda *arguments: answer


def test_the_management_library() -> None:
    assert amd.Smi(FakeSmi()).topics() == {
        "amd_gpu0": {
            "name": "MI300X",
            "arch": "gfx942",
            "pci_bus": "0001:c1:00.0",
            "core_mhz": 132,
            "core_max_mhz": 2100,
            "temperature_c": 41,
            "memory_temperature_c": 38,
            "power_w": 139,
            "busy_percent": 0,
            "memory_total_bytes": 196592 * 2**20,
            "memory_used_bytes": 283 * 2**20,
            "compute_partition": "SPX",
            "pcie_width": 16,
            "pcie_width_max": 16,
        }
    }


def test_answers_of_another_form_are_left_out() -> None:
    fake = FakeSmi(get_power_info=7, get_gpu_vram_usage={}, get_clock_info=None, get_pcie_info=[])
    topic = amd.Smi(fake).topics()["amd_gpu0"]
    assert not {"power_w", "memory_total_bytes", "core_mhz", "pcie_width"} & set(topic)
    assert amd.Smi(SimpleNamespace()).topics() == {}


def test_no_facts_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert amd.collect() == {}


def test_a_failing_process_returns_no_facts() -> None:
    assert amd.collect(command=[sys.executable, "-c", "import os; os.abort()"]) == {}
    program = """print('{"amd_gpu0": {"core_mhz": 132}}')"""
    assert amd.collect(command=[sys.executable, "-c", program]) == {"amd_gpu0": {"core_mhz": 132}}


def test_facts_and_notes_are_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amd, "collect", lambda: {"amd_gpu0": {"name": "odd\x1b[31m"}})
    device = DeviceInfo(name="hip:0", kind="hip", title="", notes=["not proven"])
    machine = facts.collect_machine([device])
    assert machine.facts["amd_gpu0"] == {"name": "odd [31m"}
    assert "hip:0: not proven" in machine.warnings
    assert host.memory_environment({"ROCR_VISIBLE_DEVICES": "0", "HSA_OVERRIDE_GFX_VERSION": "9.0.10"})
