"""An application with events, recorded from the stand-in for CUPTI in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from firsttouch import _core
from firsttouch.machine.devices import describe_devices

SCRIPT = """
import json, sys
from firsttouch.apps.hotspot import Hotspot
from firsttouch.events import log
from firsttouch.harness.measure import run
from firsttouch.machine.devices import describe_devices, open_device
from firsttouch.workspace.strategies import STRATEGIES
from firsttouch.workspace.workspace import Workspace

log.why_not_offered = lambda device: ""
info = describe_devices("opencl")[0]
events, reason = log.start(info)
assert events is not None, reason
device = open_device(info.name)
found = []
for _ in range(2):
    app = Hotspot(Hotspot.sizes["tiny"], 1, {})
    found.append(run(app, Workspace(STRATEGIES["svm-fine"], info, device), log=events))
window = events.cut(0, 1e300)
print(json.dumps({
    "runs": [[run.events, run.phases, run.error] for run in found],
    "phases": [p.name for p in window.phases],
    "total": window.totals(),
    "listed": len(window.events),
    "course": sum(total for _, total in events.course.sums("h2d", "counts")[-1:]),
}))
"""


def test_phases_of_an_application_divide_its_events(standin):
    try:
        describe_devices("opencl")[0]
    except (_core.Unavailable, IndexError) as reason:
        pytest.skip(str(reason))
    more = {"FIRSTTOUCH_LIB_CUPTI": str(standin()), "FIRSTTOUCH_EVENTS": "1", "STANDIN_CUPTI_REPEAT": "1000"}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=os.environ | more, text=True, capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    names = ["allocate", "initialise", "compute", "readback", "free"]
    assert [name for name in found["phases"] if name] == 2 * names
    for events, phases, error in found["runs"]:
        assert not error
        parts = {name: value for name, value in events.items() if name.startswith("um_compute_")}
        assert list(parts) == [f"um_compute_{n}_ms" for n in ("undisturbed", "gpu_faults", "to_device", "to_host")]
        assert sum(parts.values()) >= phases["compute"] * 990  # the marks lie around the readings of the clock
        assert min(parts.values()) >= 0
        assert events["um_h2d_bytes"] == events["um_h2d_fault_bytes"] + events["um_h2d_prefetch_bytes"]
        assert events["um_h2d_ms"] <= events["um_h2d_sum_ms"]
    assert found["total"]["um_h2d_migrations"] % 2000 == 0  # the script has two, a thousand times at each flush
    assert found["course"] % 2000 == 0
