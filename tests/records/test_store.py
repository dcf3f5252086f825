"""results.jsonl is append-only, is decoded strictly, and has one writer."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from pathlib import Path

import msgspec
import pytest
from stored import MACHINE_HERE, REQUEST, a_record, fill

from firsttouch.base.errors import UsageError
from firsttouch.records.reading import RESULTS, load_results
from firsttouch.records.schema import SCHEMA, Request
from firsttouch.records.store import Store


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
    (warning,) = results.warnings
    assert warning.startswith(f"{path}:3: ")
    assert "cut short" in warning
    with Store(held, resume=True) as store:
        assert len(store.keys) == 2
        store.append(a_record(9))
    assert [r.factors["n"] for r in load_results(held).records] == [0, 1, 9]


def test_a_complete_last_line_without_newline_is_kept(held):
    path = held / RESULTS
    path.write_bytes(path.read_bytes()[:-1])
    with Store(held, resume=True) as store:
        assert len(store.keys) == 3
        store.append(a_record(9))
    assert [r.factors["n"] for r in load_results(held).records] == [0, 1, 2, 9]


def test_results_are_refused_without_resume(held):
    before = (held / RESULTS).read_bytes()
    with pytest.raises(UsageError, match=r"already holds results.*--resume"):
        Store(held, resume=False)
    assert (held / RESULTS).read_bytes() == before


def test_two_writers_of_one_directory(tmp_path):
    with Store(tmp_path, resume=False) as first:
        with pytest.raises(UsageError, match="written by another run"):
            Store(tmp_path, resume=True)
        first.append(a_record(1))
    with Store(tmp_path, resume=True) as second:
        assert len(second.keys) == 1


def test_two_runs_without_a_name_in_the_same_second(tmp_path):
    with (
        Store(tmp_path / "host", resume=False, own=True) as first,
        Store(tmp_path / "host", resume=False, own=True) as b,
    ):
        first.append(a_record(1))
        b.append(a_record(2))
        assert [store.directory.name for store in (first, b)] == ["host", "host-2"]
    assert all((tmp_path / name / RESULTS).read_bytes().count(b"\n") == 1 for name in ("host", "host-2"))


@pytest.mark.parametrize("error", ["ENOLCK", "ENOSYS", "EOPNOTSUPP", "EINVAL", "EIO"])
def test_a_file_system_without_locks(held, monkeypatch, error):
    def refuse(file: int, operation: int) -> None:
        raise OSError(getattr(errno, error), "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Store(held, resume=True) as store:
        store.append(a_record(9))
        (warning,) = store.warnings
        assert f"{held} has no locks (No locks" in warning
    assert len(load_results(held).records) == 4


def test_a_file_system_that_does_not_sync(tmp_path, monkeypatch):
    def refuse(file: int) -> None:
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    fill(tmp_path / "out", a_record(1))
    assert len(load_results(tmp_path / "out").records) == 1


@pytest.mark.parametrize("path", ["/proc/none", "/dev/null/below", "/dev/null"])
def test_a_directory_that_cannot_be_written(path):
    with pytest.raises(UsageError, match=f"can't write {path}: "):
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


def test_the_last_record_of_a_point_counts(held):
    with Store(held, resume=True) as store:
        store.append(a_record(1, samples=[2.0]))
        assert len(store.records) == 3
    lines = (held / RESULTS).read_text().splitlines()
    assert len(lines) == 4
    records = load_results(held).records
    assert [(r.factors["n"], r.samples) for r in records] == [(0, [1.0]), (1, [2.0]), (2, [1.0])]


def test_what_crashed_or_timed_out_is_tried_once_more(tmp_path):
    ends = ("ok", "skipped", "failed", "timeout", "crashed")
    fill(tmp_path, *(a_record(n, status=status) for n, status in enumerate(ends)))

    def numbers(keys: set[str]) -> list[int]:
        return sorted(json.loads(key)[2]["n"] for key in keys)

    with Store(tmp_path, resume=True) as store:
        assert numbers(store.to_retry()) == [3, 4]
        assert numbers(store.to_retry(all_failures=True)) == [2, 3, 4]
        store.append(a_record(3, status="timeout"))
        store.append(a_record(4, status="ok"))
    with Store(tmp_path, resume=True) as store:
        assert numbers(store.to_retry()) == []
        assert numbers(store.to_retry(all_failures=True)) == [2, 3]


def test_readers_see_whole_records_while_another_process_writes(tmp_path):
    fill(tmp_path, a_record(0))
    seen: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(len(load_results(tmp_path).records))

    reader = threading.Thread(target=read)
    with Store(tmp_path, resume=True) as store:
        reader.start()
        for n in range(1, 30):
            store.append(a_record(n))
        done.set()
    reader.join()
    assert seen == sorted(seen)
    assert len(load_results(tmp_path).records) == 30


def test_file_names_that_are_not_valid_unicode_can_be_stored(tmp_path):
    request = msgspec.structs.replace(REQUEST, modules=["caf\udce9.py", "café.py"])
    with Store(tmp_path, resume=False) as store:
        store.describe(MACHINE_HERE, request)
    found = load_results(tmp_path).request
    assert found is not None
    assert found.modules == ["caf\\udce9.py", "café.py"]
