"""The injected library on a stand-in for CUPTI, in a program that loads it as the driver does."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

import pytest
from tests.profile.injected import HERE, TOP, compiled, environment, only_journal, run

from firsttouch.profile.events.log import MOST_LISTED
from firsttouch.profile.inject import inject_environment, injected_library
from firsttouch.profile.journal import read_journals
from firsttouch.profile.recorded import ProcessJournal

PAST = MOST_LISTED + 1000
"""More events than an EventSource keeps."""
OTHERS = PAST if os.environ.get("FIRSTTOUCH_EXHAUSTIVE") else 20_000
"""The copies and the kernels beside them. Reading as many of those takes long."""


@pytest.fixture(scope="module")
def driver(make_once) -> Path:
    def fill(folder: Path) -> None:
        compiled(str(TOP / "tests/standins/cupti.cpp"), folder / "libcupti.so", *SHARED, language="c++")
        compiled(str(HERE / "driver.c"), folder / "driver")

    return make_once("driver", fill) / "driver"


SHARED = ("-std=c++20", "-shared", "-fPIC", f"-I{TOP / 'native'}")


def traced(driver: Path, directory: Path, **more: str) -> dict[str, str]:
    standin = str(driver.with_name("libcupti.so"))
    variables = {"STANDIN": standin, "FIRSTTOUCH_PROFILE_CUPTI": standin, "STANDIN_CUPTI_REPEAT": "0"}
    return environment(directory, nvtx=False, trace=True, **(variables | more))


HOUR = 3600
"""Seconds. Clocks that count from different times differ by more."""


def check(journal: ProcessJournal, n: int, m: int, begin: float, end: float, place: str = "/driver+0x") -> None:
    """Every record is there once, with its content and its time. place: of a fault of the CPU."""
    counted = Counter(copy.direction for copy in journal.copies)
    assert counted == Counter({"h2d": m - m // 2, "d2h": m // 2, "p2p": 1, "set": 1})
    assert sorted(copy.bytes for copy in journal.copies) == sorted([77, 88, *range(1000, 1000 + m)])
    assert Counter(kernel.name for kernel in journal.kernels) == Counter({"even": m - m // 2, "odd": m // 2})
    moves = [event for event in journal.events if event.kind == "h2d"]
    assert len(moves) == n
    assert all((e.bytes, e.cause, e.source, e.target) == (4096, "fault", "cuda:0", "cuda:0") for e in moves)
    (fault,) = (event for event in journal.events if event.kind == "cpu_fault")
    assert place in fault.symbol
    assert [(a.kind, a.bytes, a.address) for a in journal.allocations] == [
        ("device", 4 << 20, 0x200000),
        ("managed", 8 << 20, 0x800000),
    ]
    assert [(f.kind, f.address) for f in journal.frees] == [("device", 0x200000)]
    assert (journal.lost, journal.left_out, journal.notices) == (0, 0, [])
    assert journal.unfinished == 1  # the kernel without an end
    records = [*journal.copies, *journal.kernels, *moves]
    assert all(begin - HOUR < record.start and record.end < end + HOUR for record in records), "of the same clock"
    assert all(0.8e-6 < record.end - record.start < 1.2e-6 for record in records)


class End(NamedTuple):
    """n: how many events a program makes; m: how many copies and kernels each; how: how it ends."""

    n: int
    m: int
    how: str
    status: int = 0
    dropped: int = 0


ENDS = [
    End(0, 0, "return"),
    End(1000, 1000, "return"),
    End(1000, 1000, "reset"),
    End(1000, 1000, "_exit"),
    End(1000, 1000, "abort", -6),
    End(1000, 1000, "kill", -9),
    End(PAST, OTHERS, "return"),
]
LOSING = End(10, 10, "abort", -6, dropped=5)
Ended: TypeAlias = Mapping[End, tuple[Path, str]]


@pytest.fixture(scope="module")
def ended(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """The folder and the output of a program for each end. They run side by side, since some wait for a second."""
    started = []
    for end in [*ENDS, LOSING]:
        folder = tmp_path_factory.mktemp("ended")
        variables = traced(driver, folder, STANDIN_CUPTI_DROPPED=str(end.dropped))
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = subprocess.Popen([driver, f"{end.n}/{end.m}", end.how], env=variables, **streams)
        started.append((end, folder, process))
    outputs = {}
    for end, folder, process in started:
        output, errors = process.communicate(timeout=100)
        assert (process.returncode, errors) == (end.status, "")
        outputs[end] = folder, output
    return outputs


@pytest.mark.parametrize("end", ENDS, ids=lambda end: f"{end.n}-{end.how}")
@pytest.mark.slow
def test_every_record_arrives_once(ended: Ended, end: End):
    folder, output = ended[end]
    check(only_journal(folder), end.n, end.m, *map(float, output.split()))


@pytest.mark.slow
def test_records_that_cupti_lost_are_counted(ended: Ended):
    journal = only_journal(ended[LOSING][0])
    assert journal.lost >= 10  # at two flushes at least
    assert len(journal.copies) == 12


def test_a_runtime_in_a_namespace_of_its_own_loses_nothing(driver: Path, tmp_path: Path):
    """Its libraries end before this one, and what calls them then crashes."""
    begin, ended = map(float, run([driver, "1000", "return", "namespace"], traced(driver, tmp_path)).split())
    check(only_journal(tmp_path), 1000, 1000, begin, ended, place="+0x")  # files of other namespaces are not seen


def test_a_process_that_forks_is_traced_alone(driver: Path, tmp_path: Path):
    begin, ended = map(float, run([driver, "1000", "return", "fork"], traced(driver, tmp_path)).split()[-2:])
    check(only_journal(tmp_path), 1000, 1000, begin, ended)


def test_allocations_have_the_place_of_their_call(driver: Path, tmp_path: Path):
    run([driver, "0", "return"], traced(driver, tmp_path))
    journal = only_journal(tmp_path)
    assert len(journal.allocations) == 2
    symbols = subprocess.run(["nm", driver], capture_output=True, text=True, check=True).stdout
    for allocation, function in zip(journal.allocations, ["allocate_grid", "allocate_managed"], strict=True):
        (start,) = (int(line.split()[0], 16) for line in symbols.splitlines() if line.split()[-1] == function)
        assert allocation.site[0].file == str(driver)
        assert 0 < address_of(driver, allocation.site[0].offset) - start < 64
        assert len(allocation.site) >= 2  # main


def address_of(program: Path, offset: int) -> int:
    """The address in the program's symbols that lies at an offset in its file."""
    from elftools.elf.elffile import ELFFile

    with open(program, "rb") as file:
        for segment in ELFFile(file).iter_segments("PT_LOAD"):
            if segment["p_offset"] <= offset < segment["p_offset"] + segment["p_filesz"]:
                return offset - segment["p_offset"] + segment["p_vaddr"]
    raise AssertionError(f"{offset:#x} is not mapped")


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"FIRSTTOUCH_EVENTS": "1"}, "records unified-memory events itself"),
        ({"STANDIN_CUPTI_FAILS": "cuptiSubscribe=39"}, "another tool uses CUPTI"),
        ({"FIRSTTOUCH_PROFILE_CUPTI": "/nowhere/libcupti.so"}, "was not found"),
        ({"STANDIN_CUPTI_FAILS": "cuptiActivityRegisterCallbacks=15"}, "may not match the driver"),
    ],
)
def test_a_process_that_is_not_traced_says_why_and_goes_on(driver: Path, tmp_path: Path, variables, sentence: str):
    run([driver, "10", "return"], traced(driver, tmp_path) | variables)
    journal = only_journal(tmp_path)
    (notice,) = journal.notices
    assert notice.layer == "trace"
    assert sentence in notice.text
    assert (journal.copies, journal.events, journal.allocations) == ([], [], [])


