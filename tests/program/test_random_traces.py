"""Random programs, whose pairs, savings, repeated copies and accesses are compared with a map of single bytes."""

from __future__ import annotations

import os
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.port.test_port_findings import of as answer_of
from tests.port.traces import Calls

from firsttouch.advice.port.savings import moments
from firsttouch.model.estimate import NotEstimated, estimate
from firsttouch.model.platform import platform_of
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.profile.events.log import MemoryEvent
from firsttouch.program.needless import RepeatedCopy, repeated_copies
from firsttouch.program.partners import partners
from firsttouch.program.program import Item, Launch, Program, Repeat, decode, encode
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedAllocation, TracedCopy, TracedFill, TracedLaunch, TracedRun
from firsttouch.program.traced import program_of_trace

EXAMPLES = 10_000 if os.environ.get("FIRSTTOUCH_EXHAUSTIVE") else 200
SIZE, HOST_BYTES = 8, 24
"""Bytes of a block, and of the host's memory."""
HOST = 1 << 32
KERNELS = ("_Z1kPfS_", "_Z1cPKfPf", "plain")
Byte = tuple[str, int]
"""A byte of the unified version: a traced block's, or the host's."""

number = st.integers(0, 7)
operation = st.one_of(
    st.tuples(st.just("block"), st.integers(1, 2)),
    st.tuples(st.sampled_from(("free", "again")), number),
    st.tuples(
        st.sampled_from(("h2d", "d2h", "h2d", "d2h")), number, st.sampled_from((0, 0, 4, 5)),
        st.sampled_from((8, 8, 4, 1)),
        st.sampled_from((0, 8, 16)), st.sampled_from((1, 1, 2, None)), st.sampled_from(("other", "other", "stack")),
    ),
    st.tuples(st.just("d2d"), number, number, st.sampled_from((0, 4)), st.sampled_from((4, 8))),
    st.tuples(st.just("fill"), number, st.sampled_from((0, 4)), st.sampled_from((4, 8))),
    st.tuples(
        st.just("launch"), st.lists(number, max_size=2), st.sampled_from((0, 0, 4)), st.sampled_from(KERNELS)
    ),
    st.just(("unknown",)),
)  # fmt: skip


def calls_of(operations: Sequence[tuple[Any, ...]]) -> Calls:
    calls, alive = Calls(), list[int]()
    for name, *rest in operations:
        if name == "block":
            alive.append(calls.block(SIZE, line=rest[0]))
        elif name == "unknown":
            calls.launch(arguments=None)
        elif not alive:
            continue
        elif name == "free":
            calls.free(alive.pop(rest[0] % len(alive)))
        elif name == "again":
            calls.free(alive[rest[0] % len(alive)])
            alive[rest[0] % len(alive)] = calls.block(SIZE, line=1 + rest[0] % 2)
        elif name in ("h2d", "d2h"):
            which, start, nbytes, host, sample, place = rest
            device, nbytes = alive[which % len(alive)] + start, min(nbytes, SIZE - start)
            target, source = (device, HOST + host) if name == "h2d" else (HOST + host, device)
            calls.copy(target, source, nbytes, sample=sample, before=1 if name == "d2h" else None, host=place)
        elif name == "d2d":
            first, second, start, nbytes = rest
            target = alive[first % len(alive)] + start
            calls.copy(target, alive[second % len(alive)] + start, min(nbytes, SIZE - start))
        elif name == "fill":
            calls.fill(alive[rest[0] % len(alive)] + rest[1], min(rest[2], SIZE - rest[1]))
        else:
            named = [alive[n % len(alive)] + rest[1] for n in rest[0]]
            calls.launch(*named, kernel=rest[2])
    return calls


def pairs_of(copy: TracedCopy) -> list[tuple[int, int]]:
    """Each byte of a block, and the host's byte that a copy joins it with."""
    host = copy.call.target if copy.way == "d2h" else copy.call.source
    return [(copy.device.start + n, host + n) for n in range(copy.call.bytes)]


