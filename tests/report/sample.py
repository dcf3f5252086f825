"""Sample results of two machines, with lines, bars and tables, and with every way in which a point can fail."""

from __future__ import annotations

import random

from firsttouch.experiments.analysis.levels import levels
from firsttouch.experiments.contract.base import Experiment
from firsttouch.harness.outcomes import report as apps
from firsttouch.harness.outcomes.app_findings import of_application
from firsttouch.harness.outcomes.derive import derive
from firsttouch.records.figures import Bar, Heat, Line, Table
from firsttouch.records.findings import Claim, finding
from firsttouch.records.reading import Results
from firsttouch.records.schema import (
    SCHEMA,
    Clocks,
    DeviceCapabilities,
    DeviceInfo,
    Library,
    Machine,
    Metric,
    Party,
    Record,
    Request,
    Summary,
)

KIB, MIB, GIB = 2**10, 2**20, 2**30
EVIL = "<script>alert(1)</script>"
EVIL_ATTRIBUTE = '"><img src=x onerror=alert(2)>\x00\x1b'


class Latency(Experiment):
    name, order = "latency", 10
    question = "How long does one dependent load take, at every level of the memory hierarchy?"
    metric = Metric("ns", "lower")
    counted = "One sample is 10^5 or more dependent loads along one random cycle; the time of one load."
    source = "multichase; IISWC 2025 Sec. III-A1."
    figures = (
        Line(
            x="size",
            colour="allocator",
            dash="agent",
            log_x=True,
            log_y=True,
            y_title="ns per load",
            levels="caches",
        ),
    )

    def findings(self, records, device):
        agent = "cpu" if device.name == "cpu" else "gpu"
        mine = [r for r in records if r.factors["agent"] == agent and r.factors["allocator"] in ("malloc", "device")]
        return levels(mine, device)


class Allocation(Experiment):
    name, order = "allocation", 20
    question = "What does it cost to allocate and to free memory?"
    metric = Metric("ns", "lower")
    counted = "One call in a loop of 100, memory untouched."
    source = "UPM study, IISWC 2025 Sec. IV-A."
    figures = (Line(x="size", colour="allocator", dash="operation", log_x=True, log_y=True, y_title="ns per call"),)

    def findings(self, records, device):
        return [finding(Claim("allocation.growth", "the cost of malloc does not grow with size"), records, "flat")]


class Bandwidth(Experiment):
    name, order = "bandwidth", 30
    question = "How fast can memory be read and written?"
    metric = Metric("GB/s", "higher")
    counted = "Bytes read plus bytes written by the kernel; GB/s is 10^9 bytes per second."
    source = "McCalpin's STREAM."
    figures = (Bar(x="allocator", colour="kernel", y_title="GB/s", facet="first_touch"),)

    def findings(self, records, device):
        best = max(records, key=lambda r: r.summary.median)
        return [finding(Claim("bandwidth.best", "at best {value}, by {kernel} on {allocator}"), best)]


class Codegen(Experiment):
    name, order = "codegen", 40
    question = "What did the compiler make of atomics?"
    metric = Metric("instructions", "neither")
    counted = "Instructions of the compiled kernel."
    source = "Disassembly."
    figures = (Table(columns=("operation", "scope", "form", "instruction")),)

    def findings(self, records, device):
        return [finding(Claim("codegen.atomics", "{value} atomics, except f64 at system scope"), records, "native")]


class Sharing(Experiment):
    name, order = "sharing", 50
    question = "What does the GPU lose where the CPU shares its lines?"
    metric = Metric("Mops/s", "higher")
    counted = "Increments in a second."
    source = "Contention study."
    figures = (
        Heat(
            x="cpu_threads", y="gpu_threads", z="relative", centre=1, facet="type",
            x_title="CPU threads", y_title="GPU threads", z_title="throughput relative to the GPU alone",
        ),
    )  # fmt: skip

    def findings(self, records, device):
        worst = min(records, key=lambda r: r.counters["relative"])
        return [finding(Claim("sharing.worst", "at worst {value} of what it has alone"), worst, "part")]


