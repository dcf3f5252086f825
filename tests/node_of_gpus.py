"""A made-up node of several GPUs over NVLink, and what a plain quick run would have measured there.

    python tests/node_of_gpus.py DIR [--slow-pair 2,5] [--slow-gpu 6] [--missing 3] [--ranks 8] [--plain]

writes a results directory, to look at its report.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import sin
from pathlib import Path
from typing import Any

import msgspec

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.fabricated import GIB, KIB, MACHINES, MIB

from firsttouch.experiments import all_experiments
from firsttouch.records.reading import Results
from firsttouch.records.schema import (
    SCHEMA,
    DeviceInfo,
    Location,
    Machine,
    Metric,
    Party,
    Record,
    Request,
    Scalar,
    Summary,
    encode,
)

Factors = dict[str, Scalar]


@dataclass(frozen=True)
class Node:
    """What is wrong with it. GPUs are numbers: 2 is cuda:2.

    slow_pair: from one to the other data cross at slow_gbs. slow_gpu: its memory has 0.8 of the others' bandwidth.
    missing: it does not open. ranks: those of collective operations. noise: how far the values of equals lie apart, in
    both directions. scale: the factor of all rates, for a node that is slower than others. every: everything was
    measured on every GPU and pair, as if each had been named; otherwise as in a plain run. run: which of its runs,
    whose values differ by that noise.
    """

    gpus: int = 8
    slow_pair: tuple[int, int] | None = None
    slow_gbs: float = 198.0
    slow_gpu: int | None = None
    missing: int | None = None
    ranks: tuple[int, ...] = (2, 8)
    noise: float = 0.003
    scale: float = 1.0
    every: bool = True
    host: str = "node1"
    run: int = 0

    @property
    def present(self) -> list[str]:
        return [f"cuda:{n}" for n in range(self.gpus) if n != self.missing]


FAULTY = Node(slow_pair=(2, 5), slow_gpu=6, missing=3)
NVLINK = {"copy-engine": 375.0, "kernel": 362.0, "peer-call": 374.0}
BOTH_WAYS = {"copy-engine": 740.0, "kernel": 700.0, "peer-call": 738.0}
IN_PLACE = {"read": 330.0, "write": 350.0, "copy-in": 345.0, "copy-out": 352.0, "copy-there": 340.0}
"""GB/s that cross a link, of one pair as it should be."""
HBM, OWN_COPY, PCIE = 2980.0, 1350.0, 55.0
"""GB/s of a triad in a GPU's memory, of a copy within it, and of a copy to the host."""
NO_ANSWER = "cuDevicePrimaryCtxRetain: CUDA_ERROR_ECC_UNCORRECTABLE (uncorrectable ECC error encountered)"


def devices(node: Node) -> list[DeviceInfo]:
    host, *gpus = deepcopy(MACHINES["h100-node"].devices)  # a test may change its own
    lost = {f"cuda:{n}" for n in range(8) if n >= node.gpus or n == node.missing}
    kept = [host]
    for gpu in gpus[: node.gpus]:
        if gpu.name in lost:
            kept.append(DeviceInfo(name=gpu.name, kind="cuda", title=gpu.name, available=False, reason=NO_ANSWER))
        else:
            kept.append(msgspec.structs.replace(gpu, peers=[p for p in gpu.peers if p.name not in lost]))
    return kept


def machine(node: Node) -> Machine:
    return Machine(
        schema=SCHEMA,
        host=node.host,
        created="2026-11-26T00:00:00Z",
        firsttouch="0.2.0",
        facts={
            "cpu": {"model": "Intel(R) Xeon(R) Platinum 8480C", "sockets": 2},
            "links": {"gpu0_pcie_generation_max": 5, "gpu0_pcie_width_max": 16},
        },
        devices=devices(node),
    )


def results(node: Node) -> Results:
    made = records(node)
    experiments = list(dict.fromkeys(r.experiment for r in made))
    request = Request(schema=SCHEMA, experiments=experiments, devices=["cpu", *node.present], preset="quick", seed=1)
    return Results(machine(node), request, made, [])


def write(node: Node, directory: Path) -> Path:
    """Writes a results directory, and returns its path."""
    made = results(node)
    directory.mkdir(parents=True, exist_ok=True)
    assert made.request is not None
    (directory / "machine.json").write_bytes(encode(made.machine))
    (directory / "run.json").write_bytes(msgspec.json.encode(made.request))
    (directory / "results.jsonl").write_bytes(b"".join(encode(r) + b"\n" for r in made.records))
    return directory


