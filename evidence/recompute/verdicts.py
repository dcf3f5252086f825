"""What `advise` says of every application on the machines that files describe, once and for 1,000 iterations."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch.advice.advisor import advise
from firsttouch.apps import all_apps
from firsttouch.base.errors import UsageError
from firsttouch.records.text import join_names
from records import table

MACHINES = ("mi300a", "gh200", "h100-pcie", "h200-pcie")
SIZES = ("64MiB", "4GiB")
ITERATIONS = (1, 1000)
UNKNOWN = "?"
"""Before a verdict whose strategy has the least estimate, while others are not told apart or have no time."""


def verdict(machine: str, app: str, size: str, iterations: int) -> str:
    try:
        found = advise(device=f"model:{machine}", app=app, size=size, iterations=iterations, apps=all_apps()).verdict
    except UsageError:
        return "–"  # noqa: RUF001
    first, *others = found.strategies
    known = "" if found.kind in ("take", "any") else f"{UNKNOWN} "
    return f"{known}{first}" + (
        f" (or {join_names(others, 'or')})" if 0 < len(others) < 3 else " (or others)" * bool(others)
    )


def text(machine: str) -> str:
    """The table of one machine."""
    columns = [(size, iterations) for size in SIZES for iterations in ITERATIONS]
    rows = [[app, *(verdict(machine, app, *column) for column in columns)] for app in sorted(all_apps())]
    heads = [f"{size}, {'once' if n == 1 else f'{n:,} times'}" for size, n in columns]
    return table(["application", *heads], rows)


def main(machines: Sequence[str] = MACHINES) -> None:
    for machine in machines:
        print(f"## {machine}\n\n{text(machine)}")


if __name__ == "__main__":
    main()
