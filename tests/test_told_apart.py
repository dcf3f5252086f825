"""No output lets a prediction pass for a measurement: every command is asked about a directory with predictions."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.calls import call
from tests.kept_runs import stored_run
from tests.predicted import write_predicted
from tests.texts import assert_states

import firsttouch
from firsttouch.base.errors import NOT_JUDGED
from firsttouch.experiments import all_experiments
from firsttouch.records.reading import load_results
from firsttouch.report.draw import draw
from firsttouch.report.drawing import DrawingContext
from firsttouch.report.palette import Palette

MEASURED = re.compile(r"\bmeasured\b")


@pytest.fixture(scope="module")
def predicted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few experiments of a run, and those whose data move between devices."""
    folder = tmp_path_factory.mktemp("told-apart")
    return write_predicted(
        stored_run("h200-x2-quick"), folder / "run", experiments=("p2p-copy", "transfer", "bandwidth"), every=3
    )


def shown(*words: object) -> str:
    done = call(*words)
    assert done.returncode in (0, NOT_JUDGED), done.stderr
    return " ".join(done.stdout.split())


def found(*words: object) -> Any:
    return json.loads(call(*words, "--json").stdout)


def says_so(text: str) -> None:
    assert "redicted for h200-pcie" in text
    assert not MEASURED.search(text.replace("not measured", ""))


@pytest.mark.parametrize("command", ["claims", "interfaces"])
def test_in_words_and_as_data(predicted: Path, command: str):
    says_so(shown(command, predicted))
    assert found(command, predicted)["summary"].startswith("Predicted for h200-pcie: ")


def test_claims_have_it_each(predicted: Path):
    verdicts = found("claims", predicted)["claims"]
    assert {verdict["predicted"] for verdict in verdicts} == {"predicted for h200-pcie"}
    assert all(verdict["why"].startswith("Predicted for h200-pcie: ") for verdict in verdicts)


def test_a_comparison_labels_the_side(predicted: Path):
    data = found("compare", stored_run("h200-x2-quick"), predicted)
    assert [side["predicted"] for side in data["sides"]] == ["", "predicted for h200-pcie"]
    assert "predicted over measured" in data["summary"]
    assert data["to_tell"] == data["missing"] == []
    assert "(predicted for h200-pcie)" in shown("compare", predicted, stored_run("h200-x2-quick"))


def test_how_often_a_point_was_run_is_no_difference_to_a_prediction(tmp_path: Path):
    measured = stored_run("h200-producer-consumer")
    copied = write_predicted(measured, tmp_path / "run")
    lines = [json.loads(line) for line in (copied / "results.jsonl").read_text().splitlines()]
    for line in lines:
        line["factors"].pop("repeat", None)
    (copied / "results.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    data = found("compare", measured, copied)
    assert len(data["points"]) == sum(line["status"] == "ok" for line in lines)
    assert "not judged" not in shown("compare", measured, copied)
    assert "not judged" in shown("compare", measured, copied, "--fail-over", "5%")


def test_two_predictions_are_compared_as_such(predicted: Path, tmp_path: Path):
    other = write_predicted(
        stored_run("h200-x2-quick"),
        tmp_path / "other",
        replace(load_results(predicted).machine.devices[-1].modelled, changes={"host.page": "4KiB"}),
        ("bandwidth",),
    )
    assert "two predictions" in found("compare", predicted, other)["summary"]


def refused(*words: object) -> str:
    done = call(*words)
    assert done.returncode == 2
    return done.stderr


def test_predictions_are_no_source_of_prices_and_are_not_joined_with_measurements(predicted: Path, tmp_path: Path):
    assert_states(refused("advise", predicted), "predictions", "basis of advice")
    assert "was predicted, not measured" in refused("fit", predicted, "--out", tmp_path / "mine.json")
    assert_states(refused("claims", predicted, stored_run("h200-x2-quick")), "one was measured", "the other predicted")
    assert "was predicted, not measured" in refused("validate", "--measured", predicted)


def test_advice_from_a_platform_says_so():
    text = shown("advise", "srad", "--device", "model:h200-pcie", "--size", "64MiB")
    says_so(text)
    data = found("advise", "--device", "model:h200-pcie")
    assert data["predicted"] == "predicted for h200-pcie"
    assert all(sentence.startswith("Predicted for h200-pcie: ") for sentence in data["sentences"])


def rows_of_csv(folder: Path) -> list[str]:
    with (folder / "points.csv").open() as file:
        return [row["modelled"] for row in csv.DictReader(file)]


def labels(folder: Path) -> list[str]:
    lines = (folder / "headlines.prom").read_text().splitlines()
    return [re.search(r'predicted="([^"]*)"', line)[1] for line in lines if not line.startswith("#")]  # type: ignore[index]


def images(folder: Path) -> list[str]:
    texts = [path.read_text() for path in folder.glob("*.svg")]
    return [re.search(r"Predicted for ([a-z0-9-]+)<", text)[1] for text in texts]  # type: ignore[index]


@pytest.mark.parametrize(("form", "read"), [("csv", rows_of_csv), ("openmetrics", labels), ("svg", images)])
def test_what_is_exported(tmp_path: Path, form: str, read: Callable[[Path], list[str]]):
    small = write_predicted(stored_run("h200-producer-consumer"), tmp_path / "run")
    assert call("report", small, "--format", form, "-o", tmp_path).returncode == 0
    assert set(read(tmp_path)) == {"h200-pcie"}


def test_loaded_points_have_a_column(predicted: Path):
    points = firsttouch.load(predicted, stored_run("h200-gpu-share"))
    assert {row["modelled"] for row in points[:]} == {"h200-pcie", None}
    assert f"{len(points) - 2} of them predicted" in repr(points)
    assert "<th>modelled</th>" in points._repr_html_()


def test_rules_of_plausibility_judge_predictions_too(tmp_path: Path):
    copied = write_predicted(stored_run("h200-x2-quick"), tmp_path / "run", experiments=("transfer",))
    lines = (copied / "results.jsonl").read_text().splitlines()
    record = next(r for r in map(json.loads, lines) if r["status"] == "ok" and r["factors"]["direction"] == "h2d")
    record["samples"], record["summary"] = [1e9], {name: 1 if name == "n" else 1e9 for name in record["summary"]}
    (copied / "results.jsonl").write_text(json.dumps(record) + "\n")
    assert load_results(copied).records[0].suspect


def test_a_figure_of_both_says_so(tmp_path: Path):
    measured = [r for r in load_results(stored_run("h200-pagefault")).records if r.status == "ok"]
    other = load_results(write_predicted(stored_run("h200-pagefault"), tmp_path / "run")).records
    both = [*measured, *(r for r in other if r.status == "ok")]
    figure = all_experiments()["pagefault"].figures[0]
    titles = [draw(figure, some, DrawingContext(None, Palette())) for some in (measured, both, both[len(measured) :])]
    said = [drawing.title.partition(":")[0] for drawing in titles if drawing]
    assert said[1:] == ["In part predicted for h200-pcie", "Predicted for h200-pcie"]
    assert "redicted" not in said[0]
