"""Reading a results directory, which may be untrusted."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import MACHINE_HERE, REQUEST, a_record, fill

import firsttouch
from firsttouch.base.errors import UsageError
from firsttouch.records.reading import MACHINE, RESULTS, RUN, has_results, load_results, point_key, read_request
from firsttouch.records.schema import Party, Summary, comparable
from firsttouch.records.store import Store


def test_what_was_appended_is_loaded(held):
    results = load_results(held)
    assert [r.factors["n"] for r in results.records] == [0, 1, 2]
    assert (results.machine, results.request, results.warnings) == (MACHINE_HERE, REQUEST, [])


OURS = b'"schema":"firsttouch/2.0","experiment":"e","device":"cpu","factors":{},"unit":"ns","status":"ok"'
BROKEN = {
    "cut": (b'{"schema":"firsttouch/2.0","exp', "results.jsonl:2: "),
    "empty": (b"", "results.jsonl:2: "),
    "no object": (b"[1,2]", "results.jsonl:2: .*object"),
    "no schema": (b'{"surprise":1}', "results.jsonl:2: schema None is none of those"),
    "unknown field": (b"{" + OURS + b',"surprise":1}', "results.jsonl:2: .*unknown field `surprise`"),
    "foreign schema": (b'{"schema":"other/7","data":[]}', "results.jsonl:2: schema 'other/7' .*'firsttouch/2.N'"),
    "a later schema": (b'{"schema":"firsttouch/3.0"}', "'firsttouch/3.0' is none .*; a newer firsttouch wrote it"),
    "an earlier schema": (b'{"schema":"firsttouch/1"}', "schema 'firsttouch/1' is none of those"),
    "an earlier major": (b'{"schema":"firsttouch/1.0"}', "schema 'firsttouch/1.0' is none of those.*'firsttouch/2.N'$"),
    "no minor": (b'{"schema":"firsttouch/2"}', "schema 'firsttouch/2' is none of those"),
    "odd minor": (b'{"schema":"firsttouch/2.01"}', "schema 'firsttouch/2.01' is none of those"),
    "a number": (b'{"schema":2.0}', "schema 2.0 is none of those"),
    "not text": (b'{"schema":"\xff\xfe"}', "results.jsonl:2: "),
    "nul": (b"\0" * 100, "results.jsonl:2: "),
    "odd status": (b'{"schema":"firsttouch/2.0","status":"splendid"}', "results.jsonl:2: .*splendid"),
    "deep": (b'{"a":' + b"[" * 100_000, "results.jsonl:2: it is nested too deeply"),
    "deep factor": (b"{" + OURS + b',"counters":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}}", "results.jsonl:2: "),
    "large integer": (b"{" + OURS + b',"counters":{"a":18446744073709551616}}', "results.jsonl:2: .*2\\^64"),
    "larger integer": (b"{" + OURS + b',"counters":{"a":1' + b"0" * 400 + b"}}", "results.jsonl:2: .*2\\^64"),
    "large bytes": (
        b"{" + OURS + b',"buffers":[{"name":"a","allocator":"malloc","bytes":18446744073709551616}]}',
        "results.jsonl:2: .*bytes",
    ),
    "samples that overflow": (b"{" + OURS + b',"samples":[1e308,1e308]}', "results.jsonl:2: .*samples"),
    "infinite": (b"{" + OURS + b',"samples":[1e999]}', "results.jsonl:2: .*out of range"),
    "nan": (b"{" + OURS + b',"samples":[NaN]}', "results.jsonl:2: "),
    "negative seed": (b"{" + OURS + b',"seed":-1}', "results.jsonl:2: .*seed"),
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
    (held / name).write_text('{"schema": "firsttouch/99.0"}')
    with pytest.raises(UsageError, match=rf"{name}: schema 'firsttouch/99.0'"):
        load_results(held)


def test_a_directory_without_results_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"holds no results\.jsonl"):
        load_results(tmp_path)


def test_the_key_is_canonical():
    assert (
        point_key("e", "d", {"b": 1, "a": "x"})
        == point_key("e", "d", {"a": "x", "b": 1})
        == '["e","d",{"a":"x","b":1}]'
    )


def test_load_returns_flat_rows_with_equal_columns(held):
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


def test_load_has_columns_for_parties_and_metric(tmp_path):
    party = Party(device="cuda:1", rank=3, host="node7", numa_node=1, processors="0-3,8")
    rows = firsttouch.load(fill(tmp_path, a_record(1, better="lower", parties=[party], stated_by="methods --verify")))
    assert rows[0]["parties"] == [
        {
            "device": "cuda:1",
            "rank": 3,
            "host": "node7",
            "numa_node": 1,
            "processors": "0-3,8",
            "clocks_before": None,
            "clocks_after": None,
        }
    ]
    assert (rows[0]["better"], rows[0]["metric_version"]) == ("lower", 1)
    assert rows[0]["stated_by"] == "methods --verify"


def test_records_with_equal_metrics_are_comparable():
    assert comparable(a_record(1), a_record(2, device="cuda:0"))
    assert not comparable(a_record(1), a_record(1, metric_version=2))
    assert not comparable(a_record(1), a_record(1, unit="ms"))
    assert not comparable(a_record(1), a_record(1, experiment="other"))


@pytest.mark.parametrize("content", [b"precious notes", b"\0\0\0", b'{"title":"mine', b"[1, 2", b'{"a":1}'])
def test_a_foreign_file_is_refused_and_kept(held, content):
    path = held / RESULTS
    path.write_bytes(content)
    for refused in (lambda: load_results(held), lambda: Store(held, resume=True)):
        with pytest.raises(UsageError, match=r"results\.jsonl:1: "):
            refused()
    assert path.read_bytes() == content


SEEDS = ["-1", "1.5", "9223372036854775808", '"1"', "null", "NaN"]
TIMEOUTS = ["-1", "0", "1e300", "1e7", "NaN", "Infinity", '"1"']


@pytest.mark.parametrize(("name", "value"), [*(("seed", v) for v in SEEDS), *(("timeout", v) for v in TIMEOUTS)])
def test_an_invalid_seed_or_timeout_is_refused(held, name, value):
    before = "1" if name == "seed" else "null"
    text = (held / RUN).read_text()
    assert f'"{name}": {before}' in text
    (held / RUN).write_text(text.replace(f'"{name}": {before}', f'"{name}": {value}'))
    with pytest.raises(UsageError, match=r"run\.json: "):
        read_request(held)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # the address must be short
        one.bind(path.name)
        os.chdir(here)


STRANGE = {
    "a FIFO": _fifo,
    "a socket": _socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a directory": Path.mkdir,
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", [RESULTS, MACHINE, RUN])
@pytest.mark.parametrize("kind", STRANGE)
def test_special_files_are_refused_without_waiting(held, name, kind):
    (held / name).unlink()
    STRANGE[kind](held / name)
    with pytest.raises(UsageError, match=f"{name} is {kind}, not a regular file"):
        load_results(held)
    with pytest.raises(UsageError, match=f"{name} is {kind}, not a regular file"):
        Store(held, resume=True)


def _loop(folder: Path) -> Path:
    (folder / "loop").symlink_to("loop")
    return folder / "loop"


PLACES = {
    "a loop of links": (_loop, "symbolic links|file exists"),
    "a long name": (lambda folder: folder / ("x" * 300), "name too long"),
    "a long path": (lambda folder: folder.joinpath(*["x" * 200] * 30), "name too long"),
    "below a file": (lambda folder: Path(__file__) / "below", "Not a directory"),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_impossible_path_gives_one_message(tmp_path, place):
    where, reason = PLACES[place]
    directory = where(tmp_path)
    for use in (
        load_results,
        read_request,
        lambda path: Store(path, resume=False),
        lambda path: Store(path, resume=True),
    ):
        with pytest.raises(UsageError, match=f"(?i){reason}") as caught:
            use(directory)
        assert "\n" not in str(caught.value)
    assert not has_results(directory)


def test_a_directory_without_permission_gives_one_message(held, monkeypatch):
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root, as in CI, may open everything
    for use in (load_results, read_request, lambda path: Store(path, resume=True)):
        with pytest.raises(UsageError, match=f"can't (read|write) {held}: Permission denied; give a"):
            use(held)


def test_a_deleted_working_directory_gives_one_message(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for use in (load_results, lambda path: Store(path, resume=False)):
        with pytest.raises(UsageError):
            use(Path("out"))


RUNS = ("h200-message", "h200-apps", "h200-x2-quick")
STORED = [Path(__file__).parents[2] / "results" / name for name in RUNS]
JUNK = (
    b"1e308",
    b"-1",
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"18446744073709551616",
    b"[[[[",
    b"9" * 400,
    b"\xff",
    b"\n",
    b"\0",
)
NAMES = st.sampled_from([RESULTS, MACHINE, RUN])
CUTS = st.tuples(st.floats(0, 1), st.integers(0, 40), st.sampled_from(JUNK))


@given(
    source=st.sampled_from(STORED),
    name=NAMES,
    cuts=st.lists(CUTS, min_size=1),
)
def test_damaged_files_are_read_or_refused_with_one_message(source, name, cuts):
    with TemporaryDirectory() as folder:
        directory = Path(shutil.copytree(source, Path(folder) / "damaged"))
        data = bytearray((directory / name).read_bytes())
        for where, length, junk in cuts:
            place = int(where * len(data))
            data[place : place + length] = junk
        (directory / name).write_bytes(data)
        refused = ""
        try:
            load_results(directory)
        except UsageError as error:
            refused = str(error)
        assert not refused or name in refused
        assert "\n" not in refused
