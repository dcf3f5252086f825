"""firsttouch methods, as a user calls it."""

from __future__ import annotations

import json
import subprocess

import msgspec
import pytest
from tests import calls
from tests.calls import call
from tests.fabricated import MACHINES
from tests.matrix import matrix
from tests.texts import assert_states

from firsttouch.machine.devices import describe_devices

PROPERTIES = ["what", "available", "allocation", "cpu", "page", "moves", "cached cpu"]


def methods(*words: str, columns: int = 80) -> subprocess.CompletedProcess[str]:
    return call("methods", *words, COLUMNS=str(columns))


def test_stated_properties():
    run = methods("--device", "cpu")
    assert run.returncode == 0, run.stderr
    for text in ("cpu: ", "malloc", "on-demand", "direct", "--verify"):
        assert text in run.stdout
    assert "✓" not in run.stdout
    assert run.stderr == ""


def test_json_is_a_list_of_cells():
    cells = json.loads(methods("--device", "cpu", "--json").stdout)["cells"]
    assert [c["property"] for c in cells if c["allocator"] == "mmap"] == PROPERTIES
    assert {c["origin"] for c in cells} <= {"stated", "unknown"}
    assert set(cells[0]) == {"device", "allocator", "property", "value", "origin", "stated", "detail", "notes"}


def test_verify_measures_and_reports_progress_on_stderr(monkeypatch: pytest.MonkeyPatch):
    (cpu,) = describe_devices("cpu")
    plain = msgspec.structs.replace(cpu, allocators=[a for a in cpu.allocators if a.name == "malloc"])
    monkeypatch.setattr(calls, "devices", lambda kinds: [plain])
    run = methods("--device", "cpu", "--verify", "--json")
    assert run.returncode == 0, run.stderr
    cells = {(c["allocator"], c["property"]): c for c in json.loads(run.stdout)["cells"]}
    assert cells["malloc", "cpu"]["origin"] == "measured"
    assert "bytes" not in cells["malloc", "page"]["value"]
    assert "cpu malloc: allocation on-demand" in run.stderr


@pytest.mark.parametrize("width", [80, 110, 140])
def test_the_table_fits_and_loses_nothing(width: int):
    run = methods("--device", "opencl:0", columns=width)
    if run.returncode == 2:
        pytest.skip(run.stderr)
    assert "…" not in run.stdout
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(run.stdout.split())
    assert words.count("mapped direct") == 4
    for heading in ("pages", "cached", "coherent", "once", "atomics"):
        assert heading in words


@pytest.mark.exhaustive
def test_verify_in_words():
    run = methods("--device", "cpu", "--verify")
    assert_states(run.stdout, "on-demand ✓", "✓ measured", "✗ measured", "not as stated")


@pytest.mark.parametrize(
    ("device", "text"), matrix([("cpu:7", "unknown device 'cpu:7'"), ("gpu", "unknown device 'gpu'")])
)
def test_an_unknown_device(device: str, text: str):
    run = methods("--device", device, "--verify")
    assert run.returncode == 2
    assert text in run.stderr
    assert "accepted: cpu" in run.stderr
    assert run.stdout == ""


def test_help_has_an_example():
    assert "Example: firsttouch methods" in methods("--help").stdout


def test_the_first_of_equal_gpus_is_asked_for_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(calls, "devices", lambda kinds=(): list(MACHINES["h100-node"].devices))
    run = methods()
    assert "cuda:0: NVIDIA H100 80GB HBM3, for 8 equal GPUs" in run.stdout
    assert "cuda:1" not in run.stdout
    assert "cuda:3: NVIDIA H100 80GB HBM3\n" in methods("--device", "cuda:3", "--device", "cuda:0").stdout