class Migration(Experiment):
    name, order = "migration", 60
    question = "Do the passes over memory that began on the other side become faster?"
    metric = Metric("ms", "lower")
    counted = "Twelve passes."
    source = "Migration study."
    figures = (
        Line(
            x="series", y="value", series="iteration_{}_ms", colour="advice", log_y=True,
            x_title="iteration", y_title="ms per iteration",
        ),
        Heat(
            x="series", y="advice", z="value", z_unit="B", centre=0, series="{}_bytes",
            x_title="counter", z_title="bytes moved",
        ),
    )  # fmt: skip

    def findings(self, records, device):
        return [finding(Claim("migration.settled", "faster from the second iteration on"), records, "yes")]


class Apps(Experiment):
    """Passes its records to the report of applications as the experiment `app` does."""

    name, order = "app", 70
    question = apps.QUESTION
    metric = Metric("ms", "lower")
    counted, source = apps.COUNTED, apps.SOURCE
    figures = apps.FIGURES

    def derive(self, records):
        return derive(records)

    def sections(self, records, device):
        return apps.sections(records, {"hotspot": "iterate on the GPU, read at the end"}, {"hotspot": "Rodinia"})

    def findings(self, records, device):
        return of_application(records)


EXPERIMENTS = {e.name: e() for e in (Latency, Allocation, Bandwidth, Codegen, Sharing, Migration)}
WITH_APPS = {**EXPERIMENTS, "app": Apps()}


def summary(median, spread=0.012, n=12):
    return Summary(
        n=n,
        median=median,
        p5=median * (1 - 2 * spread),
        p95=median * (1 + 2.4 * spread),
        min=median * (1 - 3 * spread),
        max=median * (1 + 5 * spread),
        ci_low=median * (1 - spread),
        ci_high=median * (1 + spread),
    )


def point(experiment, device, median=None, *, spread=0.012, status="ok", verified=True, **more):
    factors = more.pop("factors")
    return Record(
        schema=SCHEMA,
        experiment=experiment,
        device=device,
        factors=factors,
        unit=WITH_APPS[experiment].metric.unit if experiment in WITH_APPS else "ns",
        status=status,
        summary=None if median is None else summary(median, spread),
        samples=[] if median is None else [median],
        preset="standard",
        verified=verified if status == "ok" else None,
        stopped_by=more.pop("stopped_by", "precision"),
        seconds=0.4,
        **more,
    )


def steps(size, levels, tail):
    for i, (capacity, ns) in enumerate(levels):
        if size <= capacity:
            return ns
        if size <= capacity * 1.3:
            return (ns * (levels[i + 1][1] if i + 1 < len(levels) else tail(size))) ** 0.5
    return tail(size)


CURVES = {
    "cpu": ([(48 * KIB, 1.1), (2 * MIB, 3.5), (32 * MIB, 16)], lambda s: 115),
    "gpu": (
        [(192 * KIB, 17.3), (24 * MIB, 140), (50 * MIB, 250)],
        lambda s: 330 if s <= GIB else 330 + 370 * (s / GIB - 1) / 3,
    ),
}


def latency(device, rng):
    sizes = [int(4 * KIB * 2 ** (i / 4)) for i in range(81)]
    agents = ["cpu"] if device == "cpu" else ["gpu", "cpu"]
    allocators = {"malloc": 1.0, "malloc-thp": 0.82} if device == "cpu" else {"device": 1.0, "managed": 1.05}
    for agent in agents:
        for allocator, factor in {**allocators, "pinned": 1.0}.items():
            for size in sizes:
                factors = {"agent": agent, "allocator": allocator, "first_touch": agent, "size": size}
                if size > GIB and allocator == "pinned":
                    reason = "needs 2 GiB of host memory; the cgroup leaves 1.2 GiB"
                    yield point("latency", device, status="skipped", reason=reason, factors=factors)
                    continue
                if agent == "cpu" and allocator == "device":
                    reason = "the CPU can't reach memory of the allocator 'device'"
                    yield point("latency", device, status="skipped", reason=reason, factors=factors)
                    continue
                levels, tail = CURVES[agent]
                base = 600 if allocator == "pinned" and agent == "gpu" else steps(size, levels, tail)
                grow = factor if size > 4 * MIB else 1.0
                yield point(
                    "latency",
                    device,
                    base * grow * rng.lognormvariate(0, 0.015),
                    factors=factors,
                    throttled=size > 3.2 * GIB or None,
                    clocks_after=Clocks(core_mhz=1200, throttle=["sw_power_cap"] if size > 3.2 * GIB else []),
                )


