"""NVTX ranges of programs that know nothing of us."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

import pytest
from tests.profile.injected import HERE, compiled, environment, only_journal, python, run

from firsttouch.profile.journal import read_journals
from firsttouch.profile.schema import Mark


def headers() -> str:
    """The folder of NVTX's headers."""
    toolkits = [os.environ.get("CUDA_HOME", "/usr/local/cuda")]
    wheels = glob.glob(str(HERE.parents[1] / ".venv/lib/python*/site-packages/nvidia/*"))
    for folder in [*toolkits, *wheels]:
        if os.path.isfile(f"{folder}/include/nvtx3/nvToolsExt.h"):
            return f"{folder}/include"
    pytest.skip("the headers of NVTX are not installed")


def nested(marks: Iterable[Mark]) -> Iterator[tuple[str, str, float, float, int]]:
    """Name, domain, begin, end and depth of the ranges of one process that are nested by thread and domain."""
    key = lambda mark: (mark.thread, mark.domain)  # noqa: E731
    for _, of_one in groupby(sorted((m for m in marks if m.range == -1), key=key), key):
        stack: list[Mark] = []
        for mark in of_one:
            if mark.kind == "begin":
                stack.append(mark)
            elif mark.kind == "end":
                begin = stack.pop()
                yield begin.name, begin.domain, begin.t, mark.t, len(stack)
        assert stack == []


