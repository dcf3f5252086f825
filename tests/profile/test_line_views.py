"""What lines cost, as commands and files tell it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from tests.calls import call
from tests.profile.profiles import gpu, mark
from tests.profile.timed import MIB, TimedProgram, stored, training
from tests.schemas import assert_valid

from firsttouch.advice.link import link_speed
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder without results."""
    monkeypatch.chdir(tmp_path)


def test_a_stored_profile_is_shown_again_with_its_lines_first(tmp_path: Path):
    directory = stored(tmp_path / "p", training())
    shown = call("profile", str(directory)).stdout.splitlines()
    places = [next(i for i, text in enumerate(shown) if f"train.py:{at}" in text) for at in (14, 11, 16)]
    assert places == sorted(places)
    assert places[-1] < next(i for i, text in enumerate(shown) if text.startswith("host"))
    assert len(shown) <= 25
    for words in (["--json", str(directory)], [str(directory), "--json"]):
        summary = json.loads(call("profile", *words).stdout)
        assert_valid("profile", summary)
        rows = summary["by_line"]["rows"]
        assert {row["place"]["line"] for row in rows if row["kind"] == "waits"} == {5, 11, 14, 16, 17}


@pytest.mark.parametrize("option", ["--trace", "--follow", "--out=x", "--faults", "--no-inject"])
def test_what_would_be_profiled_is_refused_with_a_stored_profile(option: str, tmp_path: Path):
    stored(tmp_path / "p", training())
    done = call("profile", option, "p")
    assert done.returncode == 2
    assert option.partition("=")[0] in done.stderr


def test_a_journal_tells_what_its_program_did(tmp_path: Path):
    program = training()
    program.wait(500, 30, began=400)
    for version in (2, 3):
        found = summarise(read(stored(tmp_path / f"v{version}", program, version=version))).by_line
        assert found is not None
        expected = program.by_line()
        assert [(row.kind, row.place.line, row.calls, row.h2d, row.d2h, row.memory) for row in found.rows] == [
            (row.kind, row.place.line, row.calls, row.h2d, row.d2h, row.memory) for row in expected.rows
        ]
        assert [row.cost for row in found.rows] == pytest.approx([row.cost for row in expected.rows], abs=1e-6)


def test_the_begin_of_a_wait_is_in_journals_of_version_3(tmp_path: Path):
    program = TimedProgram()
    program.launch(1, (1, 5))
    program.wait(6, 20, began=4.5)
    idle = {}
    for version in (2, 3):
        found = summarise(read(stored(tmp_path / f"v{version}", program, version=version))).by_line
        idle[version] = [round(row.waited * 1e3, 3) for row in found.rows if row.waited] if found else None
    assert idle == {2: [], 3: [1.5]}


def test_ranges_of_libraries_are_no_phases(tmp_path: Path):
    ranges = [("load", "python", ""), ("fusion", "nvtx", "TSL"), ("step", "nvtx", ""), ("cg", "nvtx", "my solver")]
    marks = [
        mark(0.1 * i, name, kind, source=source, domain=domain)
        for i, (name, source, domain) in enumerate(ranges)
        for kind in ("begin", "end")
    ]
    summary = summarise(read(stored(tmp_path / "p", training(0), *marks)))
    assert [phase.name for phase in summary.phases] == ["load", "step", "cg"]
    assert summary.by_line is not None
    assert summary.by_line.library_ranges == {"TSL": 1}
    assert "XLA" in call("profile", str(tmp_path / "p")).stdout
    alone = summarise(read(stored(tmp_path / "q", training(), *marks[2:4])))
    assert alone.phases_found


@pytest.mark.slow
def test_a_damaged_journal_is_told_or_refused(tmp_path: Path):
    directory = stored(tmp_path / "p", training(8), version=3)
    journal, chance = directory / "journal-1-0.bin", random.Random(2)
    whole = journal.read_bytes()
    end = len(whole.rstrip(b"\0"))
    for _ in range(40):
        damaged = bytearray(whole)
        for _ in range(chance.choice((1, 3, 20))):
            damaged[chance.randrange(4096, end)] = chance.choice((0, 255, chance.randrange(256)))
        journal.write_bytes(damaged)
        done = call("profile", str(directory))
        assert done.returncode in (0, 2)
        assert done.stderr.count("\n") == (done.returncode == 2)


RESULTS = Path(__file__).parents[2] / "results" / "h200-standard"


def measured_on(uuid: str, model: str, host: str, directory: Path) -> str:
    """What says what page-locked memory reaches, for a profile of this GPU; '' if nothing does."""
    (directory / "firsttouch-results").mkdir()
    (directory / "firsttouch-results" / "run").symlink_to(RESULTS)
    made = stored(directory / "p", training())
    profile = read(made)
    profile.header.gpus, profile.header.host = [gpu(uuid=uuid, model=model)], host
    link = link_speed(profile)
    if link is None:
        return ""
    seconds = link.seconds("h2d", 64 * MIB), link.seconds("d2h", 64 * MIB)
    assert all(s is not None and 40 < 64 * MIB / s / 1e9 < 64 for s in seconds)  # PCIe 5.0 x16 carries 63 GB/s
    summary = summarise(profile, link)
    assert summary.by_line is not None
    assert summary.by_line.best_from == link.source
    assert next(row for row in summary.by_line.rows if row.place.line == 16 and row.kind == "copies").saves
    return link.source


@pytest.mark.parametrize(
    ("gpu_is", "found"),
    [
        (("GPU-5a76b6e0-dff7-7eaa-b352-20619d6d2fa2", "NVIDIA H200", "elsewhere"), True),
        (("GPU-0", "NVIDIA H200", "vm"), True),
        (("GPU-0", "NVIDIA H200", "elsewhere"), False),  # another machine with the same GPU
        (("GPU-0", "NVIDIA H100", "vm"), False),
    ],
)
def test_results_of_this_machine_say_what_it_can_do(gpu_is: tuple[str, str, str], found: bool, tmp_path: Path):
    assert measured_on(*gpu_is, tmp_path) == ("firsttouch-results/run" if found else "")
