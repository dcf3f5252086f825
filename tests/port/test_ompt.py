"""What the tool of OpenMP's runtime makes of what a runtime tells, played by a program without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.port.played import FIXTURES
from tests.profile import injected

from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import BlockCall, LaunchCall, MoveCall, WaitCall
from firsttouch.profile.inject import injected_library
from firsttouch.profile.journal import read_journals
from firsttouch.program.trace import trace

BYTES = 1 << 20


@pytest.fixture(scope="module")
def runtime(make_once) -> Path:
    def fill(folder: Path) -> None:
        (folder / "empty.c").write_text("int device_of_nobody;\n")
        library = injected.compiled(str(folder / "empty.c"), folder / "libomptarget.so", "-shared", "-fPIC")
        linked = "-Wl,--no-as-needed", str(library), f"-Wl,-rpath,{folder}"
        injected.compiled(str(FIXTURES / "ompt.c"), folder / "runtime", *linked)
        injected.compiled(str(FIXTURES / "ompt.c"), folder / "without")

    return make_once("ompt", fill) / "runtime"


def told(program: Path, directory: Path, form: str) -> str:
    return injected.run(
        [program, injected_library(), form], injected.environment(directory, nvtx=False, trace=True)
    ).strip()


@pytest.mark.parametrize("form", ["waiting", "asynchronous"])
def test_what_comes_back_is_looked_at_when_the_construct_has_waited(runtime: Path, tmp_path: Path, form: str):
    assert told(runtime, tmp_path, form) == "told"
    (calls,) = read_calls(tmp_path)
    into, back = (call for call in calls.calls if isinstance(call, MoveCall))
    assert (into.bytes, back.bytes, back.blocking) == (BYTES, BYTES, True)
    assert back.before == into.sample
    assert back.sample not in (None, into.sample)
    kinds = [type(call) for call in calls.calls if isinstance(call, LaunchCall | WaitCall | BlockCall)]
    assert kinds.index(LaunchCall) < kinds.index(WaitCall, kinds.index(LaunchCall))
    run = trace(calls)
    assert run.unknown == 0
    assert [life.end is not None for block in run.blocks for life in block.lives] == [True]


def test_a_construct_that_frees_later_has_not_waited(runtime: Path, tmp_path: Path):
    """The bytes that come back are not there yet, so that nothing is said of them."""
    told(runtime, tmp_path, "deferred")
    (calls,) = read_calls(tmp_path)
    _, back = (call for call in calls.calls if isinstance(call, MoveCall))
    assert (back.blocking, back.sample) == (False, None)
    launch = next(n for n, call in enumerate(calls.calls) if isinstance(call, LaunchCall))
    assert not any(isinstance(call, WaitCall) for call in calls.calls[launch:])


def test_memory_that_the_program_associates_is_a_buffer_while_it_is(runtime: Path, tmp_path: Path):
    told(runtime, tmp_path, "associated")
    (calls,) = read_calls(tmp_path)
    (block,) = trace(calls).blocks
    assert (block.nbytes, block.kind) == (BYTES, "device")
    assert [life.end is not None for life in block.lives] == [True]


def test_a_runtime_that_tells_of_no_constructs_is_named(runtime: Path, tmp_path: Path):
    assert told(runtime, tmp_path, "untold") == "inactive"
    (text,) = (notice.text for journal in read_journals(tmp_path) for notice in journal.notices)
    assert text.endswith("played")


def test_a_program_without_target_constructs_needs_no_tool(runtime: Path, tmp_path: Path):
    assert told(runtime.with_name("without"), tmp_path, "waiting") == "declined"
    assert not any(tmp_path.iterdir())
