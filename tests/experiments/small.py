"""Runs of several experiments with few points, and what each measures and shows on a machine without a GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace

from firsttouch.engine import runner
from firsttouch.engine.plan import SHORTEST
from firsttouch.engine.planned import Planned, PointGroup
from firsttouch.engine.values import parse_sets
from firsttouch.records.schema import Request


@contextmanager
def small_plan(sets: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """While it lasts, the command plans these experiments, each with its own values of --set, and samples every point
    as briefly as any.
    """
    make_plan = runner.make_plan

    def plan(request: Request, *known: Any) -> list[Planned]:
        plans = [make_plan(replace(request, experiments=[name], set=parse_sets(sets[name])), *known) for name in sets]
        order: dict[PointGroup, int] = {}
        points = sorted(chain(*plans), key=lambda planned: order.setdefault(planned.group, len(order)))
        return [planned if planned.reason else replace(planned, seconds=SHORTEST) for planned in points]

    with patch.object(runner, "make_plan", plan):
        yield


@dataclass(frozen=True)
class Small:
    """sets: the values of --set, as words of the call.

    empty: by device, the indices of figures that have nothing to show; all others must be drawn. unsure: those that
    have nothing to show where this machine cannot resolve their points. negative: whether a sample is a difference,
    which noise can make negative. derived: whether figures show what the experiment derives from several records.
    buffers: whether records say where their buffers are.
    """

    sets: Sequence[str] = ()
    empty: Mapping[str, set[int]] = field(default_factory=dict)
    unsure: Mapping[str, set[int]] = field(default_factory=dict)
    negative: bool = False
    derived: bool = False
    buffers: bool = True


SMALL: Mapping[str, Small] = {
    "latency": Small(["size=4KiB,1MiB"]),
    "bandwidth": Small(
        [
            "arrays=memory,sweep",
            "size=64KiB,1MiB",
            "allocator=malloc,device,svm-fine",
            "kernel=triad,read",
            "threads=0,best",
        ],
        empty={"cpu": {0, 3}, "opencl:0": {0, 3}},  # of counters that a call must ask for
    ),
    "transfer": Small(["size=1,1000003"]),
    # OpenCL has no memory whose frees are measured after a touch: plain host memory is measured on cpu.
    "allocation": Small(["size=64,64KiB"], empty={"opencl:0": {2}}, buffers=False),
    # The pages of a block of one page may be there already.
    "pagefault": Small(["pages=1,64"], unsure={"opencl:0": {1}}, buffers=False),
    "faultcount": Small(["size=1MiB"]),
    "context": Small(["phase=context,launch-next"], buffers=False),
    "codegen": Small(buffers=False),
    # Two figures are of points that divide the work otherwise.
    "concurrency": Small(
        ["size=1MiB", "iterations=10", "cpu_half=same,svm-fine"], empty={"opencl:0": {2, 3}}, buffers=False
    ),
    "accounting": Small(["size=4MiB", "allocator=malloc,device,svm-fine"], negative=True),
    # Three figures are of a GPU.
    "atomics": Small(
        ["elements=2^10", "allocator=malloc,device,svm-atomic", "gpu_threads=0,64", "reading=progress"],
        empty={"cpu": {0, 2, 3}},
    ),
    "caching": Small(
        ["threads=0,1,1024", "allocator=malloc,device,svm-fine", "padding=0,128", "size=auto,1MiB"],
        empty={"cpu": {3, 4}},  # over device memory
        derived=True,
    ),
    # One figure is of the CPU's share where a GPU competes.
    "locking": Small(["sections=100"], empty={"cpu": {1}}),
    # One figure is of the processor's counters, which this run leaves out.
    "tlb": Small(["pages=8,64", "stride=4KiB,64KiB"], empty={"cpu": {2}, "opencl:0": {2}}),
    # Three figures are of unified-memory events.
    "exchange": Small(["turns=1,100"], buffers=False),
    "migration": Small(["size=4MiB", "iterations=4"], empty={"opencl:0": {6, 7, 8}}, buffers=False),
}
