"""Helpers for tests of preset rules."""

from __future__ import annotations

from fake_devices import DISCRETE

from firsttouch.experiments.base import Experiment, Preset
from firsttouch.experiments.presets import Candidate, left_out
from firsttouch.records.schema import DeviceInfo, Factors


def left_out_of(experiment: Experiment, factors: Factors, device: DeviceInfo, preset: Preset) -> str:
    return left_out(Candidate(experiment, factors, device, preset))


def factors_of(experiment: Experiment, device: DeviceInfo = DISCRETE, **changed: object) -> Factors:
    """Returns the first value of every factor, with `changed` applied."""
    return Factors({factor.name: factor.values[0] for factor in experiment.factors(device, "quick")}) | changed
