"""`firsttouch fit`: a platform file that takes the place of runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from statistics import median

import pytest
from tests.calls import call
from tests.kept_runs import stored_run

from firsttouch.advice.advisor import choose_device, estimates
from firsttouch.apps import all_apps
from firsttouch.harness.app import solve
from firsttouch.model.costs import Unmeasured
from firsttouch.model.measured import MeasuredPrices
from firsttouch.model.platform import MissingValue, load_platform
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.model.prices import Prices
from firsttouch.program.dry_run import program_of
from firsttouch.records.reading import Results, load_results

ROOT = Path(__file__).parents[3]
PLATFORMS = ROOT / "src/firsttouch/model/platforms"
STANDARD = ["results/h200-standard", "results/h200-standard-2", "evidence/results/h200-standard-3"]
MICRO = ("allocation", "free", "migration", "pagefault", "resident", "transfer")
FITTED = {
    "h200-pcie": ("NVIDIA H200 on PCI Express with 16 processors of a Xeon", STANDARD),
    "h100-pcie": (
        "NVIDIA H100 on PCI Express with 16 processors of a Xeon",
        ["results/h100-quick", *(f"evidence/results/h100-visit-micro-{part}" for part in MICRO)],
    ),
}
"""The platforms of the program that are fitted: their titles and runs."""


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@cache
def loaded(directory: str) -> Results:
    return load_results(ROOT / directory)


def added(prices: Prices, app: str) -> Mapping[str, float]:
    """The ms that each strategy adds."""
    kind = all_apps()[app]
    terms, _ = estimates(program_of(kind, solve(kind, 64 << 20)), prices, kind)
    return {strategy: sum(term.ms for term in rows) for strategy, rows in terms.items()}


@pytest.mark.parametrize("name", FITTED)
def test_the_platforms_of_measured_machines_are_what_fit_writes(name: str, tmp_path: Path) -> None:
    title, runs = FITTED[name]
    done = call("fit", *runs, "--title", title, "--out", tmp_path / "made.json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "made.json").read_text() == (PLATFORMS / f"{name}.json").read_text()


@pytest.mark.parametrize(
    ("run", "app"), [("h200-standard-2", "hotspot"), ("h200-standard-2", "streamcluster"), ("xeon-vm-standard", "lud")]
)
def test_a_file_takes_the_place_of_its_run(run: str, app: str, tmp_path: Path) -> None:
    measured = load_results(stored_run(run))
    call("fit", stored_run(run), "--out", tmp_path / "one.json")
    by_run = added(MeasuredPrices(measured.machine, measured.records, choose_device([measured], None)), app)
    assert len(by_run) > 4
    by_file = added(PlatformPrices(load_platform(str(tmp_path / "one.json"))), app)
    assert by_file == pytest.approx(by_run, rel=1e-3)


def test_the_price_of_several_machines_is_their_median_and_its_range_is_wider_than_theirs() -> None:
    platform = load_platform("h200-pcie")
    for name in ("prefetch.managed", "moving_touch.managed", "touched_free.cpu.malloc"):
        fitted, values = platform.curve(name).times[-1], []
        for run in map(loaded, STANDARD):
            with suppress(Unmeasured):
                prices = MeasuredPrices(run.machine, run.records, choose_device([run], None))
                values.append(prices.price(*name.split(".")).times[-1].value)
        assert fitted.value == pytest.approx(median(values), rel=1e-3)
        assert fitted.low < min(values) < max(values) < fitted.high


def test_runs_of_one_machine_count_as_one(tmp_path: Path) -> None:
    """A price that needs records of two runs is there, and none is a median."""
    lines = (ROOT / "results/h100-quick/results.jsonl").read_text().splitlines(keepends=True)
    halves = [[line for line in lines if ('"allocator":"pinned"' in line) == pinned] for pinned in (True, False)]
    for name, half in zip("ab", halves, strict=True):
        (tmp_path / name).mkdir()
        shutil.copy("results/h100-quick/machine.json", tmp_path / name)
        (tmp_path / name / "results.jsonl").write_text("".join(half))
    call("fit", "results/h100-quick", "--out", tmp_path / "whole.json")
    call("fit", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "made.json")
    whole, made = (json.loads((tmp_path / f"{name}.json").read_text())["parameters"] for name in ("whole", "made"))
    assert [n for n, value in whole.items() if n in made and value.get("points") != made[n].get("points")] == []
    assert whole.keys() == made.keys()


def test_a_file_of_few_measurements_extends_a_platform(tmp_path: Path) -> None:
    words = ("fit", "evidence/results/h200-profile-link", "--extends", "h200-pcie", "--device", "cuda:0")
    assert call(*words, "--out", tmp_path / "made.json").returncode == 0
    made, base = load_platform(str(tmp_path / "made.json")), load_platform("h200-pcie")
    assert made.curve("prefetch.managed") == base.curve("prefetch.managed")
    assert made.curve("copy.h2d.malloc") != base.curve("copy.h2d.malloc")
    assert made.curve("copy.h2d.malloc").of(64) == base.curve("copy.h2d.malloc").of(64)
    done = call("fit", "results/h100-quick", "--extends", "h200-pcie", "--out", tmp_path / "other.json")
    assert done.returncode == 2
    assert "describes NVIDIA H200, the runs are of NVIDIA H100" in done.stderr


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        (["evidence/results/h200-apps-1"], "there are no micro-measurements of cuda:0"),
        (["results/h200-standard", "results/h100-quick"], "the directories are of different machines"),
        (["nowhere"], "nowhere"),
    ],
)
def test_fit_refuses_runs_without_prices_and_of_different_machines(
    runs: Sequence[str], text: str, tmp_path: Path
) -> None:
    done = call("fit", *runs, "--out", tmp_path / "made.json")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert text in done.stderr


def test_fit_refuses_what_was_predicted(tmp_path: Path) -> None:
    shutil.copytree("evidence/results/h100-halo", tmp_path / "run")
    machine = json.loads((tmp_path / "run/machine.json").read_text())
    for device in machine["devices"]:
        device["modelled"] = {"platform": "gh200", "digest": "", "changes": {}, "rules": 1}
    (tmp_path / "run/machine.json").write_text(json.dumps(machine))
    done = call("fit", tmp_path / "run", "--out", tmp_path / "made.json")
    assert done.returncode == 2
    assert "was predicted, not measured" in done.stderr


def test_a_price_that_a_platform_lacks_is_named_and_not_taken_as_nothing(tmp_path: Path) -> None:
    content = json.loads((PLATFORMS / "h200-pcie.json").read_text())
    names = {"copy.h2d.pinned", "allocation.free.malloc"}
    content["parameters"] = {name: value for name, value in content["parameters"].items() if name not in names}
    (tmp_path / "less.json").write_text(json.dumps(content))
    prices = PlatformPrices(load_platform(str(tmp_path / "less.json")))
    price = prices["copy", "h2d", "pinned"]
    rate = price.sizes[-1] / price.times[-1].value
    assert rate == pytest.approx(content["parameters"]["link.h2d"]["value"])
    with pytest.raises(MissingValue, match=r"allocation\.free\.malloc"):
        prices["allocation", "free", "malloc"]
