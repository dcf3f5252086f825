"""The recorded example in HIP: it tells what its source does, and that a stand-in played the runtime."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.calls import call
from tests.texts import assert_states

import firsttouch
from firsttouch.advice.tried.stored import read_findings

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
HEAT, MANAGED, TRIED = (EXAMPLES / "profiles" / f"standin-heat-hip{form}" for form in ("", "-managed", "-tried"))
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


@pytest.mark.parametrize("directory", [HEAT, MANAGED, TRIED, TRIED / "profile"])
def test_the_record_names_no_folder_but_those_that_it_was_made_in(directory: Path):
    content = b"".join(file.read_bytes() for file in directory.iterdir() if file.is_file())
    for folder in (b"/home/", b"/root/"):
        assert folder not in content


def test_what_was_tried_of_the_example_is_what_port_finds_of_it():
    found, lines = read_findings(TRIED), (EXAMPLES / "heat_hip.cpp").read_text().splitlines()
    (pair,) = found.pairs
    assert (pair.array, pair.block) == (PLATE, PLATE)
    assert (pair.copied_in, pair.copied_back) == (FRAMES * PLATE, FRAMES * PLATE)
    assert "hipMalloc" in lines[int(pair.allocated_at.rpartition(":")[2]) - 1]
    managed = found.result("managed")
    assert managed is not None
    assert managed.counts is not None
    assert (managed.counts.left_out, managed.counts.made) == (2 * FRAMES, 0)
    assert found.checked is not None
    assert (found.checked.equal, found.checked.different) == (2 * FRAMES, 0)
    shown = call("advise", "--profile", TRIED, "--device", "model:mi300a")
    assert_states(shown.stdout, "traced on Stand-in", "measured by firsttouch try")