def windows_of(joins: dict[tuple[str, int], set[int]], way: str) -> Iterator[int]:
    """The bytes of a block that copies of one direction join with several parts of the host, of which neither is more
    than twice as long as what both are joined with.
    """
    runs = list[tuple[int, list[int]]]()
    for shift in sorted({host - byte for (of, byte), hosts in joins.items() for host in hosts if of == way}):
        bytes_of_shift = sorted(byte for (of, byte), hosts in joins.items() if of == way and byte + shift in hosts)
        for byte in bytes_of_shift:
            if runs and runs[-1][0] == shift and runs[-1][1][-1] == byte - 1:
                runs[-1][1].append(byte)
            else:
                runs.append((shift, [byte]))
    for shift, run in runs:
        for other_shift, other in runs:
            common = {*run} & {*other}
            if shift != other_shift and 2 * len(common) >= max(len(run), len(other)):
                yield from common


class LifeBytes:
    """What copies join with the bytes of a block in one life."""

    def __init__(self, copies: Sequence[TracedCopy]) -> None:
        joins: dict[tuple[str, int], set[int]] = defaultdict(set)
        for copy in copies:
            for byte, host in pairs_of(copy) if copy.call.host != "stack" else ():
                joins[copy.way, byte].add(host)
        self.window = set().union(*(windows_of(joins, way) for way in ("h2d", "d2h")))
        self.host = {h for (_, byte), hosts in joins.items() if byte not in self.window for h in hosts}
        self.windows = {h for (_, byte), hosts in joins.items() if byte in self.window for h in hosts} - self.host

    @property
    def is_window(self) -> bool:
        return len(self.window) > len(self.host)


def lives(run: TracedRun) -> dict[tuple[int, int], LifeBytes]:
    """By block and life."""
    copies: dict[tuple[int, int], list[TracedCopy]] = {}
    life: dict[int, int] = defaultdict(lambda: -1)
    for step in run.steps:
        if isinstance(step, TracedAllocation):
            life[step.block] += step.begins
            copies.setdefault((step.block, life[step.block]), [])
        elif isinstance(step, TracedCopy) and step.way != "d2d":
            copies[step.device.block, life[step.device.block]].append(step)
    return {key: LifeBytes(of) for key, of in copies.items()}


def saved(run: TracedRun, known: dict[tuple[int, int], LifeBytes]) -> Iterator[int]:
    """After each step at which a block begins or ends."""
    life: dict[int, int] = defaultdict(lambda: -1)
    alive: dict[int, LifeBytes] = {}
    for step in run.steps:
        if isinstance(step, TracedAllocation):
            life[step.block] += step.begins
            alive.pop(step.block, None)
            if step.begins:
                alive[step.block] = known[step.block, life[step.block]]
            yield len({h for of in alive.values() for h in of.host}) + sum(len(of.window) for of in alive.values())


def bytes_in(ranges: object) -> set[int]:
    return {byte for start, end in ranges for byte in range(start, end)}  # type: ignore[attr-defined]


