"""The discrete forms of the port programs, traced on the stand-ins: each has the hazard that it shows, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.calls import call
from tests.port.played import PlayedCuda

from firsttouch.advice.port.found import found
from firsttouch.advice.port.port_findings import PortFindings
from firsttouch.profile.call_journal import read_calls
from firsttouch.program.trace import trace

PROGRAMS = Path(__file__).parent / "programs"
HAZARDS = {
    "port_concurrent.c": ("concurrent", "likely"),
    "port_free_memory.c": ("free-memory", "seen"),
    "port_partial.c": ("partial", "seen"),
    "port_stack.c": ("stack", "seen"),
    "port_static.c": ("static", "seen"),
}


def traced(cuda: PlayedCuda, program: str, directory: Path) -> PortFindings:
    (calls,) = read_calls(cuda.trace(PROGRAMS / program, directory))
    return found(trace(calls), {})


@pytest.mark.parametrize(("program", "hazard"), HAZARDS.items())
def test_port_names_the_hazard_of_a_program(
    cuda: PlayedCuda, program: str, hazard: tuple[str, str], tmp_path: Path
) -> None:
    port = traced(cuda, program, tmp_path)
    assert [(finding.kind, finding.certainty) for finding in port.findings] == [hazard]
    assert port.needless == []
    assert port.copies or hazard[0] == "stack"


def test_a_vector_that_grew_hides_its_allocator(cuda: PlayedCuda, tmp_path: Path) -> None:
    (tmp_path / "traced").mkdir()
    assert traced(cuda, "port_hidden.cpp", tmp_path / "traced").findings == []
    variables = {name: value for name, value in cuda.environment.items() if name.startswith(("LD_", "STAND", "FIRST"))}
    program = cuda.built(PROGRAMS / "port_hidden.cpp")
    done = call("port", "--json", "--out", tmp_path / "out", "--", program, **variables)
    assert done.returncode == 0, done.stderr
    port = json.loads(done.stdout)
    (searched,) = (row for row in port["searched"] if row["kind"] == "hidden")
    if not searched["searched"]:
        pytest.skip(searched["text"])
    assert [(row["kind"], row["certainty"]) for row in port["findings"]] == [("hidden", "likely")]
