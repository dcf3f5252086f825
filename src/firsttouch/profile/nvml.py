"""The process that asks NVIDIA's management library (NVML), so that its hangs and crashes end nothing else.

`python -m firsttouch.profile.nvml INTERVAL` writes lines of JSON: an `NvmlGpus`, then `schema.Samples`, `schema.Notice`
and a `Beat` five times a second. It ends when its standard input is closed. It makes no CUDA context. Source of all
names and units: the NVML API reference.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from firsttouch.base.encoding import encode_json
from firsttouch.machine.links import pci_address
from firsttouch.machine.nvidia import MEMORY_V2, NOT_AVAILABLE, Nvml, open_nvml
from firsttouch.profile.schema import GpuMemory, Notice, ProfiledGpu, ProfileLine, Samples

FLUSH = 0.2
"""Seconds between two writes."""
COLUMNS = ["used", "free", "reserved"]
_SHARE_OF_TICK = 0.1
_TIMES_OWN_COST = 10
_COSTS = 4
"""The number of readings of which the least cost counts."""
_PROCESSES_INTERVAL, _PROCESSES_TIMES_OWN_COST = 0.1, 50
_END = 0.5
"""Seconds after which a call of NVML that does not return is left at the end."""
_COMPUTE = "ComputeRunningProcesses"
_LONGEST_SLEEP = 0.05
_LISTS = (_COMPUTE, "GraphicsRunningProcesses")
_LIST_VERSIONS = ("", "_v2")
_OF_HOST = "Not Supported"
"""Why NVML states no memory of a GPU that uses the host's, such as GB10 and Thor."""
_FOREIGN = "NVML names processes by ids that do not exist in this PID namespace"
_NO_SIZES = "NVML lists the processes but not their memory"

SampleRow: TypeAlias = list["float | int | None"]


class NvmlGpus(ProfileLine, kw_only=True, tag="found"):
    """The first line. unstated: for each GPU whose memory NVML does not state, why. reason: why there are no GPUs.

    cpu: seconds of processor time of this process until now.
    """

    gpus: list[ProfiledGpu] = []
    unstated: dict[str, str] = {}
    reason: str = ""
    cpu: float = 0.0


class Beat(ProfileLine, kw_only=True, tag="beat"):
    """A sign of life. cpu: seconds of processor time of this process since its start."""

    t: float
    cpu: float


NvmlLine: TypeAlias = NvmlGpus | Beat | Samples | Notice


