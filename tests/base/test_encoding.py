"""Names of files, arguments, hosts and processes are bytes. They need not be valid UTF-8, and end nothing."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from tests.calls import COMMAND, call

import firsttouch
from firsttouch.base.encoding import encode_json, encode_text, host_name, valid_text
from firsttouch.base.errors import NOT_JUDGED
from firsttouch.comparison import runs
from firsttouch.engine import runner
from firsttouch.profile import records as profile_records
from firsttouch.profile import schema
from firsttouch.profile.marks import VARIABLE, write
from firsttouch.profile.reading import read
from firsttouch.records.reading import load_results
from firsttouch.records.store import Store
from firsttouch.workers import launch

ODD = b"caf\xe9"
NAME = os.fsdecode(ODD)
ESCAPED = "caf\\udce9"
SOURCES = Path(firsttouch.__file__).parent


class _Odd(msgspec.Struct):
    name: str
    words: tuple[str, ...] = ()
    by_name: dict[str, list[str | float | None]] = {}


def test_text_that_is_no_valid_unicode_is_escaped() -> None:
    assert [valid_text(text) for text in ("", "café", NAME, "\ud800a")] == ["", "café", ESCAPED, "\\ud800a"]
    assert encode_text(f"é{NAME}") == b"\xc3\xa9caf\\udce9"
    odd = _Odd(NAME, ("é", NAME), {NAME: [NAME, 1.5, None], "b": []})
    assert json.loads(encode_json([odd, {"b": 1, "a": NAME}], order="sorted")) == [
        {"name": ESCAPED, "words": ["é", ESCAPED], "by_name": {ESCAPED: [ESCAPED, 1.5, None], "b": []}},
        {"a": ESCAPED, "b": 1},
    ]
    assert encode_json({"b": "é", "a": 1}) == '{"b":"é","a":1}'.encode()


def test_all_json_is_written_so() -> None:
    """The measurement of a user's module is checked, and names are handed on as they are."""
    strict = {str(p.relative_to(SOURCES)) for p in SOURCES.rglob("*.py") if "msgspec.json.encode(" in p.read_text()}
    assert strict == {"base/encoding.py", "engine/filling.py", "comparison/runs.py"}


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in a directory of such a name, and what the run printed."""
    folder = tmp_path_factory.mktemp("odd")
    words = ("run", "latency", "--device", "cpu", "--set", "size=4KiB", "--json", "--out", NAME)
    done = call(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "printed").write_text(done.stdout)
    return folder


def test_a_run_into_a_directory_of_such_a_name(beside: Path) -> None:
    assert ESCAPED in json.loads((beside / "printed").read_text())["directory"]
    assert len(load_results(beside / NAME).records) > 0


@pytest.mark.parametrize(
    "words",
    [
        ("report", NAME, "--json"),
        ("compare", NAME, NAME, "--json"),
        ("advise", NAME, "--json"),
        ("claims", NAME, "--json"),
        ("published", NAME, "--json"),
    ],
    ids=lambda words: words[0],
)
def test_json_of_such_a_directory(beside: Path, words: tuple[str, ...]) -> None:
    done = call(*words, cwd=beside)
    assert done.returncode in (0, NOT_JUDGED) or done.stderr.startswith("firsttouch: "), done.stderr
    if done.stdout:
        json.loads(done.stdout)


@pytest.mark.parametrize(
    ("words", "written"),
    [
        (("report", NAME, "--format", "csv", "-o", "table"), "table"),
        (("compare", NAME, NAME, "--out", "c.html"), "c.html"),
    ],
)
def test_what_is_drawn_of_such_a_directory(beside: Path, words: tuple[str, ...], written: str) -> None:
    done = call(*words, cwd=beside)
    assert done.returncode == 0, done.stderr
    path = beside / written
    files = [path] if path.is_file() else list(path.iterdir())
    assert files
    assert all(NAME not in file.read_text(encoding="utf-8") for file in files)


def test_many_directories_of_such_names(beside: Path) -> None:
    found, broken = runs.read_all([str(beside / NAME)] * runs.MANY)
    assert (len(found), broken) == (runs.MANY, [])


def test_a_host_of_such_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: f"{NAME}/1")
    assert host_name() == f"{ESCAPED}/1"
    directory = runner.default_directory([])
    assert (directory.parent.name, directory.name[: len(ESCAPED) + 2]) == ("firsttouch-results", f"{ESCAPED}_1")
    for resume in (False, True):  # the run can be resumed there
        words = ("run", "latency", "--device", "cpu", "--set", "size=4KiB", "--out", "out")
        done = call(*words, *["--resume"] * resume, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert json.loads(call("machine", "--json").stdout)["host"] == f"{ESCAPED}/1"
    with Store(tmp_path / "out", resume=True) as store:
        machine = store.machine()
    assert machine is not None
    assert machine.host == f"{ESCAPED}/1"


def test_a_profile_keeps_such_arguments_hosts_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: NAME)
    writer = profile_records.Writer(tmp_path)
    writer.add(
        profile_records.header(
            command=["app", NAME],
            pid=1,
            attached=False,
            clock=time.monotonic(),
            interval=0.01,
            layers=[],
            gpus=[],
            nodes=[],
            environment={"OMP_PLACES": NAME},
        )
    )
    writer.add(schema.End(t=60.0, status=0, why="ended"))
    writer.close()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert write("begin", NAME, "python")
    profile = read(tmp_path)
    first = profile.header
    assert (first.command, first.host, first.environment) == (["app", ESCAPED], ESCAPED, {"OMP_PLACES": ESCAPED})
    assert [mark.name for mark in profile.marks] == [ESCAPED]


@pytest.mark.slow
def test_a_profile_in_a_directory_of_such_a_name(tmp_path: Path) -> None:
    words = ["profile", "--out", NAME, "--", shutil.which("true"), NAME]
    done = subprocess.run([*COMMAND, *words], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "not complete" in done.stderr) == (0, False), done.stderr
    assert {"profile.json", "report.html"} <= {path.name for path in (tmp_path / NAME).iterdir()}


def test_processes_and_mapped_files_of_such_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = os.fsencode(tmp_path) + b"/" + ODD
    os.symlink(os.path.realpath(sys.executable).encode(), program)
    code = "import sys; print(open('/proc/self/comm', 'rb').read()); sys.stdout.flush(); sys.stdin.read()"
    environment = {**os.environ, launch.CHANNEL: "here:1:odd", "PYTHONHOME": sys.base_prefix}
    with subprocess.Popen(
        [program, "-S", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"b'caf\\xe9\\n'\n"
        assert launch.group("here:1:odd") == [process.pid]
        process.communicate()
    path = tmp_path / f"mpich_shm_{NAME}"
    path.write_bytes(bytes(4096))
    monkeypatch.setattr(launch, "SHARED_MEMORY", tmp_path)
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        assert str(path) in launch.mapped()
