"""The conditions of runs.

What distorts a measurement is a condition like any other. `distorting` is the one place that says what that is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from firsttouch.machine.conditions import disturbed_percent
from firsttouch.machine.measurement_warnings import conditions_by_name
from firsttouch.records.equal_places import groups
from firsttouch.records.schema import Machine, Record, Request, Scalar, Selection

if TYPE_CHECKING:
    from firsttouch.records.reading import Results

WARNING = "distorts: "
"""Begins the name of a condition that distorts measurements; the words for it are its value."""
EQUAL = "run.equal GPUs"
"""The condition that says which GPU was measured for others."""
RUNS = "runs"
"""The condition that tells how many runs a side has."""
DISTURBED = "points disturbed by other programs, %"
VARYING: Mapping[str, float] = {"cpu.load_1min": 0.5, "cpu.others_percent": 10, DISTURBED: 5}
"""Numbers that change from moment to moment and still matter, with the least difference that does."""
IMPORTANT = (
    *(DISTURBED, "cpu.others_percent", "cpu.load_1min", WARNING, RUNS, "firsttouch", "run."),
    *("device ", "nvidia.driver", "nvidia.cuda", "nvidia_uvm.", "amd.", "memory.page_bytes", "huge_pages."),
    *("cpu.model", "cpu.governor", "kernel.release", "environment.MALLOC_", "environment.LD_", "environment.GLIBC_"),
    *("kernel.boot_options", "cpu.", "environment."),
    *("clock of", "throttled", "numa.", "links.", "gpu", "memory."),
)
"""Beginnings of the names of conditions, those that explain most differences first."""
_PASSING = re.compile(
    r"(free|used|available|reclaimable|cached|dirty|load|processes|surplus|reserved|committed)(_|$)|_(free|used)_bytes$|"
    r"(^|_)(now|sm|memory|core|current)_mhz$|power_w$|temperature|busy|performance_state|uuid|pci_bus|throttle|_reason$|"
    r"^node\d+_total_bytes$|^firsttouch$|cgroup_path|boot_id|pids|^touch_(fresh|again)_ns$|^others_percent$|^pair_speedup$"
)
"""Facts that change from moment to moment, name one of several equal parts, or (of the topic software, until schema
2.6) are a condition of their own."""


def distorting(machine: Machine, records: Sequence[Record]) -> dict[str, Scalar]:
    """What distorted the measurements of a run, from its machine and its points: in words, and in numbers.

    The name of words is the same whatever their numbers are, so that two clocks are one condition with two values.
    """
    words = {f"{WARNING}{name}": text for name, text in conditions_by_name(machine.facts).items()}
    return words | {DISTURBED: disturbed_percent(records)}


def of_run(results: Results, devices: Mapping[str, str]) -> dict[str, Scalar]:
    """What may differ between two runs besides what they measured, by name: 'nvidia.driver', 'run.preset', ...

    devices: the titles of the devices with records.
    """
    machine = results.machine
    conditions: dict[str, Scalar] = {"firsttouch": machine.firsttouch}
    conditions |= _request_conditions(results.request, results.records)
    stands_for = {first: 1 + len(equal_gpus) for first, *equal_gpus in groups(results.records)}
    if equal := [f"on {first}, which stands for {number} equal GPUs" for first, number in stands_for.items()]:
        conditions[EQUAL] = f"most points were measured {'; '.join(equal)}"
    conditions |= {f"device {name}": title for name, title in devices.items()}
    conditions |= _clock_conditions(results.records)
    return conditions | _machine_facts(machine) | distorting(machine, results.records)


def _request_conditions(request: Request | None, records: Sequence[Record]) -> dict[str, Scalar]:
    presets = dict.fromkeys(r.preset for r in records)
    seeds = dict.fromkeys(r.seed for r in records)
    conditions: dict[str, Scalar] = {
        "run.preset": ", ".join(filter(None, presets)) or None,
        "run.seed": ", ".join(map(str, seeds)) or None,
    }
    if request is not None:
        calls: tuple[Request | Selection, ...] = (*request.earlier, request)
        conditions |= {"run.events": any(c.events for c in calls), "run.counters": any(c.counters for c in calls)}
        sets: dict[str, dict[Scalar, None]] = {}
        for call in calls:
            for name, values in call.set.items():
                sets.setdefault(name, {}).update(dict.fromkeys(values))
        conditions |= {f"run.set {name}": ", ".join(map(str, values)) for name, values in sets.items()}
    return conditions


def _clock_conditions(records: Sequence[Record]) -> dict[str, Scalar]:
    """The median clock of each device during its points, to 1 %, and the number of throttled points."""
    clocks: dict[str, list[float]] = {}
    throttled: dict[str, int] = {}
    for r in records:
        if r.clocks_after is not None and r.clocks_after.core_mhz:
            clocks.setdefault(r.device, []).append(r.clocks_after.core_mhz)
            throttled[r.device] = throttled.get(r.device, 0) + bool(r.throttled)
    conditions: dict[str, Scalar] = {f"clock of {name}, MHz": float(f"{median(v):.2g}") for name, v in clocks.items()}
    return conditions | {f"throttled points of {name}": n for name, n in throttled.items()}


def _machine_facts(machine: Machine) -> dict[str, Scalar]:
    named = {f"{topic}.{name}": value for topic, facts in machine.facts.items() for name, value in facts.items()}
    return {name: value for name, value in named.items() if name in VARYING or not _is_compared(name)}


def _is_compared(name: str) -> bool:
    return bool(_PASSING.search(name.partition(".")[2]))


# ---------------------------------------------------------------------------------------------------- of sides
