"""Several runs of one machine as one, such as those of two kernels with different page sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from msgspec.structs import replace

from firsttouch.base.errors import UsageError
from firsttouch.machine.access_counters import PARAMETERS
from firsttouch.records.reading import Results, key_of
from firsttouch.records.schema import Machine, Record, Scalar

CONDITIONS: Mapping[str, tuple[str, str]] = {
    "page_bytes": ("memory", "page_bytes"),
    "thp": ("huge_pages", "thp_enabled"),
    "numa_balancing": ("numa", "balancing"),
    "cuda_driver": ("nvidia", "driver"),
    "amd_driver": ("amd", "kernel_module"),
    **{name: ("nvidia_uvm", name) for name in PARAMETERS},
}
"""What runs of one machine may differ in, and the topic and the name of the fact that states it."""
_ALIKE = (("cpu", "model"), ("cpu", "sockets"), ("cpu", "cores_online"), ("nvidia", "gpus"))
"""Facts that runs of one machine have in common."""


def pooled(runs: Mapping[str, Results]) -> Results:
    """The records of all runs. Where the runs differ in a condition, or in the parameters of an application, it is a
    factor of their records. A point that several runs measured under the same conditions has the median of them and an
    interval that holds all of theirs.

    runs: by the name of the directory.

    Raises:
        UsageError: the runs are of different machines.
    """
    (first_name, first), *others = runs.items()
    for name, results in others:
        if _is_predicted(first) != _is_predicted(results):
            raise UsageError(
                f"of {first_name} and {name} one was measured and the other predicted; name either kind, or compare "
                "two with `firsttouch compare`"
            )
        if what := _unlike(first.machine, results.machine):
            raise UsageError(
                f"{first_name} and {name} are of different machines ({what}); name runs of one machine, or compare two "
                "with `firsttouch compare`"
            )
    differing = [name for name in CONDITIONS if len({_condition(name, r.machine) for r in runs.values()}) > 1]
    inputs = _differing_inputs([record for results in runs.values() for record in results.records])
    points: dict[str, list[Record]] = {}
    for results in runs.values():
        conditions = {name: _condition(name, results.machine) for name in differing}
        for record in results.records:
            own = {name: v for name, v in record.parameters.items() if name in inputs.get(_problem(record), ())}
            record = replace(record, factors=type(record.factors)({**own, **record.factors, **conditions}))
            points.setdefault(key_of(record), []).append(record)
    devices = {device.name: device for results in reversed([*runs.values()]) for device in results.machine.devices}
    machine = replace(first.machine, devices=list(devices.values()))
    warnings = [warning for results in runs.values() for warning in results.warnings]
    return Results(machine, first.request, [_joined(records) for records in points.values()], warnings)


def _is_predicted(results: Results) -> bool:
    return any(device.modelled for device in results.machine.devices)


def _problem(record: Record) -> tuple[object, ...]:
    """What an application was asked to solve: its parameters follow from that in one version of it."""
    given = frozenset((name, v) for name, v in record.factors.items() if name in record.parameters)
    return record.experiment, record.factors.get("app"), record.factors.get("size"), given


def _differing_inputs(records: Sequence[Record]) -> dict[tuple[object, ...], set[str]]:
    """The parameters in which the runs of one problem differ, as those of two versions of an application may."""
    ran: dict[tuple[object, ...], list[dict[str, Scalar]]] = {}
    for record in records:
        if inputs := record.parameters:
            ran.setdefault(_problem(record), []).append(inputs)
    return {
        problem: {name for one in some for name in one if len({other.get(name) for other in some}) > 1}
        for problem, some in ran.items()
    }


def _condition(name: str, machine: Machine) -> Scalar:
    topic, fact = CONDITIONS[name]
    return machine.facts.get(topic, {}).get(fact)


def _unlike(first: Machine, second: Machine) -> str:
    """What shows that two runs are of machines that are not alike, or ''. Nodes of a cluster may be. What runs kernels
    on the processor is software, and may be another.
    """
    for topic, name in _ALIKE:
        one, other = (machine.facts.get(topic, {}).get(name) for machine in (first, second))
        if one != other:
            return f"{topic}.{name} is {one} and {other}"
    titles = {device.name: device.title for device in first.devices if device.available}
    for device in second.devices:
        if device.available and device.role != "processor" and titles.get(device.name, device.title) != device.title:
            return f"{device.name} is {titles[device.name]} and {device.title}"
    return ""


def _joined(records: Sequence[Record]) -> Record:
    """One point of several runs. The counters are those of the run in the middle."""
    usable = sorted((r for r in records if r.is_measured), key=lambda r: r.summary.median if r.summary else 0.0)
    summaries = [r.summary for r in usable if r.summary is not None]
    if len(summaries) < 2:
        return usable[0] if usable else records[-1]
    middle = summaries[(len(summaries) - 1) // 2]
    summary = replace(
        middle,
        n=sum(s.n for s in summaries),
        median=median(s.median for s in summaries),
        min=min(s.min for s in summaries),
        max=max(s.max for s in summaries),
        ci_low=min(s.ci_low for s in summaries),
        ci_high=max(s.ci_high for s in summaries),
    )
    return replace(usable[(len(summaries) - 1) // 2], summary=summary)
