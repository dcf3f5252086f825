"""An application with events, recorded from the stand-in for CUPTI in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from firsttouch import _core
from firsttouch.machine.devices import describe_devices

SCRIPT = """
import json, sys
from firsttouch.apps.hotspot import Hotspot
from firsttouch.profile.events import log
from firsttouch.harness.measure import run
from firsttouch.machine.devices import describe_devices, open_device
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.execution.workspace import Workspace

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


MANY = """
import json, time
from firsttouch import _core
from firsttouch.profile.events import log
from firsttouch.machine.devices import describe_devices

log.why_not_offered = lambda device: ""
events, reason = log.start(describe_devices("cpu")[0])
assert events is not None, reason
events.forget()
for _ in range(5):
    time.sleep(0.002)
    _core.events_take()
(phase,) = _core.events_phases()
course = sum(sum(row[2]) for row in _core.events_course()[2])
print(json.dumps([phase[3], course, _core.events_dropped()]))
"""


@pytest.mark.parametrize("repeat", [2_000, pytest.param(222_223, marks=pytest.mark.exhaustive)])  # ten million records
@pytest.mark.timeout(300)
@pytest.mark.slow
def test_totals_of_many_records_lose_nothing(standin, repeat):
    """Each of five flushes delivers a script of nine records `repeat` times, all of a flush at the same time."""
    more = {"FIRSTTOUCH_LIB_CUPTI": str(standin()), "FIRSTTOUCH_EVENTS": "1", "STANDIN_CUPTI_REPEAT": str(repeat)}
    done = subprocess.run([sys.executable, "-c", MANY], env=os.environ | more, text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    rows, course, dropped = json.loads(done.stdout)
    assert (len(rows), dropped) == (9, 0)
    assert [count for _, _, count, *_ in rows] == [5 * repeat] * 9
    assert course == 9 * 5 * repeat
    sizes = {(kind, cause): size for kind, cause, _, size, *_ in rows}
    assert sizes["h2d", "fault"] == 5 * repeat * 2**21
    for kind, _, count, _, faults, summed, busy in rows:
        assert faults == (7 * count if kind == "gpu_fault" else 0)
        assert summed == repeat * busy
        assert (busy > 0) == (kind in ("h2d", "d2h", "d2d", "gpu_fault", "throttling"))


@pytest.mark.slow
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
        assert list(parts) == [f"um_compute_{n}_ms" for n in ("nothing_recorded", "gpu_faults", "to_device", "to_host")]
        assert sum(parts.values()) >= phases["compute"] * 990  # the marks lie around the readings of the clock
        assert min(parts.values()) >= 0
        assert events["um_h2d_bytes"] == events["um_h2d_fault_bytes"] + events["um_h2d_prefetch_bytes"]
        of_iterations = [v for name, v in events.items() if re.fullmatch(r"um_iteration_\d+_h2d_bytes", name)]
        assert len(of_iterations) == 3
        assert sum(of_iterations) <= events["um_h2d_bytes"]
        assert events["um_h2d_ms"] <= events["um_h2d_sum_ms"]
    assert found["total"]["um_h2d_migrations"] % 2000 == 0  # the script has two, a thousand times at each flush
    assert found["course"] % 2000 == 0
