"""firsttouch advise: what it prints, and how it refuses a wrong call."""

from __future__ import annotations

import json
import re
import shutil
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.calls import call
from tests.kept_runs import stored_run
from tests.texts import assert_states

from firsttouch.advice import advisor
from firsttouch.advice.advisor import advise
from firsttouch.advice.answer import Advice
from firsttouch.advice.output import output
from firsttouch.apps import all_apps
from firsttouch.base.errors import UsageError
from firsttouch.program.patterns import PATTERNS
from firsttouch.records.reading import load_results

STANDARD, APPS, QUICK = (stored_run(name) for name in ("h200-standard", "h200-apps", "h200-quick"))
VM, VM_QUICK = stored_run("xeon-vm-standard"), stored_run("xeon-vm-quick")


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading results takes three times as long as the advice from them."""
    monkeypatch.setattr(advisor, "load_results", _loaded)


_loaded = cache(load_results)


def builtins(advice: Advice) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(output(advice)))
    return plain


def test_json_ranks_the_strategies_with_their_terms_and_points() -> None:
    done = call("advise", STANDARD, "--app", "gemm", "--size", "2GiB", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    times = [row["ms"] for row in found["strategies"]]
    assert times == sorted(times)
    assert found["strategies"][0]["strategy"] == "managed+prefetch"
    for row in found["strategies"]:
        assert 0 <= row["low"] <= row["ms"] <= row["high"]
        assert sum(term["ms"] for term in row["terms"]) == pytest.approx(row["ms"])
        assert all(term["grounds"] for term in row["terms"])
    absent = {one["strategy"]: one["reason"] for one in found["unavailable"]}
    assert "pageableMemoryAccess" in absent["system"]
    assert len(found["sentences"]) <= 3


def test_the_terminal_gives_the_answer_first() -> None:
    words = ("advise", STANDARD, "--pattern", "stream", "--size", "1GiB")
    found, printed = json.loads(call(*words, "--json").stdout), call(*words).stdout
    assert (found["verdict"]["kind"], found["take"], found["size"]) == ("take", "managed+prefetch", 1 << 30)
    assert " ".join(printed.split()).startswith(" ".join(found["sentences"]))
    assert any(line.startswith("explicit+pinned ") for line in printed.splitlines())


def test_an_estimate_within_the_error_of_estimates_does_not_beat_a_measurement() -> None:
    found = builtins(advise([stored_run("h200-apps-2"), STANDARD], app="hotspot", size="2GiB", apps=all_apps()))
    rows = {row["strategy"]: row for row in found["strategies"]}
    taken, estimated = rows["managed+prefetch"], rows["managed+prefetch-overlap"]
    assert found["take"] == "managed+prefetch"
    assert taken["measured"]
    assert (found["verdict"]["kind"], round(taken["ms"])) == ("take", 271)
    assert estimated["ms"] < taken["ms"] < estimated["high"]
    (turn,) = (turn for turn in found["turning"] if turn["kind"] == "estimates")
    assert "managed+prefetch-overlap" in turn["others"]
    assert "--strategy managed+prefetch-overlap" in turn["run"]


def test_measured_times_win_and_the_difference_is_shown() -> None:
    found = builtins(advise([STANDARD, APPS], app="lud", apps=all_apps()))
    rows = {row["strategy"]: row for row in found["strategies"]}
    (record,) = [
        r
        for r in load_results(APPS).records
        if (r.factors["app"], r.factors["strategy"], r.factors["events"]) == ("lud", "managed+prefetch", "off")
    ]
    assert record.summary is not None
    row = rows["managed+prefetch"]
    assert (row["measured"], row["ms"]) == (True, record.summary.median)
    assert row["difference_ms"] == pytest.approx(row["ms"] - row["estimated_ms"])
    assert not rows["explicit+pinned"]["measured"]


def test_what_was_not_measured_has_a_command_and_no_guess(tmp_path: Path) -> None:
    less = tmp_path / "less"
    shutil.copytree(STANDARD, less)
    lines = (less / "results.jsonl").read_text().splitlines()
    (less / "results.jsonl").write_text("".join(f"{one}\n" for one in lines if '"experiment":"migration"' not in one))
    found = builtins(advise([less], pattern="iterate"))
    absent = {one["strategy"]: one for one in found["unavailable"]}
    assert absent["managed"]["run"].startswith("firsttouch run migration --device ")
    assert "managed" not in {row["strategy"] for row in found["strategies"]}


def test_what_may_be_faster_is_named_where_it_is_not_estimated() -> None:
    found = builtins(advise([STANDARD], app="producer_consumer", size="1GiB", apps=all_apps()))
    absent = {one["strategy"]: one for one in found["unavailable"]}
    assert "at the same time" in absent["managed"]["reason"]
    assert absent["managed"]["run"].startswith("firsttouch app producer_consumer --size 1GiB")
    assert absent["managed"]["perhaps_faster"]
    assert 0 < absent["managed"]["least_ms"] < found["strategies"][0]["ms"]
    assert not found["fastest_known"]
    assert found["verdict"]["kind"] == "not known"
    assert "managed" in next(turn["others"] for turn in found["turning"] if turn["kind"] == "no time")


def test_what_is_slower_even_at_least_leaves_the_advice_as_it_is() -> None:
    found = builtins(advise([STANDARD], app="cfd_concurrent", size="512MiB", apps=all_apps()))
    absent = {one["strategy"]: one for one in found["unavailable"]}
    assert absent["managed"]["least_ms"] > found["strategies"][0]["ms"]
    assert found["fastest_known"]
    assert (found["verdict"]["kind"], found["take"]) == ("take", "explicit")


@pytest.mark.parametrize(
    ("name", "size", "known"),
    [
        ("transport", "64MiB", False),
        ("bfs_concurrent", "2GiB", True),
        ("conjugate_gradient", "4GiB", True),
        ("kmeans", "64MiB", True),
    ],
)
def test_rounds_that_data_end_matter_where_others_would_turn_the_advice(name: str, size: str, known: bool) -> None:
    found = builtins(advise([STANDARD], app=name, size=size, apps=all_apps()))
    assert found["fastest_known"] is known
    assert any(re.search("(rounds|iterations)", text) and "assumed" in text for text in found["assumptions"])
    turns = [turn for turn in found["turning"] if turn["kind"] == "rounds"]
    assert bool(turns) is not known
    assert all(turn["run"].startswith(f"firsttouch app {name} --size {size}") for turn in turns)


@pytest.mark.parametrize("name", ["bfs_concurrent", "gaussian_concurrent", "kmeans_concurrent"])
def test_parts_that_do_not_overlap_are_estimated(name: str) -> None:
    found = builtins(advise([STANDARD], app=name, size="2GiB", apps=all_apps()))
    assert {"managed", "managed+prefetch"} <= {row["strategy"] for row in found["strategies"]}
    assert found["fastest_known"]


def test_estimates_without_a_common_scale_are_not_ranked_with_measured_times() -> None:
    found = builtins(advise([STANDARD, APPS], app="producer_consumer", size="4GiB", apps=all_apps()))
    assert all(row["measured"] for row in found["strategies"])
    absent = {one["strategy"]: one for one in found["unavailable"]}
    assert "not measured" in absent["registered"]["reason"]
    assert absent["registered"]["run"].endswith("--strategy registered")


def test_on_a_device_that_shares_the_hosts_memory_nothing_is_copied() -> None:
    found = builtins(advise([VM], pattern="iterate"))
    names = [row["strategy"] for row in found["strategies"]]
    assert found["strategies"][0]["ms"] < 0.5 * found["strategies"][names.index("explicit")]["ms"]


def check_every_size(directory: Path, **asked: str) -> None:
    """Bounds hold each time, and a larger size does not take less."""
    before: dict[str, float] = {}
    for size in ("64MiB", "1GiB", "7GiB", "15GiB"):
        found = advise([directory], size=size, apps=all_apps(), **asked)  # type: ignore[arg-type]
        for row in found.strategies:
            for one in (row, *row.terms):
                assert 0 <= one.low <= one.ms * (1 + 1e-9) <= one.high * (1 + 2e-9), (size, one)
            assert row.ms >= before.get(row.strategy, 0), (size, row.strategy)
            before[row.strategy] = row.ms


@pytest.mark.parametrize("pattern", PATTERNS)
def test_at_every_size_bounds_hold_the_time_and_more_data_do_not_take_less(pattern: str) -> None:
    check_every_size(QUICK, pattern=pattern)


@pytest.mark.exhaustive
@pytest.mark.parametrize("directory", [STANDARD, QUICK, VM, VM_QUICK], ids=lambda path: path.name)
@pytest.mark.parametrize("app", sorted(all_apps()))
def test_at_every_size_of_an_application_bounds_hold_the_time_and_more_data_do_not_take_less(
    directory: Path, app: str
) -> None:
    check_every_size(directory, app=app)


def test_device_memory_that_is_host_memory_is_touched_first_too() -> None:
    """Only kernels use the large buffer of quantum_volume, which is a device array under explicit."""
    found = advise([VM], app="quantum_volume", size="256MiB", apps=all_apps())
    times = {row.strategy: row.ms for row in found.strategies}
    assert times["explicit"] == pytest.approx(times["pinned"], rel=0.01)


def test_what_does_not_fit_is_not_estimated() -> None:
    found = builtins(advise([VM], pattern="iterate", size="20GiB"))
    absent = {one["strategy"]: one for one in found["unavailable"]}
    assert_states(absent["explicit"]["reason"], "need 40 GiB", "host", "has 23.5 GiB")
    assert not absent["explicit"]["perhaps_faster"]
    with pytest.raises(UsageError, match=r"300 GiB.*host, which has 126 GiB"):
        advise([STANDARD], pattern="iterate", size="300GiB")
    found = builtins(advise([STANDARD], pattern="generate", size="110GiB"))
    assert found["fastest_known"]


@pytest.mark.parametrize(
    ("directories", "asked", "message"),
    [
        ([QUICK], {"app": "gemmm"}, "unknown application 'gemmm' (did you mean 'gemm'?)"),
        ([QUICK], {"device": "cuda:9"}, "unknown device 'cuda:9' (did you mean 'cuda:0'?)"),
        ([QUICK], {"device": "cpu"}, "cpu ... kernels"),
        ([QUICK], {"pattern": "itrate"}, "unknown pattern 'itrate' (did you mean 'iterate'?)"),
        ([QUICK], {"app": "gemm", "pattern": "iterate"}, "not both"),
        ([QUICK], {"app": "gemm", "size": "much"}, "--size 'much' is not a size"),
        ([QUICK], {"app": "gemm", "size": "3"}, "gemm needs at least"),
        ([QUICK, VM_QUICK], {}, "different machines"),
        ([stored_run("h200-pagefault")], {}, "too few measurements of cuda:0 ... run: firsttouch run "),
        ([QUICK.parent], {}, "holds no results.jsonl"),
    ],
)
def test_wrong_calls_are_one_sentence(directories: list[Path], asked: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError) as error:
        advise(directories, apps=all_apps(), **asked)  # type: ignore[arg-type]
    assert_states(str(error.value), message)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("asked", [{"pattern": "iterate"}, {"pattern": "stream"}, {"app": "hotspot"}])
def test_the_order_of_directories_changes_nothing(asked: dict[str, str]) -> None:
    orders = permutations([STANDARD, QUICK, stored_run("h200-standard-2")])
    first, *others = [builtins(advise(order, size="1GiB", apps=all_apps(), **asked)) for order in orders]  # type: ignore[arg-type]
    assert all(other["strategies"] == first["strategies"] for other in others)


def test_without_results_it_says_what_to_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="name a directory"):
        advise()


def test_applications_of_the_users_own(tmp_path: Path) -> None:
    module = Path(__file__).parents[2] / "docs" / "examples"
    own = next(path for path in sorted(module.glob("*.py")) if "(App)" in path.read_text())
    done = call("advise", STANDARD, "--module", own, "--size", "64MiB", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["strategies"]


def test_a_typo_in_the_users_application_is_named_by_its_line(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "examples" / "smooth.py").read_text()
    assert "gpu.launch(" in text
    module = tmp_path / "smooth.py"
    module.write_text(text.replace("gpu.launch(", "gpu.lunch("))
    line = next(number for number, words in enumerate(module.read_text().splitlines(), 1) if "gpu.lunch(" in words)
    done = call("advise", STANDARD, "--module", module, "--size", "64MiB")
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"({module}:{line})" in done.stderr
    assert done.stderr.count("\n") == 1
