"""`firsttouch validate`: published numbers and claims beside predictions, and what is wrong in a file of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.calls import call
from tests.kept_runs import stored_run
from tests.schemas import assert_valid
from tests.texts import assert_states

from firsttouch.base.errors import NOT_JUDGED, NotModelled
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Experiment, Measurement
from firsttouch.harness.experiment import Application
from firsttouch.model.platform import Platform
from firsttouch.records.schema import Point

LINK = {"h2d": 375.0, "d2h": 400.0}
"""GB/s that stand for a prediction; the study of the GH200 states 375 and 297."""


@pytest.fixture
def predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are predicted, and nothing else is."""

    def predict(experiment: Experiment, point: Point, platform: Platform) -> Measurement:
        if point.experiment != "transfer":
            raise NotModelled("only copies are")
        rate = LINK[str(point.factors["direction"])]
        return Measurement.predicted(rate, rate / 2, rate * 2)

    for experiment in [*map(type, all_experiments().values()), Application]:
        monkeypatch.setattr(experiment, "predict", predict)


def validated(*words: object) -> dict[str, Any]:
    done = call("validate", *words, "--json")
    assert done.returncode in (0, NOT_JUDGED), done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert_valid("validate", result)
    return result


HERE = {
    "experiment": "transfer",
    "factors": {"direction": "h2d", "allocator": "pinned", "engine": "copy-engine"},
    "unit": "GB/s",
}


def here(**changes: Any) -> dict[str, Any]:
    return {"here": {**HERE, **changes}}


def a_file(folder: Path, **changes: Any) -> Path:
    """A file with one row of a machine of the user's, whose copies reach 250 GB/s."""
    row = {
        "id": "mine",
        "platform": "mine",
        "experiment": "copies",
        "metric": "rate",
        "unit": "GB/s",
        "conditions": {},
        "value": 250,
        "kind": "measured",
        "section": "Sec. 1",
        "says": "Copies reach 250 GB/s.",
        "here": HERE,
        **changes,
    }
    content = {
        "source": {"title": "Mine", "authors": ["A. Body"], "venue": "none", "year": 2026},
        "platforms": {"mine": {"name": "Mine", "description": "", "memory": "separate"}},
        "rows": [row],
    }
    path = folder / "mine.json"
    path.write_text(json.dumps(content, indent=1))
    return path


@pytest.mark.usefixtures("predicted")
@pytest.mark.slow
def test_what_is_wrong_has_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "firsttouch.comparison.validation.validate.why_wrong", lambda: {"gh200": {"h2d-over-d2h": "Nobody asked."}}
    )
    assert "Why: Nobody asked." in call("validate", "gh200").stdout
    (changed,) = validated("gh200@link.h2d=1GB/s")["platforms"]
    assert not any(entry["reason"] for entry in (*changed["rows"], *changed["claims"]))


@pytest.mark.usefixtures("predicted")
def test_rows_and_claims_stand_beside_predictions_and_wrong_ones_first() -> None:
    (platform,) = validated("gh200")["platforms"]
    rows = {row["row"].rpartition(".")[0] + "." + row["row"].rpartition(".")[2]: row for row in platform["rows"]}
    to, back = (rows[f"grace-hopper/transfer.link.{way}.commscope"] for way in ("h2d", "d2h"))
    assert (to["predicted"], to["ratio"], to["outcome"], to["role"]) == (375, 1, "right", "input")
    assert back["ratio"] == pytest.approx(400 / 297)
    assert platform["compared"]["input"]["numbers"] == 2
    assert platform["figures"]["refused"] > 20
    (claim,) = (claim for claim in platform["claims"] if claim["id"] == "h2d-over-d2h")
    assert (claim["outcome"], platform["claims"][0]["id"]) == ("wrong", "h2d-over-d2h")
    stream = rows["grace-hopper/bandwidth.gpu.hbm.stream"]
    assert stream["outcome"] == "not predicted"
    assert_states(stream["why"], "not modelled", "only copies are")
    printed = call("validate", "gh200").stdout
    assert printed.index("h2d-over-d2h") < printed.index("Not predicted")
    assert all(sentence in " ".join(printed.split()) for sentence in platform["sentences"])


@pytest.mark.usefixtures("predicted")
@pytest.mark.parametrize(
    ("changes", "ratio", "outcome"),
    [
        ({}, 1.5, "right"),
        ({"value": 249}, 375 / 249, "wrong"),
        ({"value": [300, 380]}, 1, "right"),
        ({"value": 380, "qualifier": "below"}, 1, "right"),
        ({"value": 370, "qualifier": "more-than"}, 1, "right"),
        ({"value": 380, "qualifier": "more-than"}, 375 / 380, "wrong"),
    ],
)
def test_rows_of_a_file_are_held(tmp_path: Path, changes: dict[str, Any], ratio: float, outcome: str) -> None:
    (platform,) = validated("gh200", "--rows", a_file(tmp_path, **changes))["platforms"]
    (row,) = platform["rows"]
    assert (row["row"], row["role"], row["outcome"]) == ("mine/mine", "held", outcome)
    assert row["ratio"] == pytest.approx(ratio)
    assert (platform["held"], platform["claims"]) == (1, [])