class LastCopies:
    """Which copy each byte of each block was copied by last, and what may have written it since."""

    def __init__(self, run: TracedRun) -> None:
        self.found: list[RepeatedCopy] = []
        self._last: dict[tuple[int, int], int] = {}
        self._freed: dict[int, int] = defaultdict(int)
        self._life: dict[int, int] = {}
        """How often its block was freed before each copy."""
        self._written: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        """By the copy that brought them: when its bytes were or may have been written, and whether surely."""
        self._unknown = -1
        for index, step in enumerate(run.steps):
            self._step(run, index, step)

    def _step(self, run: TracedRun, index: int, step: object) -> None:
        if isinstance(step, TracedLaunch):
            self._unknown = index if step.call.arguments is None else self._unknown
            for use in step.uses:
                for copy in {c for (block, _), c in self._last.items() if block == use.block and use.may_write}:
                    self._written[copy].append((index, False))
        elif isinstance(step, TracedFill) or (isinstance(step, TracedCopy) and step.way == "d2d"):
            target = step.target
            for byte in range(target.start, target.end):
                if (copy := self._last.get((target.block, byte))) is not None:
                    self._written[copy].append((index, True))
        elif isinstance(step, TracedAllocation):
            self._freed[step.block] += not step.begins
        elif isinstance(step, TracedCopy):
            self._copy(run, index, step)

    def _copy(self, run: TracedRun, index: int, step: TracedCopy) -> None:
        mine = [(step.device.block, byte) for byte, _ in pairs_of(step)]
        self._life[index] = self._freed[step.device.block]
        since = {self._last.get(key, -1) for key in mine}
        is_partner = step.call.host != "stack"
        if len(since) == 1 and (first := since.pop()) >= 0 and is_partner:
            before = run.steps[first]
            assert isinstance(before, TracedCopy)
            samples = before.call.sample, step.call.sample
            if pairs_of(before) == pairs_of(step) and None not in samples and self._unknown < first:
                self._judge(index, first, step, samples[0] == samples[1])
        for key in mine:
            self._last.pop(key, None)
            if is_partner:
                self._last[key] = index

    def _judge(self, index: int, first: int, step: TracedCopy, same: bool) -> None:
        written, life = self._written[first], self._life[index]
        was_freed = self._life[first] != life
        if not same or (step.way == "d2h" and (written or was_freed or step.call.before is None)):
            return
        needless = step.call.before == step.call.sample if step.way == "d2h" else not written
        writer = max((at for at, _ in written), default=-1)
        surely = step.way == "d2h" or any(sure for _, sure in written)
        self.found.append(
            RepeatedCopy("needless" if needless else "restoring", index, first, writer, surely, life=life * was_freed)
        )


Uses = tuple[str, frozenset[tuple[Byte, bool, bool]]]
"""A launch: by whom, and each byte with whether it is read and written."""


