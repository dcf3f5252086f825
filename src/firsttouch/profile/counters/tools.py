"""The profilers by name. `counters` of a row in machine/backends.py names the one of that kind of device."""

from __future__ import annotations

from collections.abc import Mapping

from firsttouch.profile.counters.ncu import Ncu
from firsttouch.profile.counters.perf import Perf
from firsttouch.profile.counters.rocprofv3 import Rocprofv3
from firsttouch.profile.counters.tool import Tool

TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (Ncu(), Rocprofv3(), Perf())}