def allocation(device, rng):
    for allocator, per_byte, fixed in (("malloc", 0.0, 60), ("device", 2e-3, 9e4), ("managed", 1e-4, 4e4)):
        for operation in ("allocate", "free"):
            for exponent in range(1, 31, 2):
                factors = {"operation": operation, "allocator": allocator, "size": 2**exponent}
                if allocator == "managed" and exponent > 27:
                    reason = "no answer within 10 s" if exponent == 29 else "exit by SIGSEGV"
                    yield point("allocation", device, status="timeout", reason=reason, factors=factors)
                    continue
                wrong = allocator == "device" and exponent == 21 and operation == "allocate"
                cost = (fixed + per_byte * 2**exponent) * (0.7 if operation == "free" else 1)
                yield point(
                    "allocation",
                    device,
                    cost * rng.lognormvariate(0, 0.05),
                    spread=0.15,
                    factors=factors,
                    verified=False if wrong else None,
                    stopped_by="time",
                    verified_why="byte 4096 was 0x00, not 0xa5" if wrong else "untouched memory holds nothing",
                )


def bandwidth(device, rng):
    speed = 180 if device == "cpu" else 4000
    for touch in ("cpu", "gpu") if device != "cpu" else ("cpu",):
        for allocator in ("malloc", "pinned") if device == "cpu" else ("device", "managed", "pinned"):
            for kernel, share in (("copy", 0.92), ("triad", 0.94), ("read", 1.0), ("write", 0.8)):
                factors = {"kernel": kernel, "allocator": allocator, "first_touch": touch, "size": GIB}
                slow = 0.015 if allocator == "pinned" and device != "cpu" else 1
                yield point("bandwidth", device, speed * share * slow * rng.lognormvariate(0, 0.02), factors=factors)


def codegen(device):
    for operation, native in (("atomic add u64", True), ("atomic add f64", False)):
        for scope in ("device", "system"):
            form = "native" if native or scope == "device" else "compare-and-swap loop"
            yield point(
                "codegen",
                device,
                1.0,
                factors={"operation": operation, "scope": scope},
                counters={"form": form, "instruction": "RED.E.ADD.64.STRONG.GPU" if native else "ATOM.CAS"},
            )


def sharing(device):
    for kind in ("u64", "f64"):
        for cpu in (0, 1, 2, 4, 8, 16, 32, 64, 96, 112, 128, 224):
            for gpu in (64, 128, 256, 1024, 4096, 16384, 65536, 135168):
                relative = 1 / (1 + cpu / (60 if kind == "u64" else 15))
                factors = {"type": kind, "cpu_threads": cpu, "gpu_threads": gpu, "elements": 1024}
                yield point("sharing", device, 900 * relative, factors=factors, counters={"relative": relative})


def migration(device):
    for i, advice in enumerate(("none", "read-mostly", "preferred-gpu", "preferred-cpu", "accessed-by-gpu")):
        times = {f"iteration_{n}_ms": (40 if n == 1 else 0.4 + 8 * (i == 3)) * (1 + i / 9) for n in range(1, 13)}
        moved = {"to_gpu_bytes": 256 * MIB, "to_cpu_bytes": -256 * MIB * (i == 3), "thrashed_bytes": 0}
        yield point("migration", device, 1.0, factors={"advice": advice, "size": GIB}, counters=times | moved)