def records(node: Node) -> list[Record]:
    """The host, each GPU by itself, all pairs, and all together."""
    made = [*_of_host(node)]
    for gpu in node.present:
        made += _alone(node, gpu)
    first = tuple(node.present[:2])
    for pair in permutations(node.present, 2):
        made += _between(node, *pair, curve=pair == first)
    for gpu in node.present:
        made += _within(node, gpu)
    made += _together(node)
    return made if node.every else _of_plain_run(node, made)


def _of_plain_run(node: Node, records: list[Record]) -> list[Record]:
    """Those that a plain run measures: of what does not ask about each GPU or pair, those of the first."""
    pairs = [Location(device=a, peer=b) for a, b in permutations(node.present, 2)]
    first, kept = pairs[0] if pairs else Location(device=node.present[0]), list[Record]()
    sizes = [(r.experiment, int(r.factors.get("size", 0))) for r in records if r.device != "cpu"]
    largest = {name: max(size for experiment, size in sizes if experiment == name) for name in _ON_EACH}
    for r in records:
        wanted = _ON_EACH.get(r.experiment)
        at_largest = wanted is not None and r.factors["size"] == largest[r.experiment]
        on_each = at_largest and all(r.factors.get(n) in some for n, some in wanted.items())
        peer = str(r.factors.get("peer", ""))
        if on_each and peer != "self":
            kept.append(r)
        elif r.device in ("cpu", first.device) and peer in ("", "self", first.peer):
            others = pairs if peer not in ("", "self") else [Location(device=name) for name in node.present]
            own = Location(device=r.device, peer=peer if peer != "self" else "")
            of_one = r.device != "cpu" and r.experiment != "collective"
            kept.append(msgspec.structs.replace(r, stands_for=[o for o in others if o != own] if of_one else []))
    return kept


_ON_EACH: Mapping[str, Mapping[str, tuple[Scalar, ...]]] = {
    "bandwidth": {"kernel": ("triad",), "allocator": ("device",)},
    "latency": {"allocator": ("device",)},
    "transfer": {"engine": ("copy-engine",), "allocator": ("pinned",)},
    "p2p-latency": {},
    "p2p-copy": {"engine": ("copy-engine",), "direction": ("out", "both")},
}
"""What a plain run measures on each GPU or pair at the largest size."""


# -------------------------------------------------------------------------------------------------- single records


@cache
def _metric(experiment: str) -> Metric:
    return all_experiments()[experiment].metric


def _point(
    node: Node,
    experiment: str,
    device: str,
    median: float,
    factors: Factors,
    counters: Mapping[str, Scalar] | None = None,
    parties: tuple[str, ...] = (),
) -> Record:
    """A verified record. Its value differs from `median` by at most the node's noise, the same in every call."""
    metric = _metric(experiment)
    seed = sum((i + 1) * ord(c) for i, c in enumerate(f"{node.host}{node.run or ''}{experiment}{device}{factors}"))
    low, middle, high = (median * (1 + node.noise * (sin(seed) + d / 10)) for d in (-1, 0, 1))
    return Record(
        schema=SCHEMA,
        experiment=experiment,
        device=device,
        factors=factors,
        unit=metric.unit,
        better=metric.better,
        metric_version=metric.version,
        status="ok",
        verified=True,
        samples=[low, middle, high] * 3,
        summary=Summary(n=9, median=middle, p5=low, p95=high, min=low, max=high, ci_low=low, ci_high=high),
        counters={name: v * middle / median if isinstance(v, float) else v for name, v in (counters or {}).items()},
        parties=[Party(device=name, rank=rank, host=node.host) for rank, name in enumerate(parties)],
        preset="quick",
        seed=1,
        started="2026-11-26T00:00:00+00:00",
        seconds=0.1,
        stopped_by="precision",
    )


def _half(size: int, most: float, us: float) -> float:
    """The rate in GB/s at a size, of operations that take `us` more than the rate `most` allows."""
    return size * 1e-3 / (us + size * 1e-3 / most)


def _link(node: Node, source: str, target: str, usual: float) -> float:
    """What crosses from one GPU to another, in GB/s, where `usual` crosses elsewhere."""
    slow = node.slow_pair and (source, target) == tuple(f"cuda:{n}" for n in node.slow_pair)
    return node.scale * usual * (node.slow_gbs / NVLINK["copy-engine"] if slow else 1)


