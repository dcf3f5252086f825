"""`firsttouch try`: programs run as if they had been ported, on the stand-ins, whose kernels run on the processor."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.calls import call
from tests.kept_runs import stored_run
from tests.port.played import FIXTURES, STANDINS, TOP, MakeOnce, PlayedCuda
from tests.profile import injected
from tests.schemas import assert_valid
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.advice.tried.recorded import Known, NotedBlock, ProcessNotes, name_as

UNIFIED = ("managed", "managed+advise", "managed+prefetch", "pinned", "system")
STRATEGIES = (*UNIFIED, "explicit+pinned", "managed-device")
TRIED_OPTIONS = ("-std=c++20", f"-I{TOP / 'native'}")
Try = Callable[..., dict[str, Any]]


@pytest.fixture
def tried(cuda: PlayedCuda, tmp_path: Path) -> Try:
    """tried(program): what `firsttouch try` finds of a program of tried.cpp, or another source, in a folder of its
    own. built: more options of the compiler; arguments: more of the program; **more: variables of the environment.
    """

    def run(
        program: str,
        *options: str,
        strategies: tuple[str, ...] = STRATEGIES,
        source: str = "tried.cpp",
        built: tuple[str, ...] = (),
        arguments: tuple[str | Path, ...] = (),
        **more: str,
    ) -> dict[str, Any]:
        folder = tmp_path / "work"
        folder.mkdir()
        changed = {name: value for name, value in cuda.environment.items() if os.environ.get(name) != value}
        words = ("--out", tmp_path / "out", "--rounds", "1", "--strategy", ",".join(strategies), *options)
        command = (cuda.built(FIXTURES / source, *TRIED_OPTIONS, *built), program, *arguments)
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
        linked = [*TRIED_OPTIONS, f"-I{FIXTURES}", "-DTRIED_HIP", str(runtime), f"-Wl,-rpath,{folder}"]
        for source in ("tried", "tried_calls"):
            injected.compiled(str(FIXTURES / f"{source}.cpp"), folder / source, *linked, language="c++")

    def run(program: str, strategies: tuple[str, ...] = STRATEGIES, source: str = "tried") -> dict[str, Any]:
        folder = tmp_path / "work"
        folder.mkdir()
        words = ("--out", tmp_path / "out", "--rounds", "1", "--strategy", ",".join(strategies), "--json", "--")
        done = call("try", *words, make_once("tried-hip", fill) / source, program, cwd=folder)
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
CALLS = {
    "asks": (1, 2, 2),
    "asks_of_page_locked": (1, 2, 2),
    "asks_for_range": (1, 2, 2),
    "whole_rows": (1, 2, 2),
    "whole_slices": (1, 2, 2),
    "batch_of_others": (1, 2, 2),
    "on_device": (1, 2, 2),
    "fills_later": (1, 3, 3),
    "linked_driver": (1, 2, 2),
    "named_driver": (1, 2, 2),
}
MEMORY = {
    "aligned_new": (1, 2, 2),
    "posix_aligned": (1, 2, 2),
    "aligned": (1, 2, 2),
    "zeroed": (1, 2, 2),
    "grown_before": (1, 2, 2),
    "shrunk_after": (1, 2, 2),
    "reallocated_array": (1, 2, 2),
    "vector_grows": (1, 2, 2),
    "usable_size": (1, 2, 2),
    "freed_elsewhere": (3, 6, 6),
    "allocated_elsewhere": (1, 2, 2),
    "more": (2, 4, 4),
    "executes": (1, 2, 2),
    "threads_at_exit": (1, 2, 2),
    "exits_at_once": (1, 2, 2),
    "quick": (1, 2, 2),
    "frees_at_exit": (1, 2, 2),
    "leaks": (1, 2, 2),
    "catches_faults": (1, 2, 2),
    "ends_in_handler": (1, 2, 2),
    "protects": (1, 2, 2),
    "spawns": (1, 2, 2),
    "forks_before": (1, 2, 2),
    "locks": (1, 2, 2),
}
"""Of the programs of tried.cpp, tried_calls.cpp and tried_memory.cpp: pairs of an array and a block, copies that are
left out, and all copies.
"""
CUDA_ALONE = ("reads_file", "scalar", "partial", "resets", "linked_driver", "named_driver")


def assert_all_ran(found: dict[str, Any], program: str) -> None:
    """The program has as many pairs and copies as it should, and a time under every strategy."""
    unified, left_out, copies = {**PROGRAMS, **CALLS, **MEMORY}[program]
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
        ("again", "twice", "paired"),
        ("on_devices", "twice", "devices"),
    ],
)
def test_what_stays_apart_has_its_reason(tried: Try, tmp_path: Path, program: str, near: str, reason: str) -> None:
    """near: a program that is alike but for this."""
    found = tried(program, strategies=("managed",), STANDIN_CUDA_DEVICES="2")
    assert reason in {row["reason"] for row in found["apart"]}
    assert all(row["text"] and row["copied_at"].startswith("tried.") for row in found["apart"])
    for name in ("work", "out"):
        (tmp_path / name).rename(tmp_path / f"{name}-of-the-first")
    found = tried(near, strategies=("managed",), STANDIN_CUDA_DEVICES="2")
    assert reason not in {row["reason"] for row in found["apart"]}


@pytest.mark.parametrize("program", CALLS)
def test_less_common_calls_do_and_answer_as_in_the_plain_run(tried: Try, program: str) -> None:
    assert_all_ran(tried(program, source="tried_calls.cpp"), program)


@pytest.mark.parametrize(("program", "reason"), [("slices_with_gaps", "rows"), ("batched", "batched")])
def test_less_common_copies_that_stay_have_their_reason(tried: Try, program: str, reason: str) -> None:
    found = tried(program, source="tried_calls.cpp")
    assert {row["reason"] for row in found["apart"]} == {reason}
    assert rows(found)["managed-device"]["status"] == "ok"


@pytest.mark.parametrize(
    ("program", "fact"),
    [
        ("foreign_slices", "keeps apart"),
        ("foreign_batch", "keeps apart"),
        ("foreign_within", "two blocks"),
        ("foreign_peer", "two blocks"),
        ("foreign_fill", "fills"),
        ("foreign_query", "asks"),
        ("asks_of_both", "asks"),
        ("shares", "IPC"),
    ],
)
def test_less_common_calls_that_the_plan_does_not_have_end_the_run(tried: Try, program: str, fact: str) -> None:
    found = rows(tried(program, source="tried_calls.cpp", strategies=("managed",)))
    assert found["managed"]["status"] == "left the plan"
    assert_states(found["managed"]["reason"], fact)


@pytest.mark.parametrize("program", ["others_slices", "others_batch", "others_fill", "shares_another"])
def test_less_common_calls_that_name_no_pair_go_on(tried: Try, program: str) -> None:
    found = rows(tried(program, source="tried_calls.cpp", strategies=("managed",)))
    assert found["managed"]["counts"]["left_out"] == 2


@pytest.fixture
def tried_memory(tried: Try) -> Try:
    """Of a program of tried_memory.cpp."""

    def run(program: str, **more: Any) -> dict[str, Any]:
        return tried(program, source="tried_memory.cpp", strategies=("managed", "explicit+pinned"), **more)

    return run


@pytest.mark.parametrize("program", MEMORY)
def test_memory_of_less_common_allocations_and_ends(tried_memory: Try, program: str) -> None:
    assert_all_ran(tried_memory(program), program)


def test_an_array_that_is_aligned_to_more_than_a_page_stays_apart(tried_memory: Try) -> None:
    found = tried_memory("aligned_to_much")
    assert [row["reason"] for row in found["apart"]] == ["place"]
    assert rows(found)["explicit+pinned"]["status"] == "ok"


def test_an_array_of_another_size_than_in_the_plain_run_ends_the_run(tried_memory: Try) -> None:
    found = rows(tried_memory("larger"))
    assert (found["managed"]["status"], found["explicit+pinned"]["status"]) == ("left the plan", "ok")


def test_a_program_that_becomes_another_after_its_use_of_the_gpu_is_not_tried(tried_memory: Try) -> None:
    found = tried_memory("executes_late")
    assert found["status"] == 2
    assert_states(found["error"]["message"], "several processes")


def test_a_traced_run_knows_blocks_whose_callers_are_others_while_it_is_traced(tried_memory: Try) -> None:
    found = tried_memory("calls_otherwise_traced")
    assert pairs(found) == 2
    for row in found["results"]:
        assert row["traced"], row["strategy"]
        assert row["traced"]["device_peak"] is not None


@pytest.fixture
def allocator(cuda: PlayedCuda, make_once: MakeOnce) -> Path:
    """A library with an allocator of its own."""

    def fill(folder: Path) -> None:
        options = ("-shared", "-fPIC", "-fno-builtin")
        injected.compiled(str(FIXTURES / "allocator.c"), folder / "liballocator.so", *options)

    return make_once("tried-allocator", fill) / "liballocator.so"


@pytest.mark.parametrize("program", ["posix_aligned", "shrunk_after", "usable_size", "frees_at_exit", "vector_grows"])
def test_a_program_with_an_allocator_of_another_library(tried_memory: Try, allocator: Path, program: str) -> None:
    linked = ("-Wl,--no-as-needed", str(allocator), f"-Wl,-rpath,{allocator.parent}")
    assert_all_ran(tried_memory(program, built=linked), program)


def test_arrays_of_a_library_that_is_loaded_and_unloaded_twice(cuda: PlayedCuda, tried_memory: Try) -> None:
    library = cuda.built(FIXTURES / "tried_memory.cpp", *TRIED_OPTIONS, "-shared", "-fPIC")
    found = tried_memory("plugin", arguments=(library,))
    assert pairs(found) == 2
    assert {row["status"] for row in rows(found).values()} == {"ok"}


@pytest.mark.parametrize(("name", "reason"), [("libcublas.so.13", "library"), ("libcublasters.so.13", None)])
def test_a_block_of_a_library_of_the_vendor_stays_apart(
    cuda: PlayedCuda, tried_memory: Try, tmp_path: Path, name: str, reason: str | None
) -> None:
    library = tmp_path / name
    library.write_bytes(cuda.built(FIXTURES / "tried_memory.cpp", *TRIED_OPTIONS, "-shared", "-fPIC").read_bytes())
    found = tried_memory("block_of_library", arguments=(library,))
    assert {row["status"] for row in rows(found).values()} == ({"ok", "impossible"} if reason else {"ok"})
    assert [row["reason"] for row in found["apart"]] == ([reason] if reason else [])


def test_what_the_user_preloads_stays(cuda: PlayedCuda, tried_memory: Try) -> None:
    """Here the program's own plugin, whose function the program finds without opening it."""
    library = cuda.built(FIXTURES / "tried_memory.cpp", *TRIED_OPTIONS, "-shared", "-fPIC", "-DPRELOADED")
    found = tried_memory("preloaded", LD_PRELOAD=str(library))
    assert {row["status"] for row in rows(found).values()} == {"ok"}
    assert pairs(found) == 1


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
    for name in ("managed", "managed+prefetch", "managed+advise", "explicit+pinned"):
        assert 0 <= predicted[name]["low"] <= predicted[name]["seconds"] <= predicted[name]["high"]
    assert predicted["managed-device"] is None  # no strategy of a port


