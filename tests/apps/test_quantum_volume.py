from __future__ import annotations

import numpy as np
import pytest
from tests.harness.running import assert_detected, run_tiny

from firsttouch.apps import quantum_volume
from firsttouch.apps.quantum_volume import HEAVY, QuantumVolume, heavy
from firsttouch.harness.app import solve


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("i == 0 ? 1.0f", "i == 1 ? 1.0f"),
        ("sum.z += by.x * z.z - by.y * z.w", "sum.z += by.x * z.z + by.y * z.w"),
        ("(inverse ? k % 4 * 4 + k / 4 : k)", "(k % 4 * 4 + k / 4)"),
        ("state[second + far] = after[3];", ""),
        ("CROSS(before[2], before[3])", ""),
        ("spread(2 * i + 1, lo, hi) / 2", "first + 1"),
    ],
)
def test_wrong_kernel_is_detected(before: str, after: str) -> None:
    assert_detected(QuantumVolume, before, after)


@pytest.mark.parametrize("qubits", [3, 4, 8, 14])
def test_every_amplitude(qubits: int) -> None:
    assert run_tiny(QuantumVolume, params={"qubits": qubits}).error == ""


def test_larger_states_are_random_and_normalised() -> None:
    run = run_tiny(QuantumVolume, params={"qubits": 16})
    assert (run.error, len(run.iterations)) == ("", 16)


def test_mirror_circuit_restores_the_state() -> None:
    mirror = {"circuit": "mirror"}
    run = run_tiny(QuantumVolume, options=mirror, params={"qubits": 12})
    assert (run.error, len(run.iterations)) == ("", 24)
    wrong = ("inverse ? -element.y : element.y", "element.y")
    assert "mirror" in run_tiny(QuantumVolume, options=mirror, mutation=wrong).error


def test_wrong_kernel_is_detected_without_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantum_volume, "FULL_CHECK_QUBITS", 2)
    wrong = ("state[first] = after[0]", "if (i % 2 == 1) state[first] = after[0]")
    assert run_tiny(QuantumVolume, mutation=wrong).error


def test_circuits_have_the_properties_of_quantum_volume() -> None:
    apps = [QuantumVolume({"qubits": 7}, seed) for seed in range(20)]
    assert np.mean([heavy(app.reference_state()) for app in apps]) == pytest.approx(HEAVY, abs=0.02)
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
    assert "qubits must be 3 to 60, not 2" in QuantumVolume.problem({"qubits": 2})
    assert "not 61" in QuantumVolume.problem({"qubits": 61})
