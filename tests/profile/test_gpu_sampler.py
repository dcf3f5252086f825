"""The sampler of GPUs, on a stand-in for NVML and on copies of /sys."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.profile.trees import APUS, GIB, GRACE_HOPPER, KIB, MI300A, MIB, tree_of
from tests.texts import assert_states

from firsttouch.machine.tree import Tree
from firsttouch.profile import amdgpu, gpu_sampler, nvml, process_memory
from firsttouch.profile.schema import LayerState, Notice, ProfiledGpu, Samples

STANDIN = str(Path(__file__).parent / "pynvml_standin")
NOBODY = 2**22 + 5
"""An id that no process has: the largest is 2**22."""

Play = Callable[..., gpu_sampler.GpuSampler]


class Clock:
    """The seconds of the stand-in's curves, which the test sets."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.set(0.0)

    def set(self, seconds: float) -> None:
        new = self.file.with_suffix(".new")
        new.write_text(str(seconds))
        new.replace(self.file)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    return Clock(tmp_path / "clock")


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """play(gpu_sampler, ...): a sampler whose NVML is the stand-in with these GPUs."""
    started: list[gpu_sampler.GpuSampler] = []

    def make(devices: list[dict[str, Any]], tree: Tree | None = None, interval: float = 0.01, **plan: Any) -> Any:
        file = tmp_path / "nvml.json"
        file.write_text(json.dumps({"gpus": devices, "flush": 0.02, **plan}))
        paths = [STANDIN, *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        monkeypatch.setenv("PYNVML_STANDIN", str(file))
        started.append(gpu_sampler.GpuSampler(tree or tree_of(tmp_path / "tree", {"proc/version": "x"}), interval))
        return started[-1]

    yield make
    for sampler in started:
        sampler.stop()


def nobody(pid: int) -> int | None:
    return None


class Seen:
    """What a sampler has returned so far."""

    def __init__(self, sampler: gpu_sampler.GpuSampler, keys: Callable[[int], int | None] = nobody) -> None:
        self.sampler, self.keys = sampler, keys
        self.rows: dict[str, list[list[Any]]] = {}
        self.notices: list[str] = []

    def until(self, holds: Callable[[Seen], object], seconds: float = 60.0) -> Seen:
        end = time.monotonic() + seconds
        while not holds(self):
            if time.monotonic() > end:
                raise TimeoutError((self.rows, self.notices))
            time.sleep(0.01)
            self.take()
        return self

    def go_on(self) -> None:
        """Until the process that asks NVML has written several times more."""
        for _ in range(5):
            self.until(lambda s, before=self.sampler.cpu_seconds: s.sampler.cpu_seconds != before)

    def take(self) -> None:
        self.sampler.tick(time.monotonic())
        for line in self.sampler.drain(self.keys):
            if isinstance(line, Notice):
                self.notices.append(line.text)
            else:
                assert all(len(row) == 1 + len(line.columns) for row in line.rows)
                self.rows.setdefault(line.of, []).extend(line.rows)

    def values(self, of: str) -> list[Any]:
        """Of each row the first value after the time."""
        return [row[1] for row in self.rows.get(of, [])]


def only(states: list[LayerState]) -> LayerState:
    (state,) = states
    assert state.layer == "gpus"
    return state


TWO: list[dict[str, Any]] = [
    {
        "total": 100 * GIB,
        "reserved": GIB,
        "used": [[0, 5 * GIB], [2, 9 * GIB], [4, 6 * GIB]],
        "processes": [
            {"pid": os.getpid(), "used": [[1, GIB], [3, 2 * GIB]], "until": 5},
            {"pid": 1, "used": [[0, 4 * GIB]]},
        ],
    },
    {"total": 50 * GIB, "used": [[0, MIB]], "name": "NVIDIA L4"},
]


def test_two_gpus_and_a_neighbour(play: Play, clock: Clock) -> None:
    sampler = play(TWO, clock=str(clock.file))
    found, states = sampler.start()
    assert only(states) == LayerState("gpus", True)
    assert [(gpu.name, gpu.model, gpu.uuid, gpu.pci, gpu.total) for gpu in found] == [
        ("gpu:0", "NVIDIA H200", "GPU-0", "0000:01:00.0", 100 * GIB),
        ("gpu:1", "NVIDIA L4", "GPU-1", "0000:02:00.0", 50 * GIB),
    ]
    assert found[0].before.used == 5 * GIB
    assert found[0].before.reserved == GIB
    assert found[0].before.free == 94 * GIB
    assert found[0].node is None
    assert (found[0].source, found[0].by_process) == ("NVML", "")
    seen = Seen(sampler, {os.getpid(): 3}.get).until(lambda s: s.values("gpu:0") and s.values("gpu:1"))
    of, process = "gpu:0", "gpu:0/process:3"
    for second, row, value in [(1, process, GIB), (2, of, 9 * GIB), (3, process, 2 * GIB), (4, of, 6 * GIB)]:
        clock.set(second)
        seen.until(lambda s, row=row, value=value: s.values(row)[-1:] == [value])
    clock.set(5)
    seen.until(lambda s: s.values(process)[-1:] == [0])
    assert seen.values("gpu:0") == [5 * GIB, 9 * GIB, 6 * GIB], "a row for each change"
    assert seen.values("gpu:1") == [MIB]
    assert seen.values("gpu:0/process:3") == [GIB, 2 * GIB, 0], "0 once NVML lists it no longer"
    assert set(seen.rows) == {"gpu:0", "gpu:1", "gpu:0/process:3"}, "the neighbour is not attributed"
    assert seen.rows["gpu:0"][1][1:] == [9 * GIB, 90 * GIB, GIB]
    times = [row[0] for row in seen.rows["gpu:0"]]
    assert times == sorted(times)
    assert not seen.notices
    assert sampler.cpu_seconds > 0


def test_a_process_that_becomes_known_later_has_its_first_rows(play: Play) -> None:
    sampler = play([{"total": GIB, "processes": [{"pid": os.getpid(), "used": [[0, 5]]}]}])
    sampler.start()
    seen = Seen(sampler).until(lambda s: "gpu:0" in s.rows)
    seen.go_on()
    assert set(seen.rows) == {"gpu:0"}
    seen.keys = {os.getpid(): 0}.get
    assert seen.until(lambda s: "gpu:0/process:0" in s.rows).values("gpu:0/process:0") == [5]


def test_memory_that_is_not_stated_is_none_and_has_a_reason(play: Play) -> None:
    sampler = play([{"total": 1, "memory": "Not Supported", "name": "NVIDIA GB10"}])
    (gpu,), states = sampler.start()
    assert (gpu.total, gpu.before.used, gpu.before.free, gpu.source) == (None, None, None, "NVML")
    assert gpu.shares_host_memory
    state = only(states)
    assert (state.layer, state.active) == ("gpus", False)
    assert_states(state.why, "NVML", "memory of gpu:0 (NVIDIA GB10)", "Not Supported")
    seen = Seen(sampler)
    seen.go_on()
    assert not seen.rows


def test_a_driver_that_does_not_state_reserved(play: Play) -> None:
    (gpu,), _ = play([{"total": 1000, "reserved": 10, "used": [[0, 90]], "first_version_only": True}]).start()
    assert (gpu.before.used, gpu.before.reserved) == (100, None)
    assert_states(gpu.source, "NVML", "used includes", "driver reserves")


def test_processes_that_nvml_does_not_list(play: Play) -> None:
    sampler = play([{"total": GIB, "lists": "Insufficient Permissions"}])
    (gpu,), states = sampler.start()
    assert_states(gpu.by_process, "NVML", "processes: Insufficient Permissions")
    assert only(states) == LayerState("gpus", True)


def test_processes_without_a_size(play: Play) -> None:
    (gpu,), _ = play([{"total": GIB, "processes": [{"pid": os.getpid(), "used": [[0, None]]}]}]).start()
    assert_states(gpu.by_process, "NVML lists the processes", "not their memory")


@pytest.mark.parametrize("pid", [NOBODY, 0])
def test_processes_of_another_pid_namespace(play: Play, pid: int) -> None:
    """Also those whose id happens to exist here must not be attributed."""
    used = [[0, GIB]]
    sampler = play([{"total": GIB, "processes": [{"pid": pid, "used": used}, {"pid": os.getpid(), "used": used}]}])
    (gpu,), states = sampler.start()
    assert_states(gpu.by_process, "NVML", "PID namespace")
    assert only(states).active
    seen = Seen(sampler, {os.getpid(): 0, pid: 1}.get).until(lambda s: "gpu:0" in s.rows)
    seen.go_on()
    assert set(seen.rows) == {"gpu:0"}


def test_foreign_processes_that_appear_later_are_said_once(play: Play, clock: Clock) -> None:
    sampler = play([{"total": GIB, "processes": [{"pid": NOBODY, "used": [[1, GIB]]}]}], clock=str(clock.file))
    (gpu,), _ = sampler.start()
    assert gpu.by_process == ""
    clock.set(1)
    seen = Seen(sampler).until(lambda s: s.notices)
    seen.go_on()
    (notice,) = seen.notices
    assert_states(notice, "NVML", "PID namespace", "memory of gpu:0", "by process")


def test_mig_devices_take_the_place_of_their_gpu(play: Play) -> None:
    parts = [{"total": 18 * GIB, "used": [[0, n * MIB]]} for n in (1, 2)]
    whole = {"total": 140 * GIB, "memory": "Insufficient Permissions", "mig": [parts[0], None, parts[1]]}
    found, states = play([whole, {"total": GIB}]).start()
    assert [(gpu.name, gpu.uuid, gpu.before.used) for gpu in found] == [
        ("gpu:1", "GPU-1", 0),
        ("gpu:2", "MIG-0", MIB),
        ("gpu:3", "MIG-2", 2 * MIB),
    ]
    assert found[1].model == "NVIDIA H200 MIG 1g.18gb"
    assert found[1].pci == "0000:01:00.0"
    assert only(states) == LayerState("gpus", True)


def test_mig_without_devices_for_this_user(play: Play) -> None:
    refused = "Insufficient Permissions"
    (gpu,), states = play([{"total": GIB, "memory": refused, "lists": refused, "mig": [None]}]).start()
    assert (gpu.name, gpu.total, gpu.before.used) == ("gpu:0", None, None)
    assert not only(states).active
    assert refused in only(states).why


@pytest.mark.parametrize(
    ("fail", "why"),
    [
        ("hang", "NVML did not answer within 0.3 s"),
        ("refuse", "NVML: Driver Not Loaded"),
        ("crash", "the process that asks NVML ended with SIGSEGV"),
    ],
)
def test_nvml_that_fails_at_the_start(play: Play, tmp_path: Path, fail: str, why: str) -> None:
    tree = tree_of(tmp_path / "tree", {"proc/driver/nvidia/version": "x"})
    sampler = play([], tree, fail=fail)
    found, states = sampler.start(timeout=0.3 if fail == "hang" else 10.0)
    assert found == []
    assert not only(states).active
    assert why in only(states).why
    assert sampler.pid is None
    assert sampler.drain(nobody) == []


@pytest.mark.parametrize(
    ("fail", "why"),
    [
        ("hang", "NVML has not answered for 2 s; until it does, the memory of NVIDIA GPUs is not known."),
        (
            "crash",
            "The process that asks NVML ended with SIGSEGV; from now on, the memory of NVIDIA GPUs is not known.",
        ),
    ],
)
def test_nvml_that_fails_later_is_said_once(
    play: Play, clock: Clock, monkeypatch: pytest.MonkeyPatch, fail: str, why: str
) -> None:
    sampler = play([{"total": GIB, "used": [[0, MIB]]}], fail=fail, at=1.0, clock=str(clock.file))
    _, states = sampler.start()
    assert only(states).active
    seen = Seen(sampler).until(lambda s: s.values("gpu:0"))
    clock.set(1)
    since = time.monotonic()
    with monkeypatch.context() as patch:  # in which time flies
        quick = SimpleNamespace(monotonic=lambda: since + 10 * (time.monotonic() - since))
        patch.setattr(gpu_sampler, "time", quick)
        seen.until(lambda s: s.notices)
    for _ in range(5):
        time.sleep(0.01)
        seen.take()
    sampler.stop()
    seen.take()
    assert seen.notices == [why]
    assert seen.values("gpu:0") == [MIB]


def test_a_gpu_that_is_lost_is_unknown_from_then_on(play: Play, clock: Clock) -> None:
    sampler = play([{"total": GIB, "used": [[0, MIB]]}], fail="lost", at=1.0, clock=str(clock.file))
    sampler.start()
    seen = Seen(sampler).until(lambda s: s.values("gpu:0"))
    clock.set(1)
    seen.until(lambda s: len(s.values("gpu:0")) == 2)
    assert seen.rows["gpu:0"][1][1:] == [None, None, None]


def test_a_slow_library_is_asked_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading of 20 ms at an interval of 10 ms is made five times a second."""
    now, rows = [0.0], []  # in seconds, which pass while the library is read and in sleep

    def pass_time(seconds: float) -> None:
        now[0] += max(seconds, 1e-6)

    def memory() -> list[int]:
        pass_time(0.02)
        return [0]

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=pass_time, process_time=lambda: 0.0)
    monkeypatch.setattr(nvml, "time", clock)
    slow: Any = SimpleNamespace(name="gpu:0", by_process="", memory=memory, processes=dict)
    stop: Any = SimpleNamespace(is_set=lambda: now[0] > 1)
    nvml.sample([slow], 0.01, lambda line: rows.extend(getattr(line, "rows", ())), stop)
    assert [round(row[0], 2) for row in rows] == [0, 0.2, 0.4, 0.6, 0.8, 1.0]


def test_the_last_rows_come_after_the_end(play: Play) -> None:
    """Also those that the process had not written when it was ended."""
    sampler = play([{"total": GIB, "used": [[-100, 0], [100, 2**28]], "ramp": True}], flush=60)
    sampler.start()
    seen = Seen(sampler).until(lambda s: s.values("gpu:0"))
    assert len(seen.values("gpu:0")) == 1, "what is read later is written after a minute"
    time.sleep(0.3)
    sampler.stop()
    seen.take()
    assert len(seen.values("gpu:0")) > 1
    assert not seen.notices
    assert sampler.pid is None


def test_the_process_ends_with_its_parent(play: Play, tmp_path: Path) -> None:
    play([{"total": GIB}])
    code = (
        "import os, signal; from pathlib import Path; from firsttouch.machine.tree import Tree\n"
        f"from firsttouch.profile.gpu_sampler import GpuSampler; s = GpuSampler(Tree(Path({str(tmp_path)!r})), 0.01)\n"
        "s.start(); print(s.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    wait_for_end(int(done.stdout))


def wait_for_end(pid: int) -> None:
    """Until a process that is no child of this one has ended; a zombie has."""
    end = time.monotonic() + 60
    while "State:\tZ" not in (status := _status(pid)) and status:
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.05)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root, for a PID namespace")
def test_ids_inside_a_real_pid_namespace(play: Play, tmp_path: Path) -> None:
    """In the namespace, this process's id does not exist, as where a driver states ids of the host."""
    play([{"total": GIB, "processes": [{"pid": os.getpid(), "used": [[0, GIB]]}]}])
    code = (
        "from pathlib import Path; from firsttouch.machine.tree import Tree\n"
        f"from firsttouch.profile.gpu_sampler import GpuSampler; s = GpuSampler(Tree(Path({str(tmp_path)!r})), 0.01)\n"
        "print(s.start()[0][0].by_process); s.stop()"
    )
    command = ["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode and "unshare" in done.stderr:
        pytest.skip("this machine allows no PID namespaces")
    assert "PID namespace" in done.stdout, done.stderr


def test_no_gpu_and_no_library(tmp_path: Path) -> None:
    sampler = gpu_sampler.GpuSampler(Tree(tmp_path), 0.01, [sys.executable, "-c", "import sys; sys.exit('no pynvml')"])
    found, states = sampler.start()
    assert found == []
    assert_states(only(states).why, "no GPU", "NVML", "ended with no pynvml", "amdgpu driver")
    sampler.stop()
    missing = gpu_sampler.GpuSampler(Tree(tmp_path), 0.01, ["/nonexistent"])
    assert_states(only(missing.start()[1]).why, "did not start", os.strerror(errno.ENOENT))
    missing.stop()


def test_no_place_for_what_the_process_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(gpu_sampler, "anonymous_file", refuse)
    sampler = gpu_sampler.GpuSampler(Tree(tmp_path), 0.01, [sys.executable, "-c", "import sys; sys.exit('no pynvml')"])
    assert "the process that asks NVML ended with status 1" in only(sampler.start()[1]).why
    sampler.stop()


def test_nonsense_from_the_process_is_left_out(tmp_path: Path) -> None:
    code = 'print(\'\\x00{\'); print(\'{"line": "samples", "of": 5}\'); print(\'{"line": "found"\'); print()'
    sampler = gpu_sampler.GpuSampler(Tree(tmp_path), 0.01, [sys.executable, "-c", code])
    assert sampler.start()[0] == []
    sampler.stop()


def test_one_process_begins_to_answer_before_it_is_asked(tmp_path: Path) -> None:
    started = tmp_path / "started"
    code = f'open({str(started)!r}, \'a\').write(\'x\'); print(\'{{"line":"found","reason":"NVML: x"}}\')'
    sampler = gpu_sampler.GpuSampler(Tree(tmp_path), 0.01, [sys.executable, "-c", code])
    assert sampler.launch() == sampler.launch() == ""
    assert "NVML: x" in only(sampler.start()[1]).why
    assert started.read_text() == "x"
    sampler.stop()


def test_a_process_that_cannot_be_launched_is_told_of_at_the_start(tmp_path: Path) -> None:
    sampler = gpu_sampler.GpuSampler(Tree(tmp_path), 0.01, ["/nonexistent"])
    assert os.strerror(errno.ENOENT) in sampler.launch()
    assert os.strerror(errno.ENOENT) in only(sampler.start()[1]).why
    sampler.stop()


@pytest.mark.parametrize("code", ["import time; time.sleep(100)", "import sys; sys.exit(1)", "input(); input()"])
def test_a_process_that_was_never_asked_is_ended(tmp_path: Path, code: str) -> None:
    """The program was not started, so that nobody waits for NVML's answer."""
    sampler = gpu_sampler.GpuSampler(Tree(tmp_path), 0.01, [sys.executable, "-c", code])
    assert sampler.launch() == ""
    pid = sampler.pid
    assert pid is not None
    sampler.stop()
    sampler.stop()
    assert not nvml.exists(pid)


# ----------------------------------------------------------------------------------------------- machines with a kernel


def test_the_node_of_grace_hopper_by_nvml_or_by_the_kernel_module(play: Play, tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "gh", GRACE_HOPPER)
    gpu = {"total": 96 * GIB, "bus": "00000009:01:00.0", "name": "NVIDIA GH200 480GB"}
    for stated in ({"node": 1}, {}):
        found, _ = play([gpu | stated], tree).start()
        assert found[0].node == 1
        assert [(n.node, n.gpu) for n in process_memory.nodes(tree, found)] == [(0, ""), (1, "gpu:0")]


def no_nvml(tree: Tree) -> gpu_sampler.GpuSampler:
    return gpu_sampler.GpuSampler(tree, 0.01, [sys.executable, "-c", 'print(\'{"line":"found","reason":"NVML: x"}\')'])


def test_four_apus(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, MI300A)
    sampler = no_nvml(tree)
    found, states = sampler.start()
    assert only(states) == LayerState("gpus", True), "that NVML is not here is no lack on this machine"
    assert found == [
        ProfiledGpu(
            name=f"gpu:{n}",
            model="gfx942",
            pci=bus,
            before=found[n].before,
            source="mem_info_vram_used and mem_info_gtt_used of the amdgpu driver",
            node=n,
            shares_host_memory=True,
        )
        for n, bus in enumerate(APUS)
    ]
    assert [gpu.before.used for gpu in found] == [GIB + n + 16 * MIB for n in range(4)]
    assert [node.gpu for node in process_memory.nodes(tree, found)] == ["gpu:0", "gpu:1", "gpu:2", "gpu:3"]
    seen = Seen(sampler)
    seen.take()
    seen.take()
    tree_of(tmp_path, {f"sys/bus/pci/devices/{APUS[2]}/mem_info_vram_used": f"{3 * GIB}\n"})
    seen.take()
    tree_of(tmp_path, {f"sys/bus/pci/devices/{APUS[2]}/mem_info_vram_used": "x"})
    seen.take()
    assert seen.values("gpu:1") == [GIB + 1 + 16 * MIB]
    assert seen.values("gpu:2") == [GIB + 2 + 16 * MIB, 3 * GIB + 16 * MIB, None], "unknown is not zero"
    sampler.stop()


CARD = "0000:c1:00.0"
DISCRETE = {
    f"sys/bus/pci/devices/{CARD}/mem_info_vram_used": f"{GIB}\n",
    f"sys/bus/pci/devices/{CARD}/mem_info_vram_total": f"{64 * GIB}\n",
    f"sys/bus/pci/devices/{CARD}/mem_info_gtt_used": f"{MIB}\n",
    f"sys/bus/pci/devices/{CARD}/numa_node": "3\n",
    f"sys/bus/pci/devices/{CARD}/product_name": "AMD Instinct MI210\n",
    "sys/bus/pci/devices/0000:00:01.0/vendor": "0x8086\n",
}


def client(fd: int, pid: int, kibibytes: int, number: int = 5) -> dict[str, str]:
    text = (
        f"pos: 0\ndrm-pdev: {CARD}\ndrm-client-id: {number}\ndrm-memory-vram: {kibibytes} KiB\ndrm-memory-gtt: 9 KiB\n"
    )
    return {f"proc/{pid}/fdinfo/{fd}": text}


def test_a_card_of_amd_and_its_processes(tmp_path: Path) -> None:
    silent = {"proc/9/fdinfo/0": "pos: 0\n", "proc/10/fdinfo/0": f"drm-pdev: {CARD}\ndrm-client-id: 1\n"}
    clients = client(3, 7, 100) | client(4, 7, 100) | client(5, 7, 20, number=6) | client(3, 8, 50)
    tree = tree_of(tmp_path, {**DISCRETE, **clients, **silent})
    sampler = no_nvml(tree)
    (gpu,), _ = sampler.start()
    assert (gpu.name, gpu.model, gpu.pci, gpu.total) == ("gpu:0", "AMD Instinct MI210", CARD, 64 * GIB)
    assert (gpu.before.used, gpu.before.free) == (GIB, None)
    assert (gpu.node, gpu.shares_host_memory) == (None, False), "its nearest node is not its memory"
    seen = Seen(sampler, {7: 1, 9: 2, 10: 3, 11: 4}.get)
    sampler.slow([7, 8, 9, 10, 11])
    seen.take()
    time.sleep(0.1)
    sampler.slow([7])
    seen.take()
    for fd in (3, 4, 5):
        (tmp_path / f"proc/7/fdinfo/{fd}").unlink()
    tree_of(tmp_path, {"proc/7/fdinfo/0": "pos: 0\n"})
    for _ in range(50):  # a busy machine reads less often
        time.sleep(0.1)
        sampler.slow([7])
        seen.take()
        if seen.values("gpu:0/process:1")[-1] == 0:
            break
    assert seen.values("gpu:0") == [GIB]
    assert seen.values("gpu:0/process:1") == [120 * KIB, 0], "each client once; 0 once it has closed them"
    assert set(seen.rows) == {"gpu:0", "gpu:0/process:1"}
    sampler.stop()


def test_both_vendors_on_one_machine(play: Play, tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "both", DISCRETE)
    found, states = play([{"total": GIB}, {"total": GIB}], tree).start()
    assert [(gpu.name, gpu.pci) for gpu in found] == [
        ("gpu:0", "0000:01:00.0"),
        ("gpu:1", "0000:02:00.0"),
        ("gpu:2", CARD),
    ]
    assert only(states) == LayerState("gpus", True)


def test_a_process_whose_files_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    tree = tree_of(tmp_path, DISCRETE)
    cards = amdgpu.amd_gpus(tree)
    assert amdgpu.memory_of(tree, 7, cards) is None
    for card in cards:
        card.close()


def test_samples_are_lines_of_the_profile(play: Play) -> None:
    sampler = play([{"total": GIB}])
    sampler.start()
    seen = Seen(sampler).until(lambda s: s.rows)
    assert all(isinstance(row[0], float) for rows in seen.rows.values() for row in rows)
    assert Samples(of="gpu:0", columns=["used", "free", "reserved"], rows=seen.rows["gpu:0"]).rows
