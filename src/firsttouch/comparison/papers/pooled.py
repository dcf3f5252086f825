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
    (first_name, first), *other_runs = runs.items()
    for name, results in other_runs:
        if _is_predicted(first) != _is_predicted(results):
            raise UsageError(
                f"of {first_name} and {name} one was measured and the other predicted; name either kind, or compare "
                "two with `firsttouch compare`"
            )
        if difference := _describe_mismatch(first.machine, results.machine):
            raise UsageError(
                f"{first_name} and {name} are of different machines ({difference}); name runs of one machine, "
                "or compare two "
                "with `firsttouch compare`"
            )
    differing = [
        name for name in CONDITIONS if len({_condition_of_machine(name, r.machine) for r in runs.values()}) > 1
    ]
    inputs = _differing_inputs([record for results in runs.values() for record in results.records])
    points: dict[str, list[Record]] = {}
    for results in runs.values():
        conditions = {name: _condition_of_machine(name, results.machine) for name in differing}
        for record in results.records:
            differing_parameters = {
                name: v for name, v in record.parameters.items() if name in inputs.get(_problem_key(record), ())
            }
            record = replace(
                record, factors=type(record.factors)({**differing_parameters, **record.factors, **conditions})
            )
            points.setdefault(key_of(record), []).append(record)
    devices = {device.name: device for results in reversed([*runs.values()]) for device in results.machine.devices}
    machine = replace(first.machine, devices=list(devices.values()))
    warnings = [warning for results in runs.values() for warning in results.warnings]
    return Results(machine, first.request, [_join_records(records) for records in points.values()], warnings)


def _is_predicted(results: Results) -> bool:
    return any(device.modelled for device in results.machine.devices)


def _problem_key(record: Record) -> tuple[object, ...]:
    """What an application was asked to solve: its parameters follow from that in one version of it."""
    requested_factors = frozenset((name, v) for name, v in record.factors.items() if name in record.parameters)
    return record.experiment, record.factors.get("app"), record.factors.get("size"), requested_factors


def _differing_inputs(records: Sequence[Record]) -> dict[tuple[object, ...], set[str]]:
    """The parameters in which the runs of one problem differ, as those of two versions of an application may."""
    ran: dict[tuple[object, ...], list[dict[str, Scalar]]] = {}
    for record in records:
        if inputs := record.parameters:
            ran.setdefault(_problem_key(record), []).append(inputs)
    return {
        problem: {
            name
            for inputs_of_run in inputs_of_runs
            for name in inputs_of_run
            if len({other_inputs.get(name) for other_inputs in inputs_of_runs}) > 1
        }
        for problem, inputs_of_runs in ran.items()
    }


def _condition_of_machine(name: str, machine: Machine) -> Scalar:
    topic, fact = CONDITIONS[name]
    return machine.facts.get(topic, {}).get(fact)


def _describe_mismatch(first: Machine, second: Machine) -> str:
    """What shows that two runs are of machines that are not alike, or ''. Nodes of a cluster may be. What runs kernels
    on the processor is software, and may be another.
    """
    for topic, name in _ALIKE:
        first_fact, second_fact = (machine.facts.get(topic, {}).get(name) for machine in (first, second))
        if first_fact != second_fact:
            return f"{topic}.{name} is {first_fact} and {second_fact}"
    titles = {device.name: device.title for device in first.devices if device.available}
    for device in second.devices:
        if device.available and device.role != "processor" and titles.get(device.name, device.title) != device.title:
            return f"{device.name} is {titles[device.name]} and {device.title}"
    return ""


def _join_records(records: Sequence[Record]) -> Record:
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
