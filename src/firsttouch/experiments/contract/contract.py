"""Checks what an experiment returns to the planner, since experiments outside the package may return anything.

A value that does not conform to `Experiment` raises UsageError with the name of the experiment and the value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any

from firsttouch.base.errors import UsageError
from firsttouch.experiments.contract.base import (
    Candidate,
    CountingRules,
    Experiment,
    Factor,
    Planning,
    RankRules,
    WorkerRules,
)
from firsttouch.experiments.contract.common import switch_factors
from firsttouch.experiments.contract.rules import Preset, PresetRule
from firsttouch.machine import switches
from firsttouch.records.codebook import Codebook
from firsttouch.records.figures import Figure
from firsttouch.records.schema import DeviceInfo, Factors, Metric

_TYPES: Mapping[str, tuple[Any, str]] = {
    "question": (str, "a text"),
    "metric": (Metric, "a Metric"),
    "counted": (str, "a text"),
    "source": (str, "a text"),
    "figures": (Sequence, "a sequence of figures"),
    "codebook": (Codebook, "a Codebook"),
    "order": (int, "a whole number"),
    "counting": ((CountingRules, str), "CountingRules or a reason"),
    "across_devices": (bool, "True or False"),
    "worker": (WorkerRules, "WorkerRules"),
    "ranks": ((RankRules, NoneType), "RankRules or None"),
    "planning": (Planning, "a Planning"),
    "planning.share": ((int, float), "a number above 0"),
    "planning.setup": ((int, float, NoneType), "a number of seconds or None"),
    "planning.switches_of": (Sequence, "a sequence of parts"),
    "planning.rules": (Sequence, "a sequence of rules"),
    "planning.on_each": (Sequence, "a sequence of mappings"),
    "planning.properties": (Mapping, "a mapping"),
}
"""Attributes of an experiment, with the required type of each."""
_ITEMS: Mapping[str, Any] = {"figures": Figure, "planning.rules": PresetRule, "planning.on_each": Mapping}


def flaw(experiment: type[Experiment]) -> str:
    """Returns what is wrong with the attributes of an experiment, or ''."""
    for name, (wanted, words) in _TYPES.items():
        value: Any = attrgetter(name)(experiment)
        right = isinstance(value, wanted) and (name not in _ITEMS or all(isinstance(i, _ITEMS[name]) for i in value))
        if not right or (name == "planning.share" and not 0 < value < math.inf):
            return f"{name} is {value!r:.60}, not {words}"
    return "; ".join(f"its codebook: {text}" for text in experiment.codebook.flaws())


def factors_of(experiment: Experiment, device: DeviceInfo, preset: Preset) -> list[Factor]:
    """Returns the experiment's factors, and the switches of the device's runtime that it depends on.

    Raises:
        UsageError: factors() gives no list of factors, or two of the same name.
        Unsupported: the experiment cannot run on the device.
    """
    factors = experiment.factors(device, preset)
    if not isinstance(factors, (list, tuple)) or not all(isinstance(each, Factor) for each in factors):
        raise _wrong_type_error(experiment, "factors", factors, "a list of Factor")
    names = [factor.name for factor in factors]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"the experiment {experiment.name}: factors() gave the factor '{twice[0]}' twice")
    if wrong := strange_factor(experiment, factors):
        raise UsageError(f"the experiment {experiment.name}: {wrong}")
    return [*factors, *(s for s in switch_factors(device, experiment.planning.switches_of) if s.name not in names)]


def strange_factor(experiment: Experiment, factors: Sequence[Factor]) -> str:
    """Returns which factor or value is not in the experiment's codebook, or ''. A codebook may have no factors."""
    codebook_factors = experiment.codebook.factors
    if not codebook_factors or experiment.codebook.open:
        return ""
    for factor in factors:
        if factor.name not in codebook_factors and factor.name not in switches.SWITCHES:
            return f"it has the factor '{factor.name}', which its codebook lacks; it has {', '.join(codebook_factors)}"
        if words := codebook_factors.get(factor.name):
            strange = [word for word in (*factor.words(), *factor.known) if word not in words]
            if strange:
                return f"the factor '{factor.name}' has the value '{strange[0]}', which its codebook lacks"
    return ""


def why_skipped(candidate: Candidate) -> str:
    """Returns why the combination is not measured on its device, or ''. The experiment is asked once."""
    if candidate.reason is None:
        experiment = candidate.experiment
        candidate.reason = _checked_reason(experiment, "skip", experiment.skip(candidate.factors, candidate.device))
    return candidate.reason


def places_of(experiment: Experiment, factors: Factors, device: DeviceInfo) -> tuple[str, ...]:
    """Returns the device of each rank of a point; an empty tuple if one process carries it out."""
    if experiment.ranks is None:
        return ()
    device_names = experiment.ranks.places(factors, device)
    if not (isinstance(device_names, (list, tuple)) and all(isinstance(name, str) for name in device_names)):
        raise _wrong_type_error(experiment, "places", device_names, "the names of devices")
    return tuple(device_names)


def is_sampled(experiment: Experiment, factors: Factors) -> bool:
    answer = experiment.worker.sampled(factors)
    if not isinstance(answer, bool):
        raise _wrong_type_error(experiment, "sampled", answer, "True or False")
    return answer


def why_not_counted(experiment: Experiment, factors: Factors) -> str:
    counting = experiment.counting
    return counting if isinstance(counting, str) else _checked_reason(experiment, "why_not", counting.why_not(factors))


def environment_of(experiment: Experiment, factors: Factors) -> Mapping[str, str]:
    """Returns the experiment's environment, and that of the switches among the factors.

    Raises UsageError if no process can be started with it.
    """
    variables = experiment.worker.environment(factors)
    if not isinstance(variables, Mapping) or not all(
        isinstance(name, str) and isinstance(value, str) and name and not {"=", "\0"} & {*name} and "\0" not in value
        for name, value in variables.items()
    ):
        raise _wrong_type_error(experiment, "environment", variables, "a mapping of texts to texts")
    return {**switches.environment(factors), **variables}


def _checked_reason(experiment: Experiment, method: str, answer: object) -> str:
    if answer and not isinstance(answer, str):
        raise _wrong_type_error(experiment, method, answer, "a sentence or None")
    return answer if isinstance(answer, str) else ""


def _wrong_type_error(experiment: Experiment, method: str, result: object, expected: str) -> UsageError:
    return UsageError(f"the experiment {experiment.name}: {method}() gave {result!r:.60}, not {expected}")
