"""All experiments by name: each module here that defines an Experiment is found without being registered.

Experiments outside the package come from entry points of the group "firsttouch.experiments", each of which names a
module, and from files given with --module (firsttouch/base/modules.py).
"""

from __future__ import annotations

import importlib
import sys
from contextlib import suppress

from firsttouch.base.modules import create, find_classes
from firsttouch.experiments.contract.base import Experiment

GROUP = "firsttouch.experiments"
_NEEDED = ("question", "metric", "counted", "source", "figures", "factors", "measure", "findings")


def all_experiments() -> dict[str, Experiment]:
    """Returns the experiments by name, in the order of lists and reports. Raises UsageError for a module or a class
    that can't be used.
    """
    from firsttouch.experiments.contract.contract import flaw

    package = sys.modules[__name__]
    classes = find_classes(Experiment, package, group=GROUP, noun="experiment", required=_NEEDED, validate=flaw)
    made = {name: create(kind, f"experiment {name}") for name, kind in classes.items()}
    return dict(sorted(made.items(), key=lambda item: item[1].order))


def find_experiment(name: str) -> Experiment | None:
    """The experiment of this name, or None. If a module of this package is named after it, loads no other: that takes a
    sixth of the time in which a worker starts. Raises UsageError as all_experiments does.
    """
    with suppress(ModuleNotFoundError):
        module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Experiment) and vars(kind).get("name") == name:
                return create(kind, f"experiment {name}")
    return all_experiments().get(name)
