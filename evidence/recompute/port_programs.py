"""What the port programs showed: the time of each form, and what was observed of the naive one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from firsttouch.apps.port_programs import port_programs
from firsttouch.apps.port_programs.program import DISCRETE, NAIVE, PORTED
from firsttouch.base.units import format_size
from firsttouch.records.schema import Record
from firsttouch.records.text import quantity
from records import Directory, number_of, table


def forms(directories: Sequence[Directory]) -> str:
    """A row for each program, of the points that are right, or of whose naive form the hazard was observed."""
    (directory,) = directories
    rows = []
    for name in port_programs():
        of = {str(r.factors["form"]): r for r in directory.records if r.experiment == name}
        if of:
            size = format_size(int(str(next(iter(of.values())).factors["size"])))
            rows.append([f"`{name}`", size, _time(of.get(DISCRETE)), _time(of.get(PORTED)), _observed(of.get(NAIVE))])
    return table(("program", "size", "discrete", "ported", "naive"), rows)


def _time(record: Record | None) -> str:
    if record is None or record.summary is None or record.verified is False:
        return "-"
    each = number_of(record, "iteration_ms")
    return quantity(record.summary.median, record.unit) + (f" ({quantity(each, 'ms')} an iteration)" if each else "")


def _observed(record: Record | None) -> str:
    if record is None:
        return "-"
    if record.status != "ok":
        return f"skipped: {record.reason}"
    time = f"{_time(record)}: " if record.verified else ""
    return f"{time}{record.counters['hazard']}"


TEXTS: Mapping[str, Callable[[Sequence[Directory]], str]] = {"port-programs": forms}
