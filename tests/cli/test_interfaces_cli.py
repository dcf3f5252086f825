"""`firsttouch interfaces`: the answer on one screen, everything in JSON, and one sentence for a wrong call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.calls import invoke
from tests.kept_runs import ROOT, stored_run
from tests.movements import COPY, curve, rates, record
from tests.node_of_gpus import Node, results, write
from tests.texts import assert_states

import firsttouch
from firsttouch.base.errors import UsageError
from firsttouch.cli import interfaces
from firsttouch.cli.interfaces import LINES
from firsttouch.records.schema import SCHEMA, Machine, Record
from firsttouch.report.interface_answers import interfaces_section

OWN = [*curve("kernel", rates(4, 8, 10, 10)), *curve("copy-engine", rates(1, 4, 20, 30))]


@pytest.fixture
def written(tmp_path: Path) -> Callable[[list[Record]], Path]:
    def write(records: list[Record]) -> Path:
        machine = Machine(schema=SCHEMA, host="h", created="2026-01-01", firsttouch="0")
        (tmp_path / "machine.json").write_bytes(msgspec.json.encode(machine))
        (tmp_path / "results.jsonl").write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in records))
        return tmp_path

    return write


Write = Callable[[list[Record]], Path]
Out = pytest.CaptureFixture[str]


def test_the_answer_is_the_run_of_the_fastest_over_the_size(written: Write, capsys: Out) -> None:
    directory = written(OWN)
    invoke(interfaces.command, directory)
    out, data = " ".join(capsys.readouterr().out.split()), firsttouch.interfaces(directory)
    (answer,) = data["answers"]
    assert [row["fastest"] for row in data["rows"]] == [["kernel"], ["kernel"], ["copy-engine"], ["copy-engine"]]
    faster = ("kernel to 64 KiB (up to 4 times as fast, at 4 KiB)", "copy-engine from 1 MiB (up to 3 times as fast")
    assert_states(answer["text"], *faster)
    assert out.startswith(data["summary"])
    assert_states(data["summary"], "Copies: kernel", "2 of 4 cases", "copy-engine in 2", "1 of 1 comparison")
    assert f"{answer['shared']} {answer['text']}" in out
    invoke(interfaces.command, directory, everything=True)
    assert "kernel to copy-engine between 64 KiB and 1 MiB" in " ".join(capsys.readouterr().out.split())


def test_a_tie_and_a_single_interface_are_named(written: Write, capsys: Out) -> None:
    pinned = [record("p2p-copy", 5, {"engine": "kernel", **COPY, "target": "pinned", "size": 64})]
    invoke(interfaces.command, written([*curve("kernel", rates(4)), *curve("copy-engine", rates(4)), *pinned]))
    out = capsys.readouterr().out
    assert "copy-engine or kernel at 4 KiB" in out
    assert "in any of 1 case." in out
    assert "one interface only" in out
    assert "Copies by kernel: gpu:0 to gpu:1, device to pinned memory" in out


def test_many_movements_fit_on_one_screen_but_all_are_there_if_asked_for(written: Write, capsys: Out) -> None:
    records = [
        one
        for n in range(60)
        for engine, rate in (("kernel", 10 + n), ("copy-engine", 39))
        for one in [record("p2p-copy", rate, {"engine": engine, **COPY, "peer": f"gpu:{n + 1}", "size": 64 << n % 20})]
    ]
    invoke(interfaces.command, written(records))
    out = capsys.readouterr().out
    assert "more: --all" in out
    assert len(out.splitlines()) <= LINES
    assert max(map(len, out.splitlines())) <= 100
    invoke(interfaces.command, written(records), everything=True)
    assert "more: --all" not in capsys.readouterr().out


def test_json_has_every_row_and_crossover_and_is_what_python_returns(written: Write, capsys: Out) -> None:
    directory = written(OWN)
    invoke(interfaces.command, directory, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert data == firsttouch.interfaces(directory)
    assert len(data["rows"]) == 4
    assert data["rows"][3]["fastest"] == ["copy-engine"]
    assert data["rows"][3]["ratio"]["value"] == pytest.approx(3)
    (crossover,) = data["crossovers"]
    assert (crossover["smaller"], crossover["larger"]) == (64 * 2**10, 2**20)
    assert (crossover["before"], crossover["after"]) == ("kernel", "copy-engine")
    assert firsttouch.interfaces(directory, kind="copy")["rows"] == data["rows"]


@pytest.mark.parametrize(
    ("records", "kind", "said"),
    [
        (OWN, ["copies"], "unknown kind 'copies' (did you mean 'copy'?) ... direct, copy, message"),
        (OWN, ["message"], "no points of p2p-message ... `firsttouch run p2p-message --ranks 2`"),
        ([record("latency", 1, {"size": 64})], [], "no points of p2p-direct, p2p-copy, p2p-message or collective"),
        (curve("kernel", rates(1, 2), verified=False), ["copy"], "2 points of p2p-copy, none"),
    ],
)
def test_a_wrong_call_says_what_to_do(records: list[Record], kind: list[str], said: str, written: Write) -> None:
    with pytest.raises(UsageError, match=r"^[^\n]*$") as error:
        invoke(interfaces.command, written(records), kind)
    assert_states(str(error.value), said)


def test_pairs_with_the_same_answer_are_one_row(tmp_path: Path, capsys: Out) -> None:
    node = Node(slow_pair=(2, 5))
    directory = write(node, tmp_path / "node")
    invoke(interfaces.command, directory, ["copy", "message"], everything=True)
    out = " ".join(capsys.readouterr().out.split())
    assert "55 pairs (not cuda:0 to cuda:1) xccl at 64 MiB (up to" in out
    assert_states(out.split(". ")[0], "Copies: no interface", "27 cases")
    assert out.split(". ")[1].startswith("Messages: xccl ")
    section = interfaces_section(results(node).records)
    assert section
    assert len(section.rows) < 250
    (row,) = (r for r in section.rows if "all 56 pairs, device memory, 2 ranks" in r[1] and "bandwidth" in r[0])
    assert row[3] == "xccl"
    assert "xccl 194 GB/s to 365 GB/s, mpi-staged 11 GB/s" in row[-1]


def test_the_docs_quote_what_is_printed(capsys: Out) -> None:
    invoke(interfaces.command, stored_run("h200-pairs"), ["copy"])
    page = (ROOT / "docs/interfaces.md").read_text()
    for line in capsys.readouterr().out.splitlines():
        assert line.strip() in page


def test_results_of_real_machines_are_answered(capsys: Out) -> None:
    invoke(interfaces.command, stored_run("h200-message"))
    assert "mpi from 1 B to 1 GiB" in capsys.readouterr().out
    invoke(interfaces.command, stored_run("h200-collective"))
    assert "no choice to compare" in capsys.readouterr().out
    invoke(interfaces.command, stored_run("h200-pairs"), ["copy"])
    assert_states(capsys.readouterr().out, "kernel at 16 MiB (1.07 times as fast), copy-engine or peer-call")
