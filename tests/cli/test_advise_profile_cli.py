"""firsttouch advise --profile: what it prints of a journal, and how it refuses a wrong call."""

from __future__ import annotations

import json
import re
from functools import cache
from html import unescape
from pathlib import Path

import msgspec
import pytest
from tests.calls import call
from tests.port.journals import profile
from tests.port.traces import PROGRAM, Calls
from tests.schemas import assert_valid
from tests.texts import assert_states

import firsttouch
from firsttouch.advice import advisor
from firsttouch.advice.profiled import advise_profile
from firsttouch.base.errors import NOT_JUDGED
from firsttouch.profile.schema import Caller
from firsttouch.records.reading import load_results
from firsttouch.report.advised import render

H200 = Path(__file__).parents[2] / "results" / "h200-standard"
_loaded = cache(load_results)
MIB = 1 << 20


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advisor, "load_results", _loaded)


def doubled(pid: int = 1, nbytes: int = 1024 * MIB) -> Calls:
    calls = Calls(pid)
    host, device = calls.host(nbytes), calls.block(nbytes, line=10)
    calls.copy(device, host, nbytes, seconds=8e-3, line=12)
    for _ in range(100):
        calls.launch(device, seconds=1e-3, line=13)
    calls.copy(host, device, nbytes, seconds=6e-3, line=14)
    return calls


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    names = {
        (PROGRAM, line): Caller(file=PROGRAM, offset=line, function="main", source="d.cu", number=line)
        for line in range(20)
    }
    return profile(tmp_path / "port-1", doubled().traced, doubled(7, MIB).traced, callers=names)


def test_a_journal_is_advised_on_with_its_lines(traced: Path) -> None:
    done, found = call("advise", H200, "--profile", traced), firsttouch.advise(H200, profile=traced)
    assert (done.returncode, done.stderr) == (NOT_JUDGED, "")  # of the unchanged program, the difference is not clear
    assert found["verdict"]["kind"] == "not known"
    text = " ".join(done.stdout.split())
    assert found["take"] == "explicit+pinned"
    assert text.startswith(" ".join(found["sentences"]))
    (edit,) = found["traced"]["edits"]
    assert (edit["count"], edit["bytes"]) == (1, 1024 * MIB)
    assert f"{edit['text']} (d.cu:12, 14)" in text
    assert_states(found["traced"]["unseen"], "processes", "7 (--process)", "process 1")
    told = sum(one in text for one in found["traced"]["unseen"])
    assert told == len(found["traced"]["unseen"]) or f"{len(found['traced']['unseen']) - told} more (--json)" in text


def test_json_and_python_have_the_same_and_follow_the_schema(traced: Path) -> None:
    done = call("advise", H200, "--profile", traced, "--process", 7, "--json")
    found = json.loads(done.stdout)
    assert (found["traced"]["process"], found["size"]) == (7, MIB)
    assert {b["strategy"] for b in found["traced"]["bounds"]} == {row["strategy"] for row in found["strategies"]}
    assert found == json.loads(msgspec.json.encode(firsttouch.advise(H200, profile=traced, process=7)))
    assert_valid("advise", found)


def test_a_platform_needs_no_run(traced: Path) -> None:
    done = call("advise", "--profile", traced, "--device", "model:gh200")
    assert done.returncode in (0, NOT_JUDGED), done.stderr
    assert done.stdout.startswith("Predicted for gh200: ")


def test_the_page_has_the_answer_the_edits_and_every_term_and_names_are_text(tmp_path: Path) -> None:
    names = {(PROGRAM, line): Caller(file=PROGRAM, offset=line, function="main", source="<b>&.cu", number=line)
             for line in range(20)}  # fmt: skip
    directory = profile(tmp_path / "port-1", doubled().traced, callers=names)
    page = render(advise_profile(directory, [H200]))
    text = unescape(re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL))
    advice = firsttouch.advise(H200, profile=directory)
    assert all(sentence in text for sentence in advice["sentences"])
    assert "<b>&.cu:12, 14" in text
    assert "<b>" not in page.partition('<section id="edits">')[2].partition("</section>")[0]
    terms = {term["what"] for row in advice["strategies"] for term in row["terms"]}
    assert all(what in text for what in terms)
    assert page.count("<svg") == 2  # for desktops, and for phones


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--process", "7"), "name it with --profile DIR"),
        (("--profile", "{port}", "--app", "gemm", "--size", "1GiB"), "leave out --app, --size, or --profile"),
        (("--profile", "{port}", "--process", "9"), "those that did: 1, 7"),
        (("--profile", "{results}"), "holds no profile"),
        (("--pattern", "stream", "--out", "page.html"), "name that with --profile DIR"),
        (("--profile", "{port}", "--device", "model:gh200"), "leave out the directory"),
    ],
)
def test_a_wrong_call_is_one_sentence(words: tuple[str, ...], said: str, traced: Path) -> None:
    done = call("advise", H200, *(word.format(port=traced, results=H200) for word in words))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("xnack", "has_time"), [(None, False), ("0", False), ("1", True)])
def test_a_condition_that_the_answer_names_is_asked_for_by_an_option(traced: Path, xnack: str | None, has_time: bool):
    """On an MI300A the GPU reaches plain memory only with XNACK."""
    sets = [] if xnack is None else ["--set", f"xnack={xnack}"]
    done = call("advise", "--profile", traced, "--device", "model:mi300a", *sets)
    found = firsttouch.advise(profile=traced, device="model:mi300a", set=[f"xnack={xnack}"] if xnack else [])
    assert ("system" in [row["strategy"] for row in found["strategies"]]) == has_time
    text = " ".join(done.stdout.split())
    assert ("--set xnack=1" in text) != has_time
    assert (f"under xnack={xnack}" in text) == (xnack is not None)


@pytest.mark.parametrize(
    ("sets", "facts"),
    [(["xnack=2"], ["xnack=2", "0, 1"]), (["xnack=0,1"], ["0, 1"]), (["kernels=2"], ["--set kernels", "--profile"])],
)
def test_what_is_no_condition_of_the_platform_is_refused(traced: Path, sets: list[str], facts: list[str]) -> None:
    done = call("advise", "--profile", traced, "--device", "model:mi300a", *(f"--set={each}" for each in sets))
    assert done.returncode == 2
    assert_states(done.stderr, *facts)


def test_a_condition_prices_an_application_too() -> None:
    without, under = (firsttouch.advise(app="bfs", device="model:mi300a", set=sets) for sets in ([], ["xnack=1"]))
    names = [{row["strategy"] for row in found["strategies"]} for found in (without, under)]
    assert "system" in names[1] - names[0]
    assert_states(under["assumptions"], "xnack=1")