class Watched:
    """A GPU, or a MIG device, and what was last read of it."""

    def __init__(self, nvml: Nvml, handle: Any, name: str, pci: str) -> None:
        self._nvml, self._handle = nvml, handle
        self.name = name
        self._pci = pci
        self._versions, self.unstated = self._memory_versions()
        self._lists, self.by_process = self._process_lists()
        self._missing: set[int] = set()
        self._last: list[int | None] | None = None
        self._last_of: dict[int, int | None] = {}

    def describe(self) -> ProfiledGpu:
        """The GPU and its memory now. Looks a second time if ids of processes are listed that are not here."""
        node = self._nvml.query("DeviceGetNumaNodeId", self._handle)
        memory = self._memory()
        used, free, reserved = _columns(memory)
        self.processes()
        if self._missing:
            time.sleep(_PROCESSES_INTERVAL)
            self.processes()
        self._last_of = {}
        return ProfiledGpu(
            name=self.name,
            model=_text(self._nvml.query("DeviceGetName", self._handle)),
            uuid=_text(self._nvml.query("DeviceGetUUID", self._handle)),
            pci=self._pci,
            total=_stated(getattr(memory, "total", None)),
            before=GpuMemory(used=used, free=free, reserved=reserved),
            source="NVML" if self._versions or self.unstated else "NVML, where used includes what the driver reserves",
            by_process=self.by_process,
            shares_host_memory=self.unstated == _OF_HOST,
            node=node if isinstance(node, int) and node >= 0 else None,
        )

    def memory(self) -> SampleRow | None:
        """A row of COLUMNS without its time, None if nothing has changed."""
        row = _columns(self._memory())
        if self.unstated or row == self._last:
            return None
        self._last = row
        return [*row]

    def processes(self) -> dict[int, int | None]:
        """Bytes by process id where they have changed: 0 for a process that is listed no longer, None if unstated.

        Empty if the ids cannot be trusted. An id without a process may be one that has just ended, so that only an id
        that is missing twice means that the ids are those of another namespace.
        """
        if self.by_process:
            return {}
        try:
            listed = self._listed()
        except Exception:  # as a later call may succeed, the last values are kept
            return {}
        missing = {pid for pid in listed if not exists(pid)}
        if missing & self._missing:
            self.by_process = _FOREIGN
        self._missing = missing
        if missing:
            return {}
        if listed and all(size is None for size in listed.values()):
            self.by_process = _NO_SIZES
        changed = {pid: size for pid, size in listed.items() if self._last_of.get(pid, -1) != size}
        changed |= {pid: 0 for pid in self._last_of if pid not in listed}
        self._last_of = listed
        return changed

    def _memory(self) -> Any:
        """None if NVML does not state it, or not any more."""
        return None if self.unstated else self._nvml.query("DeviceGetMemoryInfo", self._handle, *self._versions)

    def _memory_versions(self) -> tuple[tuple[int, ...], str]:
        """The arguments of the newest form of the memory's reading that works, and why none does."""
        reason = ""
        for versions in (MEMORY_V2,), ():
            try:
                memory = self._nvml.call("DeviceGetMemoryInfo", self._handle, *versions)
            except Exception as error:
                reason = reason_of(error)
                continue
            if _stated(getattr(memory, "used", None)) is not None:
                return versions, ""
            reason = "its answer has no value"
        return (), reason

    def _process_lists(self) -> tuple[list[str], str]:
        """The functions that list processes, and why the memory by process is not known."""
        functions: list[str] = []
        reasons: dict[str, str] = {}
        for name in _LISTS:
            for version in _LIST_VERSIONS:
                try:
                    self._nvml.call(f"DeviceGet{name}{version}", self._handle)
                except Exception as error:
                    reasons.setdefault(name, reason_of(error))
                    continue
                functions.append(f"DeviceGet{name}{version}")
                reasons.pop(name, None)
                break
        reason = reasons.get(_COMPUTE)
        return functions, f"NVML does not list the processes: {reason}" if reason else ""

    def _listed(self) -> dict[int, int | None]:
        """Bytes by process id. A process in both lists has the same memory in both."""
        sizes: dict[int, int | None] = {}
        for function in self._lists:
            for process in self._nvml.call(function, self._handle):
                size = _stated(process.usedGpuMemory)
                before = sizes.get(process.pid)
                sizes[process.pid] = size if before is None else max(before, size or 0)
        return sizes


def watched(nvml: Nvml) -> list[Watched]:
    """The GPUs by NVML's numbers. The MIG devices of a GPU take its place, with numbers after those of all GPUs."""
    count = nvml.query("DeviceGetCount") or 0
    whole: list[Watched] = []
    parts: list[tuple[Any, str]] = []
    for index in range(count):
        handle = nvml.device(index)
        if handle is None:
            continue
        pci = pci_address(_text(getattr(nvml.query("DeviceGetPciInfo", handle), "busId", "")))
        devices = nvml.mig_devices(handle)
        parts += [(device, pci) for device in devices]
        if not devices:
            whole.append(Watched(nvml, handle, f"gpu:{index}", pci))
    numbered = enumerate(parts, start=count)
    return whole + [Watched(nvml, device, f"gpu:{index}", pci) for index, (device, pci) in numbered]