YAML = """\
# Rows of mine.
source: {title: Mine, authors: [A. Body], venue: none, year: 2026}
platforms:
  mine: {name: Mine, description: "", memory: separate}
rows:
- id: mine
  platform: mine
  experiment: copies
  metric: rate
  unit: GB/s
  conditions: {events: off}
  value: 2.5e2
  kind: measured
  section: Sec. 1
  says: Copies reach 250 GB/s.
  here:
    experiment: transfer
    factors: {direction: h2d, allocator: pinned, engine: copy-engine}
    unit: GB/s
"""


@pytest.mark.usefixtures("predicted")
def test_rows_may_be_yaml(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(YAML)
    (platform,) = validated("gh200", "--rows", path)["platforms"]
    (row,) = platform["rows"]
    assert (row["row"], row["low"], row["predicted"], row["outcome"]) == ("mine/mine", 250, 375, "right")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("value: 2.5e2", "velue: 1", "mine.yaml:12:3: rows.0.velue: unknown key"),
        ("value: 2.5e2", "value: 1\n  value: 2", "mine.yaml:12:3: rows.0.value: 'value' stands twice"),
        ("engine: copy-engine", "engines: cpu", "here.factors: transfer ... 'engines' (did you mean 'engine'?)"),
        ("year: 2026", "year: 2026-01-01", "source.year: expected"),
        ("rows:", "rows: [", "mine.yaml:6:1: not YAML"),
    ],
)
def test_what_is_wrong_in_yaml_is_named_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(YAML.replace(old, new))
    done = call("validate", "gh200", "--rows", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert_states(done.stderr, said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"platform": "other"}, "mine.json:20:4: rows.0.platform: 'other' ... platforms"),
        ({"velue": 1}, "rows.0.velue: unknown key (did you mean 'value'?); accepted: id, platform"),
        ({"value": {}}, "rows.0.value: expected"),
        ({"here": None}, "rows: ... no row ... 'here'"),
        (here(experiment="transfr"), "here.experiment: ... no experiment 'transfr' (did you mean 'transfer'?)"),
        (here(factors={"dirction": "h2d"}), "here.factors: transfer ... 'dirction' (did you mean 'direction'?)"),
        (here(metric="rate"), "here.metric: transfer ... no counter 'rate'"),
        (here(experiment="app", factors={"app": "srd"}), "here.factors: ... no application 'srd'"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    done = call("validate", "gh200", "--rows", a_file(tmp_path, **changes))
    assert (done.returncode, done.stdout) == (2, "")
    assert_states(done.stderr, said)


def test_a_call_without_a_match_says_what_there_is(tmp_path: Path) -> None:
    for words, said in (
        (["gh20"], "unknown platform 'gh20' (did you mean 'gh200'?)"),
        (["--rows", a_file(tmp_path)], "no row of mine ... platform ... about mine"),
        (["h200-pcie"], "nothing about h200-pcie ... about gh200"),
        (["gh200", "--rows", tmp_path / "none.json"], "No such file"),
    ):
        done = call("validate", *words)
        assert done.returncode == 2
        assert_states(done.stderr, said)


def test_a_platform_is_judged_by_applications_that_were_measured() -> None:
    runs = [word for n in (5, 8) for word in ("--measured", stored_run(f"h200-apps-{n}"))]
    (judged,) = validated("h200-pcie", *runs)["measured"]
    errors = [strategy["error"] for strategy in judged["strategies"]]
    assert len(errors) == judged["points"] >= 20
    assert errors == sorted(errors, reverse=True)
    assert judged["median_error"] < 0.25
    assert judged["in_order"] > 0.9
    printed = " ".join(call("validate", *runs).stdout.split())
    assert all(sentence in printed for sentence in judged["sentences"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gh200", "--measured", "h200-apps-5"], "nothing ... NVIDIA GH200 480GB, the device of gh200"),
        (["--measured", "xeon-vm-apps"], "no platform describes"),
        (["h200-pcie", "--measured", "h200-message"], "no application ... NVIDIA H200"),
        (["--measured", "none"], "holds no results"),
    ],
)
def test_measured_results_without_a_match_are_refused(words: list[str], said: str) -> None:
    done = call(
        "validate",
        *(stored_run(word) if word[:4] in ("h200", "xeon") and word != "h200-pcie" else word for word in words),
    )
    assert done.returncode == 2
    assert_states(done.stderr, said)
