"""The two agents of an application: launches on the CPU and on the GPU, with what each reads and writes.

A pointer argument is an Array. Without further words a `const` pointer is read as a whole and any other is read and
written as a whole. `reads`, `updates` (read and written) and `writes` (overwritten, whatever was there) say it better:
give parts of arrays there, or the whole array in `writes`. What is named in one of them has no default any more.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from firsttouch import _core
from firsttouch.memory.workspace import Array, Part, Reach, Workspace

Value: TypeAlias = "Array | int | float"
MOST_MARKS = 200
"""Iterations that are timed one by one; beyond that, runs of them."""
MOST_REPLAYS = 100
"""Replays of a sequence that is replayed as a whole; the launches of one are timed together."""
FEW = 4096
"""Items that one CPU thread does sooner than a team begins."""

_CODES = {"int": "i", "uint": "I", "long": "l", "ulong": "L", "uchar": "B", "float": "f", "double": "d"}
_KERNEL = re.compile(r"^(GROUP_)?KERNEL (\w+)\(([^)]*)\)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One kernel's parameters: a code letter each, and whether a pointer is const."""

    name: str
    codes: str
    constant: tuple[bool, ...]
    groups: bool


_NOTHING = Entry("", "", (), False)


def entries(text: str) -> dict[str, Entry]:
    """The kernels of a file in the dialect, by name. Raises ValueError for a parameter that is not understood."""
    found = {}
    for groups, name, parameters in _KERNEL.findall(text):
        codes, constant = "", []
        for parameter in filter(None, (" ".join(p.split()) for p in parameters.split(","))):
            words = parameter.replace("*", " * ").split()
            kind = "p" if "*" in words else _CODES.get(" ".join(w for w in words[:-1] if w != "const"), "")
            if not kind:
                raise ValueError(f"kernel {name}: '{parameter}' is no pointer and none of {', '.join(_CODES)}")
            codes += kind
            constant.append("const" in words)
        found[name] = Entry(name, codes, tuple(constant), bool(groups))
    return found


class KernelFile:
    """One file of kernels: its text, its entries, compiled for a device when it is first used."""

    def __init__(self, name: str, text: str, defines: Mapping[str, object] | None = None) -> None:
        self.name, self.text = name, text
        self.defines = [(key, str(value)) for key, value in (defines or {}).items()]
        self.entries = entries(text)
        self._compiled: dict[str, _core.Kernel] = {}

    def compiled(self, device: _core.Device, entry: str) -> _core.Kernel:
        if entry not in self._compiled:
            codes = self.entries[entry].codes
            self._compiled[entry] = device.kernel(self.name, self.text, entry, codes, self.defines)
        return self._compiled[entry]


