from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import msgspec
import pytest
import typer
from tests.node_of_gpus import Node, devices
from tests.texts import assert_states
from typer.testing import CliRunner

from firsttouch.cli import machine as cli
from firsttouch.cli.schemas import MachineOutput
from firsttouch.records.schema import (
    SCHEMA,
    AllocatorInfo,
    DeviceCapabilities,
    DeviceInfo,
    Library,
    Machine,
    Peer,
    Scalar,
)

DEVICES = [
    DeviceInfo(
        name="opencl:0",
        kind="opencl",
        title="pthread [bold]script[/bold] :smile:\x1b[31m",
        allocators=[AllocatorInfo(name="svm-fine", available=True), AllocatorInfo(name="svm-atomic", available=False)],
        peers=[
            Peer(name="opencl:1", access="copies"),
            Peer(name="opencl:2", access="none", reason="no"),
            Peer(name="cuda:0", access="none", same_driver=False),
        ],
    ),
    DeviceInfo(name="cuda", kind="cuda", title="cuda", available=False, reason="libcuda.so.1 was not found"),
]


UNKNOWN = ["unknown", "unknown"]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    discover = SimpleNamespace(discover_devices=lambda: DEVICES)
    monkeypatch.setitem(sys.modules, "firsttouch.engine.discover", discover)
    app = typer.Typer(rich_markup_mode=None)
    app.command("machine")(cli.command.callback)
    return app


