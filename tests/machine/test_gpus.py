from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.machine import nvidia


class Refused(Exception):
    pass


class FakeNvml:
    """Two GPUs. Functions without an entry in `answers` raise, as unsupported functions of NVML do."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "DeviceGetCount": 2,
            "DeviceGetHandleByIndex": lambda i: f"h{i}",
            "SystemGetDriverVersion": b"580.95.05",
            "SystemGetCudaDriverVersion": 13000,
            "DeviceGetName": lambda h: b"NVIDIA \xff" if h == "h1" else "NVIDIA H200",
            "DeviceGetUUID": "GPU-1",
            "DeviceGetCudaComputeCapability": (9, 0),
            "DeviceGetClockInfo": lambda h, which: {1: 1980, 2: 3201}[which],
            "DeviceGetPersistenceMode": 1,
            "DeviceGetEccMode": [1, 0],
            "DeviceGetMigMode": [0, 0],
            "DeviceGetPowerUsage": 123456,
            "DeviceGetTemperature": 40,
            "DeviceGetComputeMode": 3,
            "DeviceGetAddressingMode": 2,
            "DeviceGetCurrentClocksThrottleReasons": 0x1 | 0x4 | 0x40000,
            "DeviceGetMemoryInfo": self.memory,
            "DeviceGetBAR1MemoryInfo": SimpleNamespace(bar1Total=2**37),
            "DeviceGetCpuAffinityWithinScope": [0b1011, 1, 0],
            "DeviceGetUtilizationRates": SimpleNamespace(gpu=7, memory=1),
            "DeviceGetComputeRunningProcesses": ["p"],
            "DeviceGetPciInfo": SimpleNamespace(busId=b"00000000:01:00.0"),
            "DeviceGetCurrPcieLinkGeneration": 5,
            "DeviceGetCurrPcieLinkWidth": 8,
            "DeviceGetMaxPcieLinkWidth": 16,
            "DeviceGetNvLinkState": self.link,
            "DeviceGetNvLinkVersion": lambda h, link: 7,
            "DeviceGetNvLinkRemoteDeviceType": lambda h, link: 2,
            "DeviceGetTopologyCommonAncestor": 50,
            "DeviceGetP2PStatus": lambda a, b, which: 0,
        } | answers

    @staticmethod
    def memory(handle: str, version: int | None = None) -> Any:
        return SimpleNamespace(total=2**37, free=2**36, used=2**36, reserved=2**64 - 1)

    @staticmethod
    def link(handle: str, link: int) -> int:
        if link >= 18:
            raise Refused
        return int(link != 17)

    def __getattr__(self, name: str) -> Any:
        answer = self.answers.get(name.removeprefix("nvml"))
        if answer is None:
            raise AttributeError(name)
        return answer if callable(answer) else lambda *arguments: answer


def test_two_gpus() -> None:
    topics = nvidia.Nvml(FakeNvml()).topics()
    assert topics["nvidia"] == {"driver": "580.95.05", "cuda": "13.0", "gpus": 2}
    assert topics["gpu0"] == {
        "name": "NVIDIA H200",
        "uuid": "GPU-1",
        "compute_capability": "9.0",
        "sm_mhz": 1980,
        "memory_mhz": 3201,
        "persistence": True,
        "compute_mode": "exclusive process",
        "ecc": True,
        "mig": False,
        "power_w": 123.456,
        "temperature_c": 40,
        "addressing_mode": "ATS",
        "near_cpus": "0-1,3,64",
        "throttle": "software power cap, reason 0x40000",
        "busy_percent": 7,
        "processes": 1,
        "pci_bus_id": "00000000:01:00.0",
        "memory_total_bytes": 2**37,
        "memory_free_bytes": 2**36,
        "memory_used_bytes": 2**36,
        "bar1_bytes": 2**37,
    }
    assert topics["gpu1"]["name"] == "NVIDIA �"
    links = topics["links"]
    assert links["gpu0_nvlinks"] == 18
    assert links["gpu0_nvlinks_active"] == 17
    assert links["gpu0_nvlink_version"] == 7
    assert links["gpu0_nvlink_peers"] == "switch"
    assert links["gpu1_pcie_width_max"] == 16
    assert links["gpu0_gpu1"] == "NVLink, peer access: yes"


def test_gpus_without_nvlink() -> None:
    fake = FakeNvml(DeviceGetNvLinkState=None, DeviceGetP2PStatus=lambda a, b, which: 1, DeviceGetMigMode=None)
    topics = nvidia.Nvml(fake).topics()
    assert topics["links"]["gpu0_nvlinks"] == 0
    assert "gpu0_nvlink_peers" not in topics["links"]
    assert_states(topics["links"]["gpu0_gpu1"], "across NUMA nodes", "peer access: chipset not supported")
    assert "mig" not in topics["gpu0"]


def test_answers_of_another_form_are_left_out() -> None:
    fake = FakeNvml(
        DeviceGetEccMode=7, DeviceGetCudaComputeCapability="x", DeviceGetMemoryInfo=SimpleNamespace(total=None)
    )
    facts = nvidia.Nvml(fake).topics()["gpu0"]
    assert not {"ecc", "compute_capability", "memory_total_bytes"} & set(facts)


def test_a_library_whose_functions_all_fail() -> None:
    assert nvidia.Nvml(SimpleNamespace()).topics() == {"nvidia": {"gpus": 0}}


def test_an_idle_gpu_is_not_throttled() -> None:
    assert _core.throttle_reasons(0x1) == []
    assert _core.throttle_reasons(0x20 | 0x40) == ["software thermal slowdown", "hardware thermal slowdown"]


def test_every_name_in_the_tables_exists_in_pynvml() -> None:
    pynvml = pytest.importorskip("pynvml")
    names = [row[1] for row in [*nvidia._GPU, *nvidia._LINK]]
    missing = [name for name in names if not hasattr(pynvml, f"nvmlDevice{name}")]
    assert missing in ([], ["GetC2cModeInfoV"])  # older releases lack this function


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import os; os.abort()", "status -6"),
        ("import time; time.sleep(60)", "did not answer within 0.05 s"),
        ("raise SystemExit('gone wrong')", "gone wrong"),
        ("print('no json')", "returned no facts"),
        ("print('[1]')", "returned no facts"),
        ("""print('{"error": {"reason": "NVML: no driver"}}')""", "NVML: no driver"),
    ],
)
def test_a_failing_process_is_reported_as_the_reason(program: str, reason: str) -> None:
    topics, reported = nvidia.collect(
        timeout=0.05 if "sleep" in program else 30, command=[sys.executable, "-c", program]
    )
    assert topics == {}
    assert reason in reported


def test_a_missing_program_is_reported_as_the_reason() -> None:
    assert "did not start" in nvidia.collect(command=["/nonexistent"])[1]


def test_this_machine_has_facts_or_a_reason() -> None:
    topics, reason = nvidia.collect()
    assert bool(topics) != bool(reason)
