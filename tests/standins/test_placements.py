"""Placements on the HIP device of the stand-in: single buffers, the published ones, and the search for better ones.

This tests what the driver is told and what is recorded. The stand-in moves no page, so its times mean nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command import app
from tests.matrix import matrix

from firsttouch.harness.outcomes import report

TINY = ("--size", "tiny", "--repeat", "1")
APU = {"STANDIN_INTEGRATED": "1", "STANDIN_ARCH": "gfx942:sramecc+"}


def words(name: str, values: list[str]) -> list[str]:
    return [word for value in values for word in (name, value)]


@pytest.mark.parametrize("settings", matrix([{}, APU], 1))
def test_single_buffers_and_the_published_declarations(settings: dict[str, str], tmp_path: Path) -> None:
    set_ = words("--set", ["placement=strategy,paper", "advice.call=preferred-cpu+accessed-by-gpu", "prefetch.put=cpu"])
    records = app(tmp_path / "out", "black_scholes", "--strategy", "managed+both", *set_, *TINY, **settings)
    assert [r.factors["placement"] for r in records] == ["strategy", "paper"]
    for record in records:
        assert (record.status, record.reason, record.verified) == ("ok", "", True)
        assert record.factors["advice.call"] == "preferred-cpu+accessed-by-gpu"
        assert record.factors["prefetch.put"] == "cpu"


def call(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "firsttouch.cli.main", "app", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=os.environ | settings)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "settings", "told"),
    [
        (["hotspot", "--set", "advice.powr=none"], {}, "unknown factor 'advice.powr' (did you mean 'advice.power'?)"),
        (
            ["hotspot", "--set", "advice.power=read-mosty"],
            {},
            "(did you mean 'read-mostly'?)",
        ),
        (["hotspot", "--set", "prefetch.next=cpu"], {}, "unknown prefetch.next 'cpu'"),
        (["hotspot", "--set", "placement=papr"], {}, "unknown placement 'papr' (did you mean 'paper'?)"),
        (["cfd", "--set", "placement=paper"], {}, "cfd has no published version"),
        (["hotspot", "--set", "advice.power=none"], {"STANDIN_CONCURRENT": "0"}, "no concurrent managed access"),
        (["graph500_bfs", "--set", "advice.next=none"], {}, "buffer next of graph500_bfs is device memory"),
        (["hotspot", "--placements", "--set", "placement=paper"], {}, "leave out --set placement"),
    ],
)
def test_the_message_for_what_cannot_be_set(
    options: list[str], settings: dict[str, str], told: str, tmp_path: Path
) -> None:
    where = ("--device", "hip:0", "--strategy", "managed", "--out", str(tmp_path / "out"))
    done = call(*options, *where, *TINY, **settings)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert told in done.stderr


@pytest.mark.exhaustive
def test_a_search_is_ranked_and_survives_its_end_at_any_point(tmp_path: Path) -> None:
    out = tmp_path / "out"
    records = app(out, "lud", "--placements", "--strategy", "managed", "--strategy", "managed+both", *TINY)
    assert {r.verified for r in records} == {True}
    tried = [str(r.factors["placement"]) for r in records]
    assert tried[:2] == ["strategy"] * 2
    assert 3 <= len(set(tried)) - 1 <= 4
    lines = (out / "results.jsonl").read_text().splitlines(keepends=True)
    for kept in (1, len(lines) - 1):
        (out / "results.jsonl").write_text("".join(lines[:kept]))
        done = call("--resume", "--out", str(out), "--json")
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
        keys = {(r["factors"]["strategy"], r["factors"]["placement"]) for r in found}
        assert len(keys) == len(found)  # no point is measured twice
        ranked = json.loads(done.stdout)["placements"]
        assert {(line["strategy"], line["placement"]) for line in ranked} == keys
        finals = [line["total_ms"] for line in ranked if line["finalist"]]
        assert finals == sorted(finals)
    assert report.PLACEMENTS.title in (out / "report.html").read_text()