def _ways(into: float, out: float, linked: bool = True) -> dict[str, Scalar]:
    peak = {"of_peak": max(into, out) / 478.1} if linked else {}
    return {"in_gbs": into, "out_gbs": out, **peak}


# --------------------------------------------------------------------------------------------- what a run measures


def _of_host(node: Node) -> Iterator[Record]:
    common: Factors = {"agent": "cpu", "allocator": "malloc", "first_touch": "self"}
    stream: Factors = {"arrays": "memory", "kernel": "triad", **common, "stores": "normal", "threads": 0}
    yield _point(node, "bandwidth", "cpu", 300.0, {**stream, "size": 840 * MIB})
    yield _point(node, "latency", "cpu", 118.0, {**common, "order": "random", "size": GIB})


def _alone(node: Node, gpu: str) -> Iterator[Record]:
    """The headlines of one GPU."""
    share = node.scale * (0.8 if gpu == f"cuda:{node.slow_gpu}" else 1.0)
    for allocator, rate, ns in (("device", HBM * share, 620.0), ("pinned", 52.0 * node.scale, 1180.0)):
        common: Factors = {"agent": "gpu", "allocator": allocator, "first_touch": "self"}
        stream: Factors = {"arrays": "memory", **common, "stores": "normal", "threads": 0, "size": 256 * MIB}
        for kernel, part in (("triad", 1.0), ("read", 1.02), ("write", 0.97), ("copy", 0.96)):
            yield _point(node, "bandwidth", gpu, rate * part, {**stream, "kernel": kernel})
        yield _point(node, "latency", gpu, ns, {**common, "order": "random", "size": GIB})
    for direction in ("h2d", "d2h"):
        copy: Factors = {"direction": direction, "engine": "copy-engine", "other": "device", "streams": 1, "chunk": 0}
        for allocator, rate in (("pinned", PCIE), ("malloc", 14.0)):
            factors = {**copy, "allocator": allocator, "size": 256 * MIB}
            yield _point(node, "transfer", gpu, rate * node.scale, factors, {"latency_us": 256 * MIB / rate * 1e-3})
    yield _point(node, "context", gpu, 0.0098, {"phase": "launch-next"}, {"processes": 3})


def _between(node: Node, gpu: str, peer: str, *, curve: bool) -> Iterator[Record]:
    """What `gpu` measures with `peer`; at all sizes for one pair."""
    loads = [4 * KIB << k for k in range(19)] if curve else [GIB]
    for size in loads:
        ns = 700.0 if size > 50 * MIB else 560.0
        yield _point(node, "p2p-latency", gpu, ns,
                     {"agent": "gpu", "peer": peer, "allocator": "device", "size": size})  # fmt: skip
    inward, outward = ({k: _link(node, *ends, v) for k, v in IN_PLACE.items()} for ends in ((peer, gpu), (gpu, peer)))
    for kernel in IN_PLACE:
        rate = inward[kernel] if kernel in ("read", "copy-in") else outward[kernel]
        way = _ways(rate, 0.0) if kernel in ("read", "copy-in") else _ways(0.0, rate)
        if kernel == "copy-there":
            rate, way = 2 * min(inward[kernel], outward[kernel]), _ways(rate, rate)
        for size in [2 * MIB << k for k in range(10)] if curve else [GIB]:
            yield _point(node, "p2p-direct", gpu, rate,
                         {"kernel": kernel, "peer": peer, "allocator": "device", "size": size}, way)  # fmt: skip
    yield from _copies(node, gpu, peer, [4 * KIB, 256 * KIB, 4 * MIB, 256 * MIB] if curve else [256 * MIB])
    yield from _messages(node, gpu, peer, [8, 4 * KIB, 64 * KIB, MIB, 64 * MIB] if curve else [64 * MIB])


def _copies(node: Node, gpu: str, peer: str, sizes: list[int]) -> Iterator[Record]:
    memory: Factors = {"source": "device", "target": "device", "first_touch": "gpu", "threads": 0}
    memory["access"] = "both-ways"
    for engine, usual in NVLINK.items():
        out, into = _link(node, gpu, peer, usual), _link(node, peer, gpu, usual)
        both = BOTH_WAYS[engine] * min(out, into) / usual
        for direction, most in (("out", out), ("in", into), ("both", both)):
            for size in sizes:
                rate = _half(size, most, 2.0)
                crossed = {"out": (0.0, rate), "in": (rate, 0.0), "both": (rate / 2, rate / 2)}[direction]
                us: dict[str, Scalar] = {"latency_us": 9.0 + size / most * 1e-3}
                us |= {"latency_low_us": 8.9 + size / most * 1e-3, "latency_high_us": 9.1 + size / most * 1e-3}
                factors = {"engine": engine, "peer": peer, "direction": direction, **memory, "size": size}
                yield _point(node, "p2p-copy", gpu, rate, factors, us | _ways(*crossed))


