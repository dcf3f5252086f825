"""A stand-in for pynvml that plays curves of memory from a file.

Put this folder before all others on PYTHONPATH, and the path of a JSON file into PYNVML_STANDIN:

    {
      "gpus": [{
        "name": "NVIDIA H200",             # optional, as are all but total
        "uuid": "GPU-0",
        "bus": "00000000:01:00.0",
        "total": 1000, "reserved": 10,     # bytes
        "used": [[0, 100], [0.5, 400]],    # from second 0 on 100 bytes, from second 0.5 on 400
        "ramp": false,                     # true: between the points on a line
        "memory": "Not Supported",         # DeviceGetMemoryInfo fails with this error
        "first_version_only": true,        # DeviceGetMemoryInfo knows no version 2
        "node": 1,                         # DeviceGetNumaNodeId
        "processes": [{
          "pid": 4711,                     # or "pid_file": "/path" of a file with the id, which may appear later
          "used": [[0, 50], [1, null]],    # null: not available. Before the first point it is not listed
          "until": 2.0,                    # the second from which on it is listed no longer
          "graphics": true                 # is in the list of graphics processes, otherwise in that of compute ones
        }],
        "lists": "Insufficient Permissions",  # both lists of processes fail with this error
        "mig": [{...}]                     # MIG is on; its devices, of the same form; null: an unused place
      }],
      "begins": 123.4,    # the CLOCK_MONOTONIC second that is second 0 of the curves; otherwise that of nvmlInit
      "clock": "/path",   # of a file with the second of the curves, in place of that clock
      "flush": 0.05,      # seconds between two writes of the process that asks NVML
      "answer": 0.05,     # seconds that each reading of memory takes
      "fail": "hang",     # "hang" for ever, "refuse" (Driver Not Loaded), "crash" (SIGSEGV), "lost" (GPU is lost)
      "at": 1.0           # the second of the curves from which on every call fails so; otherwise nvmlInit does
    }

Lines of the file that begin with # are left out. Errors have the names of pynvml's `NVMLError`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NVML_ERROR_NOT_SUPPORTED = 3
_VALUES = {
    "Not Supported": NVML_ERROR_NOT_SUPPORTED,
    "Insufficient Permissions": 4,
    "Not Found": 6,
    "Driver Not Loaded": 9,
    "Function Not Found": 13,
    "GPU is lost": 15,
}


class NVMLError(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.value = _VALUES.get(text, 999)


class _State:
    plan: dict[str, Any]
    zero: float


def _seconds() -> float:
    if clock := _State.plan.get("clock"):
        return float(Path(clock).read_text())
    return time.monotonic() - _State.zero


def _fail(how: str) -> None:
    if how == "hang":
        while True:
            time.sleep(3600)
    if how == "crash":
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    raise NVMLError({"refuse": "Driver Not Loaded", "lost": "GPU is lost"}[how])


def _call() -> None:
    """What each call does first."""
    if "fail" in _State.plan and _seconds() >= _State.plan["at"]:
        _fail(_State.plan["fail"])


def _value(points: list[list[Any]], ramp: bool = False) -> Any:
    """The curve's value now; 'absent' before its first point."""
    now = _seconds()
    past = [point for point in points if point[0] <= now]
    if not past:
        return "absent"
    begin, value = past[-1]
    rest = points[len(past) :]
    if not (ramp and rest):
        return value
    end, target = rest[0]
    return int(value + (target - value) * (now - begin) / (end - begin))


def nvmlInit() -> None:
    text = Path(os.environ["PYNVML_STANDIN"]).read_text()
    _State.plan = json.loads("\n".join(line for line in text.splitlines() if not line.startswith("#")))
    _State.zero = _State.plan.get("begins", time.monotonic())
    if "flush" in _State.plan:
        sys.modules["__main__"].FLUSH = _State.plan["flush"]  # type: ignore[attr-defined]
    if "fail" in _State.plan and "at" not in _State.plan:
        _fail(_State.plan["fail"])


def nvmlShutdown() -> None:
    pass


def nvmlSystemGetDriverVersion() -> str:
    return "580.95.05"


def nvmlDeviceGetCount() -> int:
    _call()
    return len(_State.plan["gpus"])


def nvmlDeviceGetHandleByIndex(index: int) -> dict[str, Any]:
    _call()
    gpu: dict[str, Any] = _State.plan["gpus"][index]
    return {"name": "NVIDIA H200", "uuid": f"GPU-{index}", "bus": f"00000000:{index + 1:02X}:00.0", **gpu}


def nvmlDeviceGetName(handle: dict[str, Any]) -> str:
    return str(handle["name"])


def nvmlDeviceGetUUID(handle: dict[str, Any]) -> str:
    return str(handle["uuid"])


def nvmlDeviceGetPciInfo(handle: dict[str, Any]) -> Any:
    return SimpleNamespace(busId=handle["bus"].encode())


def nvmlDeviceGetNumaNodeId(handle: dict[str, Any]) -> int:
    if "node" not in handle:
        raise NVMLError("Not Supported")
    return int(handle["node"])


def nvmlDeviceGetMemoryInfo(handle: dict[str, Any], version: int | None = None) -> Any:
    _call()
    time.sleep(_State.plan.get("answer", 0))
    if "memory" in handle:
        raise NVMLError(handle["memory"])
    if version and handle.get("first_version_only"):
        raise NVMLError("Function Not Found")
    reserved = handle.get("reserved", 0)
    used = _value(handle.get("used", [[0, 0]]), handle.get("ramp", False))
    free = handle["total"] - used - reserved
    if version:
        return SimpleNamespace(total=handle["total"], free=free, used=used, reserved=reserved)
    return SimpleNamespace(total=handle["total"], free=free, used=used + reserved)


def nvmlDeviceGetMigMode(handle: dict[str, Any]) -> list[int]:
    return [int("mig" in handle), int("mig" in handle)]


def nvmlDeviceGetMaxMigDeviceCount(handle: dict[str, Any]) -> int:
    return len(handle.get("mig", []))


def nvmlDeviceGetMigDeviceHandleByIndex(handle: dict[str, Any], index: int) -> dict[str, Any]:
    device = handle["mig"][index]
    if device is None:
        raise NVMLError("Not Found")
    return {"name": f"{handle['name']} MIG 1g.18gb", "uuid": f"MIG-{index}", "bus": handle["bus"], **device}


def nvmlDeviceGetComputeRunningProcesses(handle: dict[str, Any]) -> list[Any]:
    return _processes(handle, graphics=False)


def nvmlDeviceGetGraphicsRunningProcesses(handle: dict[str, Any]) -> list[Any]:
    return _processes(handle, graphics=True)


def _processes(handle: dict[str, Any], graphics: bool) -> list[Any]:
    _call()
    if "lists" in handle:
        raise NVMLError(handle["lists"])
    found = []
    for process in handle.get("processes", []):
        used, pid = _value(process["used"], handle.get("ramp", False)), _pid(process)
        listed = used != "absent" and pid is not None and _seconds() < process.get("until", float("inf"))
        if listed and bool(process.get("graphics")) == graphics:
            found.append(SimpleNamespace(pid=pid, usedGpuMemory=used))
    return found


def _pid(process: dict[str, Any]) -> int | None:
    if "pid" in process:
        return int(process["pid"])
    try:
        return int(Path(process["pid_file"]).read_text())
    except (OSError, ValueError):
        return None
