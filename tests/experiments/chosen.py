"""What an experiment leaves out on a device, and the first value of each of its factors."""

from __future__ import annotations

from imagined import DISCRETE

from firsttouch.experiments.base import Experiment, Preset
from firsttouch.experiments.presets import Candidate, left_out
from firsttouch.records.schema import DeviceInfo, Factors


def left_out_of(experiment: Experiment, factors: Factors, device: DeviceInfo, preset: Preset) -> str:
    return left_out(Candidate(experiment, factors, device, preset))


def factors_of(experiment: Experiment, device: DeviceInfo = DISCRETE, **changed: object) -> Factors:
    """The first value of every factor, and what is changed."""
    return Factors({factor.name: factor.values[0] for factor in experiment.factors(device, "quick")}) | changed