@pytest.mark.parametrize("kind", ["nowhere", "an empty folder", "a file", "a folder with a broken file"])
def test_what_has_no_prices_is_refused_before_anything_runs(tried: Try, tmp_path: Path, kind: str) -> None:
    prices = tmp_path / "prices"
    if kind == "a file":
        prices.touch()
    elif kind != "nowhere":
        prices.mkdir()
    if kind == "a folder with a broken file":
        (prices / "results.jsonl").write_text("{")
    found = tried("vecadd", "--prices", str(prices))
    assert found["status"] == 2
    assert_states(found["error"]["message"], "prices")
    assert not (tmp_path / "out/profile").exists()


def test_results_without_the_prices_of_copies_leave_the_times(tried: Try) -> None:
    found = tried("vecadd", "--prices", str(stored_run("h200-message")), strategies=("managed",))
    assert found["not_predicted"]
    assert rows(found)["managed"]["predicted"] is None
    assert rows(found)["managed"]["time"]["median"] > 0


def test_peaks_and_pages_are_of_a_traced_run(tried: Try) -> None:
    """The stand-in for CUPTI has the same events in each buffer that it delivers, whatever the program does."""
    found = rows(tried("vecadd", STANDIN_CUPTI_REPEAT="1"))
    array = 1 << 20
    for strategy, row in found.items():
        traced = row["traced"]
        assert traced["device_source"] == "allocations"
        assert traced["device_peak"] == (0 if strategy in ("pinned", "system") else 3 * array)
        assert row["counts"]["host_peak"] > array
        if strategy == "system":
            assert (traced["pages_in"], traced["gpu_faults"]) == (None, None)
            assert_states(traced["unseen"], "malloc")
        else:
            assert traced["pages_in"] > traced["pages_back"] > 0
            assert traced["gpu_faults"] > 0


