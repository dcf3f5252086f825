"""Strategies that are used only if they are named, on the HIP stand-in, which models memory that is not coherent while
a kernel runs: kernels use a cache of it that is written back when the CPU synchronises (STANDIN_CACHED).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command import app, in_process
from tests.matrix import matrix

from firsttouch.machine.allocators.properties import is_common
from firsttouch.program.strategies import STRATEGIES

ACCESSES = ("tests/program/test_workspace.py", "tests/program/test_gpu_only.py")
NOT_COHERENT = ("coarse-grained", "pinned-noncoherent")
COPIES = ("explicit+vmm", "explicit+fine-grained")
APU = {"STANDIN_INTEGRATED": "1", "STANDIN_ARCH": "gfx942:sramecc+"}


def options(*names: str) -> list[str]:
    return [*(word for name in names for word in ("--strategy", name)), "--size", "tiny", "--repeat", "1"]


def test_what_is_used_only_if_it_is_named_is_a_variant_of_an_allocator() -> None:
    named = [s for s in STRATEGIES.values() if s.on_request]
    assert {s.name for s in named} == {*NOT_COHERENT, *COPIES, "fine-grained", "pinned-wc"}
    assert not any(is_common(s.allocator) for s in named)


@pytest.mark.timeout(1300)
@pytest.mark.parametrize(
    ("names", "settings", "in_place"),
    matrix(
        [
            (["hotspot"], {}, False),
            (["hotspot", "kmeans"], APU, True),
            (["kmeans", "nw"], {"STANDIN_CONCURRENT": "0"}, False),
            (["hotspot", "nw"], {"HSA_XNACK": "1"}, False),
            (["--all"], {}, False),
        ]
    ),
)
@pytest.mark.slow
def test_each_is_verified_or_skipped_with_the_reason(
    names: list[str], settings: dict[str, str], in_place: bool, tmp_path: Path
) -> None:
    every = "--all" in names  # under the one that reads old data where a wait lacks
    kinds = NOT_COHERENT[:1] if every else (*NOT_COHERENT, *COPIES)
    call = [*names, *options(*kinds, "fine-grained", "pinned-wc")]
    for record in app(tmp_path / "out", *call, drawn=every, STANDIN_CACHED="1", **settings):
        name, strategy = str(record.factors["app"]), STRATEGIES[str(record.factors["strategy"])]
        if strategy.name == "pinned-wc":
            expected = "hip:0 has no allocator pinned-wc"
        elif strategy.name == "fine-grained" and not in_place:
            expected = "the CPU of hip:0 cannot use fine-grained memory in place"
        elif name == "producer_consumer" or (name == "pointer_tree" and strategy.duplicated):
            assert record.status == "skipped", record.factors
            continue
        else:
            assert (record.status, record.reason, record.verified) == ("ok", "", True), record.factors
            assert strategy.allocator in {b.allocator for b in record.buffers}
            continue
        assert (record.status, record.reason) == ("skipped", expected)


@pytest.mark.exhaustive
def test_agents_use_memory_that_is_not_coherent_in_disjoint_parts_or_in_turns(tmp_path: Path) -> None:
    call = ["kmeans_concurrent", "bfs_concurrent", *options(*NOT_COHERENT), "--set", "schedule=concurrent,lockstep"]
    for record in app(tmp_path / "out", *call, STANDIN_CACHED="1"):
        at_once = record.factors["schedule"] == "concurrent" and record.factors["strategy"] == "coarse-grained"
        assert (record.status, record.verified) == (("skipped", None) if at_once else ("ok", True)), record.factors


@pytest.mark.exhaustive
def test_applications_are_wrong_where_the_cache_is_not_written_back(tmp_path: Path) -> None:
    records = app(tmp_path / "out", "hotspot", *options(*NOT_COHERENT, "pinned"), status=3, STANDIN_CACHED="never")
    verified = {str(r.factors["strategy"]): r.verified for r in records}
    assert verified == dict.fromkeys(NOT_COHERENT, False) | {"pinned": True}


PROGRAM = """
import sys, time
from tests.harness.running import opencl
from firsttouch.program.execution.executor import Executor
from firsttouch.program.steps import Wait
from tests.program.test_workspace import TEXT, arrays
from firsttouch.program.execution.agents import Cpu, Gpu, KernelFile
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.execution.workspace import Workspace
info, device = opencl()
if sys.argv[2] == "without":
    play = Executor.play
    def play_without_waits(self, steps):
        for step in steps:
            time.sleep(0.2) if isinstance(step, Wait) else play(self, [step])
    Executor.play = play_without_waits
workspace, buffers = Workspace(STRATEGIES[sys.argv[1]], info, device), arrays()
gpu, cpu = Gpu(workspace, [KernelFile("accumulate", TEXT)]), Cpu(workspace, [])
workspace.allocate(buffers)
cpu.writes(buffers[0])[:] = 5
cpu.writes(buffers[1])[:] = 0
gpu.launch("overwrite", buffers[0], 0, buffers[1], 0, 64, 2, over=64, writes=[buffers[1]])
print(*set(cpu.reads(buffers[1]).tolist()))
"""


@pytest.mark.parametrize(
    ("strategy", "waits", "seen"),
    matrix(
        [
            ("pinned-noncoherent", "without", "0"),
            ("pinned-noncoherent", "with", "7"),
            ("coarse-grained", "without", "0"),
            ("coarse-grained", "with", "7"),
            ("pinned", "without", "7"),
        ]
    ),
)
def test_the_cpu_finds_old_data_where_the_workspace_does_not_wait(strategy: str, waits: str, seen: str) -> None:
    """Without waiting, the kernel has ended too: what lacks is the synchronisation."""
    process = in_process("-c", PROGRAM, strategy, waits)
    assert process.stdout.split() == [seen], process.stderr


@pytest.mark.exhaustive
@pytest.mark.timeout(310)
@pytest.mark.parametrize("settings", [{}, APU, {"STANDIN_CONCURRENT": "0"}, {"HSA_XNACK": "1"}])
def test_random_accesses_read_no_stale_byte(settings: dict[str, str]) -> None:
    call = ("-m", "pytest", "-m", "", "-p", "no:cacheprovider", *ACCESSES)
    process = in_process(*call, **settings)
    assert process.returncode == 0, process.stdout
    assert "passed" in process.stdout


@pytest.mark.exhaustive
def test_random_accesses_find_a_cache_that_is_not_written_back() -> None:
    call = ("-m", "pytest", "-m", "", "-p", "no:cacheprovider", "-k", "stale", *ACCESSES)
    process = in_process(*call, STANDIN_CACHED="never")
    assert f"{len(NOT_COHERENT)} failed" in process.stdout, process.stdout
    for strategy in NOT_COHERENT:
        assert f"stale_byte[{strategy}]" in process.stdout
