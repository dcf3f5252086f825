"""Tables and progress bars. Imported where one is printed: rich takes as long to load as everything else here."""

from __future__ import annotations

import sys
from typing import Any

import rich.console
from rich.text import Text

from firsttouch.cli.output import printable


class Console(rich.console.Console):
    """rich's console, for untrusted text: no control characters, no markup, no emoji codes, no colours guessed from
    words.
    """

    def __init__(self, *, stderr: bool = False, **more: Any) -> None:
        more.setdefault("file", sys.stderr if stderr else sys.stdout)  # stays, whatever modules do to the streams
        super().__init__(markup=False, emoji=False, highlight=False, **more)

    def render_str(self, text: str, **more: Any) -> Text:
        return super().render_str(printable(text), **more)
