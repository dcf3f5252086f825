from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import SIZE, assert_detected, opencl, run_tiny

from firsttouch.apps import cfd
from firsttouch.apps.cfd import Cfd, CfdConcurrent
from firsttouch.apps.support.euler import FAR_AWAY
from firsttouch.harness import measure
from firsttouch.harness.app import Cpu, Gpu, View, solve
from firsttouch.program.execution.agents import KernelFile
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.strategies import STRATEGIES

MUTATIONS = [
    ("smooth = 0.1f *", "smooth = 0.1001f *"),
    ("sum = plus(sum, p, state(0, x, y, z, 0));", ""),
    ("v * (s.energy + p)", "v * s.energy"),
    ("SQRT_F32(GAMMA * p / s.density)", "SQRT_F32(1.001f * GAMMA * p / s.density)"),
    ("factors[i] * part", "factors[i] * part * (i != 5)"),
    ("factors[i] * part", "factors[i] * part * (i < first + count - 64)"),
    ("GAMMA 1.4f", "GAMMA 1.4014f"),
    ("NOISE 0.02f", "NOISE 0.02002f"),
    ("state(1.4f, 1.68f, 0, 0, 3.508f)", "state(1.4f, 1.68f, 0, 0, 3.5115f)"),
    ("factors[i] = 0.5f", "factors[i] = 0.5005f"),
    ("0.5f, flow(other, q, x, y, z)", "0.5005f, flow(other, q, x, y, z)"),
    ("0.5f * (s.x * s.x", "0.5005f * (s.x * s.x"),
    ("random_f32(key, 3 * n + i, -NOISE", "random_f32(key, 2 * n + i, -NOISE"),
    ("face < 4", "face < 3"),
    (
        "normals[(ulong)(3 * face + 2) * n + i];\n            if",
        "normals[(ulong)(3 * face + 1) * n + i];\n            if",
    ),
    ("plus(sum, p, state(0, x, y, z, 0))", "plus(sum, 1.001f * p, state(0, x, y, z, 0))"),
    ("if (there == FAR) continue;", "if (there == FAR || (i & 1)) continue;"),
]


@pytest.mark.parametrize("app", [Cfd, CfdConcurrent])
@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(app: type[Cfd], before: str, after: str) -> None:
    assert_detected(app, before, after)


@pytest.mark.skipif(SIZE != "tiny", reason="limits for tiny")
@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected_by_repeating_the_run_on_the_cpu(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cfd, "FULL_CHECK_UPDATES", 0)
    assert run_tiny(Cfd).error == ""
    assert_detected(Cfd, before, after)


def test_a_wrong_last_iteration_of_a_long_run_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cfd, "FULL_CHECK_UPDATES", 0)
    monkeypatch.setattr(cfd, "REPEATED_UPDATES", 0)
    assert run_tiny(Cfd).error == ""
    assert_detected(Cfd, *MUTATIONS[4])


class Fewer(Cfd):
    """Leaves the first iteration out, which the last one does not show."""

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        self.iterations -= 1
        super().compute(cpu, gpu)
        self.iterations += 1


@pytest.mark.parametrize("app", [Cfd, Fewer])
def test_a_missing_iteration_of_a_long_run_is_detected(app: type[Cfd], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cfd, "FULL_CHECK_UPDATES", 0)
    instance = app({"m": 3, "iterations": 250})
    instance.kernels = Cfd(Cfd.sizes["tiny"]).kernels
    assert ("from 250 iterations" in run_tiny(Cfd, instance=instance).error) == (app is Fewer)


class Mesh(Cfd):
    """Checks the mesh instead of the flow: closed cells, neighbours that share a face, and a border around the cube."""

    def check(self, view: View) -> str:
        neighbours, normals = view(self.neighbours), view(self.normals).reshape(4, 3, -1).astype(float)
        assert np.abs(normals.sum(axis=0)).max() < 1e-6
        for face in range(4):
            here = np.flatnonzero(neighbours[face] >= 0)
            there = neighbours[face][here]
            back = neighbours[:, there] == here
            assert (back.sum(axis=0) == 1).all()
            opposite = normals[back.argmax(axis=0), :, there]
            assert np.abs(opposite.T + normals[face][:, here]).max() < 1e-6
        surface = np.sqrt((normals**2).sum(axis=1)).sum(axis=0)
        assert np.allclose(view(self.areas), surface**2, rtol=1e-5)
        assert ((neighbours == -1).sum(), (neighbours == -2).sum()) == (2 * self.m**2, 10 * self.m**2)
        return "the mesh was checked"


def test_cells_are_closed_and_neighbours_share_a_face() -> None:
    info, device = opencl()
    app = Mesh(Mesh.sizes["tiny"])
    app.kernels = Cfd(Cfd.sizes["tiny"]).kernels
    assert measure.run(app, Workspace(STRATEGIES["svm-fine"], info, device)).error == "the mesh was checked"


class Change(Cfd):
    """Reports the largest difference from the far field as the error of its check."""

    def check(self, view: View) -> str:
        return f"{np.abs(view(self.u) - FAR_AWAY).max():.9f}"


def change(noise: str, iterations: int) -> float:
    info, device = opencl()
    app = Change({"m": 7, "iterations": iterations})
    file = Cfd(Cfd.sizes["tiny"]).kernels
    assert "NOISE 0.02f" in file.text
    app.kernels = KernelFile(file.name, file.text.replace("NOISE 0.02f", f"NOISE {noise}"), app.defines())
    return float(measure.run(app, Workspace(STRATEGIES["svm-fine"], info, device)).error)


def test_uniform_flow_does_not_change() -> None:
    """The fluxes of a cell add up to zero if normals and neighbours are consistent."""
    assert change("0.0f", 100) < 1e-5


def test_a_disturbance_decays() -> None:
    assert change("0.02f", 1000) < change("0.02f", 1) / 4


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("app", [Cfd, CfdConcurrent])
def test_small_meshes(app: type[Cfd], m: int) -> None:
    assert run_tiny(app, params={"m": m}).error == ""


@pytest.mark.slow
def test_long_run_of_a_small_mesh() -> None:
    """The rounding errors of a thousand iterations in f32 are accepted."""
    assert run_tiny(Cfd, params={"m": 2, "iterations": 1000}).error == ""


def test_invalid_parameters_are_rejected() -> None:
    assert "at most 710" in Cfd.problem({"m": 711, "iterations": 1})
    assert "at least 1" in Cfd.problem({"m": 0, "iterations": 1})


def test_size_in_bytes() -> None:
    found = solve(Cfd, 1 << 32)
    assert 0.95 * (1 << 32) < Cfd.footprint(found) <= 1 << 32
