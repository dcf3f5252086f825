"""Programs are data: they fold repeats, and are stored and read again."""

from __future__ import annotations

import random

import msgspec
import pytest

from firsttouch.apps import all_apps
from firsttouch.base.errors import UsageError
from firsttouch.program.dry_run import program_of
from firsttouch.program.ledger import Ledger
from firsttouch.program.program import (
    Access,
    Block,
    Item,
    Launch,
    Move,
    Obtained,
    Program,
    Renew,
    Repeat,
    Swap,
    append_body,
    decode,
    encode,
    fold,
)
from firsttouch.program.replay import Replay
from firsttouch.program.steps import Copy, Step
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo

DEVICE = DeviceInfo(
    "gpu:0",
    "gpu",
    "a made-up GPU",
    capabilities=DeviceCapabilities(runs_kernels=True),
    allocators=[
        AllocatorInfo("malloc", available=True, cpu="direct"),
        AllocatorInfo("device", available=True, gpu="direct"),
    ],
)
BLOCKS = tuple(Block(name, 4096, "inout", "both", "cpu", "cpu") for name in ("a", "b"))


def launch(agent: str, block: int, *, start: int = 0, end: int = 4096) -> Launch:
    return Launch(agent, (Access(block, start, end, reads=True, writes=True),))  # type: ignore[arg-type]


def unfolded(items: tuple[Item, ...] | list[Item]) -> list[Item]:
    found: list[Item] = []
    for item in items:
        found += unfolded(item.body) * item.count if isinstance(item, Repeat) else [item]
    return found


@pytest.mark.parametrize("seed", range(40))
def test_folding_keeps_every_launch_in_its_place(seed: int) -> None:
    chosen = random.Random(seed)
    words = [launch("gpu", 0), launch("cpu", 1), launch("gpu", 1, end=64), Swap(0, 1)]
    body = [chosen.choice(words) for _ in range(chosen.randint(1, 5))]
    plain = [*(chosen.choice(words) for _ in range(3)), *(body * chosen.randint(1, 30)), chosen.choice(words)]
    items: list[Item] = []
    for item in plain:
        fold(items, item)
    assert unfolded(items) == plain


def test_a_thousand_equal_rounds_are_one_item() -> None:
    items: list[Item] = []
    for _ in range(1000):
        for item in (launch("cpu", 0), launch("gpu", 0), Swap(0, 1)):
            fold(items, item)
    assert items == [Repeat(1000, (launch("cpu", 0), launch("gpu", 0), Swap(0, 1)))]


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_rounds_of_a_loop_become_one_item(rounds: int) -> None:
    body = [launch("gpu", 0, start=64 * i, end=64 * i + 64) for i in range(64)]
    items: list[Item] = [launch("cpu", 0)]
    for _ in range(rounds):
        append_body(items, body)
    append_body(items, body, 3)
    assert items == [launch("cpu", 0), Repeat(rounds + 3, tuple(body))]


class Copied(Replay):
    """The copies of a program, in order; those of rounds that are not replayed are counted again."""

    def __init__(self, program: Program) -> None:
        super().__init__(program, Ledger(STRATEGIES["explicit"], DEVICE))
        self.bytes, self.rounds, self.replayed = 0, [0], 0

    def play(self, steps: object) -> None:
        self.bytes += sum(s.end - s.start for s in steps if isinstance(s, Copy))  # type: ignore[attr-defined]

    def launch(self, launch: Launch, prepared: list[tuple[Access, list[Step]]]) -> None:  # type: ignore[override]
        self.replayed += 1
        for _, steps in prepared:
            self.play(steps)

    def begin_round(self) -> None:
        self.rounds.append(self.bytes)

    def end_round(self) -> None:
        self.last = self.bytes - self.rounds.pop()

    def add_again(self, times: int) -> None:
        self.bytes += times * self.last