class ByteMap:
    """Goes through a run byte by byte. launches: what each does in a unified version."""

    def __init__(self, run: TracedRun, known: dict[tuple[int, int], LifeBytes], needless: set[int]) -> None:
        self.run, self._needless = run, needless
        self._windows = {block for (block, _), of in known.items() if of.is_window}
        self._phases: tuple[list[Uses], list[Uses]] = [], []
        self._computing = False
        self._written: set[Byte] = set()
        self._shown: dict[int, dict[int, int]] = defaultdict(dict)
        self._valid: set[Byte] = set()
        self._samples: dict[tuple[int, int], int] = {}
        self._join_windows(known)
        self._sources = {
            self._group(byte)
            for step in run.steps
            if isinstance(step, TracedCopy) and step.way != "h2d"
            for byte in self._source(step)
        }
        self._inputs = {
            str(step.device.block) if step.device.block not in self._windows else self._host_of_block[step.device.block]
            for step in run.steps
            if isinstance(step, TracedCopy) and step.way == "h2d"
        }
        self._outputs = set[tuple[str, int]]()
        for step in run.steps:
            if isinstance(step, TracedLaunch):
                named = [use for use in step.uses if use.may_write and str(use.block) in self._sources]
                self._outputs |= {(step.kernel, use.parameter) for use in named if len(named) == 1}
        self._results = self._find_results()
        begin = self._begin()
        for index, step in enumerate(run.steps):
            self._computing |= index == begin
            self._step(index, step)
        self.launches = [*self._phases[0], *self._phases[1]]

    def _begin(self) -> int:
        into: dict[int, int] = defaultdict(int)
        first: dict[int, int] = {}
        for index, step in enumerate(self.run.steps):
            if isinstance(step, TracedCopy) and step.way == "h2d":
                into[step.device.block] += step.call.bytes
                first.setdefault(step.device.block, index)
        launches = [(n, step) for n, step in enumerate(self.run.steps) if isinstance(step, TracedLaunch)]
        most = next((block for block, nbytes in into.items() if nbytes == max(into.values())), None)
        mine = [n for n, s in launches if n > first.get(most, -1) and any(u.block == most for u in s.uses)]
        return min(mine or [n for n, _ in launches], default=-1)

    def _source(self, step: TracedCopy) -> list[Byte]:
        if step.source.block not in self._windows:
            return [(str(step.source.block), 0)]
        return [("host", host) for _, host in self._in_window(step)] if step.way == "d2h" else []

    def _in_window(self, step: TracedCopy) -> list[tuple[int, int]]:
        """The bytes of a window that a copy joins with those of its unified block: all, or none."""
        pairs = pairs_of(step)
        mine = self._host_of_block[step.device.block]
        return pairs if all(host in mine for _, host in pairs) else []

    def _group(self, byte: Byte) -> object:
        """What a unified block is: a traced block, or the host's bytes of windows that have any in common."""
        return byte[0] if byte[0] != "host" else self.host_blocks[byte[1]]

    def _join_windows(self, known: dict[tuple[int, int], LifeBytes]) -> None:
        sets: list[set[int]] = []
        own: dict[int, set[int]] = {}
        for block in sorted(self._windows):
            own[block] = {h for (of, _), life in known.items() if of == block for h in life.host | life.windows}
            sets, touching = [s for s in sets if not s & own[block]], [s for s in sets if s & own[block]]
            sets.append(own[block].union(*touching))
        self.host_blocks = {h: frozenset(s) for s in sets for h in s}
        self._host_of_block = {block: self.host_blocks[min(hosts)] for block, hosts in own.items()}

    def _find_results(self) -> set[int]:
        last: dict[int, int] = defaultdict(lambda: -1)
        back: dict[int, list[int]] = defaultdict(list)
        for index, step in enumerate(self.run.steps):
            if isinstance(step, TracedLaunch):
                last |= {use.block: index for use in step.uses if use.may_write}
            elif isinstance(step, TracedFill) or (isinstance(step, TracedCopy) and step.way != "d2h"):
                last[step.target.block] = index
            elif isinstance(step, TracedAllocation) and step.begins:
                last[step.block] = index
            elif isinstance(step, TracedCopy):
                back[step.device.block].append(index)
        found = set[int]()
        for block, indices in back.items():
            mine = [index for index in indices if index > last[block]]
            copied = {byte for index in mine for byte, _ in pairs_of(self.run.steps[index])}  # type: ignore[arg-type]
            if block not in self._windows and len(copied) == SIZE:
                found |= {*mine}
        return found

    def _bytes(self, index: int, block: int, start: int, end: int) -> list[Byte]:
        """Where bytes of a block are in the unified version."""
        if block not in self._windows:
            return [(str(block), byte) for byte in range(start, end)]
        shown = {byte: host for byte, host in self._shown[block].items() if start <= byte < end}
        return [("host", host) for byte, host in (shown or self._next(index, block)).items() if start <= byte < end]

    def _next(self, index: int, block: int) -> dict[int, int]:
        for step in self.run.steps[index:]:
            if isinstance(step, TracedAllocation) and step.block == block:
                return {}
            if isinstance(step, TracedCopy) and step.way == "d2h" and step.device.block == block:
                return dict(self._in_window(step))
        return {}

    def _add(self, agent: str, *uses: tuple[Sequence[Byte], bool, bool]) -> None:
        all_bytes = frozenset((byte, reads, writes) for of, reads, writes in uses for byte in of)
        if all_bytes:
            self._phases[self._computing].append((agent, all_bytes))

    def _step(self, index: int, step: object) -> None:
        if isinstance(step, TracedLaunch):
            self._launch(index, step)
        elif isinstance(step, TracedAllocation) and not step.begins:
            self._shown[step.block].clear()
            self._valid = {byte for byte in self._valid if byte[0] != str(step.block)}
        elif isinstance(step, TracedFill):
            target = self._bytes(index, step.target.block, step.target.start, step.target.end)
            self._add("gpu", (target, False, True))
            self._valid |= {*target}
            self._written |= {*target}
        elif isinstance(step, TracedCopy) and step.way == "d2d":
            source, target = (
                self._bytes(index, side.block, side.start, side.end) for side in (step.source, step.target)
            )
            self._add("gpu", (source, True, False), (target, False, True))
            self._valid |= {*target}
            self._written |= {*target}
        elif isinstance(step, TracedCopy):
            self._copy(index, step)

    def _launch(self, index: int, step: TracedLaunch) -> None:
        tells = "PK" in step.kernel
        for written in ((lambda _: tells), (lambda group: group not in self._inputs), (lambda _: True)):
            uses = self._uses(index, step, written)
            if any(writes for _, _, writes in uses):
                break
        self._phases[self._computing].append(("gpu", frozenset((b, r, w) for of, r, w in uses for b in of)))
        written = {byte for of, _, writes in uses if writes for byte in of}
        self._valid |= written
        self._written |= written

    def _uses(
        self, index: int, step: TracedLaunch, written: Callable[[object], bool]
    ) -> list[tuple[list[Byte], bool, bool]]:
        uses = []
        for use in step.uses:
            mine = self._bytes(index, use.block, use.start, SIZE)
            valid = [byte for byte in mine if byte in self._valid]
            if mine and not valid and use.may_write:
                self._outputs.add((step.kernel, use.parameter))
            for byte in valid or mine:
                writes = use.may_write and (
                    written(self._group(byte))
                    or self._group(byte) in self._sources
                    or not valid
                    or (step.kernel, use.parameter) in self._outputs
                )
                uses.append(([byte], bool(valid) or not writes, writes))
        return uses

    def _copy(self, index: int, step: TracedCopy) -> None:
        is_window = step.device.block in self._windows
        if is_window and not self._in_window(step):
            return
        mine = [("host", host) if is_window else (str(step.device.block), byte) for byte, host in pairs_of(step)]
        if step.way == "d2h":
            if index not in self._results:
                self._add("cpu", (mine, True, False))
            return
        again = False
        if is_window:
            self._shown[step.device.block] |= dict(pairs_of(step))
            if step.call.sample is not None:
                key = (step.call.source, step.call.bytes)
                again = self._samples.get(key) == step.call.sample
                self._samples[key] = step.call.sample
        if not again and index not in self._needless:
            is_later = self._computing and (is_window or bool(self._written & {*mine}))
            self._phases[is_later].append(("cpu", frozenset((byte, False, True) for byte in mine)))
        self._valid |= {*mine}
        self._written |= {*mine}


