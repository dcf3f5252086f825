"""What a machine offers to each layer: of this one, and of copies of others."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.profile.trees import APUS, GIB, GRACE_HOPPER, MI300A, tree_of
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.machine import libraries
from firsttouch.machine.tree import Tree
from firsttouch.profile.fronts import TRACED
from firsttouch.profile.schema import LayerState
from firsttouch.profile.sources import LayerSource, sources

OWN: Mapping[str, str] = {
    "proc/self/statm": "1 1 1 1 0 1 0",
    "proc/self/smaps_rollup": "",
    "proc/self/smaps": "",
    "proc/self/numa_maps": "",
    "proc/sys/kernel/perf_event_paranoid": "2\n",
}
LOADED = [LayerState("phases", True), LayerState("trace", True)]


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NVML refuses, unless a test plays something else."""
    play(monkeypatch, tmp_path, fail="refuse")


@pytest.fixture
def no_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is asked for, in tests that look at other layers."""
    no_gpus = [], [LayerState("gpus", False, "not asked")]
    monkeypatch.setattr("firsttouch.profile.sources.read_gpus", lambda tree, timeout: no_gpus)


def play(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **plan: Any) -> None:
    file = tmp_path / "nvml.json"
    file.write_text(json.dumps({"gpus": [], **plan}))
    standin = str(Path(__file__).parent / "pynvml_standin")
    paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != standin]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([standin, *paths]))
    monkeypatch.setenv("PYNVML_STANDIN", str(file))


def of(found: Sequence[LayerSource], layer: str) -> list[LayerSource]:
    return [row for row in found if row.state.layer == layer]


def test_this_machine_can_be_sampled() -> None:
    found = sources(Tree(), injected=LOADED)
    own = of(found, "sampling")
    assert own[0].state.active
    assert_states(own[0].sees, "resident size", "page faults", "(statm, stat)")
    layers = dict.fromkeys(row.state.layer for row in found)
    assert [*layers][-4:] == ["processes", "faults", "phases", "trace"]
    for row in found:
        assert row.sees or row.state.why, "each row says something"
        assert bool(row.sees) == row.state.active


@pytest.mark.usefixtures("no_question")
def test_perf_events_are_tried_on_this_process_where_a_function_is_given() -> None:
    tried = []

    def open_perf(pid: int, every: int) -> tuple[None, list[LayerState]]:
        tried.append((pid, every > 0))
        return None, [LayerState("processes", True), LayerState("faults", False, "refused", "type this")]

    found = sources(Tree(), open_perf=open_perf)
    assert tried == [(os.getpid(), True)]
    assert "(perf events)" in of(found, "processes")[0].sees
    assert of(found, "faults") == [LayerSource(LayerState("faults", False, "refused", "type this"))]


@pytest.mark.usefixtures("no_question")
@pytest.mark.parametrize(
    ("level", "why", "mend"),
    [
        ("2", "", ""),
        ("-1", "", ""),
        ("4", "kernel.perf_event_paranoid is 4", "sudo sysctl kernel.perf_event_paranoid=2"),
        ("", "no perf events", ""),
    ],
)
def test_the_level_of_perf_events(tmp_path: Path, level: str, why: str, mend: str) -> None:
    found = sources(tree_of(tmp_path / "tree", {**OWN, "proc/sys/kernel/perf_event_paranoid": level}))
    for layer in ("processes", "faults"):
        (row,) = of(found, layer)
        assert (row.state.active, bool(row.state.why), row.state.mend) == (not why, bool(why), mend)
        assert_states(row.state.why, why)


@pytest.mark.usefixtures("no_question")
def test_an_old_kernel_without_numa(tmp_path: Path) -> None:
    files = {name: text for name, text in OWN.items() if "numa" not in name and "rollup" not in name}
    rows = of(sources(tree_of(tmp_path / "tree", files)), "sampling")
    assert [row.state.active for row in rows] == [True, False, True, False, False]
    for row, facts in zip(
        [row for row in rows if not row.state.active],
        [("PSS", "huge pages", "swap", "Linux 4.14"), ("NUMA node", "CONFIG_NUMA"), ("control group", "visible here")],
        strict=True,
    ):
        assert_states(row.state.why, "not seen", *facts)


def test_grace_hopper_names_the_node_of_its_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpu = {"name": "NVIDIA GH200 480GB", "total": 96 * GIB, "reserved": GIB, "bus": "00000009:01:00.0"}
    play(monkeypatch, tmp_path, gpus=[gpu])
    found = sources(tree_of(tmp_path / "tree", {**OWN, **GRACE_HOPPER}))
    (nodes,) = (row for row in of(found, "sampling") if "NUMA" in row.sees)
    assert_states(nodes.sees, "NUMA node", "numa_maps", "2 nodes", "node 1", "memory of gpu:0")
    (row,) = of(found, "gpus")
    assert row.state == LayerState("gpus", True)
    assert_states(row.sees, "gpu:0, NVIDIA GH200 480GB", "used", "free", "reserved", "by process", "(NVML)")


def test_four_apus_share_the_memory_of_the_host(tmp_path: Path) -> None:
    found = sources(tree_of(tmp_path / "tree", {**OWN, **MI300A}))
    rows = of(found, "gpus")
    assert len(rows) == len(APUS)
    assert_states(rows[3].sees, "gpu:3, gfx942", "by process", "mem_info_vram_used", "mem_info_gtt_used", "of the host")
    (nodes,) = (row for row in of(found, "sampling") if "NUMA" in row.sees)
    assert "4 nodes" in nodes.sees


def test_gpus_that_are_not_seen_have_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tree = tree_of(tmp_path / "tree", {**OWN, "proc/driver/nvidia/version": "x"})
    (unloaded,) = of(sources(tree), "gpus")
    assert (unloaded.state.active, unloaded.state.mend) == (False, "sudo modprobe nvidia")
    assert_states(unloaded.state.why, "NVIDIA GPUs", "NVML: Driver Not Loaded")
    play(monkeypatch, tmp_path, fail="hang")
    (hanging,) = of(sources(tree, timeout=0.5), "gpus")
    assert (hanging.state.active, hanging.state.mend) == (False, "")
    assert_states(hanging.state.why, "NVIDIA GPUs", "NVML", "0.5 s")
    silent = {"name": "NVIDIA GB10", "total": 1, "memory": "Not Supported"}
    play(monkeypatch, tmp_path, gpus=[silent, {"total": GIB, "lists": "Insufficient Permissions"}])
    unstated, first, second = of(sources(tree), "gpus")
    assert_states(unstated.state.why, "memory of gpu:0 (NVIDIA GB10)", "Not Supported")
    assert first.state.why == ""
    assert_states(first.sees, "gpu:0, NVIDIA GB10", "by process")
    assert_states(second.state.why, "memory of gpu:1", "by process", "Insufficient Permissions")
    assert "by process" not in second.sees


@pytest.mark.usefixtures("no_question")
def test_a_library_that_is_missing_is_said_as_it_was_found_out() -> None:
    missing = [LayerState("phases", False, "no library", "install it"), LayerState("trace", False, "no library")]
    found = sources(Tree(), injected=missing)
    assert [row.state for row in found[-2:]] == missing


def library(monkeypatch: pytest.MonkeyPatch, **paths: str) -> None:
    """Names the files of libraries; any library of this machine's kind will do."""
    for name, path in paths.items():
        monkeypatch.setenv(libraries.variable(name), path)