STRATEGIES = {
    "explicit": 1.0,
    "managed": 2.4,
    "managed+advise": 1.6,
    "managed+prefetch": 1.1,
    "managed+both": 0.8,
    "managed-static": 2.2,
    "system": 3.1,
    "system+prefault": 1.3,
    "pinned": 5.5,
    "registered": 5.2,
}
PHASES = {"context": 240.0, "allocate": 0.9, "initialise": 21.0, "compute": 35.0, "readback": 6.0, "free": 0.02}


def app(name, strategy, time=None, *, iterations=5, factors=None, counters=None, **more):
    """One record of an application whose run takes `time` times as long as explicit."""
    time = STRATEGIES.get(strategy, 1.0) if time is None else time
    factors = {"app": name, "strategy": strategy, "size": "default", "events": "off"} | (factors or {})
    if more.get("status", "ok") != "ok":
        return point("app", "cuda:0", factors=factors, **more)
    phases = {f"phase_{n}_ms": ms * (time if n == "compute" else 1.0) for n, ms in PHASES.items()}
    made = phases | {f"iteration_{i}_ms": (1 + 9 * (i == 0)) * time for i in range(iterations)}
    made |= {"iterations_ms": (iterations + 9) * time, "peak_host_bytes": 64 * MIB, "peak_device_bytes": 64 * MIB}
    made |= {"peak_bytes": 128 * MIB if strategy == "explicit" else 72 * MIB, "copied_h2d_bytes": 64 * MIB}
    run = sum(phases.values()) - PHASES["context"]
    return point("app", "cuda:0", run, factors=factors, counters=made | (counters or {}), **more)


def app_results():
    """Three applications: one under every strategy, with wrong, throttled and skipped points, and an events run."""
    events = {"um_events": "recorded", "um_gpu_fault_groups": 417, "um_h2d_bytes": 64 * MIB, "phase_compute_ms": 1e6}
    reason = "the CPU of cuda:0 cannot use device memory in place"
    records = [app("hotspot", s) for s in STRATEGIES]
    records += [
        app("hotspot", "managed", factors={"events": "on"}, counters=events),
        app("hotspot", "unified", status="skipped", reason=reason),
        app("bfs", "explicit", iterations=0),
        app("bfs", "managed", 9.0, verified=False, verified_why="node 7 has cost 3, not 2", iterations=0),
        app("bfs", "pinned", 0.5, throttled=True, iterations=0),
        *(app("srad", s, factors={"size": n}, iterations=200) for n in (MIB, GIB) for s in ("explicit", "managed")),
    ]
    request = Request(schema=SCHEMA, experiments=["app"], devices=["cuda:0"], preset="standard", seed=7)
    return Results(machine(), request, records, [])


def machine(host="node017"):
    cpu = DeviceInfo(
        name="cpu",
        kind="cpu",
        title="Intel Xeon Platinum 8480C",
        facts={"l1_bytes": 48 * KIB, "l2_bytes": 2 * MIB, "l3_bytes": 105 * MIB, "line_bytes": 64},
        capabilities=DeviceCapabilities(on_host_processor=True, shares_host_memory=True),
    )
    gpu = DeviceInfo(
        name="cuda:0",
        kind="cuda",
        title="NVIDIA H200",
        facts={
            "l1_bytes": 256 * KIB,
            "l2_bytes": 60 * MIB,
            "memory_bytes": 141 * GIB,
            "multiprocessors": 132,
            "pageable_memory_access": True,
            "link": "PCIe 5.0 x16",
        },
        capabilities=DeviceCapabilities(runs_kernels=True, gpu_hierarchy=True, page_migration=True, time_class="gpu"),
    )
    absent = DeviceInfo(name="hip:0", kind="hip", title="", available=False, reason="libamdhip64.so was not found")
    return Machine(
        schema=SCHEMA,
        host=host,
        created="2026-01-15T10:22:31Z",
        firsttouch="0.1.0",
        facts={
            "cpu": {"model": "Intel Xeon Platinum 8480C", "sockets": 2, "cores": 112, "numa_nodes": 2},
            "memory": {"total_bytes": 512 * GIB, "available_bytes": 488 * GIB, "transparent_huge_pages": "madvise"},
            "limits": {"cgroup_bytes": 256 * GIB, "locked_bytes": None, "perf_event_paranoid": 2},
            "kernel": {"release": "6.8.0-45-generic", "numa_balancing": True},
        },
        devices=[cpu, gpu, absent],
        libraries=[
            Library(name="libcuda.so.1", path="/usr/lib/x86_64-linux-gnu/libcuda.so.1", version="12.8"),
            Library(name="libnvrtc.so.12", path="/usr/local/cuda/lib64/libnvrtc.so.12", version="12.8"),
            Library(name="libamdhip64.so", reason="not found on the system, in /opt/rocm or in a Python wheel"),
        ],
        warnings=["NUMA balancing is on: the kernel may move pages during a measurement."],
    )


