"""Where no look at the host's memory was recorded, every output says that the CPU's use of it is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.port.journals import profile
from tests.port.test_port_findings import names
from tests.port.traces import Calls
from tests.profile import profiles
from tests.texts import assert_states

import firsttouch
from firsttouch.advice.edits import edits
from firsttouch.advice.port.places import Places
from firsttouch.advice.port.reading import findings_of, read_single, traced_run
from firsttouch.cli.ported import lines
from firsttouch.profile.reading import read
from firsttouch.profile.schema import LayerState
from firsttouch.program.strategies import STRATEGIES
from firsttouch.report.ported import ported_page

ASKED = LayerState("host", True)
REFUSED = LayerState("host", False, "what the CPU does with host data is not seen: userfaultfd is refused")
NOT_KNOWN = "the CPU accesses between copies"


def program(*, copies: bool = True, looks: bool = False) -> Calls:
    """One of a few ms, whose arrays are smaller than a page."""
    calls = Calls()
    block, host, result = calls.block(400), calls.host(400), calls.host(400)
    for _ in range(3):
        if copies:
            calls.copy(block, host, 400, line=1)
        calls.launch(block, line=2)
        if copies:
            calls.copy(result, block, 400, line=3)
        if looks:
            calls.host_use(host, 400, read=0)
    return calls


def stored(folder: Path, calls: Calls, *layers: LayerState) -> Path:
    directory = profile(folder / "p", calls.traced)
    profiles.write(directory, *names().values(), command=["/app/p"], layers=[LayerState("sampling", True), *layers])
    return directory


def checked(directory: Path) -> list[list[str]]:
    """The lines whose copies the edit list says to check."""
    single = read_single(directory)
    run = traced_run(single)
    listed = edits(run, findings_of(single, run), Places(single.callers), STRATEGIES["managed"])
    return [edit.lines for edit in listed if edit.what == "check"]


@pytest.mark.parametrize(("layers", "hint"), [([ASKED], "no look"), ([REFUSED], "no look"), ([], "--host")])
def test_every_output_says_that_nothing_is_known_of_the_cpu(
    layers: list[LayerState], hint: str, tmp_path: Path
) -> None:
    directory = stored(tmp_path, program(), *layers)
    assert_states(firsttouch.port(directory)["unseen"], f"{NOT_KNOWN} ... {hint}")
    single = read_single(directory)
    assert_states(lines(findings_of(single, traced_run(single))), f"{NOT_KNOWN} ... {hint}")
    page = ported_page(read(directory))
    assert page is not None
    assert_states(page.unseen, f"{NOT_KNOWN} ... {hint}")
    assert checked(directory) == [["p.cu:1", "p.cu:3"]]
    (listed,) = [table for table in page.tables if table.anchor == "edits"]
    assert_states([row[0] for row in listed.rows], "no look was recorded")


@pytest.mark.parametrize("layers", [[ASKED], []])
def test_where_a_look_was_recorded_the_list_has_nothing_to_check(layers: list[LayerState], tmp_path: Path) -> None:
    directory = stored(tmp_path, program(looks=True), *layers)
    assert not any(NOT_KNOWN in text for text in firsttouch.port(directory)["unseen"])
    assert checked(directory) == []


def test_a_program_without_copies_needs_no_look(tmp_path: Path) -> None:
    directory = stored(tmp_path, program(copies=False), ASKED)
    assert not any(NOT_KNOWN in text for text in firsttouch.port(directory)["unseen"])
    assert checked(directory) == []
