"""port-partial: each iteration reads back one word of an array that the device updates.

A copy of eight bytes takes eight bytes. In a unified array the page of the word moves to the CPU, and back. The ported
form has the kernel store the word in a block of its own, in page-locked memory where that can be used by its address.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

from firsttouch import _core
from firsttouch.apps.port_programs.parts import WORD, Parts, words
from firsttouch.apps.port_programs.program import BY_FORM, FormRun, PortProgram, codebook, fact
from firsttouch.base.units import format_size
from firsttouch.experiments.contract.base import WorkerRules
from firsttouch.experiments.contract.meanings import EVENTS
from firsttouch.machine.allocators.properties import common_allocator
from firsttouch.profile.events.log import VARIABLE
from firsttouch.records.schema import Scalar, as_number

ITERATIONS = 16
START = 1
MASK = 2**64 - 1


class ScalarOfArray(PortProgram):
    """A scalar that decides on the next iteration. Source: IISWC 2025 Sec. III-C, partial data transfers."""

    name = "port-partial"
    order = 93
    question = "What does reading one word of an array move?"
    hazard = "reading one word of a unified array moves pages in each iteration"
    strategy = "keeps the word in a separate buffer"
    naive_is_right = True
    size = 16 * 1024**2
    figures = (BY_FORM,)
    worker = WorkerRules(environment=lambda factors: {VARIABLE: "1"})  # for all forms, since recording takes time
    codebook = codebook(*EVENTS, moved_bytes_per_iteration="B", iterations="", iteration_ms="ms")

    def expected(self, size: int) -> Sequence[int]:
        return _scalars()

    def discrete(self, parts: Parts, size: int) -> FormRun:
        with parts.on_host(size) as host, parts.on_device(size) as array, parts.on_host(WORD) as word:
            words(host)[:] = START
            parts.copy(array, host, size)

            def iterate(before: int) -> int:
                _launch(parts, array, before, array)
                parts.copy(word, array, WORD, start=size - WORD)
                parts.wait()
                return int(words(word)[0])

            found, counters = _iterations(parts, iterate)
        return FormRun(found, counters={k: v for k, v in counters.items() if k in ("iterations", "iteration_ms")})

    def naive(self, parts: Parts, size: int) -> FormRun:
        parts.session.recorded_events()  # without them nothing can be observed
        with parts.unified(size) as array:
            words(array)[:] = START

            def iterate(before: int) -> int:
                _launch(parts, array, before, array)
                parts.wait()
                return int(words(array)[-1])

            found, moved = _iterations(parts, iterate)
            facts = [fact("array", array)]
        each = as_number(moved["moved_bytes_per_iteration"]) or 0
        hazard = f"reading {WORD} bytes moves {format_size(int(each))} in each iteration" if each >= 64 * WORD else ""
        return FormRun(found, hazard, moved, facts)

    def ported(self, parts: Parts, size: int) -> FormRun:
        with parts.unified(size) as array, _own_block(parts) as word:
            words(array)[:] = START

            def iterate(before: int) -> int:
                _launch(parts, array, before, word)
                parts.wait()
                return int(words(word)[0])

            found, moved = _iterations(parts, iterate)
            facts = [fact("array", array), fact("scalar", word)]
        return FormRun(found, counters=moved, buffers=facts)


def _launch(parts: Parts, array: _core.Buffer, before: int, result: _core.Buffer) -> None:
    """One step of the array, whose last word the kernel also stores as the last word of `result`."""
    last = array.size // WORD - 1
    parts.launch("port_step", last + 1, array, last + 1, before, last, result, result.size // WORD - 1)


def _iterations(parts: Parts, iterate: Callable[[int], int]) -> tuple[list[int], Mapping[str, Scalar]]:
    """The word after each iteration; and what the driver moves in each after the first, with the time of one.

    iterate: carries out an iteration, with the word that was read after the one before.
    """
    found = [iterate(0)]
    with _moved(parts) as moved:
        start = time.perf_counter()
        for _ in range(ITERATIONS - 1):
            found.append(iterate(found[-1]))
        seconds = time.perf_counter() - start
    return found, {**moved, "iterations": ITERATIONS, "iteration_ms": 1e3 * seconds / (ITERATIONS - 1)}


def _own_block(parts: Parts) -> _core.Buffer:
    """A block for one word: page-locked memory if CPU and kernels use it by its address, which nothing moves."""
    usual = common_allocator("page-locked")
    entry = parts.info.allocator(usual)
    if entry is not None and entry.available and entry.cpu == entry.gpu == "direct":
        return parts.device.allocate(usual, WORD)
    return parts.unified(WORD)


@contextmanager
def _moved(parts: Parts) -> Iterator[dict[str, Scalar]]:
    """The bytes that the driver moves in the `with` block, per iteration after the first; none if it tells none."""
    counters: dict[str, Scalar] = {}
    if parts.session.events is None:
        yield counters
        return
    with parts.session.events.window() as window:
        yield counters
    totals = window.totals()
    moved = sum(as_number(totals.get(f"um_{way}_bytes")) or 0 for way in ("h2d", "d2h"))
    counters["moved_bytes_per_iteration"] = moved / (ITERATIONS - 1)


@cache
def _scalars() -> Sequence[int]:
    """The word after each iteration: all words of the array are equal."""
    word, before, found = START, 0, []
    for _ in range(ITERATIONS):
        word = before = _mix(word + before & MASK)
        found.append(word)
    return found


def _mix(x: int) -> int:
    """mix64 of base/kernels/common.h."""
    x = x + 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


PROGRAM = ScalarOfArray()
