"""Prints the bytes of each iteration of applications, of points that a profiler counted or whose memory was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from firsttouch.cli.console import Console
from firsttouch.records.text import named, number, quantity

if TYPE_CHECKING:
    from rich.table import Table

    from firsttouch.harness.outcomes.report import PointSummary

_MOST = 12
"""The most iterations that have a line each. If there are more, the last line is the mean of the others."""
_HEADINGS = {
    "hw_l2_bytes": "L1-L2",
    "hw_device_read_bytes": "device\nread",
    "hw_device_write_bytes": "device\nwritten",
    "hw_memory_read_bytes": "memory\nread",
    "hw_memory_write_bytes": "memory\nwritten",
    "hw_link_read_bytes": "link\nread",
    "hw_link_write_bytes": "link\nwritten",
    "hw_pcie_read_bytes": "PCIe\nread",
    "hw_pcie_write_bytes": "PCIe\nwritten",
    "um_h2d_bytes": "moved to\ndevice",
    "um_d2h_bytes": "moved to\nhost",
    "memory_host_bytes": "host\nin use",
    "memory_device_bytes": "device\nin use",
}
_ASKED_FOR = ("hw_", "memory_")
"""How the names of values begin that only an option of the call adds."""


def show(rows: Sequence[PointSummary]) -> None:
    """Prints a table if the call asked for counters or for memory over time."""
    shown = [row for row in rows if any(name.startswith(_ASKED_FOR) for line in row.by_iteration for name in line)]
    if not shown:
        return
    console = Console(soft_wrap=False)
    columns = [name for name in _HEADINGS if any(line.get(name) for row in shown for line in row.by_iteration)]
    console.print_divided(columns, lambda part: _table(shown, part))
    if any(row.throughput for row in shown):
        console.print("GB/s: bytes of the phase compute over the time of its kernels, both under the profiler.")
    for row in shown:
        if row.not_seen:
            console.print(f"What moved for {row.application} under {row.strategy}: {row.not_seen}.")
    console.print()


def _table(rows: Sequence[PointSummary], columns: Sequence[str]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("iteration", min_width=10)
    for heading in ("time", *(_HEADINGS[name] for name in columns)):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        conditions = [named(name, v) for name, v in row.conditions.items()]
        table.add_row(", ".join([f"{row.application} {row.strategy}", *conditions]), style="bold")
        for label, line in _lines(row):
            cells = [quantity(line[name], "B") if name in line else "" for name in columns]
            table.add_row(f"  {label}", quantity(line["ms"], "ms") if "ms" in line else "", *cells)
        rates = {f"hw_{tier}_bytes": number(rate) for tier, rate in row.throughput.items()}
        if not rates.keys().isdisjoint(columns):
            table.add_row("  GB/s", "", *(rates.get(name, "") for name in columns))
    return table


def _lines(row: PointSummary) -> list[tuple[str, dict[str, float]]]:
    """Each iteration with its number; of more than _MOST, the last line is the mean of the others."""
    lines = [(f"{line['iteration']:g}", line) for line in row.by_iteration]
    if len(lines) <= _MOST:
        return lines
    rest = row.by_iteration[_MOST - 1 :]
    names = [name for name in rest[0] if all(name in line for line in rest)]
    means = {name: mean(line[name] for line in rest) for name in names}
    return [*lines[: _MOST - 1], (f"{rest[0]['iteration']:g}-{rest[-1]['iteration']:g}, mean", means)]
