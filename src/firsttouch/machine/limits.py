"""The limits on memory that the user sets in the environment; the native guard enforces them."""

from __future__ import annotations

import os

from firsttouch.errors import UsageError
from firsttouch.units import parse_size

VARIABLES = ("FIRSTTOUCH_MAX_HOST", "FIRSTTOUCH_MAX_DEVICE", "FIRSTTOUCH_MAX_MANAGED")


def set_limits() -> dict[str, int]:
    """Bytes by variable, of those that are set. Raises UsageError for one that is no size."""
    found = {}
    for name in VARIABLES:
        if text := os.environ.get(name, ""):
            try:
                found[name] = parse_size(text)
            except ValueError as error:
                raise UsageError(f"{name}: {error}") from None
    return found


def host_limit() -> int:
    """Bytes of host memory that the guard lets one worker take. Raises UsageError for a limit that is no size."""
    from firsttouch import _core

    set_limits()
    return _core.guard_limits()["host"] or 0
