"""results.jsonl: append-only, strict, one writer."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

import firsttouch
from firsttouch.errors import UsageError
from firsttouch.run.store import MACHINE, RESULTS, RUN, Store, load_results, point_key
from firsttouch.schema import SCHEMA, Machine, Record, Request, Summary


def a_record(n: int, **more: object) -> Record:
    fields = {"schema": SCHEMA, "experiment": "steady", "device": "cpu", "factors": {"n": n}, "unit": "ns"}
    return Record(**(fields | {"status": "ok", "samples": [1.0]} | more))  # type: ignore[arg-type]


MACHINE_HERE = Machine(schema=SCHEMA, host=socket.gethostname(), created="now", firsttouch="0")
REQUEST = Request(schema=SCHEMA, experiments=["steady"], devices=["cpu"], preset="quick", seed=1)


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A directory with three records."""
    directory = tmp_path / "out"
    with Store(directory, resume=False) as store:
        store.describe(MACHINE_HERE, REQUEST)
        for n in range(3):
            store.append(a_record(n))
    return directory


def test_what_was_appended_is_loaded(held):
    results = load_results(held)
    assert [r.factors["n"] for r in results.records] == [0, 1, 2]
    assert (results.machine, results.request, results.warnings) == (MACHINE_HERE, REQUEST, [])


def test_a_record_is_on_the_disk_before_append_returns(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.fstat(file).st_size))
    with Store(tmp_path / "out", resume=False) as store:
        store.append(a_record(1))
        assert synced[-1] == (tmp_path / "out" / RESULTS).stat().st_size > 0


@pytest.mark.parametrize("cut", [1, 2, 50, -2])
def test_a_last_line_cut_short_is_dropped_with_a_warning(held, cut):
    path = held / RESULTS
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:cut])
    results = load_results(held)
    assert [r.factors["n"] for r in results.records] == [0, 1]
    assert results.warnings == [f"{path}:3: the last line was cut short and is dropped"]
    with Store(held, resume=True) as store:
        assert len(store.held) == 2
        store.append(a_record(9))
    assert [r.factors["n"] for r in load_results(held).records] == [0, 1, 9]


def test_a_whole_last_line_without_its_end_is_kept(held):
    path = held / RESULTS
    path.write_bytes(path.read_bytes()[:-1])
    with Store(held, resume=True) as store:
        assert len(store.held) == 3
        store.append(a_record(9))
    assert [r.factors["n"] for r in load_results(held).records] == [0, 1, 2, 9]


BROKEN = {
    "cut": (b'{"schema":"firsttouch/1","exp', "out/results.jsonl:2: "),
    "empty": (b"", "results.jsonl:2: "),
    "no object": (b"[1,2]", "results.jsonl:2: .*object"),
    "unknown field": (json.dumps(json.loads(b"{}") | {"surprise": 1}).encode(), "results.jsonl:2: .*"),
    "foreign schema": (b'{"schema":"other/7","data":[]}', "results.jsonl:2: schema 'other/7' .*'firsttouch/1'"),
    "not text": (b'{"schema":"\xff\xfe"}', "results.jsonl:2: "),
    "nul": (b"\0" * 100, "results.jsonl:2: "),
    "odd status": (b'{"schema":"firsttouch/1","status":"splendid"}', "results.jsonl:2: .*splendid"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_line_in_the_middle_is_refused_with_its_number(held, name):
    line, message = BROKEN[name]
    path = held / RESULTS
    lines = path.read_bytes().split(b"\n")
    lines[1] = line
    path.write_bytes(b"\n".join(lines))
    before = path.read_bytes()
    with pytest.raises(UsageError, match=message):
        load_results(held)
    with pytest.raises(UsageError, match=message):
        Store(held, resume=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", [MACHINE, RUN])
def test_foreign_documents_are_refused(held, name):
    (held / name).write_text('{"schema": "firsttouch/99"}')
    with pytest.raises(UsageError, match=rf"{name}: schema 'firsttouch/99'"):
        load_results(held)


def test_a_directory_without_results_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"holds no results\.jsonl"):
        load_results(tmp_path)


def test_results_are_refused_without_resume(held):
    before = (held / RESULTS).read_bytes()
    with pytest.raises(UsageError, match=r"already holds results.*--resume"):
        Store(held, resume=False)
    assert (held / RESULTS).read_bytes() == before


def test_two_writers_of_one_directory(tmp_path):
    with Store(tmp_path, resume=False) as first:
        with pytest.raises(UsageError, match="being written by another run"):
            Store(tmp_path, resume=True)
        first.append(a_record(1))
    with Store(tmp_path, resume=True) as second:
        assert len(second.held) == 1


@pytest.mark.parametrize("path", ["/proc/none", "/dev/null/below", "/dev/null"])
def test_a_directory_that_cannot_be_written(path):
    with pytest.raises(UsageError, match=f"can't write {path}: .*give a directory that can be written"):
        Store(Path(path), resume=False)


def test_documents_are_replaced_as_a_whole(held, monkeypatch):
    def stop(file: int) -> None:
        raise OSError(28, "No space left on device")

    with Store(held, resume=True) as store:
        monkeypatch.setattr(os, "fsync", stop)
        with pytest.raises(UsageError, match="No space left"):
            store.describe(MACHINE_HERE, Request(schema=SCHEMA, experiments=[], devices=[], preset="full", seed=9))
        monkeypatch.undo()
    assert load_results(held).request == REQUEST


def test_the_key_is_canonical():
    assert (
        point_key("e", "d", {"b": 1, "a": "x"})
        == point_key("e", "d", {"a": "x", "b": 1})
        == '["e","d",{"a":"x","b":1}]'
    )


def test_load_gives_flat_rows_of_equal_columns(held):
    with Store(held, resume=True) as store:
        summary = Summary(n=1, median=2.0, p5=1, p95=3, min=1, max=3, ci_low=1, ci_high=3)
        store.append(a_record(7, summary=summary, counters={"faults": 3}, factors={"n": 7, "size": 4096}))
    rows = firsttouch.load(held)
    assert len({tuple(row) for row in rows}) == 1
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    assert columns["factors.n"] == [0, 1, 2, 7]
    assert columns["factors.size"] == [None, None, None, 4096]
    assert columns["summary.median"] == [None, None, None, 2.0]
    assert columns["counters.faults"] == [None, None, None, 3]
    assert columns["samples"] == [[1.0]] * 4
    assert not any(isinstance(value, dict) for row in rows for value in row.values())
