"""Each hazard is found in two small programs, and not in one that only looks like it; nothing else is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.calls import call
from tests.port.played import FIXTURES, PlayedCuda

from firsttouch.advice.port.found import found
from firsttouch.engine import reporting
from firsttouch.profile.call_journal import read_calls
from firsttouch.program.trace import trace


def traced_findings(cuda: PlayedCuda, program: str, form: str, directory: Path) -> list[tuple[str, str]]:
    """Kind and certainty of what is found in a fixture."""
    (calls,) = read_calls(cuda.trace(FIXTURES / program, directory, form))
    return sorted({(finding.kind, finding.certainty) for finding in found(trace(calls), {}).findings})


@pytest.mark.parametrize(
    ("program", "form", "expected"),
    [
        ("concurrent.c", "frame", [("concurrent", "likely")]),
        ("concurrent.c", "turns", [("concurrent", "likely")]),
        ("concurrent.c", "waits", []),
        ("free_memory.c", "sizes", [("free-memory", "seen")]),
        ("free_memory.c", "logs", [("free-memory", "seen")]),
        ("free_memory.c", "total", []),
        ("partial.c", "scalar", [("partial", "seen")]),
        ("partial.c", "first", [("partial", "seen")]),
        ("partial.c", "padded", []),
        ("stack.c", "flag", [("stack", "seen")]),
        ("stack.c", "dead", [("stack", "seen")]),
        ("stack.c", "heap", []),
        ("static.c", "device", [("static", "seen")]),
        ("static.c", "host", [("static", "seen")]),
        ("static.c", "pointer", []),
    ],
)
def test_a_program_has_its_hazard_and_no_other(
    cuda: PlayedCuda, program: str, form: str, expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    assert traced_findings(cuda, program, form, tmp_path) == expected


@pytest.mark.parametrize(
    ("form", "option", "expected"),
    [
        ("vector", "-O1", [("hidden", "likely")]),
        ("sized", "-O0", [("hidden", "likely")]),
        ("sized", "-O2", [("hidden", "likely")]),
        ("filled", "-O2", []),
        ("program", "-O1", []),
    ],
)
def test_first_touches_tell_of_a_hidden_allocator(
    cuda: PlayedCuda,
    form: str,
    option: str,
    expected: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reporting, "write_report", lambda directory: "")
    variables = {name: value for name, value in cuda.environment.items() if name.startswith(("LD_", "STAND", "FIRST"))}
    program = cuda.built(FIXTURES / "hidden.cpp", option)
    done = call("port", "--json", "--out", tmp_path / "out", "--", program, form, **variables)
    assert done.returncode == 0, done.stderr
    port = json.loads(done.stdout)
    (searched,) = (row for row in port["searched"] if row["kind"] == "hidden")
    if not searched["searched"]:
        pytest.skip(searched["text"])
    assert [(row["kind"], row["certainty"]) for row in port["findings"]] == expected