class _Agent:
    """What both agents share: kernels by name, and the accesses of a launch."""

    agent: Any

    def __init__(self, workspace: Workspace, files: Sequence[KernelFile]) -> None:
        self.workspace = workspace
        self._files = {entry: file for file in files for entry in file.entries}

    def _entry(self, name: str, arguments: Sequence[Value]) -> tuple[KernelFile, Entry]:
        if name not in self._files:
            raise ValueError(f"there is no kernel {name}; there are {', '.join(self._files)}")
        file = self._files[name]
        entry = file.entries[name]
        if len(arguments) != len(entry.codes):
            raise ValueError(f"kernel {name} takes {len(entry.codes)} arguments, not {len(arguments)}")
        for code, argument in zip(entry.codes, arguments, strict=True):
            if (code == "p") != isinstance(argument, Array):
                raise ValueError(f"kernel {name}: {argument!r} where a {'buffer' if code == 'p' else 'number'} goes")
        return file, entry

    def _declare(
        self,
        entry: Entry,
        arguments: Sequence[Value],
        reads: Sequence[Reach],
        updates: Sequence[Reach],
        writes: Sequence[Reach],
    ) -> None:
        touch = self.workspace.touch
        for reach in reads:
            touch(self.agent, reach, reads=True, writes=False)
        named = {id(reach.array) for reach in (*reads, *updates, *writes)}
        for argument, constant in zip(arguments, entry.constant, strict=True):
            if isinstance(argument, Array) and id(argument) not in named:
                touch(self.agent, argument, reads=True, writes=not constant)
        for reach in updates:
            touch(self.agent, reach, reads=True, writes=True)
        for reach in writes:
            touch(self.agent, reach, reads=False, writes=True)

    def launch(
        self,
        kernel: str,
        *arguments: Value,
        over: int,
        reads: Sequence[Reach] = (),
        updates: Sequence[Reach] = (),
        writes: Sequence[Reach] = (),
    ) -> None:
        raise NotImplementedError

    def uniform(self, reach: Reach, low: float, high: float) -> None:
        """Random numbers in [low, high), element by element from the array's key (apps/random.py makes them again)."""
        array, first, count = _items(reach)
        kernel = {"f4": "uniform_f32", "f8": "uniform_f64"}.get(array.dtype.str[1:])
        if kernel is None:
            raise ValueError(f"{array.name}: uniform numbers are f32 or f64, not {array.dtype}")
        self.launch(kernel, array, first, count, array.key, low, high, over=count, writes=[reach])

    def integers(self, reach: Reach, low: int, high: int) -> None:
        """Random whole numbers in [low, high) of 32 bits."""
        array, first, count = _items(reach)
        if array.dtype.str[1:] not in ("i4", "u4"):
            raise ValueError(f"{array.name}: random whole numbers are i32 or u32, not {array.dtype}")
        self.launch("uniform_i32", array, first, count, array.key, low, high - low, over=count, writes=[reach])

    def fill(self, reach: Reach, value: float) -> None:
        """The same value everywhere."""
        array, first, count = _items(reach)
        word = np.array(value, array.dtype)
        size = array.dtype.itemsize
        if size not in (1, 4, 8):
            raise ValueError(f"{array.name}: elements of {size} bytes are not filled")
        bits = int(word.view(f"u{size}"))
        self.launch(f"fill_{8 * size}", array, first, count, bits, over=count, writes=[reach])


def _items(reach: Reach) -> tuple[Array, int, int]:
    """An access in elements: array, first, count."""
    size = reach.array.dtype.itemsize
    return reach.array, reach.start // size, (reach.end - reach.start) // size


class Cpu(_Agent):
    """The CPU: native kernels on `threads` pinned threads (0: all), and views for what is small."""

    agent = "cpu"

    def __init__(self, workspace: Workspace, files: Sequence[KernelFile]) -> None:
        super().__init__(workspace, files)
        self.threads = 0

    def launch(
        self,
        kernel: str,
        *arguments: Value,
        over: int,
        reads: Sequence[Reach] = (),
        updates: Sequence[Reach] = (),
        writes: Sequence[Reach] = (),
        beside: bool = False,
    ) -> None:
        """Run a kernel to its end over about `over` items. beside: while kernels of the GPU use the same bytes, without
        waiting for them; the pair sees to its own order.
        """
        file, entry = self._entry(kernel, arguments)
        if not beside:
            self._declare(entry, arguments, reads, updates, writes)
        address: Callable[[Array], int] = self.workspace.beside if beside else lambda array: array.store.address
        values: list[object] = [address(a) if isinstance(a, Array) else a for a in arguments]
        threads = 1 if over <= FEW else self.threads
        _core.launch_on_host(f"{file.name}/{kernel}", entry.codes, threads, values)

    def load(self, array: Array) -> None:
        """What its file holds is in an array that is declared as one: mapped already, or read by all threads."""
        self.workspace.load(array, self.threads)

    def reads(self, reach: Reach) -> np.ndarray[Any, Any]:
        """A view for reading, valid until the GPU writes."""
        return self.workspace.view(reach)

    def updates(self, reach: Reach) -> np.ndarray[Any, Any]:
        """A view for reading and writing, now."""
        return self.workspace.view(reach, writes=True)

    def writes(self, reach: Reach) -> np.ndarray[Any, Any]:
        """A view for overwriting all of it, now."""
        return self.workspace.view(reach, reads=False, writes=True)