def trace(tree: Tree, is_root: bool) -> LayerState:
    row, *_ = of(sources(tree, injected=LOADED, is_root=is_root), "trace")
    return row.state


@pytest.mark.usefixtures("no_question")
def test_a_trace_needs_a_driver_cupti_and_permission(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    params = {"proc/driver/nvidia/params": "ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: 1\n"}
    closed = tree_of(tmp_path / "closed", {**OWN, **params})
    opened = tree_of(tmp_path / "open", {**OWN, "proc/driver/nvidia/params": "RmProfilingAdminOnly: 0\n"})
    library(monkeypatch, cuda="/nonexistent", cupti="/nonexistent")
    assert trace(opened, True).why.startswith("there is no CUDA driver: FIRSTTOUCH_LIB_CUDA names /nonexistent")
    library(monkeypatch, cuda=_core.__file__)
    state = trace(opened, True)
    assert (state.active, state.mend) == (False, "pip install nvidia-cuda-cupti")
    library(monkeypatch, cupti=_core.__file__)
    assert trace(opened, False) == trace(closed, True) == LayerState("trace", True)
    state = trace(closed, False)
    assert state.active, "only a try can tell"
    assert "RmProfilingAdminOnly" in state.why
    assert "NVreg_RestrictProfilingToAdminUsers=0" in state.mend


def test_each_interface_that_is_traced_has_a_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FIRSTTOUCH_LIB_OPENCL_ICD", "/there/is/none")
    rows = of(sources(tree_of(tmp_path / "tree", OWN), injected=LOADED, is_root=True), "trace")
    assert len(rows) == len(TRACED)
    for front, row in zip(TRACED[1:], rows[1:], strict=True):
        assert row.state.active == (front.api != "OpenCL")
        assert front.api in row.texts[0]
    (only,) = of(sources(tree_of(tmp_path / "tree", OWN), injected=[LayerState("trace", False, "no library")]), "trace")
    assert only.state.why == "no library"