@pytest.fixture(scope="module")
def ranges(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("ranges") / "ranges"
    return compiled(str(HERE / "ranges.c"), target, f"-I{headers()}")


def test_ranges_of_every_form_arrive_with_their_times(ranges: Path, tmp_path: Path):
    printed = run([ranges], environment(tmp_path))
    lines = [line.rsplit(" ", 1) for line in printed.splitlines()]
    times = {name: int(value) * 1e-9 for name, value in lines if name != "level"}
    journal = only_journal(tmp_path)
    found = {(name, domain, depth): (begin, end) for name, domain, begin, end, depth in nested(journal.marks)}
    assert set(found) == {
        ("outer", "", 0),
        ("mïddle", "", 1),
        ("ascii", "", 2),
        ("registered", "solver", 0),
        ("left", "", 0),
        ("right", "", 0),
        ("inner", "", 1),
    }
    assert times["before outer"] <= found["outer", "", 0][0] <= times["in outer"]
    assert times["before middle"] <= found["mïddle", "", 1][0] <= times["in middle"]
    assert times["still in outer"] <= found["outer", "", 0][1] <= times["after outer"]
    instants = [(mark.name, mark.domain) for mark in journal.marks if mark.kind == "instant"]
    assert instants == [("mark a", ""), ("mark w", ""), ("π 😀", ""), ("π 😀", "grün")]
    assert len({mark.thread for mark in journal.marks}) == 3
    assert all(mark.pid == journal.pid and mark.source == "nvtx" for mark in journal.marks)


def test_ranges_that_are_not_nested_are_told_apart_by_number(ranges: Path, tmp_path: Path):
    run([ranges], environment(tmp_path))
    started = [mark for mark in only_journal(tmp_path).marks if mark.range != -1]
    begun = {mark.range: mark.name for mark in started if mark.kind == "begin"}
    ended = [begun[mark.range] for mark in started if mark.kind == "end"]
    assert sorted(begun.values()) == ["", "first", "registered", "second"]
    assert ended == ["first", "", "second", "registered"]


def test_the_program_is_told_the_same_as_without_a_tool(ranges: Path, tmp_path: Path):
    current = {name: value for name, value in os.environ.items() if "INJECTION64" not in name}
    levels = [
        [line for line in run([ranges], variables).splitlines() if line.startswith("level")]
        for variables in (current, environment(tmp_path))
    ]
    assert levels[0] == levels[1] == ["level -2"] * 2


@pytest.mark.parametrize("why", ["missing", "relative", "not set", "read-only", "file"])
def test_a_folder_that_cannot_be_written_is_silent(ranges: Path, tmp_path: Path, why: str):
    variables = environment(tmp_path)
    if why == "missing":
        variables["FIRSTTOUCH_PROFILE"] = str(tmp_path / "nowhere")
    elif why == "relative":
        variables["FIRSTTOUCH_PROFILE"] = "."
    elif why == "not set":
        del variables["FIRSTTOUCH_PROFILE"]
    elif why == "read-only":
        variables["FIRSTTOUCH_PROFILE"] = "/proc/self"
    else:
        variables["FIRSTTOUCH_PROFILE"] = str(ranges)
    run([ranges], variables)
    assert os.listdir(tmp_path) == []


def test_a_leak_checker_in_the_program_finds_nothing_of_ours(tmp_path: Path):
    options = (f"-I{headers()}", "-fsanitize=address,undefined")
    program = compiled(str(HERE / "ranges.c"), tmp_path / "checked", *options)
    journals = tmp_path / "journals"
    journals.mkdir()
    run([program], environment(journals))
    assert len(only_journal(journals).marks) > 20


def has_nvtx() -> bool:
    try:
        import nvtx  # type: ignore[import-not-found,unused-ignore]  # noqa: F401
    except ImportError:
        return False
    return True


needs_nvtx = pytest.mark.skipif(not has_nvtx(), reason="PyPI's nvtx is not installed")


@needs_nvtx
def test_ranges_of_pypis_nvtx(tmp_path: Path):
    """It sends nothing but ranges of domains with registered strings."""
    script = """
import nvtx, threading, time
@nvtx.annotate("decorated", domain="solver")
def decorated():
    with nvtx.annotate("inner"):
        time.sleep(0.001)
times = [time.monotonic()]
with nvtx.annotate("outer"):
    times.append(time.monotonic())
    threads = [threading.Thread(target=decorated) for _ in range(3)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    times.append(time.monotonic())
times.append(time.monotonic())
started = nvtx.start_range("started")
nvtx.end_range(started)
nvtx.mark("marked")
print(*times)
"""
    before, began, ending, after = map(float, run(python(script), environment(tmp_path)).split())
    journal = only_journal(tmp_path)
    found = [(name, domain) for name, domain, *_ in nested(journal.marks)]
    assert sorted(name for name, _ in found) == ["decorated"] * 3 + ["inner"] * 3 + ["outer"]
    assert {domain for name, domain in found if name == "decorated"} == {"solver"}
    (outer,) = ((start, stop) for name, _, start, stop, _ in nested(journal.marks) if name == "outer")
    assert before <= outer[0] <= began
    assert ending <= outer[1] <= after
    assert [mark.name for mark in journal.marks if mark.kind == "instant"] == ["marked"]
    assert [mark.name for mark in journal.marks if mark.range != -1] == ["started", ""]


@needs_nvtx
def test_a_forked_process_has_a_journal_of_its_own(tmp_path: Path):
    script = """
import nvtx, os
with nvtx.annotate("before"):
    child = os.fork()
    with nvtx.annotate("child" if child == 0 else "parent"):
        pass
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
print(os.getpid(), child)
"""
    parent, child = map(int, run(python(script), environment(tmp_path)).split())
    journals = {
        journal.pid: [m.name for m in journal.marks if m.kind == "begin"] for journal in read_journals(tmp_path)
    }
    assert journals == {parent: ["before", "parent"], child: ["child"]}


@needs_nvtx
@pytest.mark.parametrize(
    ("end", "status"), [("os._exit(3)", 3), ("os.abort()", -6), ("os.kill(os.getpid(), 9)", -9), ("sys.exit(4)", 4)]
)
def test_every_mark_outlives_the_process(tmp_path: Path, end: str, status: int):
    script = f"import nvtx, os, sys\nfor i in range(20000): nvtx.mark(str(i))\n{end}"
    run(python(script), environment(tmp_path), status)
    assert [mark.name for mark in only_journal(tmp_path).marks] == [str(i) for i in range(20000)]