@pytest.mark.parametrize(
    ("variables", "fact"),
    [
        ({"STANDIN_CUPTI_FAILS": "cuptiActivityConfigureUnifiedMemoryCounter=28"}, "platform"),
        ({"STANDIN_CUPTI_FAILS": "cuptiActivityConfigureUnifiedMemoryCounter=2"}, "no unified-memory events"),
        ({"STANDIN_CUPTI_VERSION": "990000"}, "CUPTI version"),
    ],
)
def test_pages_that_nobody_counted_are_unseen_and_no_zero(tried: Try, variables: dict[str, str], fact: str) -> None:
    found = rows(tried("vecadd", strategies=("managed",), **variables))
    for row in found.values():
        assert (row["status"], row["traced"]["pages_in"], row["traced"]["pages_back"]) == ("ok", None, None)
        assert_states(row["traced"]["unseen"], fact)


EDITS = {
    "vecadd": [("allocate", 3, ["tried.hpp:38"]), ("drop", 3, None), ("wait", 1, None), ("free", 3, None)],
    "twice": [("allocate", 1, ["tried.hpp:38"]), ("drop", 8, None), ("wait", 4, None), ("free", 4, None)],
    "early_free": [("allocate", 1, ["tried.hpp:38"]), ("drop", 1, None), ("free", 1, None), ("keep", 1, None)],
    "scalar": [("allocate", 1, None), ("drop", 1, None), ("free", 1, None)],
}
"""Of programs of tried.cpp and the header: the changes for managed memory, how many calls each is of, and lines."""


