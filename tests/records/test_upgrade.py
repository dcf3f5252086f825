"""Every version of the schema can be read, and a directory is upgraded as a whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import DATA, REQUEST, a_record, fill

from firsttouch.errors import UsageError
from firsttouch.records import schema1
from firsttouch.records.reading import MACHINE, RESULTS, RUN, Results, load_results
from firsttouch.records.schema import MAJOR, MINOR, SCHEMA, Machine, Record, encode
from firsttouch.records.store import Store
from firsttouch.records.upgrade import decode
from firsttouch.report.page import write_report

OLD = sorted((DATA / "firsttouch-1").iterdir())


@pytest.fixture(params=OLD, ids=lambda path: path.name)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A results directory as firsttouch/1 wrote it."""
    return Path(shutil.copytree(request.param, tmp_path / "old"))


def schemas(directory: Path) -> set[str]:
    """The schemas of the files that a reader uses."""
    moved = {path.name: path for path in (directory / ".upgraded").glob("*")}
    machine, request, results = (moved.get(name, directory / name).read_text() for name in (MACHINE, RUN, RESULTS))
    return {json.loads(text)["schema"] for text in (machine, request, *results.splitlines())}


def resume(directory: Path) -> Results:
    """Continues the run, with nothing left to measure."""
    before = load_results(directory)
    assert before.request is not None
    with Store(directory, resume=True) as store:
        machine = store.machine()
        assert machine is not None
        store.describe(machine, before.request)
    return load_results(directory)


# ------------------------------------------------------------------------------------------------------- firsttouch/1


def test_an_old_directory_loads_completely(old):
    found = load_results(old)
    lines = [json.loads(line) for line in (old / RESULTS).read_text().splitlines()]
    assert len(found.records) == len(lines) > 0
    assert not found.warnings
    for record, line in zip(found.records, lines, strict=True):
        now = json.loads(encode(record))
        assert now.items() >= {**line, "schema": SCHEMA}.items()
        assert now["better"] == {"ns": "lower", "ms": "lower", "GB/s": "higher"}[line["unit"]]
        assert (now["metric_version"], now["parties"], now["stated_by"]) == (1, [], "")
    assert schemas(old) == {"firsttouch/1"}, "reading changes nothing"


def test_an_old_directory_has_a_report(old, tmp_path):
    page = write_report([old], tmp_path / "page.html").read_text()
    assert load_results(old).machine.host in page
    assert schemas(old) == {"firsttouch/1"}


def test_an_old_directory_is_upgraded_as_a_whole_when_it_is_resumed(old):
    before = load_results(old)
    after = resume(old)
    assert schemas(old) == {SCHEMA}
    assert (after.machine, after.request, after.records) == (before.machine, before.request, before.records)
    assert sorted(path.name for path in old.iterdir()) == [MACHINE, RESULTS, RUN]
    with Store(old, resume=True) as store:
        store.append(a_record(1))
    assert len(load_results(old).records) == len(before.records) + 1


def test_an_old_directory_that_is_refused_is_not_changed(old):
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    with pytest.raises(UsageError), Store(old, resume=False):
        pass
    with Store(old, resume=True) as store:
        store.machine()  # and here the runner finds that it is another machine
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before


def test_a_cut_last_line_is_dropped_by_the_upgrade(old):
    path = old / RESULTS
    path.write_bytes(path.read_bytes()[:-20])
    left = len(load_results(old).records)
    assert len(resume(old).records) == left
    assert schemas(old) == {SCHEMA}


CHANGES = ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.truncate", "shutil.rmtree")
"""The changes that an upgrade makes on disk, as Python's audit events."""


def _resume_killed_at(directory: Path, number: int) -> bool:
    """Resumes in a process that is killed at its change of this number. False if it ended before."""
    child = os.fork()
    if child == 0:
        left = number

        def count(event: str, _: Any) -> None:
            nonlocal left
            left -= event in CHANGES
            if left < 0:
                os._exit(9)

        sys.addaudithook(count)
        resume(directory)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


def test_killed_at_any_time_a_directory_is_old_or_new_and_never_both(tmp_path):
    source = DATA / "firsttouch-1" / "app"
    before = load_results(source)
    seen: list[str] = []
    for number in range(1000):
        directory = Path(shutil.copytree(source, tmp_path / str(number)))
        killed = _resume_killed_at(directory, number)
        (schema,) = schemas(directory)
        seen.append(schema)
        found = load_results(directory)
        assert (found.machine, found.request, found.records) == (before.machine, before.request, before.records)
        again = resume(directory)
        assert schemas(directory) == {SCHEMA}
        assert again.records == before.records
        assert sorted(path.name for path in directory.iterdir()) == [MACHINE, RESULTS, RUN]
        if not killed:
            break
    assert seen == sorted(seen), "once new, it stays new"
    assert seen.count("firsttouch/1") > 5
    assert seen.count(SCHEMA) > 5


def test_an_upgrade_locks_the_directory_against_other_writers(old):
    with Store(old, resume=True) as store:
        found = load_results(old)
        assert found.request is not None
        store.describe(found.machine, found.request)
        with pytest.raises(UsageError, match="being written by another run"):
            Store(old, resume=True)


def test_an_upgrade_is_not_taken_from_a_link(old, tmp_path):
    other = fill(tmp_path / "other", a_record(5))
    (old / ".upgraded").symlink_to(other)
    assert [r.experiment for r in load_results(old).records] != ["steady"]
    with pytest.raises(UsageError, match="can't write"):
        resume(old)
    assert [r.factors["n"] for r in load_results(other).records] == [5]


