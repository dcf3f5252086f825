"""How often kernels take the bytes of arrays from memory, as applications declare it, and what runs in place show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from tests.kept_runs import stored_run

from firsttouch.advice.advisor import choose_device, measured_runs
from firsttouch.apps import all_apps
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32, solve
from firsttouch.model.estimate import estimate
from firsttouch.model.measured import MeasuredPrices
from firsttouch.program.dry_run import program_of
from firsttouch.program.program import Item, Launch, Repeat
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.reading import load_results
from firsttouch.records.schema import as_number

MIB = 2**20
ON_THE_GPU = ("bfs", "cfd", "dwt2d", "fdtd3d", "gaussian", "gemm", "graph500_bfs", "hotspot", "lud", "mapped_file",
              "nw", "pathfinder", "pointer_tree", "srad")  # fmt: skip
"""Applications whose computation is the GPU's alone, or nearly so."""


class Gathering(App):
    """Launches that take bytes of an array several times, and a sequence of launches of different sizes."""

    name = "gathering"
    source = "this test"
    pattern = "a gather"
    sizes = {"tiny": {"n": 1024}, "default": {"n": 1024}}
    kernel_text = "KERNEL gather(GLOBAL const float *a, GLOBAL float *b, ulong n) { FOR_EACH(i, n) b[i] = a[i]; }"
    n: int
    a = buffer(f32, "n", role="input", starts_on="cpu")
    b = buffer(f32, "n", role="output", ends_on="cpu")

    def prepare(self, gpu: Gpu) -> None:
        self.sequence = gpu.sequence()
        for k in range(1, 5):
            self.sequence.add("gather", self.a, self.b, k * 64, over=k * 64)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.fill(self.a, 1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        gpu.launch("gather", self.a, self.b, self.n, over=self.n, writes=[self.b], passes={self.a: 16})
        gpu.launch("gather", self.a, self.b, self.n, over=self.n, writes=[self.b])
        for first in range(4):
            gpu.replay(self.sequence, first=first, count=1, reads=[self.a], writes=[self.b], passes={self.a: 2})

    def check(self, view: View) -> str:
        return ""


def launches(items: Sequence[Item]) -> list[Launch]:
    flat: list[Launch] = []
    for item in items:
        flat += (
            launches(item.body) * item.count if isinstance(item, Repeat) else [item] if isinstance(item, Launch) else []
        )
    return flat


def test_a_launch_takes_bytes_as_often_as_it_says_and_a_sequence_in_all() -> None:
    passes = [
        {access.block: access.passes for access in launch.accesses}
        for launch in launches(program_of(Gathering, {"n": 1024}).compute)
    ]
    assert passes[:2] == [{0: 16.0, 1: 1.0}, {0: 1.0, 1: 1.0}]
    assert [each[0] for each in passes[2:]] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert sum(each[0] for each in passes[2:]) == pytest.approx(2)


def test_kernels_that_pack_a_border_do_not_take_all_fields() -> None:
    app = all_apps()["halo"]
    parameters = solve(app, 256 * MIB)
    for launch in launches(program_of(app, parameters).compute):
        if launch.kernel in ("halo_pack", "halo_fill"):
            fields = max(launch.accesses, key=lambda access: access.end - access.start)
            assert fields.passes < 0.1


def test_blocks_of_a_transform_take_their_own_part_of_an_array() -> None:
    """Each of three transforms of 3 x 3 blocks is one pass over its rows and two over its columns."""
    program = program_of(all_apps()["fft_conv_fused"], {"n": 1530, "iterations": 1})
    blocks = [launch.accesses[-1].passes for launch in launches(program.compute) if launch.kernel == "fft_pass"]
    assert len(blocks) == 3 * (3 + 9 + 9)
    assert sum(blocks) == pytest.approx(3 * 3)


H200 = ("h200-standard", ("h200-in-place", "h200-in-place-2"), 256 * MIB)
H100 = ("h100-quick", ("h100-apps-64mib", "h100-apps-1gib", "h100-apps-1gib-2"))
"""Prices, runs in page-locked memory, and their size."""
CASES = [(name, *H200) for name in ON_THE_GPU] + [
    (name, *H100, size)
    for name in ("bfs", "cfd", "fdtd3d", "gemm", "hotspot", "lud", "nw", "pathfinder", "srad")
    for size in (64 * MIB, 1024 * MIB)
]
loaded = cache(load_results)


@pytest.mark.parametrize(("name", "micro", "runs", "size"), CASES)
def test_kernels_cross_the_link_with_the_bytes_that_runs_in_place_show(
    name: str, micro: str, runs: Sequence[str], size: int
) -> None:
    """Before passes were declared, gemm took 32 times its estimate, and nw a fiftieth."""
    records = [r for run in runs for r in measured_runs(loaded(stored_run(run)).records, name, "cuda:0")]
    took = next(r for r in records if (r.factors["strategy"], r.factors["size"]) == ("pinned", size))
    run = loaded(stored_run(micro))
    prices = MeasuredPrices(run.machine, run.records, choose_device([run], "cuda:0"))
    terms = estimate(program_of(all_apps()[name], solve(all_apps()[name], size)), STRATEGIES["pinned"], prices)
    crossing = sum(term.ms for term in terms if "across the link" in term.what)
    assert 0.6 < (as_number(took.counters["phase_compute_ms"]) or 0) / crossing < 1.75