def _messages(node: Node, gpu: str, peer: str, sizes: list[int]) -> Iterator[Record]:
    memory: Factors = {"peer": peer, "source": "device", "target": "device", "route": "default"}
    for interface, most, us in (("xccl", _link(node, gpu, peer, 370.0), 12.0), ("mpi-staged", 11.0, 25.0)):
        for size in sizes:
            rate = _half(size, most, us / 4)
            alone = us + size / most * 1e-3
            counters: dict[str, Scalar] = {"latency_us": alone, "latency_low_us": alone * 0.99}
            counters |= {"latency_high_us": alone * 1.01, "window": 64, **_ways(0.0, rate)}
            factors = {"interface": interface, **memory, "size": size}
            yield _point(node, "p2p-message", gpu, rate, factors, counters, (gpu, peer))


def _within(node: Node, gpu: str) -> Iterator[Record]:
    """What a GPU measures in its own memory, to compare with that of others."""
    own: Factors = {"peer": "self", "allocator": "device"}
    yield _point(node, "p2p-latency", gpu, 620.0, {"agent": "gpu", **own, "size": GIB})
    share = node.scale * (0.8 if gpu == f"cuda:{node.slow_gpu}" else 1.0)
    for kernel in IN_PLACE:
        rate = HBM * share / (2 if kernel.startswith("copy-") and kernel != "copy-there" else 1)
        yield _point(node, "p2p-direct", gpu, rate, {"kernel": kernel, **own, "size": GIB}, _ways(rate, 0.0, False))
    memory: Factors = {"source": "device", "target": "device", "first_touch": "gpu", "threads": 0, "size": 256 * MIB}
    memory["access"] = "both-ways"
    for engine in NVLINK:
        for direction in ("out", "in", "both"):
            factors: Factors = {"engine": engine, "peer": "self", "direction": direction, **memory}
            yield _point(node, "p2p-copy", gpu, OWN_COPY * share, factors, _ways(0.0, OWN_COPY * share, False))


def _together(node: Node) -> Iterator[Record]:
    """Collective operations. A ring crosses every link, so that the slowest bounds it."""
    links = {pair: _link(node, *pair, 370.0) for pair in permutations(node.present, 2)}
    for ranks in sorted({min(n, len(node.present)) for n in node.ranks} - {0, 1}):
        members = tuple(node.present[:ranks])
        usual = [gbs for pair, gbs in links.items() if set(pair) <= set(members)]
        for interface, most, us in (("xccl", min(usual), 6.0 + 2 * ranks), ("mpi-staged", 9.0, 17.0 * ranks)):
            for operation in ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all"):
                bus = {"all-reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0, "reduce": 1.0}
                factor = bus.get(operation, (ranks - 1) / ranks)
                for size in (4, 64 * KIB, MIB, 256 * MIB):
                    interval = us / 2 + size * factor / most * 1e-3
                    counters: dict[str, Scalar] = {"interval_us": interval, "interval_low_us": interval * 0.99}
                    rate = size / interval * 1e-3
                    counters |= {"interval_high_us": interval * 1.01, "bytes": size, "algorithm_gbs": rate}
                    factors: Factors = {"operation": operation, "interface": interface, "ranks": ranks}
                    factors |= {"processes": "each", "allocator": "device", "size": size}
                    counters["bus_gbs"] = rate * factor
                    yield _point(node, "collective", members[0], us / 2 + interval, factors, counters, members)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    for name in ("gpus", "slow-gpu", "missing"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("slow-pair", "ranks"):
        parser.add_argument(f"--{name}", type=lambda text: tuple(map(int, text.split(","))))
    parser.add_argument("--scale", type=float)
    parser.add_argument("--host")
    parser.add_argument("--run", type=int)
    parser.add_argument("--plain", dest="every", action="store_false", default=None)
    chosen: dict[str, Any] = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    directory = chosen.pop("directory")
    print(write(Node(**chosen), directory))


if __name__ == "__main__":
    main()
