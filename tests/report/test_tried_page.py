"""The page of `firsttouch try`: the answer first, each number of the findings, and nothing of the program but text."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.calls import call
from tests.port.tries import found, written
from tests.texts import assert_states

from firsttouch.advice.edit import Edit
from firsttouch.advice.tried.findings import ComparedOutput, PairApart, TracedMemory, TriedPair, TriedResult
from firsttouch.report.tried import render

EVIL = "</script><script>alert(1)</script><b>\x00\x1b[31m\u202e'\""
TIMES = {"none": (1.0, 1.1, 0.9), "managed": (0.5, 0.6, 0.55)}


def text_of(page: str) -> str:
    bare = re.sub(r"<(style|script).*?</\1>|<[^>]*>|&shy;|<wbr>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(bare).split())


def test_the_page_asks_and_answers_first_and_has_each_number() -> None:
    findings = replace(
        found(TIMES, {"managed": (0.7, 0.6, 0.8)}),
        pairs=[TriedPair(array=8, block=16, copied_in=4, copied_back=2, copied_at="a.cu:7", allocated_at="a.cu:3")],
        apart=[PairApart(reason="turns", text="they take turns", copied=5, copied_at="a.cu:9", allocated_at="a.cu:4")],
        edits_for="managed",
        edits=[Edit("drop", "drop 2 copies", ["a.cu:7", "a.cu:8"], 2, 6)],
        outputs=[ComparedOutput(name="standard output", compared="part")],
    )
    text = text_of(render(findings))
    asked, figure = text.index("What would unified memory do to ./app 1?"), text.index("Whiskers")
    assert text.index(findings.summary) < asked < figure
    assert_states(
        text,
        *("550 ms (500 to 600)", "0.55 (0.54 to 0.56)", "700 ms (600 to 800)"),
        *("100 MiB", "64 MiB", "2 of 3", "a.cu:7-8", "they take turns", "a.cu:9", "equal in part"),
    )


@pytest.mark.parametrize("place", ["command", "reason", "line", "output"])
def test_nothing_from_the_program_is_more_than_text(place: str) -> None:
    findings = found(TIMES, command=[EVIL if place == "command" else "./app"])
    apart = PairApart(reason="kept", text="why", copied=1, copied_at=EVIL if place == "line" else "", allocated_at="")
    refused = TriedResult(strategy="system", status="differs", reason=EVIL if place == "reason" else "")
    outputs = [ComparedOutput(name=EVIL if place == "output" else "x", compared="all")]
    page = render(replace(findings, apart=[apart], outputs=outputs, results=[*findings.results, refused]))
    assert "<script>alert" not in page
    assert "\x1b" not in page
    assert page.count("<script>") == 1


@pytest.mark.parametrize("kind", ["none timed", "no counts", "one round"])
def test_what_was_not_measured_is_no_number(kind: str) -> None:
    findings = found({"none": (1.0,), "managed": (2.0,)})
    none, managed = findings.results
    if kind == "none timed":
        rows = [none, TriedResult(strategy="managed", status="impossible", reason="no pair")]
    elif kind == "no counts":
        rows = [none, replace(managed, counts=None, traced=None)]
    else:
        rows = [none, replace(managed, traced=TracedMemory(directory="t", unseen=["HIP does not say"]))]
    text = text_of(render(replace(findings, results=rows)))
    assert " to 2)" not in text
    if kind == "none timed":
        assert_states(text, "managed ... no pair")
    else:
        assert_states(text, "managed ... unseen")
    assert ("HIP does not say" in text) == (kind == "one round")


def test_report_draws_a_directory_of_try_and_the_page_of_its_profile(tmp_path: Path) -> None:
    directory = written(tmp_path / "t", found(TIMES))
    done = call("report", directory)
    assert done.returncode == 0, done.stderr
    assert_states(done.stdout, "app: what was found", str(directory / "report.html"))
    assert "profile/report.html" in (directory / "report.html").read_text()
    assert (directory / "profile/report.html").is_file()


@pytest.mark.parametrize(
    ("words", "fact"),
    [(("--format", "csv"), "profile"), (("OTHER",), "one directory"), (("--format", "openmetrics"), "openmetrics")],
)
def test_what_a_directory_of_try_has_no_report_of_is_one_sentence(
    tmp_path: Path, words: tuple[str, ...], fact: str
) -> None:
    directory, other = (written(tmp_path / name, found(TIMES)) for name in ("t", "u"))
    done = call("report", directory, *(other if word == "OTHER" else word for word in words))
    assert done.returncode == 2
    assert_states(done.stderr, fact)
