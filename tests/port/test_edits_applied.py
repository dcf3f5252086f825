"""The edit list of each discrete port program, applied by machine: the edited program gives the results of the original
on a device that does nothing before the program waits for it. Without the waits of the list, it does not.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.calls import call
from tests.port.edited import edited
from tests.port.played import PlayedCuda

from firsttouch.advice.edit import Edit
from firsttouch.advice.edits import edits
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.reading import findings_of, traced_run
from firsttouch.profile.reading import read
from firsttouch.program.strategies import STRATEGIES

PROGRAMS = Path(__file__).parent / "programs"
NAMES = [
    "port_concurrent.c",
    "port_free_memory.c",
    "port_partial.c",
    "port_static.c",
    "port_hidden.cpp",
    "edit_back_and_forth.c",
    "edit_one_wait_for_all.c",
    "edit_kept_and_filled.c",
]


def edits_of(cuda: PlayedCuda, program: Path, directory: Path) -> Sequence[Edit]:
    variables = {name: value for name, value in cuda.environment.items() if name.startswith(("LD_", "STAND", "FIRST"))}
    done = call("port", "--json", "--out", directory, "--", cuda.built(program), **variables)
    assert done.returncode == 0, done.stderr
    profile = read(directory)
    run = traced_run(profile)
    return edits(run, findings_of(profile, run), Places(profile.callers), STRATEGIES["managed"])


def status(cuda: PlayedCuda, program: Path) -> int:
    """That of a program on a device that is as late as it may be: how many of its results are wrong."""
    variables = {name: value for name, value in cuda.environment.items() if name.startswith("LD_")}
    return subprocess.run([cuda.built(program)], env=variables | {"STANDIN_CUDA_LATE": "1"}, timeout=60).returncode


@pytest.mark.parametrize("name", NAMES)
def test_an_edited_program_gives_the_same_results(cuda: PlayedCuda, name: str, tmp_path: Path) -> None:
    changes = edits_of(cuda, PROGRAMS / name, tmp_path / "traced")
    assert {"allocate", "drop", "wait"} <= {change.what for change in changes}
    source = (PROGRAMS / name).read_text()
    results = {"as it is": status(cuda, PROGRAMS / name)}
    for how, waits in (("edited", True), ("without waits", False)):
        program = tmp_path / f"{how.replace(' ', '_')}_{name}"
        program.write_text(edited(source, changes, waits=waits))
        results[how] = status(cuda, program)
    assert (results["as it is"], results["edited"]) == (0, 0)
    assert results["without waits"] != 0, "the list would be wrong, and the test would not see it"


def test_a_program_whose_copies_all_stay_has_nothing_to_change(cuda: PlayedCuda, tmp_path: Path) -> None:
    """Its only copies go to a variable of the stack."""
    assert edits_of(cuda, PROGRAMS / "port_stack.c", tmp_path) == []
    assert status(cuda, PROGRAMS / "port_stack.c") == 0
