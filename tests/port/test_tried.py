"""`firsttouch try`: programs run as if they had been ported, on the stand-ins, whose kernels run on the processor."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.calls import call
from tests.kept_runs import stored_run
from tests.port.played import FIXTURES, STANDINS, TOP, MakeOnce, PlayedCuda
from tests.profile import injected
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.advice.tried.recorded import Known, NotedBlock, ProcessNotes, name_as

UNIFIED = ("managed", "managed+advise", "managed+prefetch", "pinned", "system")
STRATEGIES = (*UNIFIED, "explicit+pinned", "managed-device")
Try = Callable[..., dict[str, Any]]


@pytest.fixture
def tried(cuda: PlayedCuda, tmp_path: Path) -> Try:
    """tried(program): what `firsttouch try` finds of a program of tried.cpp, in a folder of its own."""

    def run(program: str, *options: str, strategies: tuple[str, ...] = STRATEGIES, **more: str) -> dict[str, Any]:
        folder = tmp_path / "work"
        folder.mkdir()
        changed = {name: value for name, value in cuda.environment.items() if os.environ.get(name) != value}
        words = ("--out", tmp_path / "out", "--rounds", "1", "--strategy", ",".join(strategies), *options)
        command = (cuda.built(FIXTURES / "tried.cpp"), program)
        variables = {**changed, "STANDIN_CUDA_REACHES": "1", "STANDIN_CUDA_LATE": "1", **more}
        done = call("try", *words, "--json", "--", *command, cwd=folder, **variables)
        return {"status": done.returncode, "err": done.stderr, **json.loads(done.stdout)}

    return run


@pytest.fixture
def tried_hip(make_once: MakeOnce, tmp_path: Path) -> Try:
    """The same of a program that uses HIP."""

    def fill(folder: Path) -> None:
        runtime = folder / "libamdhip64.so.6"
        names = f"-Wl,-soname,{runtime.name},--version-script={STANDINS / 'hip_runtime.map'}"
        options = ["-std=c++20", "-fvisibility=hidden", f"-I{TOP / 'native'}", "-shared", "-fPIC", names]
        injected.compiled(str(STANDINS / "hip_runtime.cpp"), runtime, *options, language="c++")
        linked = [f"-I{FIXTURES}", "-DTRIED_HIP", str(runtime), f"-Wl,-rpath,{folder}"]
        injected.compiled(str(FIXTURES / "tried.cpp"), folder / "tried", *linked, language="c++")

    def run(program: str, strategies: tuple[str, ...] = STRATEGIES) -> dict[str, Any]:
        folder = tmp_path / "work"
        folder.mkdir()
        words = ("--out", tmp_path / "out", "--rounds", "1", "--strategy", ",".join(strategies), "--json", "--")
        done = call("try", *words, make_once("tried-hip", fill) / "tried", program, cwd=folder)
        return {"status": done.returncode, "err": done.stderr, **json.loads(done.stdout)}

    return run


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["strategy"]: row for row in found["results"]}


def pairs(found: dict[str, Any]) -> int:
    return sum(row.get("count", 1) for row in found["pairs"])


PROGRAMS = {
    "vecadd": (3, 3, 3),
    "vectors": (3, 3, 3),
    "device_first": (3, 3, 3),
    "page_locked": (1, 8, 8),
    "twice": (4, 8, 8),
    "early_free": (1, 1, 2),
    "grows": (1, 2, 2),
    "threads": (12, 24, 24),
    "reads_file": (1, 6, 6),
    "scalar": (1, 1, 2),
    "partial": (1, 9, 9),
    "resets": (1, 2, 2),
    "two_blocks": (1, 1, 4),
}
"""Of programs of tried.cpp: pairs of an array and a block, copies that are left out, and all copies."""
CUDA_ALONE = ("reads_file", "scalar", "partial", "resets")


def assert_all_ran(found: dict[str, Any], program: str) -> None:
    """The program has as many pairs and copies as it should, and a time under every strategy."""
    unified, left_out, copies = PROGRAMS[program]
    assert found["status"] == 0
    assert pairs(found) == unified
    for strategy, row in rows(found).items():
        assert (strategy, row["status"], row.get("reason", "")) == (strategy, "ok", "")
        expected = left_out if strategy in UNIFIED else 0
        assert (row["counts"].get("left_out", 0), row["counts"].get("made", 0)) == (expected, copies - expected)


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_runs_under_every_strategy_and_its_output_stays(tried: Try, program: str) -> None:
    found = tried(program)
    assert_all_ran(found, program)
    for row in rows(found).values():
        assert row["time"]["median"] > 0
        assert row["counts"].get("unmet", 0) == 0
    assert found["checked"]["different"] == 0


@pytest.mark.parametrize(
    ("program", "near", "reason"),
    [
        ("window", "page_locked", "offsets"),
        ("pitched", "vecadd", "rows"),
        ("is_static", "vecadd", "place"),
        ("on_stream", "vecadd", "allocated"),
        ("captured", "page_locked", "graph"),
        ("turns", "twice", "turns"),
        ("two_blocks", "vecadd", "shared"),
        ("filled", "vecadd", "filled"),
        ("late", "device_first", "late"),
        ("moves", "grows", "moves"),
    ],
)
def test_what_stays_apart_has_its_reason(tried: Try, tmp_path: Path, program: str, near: str, reason: str) -> None:
    """near: a program that is alike but for this."""
    found = tried(program, strategies=("managed",))
    assert reason in {row["reason"] for row in found["apart"]}
    assert all(row["text"] and row["copied_at"].startswith("tried.cpp:") for row in found["apart"])
    for name in ("work", "out"):
        (tmp_path / name).rename(tmp_path / f"{name}-of-the-first")
    assert reason not in {row["reason"] for row in tried(near, strategies=("managed",))["apart"]}


@pytest.mark.parametrize("program", ["restores", "reads_old", "writes_early", "scratch"])
def test_no_strategy_changes_what_a_program_with_a_hazard_puts_out(tried: Try, program: str) -> None:
    """Where the watch of host memory does not see the hazard, the copies or the output do."""
    found = tried(program)
    for strategy, row in rows(found).items():
        if strategy in UNIFIED:
            assert row["status"] in ("impossible", "differs")
            assert row.get("time") is None
        else:
            assert row["status"] == "ok"


@pytest.mark.skipif(bool(_core.why_no_page_tracking()), reason=_core.why_no_page_tracking())
@pytest.mark.parametrize(
    ("program", "reason", "facts"),
    [
        ("reads_old", "shadow", ["reads its array", "newer bytes"]),
        ("writes_early", "shadow", ["writes its array at tried.cpp:", "between the copy and the launch"]),
        ("scratch", "shadow", ["writes its array at tried.cpp:", "while a kernel may run"]),
        ("restores", "restoring", ["old bytes"]),
    ],
)
def test_the_shadow_refuses_a_hazard_by_its_line(tried: Try, program: str, reason: str, facts: list[str]) -> None:
    found = tried(program, strategies=("managed",))
    assert found["shadow"]["differences"] > 0
    (text,) = {row["text"] for row in found["apart"] if row["reason"] == reason}
    assert_states(text, *facts)
    assert rows(found)["managed"]["status"] == "impossible"


@pytest.mark.skipif(bool(_core.why_no_page_tracking()), reason=_core.why_no_page_tracking())
def test_what_the_trace_has_in_doubt_is_tried_where_the_shadow_sees_no_difference(tried: Try) -> None:
    """The kernel's name does not tell that it only reads what the CPU reads again."""
    found = tried("rereads", strategies=("managed",))
    assert (pairs(found), found["shadow"]["differences"], found["apart"]) == (2, 0, [])
    assert rows(found)["managed"]["status"] == "ok"


