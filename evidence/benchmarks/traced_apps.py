"""Traces of applications under explicit, beside what they declare: bytes that are copied, and what memory adds.

    firsttouch profile --trace --faults=8 --out TRACE -- \\
        firsttouch app --all --strategy explicit --size 256MiB --repeat 1 --out RUN
    python evidence/benchmarks/traced_apps.py --profile TRACE --run RUN --out evidence/results/h100-port/apps.jsonl

A worker runs an application at size tiny first, and checks results after the run. Here the trace begins with the last
run's allocations and ends where memory is read for the last time before they are freed, and leaves out the kernels by
which the harness fills outputs. The file has the program that each trace becomes, and the bytes that it copies by
block, and of a loop that ends when data say so, the rounds with which a dry run comes closest to that.
evidence/recompute/traced_apps.py compares them with dry runs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeGuard

import msgspec

from firsttouch.apps import all_apps
from firsttouch.model.platform import platform_of
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import AnyCall, BlockCall, LaunchCall, QueryCall, TracedCalls
from firsttouch.profile.content import Profile
from firsttouch.profile.reading import read
from firsttouch.profile.symbols.names import kernel_name
from firsttouch.profile.touches import TouchIndex
from firsttouch.program.dry_run import program_of
from firsttouch.program.trace import TracedCopy, TracedRun, TracedStep, trace
from firsttouch.program.traced import program_of_trace
from firsttouch.records.reading import load_results

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recompute"))
from traced_apps import closest  # a script of the documentation

PRICES = PlatformPrices(platform_of("model:h100-pcie"))
"""Of a machine with copies, whichever it is."""
FILLS = "fill_32"
"""The kernel by which the harness fills outputs before and after a run."""


def main_run(calls: TracedCalls, sizes: Counter[int]) -> TracedCalls:
    """The calls from the last time on at which blocks of these sizes begin to be allocated, and none of them is there.

    Frees of the end are kept, and so is what belongs to no block.
    """
    begin, end, alive = 0, len(calls.calls), dict[int, int]()
    for index, call in enumerate(calls.calls):
        if isinstance(call, QueryCall) and alive:
            end = index
        elif isinstance(call, BlockCall):
            if not call.begins:
                alive.pop(call.address, None)
            elif call.bytes in sizes:
                if not alive:
                    begin = index
                alive[call.address] = call.bytes
    run, rest = calls.calls[begin:end], [call for call in calls.calls[end:] if isinstance(call, BlockCall)]
    kept = [call for call in run if not (isinstance(call, LaunchCall) and _is_fill(call))]
    return msgspec.structs.replace(calls, calls=[*_before(calls.calls[:begin]), *kept, *rest])


def _before(calls: Sequence[AnyCall]) -> list[AnyCall]:
    """The blocks that are there before, such as page-locked memory of the harness."""
    alive: dict[int, AnyCall] = {}
    for call in calls:
        if isinstance(call, BlockCall) and call.begins:
            alive[call.address] = call
        elif isinstance(call, BlockCall):
            alive.pop(call.address, None)
    return list(alive.values())


def _is_fill(call: LaunchCall) -> bool:
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


def workers(directory: Path, profile: Profile) -> list[TracedCalls]:
    """The processes that launched kernels, in the order in which they did."""
    launches = {}
    for calls in read_calls(directory, profile.callers):
        first = next((call.t for call in calls.calls if isinstance(call, LaunchCall)), None)
        if first is not None:
            launches[first] = calls
    return [launches[first] for first in sorted(launches)]


def rows(directory: Path, results: Path) -> Iterator[dict[str, Any]]:
    known, profile = all_apps(), read(directory)
    records = load_results(results).records
    processes, measured = workers(directory, profile), [record for record in records if record.status == "ok"]
    if len(processes) != len(measured):
        raise SystemExit(f"{len(processes)} processes launched kernels, but {len(measured)} applications were measured")
    for record in records:
        name = str(record.factors["app"])
        app = known[name]
        params = {key: value for key, value in record.parameters.items() if key in app.sizes["tiny"]}
        row: dict[str, Any] = {"app": name, "params": params, "status": record.status}
        if record.status == "ok":
            calls = processes[measured.index(record)]
            sizes = Counter(block.nbytes for block in program_of(app, params).blocks)
            run = trace(main_run(calls, sizes))
            touches = TouchIndex(profile, calls.pid)
            program = program_of_trace(run, title=name, threads=lambda a, b, of=touches: of.of(a, b).threads)
            host = [(s.call.source, s.call.source + s.source.total) for s in run.steps if is_in(s)]
            row |= {
                "rounds": closest(app, params, copied(run), PRICES),
                "touches": sum(touches.of(*pair).samples for pair in {*host}),
                "program": msgspec.to_builtins(program),
                "copied": copied(run),
                "launches": run.launches,
                "unknown": run.unknown,
                "incomplete": run.incomplete,
            }
        else:
            row["reason"] = record.reason
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
