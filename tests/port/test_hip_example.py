"""The recorded example in HIP: it tells what its source does, and that a stand-in played the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.calls import call
from tests.texts import assert_states

import firsttouch

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
HEAT, MANAGED = (EXAMPLES / "profiles" / name for name in ("standin-heat-hip", "standin-heat-hip-managed"))
FRAMES, STEPS, PLATE = 12, 10, 4 << 20


def test_port_finds_the_copies_of_the_source_and_none_in_its_edited_form():
    port, edited = firsttouch.port(HEAT), firsttouch.port(MANAGED)
    assert (port["copies"], port["copied"]) == (2 * FRAMES, 2 * FRAMES * PLATE)
    assert (port["saved"]["bytes"], port["saved"]["of"]) == (PLATE, 3 * PLATE)
    assert [block["launches"] for block in port["blocks"]] == [FRAMES * STEPS] * 2
    assert (edited["copies"], edited["findings"], port["findings"]) == (0, [], [])
    lines = (EXAMPLES / "heat_hip.cpp").read_text().splitlines()
    for block in port["blocks"]:
        assert "hipMalloc" in lines[block["place"]["line"] - 1]


@pytest.mark.parametrize("xnack", ["0", "1"])
def test_the_advice_says_that_a_stand_in_was_traced_and_names_calls_of_hip(xnack: str):
    shown = call("advise", "--profile", HEAT, "--device", "model:mi300a", "--set", f"xnack={xnack}")
    assert shown.returncode == 0, shown.stderr
    assert_states(shown.stdout, "traced on Stand-in", "heat_hip.cpp:26", f"under xnack={xnack}")
    assert ("hipMallocManaged" in shown.stdout) == (xnack == "0")
    assert "cudaMalloc" not in shown.stdout


@pytest.mark.parametrize("directory", [HEAT, MANAGED])
def test_the_record_names_no_folder_but_those_that_it_was_made_in(directory: Path):
    content = b"".join(file.read_bytes() for file in directory.iterdir())
    for folder in (b"/home/", b"/root/"):
        assert folder not in content
