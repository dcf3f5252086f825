"""Our applications' traces beside their dry runs, from apps.jsonl of evidence/benchmarks/traced_apps.py."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from firsttouch.advice.advisor import choose_device
from firsttouch.apps import all_apps
from firsttouch.harness.app import App
from firsttouch.model.costs import Unmeasured
from firsttouch.model.estimate import Impossible, NotEstimated, priced
from firsttouch.model.measured import MeasuredPrices
from firsttouch.model.prices import Prices
from firsttouch.program import steps
from firsttouch.program.dry_run import program_of
from firsttouch.program.guidance import MEMORY_OF, ON_DEVICE, Placement, memory_words
from firsttouch.program.ledger import Ledger
from firsttouch.program.program import Item, Launch, Program, Repeat, decode
from firsttouch.program.replay import Prepared, Replay
from firsttouch.program.strategies import STRATEGIES, strategies_of, unavailable
from records import Directory

EXPLICIT = "explicit"
MOST_ROUNDS = 160
"""The most rounds that are tried for a loop that depends on data."""
CLOSE = 1.10
"""How far apart two estimates may be, as a ratio."""


class _Copies(Replay):
    """The bytes that a program copies under explicit, by memory and side. Buffers that are swapped exchange theirs."""

    def __init__(self, program: Program, prices: Prices) -> None:
        super().__init__(program, Ledger(STRATEGIES[EXPLICIT], prices.device, strict=False))
        self.bytes = Counter[tuple[int, str]]()
        self._memory = list(range(len(program.blocks)))
        self._rounds: list[Counter[tuple[int, str]]] = []
        self._last = Counter[tuple[int, str]]()

    def play(self, wanted: Any) -> None:
        for step in wanted:
            if isinstance(step, steps.Copy):
                self.bytes[self._memory[step.buffer], step.to] += step.end - step.start

    def launch(self, launch: Launch, prepared: Sequence[Prepared]) -> None:
        for _, wanted in prepared:
            self.play(wanted)

    def swap(self, first: int, second: int) -> None:
        memory = self._memory
        memory[first], memory[second] = memory[second], memory[first]

    def state(self) -> Hashable:
        return tuple(self._memory)

    def begin_round(self) -> None:
        self._rounds.append(Counter(self.bytes))

    def end_round(self) -> None:
        self._last = self.bytes - self._rounds.pop()

    def add_again(self, times: int) -> None:
        for key, nbytes in self._last.items():
            self.bytes[key] += times * nbytes


@dataclass
class TracedApp:
    """An application whose trace became a program. ratios: of both estimates, traced to declared, by strategy.

    declared, copied: bytes of each block, copied to it and back, as it declares them and as they were copied.
    """

    name: str
    declared: list[tuple[int, int, int]]
    copied: list[tuple[int, int, int]]
    ratios: dict[str, float]
    missing: str = ""

    @property
    def same_copies(self) -> bool:
        declared, copied = (Counter(row for row in rows if row[1] or row[2]) for rows in (self.declared, self.copied))
        return declared == copied

    @property
    def close(self) -> bool:
        return bool(self.ratios) and all(1 / CLOSE <= ratio <= CLOSE for ratio in self.ratios.values())


def added(
    program: Program, prices: Prices, names: Sequence[str], settings: Mapping[str, str] | None = None
) -> dict[str, float]:
    """ms that memory adds, by strategy, as far as it is estimated. settings: of single buffers."""
    found = {}
    for name in names:
        try:
            pricing = priced(program, STRATEGIES[name], prices, guidance=Placement(settings=settings or {}))
            found[name] = sum(term.ms for term in pricing.terms.terms())
        except (Unmeasured, NotEstimated, Impossible):
            continue
    return found


def traced_app(row: Mapping[str, Any], prices: Prices) -> TracedApp:
    name = row["app"]
    if "program" not in row:
        return TracedApp(name, [], [], {}, row.get("reason") or row["status"])
    traced = decode(msgspec.json.encode(row["program"]), name)
    dry = program_of(all_apps()[name], row["params"], row["rounds"])
    declared = declared_copies(dry, prices)
    sizes = {nbytes for nbytes, _, _ in declared}
    copied = [(size, into, back) for size, into, back in row["copied"] if size in sizes]
    names = [name for name in strategies_of(prices.device) if not unavailable(STRATEGIES[name], prices.device)]
    dry = without_host_blocks(dry)
    if not row.get("touches"):
        dry = by_one_thread(dry)
    both = added(traced, prices, names), added(dry, prices, names, between_kernels(dry, traced))
    ratios = {key: both[0][key] / both[1][key] for key in names if key in both[0] and both[1].get(key)}
    return TracedApp(name, declared, copied, ratios)


def closest(app: type[App], params: Mapping[str, int], copied: Sequence[tuple[int, int, int]], prices: Prices) -> int:
    """The rounds, of a loop that ends when data say so, with which a dry run comes closest to what a trace copied; 0 if
    there is none.
    """
    if not program_of(app, params).rounds:
        return 0
    total = sum(into + back for _, into, back in copied)

    def apart(rounds: int) -> int:
        declared = declared_copies(program_of(app, params, rounds), prices)
        return abs(sum(into + back for _, into, back in declared) - total)

    return min(range(1, MOST_ROUNDS), key=apart)


def declared_copies(program: Program, prices: Prices) -> list[tuple[int, int, int]]:
    """Of each block of the device: its bytes, those copied to it, and those copied back under explicit."""
    replay = _Copies(program, prices)
    replay.run()
    return [
        (block.nbytes, replay.bytes[number, "gpu"], replay.bytes[number, "cpu"])
        for number, block in enumerate(program.blocks)
        if block.sides != "cpu"
    ]


def by_one_thread(program: Program) -> Program:
    """The program if one thread of the CPU initialises what it uses, which is what a trace without touches assumes."""
    items = tuple(
        msgspec.structs.replace(item, by="view") if isinstance(item, Launch) and item.by == "kernel" else item
        for item in program.initialise
    )
    return msgspec.structs.replace(program, initialise=items)


def without_host_blocks(program: Program) -> Program:
    """The program without what only the CPU uses, which no copy names, so that a trace does not show it."""
    own = {number for number, block in enumerate(program.blocks) if block.sides == "cpu"}

    def kept(items: Sequence[Item]) -> tuple[Item, ...]:
        return tuple(map(changed, items))

    def changed(item: Item) -> Item:
        if isinstance(item, Repeat):
            return msgspec.structs.replace(item, body=kept(item.body))
        if isinstance(item, Launch) and any(access.block in own for access in item.accesses):
            return msgspec.structs.replace(item, accesses=tuple(a for a in item.accesses if a.block not in own))
        return item

    return msgspec.structs.replace(program, initialise=kept(program.initialise), compute=kept(program.compute))


def between_kernels(dry: Program, traced: Program) -> dict[str, str]:
    """The settings that keep in device memory what the trace shows to be used between kernels alone."""
    of_size: dict[int, list[str]] = {}
    for block in traced.blocks:
        of_size.setdefault(block.nbytes, []).append(block.role)
    found = {}
    for block in dry.blocks:
        roles = of_size.get(block.nbytes, [])
        role = roles.pop(0) if block.sides != "cpu" and roles else ""
        if role == "scratch" and memory_words(block.declaration):
            found[f"{MEMORY_OF}{block.name}"] = ON_DEVICE
    return found


def traced_apps(path: Path, prices: Prices) -> Iterator[TracedApp]:
    for line in path.read_text().splitlines():
        yield traced_app(json.loads(line), prices)


WHY = {
    "how many times a kernel uses a byte, or which part of a block it uses over the link": (
        "bfs", "cfd", "fft_conv_c2c", "fft_conv_fused", "gaussian", "gemm", "halo", "lud", "nw", "pathfinder",
        "quantum_volume",
    ),
    "that the CPU reads an input again": ("conjugate_gradient", "kmeans"),
    "host arrays, or parts of them, that are never copied": (
        "bfs_concurrent", "cfd_concurrent", "gaussian_concurrent", "heartwall", "hotspot", "kmeans_concurrent",
        "mapped_file", "transport",
    ),
    "that an array is written that is never copied back": ("backprop",),
    "how many rounds nested loops have (here the declarations do not say it)": (
        "graph500_bfs", "streamcluster",
    ),
}  # fmt: skip
"""What a trace does not tell of applications of which some estimate is apart."""


def apart(apps: Sequence[TracedApp]) -> str:
    """The applications with an estimate that is not close, by what their traces do not tell, and that estimate."""
    rows = []
    far = {app.name: app for app in apps if app.ratios and not app.close}
    for reason, names in WHY.items():
        found = [f"{name} ({_worst(far.pop(name))})" for name in names if name in far]
        if found:
            rows.append(f"- {reason}: {', '.join(found)}")
    if far:
        rows.append(f"- not known: {', '.join(f'{name} ({_worst(app)})' for name, app in far.items())}")
    return "\n".join(rows)


def _worst(app: TracedApp) -> str:
    name = max(app.ratios, key=lambda strategy: max(app.ratios[strategy], 1 / app.ratios[strategy]))
    return f"{name} {app.ratios[name]:.2f}"


def by_strategy(apps: Sequence[TracedApp]) -> str:
    """Of how many applications the estimate of each strategy is close."""
    rows = ["| strategy | within 10 % | of |", "|---|---|---|"]
    for name in dict.fromkeys(name for app in apps for name in app.ratios):
        ratios = [app.ratios[name] for app in apps if name in app.ratios]
        rows.append(f"| {name} | {sum(1 / CLOSE <= ratio <= CLOSE for ratio in ratios)} | {len(ratios)} |")
    return "\n".join(rows)


def text(directories: Sequence[Directory]) -> str:
    """The tables of a directory with apps.jsonl, by the prices of the others."""
    traced = next(each for each in directories if (each.path / "apps.jsonl").is_file())
    runs = [each.results for each in directories if each is not traced]
    records = [record for run in runs for record in run.records]
    prices = MeasuredPrices(runs[0].machine, records, choose_device(runs, None))
    apps = list(traced_apps(traced.path / "apps.jsonl", prices))
    known = [app for app in apps if not app.missing]
    equal, close = sum(app.same_copies for app in known), sum(app.close for app in known)
    says = (
        f"In {equal} of {len(known)} applications the trace has the same copied bytes of each block; in {close} all "
        "estimates agree within 10 %."
    )
    return f"{says}\n\n{by_strategy(apps)}\n\nThe traces of the others do not show:\n\n{apart(apps)}\n"


TEXTS = {"traced-apps": text}
