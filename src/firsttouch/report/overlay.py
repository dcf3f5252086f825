"""Figures that tell several runs apart by colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from firsttouch.base.errors import UsageError
from firsttouch.experiments.contract.base import Experiment
from firsttouch.records import figures
from firsttouch.records.reading import Results
from firsttouch.records.schema import Record
from firsttouch.records.statistics import measured
from firsttouch.records.text import join_names
from firsttouch.report.draw import draw
from firsttouch.report.drawing import Drawing, DrawingContext
from firsttouch.report.notebook import from_specification
from firsttouch.report.palette import Palette

RUN = "run"
"""The factor that tells runs apart."""


def with_factor(record: Record, by: str, name: str, **changes: Any) -> Record:
    """The record with a further factor that says which run it is of."""
    return msgspec.structs.replace(record, factors={by: name, **changes.pop("factors", record.factors)}, **changes)


def overlaid(
    shown: Iterable[figures.Figure], records: Sequence[Record], by: str, palette: Palette
) -> Iterator[Drawing]:
    """The figures with a colour for each value of `by`; their own colour becomes a dash or a panel. A stack has a bar
    for each, in a panel for each of its bars.
    """
    for figure in shown:
        if isinstance(figure, figures.Line):
            figure = replace(figure, colour=by, dash="", levels="", order=())
        elif isinstance(figure, figures.Bar):
            figure = replace(figure, colour=by)
        elif isinstance(figure, figures.Stack):
            figure = replace(figure, x=by, facet=figure.x)
        else:
            continue
        if (drawing := draw(figure, records, DrawingContext(None, palette))) is not None:
            yield drawing


def chart(results: Mapping[str, Results], experiment: str | None, device: str | None) -> Any:
    """An altair chart of an experiment's first figure. Without a device, a GPU is drawn before a processor. Raises
    UsageError if there is nothing to draw, or if altair is not installed.
    """
    from firsttouch.engine.work_kinds import reportable_experiments

    good = {name: measured(run.records) for name, run in results.items()}
    everything = [r for run in good.values() for r in run]
    experiment = _choose_name("experiment", experiment, [r.experiment for r in everything])
    of_it = [r for r in everything if r.experiment == experiment]
    gpus = {d.name: d.role == "gpu" for run in results.values() for d in run.machine.devices}
    names = sorted(dict.fromkeys(r.device for r in of_it), key=lambda name: not gpus.get(name, False))
    device = _choose_name("device", device, names)
    known_experiment = reportable_experiments().get(experiment)
    for drawing in _drawings(good, experiment, device, known_experiment):
        if drawing.spec is not None:
            return from_specification(_check_spec(drawing.spec))
    raise UsageError(f"{experiment} has no figure of its points on {device}; to_pandas() has the points")


def _check_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification without what the converter of the report accepts and altair's schema does not."""
    config = dict(spec["config"])
    config["legend"] = {name: value for name, value in config["legend"].items() if name != "layout"}
    return {**spec, "config": config}


def _drawings(
    records: Mapping[str, Sequence[Record]], name: str, device: str, experiment: Experiment | None
) -> Iterator[Drawing]:
    if experiment is None:
        return
    derived = {
        run: experiment.derive([r for r in held if (r.experiment, r.device) == (name, device)])
        for run, held in records.items()
    }
    if len(derived) == 1:
        (only,) = derived.values()
        for section in experiment.sections(only, None):
            for figure in section.figures:
                if (drawing := draw(figure, section.records, DrawingContext(None, Palette()))) is not None:
                    yield drawing
        return
    yield from overlaid(
        experiment.figures, [with_factor(r, RUN, run) for run, held in derived.items() for r in held], RUN, Palette()
    )


def _choose_name(noun: str, name: str | None, measured_names: Sequence[str]) -> str:
    names = list(dict.fromkeys(measured_names))
    if not names:
        raise UsageError("nothing was measured that could be drawn")
    if name is not None and name not in names:
        raise UsageError(f"there is no {noun} '{name}' among the points; there are {join_names(names)}")
    return name if name is not None else names[0]
