"""bandwidth on this machine."""

from __future__ import annotations

from small import SmallRun


class TestSmallRun(SmallRun):
    name = "bandwidth"
    states_buffers = True
