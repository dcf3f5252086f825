"""What drivers do with pages, as pure functions of plain values. Each names the source that it follows."""

from __future__ import annotations

from typing import Final

RULES_VERSION: Final = 2
"""Changes with any rule that changes what is predicted."""