def test_an_old_record_has_no_newer_fields(old):
    path = old / RESULTS
    line = json.loads(path.read_text().splitlines()[0]) | {"parties": []}
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match=r"results.jsonl:1: .*unknown field `parties`"):
        load_results(old)


# ------------------------------------------------------------------------------------------- a newer minor version of 2


def newer(record: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(record | {"schema": "firsttouch/2.7"} | more).encode()


def test_what_a_newer_minor_version_adds_is_kept(tmp_path):
    fill(tmp_path, a_record(1))
    record = json.loads((tmp_path / RESULTS).read_text())
    machine, request = (json.loads((tmp_path / name).read_text()) for name in (MACHINE, RUN))
    buffer = {"name": "a", "allocator": "malloc", "bytes": 1, "numa_node": None, "page_bytes": None, "colour": "red"}
    line = newer(record, buffers=[buffer], link={"hops": 2})
    device = {"name": "cpu", "kind": "cpu", "title": "a CPU", "soul": [1, 2]}
    (tmp_path / RESULTS).write_bytes(line + b"\n")
    (tmp_path / MACHINE).write_bytes(newer(machine, devices=[device], owner="me"))
    (tmp_path / RUN).write_bytes(newer(request, ranks=4))

    found = resume(tmp_path)
    assert [warning.split(": ", 1)[1] for warning in found.warnings] == [
        "a newer firsttouch wrote it (firsttouch/2.7); fields unknown to this version are kept and not shown"
    ]
    assert json.loads((tmp_path / RESULTS).read_text()) == json.loads(line)
    kept = json.loads((tmp_path / MACHINE).read_text())
    assert (kept["owner"], kept["devices"][0]["soul"], kept["schema"]) == ("me", [1, 2], "firsttouch/2.7")
    kept = json.loads((tmp_path / RUN).read_text())
    assert (kept["ranks"], kept["schema"], kept["seed"]) == (4, "firsttouch/2.7", REQUEST.seed)

    with Store(tmp_path, resume=True) as store:
        store.append(a_record(2))
    assert len(load_results(tmp_path).records) == 2


def test_a_newer_minor_version_is_still_strict():
    record = json.loads(encode(a_record(1)))
    for wrong in ({"unit": 3}, {"samples": [1e200]}, {"buffers": [{"name": "a"}]}, {"buffers": 3}, {"summary": [1]}):
        with pytest.raises(ValueError, match=r"Expected|missing"):
            decode(newer(record, **wrong), Record)


@pytest.mark.parametrize("schema", [SCHEMA, "firsttouch/1"])
def test_other_unknown_fields_are_refused(schema):
    record = msgspec.to_builtins(schema1.Record(
        schema="firsttouch/1", experiment="e", device="cpu", factors={}, unit="ns", status="ok"
    ))  # fmt: skip
    with pytest.raises(ValueError, match="unknown field `link`"):
        decode(json.dumps(record | {"schema": schema, "link": 1}).encode(), Record)


# ------------------------------------------------------------------------------------------------------- any records

texts = st.text(max_size=20)
integers = st.integers(-(2**63), 2**64 - 1)
numbers = st.floats(-1e100, 1e100)
scalars = st.one_of(texts, integers, numbers, st.booleans(), st.none())
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
old_records = st.builds(
    schema1.Record,
    schema=st.just("firsttouch/1"),
    experiment=texts,
    device=texts,
    factors=st.dictionaries(texts, scalars, max_size=4),
    unit=st.sampled_from(["ns", "GB/s", "furlongs"]),
    status=st.sampled_from(["ok", "skipped", "failed", "timeout", "crashed"]),
    samples=st.lists(numbers, max_size=5),
    counters=st.dictionaries(texts, scalars, max_size=4),
    seed=st.integers(0, 2**63 - 1),
    buffers=st.lists(
        st.builds(schema1.BufferFact, name=texts, allocator=texts, bytes=st.integers(0, 2**40), numa_node=st.none()),
        max_size=2,
    ),
)


@given(old_records)
def test_an_upgraded_record_has_the_values_of_the_old_one(record):
    upgraded, version = decode(msgspec.json.encode(record), Record)
    assert version == (1, 0)
    now = json.loads(encode(upgraded))
    assert now.items() >= {**json.loads(msgspec.json.encode(record)), "schema": SCHEMA}.items()
    assert decode(encode(upgraded), Record) == (upgraded, (MAJOR, MINOR))


unknown_names = texts.filter(lambda name: name not in Record.__struct_fields__)


@given(
    old_records,
    st.dictionaries(unknown_names, json_values, max_size=3),
    st.dictionaries(texts.map(lambda name: f"x-{name}"), json_values, max_size=2),
)
def test_unknown_fields_of_a_newer_minor_version_are_written_back_unchanged(record, fields, inner):
    upgraded, _ = decode(msgspec.json.encode(record), Record)
    document = json.loads(encode(upgraded)) | {"schema": "firsttouch/2.9"} | fields
    document["buffers"] = [buffer | inner for buffer in document["buffers"]]
    found, version = decode(json.dumps(document).encode(), Record)
    assert version == (2, 9)
    assert json.loads(encode(found)) == document


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_garbage_is_refused_with_a_reason(data):
    for kind in (Record, Machine):
        with pytest.raises(ValueError, match=r"."):
            decode(data, kind)