def results(host="node017", seed=1):
    rng = random.Random(seed)
    records = [
        *latency("cpu", rng),
        *latency("cuda:0", rng),
        *allocation("cuda:0", rng),
        *bandwidth("cpu", rng),
        *bandwidth("cuda:0", rng),
        *codegen("cuda:0"),
        *sharing("cuda:0"),
        *migration("cuda:0"),
    ]
    request = Request(schema=SCHEMA, experiments=[*EXPERIMENTS], devices=["cpu", "cuda:0"], preset="standard", seed=7)
    return Results(machine(host), request, records, ["the last line was cut short and is dropped"])


def hostile():
    """Every free string is an attack, and the factors are not those that the experiments expect."""
    evil = EVIL + EVIL_ATTRIBUTE
    one = results()
    one.machine.host = evil
    one.machine.warnings = [evil]
    one.machine.facts[evil] = {evil: evil}
    one.machine.devices[1].title = evil
    one.machine.devices[1].facts[evil] = evil
    one.machine.libraries[0].path = evil
    one.warnings = [evil]
    assert one.request
    one.request.preset = evil
    records = [
        point(
            "latency",
            "cuda:0",
            5.0 + i,
            factors={"allocator": f"{evil}{i % 2}", "agent": evil, "size": 2**i, evil: f"{evil}{i % 3}"},
            counters={evil: evil},
            stopped_by=evil,
        )
        for i in range(10, 24)
    ]
    records += [
        point("bandwidth", evil, 5.0 + i, factors={"allocator": f"=1+{evil}{i}", "kernel": evil}) for i in range(3)
    ]
    records += [
        point(
            "sharing", "cpu", 1.0,
            factors={"cpu_threads": f"{evil}{i}", "gpu_threads": f"{i % 2}{evil}", "type": f"{i % 3}{evil}", evil: i},
            counters={"relative": 10.0 ** (24 * i - 96)},
        )
        for i in range(9)
    ]  # fmt: skip
    series = {f"iteration_{i}{evil}_ms": 1e-9 * i for i in range(12)} | {f"{evil}_bytes": -1e100, f"{evil}0_bytes": 1}
    records += [point("migration", "cpu", 1.0, factors={"advice": f"{evil}{i}"}, counters=series) for i in range(3)]
    records += [point("codegen", "cpu", 1.0, factors={"operation": evil}, counters={"form": evil})]
    records += [
        point("latency", "cpu", status="skipped", reason=evil, factors={"allocator": evil}),
        point("latency", "cpu", status="crashed", reason=evil, factors={"allocator": evil}),
        point("latency", "cpu", 3.0, verified=False, verified_why=evil, factors={"allocator": evil}),
        point("latency", "cpu", 3.0, verified=None, verified_why=evil, factors={"allocator": evil}),
        point("latency", "cpu", 3.0, suspect=evil, factors={"allocator": evil}),
        point(evil, "cpu", 3.0, factors={"allocator": evil}),
        point(
            "latency",
            "cpu",
            3.0,
            factors={"allocator": evil},
            counters={"shared": evil},
            parties=[Party(device=f"{evil}{rank}", rank=rank, host=evil, processors=evil) for rank in range(1000)],
        ),
    ]
    one.records = records
    return one
