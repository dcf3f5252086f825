from __future__ import annotations

import msgspec
import pytest

from firsttouch.machine import facts, nvidia
from firsttouch.records.schema import DeviceInfo, Machine


def test_the_record_of_this_machine_is_unchanged_by_encoding_and_decoding() -> None:
    device = DeviceInfo(name="cpu", kind="cpu", title="a processor")
    machine = facts.collect_machine([device])
    assert msgspec.json.decode(msgspec.json.encode(machine), type=Machine) == machine
    assert machine.devices == [device]
    assert {"cpu", "memory", "huge_pages", "limits", "kernel", "software"} <= set(machine.facts)


def test_facts_of_nvml_are_added_to_those_of_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = {"nvidia": {"driver": "580.95.05", "gpus": 1}, "gpu0": {"name": "odd\x1b[31m\ud800", "mig": True}}
    monkeypatch.setattr(nvidia, "collect", lambda: (answer, ""))
    machine = facts.collect_machine([])
    assert machine.facts["nvidia"]["driver"] == "580.95.05"
    assert machine.facts["gpu0"]["name"] == "odd [31m?"
    assert any("MIG on" in warning for warning in machine.warnings)


def test_a_note_on_several_devices_is_one_warning() -> None:
    devices = [
        DeviceInfo(name=f"hip:{n}", kind="hip", title="", notes=["all"] if n != 3 else ["own"]) for n in range(6)
    ]
    assert facts.collect_machine(devices).warnings[-2:] == ["hip:0-2,4-5: all", "hip:3: own"]
