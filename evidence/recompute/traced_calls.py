"""What recording the calls of a program costs, from trace-calls.json, which benchmarks/trace_calls.py writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from statistics import median
from typing import Any

from firsttouch.base.units import format_size
from records import Directory, table

BEFORE, NOW = "other", "this"


def costs(directories: Sequence[Directory]) -> str:
    """A row for each kind of call: its time under the trace of before and of now, in runs that alternated."""
    (directory,) = directories
    runs: Sequence[Mapping[str, Any]] = json.loads((directory.path / "trace-calls.json").read_text())
    rows = []
    for case, of_case in groupby(runs, itemgetter("case")):
        pairs: dict[str, list[float]] = {BEFORE: [], NOW: []}
        journal = 0
        for run in of_case:
            pairs[run["library"]].append(run["us"])
            journal = run["journal"] if run["library"] == NOW else journal
        both = list(zip(pairs[BEFORE], pairs[NOW], strict=True))
        more = sorted(now - before for before, now in both)
        rows.append(
            [
                case,
                str(len(both)),
                *(f"{median(pairs[library]):.2f} us" for library in (BEFORE, NOW)),
                f"{median(more):+.2f} us" + (f" ({more[0]:.2f} to {more[-1]:.2f})" if len(more) > 1 else ""),
                f"{median(now / before for before, now in both):.2f}",
                format_size(journal, 3),
            ]
        )
    head = ["calls", "pairs", "before", "now", "more each, median (range)", "ratio", "journal now"]
    return table(head, rows)


TEXTS: Mapping[str, Callable[[Sequence[Directory]], str]] = {"traced-calls": costs}
