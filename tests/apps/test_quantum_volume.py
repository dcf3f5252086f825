from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps import quantum_volume
from firsttouch.apps.quantum_volume import QuantumVolume
from firsttouch.harness.app import solve

MUTATIONS = [
    ("i == 0 ? 1.0f", "i == 1 ? 1.0f"),
    ("element.x, inverse", "1.001f * element.x, inverse"),
    ("sum.z += by.x * z.z - by.y * z.w", "sum.z += by.x * z.z + by.y * z.w"),
    ("sum.x += by.x * z.x - by.y * z.y", "sum.x += by.x * z.x - 1.001f * by.y * z.y"),
    ("(inverse ? k % 4 * 4 + k / 4 : k)", "(inverse ? k : k % 4 * 4 + k / 4)"),  # transposed
    ("inverse ? -element.y : element.y", "inverse ? element.y : -element.y"),  # conjugated
    ("const f32x2 element = gates[16 * gate +", "const f32x2 element = gates[16 * (gate ^ 1) % 3 +"),  # another gate
    ("FOR_EACH(i, items)", "FOR_EACH(i, gate % 2 ? 0 : items)"),  # half of the gates
    ("FOR_EACH(i, items)", "FOR_EACH(i, 0 * items)"),  # no gate
    ("FOR_EACH(i, items)", "FOR_EACH(i, items - (gate % 31 == 30))"),  # the last item of some gates
    ("state[second + far] = after[3];", "if (i % 64 > 0) state[second + far] = after[3];"),
    ("CROSS(before[2], before[3])", ""),
    ("spread(2 * i + 1, lo, hi) / 2", "first + 1"),
]


@pytest.mark.parametrize(("before", "after"), MUTATIONS)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(QuantumVolume, before, after)


@pytest.mark.parametrize(
    ("before", "after"), [m for m in MUTATIONS if "gate % 31" not in m[1]]
)  # its inverse undoes it
def test_wrong_kernel_is_detected_in_a_mirror_circuit(before: str, after: str) -> None:
    assert run_tiny(QuantumVolume, options={"circuit": "mirror"}, mutation=(before, after)).error


@pytest.mark.parametrize("mutation", [None, *MUTATIONS])
def test_large_states_are_computed_again_by_the_device(
    monkeypatch: pytest.MonkeyPatch, mutation: tuple[str, str] | None
) -> None:
    monkeypatch.setattr(quantum_volume, "FULL_CHECK_QUBITS", 2)
    for strategy in ("explicit", "svm-fine"):
        assert bool(run_tiny(QuantumVolume, strategy, mutation=mutation).error) == (mutation is not None)


@pytest.mark.parametrize("qubits", [3, 4, 8, 14, 15])
def test_every_amplitude(qubits: int) -> None:
    assert run_tiny(QuantumVolume, params={"qubits": qubits}).error == ""


@pytest.mark.parametrize("qubits", [3, 4, 12, 13])
def test_mirror_circuit(qubits: int) -> None:
    run = run_tiny(QuantumVolume, options={"circuit": "mirror"}, params={"qubits": qubits})
    assert (run.error, len(run.iterations)) == ("", 2 * qubits)


def test_reference_is_the_circuit_gate_by_gate() -> None:
    app = QuantumVolume({"qubits": 7})
    state = np.zeros((2,) * 7, np.complex128)
    state[(0,) * 7] = 1
    for (lo, hi), gate in zip([pair for layer in app.layers() for pair in layer], app.unitaries(), strict=True):
        axes = (6 - hi, 6 - lo)
        state = np.moveaxis(np.tensordot(gate.reshape(2, 2, 2, 2), state, ((2, 3), axes)), (0, 1), axes)
    assert np.allclose(app.reference_state(), state.reshape(-1), atol=1e-14)


def heavy(amplitudes: np.ndarray[Any, Any]) -> float:
    """The share of the probability that lies above the median."""
    chances = np.abs(amplitudes) ** 2
    return float(chances[chances > np.median(chances)].sum() / chances.sum())


def test_circuits_have_the_properties_of_quantum_volume() -> None:
    random = (1 + math.log(2)) / 2  # the share of heavy outputs of a random state
    apps = [QuantumVolume({"qubits": 7}, seed) for seed in range(20)]
    assert np.mean([heavy(app.reference_state()) for app in apps]) == pytest.approx(random, abs=0.02)
    gates = apps[0].unitaries()
    assert np.allclose(gates @ gates.conj().transpose(0, 2, 1), np.eye(4))
    assert np.allclose(np.linalg.det(gates), 1)
    for layer in apps[0].layers():
        qubits = [qubit for pair in layer for qubit in pair]
        assert len(layer) == 3
        assert len(set(qubits)) == 6
        assert all(lo < hi for lo, hi in layer)


def test_sizes() -> None:
    assert solve(QuantumVolume, 2**33)["qubits"] == 30  # the gates exceed the size slightly
    assert ": qubits must be 3 to 60" in QuantumVolume.problem({"qubits": 2})
    assert "not 61" in QuantumVolume.problem({"qubits": 61})
