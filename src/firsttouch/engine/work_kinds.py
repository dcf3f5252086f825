"""The kinds of work: `firsttouch run` measures experiments, `firsttouch app` applications.

The engine does not depend on experiments, applications or their harness. This module passes them to planner, runner and
workers through the interface of engine/work.py. To add a kind of work, add a class and an entry in KINDS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from firsttouch import apps, experiments
from firsttouch.apps import port_programs
from firsttouch.base.errors import UsageError, unknown
from firsttouch.base.modules import add_modules, require_classes
from firsttouch.base.units import format_size
from firsttouch.engine.work import Listing, PlanningFacts, Work
from firsttouch.records.schema import PEER, SCHEMA, DeviceInfo, Factors, Record, Request, Scalar
from firsttouch.records.text import count

if TYPE_CHECKING:
    from firsttouch.experiments.contract.base import Experiment

_MOST_LISTED = 8


class ExperimentWork(Work):
    """`firsttouch run`."""

    name = "run"

    def check_modules(self, paths: Sequence[str]) -> None:
        from firsttouch.experiments.contract.base import Experiment

        require_classes(paths, map(type, experiments.all_experiments().values()), Experiment, self.planning.noun)

    def names(self) -> Mapping[str, object]:
        return self.experiments({})

    def usual_names(self) -> Mapping[str, object]:
        return experiments.all_experiments()

    def experiments(self, sets: Mapping[str, Sequence[Scalar]]) -> dict[str, Experiment]:
        return experiments.all_experiments() | port_programs.port_programs()

    def find(self, experiment: str, factors: Factors) -> Experiment:
        if (found := port_programs.find_port_program(experiment) or experiments.find_experiment(experiment)) is None:
            raise UsageError(f"there is no experiment {experiment} in this version of firsttouch")
        return found

    def default_devices(self, devices: Sequence[DeviceInfo], request: Request) -> list[str]:
        """All. Where there is a GPU, a quick run of everything does without kernels on the host's processor."""
        quick = request.preset == "quick" and self._is_whole(request)
        return super().default_devices(without_processors(devices) if quick else devices, request)

    def every_device(self, request: Request) -> bool:
        """Not in a run of everything, unless it is a full one."""
        return request.preset == "full" or not self._is_whole(request)

    def _is_whole(self, request: Request) -> bool:
        return not request.set and len(request.experiments) == len(self.usual_names())

    def further(self, request: Request, records: Sequence[Record]) -> list[Request]:
        """Devices that differ from the one that stands for them are measured as if alone; of several alike, the first
        is.
        """
        from firsttouch.records.equal_places import for_device, unlike

        if request.every_device:
            return []
        requests = []
        for _, devices in unlike(records):
            rest = [r for r in for_device(records, devices[0]) if r.device != devices[0]]
            names = {r.experiment for r in rest if r.status == "ok" and PEER not in r.factors}
            experiments = [name for name in request.experiments if name in names]
            requests.append(replace(request, devices=devices, experiments=experiments, ranks=None, earlier=[]))
        return [further for further in requests if further.experiments]

    def why_further(self, request: Request, records: Sequence[Record]) -> list[str]:
        from firsttouch.records.equal_places import differences

        return [] if request.every_device else differences(records)

    def listing(self, names: Sequence[str], devices: Sequence[str], preset: str) -> Listing:
        from firsttouch.engine.choices import choose_devices, choose_preset
        from firsttouch.engine.discover import find_devices
        from firsttouch.engine.estimate import planned_time
        from firsttouch.engine.plan import ExperimentsOutput, list_experiment

        all_known, found = self.experiments({}), find_devices(devices)
        chosen, usual = choose_devices(devices, found), self.usual_names()
        entries = [list_experiment(all_known[name], chosen, choose_preset(preset)) for name in names]
        lines = []
        for entry in entries:
            lines.append(f"{entry.name}: {entry.question}")
            for device, factors in entry.devices.items():
                words = "; ".join(f"{name} {_shortened_values(values)}" for name, values in factors.items())
                lines.append(f"  {device}: {words or 'no factors'}")
            lines += _accepted_lines(entry.factors)
            if entry.name not in usual:
                lines.append("  measured only by a call that names it")
            if entry.counters:
                lines.append("  --counters: adds counters of the vendor's profiler")
            lines += [f"  not on {device}: {reason}" for device, reason in entry.not_on.items()]
        planned = names if len(names) < len(all_known) else usual
        request = Request(schema=SCHEMA, experiments=[*planned], devices=[*devices], preset=preset, seed=1)
        request.every_device = bool(devices) or self.every_device(request)
        request.devices = request.devices or self.default_devices(chosen, request)
        summary = f"{count(len(entries), 'experiment')}: {planned_time(request, found, all_known)}."
        output = ExperimentsOutput(summary=summary, experiments=entries)
        return Listing(output, [*lines, summary], {entry.name: entry.question for entry in entries})


