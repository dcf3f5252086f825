"""Profiles whose numbers are known, written as `firsttouch profile` writes them."""

from __future__ import annotations

import msgspec

from firsttouch.profile import schema as s

MiB = 1 << 20


def header(**changes):
    about = {
        "schema": s.SCHEMA, "version": "0", "command": ["./app", "arg"], "pid": 100, "clock": 1000.0, "interval": 0.01,
        "started": "2026-01-02T03:04:05.678+00:00", "host": "here", "page_bytes": 4096,
        "layers": [s.LayerState("sampling", True), s.LayerState("trace", False, "CUPTI is missing", "pip install it")],
    }  # fmt: skip
    return s.Header(**{**about, **changes})


def gpu(name="gpu:0", **changes):
    return s.ProfiledGpu(**{"name": name, "model": "M", "before": s.GpuMemory(600 * MiB), "source": "NVML", **changes})


def mark(t, name="", kind="begin", *, pid=100, thread=100, source="python", domain="", number=-1):
    return s.Mark(t=t, kind=kind, name=name, pid=pid, thread=thread, source=source, domain=domain, range=number)


def write(directory, *lines, whole=True, **changes):
    """A profile of 4 s: resident memory rises to 800 MiB in 1 s, stays, and falls after 3 s; gpu:0 rises by 500 MiB
    in the third second, where a header has it. A child holds 200 MiB from 0.5 to 2 s.
    """
    directory.mkdir(parents=True, exist_ok=True)
    head = header(**changes)
    first, child, total, device = [], [], [], []
    for i in range(400):
        t = i / 100
        own = int(800 * MiB * min(1.0, t, 4 - t))
        other = 200 * MiB if 0.5 <= t < 2 else 0
        first.append([t, own, 10 * i, 0])
        if other:
            child.append([t, other, i - 50, 0])
        total.append([t, own + other, 11 * i, i // 200, 2 if other else 1])
        device.append([t, 600 * MiB + int(500 * MiB * min(1.0, max(0.0, t - 2))), None, 300 * MiB])
    data = [
        head,
        s.Started(t=0.0, key=0, pid=100, name="app", command=["./app", "arg"]),
        s.Started(t=0.5, key=1, pid=101, parent=0, name="child", command=["child"]),
        s.Samples(of="total", columns=["resident", "minor", "major", "processes"], rows=total),
        s.Samples(of="process:0", columns=["resident", "minor", "major"], rows=first),
        s.Samples(of="process:1", columns=["resident", "minor", "major"], rows=child),
        *[s.Samples(of=g.name, columns=["used", "free", "reserved"], rows=device) for g in head.gpus],
        *lines,
    ]
    if whole:
        data += [
            s.Ended(t=2.0, key=1, status=-9),
            s.Ended(t=3.99, key=0, status=3, peak=801 * MiB, minor=5000, major=1, with_children=True),
            s.ProfilingCost(t=4.0, cpu=0.04, helper_cpu=0.02, lock=0.01, ticks=400, late=2),
            s.End(t=4.0, status=3, why="the target ended"),
        ]
    (directory / s.FILE).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in data))
    return directory