@pytest.mark.parametrize(
    ("program", "facts"), [("swapped", ["keeps apart"]), ("forks", ["forks"]), ("foreign", ["keeps apart"])]
)
def test_a_run_that_leaves_the_plan_ends_and_has_no_time(tried: Try, program: str, facts: list[str]) -> None:
    found = rows(tried(program))
    for strategy in UNIFIED:
        assert found[strategy]["status"] == "left the plan"
        assert_states(found[strategy]["reason"], *facts)
        assert found[strategy].get("time") is None


def test_a_child_reads_what_its_parent_had_where_no_array_is_the_drivers(tried: Try) -> None:
    found = {strategy: row["status"] for strategy, row in rows(tried("forks")).items()}
    assert found["explicit+pinned"] == "left the plan"
    assert (found["none"], found["managed-device"]) == ("ok", "ok")


def test_copies_of_rows_that_the_plan_does_not_have_end_the_run(tried: Try) -> None:
    found = rows(tried("foreign_rows"))
    assert {found[strategy]["status"] for strategy in UNIFIED} == {"left the plan"}


@pytest.mark.parametrize(("program", "fact"), [("other_result", "standard output"), ("other_status", "exit status")])
def test_an_output_that_differs_has_no_time(tried: Try, program: str, fact: str) -> None:
    found = tried(program)
    assert found["status"] == 1
    for strategy, row in rows(found).items():
        if strategy != "none":
            assert row["status"] == "differs"
            assert_states(row["reason"], fact)
            assert row.get("time") is None


def test_numbers_may_differ_within_the_tolerance(tried: Try) -> None:
    found = rows(tried("other_result", "--tolerance", "1e-6"))
    assert {row["status"] for row in found.values()} == {"ok"}


def test_what_differs_between_plain_runs_proves_nothing_but_the_rest_does(tried: Try) -> None:
    found = tried("varies")
    assert {row["name"]: row["compared"] for row in found["outputs"]} == {
        "the exit status": "all",
        "standard output": "part",
    }
    assert {row["status"] for row in rows(found).values()} == {"ok"}


