"""The recorded example in OpenCL: each view tells what its source does, and no time or device that nobody recorded."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.calls import call
from tests.texts import assert_states

import firsttouch

PROFILES = Path(__file__).parents[2] / "docs/examples/profiles"
HEAT, MAPPED = PROFILES / "pocl-heat", PROFILES / "pocl-heat-mapped"
FRAMES, STEPS, PLATE = 12, 10, 4 << 20


def test_port_finds_the_copies_of_the_source_and_none_in_its_edited_form():
    port, edited = firsttouch.port(HEAT), firsttouch.port(MAPPED)
    assert (port["copies"], port["copied"]) == (2 * FRAMES, 2 * FRAMES * PLATE)
    assert (port["saved"]["bytes"], port["saved"]["of"]) == (PLATE, 3 * PLATE)
    assert [block["launches"] for block in port["blocks"]] == [FRAMES * STEPS] * 2
    assert (edited["copies"], edited["findings"], port["findings"]) == (0, [], [])


def test_the_summary_counts_calls_and_has_no_times():
    shown = call("profile", HEAT)
    assert shown.returncode == 0
    assert_states(
        shown.stdout, "h2d 12 x, 48 MiB; d2h 12 x, 48 MiB; 120 kernels; 2 allocations", "OpenCL tells no times"
    )
    trace = json.loads(call("profile", HEAT, "--json").stdout)["trace"]
    assert {row["direction"]: (row["records"], row["bytes"], row["seconds"]) for row in trace["copies"]} == {
        "h2d": (FRAMES, FRAMES * PLATE, None),
        "d2h": (FRAMES, FRAMES * PLATE, None),
    }
    assert (trace["kernels"], trace["kernel_seconds"], trace["untimed"]) == (FRAMES * STEPS, None, ["OpenCL"])


def test_a_program_on_a_gpu_keeps_its_times():
    trace = json.loads(call("profile", PROFILES / "h200-cupy", "--json").stdout)["trace"]
    assert all(row["seconds"] > 0 for row in trace["copies"])
    assert (trace["kernel_seconds"] > 0, trace["untimed"]) == (True, [])


def test_the_advice_names_the_device_and_what_to_type():
    shown = call("advise", "--profile", HEAT, "--device", "model:kaveri")
    assert shown.returncode == 0, shown.stderr
    assert_states(shown.stdout, "CL_MEM_ALLOC_HOST_PTR", "heat_opencl.c:40", "traced on pthread-", "copies")
    assert "unknown" not in shown.stdout


def test_the_page_and_the_program_have_no_words_of_another_interface(tmp_path: Path):
    for file in HEAT.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert call("report", tmp_path).returncode == 0
    page = (tmp_path / "report.html").read_text()
    text = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    assert_states(text, "What to change", "CL_MEM_ALLOC_HOST_PTR", "OpenCL tells no times")
    program = call("port", HEAT, "--program").stdout
    assert_states(program, "spread", "heat_opencl.c:40")
    for shown in (text, program):
        assert not re.search(r"\b(?:CUDA|cuda\w*|0 ns|[Uu]nknown (?:GPU|device)|groups of GPU faults)\b", shown)


@pytest.mark.parametrize("directory", [HEAT, MAPPED])
def test_json_is_of_the_same_profile(directory: Path):
    assert json.loads(call("port", directory, "--json").stdout) == firsttouch.port(directory)
