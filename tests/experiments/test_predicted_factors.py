"""Every factor of a modelled experiment changes some prediction, is refused, or is stated to be without effect."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from tests.calls import call

from firsttouch.apps import all_apps
from firsttouch.base.errors import NotModelled, Unsupported, UsageError
from firsttouch.comparison.papers.calls import PointsCall
from firsttouch.comparison.validation.points import PlatformPoints
from firsttouch.experiments import all_experiments, find_experiment
from firsttouch.experiments.contract.base import Experiment, Factor, Measurement
from firsttouch.harness.experiment import Application
from firsttouch.machine.switches import SWITCHES
from firsttouch.model.platform import Platform, load_platform
from firsttouch.records.schema import DeviceInfo, Factors, Point, Scalar

PLATFORMS = ("h200-pcie", "gh200", "mi300a", "mi250x", "mi300a-node", "h100-pcie")
MODELLED = [name for name, each in all_experiments().items() if type(each).predict is not Experiment.predict]
DRAWN = 0.4
"""The part of the points of the preset that is drawn."""
SETS: Mapping[str, Mapping[str, list[Scalar]]] = {
    "p2p-copy": {"threads": [0, 1]},
    "p2p-message": {"interface": ["mpi", "xccl"], "route": ["direct", "staged"], "target": ["device", "pinned"]},
    "collective": {"ranks": [2, 4]},
}
"""Values beside those of the preset, without which some kinds of points have no prediction."""
IDENTITY = ("app", "strategy", "allocator", "source", "target")
"""Factors that say what is measured."""


def drawn_points(experiment: str, platform: Platform) -> Sequence[Point]:
    """Some points that the preset standard has of an experiment, at random."""
    points = PlatformPoints(platform)
    gpus = points.gpus if experiment.startswith("p2p-") else points.gpus[:1]
    devices = [*(host.name for host in points.hosts), *(gpu.name for gpu in gpus)]
    try:
        records = points.of(
            PointsCall("run", [experiment], devices, SETS.get(experiment, {}), True, exceeds_memory=False, options=""),
            lambda factors: random.Random(repr(factors)).random() < DRAWN,
        )
    except UsageError:
        return []
    return [Point(r.experiment, r.device, Factors(r.factors)) for r in records if r.status == "ok"]


def others(factors: Iterable[Factor], name: str, value: Scalar) -> Iterator[Scalar]:
    """Other values of a factor."""
    accepted: list[Scalar] = [*(SWITCHES[name].values if name in SWITCHES else ())]
    for factor in factors:
        if factor.name == name:
            accepted += [*factor.values, *factor.choices]
            if factor.kind in ("size", "count") and isinstance(value, int):
                accepted += [max(2 * value, 2)]
    return (other for other in dict.fromkeys(accepted) if other != value)


def changes(experiment: Experiment, point: Point, platform: Platform, name: str, other: Scalar) -> bool | None:
    """Whether another value of a factor changes the prediction of a point; None if it is no point."""

    def made(factors: Factors) -> Measurement:
        return experiment.predict(Point(point.experiment, point.device, factors), platform.under(factors))

    factors = point.factors | {name: other}
    machine = platform.under(factors)
    if experiment.skip(factors, next(d for d in machine.devices if d.name == point.device)):
        return None
    try:
        before, after = made(point.factors), made(factors)
    except Unsupported:
        return True
    return (before.samples, before.counters, before.memory) != (after.samples, after.counters, after.memory)


def try_factors(experiment: Experiment, platform: Platform, found: dict[str, bool]) -> None:
    """Notes for each factor whether another value of it changed anything in one of the points that were drawn."""
    factors_of: dict[str, list[Factor]] = {}
    for point in drawn_points(experiment.name, platform):
        device = next(d for d in platform.devices if d.name == point.device)
        factors = factors_of.setdefault(device.name, all_factors(experiment, device))
        for name, value in point.factors.items():
            for other in others(factors, name, value) if not found.get(name) and name not in IDENTITY else ():
                if (changed := changes(experiment, point, platform, name, other)) is not None:
                    found[name] = found.get(name, False) or changed


def all_factors(experiment: Experiment, device: DeviceInfo) -> list[Factor]:
    return [*experiment.factors(device, "standard"), *experiment.factors(device, "full")]


@pytest.mark.parametrize("name", MODELLED)
@pytest.mark.slow
def test_a_factor_changes_predictions_or_is_stated_to_be_without_effect(name: str) -> None:
    experiment, found = find_experiment(name), dict[str, bool]()
    assert experiment is not None
    for platform in map(load_platform, PLATFORMS):
        try_factors(experiment, platform, found)
    assert found
    assert {factor for factor, changed in found.items() if not changed} <= {
        *experiment.without_effect,
        *experiment.not_followed,
    }


@pytest.mark.slow
def test_a_setting_of_an_application_changes_predictions_or_is_stated_to_be_without_effect() -> None:
    """Of srad, or of kmeans, whose CPU computes between kernels."""
    found, stated = dict[str, bool](), set[str]()
    for name_of_app in ("srad", "kmeans"):
        application = Application(all_apps()[name_of_app])
        stated |= {*application.without_effect, *application.not_followed}
        optional = application.optional_factors()
        settings = {factor.name: factor for factor in optional if factor.kind in ("choice", "count")}
        for machine in map(load_platform, ("gh200", "mi300a")):
            for strategy in ("explicit", "managed", "managed+both", "system", "unified"):
                factors = Factors({"app": name_of_app, "strategy": strategy, "size": 1 << 30})
                for name, setting in settings.items():
                    point = Point("app", machine.device.name, factors | {name: setting.values[0]})
                    for other in others([setting], name, setting.values[0]) if not found.get(name) else ():
                        if (changed := changes(application, point, machine, name, other)) is not None:
                            found[name] = found.get(name, False) or changed
    assert {name for name, changed in found.items() if not changed} <= stated


H2D: Mapping[str, Scalar] = {"engine": "copy-engine", "direction": "h2d", "allocator": "pinned"}


@pytest.mark.parametrize(
    ("platform", "experiment", "changed", "named"),
    [
        ("mi300a", "transfer", {**H2D, "direction": "d2d", "allocator": "device", "sdma": "0"}, "sdma=0"),
        ("mi250x", "transfer", {**H2D, "sdma": "0"}, "sdma=0"),
        ("mi250x", "transfer", {**H2D, "direction": "d2h", "allocator": "malloc", "sdma": "0"}, "sdma=0"),
        ("h200-pcie", "transfer", {**H2D, "streams": 2}, "streams=2"),
        ("h200-pcie", "latency", {"allocator": "device", "order": "by-page"}, "order=by-page"),
    ],
)
def test_what_is_not_followed_is_refused_by_name(
    platform: str, experiment: str, changed: dict[str, Scalar], named: str
) -> None:
    machine, found = load_platform(platform), find_experiment(experiment)
    assert found is not None
    device = machine.device
    usual = {f.name: f.values[0] for f in found.factors(device, "quick") if f.values and not f.optional}
    factors = Factors({**usual, **changed})
    with pytest.raises((NotModelled, Unsupported), match=named):
        found.predict(Point(experiment, device.name, factors), machine.under(factors))


def test_the_page_states_what_has_no_effect(tmp_path: Path) -> None:
    words = "run allocation --device model:h200-pcie --set allocator=pinned --set size=1MiB --out"
    assert call(*words.split(), tmp_path / "run").returncode == 0
    assert call("report", tmp_path / "run", "-o", tmp_path / "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text().casefold()
    assert "chunks changes no prediction: each call of a loop is predicted" in page
