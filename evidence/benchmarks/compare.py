"""Compares our figures with those of hand-written loops, which run alternately: ours, reference, ours, reference, ...

    python evidence/benchmarks/compare.py cpu [ROUNDS]
    python evidence/benchmarks/compare.py cuda [ROUNDS]

Prints the best of each side over the rounds. A ratio above one means that ours is faster. Needs a C++ compiler with
OpenMP, or nvcc.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from firsttouch import _core
from firsttouch.machine.devices import describe_devices, open_device

HERE = Path(__file__).parent
MiB = 1024**2
STOP = _core.Stop(tolerance=0.002, seconds=1.0, min_samples=10)
CHASES = {
    "cpu": (16 * 1024, 512 * 1024, 4 * MiB, 256 * MiB),
    "cuda": (16 * 1024, 128 * 1024, 4 * MiB, 40 * MiB, 256 * MiB),
}

COPIED = 1024 * MiB


def build(kind: str, folder: Path) -> Path:
    program = folder / f"reference_{kind}"
    compilers = {
        "cpu": ["c++", "-O3", "-march=native", "-fopenmp", "-std=c++17", str(HERE / "reference_cpu.cpp")],
        "cuda": ["nvcc", "-O3", "-arch=sm_90", "-std=c++17", str(HERE / "reference_cuda.cu")],
    }
    subprocess.run([*compilers[kind], "-o", str(program)], check=True)
    return program


def reference(program: Path, kind: str, array: int) -> dict[str, float]:
    arguments = [str(array)] + ([str(size) for size in CHASES["cpu"]] if kind == "cpu" else [])
    lines = subprocess.run([str(program), *arguments], check=True, capture_output=True, text=True).stdout
    return {name: float(value) for name, value, _unit in (line.split() for line in lines.splitlines())}


def ours(device: _core.Device, kind: str, array: int) -> dict[str, float]:
    agent, allocator, stride = ("cpu", "mmap", 64) if kind == "cpu" else ("gpu", "device", 128)
    rates_and_times: dict[str, float] = {}
    with (
        device.allocate(allocator, array) as a,
        device.allocate(allocator, array) as b,
        device.allocate(allocator, array) as c,
    ):
        rates = []
        for nontemporal in (False, True) if kind == "cpu" else (False,):
            done = _core.stream(
                device, a, b, c, op="triad", agent=agent, first_touch=agent, nontemporal=nontemporal, seed=1, stop=STOP
            )
            assert done.errors == 0
            rates.append(max(done.samples))
            rates_and_times["triad" if nontemporal is False else "triad_nontemporal"] = rates[-1]
        rates_and_times["triad"] = max(rates)
    if kind == "cuda":
        with device.allocate("pinned", COPIED) as host, device.allocate("device", COPIED) as device_buffer:
            for name, target, source in (("h2d", device_buffer, host), ("d2h", host, device_buffer)):
                done = _core.copy(device, target, source, engine="copy-engine", bytes=COPIED, seed=1, stop=STOP)
                assert done.errors == 0
                rates_and_times[name] = _core.summarise(done.samples)[1]
    for size in CHASES[kind]:
        with device.allocate(allocator, size) as memory:
            done = _core.chase(
                device, memory, agent=agent, first_touch=agent, stride=stride, hops=200_000, last_level_bytes=64 * MiB,
                seed=7, stop=STOP,
            )  # fmt: skip
            assert done.errors == 0
            rates_and_times[f"chase_{size}"] = min(done.samples)
    return rates_and_times


def main() -> None:
    kind = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    about = describe_devices(kind)[0]
    device = open_device(about.name)
    last = int(float(str(about.facts.get("l3_bytes") or about.facts.get("l2_bytes") or 32 * MiB)))
    array = 2048 * MiB if kind == "cuda" else 1 << (4 * last - 1).bit_length()
    best: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        program = build(kind, Path(folder))
        for _ in range(rounds):
            for side, values in enumerate((ours(device, kind, array), reference(program, kind, array))):
                for name, value in values.items():
                    pair = best.setdefault(name, [0.0, 0.0])
                    better = min if name.startswith("chase") else max
                    pair[side] = value if pair[side] == 0 else better(pair[side], value)
    print(f"{about.title} on {platform.node()}, arrays of {array // MiB} MiB, best of {rounds} rounds in turn")
    print(f"{'quantity':<22}{'ours':>12}{'reference':>12}{'ratio':>8}")
    for name, (mine, theirs) in best.items():
        if theirs:
            ratio = theirs / mine if name.startswith("chase") else mine / theirs
            print(f"{name:<22}{mine:>12.3f}{theirs:>12.3f}{ratio:>8.3f}")


if __name__ == "__main__":
    main()
