"""Experiments with two devices from outside the package, on two devices of PoCL, as a user runs them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
from tests.calls import call

from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record

ROOT = Path(__file__).parents[2]
COPIES = ROOT / "docs/examples/neighbour.py"
LOADS = Path(__file__).parent / "far_chase.py"
TWO = ("opencl:0", "opencl:1")


def run(
    out: Path, *words: str, status: int = 0, module: Path = COPIES, drawn: bool = False
) -> subprocess.CompletedProcess[str]:
    experiment = {COPIES: "neighbour", LOADS: "far-chase"}[module]
    asked = ("run", experiment, "--module", module, "--out", out, *words)
    done = call(*asked, drawn=drawn, POCL_DEVICES="pthread pthread")
    if "'opencl:0' is not available" in done.stderr and not os.environ.get("CI"):
        pytest.skip(done.stderr)
    assert done.returncode == status, done.stderr
    return done


def on(*devices: str) -> list[str]:
    return [word for device in devices for word in ("--device", device)]


def records(out: Path) -> list[Record]:
    return list(load_results(out).records)


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of copies between both devices."""
    out = tmp_path_factory.mktemp("copies") / "out"
    run(out, *on(*TWO), "--set", "size=64KiB", drawn=True)
    return out


@pytest.mark.slow
def test_each_device_is_tried_with_itself_and_with_the_other(copies: Path) -> None:
    found = [(r.device, r.text("peer"), r.text("direction")) for r in records(copies)]
    assert found == [
        (device, peer, direction) for device, other in (TWO, TWO[::-1]) for peer in ("self", other)
        for direction in ("to", "from")
    ]  # fmt: skip
    assert {(r.status, r.verified) for r in records(copies)} == {("ok", True)}


@pytest.mark.slow
def test_the_record_names_who_took_part_where_there_were_two(copies: Path) -> None:
    for record in records(copies):
        named = [party.device for party in record.parties]
        other = record.text("peer")
        assert named == ([] if other == "self" else [record.device, other])
        assert {party.host for party in record.parties} <= {socket.gethostname()}
        assert all(party.processors for party in record.parties)


@pytest.mark.exhaustive
def test_resume_measures_only_the_points_that_are_missing(copies: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(out, *on(*TWO), "--set", "size=64KiB")
    lines = (out / "results.jsonl").read_bytes().splitlines(keepends=True)
    (out / "results.jsonl").write_bytes(b"".join(lines[:-3]))
    again = run(out, "--resume", *on(*TWO), "--set", "size=64KiB")
    assert "3 points to measure, 5 already measured" in again.stderr
    assert (out / "results.jsonl").read_bytes().startswith(b"".join(lines[:-3]))
    assert [(r.device, r.factors) for r in records(out)] == [(r.device, r.factors) for r in records(copies)]


@pytest.mark.exhaustive
def test_one_chosen_device_has_itself_for_a_peer_until_set_names_another(tmp_path: Path) -> None:
    run(tmp_path / "alone", *on("opencl:0"), "--set", "size=64KiB")
    assert {r.factors["peer"] for r in records(tmp_path / "alone")} == {"self"}
    run(tmp_path / "named", *on("opencl:0"), "--set", "size=64KiB", "--set", "peer=opencl:1")
    assert {(r.device, r.factors["peer"]) for r in records(tmp_path / "named")} == {TWO}


def test_an_unknown_peer_is_reported(tmp_path: Path) -> None:
    wrong = run(tmp_path / "out", *on("opencl:0"), "--set", "peer=opencl:7", status=2)
    assert wrong.stderr == (
        "firsttouch: unknown peer 'opencl:7' (did you mean 'opencl:1'?); accepted: self, opencl:1\n"
    )  # fmt: skip
    assert not (tmp_path / "out").exists()


def test_a_device_without_a_chosen_peer_says_how_to_choose_one(tmp_path: Path) -> None:
    wrong = run(tmp_path / "out", *on("opencl:0"), status=2, module=LOADS)
    assert "far-chase on opencl:0 needs a peer; accepted: opencl:1, by --device or --set peer=" in wrong.stderr


def test_the_list_shows_peers(tmp_path: Path) -> None:
    assert "peer self, opencl:1; direction to, from" in run(tmp_path / "out", *on(*TWO), "--list").stdout


@pytest.mark.slow
def test_a_device_works_in_the_memory_of_its_peer(tmp_path: Path) -> None:
    run(tmp_path / "out", *on(*TWO), "--set", "size=64KiB", module=LOADS)
    assert [(r.device, r.counters["owner"], r.status, r.verified) for r in records(tmp_path / "out")] == [
        ("opencl:0", "opencl:1", "ok", True),
        ("opencl:1", "opencl:0", "ok", True),
    ]


@pytest.mark.slow
def test_the_report_has_one_section_with_both_devices(copies: Path) -> None:
    page = (copies / "report.html").read_text()
    (question,) = re.findall(r"<h\d[^>]*>How fast do bytes move between two devices\?", page)
    section = page[page.index(question) :]
    assert "opencl:0" in section
    assert "opencl:1" in section
    assert re.search(r"Fastest: [^<]* GB/s[^<]* on opencl:[01], (to|from) the memory of", section)