def test_json_is_the_record_and_nothing_else(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--json"])
    assert result.exit_code == 0
    machine = msgspec.json.decode(result.stdout, type=MachineOutput)
    assert machine.devices == DEVICES


def test_text_shows_devices_and_reasons(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, [], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for heading in ("CPU", "Caches", "Memory", "Huge pages", "Limits", "Devices", "Libraries"):
        assert f"\n{heading}\n" in result.stdout
    assert r"pthread [bold]script[/bold] :smile:\u001b[31m" in result.stdout
    assert "allocators: svm-fine\n" in "".join(line.rstrip() + "\n" for line in result.stdout.splitlines())
    assert "cuda not available: libcuda.so.1 was not found" in " ".join(result.stdout.split())
    assert "cuda cuda" not in " ".join(result.stdout.split())
    assert "\x1b[31m" not in result.stdout


def test_a_table_has_every_pair_of_devices_and_of_numa_nodes(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    near = Peer(name="hip:1", access="direct", link="xGMI", hops=1, peak_in_gbs=64.0, peak_out_gbs=106.248,
                peak_source="KFD io_links")  # fmt: skip
    kernels = DeviceCapabilities(runs_kernels=True)
    devices = [DeviceInfo(name="hip:0", kind="hip", title="", capabilities=kernels, peers=[near])]
    devices += [msgspec.structs.replace(DEVICES[0], capabilities=kernels)]
    numa: dict[str, Scalar] = {"nodes": 3, "memory_only_nodes": "2"}
    for node in range(3):
        numa |= {f"node{node}_total_bytes": 1, f"node{node}_distances": f"{10 + node} 11 12"}
    numa |= {"node0_cpus": "0", "node1_cpus": "1"}
    machine = Machine(
        schema=SCHEMA, host="", created="", firsttouch="0", facts={"numa": numa}, devices=devices
    )  # fmt: skip
    monkeypatch.setattr("firsttouch.machine.facts.collect_machine", lambda _: machine)
    lines = CliRunner().invoke(app, [], env={"COLUMNS": "200"}).stdout.splitlines()
    *table, remark = [
        re.split(r"  +", line.strip())
        for line in lines[lines.index("Links") + 2 : lines.index("Layers of firsttouch profile") - 1]
    ]
    assert table == [
        ["from", "to", "link", "hops", "access", "GB/s out", "GB/s in", "source"],
        ["hip:0", "hip:1", "xGMI", "1", "direct", "106.248", "64", "KFD io_links"],
        ["opencl:0", "opencl:1", *UNKNOWN, "by copies", *UNKNOWN],
        ["opencl:0", "opencl:2", *UNKNOWN, "none", *UNKNOWN],
        ["node0", "node1", "distance 11", "unknown", "direct", *UNKNOWN],
        ["node0", "node2", "distance 12", "unknown", "direct", *UNKNOWN],
        ["node1", "node0", "distance 11", "unknown", "direct", *UNKNOWN],
        ["node1", "node2", "distance 12", "unknown", "direct", *UNKNOWN],
        ["none: no"],
    ]
    assert_states(remark, "different drivers", "through the host")


def test_what_eight_gpus_have_in_common_is_said_once(app: typer.Typer, monkeypatch: pytest.MonkeyPatch) -> None:
    """By NVML, by the kernel's counters, as devices, and of all links between them."""
    nvml = {f"gpu{n}": {"name": "X", "temperature_c": 41 if n == 5 else 40} for n in range(8)}
    pairs = {f"gpu{i}_gpu{j}": "NVLink" for i in range(8) for j in range(i + 1, 8)}
    of_links = {f"gpu{n}_nvlinks": 18 for n in range(8)}
    kernel = {f"gpu{n}_arch": "gfx942" for n in range(8)}
    facts: dict[str, dict[str, Scalar]] = {
        **nvml,
        "links": {**of_links, **pairs},
        "amd_kfd": {**kernel, "gpu7_svm": True},
    }
    machine = Machine(schema=SCHEMA, host="", created="", firsttouch="", facts=facts, devices=devices(Node()))
    monkeypatch.setattr("firsttouch.machine.facts.collect_machine", lambda _: machine)
    lines = [" ".join(line.split()) for line in CliRunner().invoke(app, [], env={"COLUMNS": "200"}).stdout.splitlines()]
    at = lines.index("gpu0-7 (NVML)")
    assert lines[at + 1 : at + 4] == ["name X", "temperature gpu0-4,6-7: 40 °C", "gpu5: 41 °C"]
    assert "all 8 GPUs in pairs NVLink" in lines
    at = lines.index("AMD GPUs (kernel)")
    assert lines[at + 1 : at + 4] == ["GPUs gpu0-7", "arch gfx942", "svm gpu7: yes"]
    assert sum(line.startswith("cuda:0") for line in lines) == 2
    assert any(line.startswith("cuda:0-7 each other NVLink switch") for line in lines)


def test_help_has_an_example(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert "firsttouch machine --json" in " ".join(result.stdout.split())


@pytest.mark.parametrize(
    ("key", "value", "row"),
    [
        ("total_bytes", 2**30, ("total", "1 GiB")),
        ("memlock_bytes", "unlimited", ("memlock", "unlimited")),
        ("sm_max_mhz", 1980, ("sm max", "1980 MHz")),
        ("mig", False, ("mig", "no")),
        ("ecc", None, ("ecc", "unknown")),
        ("cpu_quota_cores", 1.5, ("cpu quota", "1.5 cores")),
        ("temperature_c", 40, ("temperature", "40 °C")),
    ],
)
def test_values_in_words(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch, key: str, value: Scalar, row: tuple[str, str]
) -> None:
    facts = {"kernel": {key: value}}
    machine = Machine(schema=SCHEMA, host="here", created="today", firsttouch="0", facts=facts)
    monkeypatch.setattr("firsttouch.machine.facts.collect_machine", lambda _: machine)
    result = CliRunner().invoke(app, [], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert row in [tuple(re.split(r"  +", line.strip())) for line in result.stdout.splitlines()]


def test_warnings_come_first_and_what_is_the_same_is_said_once(
    app: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    none = "not found: looked in the system's libraries; install NVIDIA's driver"
    libraries = [Library("cuda", reason=none), Library("nvml", reason=none), Library("mpi", path="/lib/mpi.so")]
    pages: dict[str, Scalar] = {f"thp_{size}": "never" for size in ("16KiB", "32KiB", "64KiB")} | {"thp_2MiB": "always"}
    machine = Machine(
        schema=SCHEMA, host="here", created="today", firsttouch="0", facts={"huge_pages": pages, "cpu": {"model": "X"}},
        libraries=libraries, warnings=["This is a virtual machine."],
    )  # fmt: skip
    monkeypatch.setattr("firsttouch.machine.facts.collect_machine", lambda _: machine)
    lines = [line.rstrip() for line in CliRunner().invoke(app, [], env={"COLUMNS": "200"}).stdout.splitlines()]
    assert lines[1:4] == ["", "Warnings", f"{'!':24}This is a virtual machine."]
    rows = [tuple(re.split(r"  +", line)) for line in lines]
    assert ("cuda, nvml", none) in rows
    assert ("thp 16KiB to 64KiB", "never") in rows
    assert ("thp 2MiB", "always") in rows
    assert "\n".join(lines).count(none) == 1
    layers = lines[lines.index("Layers of firsttouch profile") + 1 :]
    names = [line.split()[0] for line in layers if line and not line.startswith(" ")]
    assert len(names) == len(set(names))
