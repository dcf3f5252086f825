"""Tables beside um-apps: GPU time here and there, and the share seen of what must have moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from firsttouch.harness.outcomes.derive import derive, is_events_run, strategy
from firsttouch.records.schema import Record
from records import Directory, digits, number_of, table

STRATEGIES = ("explicit", "managed", "managed+advise", "managed+prefetch", "managed+both")
PROGRAMS: Mapping[str, tuple[str, Sequence[float]]] = {
    "black_scholes": ("BlackScholes", (22.9, 115, 86.3, 38.2, 44.3)),
    "gemm": ("simpleCUBLAS", (154, 273, 226, 179, 190)),
    "conjugate_gradient": ("conjugateGradient", (53.3, 163, 136, 91.7, 85.2)),
    "conjugate_gradient, `control=copied`": ("conjugateGradient", (53.3, 163, 136, 91.7, 85.2)),
    "fft_conv_r2c": ("convolutionFFT2D, conv0", (2.53, 165, 142, 127, 103)),
    "fft_conv_c2c": ("conv1", (3.08, 155, 113, 149, 118)),
    "fft_conv_fused": ("conv2", (2.46, 139, 99.9, 111, 89.6)),
    "fdtd3d": ("FDTD3d", (11.1, 175, 164, 33.6, 34.4)),
    "graph500_bfs": ("", ()),
}
"""The program of um-apps of each application, and the mean of its two runs in ms by STRATEGIES, measured in the same
visit: "GPU Time" with its "H2D async prefetch timer".
"""


def _points(directories: Sequence[Directory]) -> dict[tuple[str, str], Record]:
    found = {}
    for directory in directories:
        for record in derive(directory.records):
            copied = ", `control=copied`" if record.factors.get("control") == "copied" else ""
            if record.status == "ok" and record.verified and not is_events_run(record):
                found[f"{record.factors['app']}{copied}", strategy(record)] = record
    return found


def _rows(directories: Sequence[Directory], cell: Callable[[Record, int, str], str], names: Sequence[str]) -> str:
    points = _points(directories)
    rows = [
        [program, *(cell(r, i, program) if (r := points.get((program, name))) else "" for i, name in enumerate(names))]
        for program in PROGRAMS
    ]
    return table(["", *(f"`{name}`" for name in names)], rows)


def gpu_times(directories: Sequence[Directory]) -> str:
    def cell(record: Record, i: int, program: str) -> str:
        ours, (_, theirs) = number_of(record, "gpu_ms"), PROGRAMS[program]
        return "" if ours is None else f"{digits(ours)}" + (f" ({digits(theirs[i])})" if theirs else "")

    return _rows(directories, cell, STRATEGIES)
