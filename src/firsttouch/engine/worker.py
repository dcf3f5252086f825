"""The worker process, with the table of the tasks that it carries out.

``python -m firsttouch.engine.worker PARENT_PID``, or with two files; firsttouch/workers/protocol.py has the protocol.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from firsttouch.engine.discover import Discover, describe_kind
from firsttouch.engine.job import Job
from firsttouch.engine.job_handler import JobHandler
from firsttouch.engine.trials import TrialTask, carry_out_trial
from firsttouch.workers.protocol import Handler, Task, carry_out, serve

if TYPE_CHECKING:
    from firsttouch.experiments.contract.base import Experiment


def _experiment(job: Job) -> Experiment:
    from firsttouch.engine.work_kinds import KINDS

    point = job.planned.point
    experiment = KINDS[job.planned.kind].find(point.experiment, point.factors)
    _keep_experiments()
    return experiment


@cache
def _keep_experiments() -> None:
    """Called before a device is opened: what is loaded by now lives as long as the process, and the garbage collector
    need not search it when the process ends, which takes a third of the time in which a worker loads it.
    """
    gc.freeze()


TASKS: Mapping[type[Task], Handler] = {
    Job: JobHandler(_experiment),
    Discover: describe_kind,
    TrialTask: carry_out_trial,
}

if __name__ == "__main__":
    gc.freeze()
    os.environ.setdefault("PATH", os.defpath)  # without a PATH, PoCL finds no linker
    if len(sys.argv) == 2:
        serve(int(sys.argv[1]), TASKS)
    else:
        carry_out(Path(sys.argv[1]), Path(sys.argv[2]), TASKS)
