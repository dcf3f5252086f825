"""The console for tables and progress bars. It is imported only where one is printed, because rich loads slowly."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import rich.console
from rich.text import Text

from firsttouch.cli.output import WIDTH, printable

if TYPE_CHECKING:
    from rich.table import Table


class Console(rich.console.Console):
    """rich's console for untrusted text: without control characters, markup, emoji codes and highlighting."""

    def __init__(self, *, stderr: bool = False, **more: Any) -> None:
        more.setdefault("file", sys.stderr if stderr else sys.stdout)  # fixed here, because modules may replace them
        super().__init__(markup=False, emoji=False, highlight=False, **more)
        if not self.is_terminal and "COLUMNS" not in os.environ and "width" not in more:
            self.width = WIDTH

    def render_str(self, text: str, **more: Any) -> Text:
        return super().render_str(printable(text), **more)

    def width_of(self, table: Table) -> int:
        """The number of terminal columns that a table needs."""
        return table.__rich_measure__(self, self.options.update(max_width=10_000)).maximum

    def print_divided(self, columns: Sequence[str], table_of: Callable[[Sequence[str]], Table]) -> None:
        """Prints the table of all columns, or several of as many as fit on a narrow terminal."""
        while columns:
            part = columns
            while len(part) > 1 and self.width_of(table_of(part)) > self.width:
                part = part[:-1]
            self.print(table_of(part))
            columns = columns[len(part) :]