def sample(
    devices: Sequence[Watched], interval: float, send: Callable[[ProfileLine], None], stop: threading.Event
) -> None:
    """Reads the memory of all GPUs each `interval` if that takes at most a tenth of it, otherwise not more often than
    ten times its own cost; memory by process each 100 ms, and not more often than 50 times its own cost. A cost is the
    least of the last few, since a reading may wait while the driver does something else.
    """
    costs: deque[float] = deque(maxlen=_COSTS)
    costs_of_processes: deque[float] = deque(maxlen=_COSTS)
    rows: defaultdict[str, list[SampleRow]] = defaultdict(list)
    by_process = {device.name: device.by_process for device in devices}
    memory_due = processes_due = flush_due = time.monotonic()
    while True:
        now = time.monotonic()
        if now >= memory_due:
            for device in devices:
                at = time.monotonic()
                if (row := device.memory()) is not None:
                    rows[device.name].append([at, *row])
            costs.append(time.monotonic() - now)
            cost = min(costs)
            quick = cost <= _SHARE_OF_TICK * interval
            memory_due = max(memory_due + interval, now + cost) if quick else now + _TIMES_OWN_COST * cost
        if now >= processes_due:
            begin = time.monotonic()
            for device in devices:
                at = time.monotonic()
                for pid, size in device.processes().items():
                    rows[f"{device.name}/process:{pid}"].append([at, size])
                if device.by_process != by_process[device.name]:
                    by_process[device.name] = device.by_process
                    text = f"{device.by_process}, so the memory of {device.name} is not known by process."
                    send(Notice(t=at, text=text))
            costs_of_processes.append(time.monotonic() - begin)
            processes_due = now + max(_PROCESSES_INTERVAL, _PROCESSES_TIMES_OWN_COST * min(costs_of_processes))
        stopped = stop.is_set()
        if now >= flush_due or stopped:
            for track, new in rows.items():
                send(Samples(of=track, columns=COLUMNS if "/" not in track else COLUMNS[:1], rows=new))
            rows.clear()
            send(Beat(t=now, cpu=time.process_time()))
            flush_due = now + FLUSH
        if stopped:
            return
        left = min(memory_due, processes_due, flush_due) - time.monotonic()
        time.sleep(min(max(left, 0), _LONGEST_SLEEP))  # takes half the processor time of stop.wait


def exists(pid: int) -> bool:
    """Whether this PID namespace has a process of that id."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _columns(memory: Any) -> list[int | None]:
    """The values of COLUMNS; None where NVML states none."""
    return [_stated(getattr(memory, name, None)) for name in COLUMNS]


def _stated(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < NOT_AVAILABLE >> 1 else None


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def reason_of(error: Exception) -> str:
    if isinstance(error, AttributeError):
        return "the package nvidia-ml-py is too old"
    return " ".join(str(error).split()).rstrip(".") or type(error).__name__


def _stop_at_end_of_input(stop: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    stop.set()
    time.sleep(_END)
    os._exit(1)


def _main(interval: float) -> None:
    pipe = os.dup(1)
    os.dup2(2, 1)  # libraries may print

    def send(line: ProfileLine) -> None:
        text = memoryview(encode_json(line) + b"\n")
        while text:
            text = text[os.write(pipe, text) :]

    stop = threading.Event()
    threading.Thread(target=_stop_at_end_of_input, args=(stop,), daemon=True).start()
    try:
        with contextlib.ExitStack() as opened:
            try:
                nvml = opened.enter_context(open_nvml())
            except Exception as error:
                failure = reason_of(error)
                send(NvmlGpus(reason=failure if failure.startswith("NVML") else f"NVML: {failure}"))
                return
            devices = watched(nvml)
            gpus = [device.describe() for device in devices]
            unstated = {device.name: device.unstated for device in devices if device.unstated}
            reason = "" if gpus else "NVML lists no GPU"
            send(NvmlGpus(gpus=gpus, unstated=unstated, reason=reason, cpu=time.process_time()))
            if devices:
                sample(devices, interval, send, stop)
                os._exit(0)  # the driver frees what this process has
    except BrokenPipeError:
        return


if __name__ == "__main__":
    _main(float(sys.argv[1]))