@dataclass(frozen=True)
class Tile:
    """Rows [first, first + count) of each tiled array; offset: of the first row in the memory that kernels get."""

    first: int
    count: int
    offset: int

    def of(self, array: Array) -> Part:
        return array[self.first : self.first + self.count]


class LaunchSequence:
    """Launches that the core replays. Made by Gpu.sequence()."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self.steps = _core.LaunchList(gpu.workspace.device)
        self.arrays: dict[Array, object] = {}

    def add(self, kernel: str, *arguments: Value, over: int = 0, groups: int = 0, threads: int = 0) -> None:
        """One more launch, as Gpu.launch takes it."""
        compiled, blocks, each, values = self._gpu.prepared(kernel, arguments, over, groups, threads)
        self.steps.add(compiled, blocks, each, values)
        self.arrays |= {a: a.store for a in arguments if isinstance(a, Array)}

    def __len__(self) -> int:
        return len(self.steps)


class Gpu(_Agent):
    """The GPU: launches queued in order on one stream."""

    agent = "gpu"

    def __init__(self, workspace: Workspace, files: Sequence[KernelFile]) -> None:
        super().__init__(workspace, files)
        self.windows: dict[Array, int] = {}
        """Bytes of the device's part of tiled arrays that are streamed through it."""
        self._marks: list[_core.Event] = []
        self._awaits_first = False
        self._per_mark = 1

    def prepared(
        self, kernel: str, arguments: Sequence[Value], over: int, groups: int, threads: int
    ) -> tuple[_core.Kernel, int, int, list[object]]:
        """What the core needs of one launch: compiled kernel, blocks, threads of each, arguments."""
        file, entry = self._entry(kernel, arguments)
        device = self.workspace.device
        compiled = file.compiled(device, kernel)
        if entry.groups and not (groups and threads):
            raise ValueError(f"kernel {kernel} works in groups: give groups and threads")
        if not (groups or over):
            raise ValueError(f"kernel {kernel}: give what it goes over")
        blocks, each = (groups, threads) if groups else device.grid(over)
        if threads and not groups:
            blocks, each = max(1, math.ceil(over / threads)), threads
        return compiled, blocks, each, [a.store.device if isinstance(a, Array) else a for a in arguments]

    def launch(
        self,
        kernel: str,
        *arguments: Value,
        over: int = 0,
        groups: int = 0,
        threads: int = 0,
        reads: Sequence[Reach] = (),
        updates: Sequence[Reach] = (),
        writes: Sequence[Reach] = (),
    ) -> None:
        """Queue a kernel over about `over` items, one a thread (a grid that strides where there are very many; with
        `threads`, a block for every so many), or as `groups` blocks of `threads`.
        """
        compiled, blocks, each, values = self.prepared(kernel, arguments, over, groups, threads)
        self._declare(self._files[kernel].entries[kernel], arguments, reads, updates, writes)
        self._start_marks()
        self.workspace.device.launch(compiled, blocks, each, values)

    def library(self, kind: str, wanted: str = "auto") -> tuple[Any, str]:
        """The device's library of a kind (blas, sparse or fft), to be opened in App.prepare, and its name to record.
        None and "own kernels", with the reason, where there is none; where `wanted` is "own", none is looked for.
        """
        if wanted == "own":
            return None, "own kernels"
        try:
            library = getattr(_core, f"open_{kind}")(self.workspace.device)
        except _core.Unavailable as reason:
            return None, f"own kernels ({reason})"
        return library, library.title

    def call(
        self,
        function: Callable[..., object],
        *arguments: object,
        reads: Sequence[Reach] = (),
        updates: Sequence[Reach] = (),
        writes: Sequence[Reach] = (),
    ) -> None:
        """Queue a library's work: it gets the device's memory of every array. The lists say all that it touches."""
        self._declare(_NOTHING, (), reads, updates, writes)
        self._start_marks()
        function(*[a.store.device if isinstance(a, Array) else a for a in arguments])

    def sequence(self) -> LaunchSequence:
        """An empty list of launches, to be filled in App.prepare and replayed."""
        return LaunchSequence(self)

    def replay(
        self,
        sequence: LaunchSequence,
        *,
        first: int = 0,
        count: int | None = None,
        reads: Sequence[Reach] = (),
        updates: Sequence[Reach] = (),
        writes: Sequence[Reach] = (),
    ) -> None:
        """Queue launches of a sequence, from `first` on; the lists say what they read and write all together."""
        for array, store in sequence.arrays.items():
            if array.store is not store:
                raise ValueError(f"{array.name} was exchanged after the sequence was made")
        self._declare(_NOTHING, (), reads, updates, writes)
        self._start_marks()
        sequence.steps.replay(first, len(sequence) if count is None else count)

    def replay_all(
        self,
        sequence: LaunchSequence,
        *,
        each: int = 1,
        reads: Sequence[Reach] = (),
        updates: Sequence[Reach] = (),
        writes: Sequence[Reach] = (),
    ) -> None:
        """Replay a sequence from end to end, in at most MOST_REPLAYS iterations of whole runs of `each` launches."""
        count = each * max(1, math.ceil(len(sequence) / each / MOST_REPLAYS))
        for step in self.iterations(math.ceil(len(sequence) / count)):
            some = min(count, len(sequence) - step * count)
            self.replay(sequence, first=step * count, count=some, reads=reads, updates=updates, writes=writes)

    def swap(self, one: Array, other: Array) -> None:
        """Exchange what two like buffers stand for; no byte moves."""
        self.workspace.swap(one, other)

    def iterations(self, count: int) -> Iterator[int]:
        """0 to count - 1, with a mark in the stream after each (or after runs of them, at most MOST_MARKS). The first
        mark stands before the first launch, after the copies that it needs.
        """
        self._per_mark = max(1, math.ceil(count / MOST_MARKS))
        self._marks, self._awaits_first = [], True
        for index in range(count):
            yield index
            if (index + 1) % self._per_mark == 0 or index + 1 == count:
                self._start_marks()
                self._marks.append(self.workspace.device.record())

    def _start_marks(self) -> None:
        if self._awaits_first:
            self._marks.append(self.workspace.device.record())
            self._awaits_first = False

    def iteration_seconds(self) -> list[float]:
        """Seconds of each iteration between the marks of `iterations` (the mean of a run), by the device's clock."""
        marks = self._marks
        return [a.seconds_until(b) / self._per_mark for a, b in itertools.pairwise(marks)]

    def iterated_seconds(self) -> float:
        """Seconds from the first mark to the last."""
        return self._marks[0].seconds_until(self._marks[-1]) if self._marks else 0.0

    def tile_rows(self, *arrays: Array) -> int:
        """Rows of the tiles that `tiles` gives, but for the last."""
        return min((self.windows[a] // a.row_bytes for a in arrays if a in self.windows), default=len(arrays[0]))

    def tiles(self, *arrays: Array) -> Iterator[Tile]:
        """The rows of `arrays`, which all have as many: at once where the device holds them, else tile by tile through
        the memory that the budget leaves. Kernels find row `first` of a tiled array at `offset`.
        """
        rows, each = len(arrays[0]), self.tile_rows(*arrays)
        streamed = [a for a in arrays if a in self.windows]
        for first in range(0, rows, each):
            for array in streamed:
                self.workspace.move_window(array, first * array.row_bytes)
            yield Tile(first, min(each, rows - first), 0 if streamed else first)
