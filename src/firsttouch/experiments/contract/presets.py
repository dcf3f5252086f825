"""Rules that decide which points of an experiment a preset measures.

A rule applies to the points whose factors and properties meet its conditions, and says which of them are measured. The
first rule that applies to a point decides. A point to which no rule applies is measured. `Planning.rules` is the
table, and `Planning.properties` adds to the properties below, such as one that `varied_from` makes.

    planning = Planning(
        rules=(
            leave_out("plain host memory is measured on the device cpu", measured_on_cpu=True),
            take_only("memory that the agent cannot reach is recorded once", of={"reachable": False}, size=MiB),
            leave_out("other allocators are measured at every third octave", QUICK, main=False, size=Not(Octave(3))),
        )
    )

A condition is a value, a tuple of accepted values, or a test of the value such as Above(GiB). If a property is a set of
names, a condition that is a set must be equal to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache

from firsttouch.experiments.contract import common
from firsttouch.experiments.contract.base import Candidate, Planning, Property
from firsttouch.experiments.contract.contract import why_skipped
from firsttouch.experiments.contract.rules import Preset, PresetRule, PropertyValue, RuleCondition
from firsttouch.machine.allocators import properties as allocators
from firsttouch.machine.switches import SWITCHES
from firsttouch.records.schema import DeviceInfo, Scalar

PRESETS: Sequence[Preset] = ("quick", "standard", "full")
QUICK: Sequence[Preset] = ("quick",)
SHORT: Sequence[Preset] = ("quick", "standard")
STANDARD: Sequence[Preset] = ("standard",)
THOROUGH: Sequence[Preset] = ("standard", "full")
FULL: Sequence[Preset] = ("full",)


# ------------------------------------------------------------------------------------------------------------ tests


@dataclass(frozen=True)
class Octave:
    """The value is 2^(every k) for a whole k."""

    every: int = 1

    def __call__(self, value: PropertyValue) -> bool:
        return common.whole_octave(value, self.every)


@dataclass(frozen=True)
class Above:
    limit: float

    def __call__(self, value: PropertyValue) -> bool:
        return isinstance(value, (int, float)) and value > self.limit


@dataclass(frozen=True)
class Below:
    limit: float

    def __call__(self, value: PropertyValue) -> bool:
        return isinstance(value, (int, float)) and value < self.limit


@dataclass(frozen=True)
class Contains:
    """A set of names that includes `name`."""

    name: str

    def __call__(self, value: PropertyValue) -> bool:
        return isinstance(value, AbstractSet) and self.name in value


@dataclass(frozen=True)
class ContainsAll:
    """A set of names that includes all of `names`."""

    names: Collection[str]

    def __call__(self, value: PropertyValue) -> bool:
        return isinstance(value, AbstractSet) and value >= set(self.names)


@dataclass(frozen=True)
class Count:
    """A set of names whose number, without those in `uncounted`, meets the condition `number`."""

    number: RuleCondition
    uncounted: Collection[str] = ()

    def __call__(self, value: PropertyValue) -> bool:
        return isinstance(value, AbstractSet) and holds(self.number, len(value - set(self.uncounted)))


@dataclass(frozen=True)
class Not:
    """The condition does not hold."""

    condition: RuleCondition

    def __call__(self, value: PropertyValue) -> bool:
        return not holds(self.condition, value)


def holds(condition: RuleCondition, value: PropertyValue) -> bool:
    if isinstance(condition, tuple):
        for alternative in condition:  # noqa: SIM110  # any() takes three times as long, and plans ask millions of times
            if holds(alternative, value):
                return True
        return False
    return bool(condition(value)) if callable(condition) else condition == value


# ------------------------------------------------------------------------------------------------------------ rules


def leave_out(reason: str, presets: Sequence[Preset] = PRESETS, **conditions: RuleCondition) -> PresetRule:
    """Leaves out the points that meet the conditions."""
    return PresetRule(reason, presets, conditions, None)


def exclude(reason: str, presets: Sequence[Preset] = PRESETS, **conditions: RuleCondition) -> PresetRule:
    """Leaves out the points that meet the conditions, before any other rule, and also if --set names one of their
    values. The property `chosen` has the factors that --set names.
    """
    return PresetRule(reason, presets, conditions, None, strict=True)


def take(reason: str, presets: Sequence[Preset] = PRESETS, **conditions: RuleCondition) -> PresetRule:
    """Measures the points that meet the conditions, regardless of later rules."""
    return PresetRule(reason, presets, conditions, {})


def take_only(
    reason: str, presets: Sequence[Preset] = PRESETS, *, of: Mapping[str, RuleCondition], **measured: RuleCondition
) -> PresetRule:
    """Of the points that meet `of`, measures those that meet `measured` and leaves out the others."""
    return PresetRule(reason, presets, of, measured)


# ------------------------------------------------------------------------------------------------------- properties


def varied_from(base_point: Callable[[DeviceInfo], Mapping[str, Scalar]]) -> Property:
    """The property of the factors in which a point differs from the one around which conditions are varied one at a
    time. base_point: that point on a device.
    """

    def varied(candidate: Candidate) -> AbstractSet[str]:
        base = base_point(candidate.device)
        return frozenset(name for name, value in base.items() if candidate.factors.get(name) != value)

    return varied


def _of_allocator(ask: Callable[[str], PropertyValue]) -> Property:
    return lambda candidate: ask(candidate.factors.text("allocator"))


def _is_reachable(candidate: Candidate) -> bool:
    factors = candidate.factors
    return common.unreachable(candidate.device, factors.text("allocator"), factors.text("agent")) is None


def _is_coherent(candidate: Candidate) -> bool:
    return candidate.allocator is not None and candidate.allocator.concurrent is True


def _sdma_as_here(candidate: Candidate) -> bool:
    """True if copies use the DMA engines as they do in this environment. The runtime uses them unless told not to."""
    current = SWITCHES["sdma"].current
    return candidate.factors.get("sdma") in (None, current, "0" if current == "0" else "1")


def _is_main_allocator(candidate: Candidate) -> bool:
    return candidate.factors["allocator"] == allocators.main_allocator(candidate.device)


def _is_first_agent(candidate: Candidate) -> bool:
    return candidate.factors["agent"] == common.agents(candidate.device)[0]


def _measured_on_cpu(candidate: Candidate) -> bool:
    factors = candidate.factors
    device, allocator = candidate.device, factors.text("allocator")
    if factors.get("first_touch") == "other" and common.unreachable(device, allocator, "gpu") is None:
        return False  # the device cpu has no memory that a GPU touched first
    return common.measured_on_cpu(device, allocator, factors.text("agent"))


def _uses_same_memory(candidate: Candidate) -> bool:
    factors = candidate.factors
    return common.measured_under_another_name(candidate.device, factors.text("allocator"), factors.text("agent"))


def _is_largest(candidate: Candidate) -> bool:
    """True if the preset measures no larger size."""
    factors = candidate.experiment.factors(candidate.device, candidate.preset)
    return candidate.factors["size"] == next(max(f.values) for f in factors if f.name == "size")  # type: ignore[type-var]


PROPERTIES: Mapping[str, Property] = {
    "runs_on": lambda candidate: candidate.device.role,
    "runs_kernels": lambda candidate: candidate.device.capabilities.runs_kernels,
    "chosen": lambda candidate: candidate.chosen,  # the factors given with --set
    "skipped": lambda candidate: why_skipped(candidate) != "",  # it cannot be measured here; its record says why
    "sdma_as_here": _sdma_as_here,
    "largest": _is_largest,  # its size is the largest of the preset
    # Properties of the factor `allocator`:
    "main": _is_main_allocator,  # the main allocator of the device
    "role": _of_allocator(allocators.role),
    "plain_host": _of_allocator(allocators.is_plain_host),
    "common": _of_allocator(allocators.is_common),
    "variant": _of_allocator(allocators.variant),
    "migrating": lambda candidate: candidate.allocator is not None and candidate.allocator.managed,
    "coherent": _is_coherent,  # each agent sees the other's stores while a kernel runs
    # Properties of the factors `agent` and `allocator`:
    "reachable": _is_reachable,
    "first_agent": _is_first_agent,
    "main_curve": lambda candidate: _is_main_allocator(candidate) and _is_first_agent(candidate),
    "measured_on_cpu": _measured_on_cpu,
    "same_memory": _uses_same_memory,
}
"""Properties of points that any rule may use in addition to factors."""


# ----------------------------------------------------------------------------------------------------------- engine


def excluded(candidate: Candidate) -> str:
    """Returns why a strict rule leaves out the candidate, or '' if none does."""
    return _first_reason(candidate, strict=True)


def not_measured(candidate: Candidate) -> str:
    """Returns why the preset does not measure the candidate, which no strict rule leaves out, or '' if it does."""
    return _first_reason(candidate, strict=False)


def meets(candidate: Candidate, conditions: Mapping[str, RuleCondition]) -> bool:
    """Whether the candidate meets all conditions."""
    factors, found = candidate.factors, candidate.found
    for name, condition in conditions.items():
        if name in factors:
            value: PropertyValue = factors[name]
        elif name in found:
            value = found[name]
        else:
            properties = candidate.experiment.planning.properties
            value = found[name] = (properties[name] if name in properties else PROPERTIES[name])(candidate)
        if not holds(condition, value):
            return False
    return True


def _first_reason(candidate: Candidate, *, strict: bool) -> str:
    """Returns why the first rule that applies leaves out the candidate, or '' if it does not."""
    for rule in _rules_of_preset(candidate.experiment.planning, candidate.preset, strict):
        if meets(candidate, rule.of):
            return "" if rule.measured is not None and meets(candidate, rule.measured) else rule.why
    return ""


@cache
def _rules_of_preset(planning: Planning, preset: Preset, strict: bool) -> Sequence[PresetRule]:
    """The strict rules of a preset, or those that are not strict."""
    return [rule for rule in planning.rules if rule.strict is strict and preset in rule.presets]
