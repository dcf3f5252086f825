"""The size of the text of figures, and the room that it takes: figures are shown as large as they are drawn."""

from __future__ import annotations

TEXT = 12
"""Pixels of all text in a figure, which is the least that pages show on a screen."""
CHARACTER = 0.57 * TEXT
"""The width of a character of usual text in pixels, in the widest of the usual fonts."""
WIDE = 0.63 * TEXT
"""The same of bold text, and of names in which wide characters may be frequent."""
LINE = TEXT + 1
"""The height of a line of text."""
COLUMN = 860
"""The width in pixels of the widest figure that a page on a desktop shows as a whole (page.css)."""
PHONE = 328
"""The width in pixels of the widest figure that a page on a phone shows as a whole."""
