"""Whether programs notice that they are traced: bare and traced runs in turn, exit status and output compared.

    python evidence/benchmarks/unharmed.py [--rounds N] [--only NAME,...] [--exact] [--many] [--loops]
                                           [--others FILE] [OUTPUT.json]

Each round runs a program bare, under `firsttouch profile --trace`, and as `firsttouch port` traces it; --exact: also
under `profile --exact`, whose two runs are both compared. Outputs must be equal, or no further apart than two bare
runs. --many: further traced runs of two programs with CUDA graphs. --loops: instead, programs that print the time of
their loop run alone, bare and under `profile --trace` in turns: medians, and their ratio. --others: further programs,
as a JSON list of objects with the fields of Program. Needs nvcc and a GPU; programs whose package or second GPU is
missing are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).parent / "unharmed"
EXAMPLES = HERE.parents[2] / "docs" / "examples"
TIMED = """
import importlib, sys, time
sys.path.insert(0, sys.argv[1])
run = getattr(importlib.import_module(sys.argv[2]), sys.argv[3])
run(5)
start = time.perf_counter()
print(f"{run(int(sys.argv[4])):.6g}, loop {time.perf_counter() - start:.4f} s")
"""
LOOP = r"loop ([0-9.]+) s"
AT_ONCE = 8
MANY = {"jax": 20, "graphs": 50}
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
MODES = {"bare": [], "trace": ["profile", "--trace"], "port": ["profile", "--faults=8", "--host"]}
EXACT = {"exact": ["profile", "--exact"]}
SECONDS = 90


class Program(NamedTuple):
    """What to run. needs: a Python package. gpus: at least so many. times: what finds times in its output, which are
    not compared; the first is that of its loop.
    """

    name: str
    command: Sequence[str]
    needs: str = ""
    gpus: int = 1
    environment: tuple[tuple[str, str], ...] = ()
    times: str = ""


class Run(NamedTuple):
    program: str
    mode: str
    status: int
    output: str
    errors: str


def programs(built: Path) -> list[Program]:
    def of_python(name: str, needs: str, *, label: str = "", gpus: int = 1, **environment: str) -> Program:
        command = ["python3", str(HERE / f"{name}.py")]
        times = LOOP if "loop {" in (HERE / f"{name}.py").read_text() else ""
        return Program(label or name.partition("_")[0], command, needs, gpus, tuple(environment.items()), times)

    def example(name: str, function: str, rounds: int, needs: str, **environment: str) -> Program:
        command = ["python3", "-c", TIMED, str(EXAMPLES), name, function, str(rounds)]
        return Program(name, command, needs, 1, tuple(environment.items()), LOOP)

    return [
        example("train_torch", "train", 60, "torch"),
        example("filter_cupy", "run", 40, "cupy"),
        example("diffuse_jax", "run", 60, "jax", XLA_PYTHON_CLIENT_MEM_FRACTION=".1"),
        of_python("torch_train", "torch", label="torch-train", CUBLAS_WORKSPACE_CONFIG=":4096:8"),
        of_python("torch_graphs", "torch", label="torch-graphs"),
        of_python("torch_spawn", "torch", label="torch-spawn"),
        of_python("torch_pools", "torch", label="torch-vmm", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"),
        of_python("torch_pools", "torch", label="torch-async", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync"),
        of_python("cupy_program", "cupy"),
        of_python("jax_program", "jax", XLA_PYTHON_CLIENT_MEM_FRACTION=".1", XLA_FLAGS="--xla_gpu_autotune_level=0"),
        of_python("triton_program", "triton"),
        Program("graphs", [str(built / "graphs"), "6", "150"], times=LOOP),
        Program("processes", [str(built / "processes")]),
        Program("namespace", [str(built / "namespace")]),
        of_python("nccl_processes", "torch", label="nccl-processes", gpus=2),
        of_python("nccl_threads", "torch", label="nccl-threads", gpus=2),
    ]


def build(folder: Path) -> None:
    for name, more in (("graphs", []), ("processes", ["-lcuda"])):
        command = ["nvcc", "-O2", "-std=c++17", "-arch=native", HERE / f"{name}.cu", "-o", folder / name, *more]
        subprocess.run(command, check=True)
    subprocess.run(["cc", "-O1", HERE / "namespace.c", "-o", folder / "namespace", "-ldl"], check=True)


def run(program: Program, mode: str, number: int, folder: Path) -> list[Run]:
    """One run; the two of a mode that runs the program twice."""
    command = list(program.command)
    if mode != "bare":
        out = folder / f"{program.name}-{mode}-{number}"
        command = [sys.executable, "-m", "firsttouch", *(MODES | EXACT)[mode], "--out", str(out), "--", *command]
    environment = {**os.environ, **dict(program.environment)}
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return [Run(program.name, mode, -1, "", f"hung for {SECONDS} s")]
    finally:
        print(f"{program.name} {mode}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    outputs = halves(done.stdout) if mode in EXACT else [done.stdout]
    return [Run(program.name, mode, done.returncode, output, done.stderr[-2000:]) for output in outputs]


def halves(text: str) -> list[str]:
    """The output of each of two runs that wrote one after the other."""
    lines = text.splitlines(keepends=True)
    return ["".join(lines[: len(lines) // 2]), "".join(lines[len(lines) // 2 :])]


def apart(one: str, other: str) -> float:
    """How far two outputs are apart: 0 if they are equal, infinite if more than their numbers differs."""
    if one == other:
        return 0.0
    if NUMBER.sub("", one) != NUMBER.sub("", other):
        return float("inf")
    pairs = zip(map(float, NUMBER.findall(one)), map(float, NUMBER.findall(other)), strict=True)
    return max(abs(a - b) / max(abs(a), abs(b), 1e-300) for a, b in pairs)


def compare(runs: Sequence[Run], times: str) -> str:
    """What differs between bare and traced runs of a program; '' if nothing does."""
    bare = [run for run in runs if run.mode == "bare"]
    text = {run: re.sub(times, "", run.output) if times else run.output for run in runs}
    spread = max(apart(text[a], text[b]) for a in bare for b in bare)
    statuses = {run.status for run in bare}
    for traced in (run for run in runs if run.mode != "bare"):
        if traced.status not in statuses:
            return f"{traced.mode}: status {traced.status}, bare {sorted(statuses)}: {traced.errors[-300:]}"
        if (distance := min(apart(text[traced], text[b]) for b in bare)) > spread:
            return f"{traced.mode}: output {distance:.2g} apart, bare runs {spread:.2g}: {traced.output[-200:]}"
    return ""


def loop_ratios(chosen: Sequence[Program], rounds: int, folder: Path) -> list[Run]:
    """Runs programs that print the time of their loop, alone and in turns, and prints what tracing adds to it."""
    kept = []
    for program in (p for p in chosen if p.times):
        seconds: dict[str, list[float]] = {"bare": [], "trace": []}
        for number in range(rounds):
            for mode in seconds if number % 2 else reversed(seconds):
                (done,) = run(program, mode, number, folder)
                kept.append(done)
                if found := re.search(program.times, done.output):
                    seconds[mode].append(float(found[1]))
        if all(seconds.values()):
            bare, traced = (median(seconds[mode]) for mode in ("bare", "trace"))
            spread = max(seconds["bare"]) / min(seconds["bare"])
            print(f"{program.name:16} bare {bare:g}, traced {traced:g}: {traced / bare:.3f}; bare varies {spread:.3f}")
    return kept


def gpus() -> int:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True)
    return listed.stdout.count("GPU ")


@cache  # several programs need the same package, and importing it takes seconds
def has(package: str) -> bool:
    return not package or subprocess.run(["python3", "-c", f"import {package}"], capture_output=True).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--loops", action="store_true")
    parser.add_argument("--others", type=Path)
    parser.add_argument("output", nargs="?")
    options = parser.parse_args()
    bad, kept = [], []
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(AT_ONCE) as pool:
        folder = Path(name)
        build(folder)
        count, only = gpus(), set(filter(None, options.only.split(",")))
        others = json.loads(options.others.read_text()) if options.others else []
        known = [*programs(folder), *(Program(**each) for each in others)]
        chosen = [p for p in known if p.gpus <= count and (not only or p.name in only) and has(p.needs)]
        if options.loops:
            kept = [each._asdict() for each in loop_ratios(chosen, options.rounds, folder)]
            chosen = []
        modes = [*MODES, *(EXACT if options.exact else {})]
        order = [(p, m, r) for r in range(options.rounds) for p in chosen for m in modes]
        many = MANY if options.many else {}
        order += [(p, "trace", options.rounds + r) for p in chosen for r in range(many.get(p.name, 0))]
        # Kernels that wait for each other on several GPUs are slow beside others, whose time slices differ by GPU.
        alone = [job for job in order if job[0].gpus > 1]
        done = [*pool.map(lambda job: run(*job, folder), [job for job in order if job not in alone])]
        runs = [each for few in (*done, *(run(*job, folder) for job in alone)) for each in few]
        for program in chosen:
            of = [each for each in runs if each.program == program.name]
            counts = {mode: sum(each.mode == mode for each in of) for mode in modes}
            problem = compare(of, program.times)
            print(f"{program.name:16} {counts} {problem or 'equal'}", flush=True)
            bad += [program.name] if problem else []
            kept += [each._asdict() for each in of]
    if options.output:
        Path(options.output).write_text(json.dumps(kept))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
