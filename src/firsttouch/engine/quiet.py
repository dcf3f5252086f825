"""Waits until other programs leave the processors alone, for `run --wait` and `app --wait`."""

from __future__ import annotations

import time
from collections.abc import Callable

from firsttouch.base.errors import UsageError
from firsttouch.machine import processor_time
from firsttouch.machine.tree import Tree
from firsttouch.records.schema import BUSY
from firsttouch.records.text import join_names

MINUTES = 10.0
"""How long --wait waits at most if it says nothing else."""
MOST_MINUTES = 24 * 60.0
_STEP = 1.0
"""Seconds between two readings."""
_QUIET_STEPS = 3
"""The readings in a row that must be quiet: a program may pause for a moment."""
_SAID_EVERY = 30.0


def check_minutes(minutes: float | None) -> None:
    """Raises UsageError for a time that cannot be waited."""
    if minutes is not None and not 0 <= minutes <= MOST_MINUTES:
        raise UsageError(f"wait={minutes} is not a number of minutes from 0 to {MOST_MINUTES:g}")


def wait_until_quiet(minutes: float, say: Callable[[str], None]) -> bool:
    """Returns True as soon as other programs use less than a tenth of the processors, False after so many minutes, or
    if the kernel does not state what they use.

    say: is told what is waited for, at first and every half minute.
    """
    began, quiet, last_said = time.monotonic(), 0, -_SAID_EVERY
    end = began + 60 * minutes
    while True:
        before, names = processor_time.use_now(), processor_time.busiest(Tree(), _STEP)
        share = processor_time.share_since(before)
        if share is None:
            say("what other programs use of the processors is not known here; not waiting")
            return False
        quiet = quiet + 1 if share < BUSY else 0
        now = time.monotonic()
        if quiet == _QUIET_STEPS:
            return True
        if now >= end:
            say(f"still busy after {minutes:g} min: {_describe_users(names, share)}; what is disturbed is marked")
            return False
        if share >= BUSY and now - began - last_said >= _SAID_EVERY:
            last_said = now - began
            say(f"waiting until the machine is quiet, at most {minutes:g} min: {_describe_users(names, share)}")


def _describe_users(names: list[str], share: float) -> str:
    users = join_names(names) if names else "other programs"
    return f"{users} {'uses' if len(names) == 1 else 'use'} {100 * share:.0f} % of the processors"