def test_kinds_that_cupti_refuses_are_said_and_the_others_are_recorded(driver: Path, tmp_path: Path):
    failing = "cuptiActivityConfigureUnifiedMemoryCounter=31"
    run([driver, "10", "return"], traced(driver, tmp_path, STANDIN_CUPTI_FAILS=failing))
    journal = only_journal(tmp_path)
    assert [notice.text for notice in journal.notices] == [
        "no unified-memory events are recorded: CUPTI does not support unified-memory events under MPS; stop the MPS "
        "server"
    ]
    assert (len(journal.copies), len(journal.kernels), journal.events) == (12, 10, [])


def test_records_of_an_unknown_version_are_not_read(driver: Path, tmp_path: Path):
    run([driver, "10", "return"], traced(driver, tmp_path, STANDIN_CUPTI_VERSION="140000"))
    journal = only_journal(tmp_path)
    (notice,) = journal.notices
    assert "CUPTI version 140000" in notice.text
    assert (journal.copies, journal.allocations, len(journal.events)) == ([], [], 11)


@pytest.mark.parametrize("variable", ["FIRSTTOUCH_TRACE", "FIRSTTOUCH_PROFILE"])
def test_without_the_switch_nothing_is_traced(driver: Path, tmp_path: Path, variable: str):
    run([driver, "10", "return"], traced(driver, tmp_path) | {variable: ""})
    assert read_journals(tmp_path) == []


def test_variables_of_the_user_are_kept(tmp_path: Path):
    if not injected_library().is_file():
        pytest.skip("the library was not built")
    theirs = {"NVTX_INJECTION64_PATH": "/their/tool.so", "CUDA_INJECTION64_PATH": "/their/tool.so"}
    added, states = inject_environment(tmp_path, nvtx=True, trace=True, current=theirs)
    assert added == {}
    assert [(state.layer, state.active) for state in states] == [("phases", False), ("trace", False)]
    assert all("is set already" in state.why and state.mend.startswith("unset ") for state in states)
    added, states = inject_environment(tmp_path, nvtx=True, trace=False, current={})
    assert set(added) == {"NVTX_INJECTION64_PATH", "FIRSTTOUCH_PROFILE"}
    assert inject_environment(tmp_path, nvtx=False, trace=False, current={}) == ({}, [])


def test_a_layer_that_cannot_be_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("firsttouch.profile.inject.injected_library", lambda: tmp_path / "missing.so")
    added, states = inject_environment(tmp_path, nvtx=True, trace=True, current={})
    assert added == {}
    assert all("this installation has no" in state.why and state.mend for state in states)
    (tmp_path / "missing.so").touch()
    added, (state,) = inject_environment(tmp_path, nvtx=False, trace=True, current={"FIRSTTOUCH_EVENTS": "1"})
    assert (added, state.active, state.mend) == ({}, False, "unset FIRSTTOUCH_EVENTS")