@pytest.mark.parametrize("program", EDITS)
def test_what_to_change_is_of_the_pairs_alone(tried: Try, program: str) -> None:
    found = tried(program, strategies=("managed",))
    assert found["edits_for"] == "managed"
    edits = {edit["what"]: edit for edit in found["edits"]}
    assert [*edits] == [what for what, _, _ in EDITS[program]]
    for what, calls, lines in EDITS[program]:
        assert edits[what]["count"] == calls
        assert lines in (None, edits[what]["lines"])
        assert all(line.startswith("tried.") for line in edits[what]["lines"])


@pytest.mark.parametrize("program", ["restores", "other_result", "swapped"])
def test_without_a_strategy_that_kept_the_output_there_is_nothing_to_change(tried: Try, program: str) -> None:
    found = tried(program, strategies=("managed", "managed+prefetch"))
    assert (found["edits_for"], found["edits"]) == (None, [])


def test_the_directory_is_read_by_the_other_commands(tried: Try, tmp_path: Path) -> None:
    found, out = tried("vecadd", strategies=("managed", "managed+prefetch")), tmp_path / "out"
    assert call("port", out).returncode == 0
    done = call("advise", stored_run("h200-standard"), "--profile", out, "--json")
    assert done.returncode in (0, 4), done.stderr
    measured = {row["strategy"]: row["ms"] for row in json.loads(done.stdout)["traced"]["tried"]}
    assert measured["managed"] == pytest.approx(1e3 * rows(found)["managed"]["time"]["median"])
    assert measured["as it is"] == pytest.approx(1e3 * rows(found)["none"]["time"]["median"])
    printed = call("advise", stored_run("h200-standard"), "--profile", out, "--out", tmp_path / "advice.html").stdout
    assert_states(printed, "tried use", "measured by firsttouch try")
    beside = call("advise", stored_run("h200-standard"), "--profile", out / "profile", "--json")
    assert json.loads(beside.stdout)["traced"]["tried"] == json.loads(done.stdout)["traced"]["tried"]
    judged = call("validate", "--tried", out, "--prices", stored_run("h200-standard"), "--json")
    (judgement,) = json.loads(judged.stdout)["measured"]
    assert judgement["points"] == 2
    again = call("report", out, "--json")
    assert json.loads(again.stdout)["tried"][0]["results"] == found["results"]
    assert_valid("try", {key: value for key, value in found.items() if key not in ("status", "err")})


