"""What is read now and then, because reading takes long: by one process at a time, under one limit.

smaps_rollup, numa_maps and smaps are read under the memory lock of the process that they describe, in which no page
fault of it can be handled. The time spent in such reads is at most MOST of the time since the profile began, and in
long runs SHARE of it: a read is put off until what it is expected to take fits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from firsttouch.machine.tree import Tree
from firsttouch.profile import process_memory, schema
from firsttouch.profile.records import LONGEST_SPAN_OF_PROCESS, Pace, Track, Writer
from firsttouch.profile.tree import Member, Processes

SHARE, MOST, AT_FIRST = 0.004, 0.015, 0.012
"""The parts of the time, and the seconds that may be spent besides SHARE."""
FIRST, LEAST_APART, LATER_APART = 2.0, 0.1, 0.25
"""Seconds between two reads in the first seconds, and later."""
HOST_APART, HOST_APART_IF_SHARED = 2.0, 0.25
"""Seconds between two readings of the counters of the host, and where only they tell of the memory of a GPU, or how
much several processes share.
"""
RISE = 1.1
"""How much the memory of the target must have risen before its mappings are read again."""
_SECONDS_PER_BYTE, _LEAST_RATE, _LARGE = 4e-11, 1e-12, 1 << 25
"""Seconds that a read takes for each resident byte, 40 ms per GiB, until it was timed how much longer one takes after
memory has risen by so many bytes. Huge pages take much less.
"""
_DOUBT = 1.3
"""How many times as long as expected a read may take."""
ROLLUP, NODES, MAPPINGS = "smaps_rollup", "numa_maps", "smaps"
_LEAST_RISE = 1 << 20
_MEMORY = ("pss", "anonymous", "huge", "hugetlb", "swap", "rss")
T = TypeVar("T")


class SlowReader:
    """Reads the slow counters of the processes in turn, the mappings when memory has risen, and those of the host."""

    def __init__(
        self,
        tree: Tree,
        writer: Writer,
        pace: Pace,
        nodes: list[schema.Node],
        began: float,
        host_apart: float = HOST_APART,
    ) -> None:
        self.lock_seconds, self._host_apart = 0.0, host_apart
        self._tree, self._writer, self._pace, self._began = tree, writer, pace, began
        self._nodes = [node.node for node in nodes] if len(nodes) > 1 else []
        self._rate = _SECONDS_PER_BYTE
        self._next_due = self._host_next = began
        self._looked = self._added = 0
        self._total = Track("total", ["pss"], pace)
        self._machine: Track | None = None

    def step(self, now: float, processes: Processes, root: int) -> None:
        """Reads what is due. root: the pid whose control group is read."""
        if now >= self._host_next:
            is_shared = len(processes.members) > 1
            self._host_next = now + (min(self._host_apart, HOST_APART_IF_SHARED) if is_shared else self._host_apart)
            self._read_host(now, root)
        if now < self._next_due or not processes.members:
            return
        self._next_due = now + (LEAST_APART if now - self._began < FIRST else LATER_APART)
        if processes.resident > max(self._looked * RISE, self._looked + _LEAST_RISE):
            member = max(processes.members.values(), key=lambda m: m.resident)
            if self._fits(now, member, MAPPINGS):
                self._looked = processes.resident
                self._read_mappings(now, member)
                return
        if (
            len(processes.members) > 1
            and processes.resident > self._added * RISE
            and self._add_up_at_once(now, processes)
        ):
            return
        member = min(processes.members.values(), key=lambda m: m.rollup_at)
        if self._fits(now, member, ROLLUP):
            self._read_memory(now, member)
            self._add_up(now, processes)
        processes.name(now - self._began, member)

    def _add_up_at_once(self, now: float, processes: Processes) -> bool:
        """Reads all processes, if that fits, so that what they share is known when they have most."""
        members = [*processes.members.values()]
        if not self._fit(now, sum(self._expected_seconds(member, ROLLUP) for member in members)):
            return False
        self._added = processes.resident
        for member in members:
            self._read_memory(now, member)
        self._add_up(now, processes)
        return True

    def _add_up(self, now: float, processes: Processes) -> None:
        """Adds up the processes, if all were read since the last one was started: a new process shares pages, so that
        what was read of others before counts these twice.
        """
        members = processes.members.values()
        pss = [m.pss for m in members if m.pss is not None and m.rollup_at - self._began >= processes.newest]
        if len(pss) == len(members):
            self._total.add(now - self._began, (sum(pss),))

    def _fits(self, now: float, member: Member, kind: str) -> bool:
        return self._fit(now, self._expected_seconds(member, kind))

    def _fit(self, now: float, seconds: float) -> bool:
        elapsed = now - self._began
        return self.lock_seconds + seconds <= min(MOST * elapsed, SHARE * elapsed + AT_FIRST)

    def _expected_seconds(self, member: Member, kind: str) -> float:
        """Seconds that a read is expected to take: as long as the last one, and what memory has come since takes."""
        last_seconds, resident = member.reads.get(kind, (0.0, 0))
        return _DOUBT * (last_seconds + self._rate * max(0, member.resident - resident))

    def _timed(self, member: Member, kind: str, read: Callable[[], T]) -> T:
        """Calls a function that reads under the target's memory lock, and counts the time in which it may have held it.

        That is not the time in which the target held it and the read waited. If the target ends meanwhile, its memory
        is given back within the read, and nothing of it waits any more.
        """
        began, running = time.monotonic(), self._seconds_running()
        result = read()
        lock_seconds = min(time.monotonic() - began, self._seconds_running() - running)
        if (self._tree.stat(member.pid) or ["X"])[0] in ("Z", "X"):
            return result
        self.lock_seconds += lock_seconds
        self._next_due = max(self._next_due, began + lock_seconds / MOST)
        before_that, resident = member.reads.get(kind, (0.0, 0))
        if (more := member.resident - resident) > _LARGE:
            self._rate = min(max((lock_seconds - before_that) / more, _LEAST_RATE), _SECONDS_PER_BYTE * 4)
        member.reads[kind] = lock_seconds, member.resident
        return result

    def _seconds_running(self) -> float:
        """Seconds in which this thread ran or waited for a processor; all time if the kernel does not state the latter.

        Source: the kernel's Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat.
        """
        words = (self._tree.text("proc/thread-self/schedstat") or "").split()
        return time.thread_time() + int(words[1]) * 1e-9 if len(words) > 1 else time.monotonic()

    def _read_memory(self, now: float, member: Member) -> None:
        member.rollup_at = now
        if rollup := self._timed(member, ROLLUP, lambda: process_memory.rollup(self._tree, member.pid)):
            self._add(now, member, rollup)
        if not self._nodes or not self._fits(now, member, NODES):
            return
        if pages := self._timed(member, NODES, lambda: process_memory.pages_on_nodes(self._tree, member.pid)):
            if member.nodes is None:
                columns = [f"node{node}" for node in self._nodes]
                member.nodes = Track(f"process:{member.key}", columns, self._pace, LONGEST_SPAN_OF_PROCESS)
            member.nodes.add(now - self._began, tuple(pages.get(node, 0) for node in self._nodes))

    def _read_mappings(self, now: float, member: Member) -> None:
        if mappings := self._timed(member, MAPPINGS, lambda: process_memory.mappings(self._tree, member.pid)):
            self._add(now, member, mappings.sums)
            t = round(now - self._began, 5)
            self._writer.add(schema.Mappings(t=t, key=member.key, rows=mappings.rows, others=mappings.others))

    def _add(self, now: float, member: Member, rollup: process_memory.Rollup) -> None:
        member.pss = rollup.pss
        if member.memory is None:
            member.memory = Track(f"process:{member.key}", _MEMORY, self._pace, LONGEST_SPAN_OF_PROCESS)
        values = (rollup.pss, rollup.anonymous, rollup.huge, rollup.hugetlb, rollup.swap, rollup.resident)
        member.memory.add(now - self._began, values)

    def _read_host(self, now: float, pid: int) -> None:
        counters = process_memory.host_counters(self._tree, pid)
        if self._machine is None and counters:
            self._columns = tuple(counters)
            self._machine = Track("machine", self._columns, self._pace)
        if self._machine is not None:
            self._machine.add(now - self._began, tuple(counters.get(name) for name in self._columns))

    def take(self, *, last: bool = False) -> list[schema.Samples]:
        """The rows since the last call that belong to no process."""
        tracks = [self._total, *([self._machine] if self._machine else [])]
        return [samples for track in tracks if (samples := track.take(last=last))]
