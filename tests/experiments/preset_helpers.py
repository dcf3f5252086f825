"""Helpers for tests of plans and preset rules."""

from __future__ import annotations

from typing import Any

from fake_devices import DISCRETE

from firsttouch.engine.plan import make_plan
from firsttouch.engine.planned import Planned
from firsttouch.experiments import all_experiments
from firsttouch.experiments.contract.base import Candidate, Experiment
from firsttouch.experiments.contract.presets import excluded, not_measured
from firsttouch.experiments.contract.rules import Preset
from firsttouch.records.schema import SCHEMA, DeviceInfo, Factors, Request


def plan(experiment: str, device: DeviceInfo, preset: str = "quick", **sets: list[Any]) -> list[Planned]:
    """Returns the points of one experiment on one device. sets: the values of --set."""
    request = Request(schema=SCHEMA, experiments=[experiment], devices=[device.name], preset=preset, seed=1, set=sets)
    return make_plan(request, [device], all_experiments(), {})


def left_out_of(experiment: Experiment, factors: Factors, device: DeviceInfo, preset: Preset) -> str:
    candidate = Candidate(experiment, factors, device, preset)
    return excluded(candidate) or not_measured(candidate)


def factors_of(experiment: Experiment, device: DeviceInfo = DISCRETE, **changed: object) -> Factors:
    """Returns the first value of every factor, with `changed` applied."""
    factors = experiment.factors(device, "quick")
    return Factors({factor.name: factor.values[0] for factor in factors if not factor.optional}) | changed
