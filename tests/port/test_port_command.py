"""firsttouch port: findings of a profile on the terminal, as JSON and in Python; wrong calls."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.calls import call
from tests.port.journals import journal, profile
from tests.port.test_port_findings import MIB, again, names
from tests.port.traces import PROGRAM, Calls, at
from tests.profile import profiles
from tests.schemas import assert_valid
from tests.texts import assert_states

import firsttouch
from firsttouch.advice.port.found import program_state, search
from firsttouch.advice.port.reading import traced_run
from firsttouch.base.errors import UsageError
from firsttouch.cli import port as cli
from firsttouch.engine import reporting
from firsttouch.profile.reading import read
from firsttouch.profile.recorded import CallFrame, FailedCalls
from firsttouch.profile.schema import Site, Symbol, TouchSamples
from firsttouch.profile.touches import TouchIndex
from firsttouch.program.program import decode
from firsttouch.report.profile import render

WORDS = re.compile(r"\b(exact|assumed|unseen|seen|likely|at most)\b")


def backprop() -> Calls:
    """Weights that a copy restores, inputs, and what is never copied back."""
    calls = Calls(pid=100)
    inputs, weights, previous, sums = (
        calls.block(size * MIB, line=n) for n, size in ((1, 64), (2, 64), (3, 64), (4, 8))
    )
    hosts = [calls.host(64 * MIB) for _ in range(4)]
    calls.copy(inputs, hosts[0], 64 * MIB, line=10, sample=1)
    calls.copy(weights, hosts[1], 64 * MIB, line=11, sample=2)
    calls.launch(inputs, weights, sums, kernel="_Z5layerPfS_S_", line=12)
    calls.copy(hosts[3], sums, 8 * MIB, line=13, sample=3, before=9)
    calls.copy(previous, hosts[2], 64 * MIB, line=14, sample=4)
    calls.copy(weights, hosts[1], 64 * MIB, line=15, sample=2)
    calls.launch(inputs, weights, previous, kernel="_Z6adjustPfS_S_", line=16)
    calls.copy(hosts[1], weights, 64 * MIB, line=17, sample=5, before=2)
    return calls


def test_the_answer_comes_first_and_each_number_has_its_word(tmp_path: Path):
    directory = profile(tmp_path / "p", backprop().traced, callers=names())
    shown, port = call("port", directory), firsttouch.port(directory)
    assert shown.returncode == 0, shown.stderr
    lines, text = shown.stdout.splitlines(), " ".join(shown.stdout.split())
    assert text.startswith(port["summary"])
    assert len(lines) <= 25
    assert max(map(len, lines[:-1])) <= 100
    *paragraphs, last = re.split(r"\n(?! )", shown.stdout.rstrip())
    assert last == f"next      firsttouch advise RUN --profile {tmp_path / 'p'}"
    for paragraph in paragraphs:
        assert WORDS.search(paragraph) or not re.search(r"\d", paragraph.replace("p.cu", "")), paragraph
    (finding,) = port["findings"]
    assert_states(text, "likely restoring copy", "main p.cu:15", "(1x, 64 MiB)", finding["text"], finding["reading"])
    assert f"{finding['strategy']}: {finding['link']}" in text
    (previous,) = [block for block in port["blocks"] if block["place"]["line"] == 3]
    assert f"64 MiB :3 in 1x; {previous['unused'][0]}" in text


def test_json_follows_the_schema_and_python_has_the_same(tmp_path: Path):
    directory = profile(tmp_path / "p", backprop().traced, callers=names())
    shown = json.loads(call("port", directory, "--json").stdout)
    assert_valid("port", shown)
    assert firsttouch.port(directory) == shown
    assert shown["saved"]["bytes"] == 200 * MIB
    assert [f["certainty"] for f in shown["findings"]] == ["likely"]


def test_calls_that_failed_are_told_as_data_and_in_words(tmp_path: Path):
    traced = backprop().traced
    failed = (
        FailedCalls(t=2.0, function="cuLaunchKernel", error=700, calls=1, site=at(21)),
        FailedCalls(t=1.0, function="cuMemcpyHtoD_v2", error=2, calls=2, site=at(20)),
    )
    whole = firsttouch.port(profile(tmp_path / "whole", traced, callers=names()))
    directory = profile(tmp_path / "p", msgspec.structs.replace(traced, failed=failed), callers=names())
    port = json.loads(call("port", directory, "--json").stdout)
    assert_valid("port", port)
    rows = [("cuMemcpyHtoD", 2, 2, 20), ("cuLaunchKernel", 700, 1, 21)]
    summary = json.loads(call("profile", "--json", directory).stdout)
    assert_valid("profile", summary)
    for told in (port["failed"], summary["trace"]["failed"]):
        assert [(row["function"], row["error"], row["calls"], row["place"]["line"]) for row in told] == rows
    for text in (call("port", directory).stdout, call("profile", directory).stdout, render({"p": read(directory)})):
        assert_states(" ".join(text.split()), "3 calls failed", "cuMemcpyHtoD", "p.cu:20", "error 2")
    of_a_name = ("directory", "failed")
    assert {k: v for k, v in port.items() if k not in of_a_name} == {
        k: v for k, v in whole.items() if k not in of_a_name
    }, "nothing else counts them"
    assert whole["failed"] == []
    assert "failed (" not in call("port", tmp_path / "whole").stdout


@pytest.mark.parametrize("kind", ["unfinished", "lost"])
def test_work_that_had_not_ended_is_told_and_is_no_lost_record(kind: str, tmp_path: Path):
    directory, made = profile(tmp_path / "p", callers=names()), journal(backprop().traced)
    made.add(kind, records=3)
    (directory / "journal-100-0.bin").write_bytes(made.file)
    trace = json.loads(call("profile", "--json", directory).stdout)["trace"]
    assert {name: trace[name] for name in ("unfinished", "lost")} == {"unfinished": 0, "lost": 0, kind: 3}
    shown = [call("profile", directory).stdout, call("port", directory).stdout]
    if kind == "unfinished":
        shown.append(render({"p": read(directory)}))
    for text in shown:
        assert ("not ended" in " ".join(text.split())) == (kind == "unfinished")
    assert firsttouch.port(directory)["partial"] == (kind == "lost")


def test_blocks_of_one_line_that_are_used_alike_are_one_line_of_the_program(tmp_path: Path):
    calls = Calls(pid=100)
    blocks = [calls.block(64, line=7) for _ in range(50)]
    calls.copy(blocks[0], calls.host(64), 64, line=8)
    calls.launch(*blocks, kernel="_Z5worksPf", line=9)
    shown = call("port", profile(tmp_path / "p", calls.traced, callers=names()), "--program").stdout
    assert "1-49       64 B  scratch  p.cu:7, 49 of them" in shown
    assert "writes 1-49 (p.cu:7) assumed" in shown
    assert len(shown.splitlines()) < 10


def test_allocations_of_one_line_are_one_block_though_a_template_has_several_copies_of_it(tmp_path: Path):
    calls = Calls(pid=100)
    for line in (1, 2, 3):
        block = calls.block(64, line=line)
        calls.copy(block, calls.host(64), 64, line=4)
        calls.free(block)
    known = names()
    for line in (1, 2):
        known[PROGRAM, line] = msgspec.structs.replace(known[PROGRAM, line], function=f"run<{line}>", number=7)
    port = firsttouch.port(profile(tmp_path / "p", calls.traced, callers=known))
    assert sorted((block["place"]["line"], block["allocations"]) for block in port["blocks"]) == [(3, 1), (7, 2)]


def test_of_several_processes_the_busiest_is_shown_or_the_one_that_is_named(tmp_path: Path):
    small = Calls(pid=200)
    small.copy(small.block(64), small.host(64), 64)
    small.launch(seconds=1e-6)
    small.durations.clear()  # CUPTI told nothing of it: the process ended at once
    directory = profile(tmp_path / "p", small.traced, backprop().traced)
    pids = [firsttouch.port(directory, process=process)["pid"] for process in (None, 200, 100)]
    assert pids == [100, 200, 100]
    assert firsttouch.port(directory)["others"] == [200]
    assert [row["pid"] for row in firsttouch.port(directory)["processes"]] == [100, 200]
    shown = " ".join(call("port", directory).stdout.split())
    assert_states(shown, "the 2 processes of app", "100 ./app arg", "200 /app/p arg", "of process 100 (--process)")
    (directory / "journal-100-1.bin").write_bytes((directory / "journal-100-0.bin").read_bytes())
    assert "another program of process 100, which called exec" in call("port", directory).stdout
    with pytest.raises(UsageError, match=r"process 5 .*; those that did: 100, 200"):
        firsttouch.port(directory, process=5)


def test_the_answer_over_processes_counts_the_waits_of_each(tmp_path: Path):
    """In both, the copy back is the only wait between a kernel and the CPU."""
    traced = []
    for pid in (100, 200):
        calls = Calls(pid=pid)
        block, host = calls.block(MIB, line=1), calls.host(MIB)
        calls.copy(block, host, MIB, line=2)
        calls.launch(block, line=3)
        calls.copy(host, block, MIB, line=4)
        traced.append(calls.traced)
    port = firsttouch.port(profile(tmp_path / "p", *traced, callers=names()))
    assert len(port["processes"]) == 2
    assert ("2 explicit waits" in port["summary"], "no hazard" in port["summary"]) == (True, False)


def test_of_several_ranks_there_is_one_answer_and_each_is_named(tmp_path: Path):
    for rank in range(3):
        calls = Calls(pid=100)
        block, host = calls.block(MIB, line=1), calls.host(MIB)
        for _ in range(rank + 1):
            calls.copy(block, host, MIB, line=2)
            calls.launch(block)
        directory = profile(tmp_path / "ranks" / f"rank-{rank}", calls.traced, callers=names())
        header, *lines = (directory / "profile.jsonl").read_text().splitlines(keepends=True)
        (directory / "profile.jsonl").write_text(
            "".join([json.dumps(json.loads(header) | {"rank": str(rank)}) + "\n", *lines])
        )
    port = firsttouch.port(tmp_path / "ranks")
    assert [(row["rank"], row["copies"], row["copied"]) for row in port["processes"]] == [
        ("2", 3, 3 * MIB),
        ("1", 2, 2 * MIB),
        ("0", 1, MIB),
    ]
    assert port["directory"].endswith("rank-2")
    assert_states(port["summary"], "3 processes", "3 MiB of 6 MiB", "6 copies", "6 MiB")
    assert_states(
        " ".join(call("port", tmp_path / "ranks").stdout.split()), "rank 0, 100", "rank 1, 100", "rank 2, 100"
    )


def test_of_many_processes_those_that_are_not_shown_are_counted(tmp_path: Path):
    processes = []
    for number in range(6):
        calls = Calls(pid=200 + number)
        calls.copy(calls.block(MIB), calls.host(MIB), MIB)
        processes.append(calls.traced)
    directory = profile(tmp_path / "p", *processes)
    shown = call("port", directory).stdout
    assert_states(" ".join(shown.split()), "6 processes", "2 more processes in the JSON")
    assert len(shown.splitlines()) <= 25


def test_the_program_is_printed_step_by_step_with_repeats_folded(tmp_path: Path):
    calls = Calls(pid=100)
    block, host = calls.block(MIB, line=1), calls.host(MIB)
    calls.copy(block, host, MIB, line=2, seconds=0.002)
    for _ in range(1000):
        calls.launch(block, kernel="_Z4stepPf", seconds=0.001)
    calls.copy(host, block, MIB, line=3)
    directory = profile(tmp_path / "p", calls.traced, callers=names())
    shown = call("port", directory, "--program")
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout.splitlines()) < 20
    assert "copy h2d 1 MiB of 0 (p.cu:1) in 2 ms exact" in shown.stdout
    assert "gpu step (1 ms): updates 0 (p.cu:1)" in shown.stdout
    printed = call("port", directory, "--program", "--json").stdout
    assert_valid("program.json", json.loads(printed))
    assert decode(printed.encode(), "stdout").launches > 1000


def test_names_from_the_target_are_text(tmp_path: Path):
    calls = Calls(pid=100)
    symbol = calls.block(64, kind="device_static", name="evil\x1b[31m\n\u202e<script>")
    calls.copy(symbol, calls.host(64), 64, line=1)
    shown = call("port", profile(tmp_path / "p", calls.traced, callers=names({1: "f\x1b[2J\n"})))
    assert shown.returncode == 0
    assert "\x1b" not in shown.stdout
    assert "\u202e" not in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "there is nothing to port; name a command"),
        (("--",), "there is nothing to port"),
        (("{dir}", "--", "./app"), "a directory and a command were given"),
        (("{dir}", "--out", "x"), "nothing is profiled; leave out --out"),
        (("--program", "--", "./app"), "--program shows a profile"),
        (("{dir}/ranks", "--program"), "holds the profiles of 2 ranks; name one, such as {dir}/ranks/rank-0"),
        (("{dir}/none",), "holds no profile"),
        (("{dir}/exact",), "{dir}/exact is the second run of {dir}; name that"),
        (("{dir}",), "has no trace: CUPTI is missing: pip install it"),
        (("{dir}/profile.jsonl",), "profile.jsonl is no directory; name one that `firsttouch profile` wrote"),
        (("{dir}", "--process", "x"), "--process 'x' is not the number of a process"),
    ],
)
def test_a_wrong_call_is_one_sentence(words: tuple[str, ...], said: str, tmp_path: Path):
    profiles.write(tmp_path / "plain")
    for rank in range(2):
        profiles.write(tmp_path / "plain" / "ranks" / f"rank-{rank}")
    profiles.write(tmp_path / "plain" / "exact")
    result = call("port", *(word.format(dir=tmp_path / "plain") for word in words))
    assert result.returncode == 2
    assert said.format(dir=tmp_path / "plain") in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_program_without_cuda_has_its_own_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reporting, "write_report", lambda directory: "")
    result = call("port", "--out", tmp_path / "p", "--", "sh", "-c", "exit 3")
    assert result.returncode == 3
    assert_states(
        result.stderr,
        f"{tmp_path / 'p'} has no trace",
        "CUDA",
        "exit status 3",
        "programs that use SYCL ... are not traced",
    )


@pytest.mark.parametrize(
    ("function", "source", "file", "expected"),
    [
        ("main", "/app/p.cu, with /usr/include/c++/12/bits/stl_vector.h", PROGRAM, "container"),
        ("main", "/app/p.cu, with /opt/gcc/include/c++/13.2.0/bits/deque.tcc", PROGRAM, "container"),
        ("main", "/app/p.cu, with /usr/lib/llvm-19/include/c++/v1/__vector/vector.h", PROGRAM, "container"),
        (
            "std::vector<Record>::emplace_back()",
            "/app/r.h, with /usr/include/c++/12/bits/vector.tcc",
            PROGRAM,
            "container",
        ),
        ("main", "/app/p.cu, with /usr/include/c++/12/bits/stl_algobase.h", PROGRAM, None),
        ("resize(Buffer&)", "/app/vector.h", PROGRAM, None),
        (
            "std::thread::_State_impl<A>::_M_run()",
            "/app/p.cu, with /usr/include/c++/12/bits/std_thread.h",
            PROGRAM,
            None,
        ),
        ("std::thread::_State_impl<A>::_M_run()", "", PROGRAM, None),
        ("std::vector<Record>::_M_realloc_insert(Record&&)", "", PROGRAM, "container"),
        ("void std::__fill_n<float*>(float*, int)", "", PROGRAM, "container"),
        ("main", "/usr/include/c++/12/bits/stl_construct.h", PROGRAM, "container"),
        ("load", "/src/io.c", "/usr/lib/libio.so", "library"),
        ("", "", "/usr/lib/x86_64-linux-gnu/libcuda.so.580.95.05", None),
        ("main", "/app/p.cu", PROGRAM, None),
        ("fill(std::vector<float>&)", "/app/p.cu", PROGRAM, None),
        ("", "", "/usr/lib/libc.so.6", None),
        ("", "", "/usr/lib/libcuda.so.1", None),
        ("", "", "/usr/lib/libcudart.so.13.0.1", None),
        ("", "", "/usr/lib/llvm-15/lib/libclang-cpp.so.15", None),
        ("", "", "/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1", None),
        ("", "", "/home/someone/.cache/pocl/kcache/AB/add.so", None),
        ("make", "", "/usr/lib/libclang-cppx.so.15", "library"),
        ("", "", "/site/firsttouch/libfirsttouch_inject.so", None),
        ("", "", "/usr/lib/pocl/libpocl-devices-pthread.so", None),
        ("", "", "/usr/lib/libclang-cpp.so.15", None),
        ("", "", "/usr/lib/libLLVM-15.so.1", None),
        ("", "", "/usr/lib/libLLVM.so.19.1", None),
        ("", "", "/usr/lib/libpocl_images.so.1", "library"),
        ("", "", "/usr/lib/libclang-data.so.1", "library"),
        ("", "", "anonymous executable memory", None),
    ],
)
def test_memory_whose_first_touches_are_in_a_container_or_a_library_is_a_hidden_allocator_s(
    function: str, source: str, file: str, expected: str | None, tmp_path: Path
):
    calls = Calls(pid=100)
    host = calls.host(MIB)
    calls.copy(calls.block(MIB, line=1), host, MIB, line=2)
    source, _, header = source.partition(", with ")
    lines = [
        Site(site=0, file=file, offset=4),
        Symbol(site=0, function=function, source=source, number=5, headers=[header] if header else []),
        TouchSamples(t=1.0, every=8, rows=[(0, 0, 0, host >> 16, 16, 30), (1, 0, 1, (host >> 16) + 3, 1, 10)]),
    ]
    directory = profile(tmp_path / "p", calls.traced, callers=names(), lines=lines)
    content, port = read(directory), firsttouch.port(directory)
    rows, _ = search(program_state(traced_run(content), content.callers, TouchIndex(content, 100)))
    found = [(row.rule.name, row.certainty, row.variant) for row in rows]
    assert found == ([("hidden", "likely", expected)] if expected else [])
    assert [(finding["kind"], finding["bytes"]) for finding in port["findings"]] == [("hidden", MIB)] * len(found)
    (partner,) = port["blocks"][0]["partners"]
    assert (partner["touched"]["function"], partner["threads"]) == (function, 2)
    assert [row["searched"] for row in port["searched"] if row["kind"] == "hidden"] == [True]


@pytest.mark.parametrize(
    ("caller", "file", "is_found"),
    [
        (CallFrame(PROGRAM, 7), PROGRAM, False),
        (CallFrame(PROGRAM, 7), "/app/libgpu.so", False),
        (CallFrame(PROGRAM, 7), "/usr/lib/libio.so", True),
        (CallFrame("/home/me/train.py", 7, "main"), PROGRAM, True),
    ],
)
def test_a_program_that_allocates_by_a_library_of_its_own_is_not_a_library(
    caller: CallFrame, file: str, is_found: bool, tmp_path: Path
):
    calls = Calls(pid=100)
    host = calls.host(MIB)
    block = calls.block(MIB, site=(CallFrame("/app/libgpu.so", 1), caller, CallFrame(PROGRAM, 8)))
    calls.copy(block, host, MIB, line=2)
    lines = [
        Site(site=0, file=file, offset=4),
        Symbol(site=0, function="load", source="/src/load.c", number=5),
        TouchSamples(t=1.0, every=8, rows=[(0, 0, 0, host >> 16, 16, 30)]),
    ]
    findings = firsttouch.port(profile(tmp_path / "p", calls.traced, callers=names(), lines=lines))["findings"]
    assert [finding["kind"] for finding in findings] == ["hidden"] * is_found


def test_many_findings_fit_on_a_screen(tmp_path: Path):
    calls = again("_Z6updatePf")
    calls.pid = 100
    for line in range(20, 60):
        block = calls.block(MIB, line=line)
        calls.copy(block, 0x7FFF0000 + 8 * line, 4, host="stack", line=line)
        calls.copy(block, calls.host(64), 64, line=line + 1, host="static")
        calls.copy(calls.block(64, kind="device_static", name=f"symbol{line}"), calls.host(64), 64, line=line)
    calls.query(1, 2, line=61)
    shown = call("port", profile(tmp_path / "p", calls.traced, callers=names()))
    lines = shown.stdout.splitlines()
    assert len(lines) <= 25
    answer = " ".join(" ".join(lines[:2]).split())
    assert_states(answer, "fix 2 hazards", "to note: stack variable, free memory and restoring copy")


def test_a_trace_that_ends_early_is_not_told_as_a_whole(tmp_path: Path):
    directory = profile(tmp_path / "p", backprop().traced)
    journal = directory / "journal-100-0.bin"
    journal.write_bytes(journal.read_bytes().rstrip(b"\0")[:-20])
    text, incomplete = " ".join(call("port", directory).stdout.split()), firsttouch.port(directory)["incomplete"]
    for part in ("ended with status 3", "it was damaged"):
        assert any(part in sentence and sentence in text for sentence in incomplete)


def test_without_room_there_are_findings_or_the_reason(tmp_path: Path):
    directory = profile(tmp_path / "p", backprop().traced)
    (directory / "program.json").mkdir()
    assert_states(
        cli.findings_in(directory, keep=True).incomplete[0],
        "program.json",
        "can't be written",
        os.strerror(errno.EISDIR),
    )
    journal = directory / "journal-100-0.bin"
    journal.write_bytes(journal.read_bytes()[:32] + (7).to_bytes(8, "little") + bytes(4056))  # the header alone
    lines = directory / "profile.jsonl"
    lines.write_text(re.sub(r'"trace","active":false', '"trace","active":true', lines.read_text()))
    assert_states(call("port", directory).stderr, f"{directory} has no trace", "7 records", "disk is full")


def test_what_is_left_out_of_a_list_is_counted(tmp_path: Path):
    calls = Calls()
    for line in range(10, 16):
        calls.copy(calls.block(64, kind="device_static", name=f"symbol{line}"), calls.host(64), 64, line=line)
    text = " ".join(call("port", profile(tmp_path / "p", calls.traced, callers=names())).stdout.split())
    assert "symbol10, symbol11, symbol12, symbol13 and 2 more at main p.cu:10, :11, :12, :13 and 2 more (6x" in text


def test_a_damaged_journal_is_read_or_refused_in_one_sentence(tmp_path: Path):
    calls = backprop()
    calls.wait(stack=5)
    calls.query(1, 2)
    directory = profile(tmp_path / "p", calls.traced)
    journal = directory / "journal-100-0.bin"
    whole, random = journal.read_bytes(), Random(1)
    for _ in range(3000 if os.environ.get("FIRSTTOUCH_EXHAUSTIVE") else 40):
        damaged = bytearray(whole)
        for _ in range(random.choice((1, 3))):
            at = random.randrange(4096, len(whole))
            damaged[at] = random.choice((0, 255, random.randrange(256), damaged[at] ^ (1 << random.randrange(8))))
        journal.write_bytes(damaged)
        result = call("port", directory)
        assert result.returncode in (0, 2)
        assert result.stderr.count("\n") == (result.returncode == 2)


def test_rows_are_whole_and_hazards_come_before_further_buffers(tmp_path: Path):
    calls = Calls(pid=100)
    long = dict.fromkeys(range(1, 20), f"{'library::' * 20}allocate")
    for line in range(1, 14):
        block, host = calls.block(MIB + line * 4096, line=line), calls.host(2 * MIB)
        for _ in range(2):
            calls.copy(block, host, MIB, line=line, sample=7)
        calls.copy(host + MIB, block, MIB, line=line)
        calls.host_use(host, 2 * MIB, read=0)
    shown = call("port", profile(tmp_path / "p", calls.traced, callers=names(long))).stdout
    text = " ".join(shown.split())
    assert len(shown.splitlines()) <= 25
    assert_states(text, "more buffers", "hazards none", "unless the rest of their bytes differs (--check-copies)")