def launches_of(program: Program, hosts: dict[int, frozenset[int]]) -> list[Uses]:
    """The launches of a program in terms of single bytes. hosts: the host's bytes of each block that has any."""
    ordered = sorted({tuple(sorted(s)) for s in hosts.values()})

    def byte(block: int, offset: int) -> Byte:
        name = program.blocks[block].name
        if not name.startswith("host"):
            return name, offset
        return "host", by_block[block][offset]

    blocks = [n for n, b in enumerate(program.blocks) if b.name.startswith("host")]
    by_block = {n: next(s for s in ordered if len(s) == program.blocks[n].nbytes) for n in blocks}
    return [
        (i.agent, frozenset((byte(a.block, n), a.reads, a.writes) for a in i.accesses for n in range(a.start, a.end)))
        for i in unfolded((*program.initialise, *program.compute))
        if isinstance(i, Launch)
    ]


def unfolded(items: Sequence[Item]) -> Iterator[Item]:
    for item in items:
        if isinstance(item, Repeat):
            for _ in range(item.count):
                yield from unfolded(item.body)
        else:
            yield item


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(operation, max_size=30))
def test_a_run_is_what_a_map_of_its_bytes_says(operations: list[tuple[Any, ...]]) -> None:
    run = calls_of(operations).run
    known, told = lives(run), partners(run)
    for (block, life), of in known.items():
        found = told[block][life]
        assert bytes_in(found.host) == of.host
        assert bytes_in(found.window) == of.window
        assert bytes_in(found.windows) == of.windows
    assert [moment.saved for moment in moments(run, told)] == [*saved(run, known)]
    repeated = repeated_copies(run).copies
    assert repeated == LastCopies(run).found
    needless = {copy.copy for copy in repeated if copy.why == "needless" and not copy.life}
    byte_map = ByteMap(run, known, needless)
    program = program_of_trace(run, name=lambda block: str(block.number))
    assert launches_of(program, byte_map.host_blocks) == byte_map.launches


