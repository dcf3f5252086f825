"""Memory limits that the user sets in the environment. The native guard enforces them."""

from __future__ import annotations

import os

from firsttouch.base.errors import UsageError
from firsttouch.base.units import parse_size

VARIABLES = ("FIRSTTOUCH_MAX_HOST", "FIRSTTOUCH_MAX_DEVICE", "FIRSTTOUCH_MAX_MANAGED")


def environment_limits() -> dict[str, int]:
    """The limits that are set, in bytes, by variable. Raises UsageError if a value is not a size."""
    limits = {}
    for name in VARIABLES:
        if text := os.environ.get(name, ""):
            try:
                limits[name] = parse_size(text)
            except ValueError as error:
                raise UsageError(f"{name}: {error}") from None
    return limits


def host_limit() -> int:
    """Bytes of host memory that the guard allows one worker. Raises UsageError if a limit is not a size."""
    from firsttouch import _core

    environment_limits()
    return _core.guard_limits()["host"] or 0
