"""Counts points with the vendor's profiler, for `--counters`.

After the timed samples of a point, a new process under the profiler measures the point once more, with one sample and
the launch shape of the timed ones. Only what is counted is added to the record; the samples stay those without it.
An application runs once, and what its kernels did is added up by iteration.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from firsttouch.engine.job import Job
from firsttouch.engine.planned import Planned
from firsttouch.experiments.contract.base import CountingRules, Experiment
from firsttouch.experiments.contract.contract import why_not_counted
from firsttouch.machine.backends import BACKENDS, HOST
from firsttouch.profile.counters import marks
from firsttouch.profile.counters.tool import (
    COUNTED,
    KERNELS,
    PREFIX,
    STATE,
    RefusedError,
    Tool,
    choose_forms,
    evaluate,
    listed_names,
)
from firsttouch.profile.counters.tools import TOOLS
from firsttouch.profile.events import log as events
from firsttouch.records.schema import ITERATION_TIME, NONE, DeviceInfo, Factors, Record, Scalar
from firsttouch.records.statistics import series
from firsttouch.workers.process import run_program, run_under

TIMEOUT = 300.0
"""Seconds that the counted run of a point may take, with all runs of the program that the tool needs, unless the point
itself may take longer.
"""
LIST_TIMEOUT = 60.0
_UNDISTURBED = {events.VARIABLE: "0", "LC_ALL": "C"}
"""Recording events would slow a point down, and only one tool can use the driver's interface for both."""
Forms: TypeAlias = Mapping[str, Mapping[str, float]]
GIVE_UP_AFTER = 3
"""The number of points in a row that a tool failed to count, after which it is not started again."""


class PointCounter:
    """Adds the counters of the vendor's profiler to records."""

    def __init__(self, experiments: Mapping[str, Experiment]) -> None:
        self._experiments = experiments
        self._forms: dict[str, dict[str, Mapping[str, float]]] = {}
        self._refused: dict[str, str] = {}
        self._failures: dict[str, int] = {}

    def add(self, planned: Planned, record: Record, outputs: Sequence[str] = ()) -> None:
        """Counts a point that was measured, and adds the counters to its record, or the reason why there are none.

        outputs: digests of outputs that were checked.
        """
        if record.status != "ok":
            return
        try:
            job = Job(planned, counted=record.counters, outputs=[*outputs])
            counters = self._count(self._tool(planned), job)
        except RefusedError as error:
            counters = {STATE: f"{NONE}{error}"}
        record.counters = record.counters | counters

    def _experiment(self, planned: Planned) -> Experiment:
        return self._experiments[planned.name or planned.point.experiment]

    def _tool(self, planned: Planned) -> Tool:
        point, device = planned.point, planned.info
        if reason := why_not_counted(self._experiment(planned), point.factors):
            raise RefusedError(reason)
        tool = TOOLS.get(BACKENDS[counting_kind(device, point.factors)].counters)
        if tool is None:
            raise RefusedError(f"no profiler is known that counts what {device.name} does")
        return tool

    def _count(self, tool: Tool, job: Job) -> dict[str, Scalar]:
        if tool.name in self._refused:
            raise RefusedError(self._refused[tool.name])
        try:
            counters = self._run(tool, job)
        except RefusedError as error:
            failures = self._failures[tool.name] = self._failures.get(tool.name, 0) + 1
            if error.lasting:
                self._refused[tool.name] = str(error)
            elif failures == GIVE_UP_AFTER:
                self._refused[tool.name] = f"{tool.name} failed at {failures} points in a row; the last: {error}"
            raise
        self._failures[tool.name] = 0
        return counters

    def _run(self, tool: Tool, job: Job) -> dict[str, Scalar]:
        program = tool.find()
        forms = self._offered_forms(tool, program)
        wanted_counters = list(dict.fromkeys(counter for form in forms.values() for counter in form))
        counting = self._experiment(job.planned).counting
        by_marks = isinstance(counting, CountingRules) and counting.by_marks
        with _folder_for(tool) as folder:
            run = run_under(
                lambda worker: [program, *tool.arguments(wanted_counters, folder, worker, "" if by_marks else COUNTED)],
                job,
                folder,
                timeout=max(TIMEOUT, job.planned.limit),
                environment={**job.planned.environment, **_UNDISTURBED, **tool.environment(folder)},
            )
            if refusal := tool.refusal(folder, run.output):
                raise refusal
            counted = run.reply.record if run.reply is not None else None
            if counted is None:
                raise RefusedError(f"under {tool.name}, {run.reason}")
            if counted.status != "ok" or counted.verified is False:
                raise RefusedError(f"under {tool.name} the point ended {_describe_outcome(counted)}")
            note, values = (
                _marked_counters(tool, folder, forms, counted) if by_marks else _sample_counters(tool, folder, forms)
            )
            if not any(name in forms for name in values):
                raise RefusedError(f"{tool.name} counted none of {', '.join(wanted_counters)} in full")
        point_counters = {key: value for key, value in counted.counters.items() if key.startswith(PREFIX)}
        how = "; ".join(filter(None, [tool.how, note]))
        state = f"{tool.name} ({how})" if how else tool.name
        return {STATE: state, **point_counters, **values}

    def _offered_forms(self, tool: Tool, program: str) -> dict[str, Mapping[str, float]]:
        """The forms of the tool's quantities that it offers on this machine. Asked once."""
        if tool.name not in self._forms:
            listing = run_program([program, *tool.lists], timeout=LIST_TIMEOUT) if tool.lists else ""
            offered = listed_names(listing)
            form_names = {name.partition(".")[0] for q in tool.quantities for form in q.forms for name in form}
            self._forms[tool.name] = choose_forms(tool.quantities, offered if form_names & offered else ())
        return self._forms[tool.name]


def _sample_counters(tool: Tool, folder: Path, forms: Forms) -> tuple[str, dict[str, Scalar]]:
    """What limits the counters, and those of the one sample of an experiment."""
    reading = tool.read(folder)
    kernels = {} if reading.kernels is None else {KERNELS: reading.kernels}
    return reading.note, {**kernels, **evaluate(forms, reading)}


def _marked_counters(tool: Tool, folder: Path, forms: Forms, counted: Record) -> tuple[str, dict[str, Scalar]]:
    """The counters of all kernels between marks, and their limits. counted: the record of the run under the tool."""
    iterations = counted.counters.get(marks.ITERATIONS)
    groups = len(series(counted, ITERATION_TIME))
    number = iterations if isinstance(iterations, int) else groups
    return "all kernels of the phase compute", marks.counters(forms, tool.launches(folder), groups, number)


@contextmanager
def _folder_for(tool: Tool) -> Iterator[Path]:
    try:
        with tempfile.TemporaryDirectory(prefix="firsttouch-") as name:
            yield Path(name)
    except OSError as error:
        place = "set TMPDIR to a folder that has space and can be written"
        raise RefusedError(
            f"{tool.name} has no place for its files ({error.strerror}); {place}", lasting=True
        ) from None


def counting_kind(device: DeviceInfo, factors: Mapping[str, Scalar]) -> str:
    """The kind of device whose profiler counts a point: that of the agent that acts."""
    by_host = Factors(factors).get("agent") == "cpu" or not device.capabilities.runs_kernels
    return HOST if by_host else device.kind


def _describe_outcome(record: Record) -> str:
    return f"{record.status}: {record.reason}" if record.status != "ok" else "with wrong data"
