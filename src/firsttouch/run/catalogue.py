"""What can be measured: experiments, and applications, each of which is planned as an experiment of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from firsttouch import apps
from firsttouch import experiments as measured
from firsttouch.errors import UsageError
from firsttouch.experiments.base import Experiment
from firsttouch.schema import Factors, Kind, Scalar

WORDS: Mapping[Kind, str] = {"run": "experiment", "app": "application"}


def show_modules(paths: Sequence[str]) -> None:
    """Add applications of the user's own, for this process and every worker."""
    before = os.environ.get(apps.VARIABLE, "").split(":")
    os.environ[apps.VARIABLE] = ":".join(dict.fromkeys(filter(None, [*before, *map(os.path.abspath, paths)])))


def names(kind: Kind) -> dict[str, object]:
    """What may be chosen, by name. Raises UsageError for a module that is none."""
    return {**measured.all_experiments()} if kind == "run" else {**apps.all_apps()}


def experiments(kind: Kind, asked: Mapping[str, Sequence[Scalar]]) -> dict[str, Experiment]:
    """What may be measured, by name. asked: the factors that --set and options name, with their words."""
    if kind == "run":
        return measured.all_experiments()
    from firsttouch.apps.experiment import applications

    return applications(asked)


def reported() -> dict[str, Experiment]:
    """What a report may meet, by the name in its records."""
    from firsttouch.apps.experiment import Applications

    found = dict(measured.all_experiments())
    found.setdefault(Applications.name, Applications())
    return found


def find(experiment: str, factors: Factors) -> Experiment:
    """The experiment of one point. Raises UsageError where this version has none of that name."""
    if experiment == "app":
        from firsttouch.apps.experiment import Application

        name = str(factors.get("app"))
        if name in (known := apps.all_apps()):
            return Application(known[name])
    elif experiment in (known_here := measured.all_experiments()):
        return known_here[experiment]
    raise UsageError(f"there is no {experiment} {factors.get('app', '')} in this version of firsttouch")
