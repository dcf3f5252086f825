"""Wrong kernels are found under strategies that PoCL does not have, on the HIP stand-in, whose memory is not coherent
while a kernel runs (STANDIN_CACHED). The tests of each application try many more under one strategy.
"""

from __future__ import annotations

import json

import pytest
from command import in_process

WRONG = (
    ("hotspot", "80.0f - now", "80.08f - now"),
    ("hotspot", "(ulong)x] = after", "(ulong)x] = y == 7 && x == 9 ? now : after"),
    ("kmeans", "membership[i] = nearest", "membership[i] = i == 77 ? (nearest + 1) % (int)k : nearest"),
    ("kmeans_concurrent", "f + 4 <= d; f += 4", "f + 4 <= d; f += 8"),
    ("bfs", "cost[first + k] = (int)level", "cost[first + k] = (int)level + 1"),
    ("bfs", "flags[w] = four;", "flags[w] = w % 64 ? four : 0;"),
    ("nw", "row + y < n) to", "row + y < n - 1) to"),
    ("cfd", "0.5f, flow(other, q, x, y, z)", "0.5005f, flow(other, q, x, y, z)"),
    ("particlefilter", "-2.0 * LOG_F64(u)", "-2.002 * LOG_F64(u)"),
)
"""An application, a text of its kernels, and what replaces it."""
ANYWHERE = (
    *("explicit+vmm", "explicit+fine-grained", "explicit+pinned", "managed+prefetch-overlap"),
    *("coarse-grained", "pinned-noncoherent"),
)
APU = {"STANDIN_INTEGRATED": "1", "STANDIN_ARCH": "gfx942:sramecc+"}
PROGRAM = """
import json, sys
from tests.harness.running import run_tiny, skip_reason, strategies
from firsttouch.apps import all_apps
wrong = json.loads(sys.argv[1])
for strategy in sys.argv[2:]:
    assert strategy in strategies(), strategies()
    for name in dict.fromkeys(name for name, _, _ in wrong):
        reason = skip_reason(all_apps()[name], strategy)
        print(strategy, name, "right", reason or run_tiny(all_apps()[name], strategy).error or "verified", sep="|")
    for name, before, after in wrong:
        error = run_tiny(all_apps()[name], strategy, mutation=(before, after)).error
        print(strategy, name, after, "found" if error else "not found", sep="|")
"""


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("strategies", "settings"), [(ANYWHERE, {}), (("fine-grained",), APU)])
def test_wrong_kernels_are_found_under_every_strategy(strategies: tuple[str, ...], settings: dict[str, str]) -> None:
    process = in_process("-c", PROGRAM, json.dumps(WRONG), *strategies, **settings)
    assert process.returncode == 0, process.stderr
    lines = [line.split("|") for line in process.stdout.splitlines()]
    assert [line for line in lines if line[-1] not in ("verified", "found")] == []
    assert [line[-1] for line in lines].count("found") == len(strategies) * len(WRONG)
