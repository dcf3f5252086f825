"""Directories of `firsttouch try` beside each other, and beside what was predicted of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.calls import call
from tests.port.tries import found, written
from tests.schemas import assert_valid
from tests.texts import assert_states

from firsttouch.advice.tried.findings import TriedResult, TriedStrategy
from firsttouch.advice.tried.stored import RESULT

ROUNDS = 7


def around(seconds: float) -> list[float]:
    """Rounds that hardly vary."""
    return [seconds * (1 + 0.001 * number) for number in range(ROUNDS)]


def tried(directory: Path, none: float = 1.0, managed: float = 0.5, **more: object) -> Path:
    times = {"none": around(none), "managed": around(managed), "managed+prefetch": around(2 * managed)}
    return written(directory, found(times, **more))  # type: ignore[arg-type]


def test_two_directories_are_compared_strategy_by_strategy(tmp_path: Path) -> None:
    before, after = tried(tmp_path / "before"), tried(tmp_path / "after", managed=1.5)
    done = call("compare", before, after, "--json")
    assert done.returncode == 0, done.stderr
    printed = call("compare", before, after).stdout
    assert_states(
        printed, "strategy managed ... 501 ms ... 1.5 s", "firsttouch try --strategy managed,managed+prefetch"
    )
    assert f"--out {before}-$i -- ./app 1" in printed


def test_more_runs_on_each_side_tell_a_change(tmp_path: Path) -> None:
    before = ",".join(str(tried(tmp_path / f"before-{n}", managed=0.5 + 0.001 * n)) for n in range(3))
    after = ",".join(str(tried(tmp_path / f"after-{n}", managed=0.8 + 0.001 * n)) for n in range(3))
    done = call("compare", before, after, "--fail-over", "5%")
    assert done.returncode == 1
    assert_states(done.stdout, "regressions of more than 5 %")


@pytest.mark.parametrize("kind", ["another program", "other arguments", "results of a run"])
def test_what_is_not_the_same_program_is_not_compared(tmp_path: Path, kind: str) -> None:
    from tests.kept_runs import stored_run

    command = {"another program": ["./other", "1"], "other arguments": ["./app", "2"]}.get(kind)
    other = tried(tmp_path / "b", command=command) if command else stored_run("h200-quick")
    done = call("compare", tried(tmp_path / "a"), other)
    assert done.returncode == 2
    assert_states(done.stderr, "no point in common")


def test_a_strategy_without_a_time_is_no_point(tmp_path: Path) -> None:
    before, after = tried(tmp_path / "a"), tmp_path / "b"
    findings = found({"none": around(1.0), "managed": around(0.5)})
    lost = TriedResult(strategy="managed+prefetch", status="differs", reason="another result")
    written(after, replace(findings, results=[*findings.results, lost]))
    done = call("compare", before, after, "--json")
    assert done.returncode == 0, done.stderr


def judged(*directories: Path) -> dict[str, object]:
    words = [word for directory in directories for word in ("--tried", directory)]
    done = call("validate", *words, "--json")
    assert done.returncode == 0, done.stderr
    (judgement,) = json.loads(done.stdout)["measured"]
    assert_valid("validate", json.loads(done.stdout))
    return judgement  # type: ignore[no-any-return]


def test_measured_times_judge_predicted_ones(tmp_path: Path) -> None:
    predicted = {"managed": (0.6, 0.4, 0.9), "managed+prefetch": (0.4, 0.3, 0.5)}
    judgement = judged(tried(tmp_path / "a", predicted=predicted))
    rows = {row["strategy"]: row for row in judgement["strategies"]}  # type: ignore[attr-defined]
    assert rows["managed"]["measured_ms"] == pytest.approx(-500, rel=0.01)
    assert rows["managed"]["estimated_ms"] == pytest.approx(-400, rel=0.01)
    assert judgement["inside"] == 0.5  # managed+prefetch takes a second
    assert (judgement["pairs"], judgement["in_order"]) == (2, 0.5)
    assert judgement["factors"]["worst"] == pytest.approx(2.5, rel=0.01)  # type: ignore[index]
    assert judgement["baseline"] == "none"


def test_of_few_rounds_no_order_is_judged(tmp_path: Path) -> None:
    times: dict[TriedStrategy, list[float]] = {"none": [1.0] * 4, "managed": [0.5] * 4}
    judgement = judged(written(tmp_path / "a", found(times, {"managed": (2.0, 1.0, 3.0)})))
    assert (judgement["pairs"], len(judgement["strategies"])) == (0, 1)  # type: ignore[arg-type]


def test_several_programs_are_judged_together_and_in_words(tmp_path: Path) -> None:
    some = [tried(tmp_path / f"{n}", predicted={"managed": (0.5 + n / 10, 0.4, 0.9)}) for n in range(3)]
    assert judged(*some)["cases"] == 3
    done = call("validate", "--tried", some[0])
    assert_states(done.stdout, "advise --profile", "difference to none", "app ... managed")


@pytest.mark.parametrize(
    ("words", "fact"),
    [
        (("--tried", "T"), "--prices"),
        (("gh200", "--tried", "T"), "gh200"),
        (("--tried", "T", "--rows", "R"), "--rows"),
        (("--prices", "P"), "--tried"),
        (("--tried", "none"), "none"),
        (("--tried", "T", "--prices", "none"), "none"),
    ],
)
def test_a_wrong_call_is_one_sentence(tmp_path: Path, words: tuple[str, ...], fact: str) -> None:
    places = {"T": tried(tmp_path / "t"), "R": tmp_path / "rows.json", "P": tmp_path}
    done = call("validate", *(places.get(word, word) for word in words))
    assert done.returncode == 2
    assert_states(done.stderr, fact)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"schema": "firsttouch-try/2"}', b'{"schema": "firsttouch-port/1"}', b"[]", b"\xff", b"[" * 100_000],
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    directory = tried(tmp_path / "t")
    (directory / RESULT).write_bytes(content)
    for words in (("report",), ("compare", tried(tmp_path / "u")), ("validate", "--tried")):
        done = call(*words, directory)
        assert done.returncode in (1, 2)
        assert_states(done.stderr, RESULT)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("kind", ["no profile", "a folder in place of the file", "a profile of another version"])
def test_a_directory_that_is_not_whole_is_named(tmp_path: Path, kind: str) -> None:
    directory = tried(tmp_path / "t")
    profile = directory / "profile/profile.jsonl"
    if kind == "no profile":
        profile.unlink()
    elif kind == "a folder in place of the file":
        (directory / RESULT).unlink()
        (directory / RESULT).mkdir()
    else:
        profile.write_text(profile.read_text().replace("firsttouch-profile/1", "firsttouch-profile/9"))
    done = call("compare", directory, tried(tmp_path / "u"))
    assert done.returncode == 2
    assert_states(done.stderr, str(directory))