def test_it_says_which_step_took_how_long(tried: Try) -> None:
    steps = [line.removeprefix("firsttouch: ") for line in tried("vecadd", strategies=("managed",))["err"].splitlines()]
    named = [step.rpartition(": ") for step in steps if re.search(r": [\d.]+ (us|ms|s)$", step)]
    names = [name for name, _, _ in named]
    first = ["plain, traced", "plain, again", "checked: managed", "timed, round 1 of 1", "traced: managed"]
    assert [name for name in names if name in first] == first


def test_the_status_of_a_program_that_always_fails_alike_is_compared_as_its_other_outputs(tried: Try) -> None:
    found = tried("fails", strategies=("managed",))
    assert {row["status"] for row in found["results"]} == {"ok"}
    assert [row["compared"] for row in found["outputs"] if "status" in row["name"]] == ["all"]


def test_a_program_that_a_signal_ends_is_not_tried(tried: Try) -> None:
    found = tried("aborts")
    assert found["status"] == 2
    assert_states(found["error"]["message"], "status 134")


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


def test_pages_of_hip_are_unseen(tried_hip: Try) -> None:
    managed = rows(tried_hip("vecadd", ("managed",)))["managed"]["traced"]
    assert (managed["pages_in"], managed["device_source"]) == (None, "allocations")
    assert_states(managed["unseen"], "HIP")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("window", "offsets"),
        ("turns", "turns"),
        ("on_stream", "allocated"),
        ("pitched", "rows"),
        ("is_static", "place"),
        ("two_blocks", "shared"),
        ("filled", "filled"),
        ("late", "late"),
        ("moves", "moves"),
        ("again", "paired"),
    ],
)
def test_what_stays_apart_with_hip_has_its_reason(tried_hip: Try, program: str, reason: str) -> None:
    assert reason in {row["reason"] for row in tried_hip(program, ("managed",))["apart"]}


@pytest.mark.parametrize("program", [program for program in CALLS if program not in CUDA_ALONE])
def test_less_common_calls_of_hip_do_and_answer_as_in_the_plain_run(tried_hip: Try, program: str) -> None:
    assert_all_ran(tried_hip(program, ("managed", "pinned"), "tried_calls"), program)


@pytest.mark.parametrize(
    "program", ["foreign_slices", "foreign_batch", "foreign_within", "foreign_peer", "foreign_fill", "shares"]
)
def test_less_common_calls_of_hip_that_the_plan_does_not_have_end_the_run(tried_hip: Try, program: str) -> None:
    assert rows(tried_hip(program, ("managed",), "tried_calls"))["managed"]["status"] == "left the plan"


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
