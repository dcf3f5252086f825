"""Writes src/firsttouch/model/data/kernels.json: what kernels take, from the records of runs.

python evidence/recompute/kernels.py            rewrites it
python evidence/recompute/kernels.py --check    says whether it is out of date; exit status 1 if it is
"""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import msgspec

from firsttouch.apps import all_apps
from firsttouch.base.units import format_size
from firsttouch.comparison.validation.in_place import judged_in_place
from firsttouch.model.kernel_records import KernelRun, profiles_from
from firsttouch.model.kernels import FILE, KernelProfiles
from firsttouch.records.schema import Record
from firsttouch.records.text import count
from records import Directory, digits, directory, load, matching, table

DEVICE = "cuda:0"
H200 = (
    "h200-profile",
    "h200-profile-streamcluster",
    "h200-in-place",
    "h200-in-place-2",
    "h200-one-thread",
    "h200-backprop-units",
    "h200-backprop-units-1gib",
    "h200-backprop-units-4gib",
    "h200-asked/*",
    *(f"h200-apps-{n}" for n in range(1, 9)),
)
H100 = ("h100-apps-64mib", "h100-apps-64mib-2", "h100-apps-256mib", "h100-apps-1gib", "h100-apps-1gib-2")
RUNS = {"h200": ("h200-standard", H200), "h100": ("h100-quick", H100)}
"""By device: the directory of micro-measurements, and those of applications."""
FAR = 1.25
CHANGED = {"halo", "transport", "fft_conv_c2c", "fft_conv_fused", "fft_conv_r2c"}
"""Applications whose kernels have changed since all but the runs in LATEST, which no record says."""
LATEST = {"h200-profile"}


def made() -> KernelProfiles:
    """The profiles as they follow from the records."""
    runs = []
    for name, (micro, directories) in RUNS.items():
        of_prices = directory(micro)
        run = of_prices.results
        device = next(d for d in run.machine.devices if d.name == DEVICE)
        applications = {
            each.name: [r for r in each.records if _is_of_today(r, path)]
            for path in directories
            for each in map(load, matching(f"results/{path}"))
        }
        runs.append(KernelRun(name, run.machine, device, of_prices.name, run.records, applications))
    return profiles_from(runs, all_apps())


def _is_of_today(record: Record, path: str) -> bool:
    """Whether a record is of an application's kernels as they are."""
    return path in LATEST or record.factors.get("app") not in CHANGED


def in_place(directories: Sequence[Directory]) -> str:
    """How right profiles are about runs in the host's memory."""
    judged = judged_in_place()
    runs = sorted(judged.runs, key=lambda run: abs(math.log(run.ratio)))
    off = [run for run in runs if abs(math.log(run.ratio)) > math.log(FAR)]
    rows = [
        [f"`{r.application}`", format_size(r.footprint), r.title, digits(r.measured / 1e6), digits(r.ratio)]
        for r in off
    ]
    text = (
        f"{count(len(runs), 'run')} of {count(len({r.application for r in runs}), 'application')}: the median error is "
        f"{100 * judged.error:.0f} %, {100 * judged.within:.0f} % are right within a factor of two, and "
        f"{100 * judged.held:.0f} % lie in the interval. More than a factor of {FAR} off are:"
    )
    head = ["application", "size", "GPU", "measured, ms", "predicted / measured"]
    return textwrap.fill(text, 120) + "\n\n" + table(head, rows)


def generated() -> bytes:
    return msgspec.json.format(msgspec.json.encode(made()), indent=1) + b"\n"


if __name__ == "__main__":
    file, text = Path(str(FILE)), generated()
    if "--check" not in sys.argv:
        file.write_bytes(text)
    elif file.read_bytes() != text:
        sys.exit(f"{file.name} is out of date: python evidence/recompute/kernels.py")
