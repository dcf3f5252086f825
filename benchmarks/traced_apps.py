"""Traces of applications under explicit, beside what they declare: bytes that are copied, and what memory adds.

    firsttouch profile --trace --faults=8 --out TRACE -- \\
        firsttouch app --all --strategy explicit --size 256MiB --repeat 1 --out RUN
    python benchmarks/traced_apps.py --profile TRACE --run RUN --out results/h100-port/apps.jsonl

A worker runs an application at size tiny first; here the trace begins after that, and leaves out the kernels by which
the harness fills outputs. The file has the program that each trace becomes, and the bytes that it copies by block.
docs/recompute/traced_apps.py compares them with dry runs.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from firsttouch.apps import all_apps
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import CudaBlock, CudaCall, CudaLaunch, TracedCalls
from firsttouch.profile.reading import read
from firsttouch.profile.touches import TouchIndex
from firsttouch.records.reading import load_results
from firsttouch.workload.dry_run import program_of
from firsttouch.workload.program import Item, Launch, Program, Repeat
from firsttouch.workload.trace import TracedCopy, TracedRun, TracedStep, trace
from firsttouch.workload.traced import kernel_name, program_of_trace

FILLS = "fill_32"
"""The kernel by which the harness fills outputs before and after a run."""


def kernels(items: Sequence[Item]) -> Iterator[str]:
    for item in items:
        if isinstance(item, Repeat):
            yield from kernels(item.body)
        elif isinstance(item, Launch) and item.agent == "gpu":
            yield item.kernel


def main_run(calls: TracedCalls, sizes: Counter[int]) -> TracedCalls:
    """The calls from the last time on at which blocks of these sizes begin to be allocated, and none of them is there.

    Frees of the end are kept, and so is what belongs to no block.
    """
    begin, alive = 0, dict[int, int]()
    for index, call in enumerate(calls.calls):
        if isinstance(call, CudaBlock):
            if not call.begins:
                alive.pop(call.address, None)
            elif call.bytes in sizes:
                if not alive:
                    begin = index
                alive[call.address] = call.bytes
    kept = [call for call in calls.calls[begin:] if not (isinstance(call, CudaLaunch) and _is_fill(call))]
    return msgspec.structs.replace(calls, calls=[*_before(calls.calls[:begin]), *kept])


def _before(calls: Sequence[CudaCall]) -> list[CudaCall]:
    """The blocks that are there before, such as page-locked memory of the harness."""
    alive: dict[int, CudaCall] = {}
    for call in calls:
        if isinstance(call, CudaBlock) and call.begins:
            alive[call.address] = call
        elif isinstance(call, CudaBlock):
            alive.pop(call.address, None)
    return list(alive.values())


def _is_fill(call: CudaLaunch) -> bool:
    return call.arguments is not None and kernel_name(call.arguments.kernel) == FILLS


def copied(run: TracedRun) -> list[tuple[int, int, int]]:
    """Of each block of the device: its bytes, those that are copied to it, and those copied back."""
    sums: Counter[tuple[int, str]] = Counter()
    for step in run.steps:
        if isinstance(step, TracedCopy) and step.way in ("h2d", "d2h"):
            sums[step.device.block, step.way] += step.device.total
    blocks = [block for block in run.blocks if block.kind == "device"]
    return [(b.nbytes, sums[b.number, "h2d"], sums[b.number, "d2h"]) for b in blocks]


def is_in(step: TracedStep) -> TypeGuard[TracedCopy]:
    return isinstance(step, TracedCopy) and step.way == "h2d"


def process_of(program: Program, processes: list[TracedCalls]) -> TracedCalls | None:
    """The process that launched what a program launches; it is left out next time."""
    wanted = set(kernels(program.compute))
    scores = {}
    for index, calls in enumerate(processes):
        launched = {kernel_name(c.arguments.kernel) for c in calls.calls if isinstance(c, CudaLaunch) and c.arguments}
        scores[index] = len(wanted & launched) / max(1, len(wanted | (launched - {FILLS})))
    best = max(scores, key=lambda index: scores[index], default=None)
    return processes[best] if best is not None and scores[best] else None


def rows(directory: Path, results: Path) -> Iterator[dict[str, Any]]:
    known, profile = all_apps(), read(directory)
    processes = read_calls(directory, profile.callers)
    for record in load_results(results).records:
        name = str(record.factors["app"])
        app = known[name]
        params = {key: value for key, value in record.parameters.items() if key in app.sizes["tiny"]}
        row: dict[str, Any] = {"app": name, "params": params, "status": record.status}
        dry = program_of(app, params)
        if record.status == "ok" and (calls := process_of(dry, processes)) is not None:
            run = trace(main_run(calls, Counter(block.nbytes for block in dry.blocks)))
            touches = TouchIndex(profile, calls.pid)
            program = program_of_trace(run, title=name, threads=lambda a, b, of=touches: of.of(a, b).threads)
            host = [(s.call.source, s.call.source + s.source.total) for s in run.steps if is_in(s)]
            row |= {
                "touches": sum(touches.of(*pair).samples for pair in {*host}),
                "program": msgspec.to_builtins(program),
                "copied": copied(run),
                "launches": run.launches,
                "unknown": run.unknown,
                "incomplete": run.incomplete,
            }
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", type=Path, action="append", required=True)
    parser.add_argument("--run", type=Path, action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    found = [row for pair in zip(given.profile, given.run, strict=True) for row in rows(*pair)]
    given.out.write_text("".join(json.dumps(row) + "\n" for row in found))
    print(f"{len(found)} applications, {sum('program' in row for row in found)} with a trace: {given.out}")


if __name__ == "__main__":
    main()
