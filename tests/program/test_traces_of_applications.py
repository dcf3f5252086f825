"""What an application's trace would be under explicit becomes the program that it declares, as far as copies tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pytest
from msgspec.structs import replace
from tests.port.traces import Calls

from firsttouch.apps import all_apps
from firsttouch.harness.app import solve
from firsttouch.model.estimate import estimate
from firsttouch.model.platform import platform_of
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.program import steps
from firsttouch.program.dry_run import program_of
from firsttouch.program.ledger import Ledger
from firsttouch.program.program import Launch, Program
from firsttouch.program.replay import Prepared, Replay
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedCopy
from firsttouch.program.traced import program_of_trace

PRICES = PlatformPrices(platform_of("model:h200-pcie"))
SIZE = 64 << 20


class DeclaredCalls(Replay):
    """What an application asks of CUDA under explicit, if its kernels name the buffers that it declares."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, Ledger(STRATEGIES["explicit"], PRICES.device, strict=False))
        self.calls, self.copied = Calls(), Counter[tuple[int, str]]()
        self._host, self._device = dict[int, int](), dict[int, int]()

    def play(self, wanted: Iterable[steps.Step]) -> None:
        for step in wanted:
            if isinstance(step, steps.Allocate) and step.side == "host":
                self._host[step.buffer] = self.calls.host(step.nbytes)
            elif isinstance(step, steps.Allocate):
                self._device[step.buffer] = self.calls.block(step.nbytes, line=step.buffer + 1)
            elif isinstance(step, steps.Copy):
                host = self._host[step.buffer if step.source is None else step.source] + step.start
                device, nbytes = self._device[step.buffer] + step.start, step.end - step.start
                self.copied[device - step.start, step.to] += nbytes
                self.calls.copy(*((device, host) if step.to == "gpu" else (host, device)), nbytes)
            elif isinstance(step, steps.Free) and step.side == "device":
                self.calls.free(self._device[step.buffer])

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        for _, wanted in prepared:
            self.play(wanted)
        if launch.agent == "gpu":
            named = dict.fromkeys(self._device[access.block] for access in launch.accesses)
            self.calls.launch(*named, kernel=launch.kernel or "k")

    def swap(self, first: int, second: int) -> None:
        for memory in (self._host, self._device):
            memory[first], memory[second] = memory[second], memory[first]

    def _play_rounds(self, count: int, play_round: Callable[[], None]) -> None:
        for _ in range(count):
            play_round()


@pytest.mark.parametrize("name", ["backprop", "bfs", "black_scholes", "dwt2d", "fdtd3d", "lud", "nw", "srad"])
def test_a_trace_of_what_is_declared_costs_what_is_declared(name: str) -> None:
    app = all_apps()[name]
    declared = program_of(app, solve(app, SIZE))
    blocks = tuple(replace(block, strided=False) for block in declared.blocks)  # which no trace shows
    declared = replace(declared, blocks=blocks)
    replay = DeclaredCalls(declared)
    replay.run()
    run = replay.calls.run
    traced, copied = program_of_trace(run, threads=lambda start, end: 8), Counter[tuple[int, str]]()
    for step in run.steps:
        if isinstance(step, TracedCopy):
            to = "gpu" if step.way == "h2d" else "cpu"
            copied[run.blocks[step.device.block].lives[0].address, to] += step.device.total
    assert copied == replay.copied
    assert len(traced.compute) <= 2 * len(declared.compute) + 20
    for strategy in ("managed", "managed+advise", "managed+prefetch"):
        times = [sum(t.ms for t in estimate(p, STRATEGIES[strategy], PRICES)) for p in (traced, declared)]
        assert times[0] == pytest.approx(times[1], rel=0.1)
