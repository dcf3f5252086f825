"""quantum_volume: random circuits on a state vector."""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, c64, sample

C128: TypeAlias = np.ndarray[Any, np.dtype[np.complex128]]
FULL_CHECK_QUBITS = 14  # with more, the check does not compare every amplitude
HEAVY = (1 + math.log(2)) / 2  # probability of the outputs above the median, for a random state


class QuantumVolume(App):
    """As many layers as qubits; each applies a Haar-random SU(4) to every pair of a random pairing of the qubits."""

    name = "quantum_volume"
    source = "Cross et al., Phys. Rev. A 100, 032328 (2019), as simulated by Qiskit Aer; c64, without gate fusion"
    pattern = "initialised on the GPU, swept in place"
    sizes = {"tiny": {"qubits": 9}, "default": {"qubits": 20}}
    grows = "qubits"
    options = {"circuit": ("volume", "mirror")}
    qubits: int
    circuit: str

    state = buffer(c64, "2**qubits", role="inout", starts_on="gpu", sides="gpu")
    gates = buffer(c64, "qubits * (qubits // 2)", 4, 4, role="constant", starts_on="cpu")

    @classmethod
    def problem(cls, params: Params) -> str:
        if not 3 <= params["qubits"] <= 60:
            return f"quantum_volume: qubits must be 3 to 60, not {params['qubits']}"
        return super().problem(params)

    def layers(self) -> list[list[tuple[int, int]]]:
        """The pairs of qubits of each layer, the lower one first. An odd qubit is idle."""
        rng = np.random.default_rng([self.seed, 1])
        orders = [rng.permutation(self.qubits)[: self.qubits // 2 * 2] for _ in range(self.qubits)]
        return [[(int(a), int(b)) for a, b in np.sort(order.reshape(-1, 2), axis=1)] for order in orders]

    def unitaries(self) -> C128:
        """A matrix for every pair: QR of complex Gaussians, phases of R's diagonal undone (Mezzadri 2007), det 1."""
        rng = np.random.default_rng([self.seed, 2])
        real, imaginary = rng.normal(size=(2, *self.gates.shape))
        q, r = np.linalg.qr(real + 1j * imaginary)
        diagonal = np.diagonal(r, axis1=1, axis2=2)
        q = q * (diagonal / abs(diagonal))[:, None, :]
        return np.asarray(q / np.linalg.det(q)[:, None, None] ** 0.25)

    def prepare(self, gpu: Gpu) -> None:
        """Record all gates in order, and for a mirror circuit their inverses in reverse order."""
        pairs = [pair for layer in self.layers() for pair in layer]
        steps = [(gate, 0) for gate in range(len(pairs))]
        if self.circuit == "mirror":
            steps += [(gate, 1) for gate in reversed(range(len(pairs)))]
        self.sequence, items = gpu.sequence(), 2 ** (self.qubits - 3)
        for gate, inverse in steps:
            lo, hi = pairs[gate]
            self.sequence.add("apply_gate", self.state, self.gates, gate, items, lo, hi, inverse, over=items)

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.writes(self.gates)[:] = self.unitaries()
        vectors = 2 ** (self.qubits - 1)
        gpu.launch("zero_state", self.state, vectors, over=vectors, writes=[self.state])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        gpu.replay_all(self.sequence, each=self.qubits // 2, reads=[self.gates], updates=[self.state])

    def check(self, view: View) -> str:
        state = view(self.state)
        if not abs(norm := _norm(state) - 1) <= 1e-5:
            return f"the squared norm differs from 1 by {norm:.3g}"
        if self.circuit == "mirror":
            rest = float(np.maximum(abs(1 - float(abs(state[0])) ** 2), _largest(state[1:])))
            return "" if rest <= 1e-5 else f"the mirror circuit leaves {rest:.3g} outside the first amplitude"
        if self.qubits <= FULL_CHECK_QUBITS:
            error = float(np.linalg.norm(state - self.reference_state()))
            return "" if error <= 1e-5 else f"the state differs from the same circuit in c128 by {error:.3g}"
        share = heavy(state[sample(len(state), 2**18, self.seed)])
        return "" if abs(share - HEAVY) < 0.02 else f"{share:.4f} of the outputs are heavy, not {HEAVY:.4f}"

    def reference_state(self) -> C128:
        """The final state, computed in c128."""
        n, unitaries = self.qubits, iter(self.unitaries())
        state = np.zeros(2**n, np.complex128)
        state[0] = 1
        for lo, hi in (pair for layer in self.layers() for pair in layer):
            split = state.reshape(2 ** (n - 1 - hi), 2, 2 ** (hi - lo - 1), 2, 2**lo)
            gate = next(unitaries).reshape(2, 2, 2, 2)
            state = np.einsum("abcd,xcydz->xaybz", gate, split).reshape(-1)
        return state


def heavy(amplitudes: np.ndarray[Any, Any]) -> float:
    """The share of the probability that lies above the median."""
    chances = np.abs(amplitudes).astype(np.float64) ** 2
    return float(chances[chances > np.median(chances)].sum() / chances.sum())


def _chunks(state: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    parts = state.view(np.float32)
    return [parts[at : at + 2**16] for at in range(0, len(parts), 2**16)]


def _norm(state: np.ndarray[Any, Any]) -> float:
    return math.fsum(float(chunk @ chunk) for chunk in _chunks(state))


def _largest(state: np.ndarray[Any, Any]) -> float:
    return max(float(max(chunk.max(), -chunk.min())) for chunk in _chunks(state))
