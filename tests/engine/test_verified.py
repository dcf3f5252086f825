"""`--trust-verified DIR` uses the answers of `methods --verify --out DIR` where a driver states nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.calls import call
from tests.fabricated import gpu_capabilities
from tests.schemas import assert_valid

from firsttouch.base.errors import UsageError
from firsttouch.engine.discover import discover_devices
from firsttouch.engine.methods import Cell
from firsttouch.engine.verified import METHODS, read_verified_facts, write_methods
from firsttouch.machine.switches import optimistic_device
from firsttouch.records.reading import load_results
from firsttouch.records.schema import AllocatorInfo, DeviceInfo
from firsttouch.records.trust import sources, without_verified_facts

NEEDS_ON_DEMAND = Path(__file__).with_name("needs_on_demand.py")


def a_device(**facts: Any) -> DeviceInfo:
    info = AllocatorInfo(name="device", available=True, gpu="direct", on_demand=None, concurrent=False)
    known = {"uuid": "GPU-1", "runtime": "6.2.0", **facts}
    can = gpu_capabilities(machine_code="hsaco")
    return DeviceInfo(name="hip:0", kind="hip", title="a GPU", facts=known, capabilities=can, allocators=[info])


def cell(property: str, value: str, origin: str = "measured") -> Cell:
    return Cell(device="hip:0", allocator="device", property=property, value=value, origin=origin)  # type: ignore[arg-type]


CELLS = [cell("allocation", "up-front"), cell("coherent", "both"), cell("atomics", "yes"), cell("migrates", "no")]


@pytest.fixture
def methods(tmp_path: Path) -> Path:
    write_methods(tmp_path / "verified", [a_device()], CELLS)
    return tmp_path / "verified"


def test_only_facts_that_the_driver_does_not_state_are_filled_in(methods: Path) -> None:
    (device,) = read_verified_facts(methods).apply([a_device()])
    (info,) = device.allocators
    assert info.on_demand is False
    assert info.shared_atomics is True
    assert info.concurrent is False, "the driver's statement takes precedence"
    assert info.verified == {"on_demand": str(methods), "shared_atomics": str(methods)}
    assert sources(device) == [str(methods)]
    assert without_verified_facts(device) == a_device()


def test_answers_that_were_not_measured_are_not_used(tmp_path: Path) -> None:
    write_methods(tmp_path, [a_device()], [cell("allocation", "up-front", "stated")])
    assert read_verified_facts(tmp_path).apply([a_device()]) == [a_device()]


def test_verified_answers_are_not_used_in_another_environment(methods: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HSA_XNACK", raising=False)
    (device,) = read_verified_facts(methods).apply([a_device()])
    assert optimistic_device(device, {"xnack": "unset"}).allocators[0].verified  # type: ignore[arg-type]
    assert not optimistic_device(device, {"xnack": "1"}).allocators[0].verified  # type: ignore[arg-type]


def test_answers_are_used_on_equal_devices_that_were_not_asked(methods: Path) -> None:
    other = msgspec.structs.replace(a_device(uuid="GPU-2"), name="hip:1")
    first, (equal, unlike) = a_device(), (other, msgspec.structs.replace(other, name="hip:2", title="another GPU"))
    devices = read_verified_facts(methods).apply([first, equal, unlike])
    assert [d.allocators[0].shared_atomics for d in devices] == [True, True, None]
    assert devices[0].model == devices[1].model


@pytest.mark.parametrize("changed", [{"uuid": "GPU-2"}, {"runtime": "6.3.0"}, {"xnack": "on"}])
def test_another_device_or_driver_is_refused(methods: Path, changed: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"another machine or driver \(hip:0 (uuid|runtime|xnack): .*, here "):
        read_verified_facts(methods).apply([a_device(**changed)])


@pytest.mark.parametrize("changed", [{"host": "elsewhere"}, {"system": {"kernel.release": "2.4.0"}}])
def test_another_machine_or_kernel_is_refused(methods: Path, changed: dict[str, Any]) -> None:
    found = json.loads((methods / METHODS).read_text())
    (methods / METHODS).write_text(json.dumps(found | changed))
    with pytest.raises(UsageError, match="another machine or driver"):
        read_verified_facts(methods)


@pytest.mark.parametrize("data", ["", "[]", "{}", '{"schema": 1}', "[" * 100_000])
def test_the_error_for_a_malformed_file_names_it(methods: Path, data: str) -> None:
    (methods / METHODS).write_text(data)
    with pytest.raises(UsageError, match=METHODS):
        read_verified_facts(methods)


def test_a_directory_without_methods_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"methods --verify --out DIR"):
        read_verified_facts(tmp_path)


# ---------------------------------------------------------------------------------------------------- on PoCL


def test_out_needs_verify(tmp_path: Path) -> None:
    done = call("methods", "--device", "cpu", "--out", "verified", cwd=tmp_path, drawn=True)
    assert done.returncode == 2
    assert "add --verify" in done.stderr


@pytest.mark.exhaustive
def test_a_point_is_possible_because_of_methods_json(tmp_path: Path) -> None:
    pocl = next((d for d in discover_devices(["opencl"]) if d.available), None)
    if pocl is None:
        pytest.skip("no OpenCL device here")
    done = call("methods", "--device", pocl.name, "--verify", "--out", "verified", cwd=tmp_path, drawn=True)
    assert done.returncode == 0, done.stderr
    assert_valid("methods.json", json.loads((tmp_path / "verified" / "methods.json").read_text()))
    run = ("run", "needs-on-demand", "--device", pocl.name, "--module", str(NEEDS_ON_DEMAND), "--out")
    assert call(*run, "driver", cwd=tmp_path, drawn=True).returncode == 0
    assert call(*run, "trusting", "--trust-verified", "verified", cwd=tmp_path, drawn=True).returncode == 0
    found = {
        name: {r.factors["allocator"]: (r.status, r.stated_by) for r in load_results(tmp_path / name).records}
        for name in ("driver", "trusting")
    }
    assert found["driver"] == {"device": ("skipped", ""), "malloc": ("ok", "")}
    assert found["trusting"] == {"device": ("ok", "verified verified"), "malloc": ("ok", "")}
    machine = msgspec.json.decode((tmp_path / "trusting" / "machine.json").read_bytes())
    held = next(a for a in machine["devices"][0]["allocators"] if a["name"] == "device")
    assert held["verified"] == {"on_demand": "verified"}
