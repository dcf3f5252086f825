"""The processes of the target: who started whom, what they execute, and the memory of each at every tick."""

from __future__ import annotations

import os
import resource
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from firsttouch import _core
from firsttouch.machine.tree import Tree, parse_int
from firsttouch.profile import schema
from firsttouch.profile.marks import VARIABLE
from firsttouch.profile.perf import TargetEvents
from firsttouch.profile.records import LONGEST_SPAN_OF_PROCESS, Pace, Track, Writer

COLUMNS = ("resident", "minor", "major")
LONGEST_COMMAND = 200
"""The most arguments of a command that are stored, and characters of each."""


_COMMAND_IS_READ_FOR = 1.0
"""Seconds in which an empty command is read again. Some processes have none: they have ended, or have cleared it."""
_MOST_REMEMBERED = 1 << 16
_DESCRIPTORS_OF_MEMBER, _DESCRIPTORS_KEPT = 2, 16
"""Descriptors by which a process is read, and those that are kept free for other reads."""


@dataclass
class Member:
    """A process of the target that can be read."""

    key: int
    pid: int
    parent: int | None
    track: Track
    memory: Track | None = None
    nodes: Track | None = None
    resident: int = 0
    minor: int = 0
    major: int = 0
    name: str = ""
    unread_command_since: float | None = None
    """When its command was empty, as it is for a moment while the process executes another program."""
    rollup_at: float = -1.0
    """When its slow counters were last read."""
    pss: int | None = None
    reads: dict[str, tuple[float, int]] = field(default_factory=dict)
    """By kind of slow read, the seconds that the last one took, and the resident bytes then."""


@dataclass
class _Newborn:
    """A process of which perf events told, and that was not read yet."""

    parent: int
    names: list[str] = field(default_factory=list)