@pytest.mark.parametrize("odd", [False, True])
def test_a_repeat_costs_the_same_as_its_rounds_one_by_one(odd: bool) -> None:
    body = (launch("gpu", 0), *((Swap(0, 1),) if odd else ()), launch("cpu", 0, end=128))
    nested = Repeat(50, (Repeat(20, body), launch("cpu", 1)))
    start = (launch("cpu", 0), launch("cpu", 1))
    write = tuple(Launch("cpu", (Access(n, 0, 4096, reads=False, writes=True),)) for n in (0, 1))
    counted = []
    for compute in ((*start, nested), tuple(unfolded([*start, nested]))):
        replay = Copied(Program("two buffers", BLOCKS, write, compute))
        replay.run()
        counted.append((replay.bytes, replay.replayed))
    (folded, few), (plain, all_of_them) = counted
    assert folded == plain > 0
    assert few < 20 < all_of_them


def test_every_application_is_stored_and_read_again() -> None:
    for name, app in all_apps().items():
        program = program_of(app, app.sizes["tiny"])
        assert decode(encode(program), name) == program
        accesses = {
            (a.certainty, a.certain_bytes - a.nbytes)
            for item in unfolded((*program.initialise, *program.compute))
            if isinstance(item, Launch)
            for a in item.accesses
        }
        assert accesses == {("exact", 0)}
        assert [block.name for block in program.blocks] == [spec.name for spec in app.buffers()]


def test_what_a_trace_adds_is_stored_and_read_again() -> None:
    assumed = Access(0, 0, 4096, reads=True, writes=True, certainty="assumed", least=64)
    items = (
        Move("h2d", 0, 0, 4096, 1024, pinned=True, new=4096, seconds=1e-6),
        Launch("gpu", (assumed,), kernel="k", seconds=1e-3),
        Renew(0),
    )
    blocks = (msgspec.structs.replace(BLOCKS[0], times=2),)
    program = Program("traced", blocks, compute=items, obtained=(Obtained(4096, 2, pinned=True),))
    assert decode(encode(program), "traced") == program


def test_a_block_that_is_obtained_again_has_lost_its_contents() -> None:
    """So a read copies nothing, where the first one copied all."""
    write = Launch("cpu", (Access(0, 0, 4096, reads=False, writes=True),))
    read = Launch("gpu", (Access(0, 0, 4096, reads=True, writes=False),))
    again = Launch("gpu", (Access(0, 0, 4096, reads=False, writes=True),))
    program = Program("renewed", BLOCKS[:1], (write,), (read, Renew(0), again, write, read))
    replay = Copied(program)
    replay.run()
    assert replay.bytes == 2 * 4096


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"compute": [{"type": "renew", "block": 2}]}, "there is no block 2"),
        (
            {"compute": [{"type": "move", "way": "h2d", "block": 0, "start": 0, "end": 5000, "nbytes": 1}]},
            "are outside",
        ),
        ({"compute": [{"type": "launch", "agent": "gpu", "accesses": [[]]}]}, "is not a program of schema"),
        ({"schema": "firsttouch-program/9"}, "is not a program of schema"),
        ({"extra": 1}, "is not a program of schema"),
        ({"compute": [{"type": "swap", "first": 0, "second": 7}]}, "there is no block 7"),
        ({"compute": [{"type": "repeat", "count": 0, "body": []}]}, "a count of 0"),
        (
            {
                "compute": [
                    {
                        "type": "launch",
                        "agent": "gpu",
                        "accesses": [{"block": 0, "start": 0, "end": 5000, "reads": True, "writes": False}],
                    }
                ]
            },
            "bytes 0 to 5000 are outside block a",
        ),
    ],
)
def test_what_is_no_program_is_refused(changed: dict[str, object], message: str) -> None:
    plain = msgspec.to_builtins(Program("a program", BLOCKS))
    with pytest.raises(UsageError, match=message):
        decode(msgspec.json.encode(plain | changed), "program.json")
