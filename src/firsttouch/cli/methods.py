"""firsttouch methods: prints the properties of each allocator on this machine."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from firsttouch.base.errors import UsageError
from firsttouch.cli.declaration import declare
from firsttouch.cli.options import DevicesOption, path
from firsttouch.cli.output import print_stderr, printable

if TYPE_CHECKING:
    from rich.table import Table

    from firsttouch.base.outputs import Output
    from firsttouch.cli.console import Console
    from firsttouch.engine.methods import Cell
    from firsttouch.records.schema import DeviceInfo

_COLUMNS = (
    ("available", "allocation", "cpu", "gpu", "page", "cached cpu", "cached gpu"),
    ("coherent", "concurrent", "atomics", "migrates"),
)
"""The columns of the table: properties that concern each agent by itself, and properties that concern both at once. If
one table would be too wide, each group has a table. What an allocator is and whether it moves does not depend on the
device, and is printed once at the end."""


@dataclass(frozen=True)
class Methods:
    """The properties of the allocators of `devices`. absent: devices that could not be asked, if none was named. equal:
    the number of equal GPUs for which one of several was asked, by its name.
    """

    devices: Sequence[DeviceInfo]
    absent: Sequence[DeviceInfo]
    cells: Sequence[Cell]
    equal: Mapping[str, int] = field(default_factory=dict)

    def title(self, device: DeviceInfo) -> str:
        number = self.equal.get(device.name, 1)
        return f"{device.title}, for {number} equal GPUs" if number > 1 else device.title

    def output(self) -> Output:
        from firsttouch.cli.schemas import MethodsOutput
        from firsttouch.engine.methods import disagrees
        from firsttouch.records.text import count

        usable = []
        for device in self.devices:
            states = [c.value for c in self.cells if c.device == device.name and c.property == "available"]
            usable.append(f"{states.count('yes')} of {count(len(states), 'allocator')} of {device.name} are available")
        measured = [cell for cell in self.cells if cell.origin == "measured"]
        wrong = sum(map(disagrees, measured))
        found = [f"{count(len(measured), 'property', 'properties')} measured, {wrong} not as stated"]
        return MethodsOutput(summary=f"{'; '.join([*usable, *(found if measured else [])])}.", cells=self.cells)


@declare(
    "methods",
    "What each allocator is here: access, placement, caching.",
    {"methods": "cli.schemas:MethodsOutput"},
    indent=1,
)
def command(
    device: DevicesOption = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Determine the answers by experiment, each in its own process.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            parser=path,
            metavar="DIR",
            help="With --verify: write methods.json there, for `run --trust-verified`.",
        ),
    ] = None,
) -> Methods:
    """Show what each allocator is on this machine: whether it is available, when its pages are allocated, whether CPU
    and GPU access it, its page size, who caches it, whether it is coherent and usable by both at once, whether their
    atomics are atomic together, and whether its pages migrate.

    Without --device, one of several equal GPUs is examined for all.

    Example: firsttouch methods --device cpu --verify
    """
    if out is not None and not verify:
        raise UsageError("--out stores what is found by experiment; add --verify")
    from firsttouch.engine.choices import choose_devices
    from firsttouch.engine.discover import find_devices
    from firsttouch.engine.methods import stated_cells, verified_cells
    from firsttouch.records.equal_places import EqualPlaces
    from firsttouch.records.predicted import is_predicted

    names = device or []
    if modelled := [name for name in names if is_predicted(name)]:
        raise UsageError(
            f"methods asks the drivers of this machine, and {modelled[0]} is described by a file; "
            "firsttouch platforms NAME shows what it says"
        )
    devices = find_devices(names)
    chosen = choose_devices(names, devices)
    alike = EqualPlaces.of(d for d in chosen if d.role == "gpu" and not names)
    equal = Counter(alike.first(device.name) for device in chosen)
    chosen = [device for device in chosen if device.name in equal]
    with _show_progress() if verify else nullcontext() as watch:
        cells = verified_cells(chosen, watch) if watch else [cell for each in chosen for cell in stated_cells(each)]
    absent = [] if names else [device for device in devices if not device.available]
    found = Methods(chosen, absent, cells, equal)
    if out is not None:
        from firsttouch.engine.verified import write_methods

        print_stderr(f"wrote {write_methods(out, found.devices, found.cells)}")
    return found


@contextmanager
def _show_progress() -> Iterator[Callable[[Cell], None]]:
    """Shows progress on stderr: a status line on a terminal, otherwise one line per measured cell."""

    def watcher(show: Callable[[str], None]) -> Callable[[Cell], None]:
        def watch(cell: Cell) -> None:
            if cell.origin == "measured":
                show(f"{cell.device} {cell.allocator}: {cell.property} {cell.value}")

        return watch

    if not sys.stderr.isatty():
        yield watcher(print_stderr)
        return
    from firsttouch.cli.console import Console

    with Console(stderr=True).status("starting") as status:
        yield watcher(lambda text: status.update(printable(text)))


@command.shown
def _show(methods: Methods, verify: bool) -> None:
    from firsttouch.cli.console import Console

    console = Console(soft_wrap=False)
    for device in methods.devices:
        _show_device(
            console, device, methods.title(device), [cell for cell in methods.cells if cell.device == device.name]
        )
    for device in methods.absent:
        console.print(f"{device.name}: not available: {device.reason}\n")
    _print_glossary(console, methods.cells)
    if verify:
        console.print(
            "✓ measured here; ✗ measured, and not as stated; no mark: stated by driver or vendor; ? unknown; "
            "- does not apply. --json says how each was found."
        )
    else:
        console.print("As driver and vendor state it (? where they do not); --verify finds the answers by experiment.")


def _show_device(console: Console, device: DeviceInfo, title: str, cells: Sequence[Cell]) -> None:
    from firsttouch.engine.methods import QUESTIONS

    headings = {q.name: q.heading for q in QUESTIONS}
    groups = [[name for name in group if any(c.property == name and c.value for c in cells)] for group in _COLUMNS]
    columns = [name for group in groups for name in group]
    full = _table(columns, headings, cells)
    console.print(f"{device.name}: {title}", style="bold")
    for table in [full] if console.width_of(full) <= console.width else [_table(g, headings, cells) for g in groups]:
        console.print(table)
    for allocators, sentence in _sentences([cell for cell in cells if cell.property in columns], headings):
        console.print(f"- {', '.join(allocators)}: {sentence}")
    for note in device.notes:
        console.print(f"! {note}")
    console.print()


def _table(columns: Sequence[str], headings: Mapping[str, str], cells: Sequence[Cell]) -> Table:
    from rich.table import Table

    cell_at = {(cell.allocator, cell.property): cell for cell in cells}
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("allocator", no_wrap=True)
    for name in columns:
        table.add_column(headings[name].replace(" ", "\n"), no_wrap=True, vertical="top")
    for allocator in dict.fromkeys(cell.allocator for cell in cells):
        table.add_row(allocator, *(_text(cell_at[allocator, name]) for name in columns))
    return table


def _text(cell: Cell) -> str:
    from firsttouch.engine.methods import applies, disagrees

    if cell.value is None:
        return "?" if applies(cell) else "-"
    if disagrees(cell):
        return f"{cell.value} ✗"
    return f"{cell.value} ✓" if cell.origin == "measured" else cell.value


def _sentences(cells: Sequence[Cell], headings: Mapping[str, str]) -> list[tuple[list[str], str]]:
    """Sentences that explain cells of the table, each with the allocators that it applies to."""
    shared: dict[tuple[str, str], dict[str, list[str]]] = {}
    for cell in cells:
        if words := _value_and_detail(cell):
            shared.setdefault(words, {}).setdefault(cell.allocator, []).append(headings[cell.property])
    sentences: dict[str, list[str]] = {}
    for (value, detail), by_allocator in shared.items():
        for allocator, properties in by_allocator.items():
            text = f"{', '.join(properties)} {value}" + (f": {detail}" if detail else "")
            sentences.setdefault(text, []).append(allocator)
    return [(allocators, text) for text, allocators in sentences.items()]


def _value_and_detail(cell: Cell) -> tuple[str, str] | None:
    """The value and the detail that explain a cell, or None if it needs no explanation."""
    from firsttouch.engine.methods import applies, disagrees

    if disagrees(cell):
        return f"is stated {cell.stated} and was measured {cell.value}", cell.detail
    surprising = cell.value in ("no", "none", "gpu sees cpu", "cpu sees gpu") or cell.property == "migrates"
    is_explained = cell.detail.startswith("not established") or (surprising and cell.detail and applies(cell))
    return (cell.value or "unknown", cell.detail) if is_explained else None


def _print_glossary(console: Console, cells: Sequence[Cell]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for heading in ("allocator", "what it is", "moves (as stated)"):
        table.add_column(heading, overflow="fold")
    texts = {(cell.allocator, cell.property): cell.value or "?" for cell in cells}
    for allocator in dict.fromkeys(cell.allocator for cell in cells):
        table.add_row(allocator, texts[allocator, "what"], texts[allocator, "moves"])
    console.print(table)
    console.print()
