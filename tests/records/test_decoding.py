"""Records of every minor version of the schema are read, and keep what a newer one added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import REQUEST, a_record, fill

from firsttouch.records.decoding import decode
from firsttouch.records.reading import MACHINE, RESULTS, RUN, Results, load_results
from firsttouch.records.schema import MINOR, SCHEMA, BufferFact, DeviceInfo, Machine, Party, Peer, Record, encode
from firsttouch.records.store import Store


def resume(directory: Path) -> Results:
    """Continues the run, with nothing left to measure."""
    before = load_results(directory)
    assert before.request is not None
    with Store(directory, resume=True) as store:
        machine = store.machine()
        assert machine is not None
        store.describe(machine, before.request)
    return load_results(directory)


# ------------------------------------------------------------------------------------------ an older minor version of 2

ADDED = {
    1: {"suspect", "counters"},
    2: {"earlier"},
    3: {"link", "hops", "peak_in_gbs", "peak_out_gbs", "peak_source"},
    4: {"ranks", "clocks_before", "clocks_after"},
    7: {"stands_for", "every_device"},
}
"""The fields that each minor version added. Some of these names are older in other places: see `without`."""


def without(value: Any, fields: set[str], place: str = "") -> Any:
    """JSON without the fields. Records always had counters and clocks; run.json and parties had not."""
    if isinstance(value, list):
        return [without(item, fields, place) for item in value]
    if not isinstance(value, dict):
        return value
    since_2_0 = {"counters", "clocks_before", "clocks_after"} if place == "record" else set()
    return {n: without(v, fields, n) for n, v in value.items() if n not in fields - since_2_0}


@pytest.mark.parametrize("minor", range(MINOR + 1))
def test_an_older_minor_version_lacks_the_fields_that_were_added_since(tmp_path, minor):
    device = DeviceInfo(name="cuda:0", kind="cuda", title="a GPU", peers=[Peer(name="cuda:1", access="copies")])
    record = a_record(1, counters={"bytes": 5}, parties=[Party(device="cuda:0", rank=1)])
    with Store(tmp_path, resume=False) as store:
        store.describe(Machine(schema=SCHEMA, host="h", created="", firsttouch="0", devices=[device]), REQUEST)
        store.append(record)
    now = load_results(tmp_path)
    since = set[str]().union(*(fields for added, fields in ADDED.items() if added > minor))
    for name in (MACHINE, RUN, RESULTS):
        stored = without(json.loads((tmp_path / name).read_text()), since, "record" if name == RESULTS else name)
        (tmp_path / name).write_text(json.dumps(stored | {"schema": f"firsttouch/2.{minor}"}) + "\n")
    then = load_results(tmp_path)
    assert (then.machine, then.request, then.records, then.warnings) == (now.machine, now.request, now.records, [])
    assert resume(tmp_path).records == now.records


# ------------------------------------------------------------------------------------------- a newer minor version of 2


def newer(record: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(record | {"schema": f"firsttouch/2.{MINOR + 1}"} | more).encode()


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
    (warning,) = found.warnings
    assert f" wrote it (firsttouch/2.{MINOR + 1})" in warning
    assert json.loads((tmp_path / RESULTS).read_text()) == json.loads(line)
    kept = json.loads((tmp_path / MACHINE).read_text())
    assert (kept["owner"], kept["devices"][0]["soul"], kept["schema"]) == ("me", [1, 2], f"firsttouch/2.{MINOR + 1}")
    kept = json.loads((tmp_path / RUN).read_text())
    assert (kept["ranks"], kept["schema"], kept["seed"]) == (4, f"firsttouch/2.{MINOR + 1}", REQUEST.seed)

    with Store(tmp_path, resume=True) as store:
        store.append(a_record(2))
    assert len(load_results(tmp_path).records) == 2


def test_a_newer_minor_version_is_still_strict():
    record = json.loads(encode(a_record(1)))
    for wrong in ({"unit": 3}, {"samples": [1e200]}, {"buffers": [{"name": "a"}]}, {"buffers": 3}, {"summary": [1]}):
        with pytest.raises(ValueError, match=r"Expected|missing"):
            decode(newer(record, **wrong), Record)


@pytest.mark.parametrize("schema", [SCHEMA, "firsttouch/2.0"])
def test_other_unknown_fields_are_refused(schema):
    record = json.loads(encode(a_record(1)))
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
records = st.builds(
    Record,
    schema=st.just(SCHEMA),
    experiment=texts,
    device=texts,
    factors=st.dictionaries(texts, scalars, max_size=4),
    unit=st.sampled_from(["ns", "GB/s", "furlongs"]),
    status=st.sampled_from(["ok", "skipped", "failed", "timeout", "crashed"]),
    samples=st.lists(numbers, max_size=5),
    counters=st.dictionaries(texts, scalars, max_size=4),
    seed=st.integers(0, 2**63 - 1),
    buffers=st.lists(
        st.builds(BufferFact, name=texts, allocator=texts, bytes=st.integers(0, 2**40), numa_node=st.none()),
        max_size=2,
    ),
)


@given(records)
def test_a_record_is_read_as_it_was_written(record):
    assert decode(encode(record), Record) == (record, MINOR)


unknown_names = texts.filter(lambda name: name not in Record.__struct_fields__)


@given(
    records,
    st.dictionaries(unknown_names, json_values, max_size=3),
    st.dictionaries(texts.map(lambda name: f"x-{name}"), json_values, max_size=2),
)
def test_unknown_fields_of_a_newer_minor_version_are_written_back_unchanged(record, fields, inner):
    document = json.loads(encode(record)) | {"schema": "firsttouch/2.9"} | fields
    document["buffers"] = [buffer | inner for buffer in document["buffers"]]
    found, minor = decode(json.dumps(document).encode(), Record)
    assert minor == 9
    assert json.loads(encode(found)) == document


@given(st.binary(max_size=200) | json_values.map(lambda value: json.dumps(value).encode()))
def test_garbage_is_refused_with_a_reason(data):
    for kind in (Record, Machine):
        with pytest.raises(ValueError, match=r"."):
            decode(data, kind)