KINDS = ("device", "device", "device", "pinned", "managed", "device_static", "unknown", "array")
WHAT = ("block", "free", "copy", "copy", "rows", "fill", "launch", "launch", "wait", "use", "pointers")
PRICES = PlatformPrices(platform_of("model:h200-pcie"))


def any_calls(chosen: random.Random) -> tuple[Calls, list[MemoryEvent]]:
    """Calls without sense: of all kinds of memory, in two dimensions, and beyond the ends of blocks."""
    calls, alive, events = Calls(), list[int](), list[MemoryEvent]()
    for _ in range(chosen.randint(1, 50)):
        what = chosen.choice(
            ("block", "free", "copy", "copy", "rows", "fill", "launch", "launch", "wait", "use", "pointers")
        )
        host, nbytes = HOST + chosen.choice((0, 8, 4096, 1 << 20)), chosen.choice((1, 8, 64, 5000))
        if what == "block":
            size = chosen.choice((1, 8, 64, 4096, 1 << 20))
            alive.append(calls.block(size, kind=chosen.choice(KINDS), line=chosen.randint(0, 2)))
        elif what == "wait":
            calls.wait(chosen.choice(("stream", "copy")))
        elif alive:
            first, second = chosen.choices(alive, k=2)
            sides = [first + chosen.choice((0, 0, 1, 70)), chosen.choice((host, second))]
            if what == "free":
                calls.free(alive.pop(alive.index(first)))
            elif what in ("copy", "rows"):
                chosen.shuffle(sides)
                rows = {"rows": chosen.randint(1, 99), "source_pitch": 16, "target_pitch": chosen.choice((0, 8, 128))}
                place = chosen.choice(("other", "stack", "pinned", "static"))
                calls.copy(
                    *sides, nbytes, host=place, sample=chosen.choice((None, 1)), **(rows if what == "rows" else {})
                )
            elif what == "fill":
                calls.fill(sides[0], nbytes)
            elif what == "launch":
                calls.launch(*chosen.choices(alive, k=chosen.randint(0, 3)), kernel=chosen.choice(KERNELS))
            elif what == "use":
                calls.host_use(host, nbytes, [(host, host + nbytes)], chosen.choice((None, 0, nbytes)))
            else:
                calls.pointers(first, second, second + 1, 12345)
            events.append(
                MemoryEvent(chosen.choice(("h2d", "d2h")), calls.calls[-1].t, 0.0, first, nbytes, cause="fault")
            )
    return calls, events


@pytest.mark.parametrize("seed", range(EXAMPLES // 10))
def test_any_trace_becomes_a_program_that_is_stored_and_priced(seed: int) -> None:
    calls, events = any_calls(random.Random(seed))
    program = program_of_trace(calls.run, events=events)
    assert decode(encode(program), "a trace") == program
    for strategy in ("explicit", "managed+both"):
        with suppress(NotEstimated):
            estimate(program, STRATEGIES[strategy], PRICES)


@settings(max_examples=EXAMPLES, deadline=None)
@given(operations=st.lists(operation, max_size=40))
def test_each_copy_of_a_buffer_has_one_fate(operations: list[tuple[Any, ...]]) -> None:
    answer = answer_of(calls_of(operations))
    assert sum(row.copies for row in answer.copy_calls) == answer.copies
