"""Conditions that no setting states: each is tried on this process, which is left as it was."""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from statistics import median

from firsttouch.machine.tree import Facts

_BASE_PAGE = 4096
_PIECE = 16 * 2**20
_PIECES = 12
_SHARE = 4
"""At most this part of the available memory is touched."""
_LONGEST = 0.4
"""Seconds after which no further piece is touched."""
_PAIR_SECONDS, _PAIR_TRIES = 0.01, 3
_HASHED = bytes(2**16)


def pinning() -> Facts:
    """The fact pinning_refused: why a thread of this process cannot be bound to one processor; empty if it can."""
    refused: list[str] = []

    def bind() -> None:
        try:
            affinity = {min(os.sched_getaffinity(0))}
            os.sched_setaffinity(0, affinity)  # of this thread alone, which ends
            if os.sched_getaffinity(0) != affinity:
                refused.append("the request has no effect")
        except OSError as error:
            refused.append(error.strerror or str(error))

    thread = threading.Thread(target=bind)
    thread.start()
    thread.join()
    return {"pinning_refused": refused[0]} if refused else {}


def pair(processors: Sequence[int]) -> Facts:
    """The fact pair_speedup: how much two threads on the first two processors do at once, relative to one thread; the
    most of several tries, since other programs only lessen it. Near 1.5 the two are hardware threads of one core, which
    a virtual machine does not state, and which may change while it runs. Empty where threads cannot be bound.
    """
    if len(processors) < 2:
        return {}
    try:
        speedups = []
        for _ in range(_PAIR_TRIES):
            alone = max(_work_done([processor]) for processor in processors[:2])
            speedups.append(_work_done(processors[:2]) / max(1, alone))
    except (OSError, threading.BrokenBarrierError):
        return {}
    return {"pair_speedup": round(max(speedups), 2)}


def _work_done(processors: Sequence[int]) -> int:
    """How often threads on these processors hash a block at once, in all."""
    hashes = [0] * len(processors)
    ready = threading.Barrier(len(processors), timeout=_LONGEST)

    def work(i: int) -> None:
        try:
            os.sched_setaffinity(0, {processors[i]})
        except OSError:
            ready.abort()
            return
        with suppress(threading.BrokenBarrierError):
            ready.wait()
            until = time.perf_counter() + _PAIR_SECONDS
            while time.perf_counter() < until:
                hashlib.sha256(_HASHED)  # without the interpreter's lock
                hashes[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(processors))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if ready.broken:
        raise threading.BrokenBarrierError
    return sum(hashes)


def touches(available: float) -> Facts:
    """The facts touch_fresh_ns and touch_again_ns: the processor time of the first touch per 4 KiB of new memory, in
    the piece where it took longest, and of memory that was given back to the kernel (MADV_DONTNEED) and is new again.

    A host that hands memory out as it is used takes its time at the former only. Huge pages are requested, because only
    whole free ones are given back to a host. available: bytes of memory that may be used.
    """
    pieces = min(_PIECES, int(available / _SHARE) // _PIECE)
    if pieces < 2:
        return {}
    fresh: list[float] = []
    again: list[float] = []
    began = time.monotonic()
    with suppress(OSError, ValueError, AttributeError), mmap.mmap(-1, pieces * _PIECE, mmap.MAP_PRIVATE) as block:
        with suppress(OSError):
            block.madvise(mmap.MADV_HUGEPAGE)
        while len(fresh) < pieces and time.monotonic() - began < _LONGEST:
            fresh.append(_touch(block, len(fresh)))
        block.madvise(mmap.MADV_DONTNEED)
        again = [_touch(block, at) for at in range(len(fresh))]
    if len(again) < 2:
        return {}
    return {"touch_fresh_ns": round(max(fresh), 1), "touch_again_ns": round(median(again), 1)}


def _touch(block: mmap.mmap, piece: int) -> float:
    """Nanoseconds of this thread per page to store a byte in each page of a piece."""
    pages = _PIECE // _BASE_PAGE
    ones = b"\1" * pages
    with memoryview(block) as view:
        began = time.thread_time()
        view[piece * _PIECE : (piece + 1) * _PIECE : _BASE_PAGE] = ones
        return (time.thread_time() - began) / pages * 1e9
