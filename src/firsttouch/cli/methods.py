"""`firsttouch methods`: every allocator with its semantics here."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from firsttouch.memory.methods import Cell
    from firsttouch.schema import DeviceInfo

_COLUMNS = (
    ("available", "allocation", "cpu", "gpu", "page", "cached cpu", "cached gpu"),
    ("coherent", "concurrent", "atomics", "migrates"),
)
"""Of the table, or of one table each where they are too wide for one: what each agent does by itself, and what both do
at once. What an allocator is and where it moves do not depend on the device, and follow once."""


def command(
    device: Annotated[
        list[str] | None,
        typer.Option("--device", metavar="DEVICE", help="Such as cpu, opencl:0, cuda:0, hip:0; may be repeated."),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Establish it by experiment, each in a throw-away process.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A list of cells on stdout, and nothing else there.")] = False,
) -> None:
    """Show every allocator with its semantics here: available, up-front or on-demand, CPU and GPU access, page size,
    cached by whom, coherent and usable by both at once, atomic together, migrating.

    Example: firsttouch methods --device cpu --verify
    """
    from firsttouch.memory.methods import stated_cells, verified_cells
    from firsttouch.run.plan import choose_devices
    from firsttouch.run.runner import find_devices

    found = find_devices(device or [])
    chosen = choose_devices(device or [], found)
    if verify:
        with _progress() as watch:
            cells = verified_cells(chosen, watch)
    else:
        cells = [cell for one in chosen for cell in stated_cells(one)]
    if as_json:
        import msgspec

        typer.echo(msgspec.json.format(msgspec.json.encode(cells), indent=1).decode())
    else:
        absent = [] if device else [one for one in found if not one.available]
        _show(chosen, absent, cells, verify)


@contextmanager
def _progress() -> Iterator[Callable[[Cell], None]]:
    """A line that changes on a terminal, a line per measured cell elsewhere; on stderr."""
    from rich.console import Console

    def teller(tell: Callable[[str], None]) -> Callable[[Cell], None]:
        def watch(cell: Cell) -> None:
            if cell.origin == "measured":
                tell(f"{cell.device} {cell.allocator}: {cell.property} {cell.value}")

        return watch

    if not sys.stderr.isatty():
        yield teller(lambda text: print(text, file=sys.stderr, flush=True))
        return
    with Console(stderr=True, markup=False, emoji=False).status("starting") as status:
        yield teller(status.update)


def _show(chosen: Sequence[DeviceInfo], absent: Sequence[DeviceInfo], cells: Sequence[Cell], verified: bool) -> None:
    from rich.console import Console

    console = Console(markup=False, emoji=False, highlight=False, soft_wrap=False)
    for device in chosen:
        _device(console, device, [cell for cell in cells if cell.device == device.name])
    for device in absent:
        console.print(f"{device.name}: not available: {device.reason}\n")
    _glossary(console, cells)
    if verified:
        console.print(
            "✓ measured here; ✗ measured, and not as stated; no mark: stated by driver or vendor; ? unknown; "
            "- does not apply. --json tells how each was found."
        )
    else:
        console.print("As driver and vendor state it (? where they do not); --verify establishes it by experiment.")


def _device(console: Console, device: DeviceInfo, cells: Sequence[Cell]) -> None:
    from firsttouch.memory.methods import QUESTIONS

    headings = {q.name: q.heading for q in QUESTIONS}
    groups = [[name for name in group if any(c.property == name and c.value for c in cells)] for group in _COLUMNS]
    columns = [name for group in groups for name in group]
    whole = _table(columns, headings, cells)
    console.print(f"{device.name}: {device.title}", style="bold")
    for table in [whole] if _width(console, whole) <= console.width else [_table(g, headings, cells) for g in groups]:
        console.print(table)
    for allocators, sentence in _sentences([cell for cell in cells if cell.property in columns], headings):
        console.print(f"- {', '.join(allocators)}: {sentence}")
    for note in device.notes:
        console.print(f"! {note}")
    console.print()


def _table(columns: Sequence[str], headings: Mapping[str, str], cells: Sequence[Cell]) -> Table:
    from rich.table import Table

    known = {(cell.allocator, cell.property): cell for cell in cells}
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("allocator", no_wrap=True)
    for name in columns:
        table.add_column(headings[name].replace(" ", "\n"), no_wrap=True, vertical="top")
    for allocator in dict.fromkeys(cell.allocator for cell in cells):
        table.add_row(allocator, *(_text(known[allocator, name]) for name in columns))
    return table


def _width(console: Console, table: Table) -> int:
    """Columns of the terminal that the table needs."""
    return table.__rich_measure__(console, console.options.update(max_width=10_000)).maximum


def _text(cell: Cell) -> str:
    from firsttouch.memory.methods import applies, disagrees

    if cell.value is None:
        return "?" if applies(cell) else "-"
    if disagrees(cell):
        return f"{cell.value} ✗"
    return f"{cell.value} ✓" if cell.origin == "measured" else cell.value


def _sentences(cells: Sequence[Cell], headings: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """What a reader needs to know beyond the table, said once for all allocators and properties that share it."""
    shared: dict[tuple[str, str], dict[str, list[str]]] = {}
    for cell in cells:
        if words := _words(cell):
            shared.setdefault(words, {}).setdefault(cell.allocator, []).append(headings[cell.property])
    told: dict[str, list[str]] = {}
    for (value, detail), found in shared.items():
        for allocator, properties in found.items():
            text = f"{', '.join(properties)} {value}" + (f": {detail}" if detail else "")
            told.setdefault(text, []).append(allocator)
    return [(allocators, text) for text, allocators in told.items()]


def _words(cell: Cell) -> tuple[str, str] | None:
    """The value and the detail that explain a cell, None where it explains itself."""
    from firsttouch.memory.methods import applies, disagrees

    if disagrees(cell):
        return f"is stated {cell.stated} and was measured {cell.value}", cell.detail
    surprising = cell.value in ("no", "none", "gpu sees cpu", "cpu sees gpu") or cell.property == "migrates"
    told = cell.detail.startswith("not established") or (surprising and cell.detail and applies(cell))
    return (cell.value or "unknown", cell.detail) if told else None


def _glossary(console: Console, cells: Sequence[Cell]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("allocator", "what it is", "moves (as stated)"):
        table.add_column(heading, overflow="fold")
    texts = {(cell.allocator, cell.property): cell.value or "?" for cell in cells}
    for allocator in dict.fromkeys(cell.allocator for cell in cells):
        table.add_row(allocator, texts[allocator, "what"], texts[allocator, "moves"])
    console.print(table)
    console.print()
