"""The memory of this machine's GPUs over time: NVIDIA's through a separate process (`profile.nvml`), AMD's from the
counters of their kernel driver.

All sizes are bytes and all times CLOCK_MONOTONIC seconds. Nothing here creates a context on a GPU.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

import msgspec

from firsttouch.base.files import anonymous_file
from firsttouch.base.processes import python_module
from firsttouch.machine import host
from firsttouch.machine.tree import Tree, parse_int
from firsttouch.profile import amdgpu, nvml
from firsttouch.profile.schema import LayerState, Notice, ProfiledGpu, Samples

INTERVAL = 0.01
"""Seconds between two readings, if a call does not say."""
SILENCE = 2.0
"""Seconds without a line of the process that asks NVML, after which it is said that NVML does not answer."""
_STOP_TIMEOUT = 1.0
_CHUNK = 1 << 16
_LONGEST_LINE = 1 << 24
_SLOW_APART, _TIMES_OWN_COST = 0.1, 50
_TAIL = 4096
_HELD = 100
"""Rows that are kept of a process that is not known (yet) to be part of the target."""
_NVIDIA_DRIVER = ("proc/driver/nvidia/version", "sys/module/nvidia")
_AMD_TICK = ["used"]
_MENDS = {"NVML: Driver Not Loaded": "sudo modprobe nvidia"}
_NOT_KNOWN = "the memory of NVIDIA GPUs is not known"


class GpuSampler:
    """Reads the memory of all GPUs until it is stopped. Its methods never wait for a library, except `start`.

    pid: of the process that asks NVML, None if there is none. cpu_seconds: what that process has used. interval:
    seconds between two readings, where the library is quick enough. command: starts another process in its place, for
    tests.
    """

    def __init__(self, tree: Tree, interval: float, command: Sequence[str] | None = None) -> None:
        self._tree, self.interval = tree, interval
        self._command = command or python_module("firsttouch.profile.nvml", repr(float(interval)))
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = -1
        with contextlib.suppress(OSError):  # no place for what the process says when it fails
            self._errors = anonymous_file("errors")
        self._text = b""
        self._decoder = msgspec.json.Decoder(nvml.NvmlLine)
        self._heard = 0.0
        self._is_lost = self._has_closed = False
        self._ending: subprocess.Popen[bytes] | None = None  # which has told all, while the driver holds it up
        self._lines: list[Samples | Notice] = []
        self._held_rows: dict[tuple[str, int], deque[nvml.SampleRow]] = {}
        self._amd: list[amdgpu.AmdGpu] = []
        self._amd_last: dict[str, int | None] = {}
        self._amd_rows: dict[str, list[nvml.SampleRow]] = {}
        self._slow_due = 0.0
        self._amd_processes: dict[tuple[str, int], int] = {}
        self.cpu_seconds = 0.0

    @property
    def has_ticks(self) -> bool:
        """Whether `tick` reads anything."""
        return bool(self._amd)

    @property
    def is_lost(self) -> bool:
        """Whether NVML no longer answers, or the process that asks it has ended."""
        return self._is_lost

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def launch(self) -> str:
        """Starts the process that asks NVML, unless it was started, and waits for nothing. Returns why it can't."""
        if self._process is not None:
            return ""
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors if self._errors >= 0 else subprocess.DEVNULL,
                start_new_session=True,  # the terminal's signals are the target's
                bufsize=0,
            )
        except OSError as error:
            return f"the process that asks NVML did not start: {error.strerror}"
        return ""

    def start(self, timeout: float = 10.0) -> tuple[list[ProfiledGpu], list[LayerState]]:
        """The GPUs with their memory now, and what can be seen of them.

        Waits up to `timeout` seconds for NVML's first answer.
        """
        reason = self.launch()
        answer = nvml.NvmlGpus(reason=reason) if reason else self._first_answer(timeout)
        gpus = [_with_node(self._tree, gpu) for gpu in answer.gpus]
        after = 1 + max((parse_int(gpu.name.removeprefix("gpu:")) or 0 for gpu in gpus), default=-1)
        self._amd = amdgpu.amd_gpus(self._tree, after)
        gpus += [amd_gpu.gpu for amd_gpu in self._amd]
        return gpus, [_state(gpus, answer, has_nvidia=any(map(self._tree.exists, _NVIDIA_DRIVER)))]

    def tick(self, now: float) -> None:
        """Reads the counters of AMD's driver. NVML is read in its own time."""
        for amd_gpu in self._amd:
            used, name = amd_gpu.used(), amd_gpu.gpu.name
            if name not in self._amd_last or self._amd_last[name] != used:
                self._amd_last[name] = used
                self._amd_rows.setdefault(name, []).append([now, used])

    def slow(self, pids: Iterable[int]) -> None:
        """Reads what processes have on AMD's GPUs, from each of their open files.

        Does nothing if less than 100 ms or 50 times its own last cost have passed since the last call that did.
        """
        begin = time.monotonic()
        if not self._amd or begin < self._slow_due:
            return
        for pid in pids:
            now = time.monotonic()
            used_by_gpu = amdgpu.memory_of(self._tree, pid, self._amd)
            if used_by_gpu is None:
                continue
            known_gpus = {name for name, owner in self._amd_processes if owner == pid}
            for name in sorted(known_gpus | used_by_gpu.keys()):
                size = used_by_gpu.get(name, 0)
                if self._amd_processes.get((name, pid)) != size:
                    self._amd_processes[name, pid] = size
                    self._hold(name, pid, [[now, size]])
        self._slow_due = begin + max(_SLOW_APART, _TIMES_OWN_COST * (time.monotonic() - begin))

    def drain(self, keys: Callable[[int], int | None]) -> list[Samples | Notice]:
        """What was read since the last call, and a notice if NVML no longer answers.

        keys: the key of a process of the target by its id, None if it is none. Rows of other processes are kept for a
        while, since a new process may become known later, and are then left out.
        """
        self._receive()
        lines, self._lines = self._lines, []
        for name, rows in self._amd_rows.items():
            lines.append(Samples(of=name, columns=_AMD_TICK, rows=rows))
        self._amd_rows = {}
        for (name, pid), process_rows in list(self._held_rows.items()):
            key = keys(pid)
            if key is not None:
                lines.append(Samples(of=f"{name}/process:{key}", columns=_AMD_TICK, rows=list(process_rows)))
            if key is not None or process_rows[-1][1] == 0:
                del self._held_rows[name, pid]
        return lines

    def ask_to_stop(self) -> None:
        """Lets the process that asks NVML end, for which `stop` waits."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def stop(self) -> None:
        """Ends the process that asks NVML. What it still wrote is returned by the next `drain`."""
        for amd_gpu in self._amd:
            amd_gpu.close()
        self._amd = []
        if self._process is not None and self._heard:
            self.ask_to_stop()
            end = time.monotonic() + _STOP_TIMEOUT
            self._is_lost = True
            while self._process is not None and not self._has_closed and (left := end - time.monotonic()) > 0:
                self._wait(left)
                self._receive()
        self._end()
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1

    # ------------------------------------------------------------------------------------------------------ the process

    def _first_answer(self, timeout: float) -> nvml.NvmlGpus:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            self._wait(left)
            answers = self._received()
            self._take(answers)
            answer = next((line for line in answers if isinstance(line, nvml.NvmlGpus)), None)
            if answer is not None:
                self._heard = time.monotonic()
                if not answer.gpus:
                    self._end()
                return answer
            if process.poll() is not None:
                return nvml.NvmlGpus(reason=self._end())
        self._end()
        return nvml.NvmlGpus(reason=f"NVML did not answer within {timeout:g} s")

    def _receive(self) -> None:
        """Takes what the process has written, and notices that it is silent or has ended."""
        if self._process is None:
            return
        now = time.monotonic()
        answers = self._received()
        if answers:
            self._heard = now
        self._take(answers)
        if self._process.poll() is not None:
            reason = self._end()
            if not self._is_lost:
                self._notice(now, f"{reason[0].upper()}{reason[1:]}; from now on, {_NOT_KNOWN}.")
        elif now - self._heard > SILENCE and not self._is_lost:
            self._notice(now, f"NVML has not answered for {SILENCE:g} s; until it does, {_NOT_KNOWN}.")

    def _take(self, answers: Iterable[nvml.NvmlLine]) -> None:
        for line in answers:
            if isinstance(line, nvml.Beat | nvml.NvmlGpus):
                self.cpu_seconds = line.cpu
            elif isinstance(line, Samples) and "/" in line.of:
                name, _, process = line.of.partition("/process:")
                self._hold(name, int(process), line.rows)
            elif isinstance(line, (Samples, Notice)):
                self._lines.append(line)

    def _notice(self, now: float, text: str) -> None:
        self._is_lost = True
        self._lines.append(Notice(t=now, text=text))

    def _wait(self, seconds: float) -> None:
        """Waits until the process writes or ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:  # select() refuses descriptors above 1023
            selector.register(self._process.stdout, selectors.EVENT_READ)
            selector.select(seconds)

    def _received(self) -> list[nvml.NvmlLine]:
        """The complete lines that the process has written."""
        assert self._process is not None
        assert self._process.stdout is not None
        chunks = [self._text]
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._process.stdout.fileno(), _CHUNK):
                chunks.append(chunk)
            self._has_closed = True
        *lines, self._text = b"".join(chunks)[-_LONGEST_LINE:].split(b"\n")
        received = []
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                received.append(self._decoder.decode(line))
        return received

    def _end(self) -> str:
        """Ends the process if it has not ended, and says how it did."""
        process, self._process = self._process, None
        if process is None:
            return ""
        if process.poll() is None:
            process.kill()
            self._ending = process
            with contextlib.suppress(subprocess.TimeoutExpired):  # a process inside a driver may not end
                process.wait(0 if self._has_closed else _STOP_TIMEOUT)
        for pipe in process.stdin, process.stdout:
            if pipe is not None:
                pipe.close()
        return f"the process that asks NVML ended with {self._last_words(process.returncode)}"

    def _last_words(self, status: int | None) -> str:
        if status is not None and status < 0:
            with contextlib.suppress(ValueError):
                return signal.Signals(-status).name
        if self._errors < 0:
            return f"status {status}"
        start = max(os.fstat(self._errors).st_size - _TAIL, 0)
        last = os.pread(self._errors, _TAIL, start).decode(errors="replace").strip().splitlines()[-1:]
        return last[0] if last else f"status {status}"

    def _hold(self, name: str, pid: int, rows: Iterable[nvml.SampleRow]) -> None:
        self._held_rows.setdefault((name, pid), deque(maxlen=_HELD)).extend(rows)


def _with_node(tree: Tree, gpu: ProfiledGpu) -> ProfiledGpu:
    """The GPU with its NUMA node by NVIDIA's kernel module, if NVML does not state it."""
    if gpu.node is not None:
        return gpu
    node = host.gpu_node(tree, gpu.pci)
    return gpu if node is None else msgspec.structs.replace(gpu, node=node)


def _state(gpus: Sequence[ProfiledGpu], answer: nvml.NvmlGpus, *, has_nvidia: bool) -> LayerState:
    """Whether the memory of any GPU is stated, and of which it is not. `Gpu.by_process` has what else is missing."""
    if not gpus and not has_nvidia:
        return LayerState("gpus", False, f"no GPU was found: {answer.reason}; and no amdgpu driver counts memory")
    missing = [f"NVIDIA GPUs are not seen: {answer.reason}"] if answer.reason and has_nvidia else []
    missing += [
        f"NVML does not state the memory of {gpu.name} ({gpu.model}): {answer.unstated[gpu.name]}"
        for gpu in gpus
        if gpu.name in answer.unstated
    ]
    active = any(gpu.before.used is not None for gpu in gpus)
    return LayerState("gpus", active, "; ".join(missing), _MENDS.get(answer.reason, ""))
