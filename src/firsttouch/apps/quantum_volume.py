"""quantum_volume: random circuits on a state vector."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from firsttouch.harness.app import App, Cpu, Gpu, Params, View, buffer, c64, in_pieces

C128: TypeAlias = np.ndarray[Any, np.dtype[np.complex128]]
Complex: TypeAlias = np.ndarray[Any, np.dtype[Any]]
FULL_CHECK_QUBITS = 25  # up to which the check computes the state on the host, as long as that takes at most about 10 s


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
        """Record all gates in order, and for a mirror circuit their inverses in reverse order. The inverse of the first
        layer is replaced by that layer, so that the final state is known, and is not the initial one.
        """
        pairs = [pair for layer in self.layers() for pair in layer]
        steps = [(gate, 0) for gate in range(len(pairs))]
        if self.circuit == "mirror":
            steps += [(gate, int(gate >= self.qubits // 2)) for gate in reversed(range(len(pairs)))]
        self.gpu, self.sequence, items = gpu, gpu.sequence(), 2 ** (self.qubits - 3)
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
        """Compares every amplitude with another computation of the same circuit."""
        state = view(self.state)
        if self.qubits > FULL_CHECK_QUBITS and self.circuit == "volume" and state.flags.writeable:
            state = state.copy()  # the device computes it again in place; what is read-only is a copy
        expected, gates = self._expected(view), len(self.sequence)
        # A gate is four multiplications and additions of c64 with rounded factors: at most 8 roundings of 2^-24 for
        # each amplitude. Those of all gates add up, and later gates spread them over all amplitudes like the state.
        limit, usual = 8 * 2.0**-24 * gates, 2.0 ** (-self.qubits / 2)

        def wrong(first: int, last: int) -> int:
            right = expected(first, last)
            near = np.abs(state[first:last] - right) <= limit * (np.abs(right) + usual)
            return int(np.count_nonzero(~near))

        count = sum(in_pieces(wrong, len(state), 2**16))
        return f"{count} of {len(state)} amplitudes differ from the same circuit computed another way" if count else ""

    def _expected(self, view: View) -> Callable[[int, int], Complex]:
        if self.circuit == "mirror":
            return self._mirrored
        state = self.reference if self.qubits <= FULL_CHECK_QUBITS else self._on_device(view)
        return lambda first, last: state[first:last]

    @cached_property
    def reference(self) -> Complex:
        return self.reference_state()

    def _mirrored(self, first: int, last: int) -> Complex:
        """Amplitudes after the first layer was applied twice: products, one factor for each pair."""
        at, state = np.arange(first, last), np.ones(last - first, np.complex128)
        for (lo, hi), gate in zip(self.layers()[0], self.unitaries(), strict=False):
            state *= (gate @ gate)[:, 0][2 * (at >> hi & 1) + (at >> lo & 1)]
        return state if self.qubits % 2 == 0 else state * (at >> self._idle() & 1 == 0)

    def _idle(self) -> int:
        idle = {*range(self.qubits)} - {qubit for pair in self.layers()[0] for qubit in pair}
        return int(idle.pop())

    def _on_device(self, view: View) -> Complex:
        """The final state by the kernel simple_gate, which shares no code with the one that was measured."""
        for gate, (lo, hi) in enumerate(pair for layer in self.layers() for pair in layer):
            items = 2 ** (self.qubits - 2)
            self.gpu.launch("simple_gate", self.state, self.gates, gate, items, lo, hi, over=items)
        return view(self.state)

    def reference_state(self) -> Complex:
        """The final state by matrix products, in c128 up to 14 qubits.

        The pairs of a layer become the last axes, the last pair at the end. A product with the transposed state makes
        the axes of that pair the first, and the pair before it the last.
        """
        n, dtype = self.qubits, np.dtype(np.complex128 if self.qubits <= 14 else np.complex64)
        unitaries, axes = iter(self.unitaries().astype(dtype)), [*reversed(range(n))]
        state = np.zeros(2**n, dtype)
        state[0] = 1
        for layer in self.layers():
            wanted = [q for pair in layer for q in reversed(pair)]
            wanted = [q for q in axes if q not in wanted] + wanted
            state = state.reshape((2,) * n).transpose([axes.index(q) for q in wanted]).reshape(-1)
            gates, axes = [next(unitaries) for _ in layer], wanted
            while gates:  # two at a time
                both = np.kron(*gates[-2:]) if len(gates) > 1 else gates[-1]
                del gates[-2:]
                state = (both @ state.reshape(-1, len(both)).T).reshape(-1)
                moved = len(both).bit_length() - 1
                axes = axes[-moved:] + axes[:-moved]
        state = state.reshape((2,) * n).transpose([axes.index(q) for q in reversed(range(n))])
        return np.asarray(state.reshape(-1))