def _accepted_lines(factors: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A line for each factor: the values that --set accepts, and its description."""
    return [f"  --set {name}: {f['accepts']}" + (f" ({f['doc']})" if f["doc"] else "") for name, f in factors.items()]


def _shortened_values(values: Sequence[str]) -> str:
    """All values, or the first and last of many."""
    if len(values) <= _MOST_LISTED:
        return ", ".join(values)
    return f"{values[0]}, {values[1]}, ..., {values[-1]} ({len(values)} values)"


def _why_no_factor(app: str, factor: str) -> str:
    from firsttouch.harness.placements import why_no_setting

    return why_no_setting(apps.all_apps()[app], factor)


class ApplicationWork(Work):
    """`firsttouch app`."""

    name = "app"
    planning = PlanningFacts(
        noun="application",
        skips_are_results=False,
        hints={"strategy": "without --strategy, all that the device offers are tried"},
        why_no_factor=_why_no_factor,
    )
    timeout = 600.0
    """Seconds for one point with all its repetitions."""
    names_required = True

    def check_modules(self, paths: Sequence[str]) -> None:
        from firsttouch.harness.app import App

        require_classes(paths, apps.all_apps().values(), App, self.planning.noun)

    def check_relative_to(self, baseline: str) -> None:
        from firsttouch.program.strategies import STRATEGIES

        if baseline not in STRATEGIES:
            raise unknown("strategy", baseline, STRATEGIES)

    def names(self) -> Mapping[str, object]:
        return apps.all_apps()

    def experiments(self, sets: Mapping[str, Sequence[Scalar]]) -> dict[str, Experiment]:
        from firsttouch.harness.experiment import applications

        return applications(apps.all_apps(), sets)

    def find(self, experiment: str, factors: Factors) -> Experiment:
        from firsttouch.harness.experiment import Application

        found, name = apps.all_apps(), str(factors.get("app"))
        if name not in found:
            raise UsageError(f"there is no application {name} in this version of firsttouch")
        return Application(found[name])

    def default_devices(self, devices: Sequence[DeviceInfo], request: Request) -> list[str]:
        """The devices on which an application can run; if there are none, all, so that the plan has the reasons. Where
        there is a GPU, kernels on the host's processor run only if --device names it. Where several processes share the
        work, they have all devices of a driver, so its first one stands for them.
        """
        from firsttouch.experiments.contract.rank_interfaces import devices_of

        usable = [device for device in devices if device.capabilities.runs_kernels]
        if (request.ranks or 1) > 1:
            usable = [device for device in usable if device.name == devices_of(device)[0]]
        return super().default_devices(without_processors(usable) or devices, request)

    def listing(self, names: Sequence[str], devices: Sequence[str], preset: str) -> Listing:
        from firsttouch.harness.exchanging import FACTORS
        from firsttouch.harness.experiment import SETTINGS, ApplicationsOutput, list_application
        from firsttouch.harness.placements import BY_BUFFER

        all_known = apps.all_apps()
        entries = [list_application(all_known[name]) for name in names]
        lines = []
        for entry in entries:
            parameters = ", ".join(f"{name} {value}" for name, value in entry.default.items())
            size = format_size(entry.footprint_bytes)
            lines.append(f"{entry.name}: {entry.what}")
            lines.append(f"  {entry.pattern}; default {parameters} ({size}). {entry.source}")
            listed_names = {*entry.options, *(factor.name for factor in FACTORS)}
            lines += _accepted_lines({name: about for name, about in entry.factors.items() if name in listed_names})
            lines.append(f"  buffers that take advice and prefetches: {', '.join(entry.guided)}")
        if entries:
            lines.append("every application")
            lines += _accepted_lines({name: about for name, about in entries[0].factors.items() if name in SETTINGS})
            lines += _accepted_lines(BY_BUFFER)
        output = ApplicationsOutput(summary=f"{count(len(entries), 'application')}.", applications=entries)
        return Listing(output, lines, {entry.name: entry.what for entry in entries})

    def further(self, request: Request, records: Sequence[Record]) -> list[Request]:
        from firsttouch.harness.search import further

        return further(request, records, apps.all_apps())

    def summary(self, records: Sequence[Record]) -> dict[str, Any]:
        from firsttouch.harness.outcomes.placements import ranking
        from firsttouch.harness.outcomes.report import summary

        return {"applications": summary(records), "placements": ranking(records)}


def without_processors(devices: Sequence[DeviceInfo]) -> Sequence[DeviceInfo]:
    """The devices without those that run kernels on the host's processor, if there is a GPU."""
    if not any(device.role == "gpu" for device in devices):
        return devices
    return [device for device in devices if device.role != "processor"]


RUN, APP = ExperimentWork(), ApplicationWork()
KINDS: Mapping[str, Work] = {work.name: work for work in (RUN, APP)}


def add_any_modules(paths: Sequence[str]) -> None:
    """Loads files with experiments or applications. Raises UsageError if one has neither."""
    add_modules(paths)
    for path in paths:
        for work in KINDS.values():
            with suppress(UsageError):
                work.check_modules([path])
                break
        else:
            raise UsageError(f"--module '{path}' defines no experiment and no application")


def reportable_experiments() -> dict[str, Experiment]:
    """Everything whose records a report can show, by the experiment name in the records."""
    from firsttouch.harness import experiment

    by_name = experiments.all_experiments() | port_programs.port_programs()
    return by_name | {experiment.Applications.name: experiment.Applications(apps.all_apps())}
