"""What this machine offers to each layer of a profile, and what to type for what it lacks.

Nothing of the machine is changed. The GPUs are read once, and perf events are opened on this process and closed again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from firsttouch.base.processes import why_foreign
from firsttouch.machine import cgroup
from firsttouch.machine.host import CAP_SYS_ADMIN, has_capability
from firsttouch.machine.libraries import find_library
from firsttouch.machine.tree import Tree, parse_int
from firsttouch.profile import process_memory
from firsttouch.profile.fronts import TRACED, Front, missing_driver
from firsttouch.profile.gpu_sampler import GpuSampler
from firsttouch.profile.inject import inject_environment
from firsttouch.profile.perf import open_processes
from firsttouch.profile.schema import LayerState, Node, ProfiledGpu

OpenPerf: TypeAlias = Callable[[int, int], tuple[Any, Sequence[LayerState]]]
"""Opens perf events on a process, which sample one of so many faults: profile.perf.open_processes."""

_INTERVAL = 1.0
_EVERY = 64
_PARANOID = "proc/sys/kernel/perf_event_paranoid"
_LARGEST_LEVEL = 2
_PARAMETERS, _ADMIN_ONLY = "proc/driver/nvidia/params", "RmProfilingAdminOnly"
_PERMIT = "sudo modprobe -r nvidia_uvm nvidia && sudo modprobe nvidia NVreg_RestrictProfilingToAdminUsers=0"
_INSTALL_CUPTI = "pip install nvidia-cuda-cupti"
_SEES = {
    "processes": "starts and ends of processes (perf events)",
    "faults": "who touched pages first (perf events of page faults, with --faults)",
    "phases": "NVTX ranges of the target (a library that NVTX loads into it)",
    "host": "what the CPU writes and reads of host buffers that are copied (userfaultfd, with --host)",
    "trace": f"{TRACED[0].traced} (CUPTI, with --trace)",
}


class LayerSource(NamedTuple):
    """A layer, or a part of it. sees: what it sees here, such as 'PSS, huge pages and swap (smaps_rollup)'."""

    state: LayerState
    sees: str = ""

    @property
    def texts(self) -> list[str]:
        """What it sees, and why it does not, or not all, with the line to type."""
        mend = f": {self.state.mend}" if self.state.mend else ""
        return [text for text in (self.sees, f"{self.state.why}{mend}") if text]


def of_this_machine() -> list[LayerSource]:
    """What this machine offers, with perf events tried on this process."""
    injected = inject_environment(Path(), nvtx=True, trace=True, host=True, current=os.environ)[1]
    return sources(Tree(), open_perf=open_processes, injected=injected)


def sources(
    tree: Tree,
    *,
    open_perf: OpenPerf | None = None,
    injected: Sequence[LayerState] = (),
    is_root: bool | None = None,
    timeout: float = 10.0,
) -> list[LayerSource]:
    """Rows in the order of `schema.Layer`: several of sampling, gpus and trace, one of each other layer.

    open_perf: tries perf events; None where that makes no sense, as on a test's copy of a machine. injected: whether
    the library can be loaded into the target, from profile.inject.inject_environment. is_root: whether this user is
    root, with its capabilities; None: find out. timeout: seconds to wait for NVML.
    """
    root = has_capability(tree, CAP_SYS_ADMIN) if is_root is None else is_root
    gpus, states = read_gpus(tree, timeout)
    return [
        *_sampling(tree, process_memory.nodes(tree, gpus)),
        *_gpus(gpus, states),
        *_perf(tree, open_perf),
        *(row for state in injected for row in _injected(tree, state, root)),
    ]


def read_gpus(tree: Tree, timeout: float = 10.0) -> tuple[list[ProfiledGpu], list[LayerState]]:
    """The GPUs and their memory now, and what can be seen of them."""
    sampler = GpuSampler(tree, _INTERVAL)
    try:
        return sampler.start(timeout)
    finally:
        sampler.stop()


def _sampling(tree: Tree, nodes: Sequence[Node]) -> Iterator[LayerSource]:
    rows = (
        ("proc/self/statm", "resident size and page faults (statm, stat)", "/proc is not mounted"),
        ("proc/self/smaps_rollup", "PSS, huge pages and swap (smaps_rollup)", "the kernel is older than Linux 4.14"),
        ("proc/self/smaps", "mappings (smaps)", "the kernel was built without CONFIG_PROC_PAGE_MONITOR"),
        (
            "proc/self/numa_maps",
            f"pages by NUMA node (numa_maps; {_described(nodes)})",
            "the kernel was built without CONFIG_NUMA",
        ),
    )
    foreign = why_foreign(tree.path("proc"))
    for file, files, missing in rows:
        yield _row(files, foreign or ("" if tree.exists(file) else missing))
    charged = cgroup.memory_charged(tree)
    yield _row("memory of the control group", "" if charged is not None else "no group that is visible here states it")


def _row(subject: str, missing: str) -> LayerSource:
    """A part of the layer sampling. missing: why it is not seen, '' if it is."""
    if missing:
        return LayerSource(LayerState("sampling", False, f"{subject.partition(' (')[0]}: not seen, since {missing}"))
    return LayerSource(LayerState("sampling", True), subject)


def _described(nodes: Sequence[Node]) -> str:
    of_gpus = [f"node {n.node} is the memory of {n.gpu}" for n in nodes if n.gpu and not n.processors]
    return "; ".join([f"{len(nodes)} node{'s' if len(nodes) != 1 else ''}", *of_gpus])


def _gpus(gpus: Sequence[ProfiledGpu], states: Sequence[LayerState]) -> Iterator[LayerSource]:
    """The states that say what is missing, then a row for each GPU whose memory is stated."""
    yield from (LayerSource(state) for state in states if state.why)
    for gpu in gpus:
        values = [name for name in ("used", "free", "reserved") if getattr(gpu.before, name) is not None]
        if values:
            sight = f"{gpu.name}, {gpu.model}: memory {', '.join(values)}{'' if gpu.by_process else ', by process'}"
            reason = f"memory of {gpu.name} by process: not seen, since {gpu.by_process}" if gpu.by_process else ""
            shared = "; it is memory of the host" if gpu.shares_host_memory else ""
            yield LayerSource(LayerState("gpus", True, reason), f"{sight} ({gpu.source}){shared}")
        elif not gpu.by_process:
            yield LayerSource(LayerState("gpus", True), f"{gpu.name}, {gpu.model}: memory by process ({gpu.source})")


def _perf(tree: Tree, open_perf: OpenPerf | None) -> list[LayerSource]:
    if open_perf is not None:
        events, states = open_perf(os.getpid(), _EVERY)
        del events  # closes them
    else:
        states = _states_by_level(tree.integer(_PARANOID))
    return [LayerSource(state, _SEES[state.layer] if state.active else "") for state in states]


def _states_by_level(level: int | None) -> list[LayerState]:
    """What kernel.perf_event_paranoid permits, where perf events are not tried."""
    if level is None:
        reason, mend = "this kernel has no perf events", ""
    elif level > _LARGEST_LEVEL:
        reason = f"kernel.perf_event_paranoid is {level}; {_LARGEST_LEVEL} or less permits perf events"
        mend = f"sudo sysctl kernel.perf_event_paranoid={_LARGEST_LEVEL}"
    else:
        reason, mend = "", ""
    return [LayerState("processes", not reason, reason, mend), LayerState("faults", not reason, reason, mend)]


def _injected(tree: Tree, state: LayerState, root: bool) -> list[LayerSource]:
    if state.layer != "trace" or not state.active:
        return [LayerSource(state, _SEES[state.layer] if state.active else "")]
    state = _trace(tree, state, root)
    return [LayerSource(state, _SEES["trace"] if state.active else ""), *map(_other_trace, TRACED[1:])]


def _other_trace(front: Front) -> LayerSource:
    """An interface besides CUDA, where the library can be loaded into programs."""
    why = f"there is no driver of {front.api}" if missing_driver(front) else ""
    return LayerSource(LayerState("trace", not why, why), "" if why else f"{front.traced} ({front.door}, with --trace)")


def _trace(tree: Tree, state: LayerState, root: bool) -> LayerState:
    """The state of the layer trace where its library can be loaded: it also needs a driver, CUPTI and permission."""
    if reason := find_library("cuda").reason:
        return LayerState("trace", False, f"there is no CUDA driver: {reason}")
    if reason := find_library("cupti").reason:
        return LayerState("trace", False, f"CUPTI is missing: {reason}", _INSTALL_CUPTI)
    if _admins_only(tree) and not root:
        caveat = f"CUPTI may refuse to record: {_PARAMETERS} says {_ADMIN_ONLY}, and this user is not root"
        return msgspec.structs.replace(state, why=caveat, mend=_PERMIT)
    return state


def _admins_only(tree: Tree) -> bool:
    """Whether NVIDIA's kernel module permits profiling to administrators only."""
    settings = dict(line.partition(":")[::2] for line in tree.lines(_PARAMETERS))
    return bool(parse_int(settings.get(_ADMIN_ONLY, "").strip()))