class Processes:
    """The processes of the target. `tree` is used for what is read by name; counters are read through the core."""

    def __init__(self, tree: Tree, writer: Writer, pace: Pace, marker: str = "") -> None:
        self.members: dict[int, Member] = {}
        """By pid."""
        self.first_is_child = False
        """Whether the profiler started the first process."""
        self.newest = 0.0
        """When the last process was added."""
        self._tree, self._writer, self._pace = tree, writer, pace
        self._sampler = _core.ProcessSampler(str(tree.path("proc")))
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._total = Track("total", [*COLUMNS, "processes", "shared", "least"], pace)
        self._marker = os.fsencode(f"{VARIABLE}={marker}") if marker else b""
        self._keys = 0
        self._newborn: dict[int, _Newborn] = {}
        self._of_brief: dict[int, tuple[int, str]] = {}
        """The key of the nearest ancestor that was read, and the name, by the pid of a process that was not."""
        self._most: int | None = None
        """How many processes there are descriptors for."""
        self._unread: set[int] = set()
        """Those that are there and cannot be read."""
        self._noticed_at = 0.0
        self._by_key: dict[int, Member] = {}
        self._seen_pids: set[int] = set()

    def start(self, interval: float, perf: TargetEvents | None, wake: int) -> None:
        """Begins to read all processes each `interval` seconds. wake: the signal that the core's thread sends when perf
        events have something to tell; 0: none.
        """
        self._sampler.start(interval, perf.core if perf else None, wake)

    def stop(self) -> None:
        """Ends the core's thread, and reads all processes once more."""
        self._sampler.stop()
        self._sampler.tick()

    @property
    def resident(self) -> int:
        """The sum of the resident sizes in bytes."""
        return sum(member.resident for member in self.members.values())

    def key_of(self, pid: int) -> int | None:
        member = self.members.get(pid)
        return None if member is None else member.key

    def add(self, t: float, pid: int, parent: int | None, name: str = "") -> bool:
        """Begins to read a process. Returns False if it is gone. name: if it ends before that is read."""
        key = self._keys
        if pid in self.members:
            return True
        if pid == os.getpid() or len(self.members) >= self._descriptor_room() or not self._sampler.add(key, pid):
            return False
        self._keys += 1
        self.newest = t
        member = Member(key, pid, parent, Track(f"process:{key}", COLUMNS, self._pace, LONGEST_SPAN_OF_PROCESS))
        self.members[pid] = self._by_key[key] = member
        self.name(t, member, name)
        return True

    def add_first(self, t: float, pid: int) -> bool:
        """Begins to read the first process, whose key is 0 even if it is gone. Returns False if it is."""
        is_there = self.add(t, pid, None)
        self._keys = max(1, self._keys)
        return is_there

    def _descriptor_room(self) -> int:
        """How many processes this one may have descriptors for."""
        if self._most is None:
            try:
                used = len(os.listdir("/proc/self/fd"))
            except OSError:
                used = 0
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            free = limit - used - _DESCRIPTORS_KEPT if limit != resource.RLIM_INFINITY else _MOST_REMEMBERED
            self._most = max(1, free // _DESCRIPTORS_OF_MEMBER)
        return self._most

    def _is_running(self, pid: int) -> bool:
        """Whether a process that could not be added is there. It may end between the two reads."""
        return self._state(pid) not in ("Z", "X") and self._tree.exists(f"proc/{pid}")

    def _state(self, pid: int) -> str:
        """The state of a process as in /proc/PID/stat; '' if that cannot be read."""
        return (self._tree.stat(pid) or [""])[0]

    def name(self, t: float, member: Member, otherwise: str | None = None, executed: str = "") -> None:
        """Writes what a process executes, if that has changed. If the process has ended, its first line has the name
        `otherwise`, and later ones that of the program that it `executed`.
        """
        name = self._tree.text(f"proc/{member.pid}/comm") or executed
        if otherwise is None and (name == member.name or not name):  # the same, or it has ended
            return
        member.name = name or otherwise or ""
        command = self._command(member.pid)
        member.unread_command_since = None if command else t
        self._write_start(t, member, command)

    def _command(self, pid: int) -> list[str]:
        words = (self._tree.bytes(f"proc/{pid}/cmdline") or b"").split(b"\0")[:-1]
        return [word.decode(errors="replace")[:LONGEST_COMMAND] for word in words[:LONGEST_COMMAND]]

    def _write_start(self, t: float, member: Member, command: list[str]) -> None:
        key, pid, parent, name = member.key, member.pid, member.parent, member.name
        self._writer.add(schema.Started(t=round(t, 5), key=key, pid=pid, parent=parent, name=name, command=command))

    def _read_empty_commands(self, t: float) -> None:
        for member in self.members.values():
            if member.unread_command_since is None:
                continue
            if command := self._command(member.pid):
                self._write_start(t, member, command)
            if command or t - member.unread_command_since > _COMMAND_IS_READ_FOR:
                member.unread_command_since = None

    # ------------------------------------------------------------------------------- what perf events tell

    def started(self, pid: int, parent: int) -> None:
        """A process was started; it is read at the next tick."""
        self._newborn[pid] = _Newborn(parent)

    def executed(self, t: float, pid: int, name: str, *, is_program: bool = True) -> None:
        """A process executed a program, or, if not is_program, named itself."""
        if newborn := self._newborn.get(pid):
            newborn.names.append(name)
        elif member := self.members.get(pid):
            self.name(t, member, executed=name if is_program else "")

    # ------------------------------------------------------------------------------- readings

    def take_readings(self, began: float) -> tuple[int, int]:
        """Takes what the core's thread has read. began: the time 0. Returns the ticks until now, and the late ones."""
        self._read_empty_commands(time.monotonic() - began)
        readings, totals, ticks, late = self._sampler.take()
        for seconds, key, pages, minor, major, state in readings:
            member = self._by_key.get(key)
            if member is None:
                continue
            member.resident, member.minor, member.major = pages * self._page, minor, major
            if state not in "?ZX":
                member.track.add(seconds - began, (member.resident, minor, major))
            elif key or not self.first_is_child:  # the end of a child is told to the profiler, with more about it
                self.end(seconds - began, member)
        for seconds, pages, minor, major, processes, shared, least in totals:
            sizes = shared * self._page, least * self._page
            self._total.add(seconds - began, (pages * self._page, minor, major, processes, *sizes))
        return ticks, late

    def add_started(self, t: float) -> None:
        """Begins to read the processes that perf events told of."""
        if not self._newborn:
            return
        names: Counter[str] = Counter()
        for pid, newborn in self._newborn.items():
            parent = self.members.get(newborn.parent)
            key, name = (parent.key, parent.name) if parent else self._of_brief.get(newborn.parent, (0, ""))
            name = newborn.names[-1] if newborn.names else name  # one that executes nothing has its parent's name
            if self.add(t, pid, key, name):
                continue
            self._of_brief[pid] = key, name
            if self._is_running(pid):
                self._notice_unread(t, pid)
            else:
                names[name] += 1
        self._newborn.clear()
        if len(self._of_brief) > _MOST_REMEMBERED:
            self._of_brief.clear()
        if names:
            self._writer.add(schema.BriefProcesses(t=round(t, 5), count=names.total(), names=dict(names)))

    def _notice_unread(self, t: float, pid: int) -> None:
        """Says once, of the first one, that there are processes whose memory cannot be read."""
        if not self._unread:
            few = len(self.members) >= self._descriptor_room()
            reason = (
                f"this process may have no more descriptors than for {self._descriptor_room()}"
                if few
                else "/proc refuses it"
            )
            text = f"The memory of some processes was not read, of {pid} as the first: {reason}."
            self._noticed_at = round(t, 5)
            self._writer.add(schema.Notice(t=self._noticed_at, text=text))
        self._unread.add(pid)

    def end(self, t: float, member: Member, line: schema.Ended | None = None) -> None:
        """A process has ended. line: what the kernel told about it."""
        for samples in (member.track.take(last=True), member.memory and member.memory.take(last=True),
                        member.nodes and member.nodes.take(last=True)):  # fmt: skip
            if samples:
                self._writer.add(samples)
        self._writer.add(line or schema.Ended(t=round(t, 5), key=member.key, minor=member.minor, major=member.major))
        self._sampler.remove(member.key)
        del self.members[member.pid], self._by_key[member.key]

    def scan(self, t: float) -> None:
        """Looks for processes that the target started, where perf events do not tell: by parents, and by the folder of
        the profile in their environment, which also those have whose parent has ended.
        """
        pids = {int(name) for name in self._tree.names("proc") if name.isdecimal()}
        fresh = sorted(pids - self._seen_pids)
        self._seen_pids = pids
        parents = {pid: parent for pid in fresh if (parent := self._parent(pid)) is not None}
        while children := [
            pid for pid, parent in parents.items() if parent in self.members and pid not in self.members
        ]:
            added = [self.add(t, pid, self.key_of(parents[pid])) for pid in children]
            for pid, is_added in zip(children, added, strict=True):
                if not is_added and pid != os.getpid() and self._is_running(pid):
                    self._notice_unread(t, pid)
            if not any(added):
                break
        for pid in parents.keys() - self.members.keys() - {os.getpid()}:
            if self._marker and self._marker in (self._tree.bytes(f"proc/{pid}/environ") or b"").split(b"\0"):
                self.add(t, pid, None if not self.members else min(m.key for m in self.members.values()))

    def _parent(self, pid: int) -> int | None:
        fields = self._tree.stat(pid)
        return parse_int(fields[1]) if len(fields) > 1 else None

    def take(self, *, last: bool = False) -> Iterable[schema.Samples]:
        """The rows since the last call."""
        if last and self._unread:
            text = f"{len(self._unread):,} processes that were not read are in no number."
            self._writer.add(schema.Notice(t=self._noticed_at, text=text))
        tracks = [self._total]
        for member in self.members.values():
            tracks += [track for track in (member.track, member.memory, member.nodes) if track is not None]
        for track in tracks:
            if samples := track.take(last=last):
                yield samples