def test_files_that_the_program_writes_are_compared(tried: Try) -> None:
    found = tried("writes_file")
    assert {row["name"]: row["compared"] for row in found["outputs"]}["result.bin"] == "all"
    assert {row["status"] for row in rows(found).values()} == {"ok"}


def test_a_file_with_other_bytes_has_no_time(tried: Try) -> None:
    found = rows(tried("other_file"))
    assert found["managed"]["status"] == "differs"
    assert_states(found["managed"]["reason"], "result.bin")


def test_managed_memory_stays_below_the_limit(tried: Try) -> None:
    found = rows(tried("vecadd", FIRSTTOUCH_MAX_MANAGED="2MiB"))
    for strategy in ("managed", "managed+prefetch", "managed+advise", "managed-device"):
        assert found[strategy]["status"] == "impossible"
        assert_states(found[strategy]["reason"], "FIRSTTOUCH_MAX_MANAGED")
    assert found["pinned"]["status"] == "ok"


def test_plain_memory_is_used_only_where_the_device_reaches_it(tried: Try) -> None:
    found = rows(tried("vecadd", strategies=("system", "managed"), STANDIN_CUDA_REACHES="0"))
    assert found["system"]["status"] == "impossible"
    assert_states(found["system"]["reason"], "pageableMemoryAccess")
    assert found["managed"]["status"] == "ok"


def test_predictions_stand_beside_the_times(tried: Try) -> None:
    found = rows(tried("vecadd", "--prices", str(stored_run("h200-standard"))))
    predicted = {strategy: row.get("predicted") for strategy, row in found.items()}
    assert all(predicted[name] > 0 for name in ("managed", "managed+prefetch", "managed+advise", "explicit+pinned"))
    assert predicted["managed-device"] is None  # no strategy of a port


def test_a_program_that_fails_is_not_tried(tried: Try) -> None:
    found = tried("fails")
    assert found["status"] == 2
    assert_states(found["error"]["message"], "status 5")


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("try",), "there is nothing to try"),
        (("try", "--strategy", "manged", "--", "true"), "managed"),
        (("try", "--strategy", ",", "--", "true"), "--strategy names none"),
        (("try", "--rounds", "0", "--", "true"), "--rounds"),
        (("try", "--tolerance", "2", "--", "true"), "--tolerance"),
    ],
)
def test_a_wrong_call_is_one_sentence(words: tuple[str, ...], fact: str) -> None:
    done = call(*words)
    assert done.returncode == 2
    assert_states(done.stderr, fact)


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program not in CUDA_ALONE])
def test_a_program_that_uses_hip_runs_so_too(tried_hip: Try, program: str) -> None:
    assert_all_ran(tried_hip(program), program)


@pytest.mark.parametrize(
    ("program", "reason"), [("window", "offsets"), ("turns", "turns"), ("on_stream", "allocated"), ("pitched", "rows")]
)
def test_what_stays_apart_with_hip_has_its_reason(tried_hip: Try, program: str, reason: str) -> None:
    assert reason in {row["reason"] for row in tried_hip(program, ("managed",))["apart"]}


@pytest.mark.skipif(bool(_core.why_no_page_tracking()), reason=_core.why_no_page_tracking())
@pytest.mark.parametrize(
    ("program", "reason"),
    [("reads_old", "shadow"), ("writes_early", "shadow"), ("scratch", "shadow"), ("restores", "restoring")],
)
def test_the_shadow_refuses_a_hazard_with_hip(tried_hip: Try, program: str, reason: str) -> None:
    assert reason in {row["reason"] for row in tried_hip(program, ("managed",))["apart"]}


@pytest.mark.skipif(bool(_core.why_no_page_tracking()), reason=_core.why_no_page_tracking())
def test_the_shadow_clears_a_doubt_with_hip(tried_hip: Try) -> None:
    assert pairs(tried_hip("rereads", ("managed",))) == 2


@pytest.mark.parametrize("program", ["swapped", "forks", "foreign", "foreign_rows"])
def test_a_run_with_hip_that_leaves_the_plan_ends(tried_hip: Try, program: str) -> None:
    assert rows(tried_hip(program, ("managed",)))["managed"]["status"] == "left the plan"


def test_what_a_static_runtime_calls_otherwise_while_it_is_traced_has_the_names_of_the_untraced_run() -> None:
    def notes(*keys: tuple[str, int]) -> ProcessNotes:
        seen = Counter[str]()
        made = ProcessNotes(1)
        for key, size in keys:
            made.blocks.append(NotedBlock(Known(key, seen[key]), size, 0, 0.0))
            seen[key] += 1
        return made

    traced = notes(("first", 64), ("traced", 64), ("traced", 64), ("same", 32), ("other", 16))
    name_as(traced, notes(("first", 64), ("first", 64), ("first", 64), ("same", 32)))
    names = [Known("first", 0), Known("first", 1), Known("first", 2), Known("same", 0), Known("other", 0)]
    assert [block.known for block in traced.blocks] == names
