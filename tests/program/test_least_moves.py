"""What a driver must move at least: what prefetches and whole uses leave no doubt about, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from tests.fabricated import MACHINES

from firsttouch.program.declarations import Declaration
from firsttouch.program.guidance import Placement
from firsttouch.program.ledger import Ledger
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.schema import DeviceInfo

PASCAL, APU, POWER9 = (MACHINES[name].devices[1] for name in ("pascal", "mi300a-xnack", "power9"))
MB = 1 << 20


def ledger(strategy: str, device: DeviceInfo = PASCAL, **advice: str) -> Ledger:
    """With one buffer of 1 MiB, that the CPU has initialised."""
    words = {f"advice.{name}": word for name, word in advice.items()}
    made = Ledger(STRATEGIES[strategy], device, guidance=Placement(settings=words))
    data = Declaration("data", np.dtype(np.uint8), (MB,), "inout", "both", "cpu", "cpu")
    made.allocate(data)
    made.touch("cpu", 0, 0, MB, reads=False, writes=True)
    made.after_initialise()
    made.before_compute()
    return made


def reads(made: Ledger, end: int = MB, *, whole: bool = True, writes: bool = False) -> None:
    made.touch("gpu", 0, 0, end, reads=True, writes=writes, whole=whole)


def prefetched_then_used(made: Ledger) -> None:
    reads(made, writes=True)
    made.read_back([0])


@pytest.mark.parametrize(
    ("strategy", "use", "to_gpu", "to_cpu"),
    [
        ("managed", lambda made: None, 0, 0),
        ("managed", lambda made: reads(made, MB // 2), MB // 2, 0),
        ("managed", lambda made: (reads(made), reads(made)), MB, 0),
        ("managed", lambda made: reads(made, whole=False), 0, 0),
        ("managed", prefetched_then_used, MB, MB),
        ("managed+prefetch", lambda made: None, MB, 0),
        ("managed+prefetch", lambda made: reads(made, whole=False), MB, 0),
        ("managed+prefetch", prefetched_then_used, MB, MB),
        ("managed+advise", prefetched_then_used, MB, MB),
        ("explicit", prefetched_then_used, 0, 0),
        ("pinned", prefetched_then_used, 0, 0),
    ],
)
def test_each_byte_that_must_move_counts_once(
    strategy: str, use: Callable[[Ledger], object], to_gpu: int, to_cpu: int
) -> None:
    made = ledger(strategy)
    use(made)
    assert made.least.bytes == {"gpu": to_gpu, "cpu": to_cpu}


def test_what_the_cpu_writes_after_a_prefetch_moves_again() -> None:
    made = ledger("managed+prefetch")
    made.touch("cpu", 0, 0, MB // 4, reads=False, writes=True)
    reads(made)
    assert made.least.bytes["gpu"] == MB + MB // 4


@pytest.mark.parametrize("advice", ["preferred-cpu", "accessed-by-gpu", "preferred-cpu+accessed-by-gpu"])
def test_a_kernel_may_use_advised_pages_where_they_are(advice: str) -> None:
    made = ledger("managed", data=advice)
    reads(made)
    assert made.least.bytes["gpu"] == 0


@pytest.mark.parametrize(
    "device",
    [
        APU,
        msgspec.structs.replace(PASCAL, facts={**PASCAL.facts, "directManagedMemAccessFromHost": 1}),
        msgspec.structs.replace(POWER9, facts={**POWER9.facts, "pageableMemoryAccessUsesHostPageTables": 1}),
    ],
)
def test_nothing_must_move_where_a_side_reaches_the_other_memory(device: DeviceInfo) -> None:
    made = ledger("managed", device)
    prefetched_then_used(made)
    assert made.least.bytes == {"gpu": 0, "cpu": 0}
    assert not made.moves


@pytest.mark.parametrize("strategy", ["managed", "managed+prefetch", "svm-fine", "explicit"])
def test_control_buffers_are_copied_on_request_under_every_strategy(strategy: str) -> None:
    control = Declaration("sums", np.dtype(np.float64), (2,), "control", "both", "cpu")
    made = Ledger(STRATEGIES[strategy], PASCAL, copy_control=True)
    made.allocate(control)
    assert [(b.side, b.allocator) for b in made.contents[0].blocks] == [("host", "malloc"), ("device", "device")]
    made.touch("cpu", 0, 0, 16, reads=False, writes=True)
    made.touch("gpu", 0, 0, 16, reads=True, writes=True)
    made.touch("cpu", 0, 0, 8, reads=True, writes=False)
    assert made.transferred == {"gpu": 16, "cpu": 8}
    assert made.least.bytes == {"gpu": 0, "cpu": 0}
