"""pagefault on this machine."""

from __future__ import annotations

from small import SmallRun


class TestSmallRun(SmallRun):
    name = "pagefault"
    may_be_negative = True
