"""What a page, the terminal and --json say of a directory with predictions: nowhere that something was measured."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.calls import call
from tests.predicted import write_predicted
from tests.texts import assert_states

from firsttouch.model.scope import NOT_MODELLED
from firsttouch.records.reading import load_results
from firsttouch.report.conclusions import conclusions

RESULTS = Path(__file__).parents[2] / "results"
SAID = re.compile(r"Predicted for h200-pcie")


class Texts(HTMLParser):
    """The texts of a page by the element that holds them, without the script and the style."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.figures: list[list[tuple[bool, str]]] = []
        """Of each its texts, and whether they are in an image."""
        self.images: list[list[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "wbr"):
            self.open.append(tag)
        if tag == "figure":
            self.figures.append([])
        if tag == "svg":
            self.images.append([])

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if data.strip() and not {"script", "style"} & {*self.open}:
            self.texts.append((self.open[-1], data.strip()))
            if "figure" in self.open:
                self.figures[-1].append(("svg" in self.open, data.strip()))
            if "svg" in self.open:
                self.images[-1].append(data.strip())


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_predicted(
        RESULTS / "h200-quick",
        tmp_path_factory.mktemp("predicted") / "run",
        experiments=("bandwidth", "migration"),
        every=9,
    )


@pytest.fixture(scope="module")
def found(predicted: Path) -> Any:
    """What `report --json` prints, which writes the page."""
    return json.loads(call("report", predicted, "--json").stdout)


@pytest.fixture(scope="module")
def page(predicted: Path, found: Any) -> Texts:
    texts = Texts()
    texts.feed((predicted / "report.html").read_text())
    return texts


def test_the_title_and_every_figure_say_once_that_it_is_predicted(page: Texts):
    titles = [text for tag, text in page.texts if tag in ("title", "h1")]
    assert titles
    assert all(title.startswith("Predicted: ") for title in titles)
    assert all(any(map(SAID.fullmatch, image)) for image in page.images)
    assert page.figures
    for figure in page.figures:
        in_image, beside = (
            [SAID.match(text) for image, text in figure if image is is_image] for is_image in (True, False)
        )
        assert any(beside) is not any(in_image)
    said = [text for tag, text in page.texts if re.match("predicted(:|, not)", text, re.IGNORECASE)]
    assert said == [*titles, said[-1]]


def test_several_machines_on_a_page_are_told_apart_everywhere(tmp_path: Path):
    call("run", "latency", "--device", "model:gh200", "--device", "model:mi300a", "--out", tmp_path / "run")
    call("report", tmp_path / "run")
    texts = Texts()
    texts.feed((tmp_path / "run" / "report.html").read_text())
    whole = [text for _, text in texts.texts]
    assert any(re.match("Predicted for gh200: ", text) for text in whole)
    assert any(re.match("Predicted for mi300a: ", text) for text in whole)


def test_a_page_says_what_is_not_modelled(page: Texts):
    whole = " ".join(text for _, text in page.texts)
    assert "Predicted, not measured" in whole
    assert all(text in whole.lower() for text in NOT_MODELLED)


def test_nothing_on_a_page_was_measured(page: Texts):
    said = [text for _, text in page.texts if re.search(r"\bmeasured\b", text)]
    assert [text for text in said if not re.search("not measured|measured elsewhere", text)] == []


def test_every_sentence_says_for_which_machine(found: Any):
    assert found["findings"]
    assert all(SAID.match(finding["text"]) for finding in found["findings"])
    assert found["directories"][0]["title"].startswith("Predicted: ")


def test_what_predicted_times_lack_stands_on_every_first_screen(tmp_path: Path):
    """The kernels of an application of one's own were measured nowhere."""
    module = Path(__file__).parents[2] / "docs" / "examples" / "smooth.py"
    run = ("app", "smooth", "--module", module, "--device", "model:gh200", "--strategy", "managed", "--size", "64MiB")
    text = " ".join(call(*run, "--out", tmp_path / "run").stdout.split())
    screen = conclusions(load_results(tmp_path / "run")).screen
    (lacking,), (number,) = screen.lacking, screen.numbers
    assert_states(lacking, "kernels of smooth", "not measured")
    assert_states(number.text, "run of smooth", "without", "not measured")
    assert_states(text, lacking, number.text)
    call("report", tmp_path / "run", "--module", module)
    whole = (tmp_path / "run" / "report.html").read_text()
    assert whole.count(lacking) >= 2
    assert "assumptions" in whole


def test_a_sample_for_a_monitor_says_for_which_machine_it_is_predicted(tmp_path: Path):
    changed = ("--device", "model:gh200", "--what-if", "link.h2d=100GB/s", "--strategy", "explicit", "--size", "64MiB")
    text = " ".join(call("app", "srad", *changed, "--out", tmp_path / "run").stdout.split())
    assert re.search(r"predicted gh200 with link.h2d=100GB/s srad [\d.]+ ms [\d.]+ ms \(1\.\d+\)", text)
    call("report", tmp_path / "run", "--format", "openmetrics")
    lines = (tmp_path / "run" / "figures" / "headlines.prom").read_text().splitlines()
    samples = [
        re.search(r'device="model:([^"]*)".*predicted="([^"]*)"', x) for x in lines if x.startswith("firsttouch_app_s")
    ]
    assert samples
    assert all(found and found[1] == found[2] for found in samples)
