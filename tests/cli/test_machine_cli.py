from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from firsttouch.cli import machine as cli
from firsttouch.records.schema import SCHEMA, AllocatorInfo, DeviceInfo, Machine, Peer, Scalar

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


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> typer.Typer:
    discover = SimpleNamespace(discover_devices=lambda: DEVICES)
    monkeypatch.setitem(sys.modules, "firsttouch.engine.discover", discover)
    app = typer.Typer(rich_markup_mode=None)
    app.command("machine")(cli.command)
    return app


def test_json_is_the_record_and_nothing_else(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, ["--json"])
    assert result.exit_code == 0
    machine = msgspec.json.decode(result.stdout, type=Machine)
    assert machine.devices == DEVICES


def test_text_shows_devices_and_reasons(app: typer.Typer) -> None:
    result = CliRunner().invoke(app, [], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    for heading in ("CPU", "Caches", "Memory", "Huge pages", "Limits", "Devices", "Libraries"):
        assert f"\n{heading}\n" in result.stdout
    assert r"pthread [bold]script[/bold] :smile:\u001b[31m" in result.stdout
    assert "allocators: svm-fine\n" in "".join(line.rstrip() + "\n" for line in result.stdout.splitlines())
    assert "peers: opencl:1 (by copies), opencl:2 (no access)\n" in "".join(
        line.rstrip() + "\n" for line in result.stdout.splitlines()
    )
    assert "cuda not available: libcuda.so.1 was not found" in " ".join(result.stdout.split())
    assert "cuda cuda" not in " ".join(result.stdout.split())
    assert "\x1b[31m" not in result.stdout


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
