"""The two agents of an application: launches on the CPU and on the GPU, with what each reads and writes.

A pointer argument is an Array. By default a `const` pointer reads the whole array, and any other pointer reads and
writes it. `reads`, `updates` (read and written) and `writes` (overwritten without being read) replace this default for
the arrays that they name: each lists whole arrays or slices of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from firsttouch import _core
from firsttouch.base.errors import Unsupported
from firsttouch.program.declarations import Agent
from firsttouch.program.execution.arrays import NO_PASSES, Array, ArraySlice, ByteRange, Passes
from firsttouch.program.execution.iteration_marks import IterationMarks
from firsttouch.program.execution.messenger import Messenger
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.program import SMALL_LAUNCH
from firsttouch.program.reserved import BUILT_IN

KernelArgument: TypeAlias = "Array | int | float"
MAX_REPLAYS = 100
"""Most timed replays of one sequence; longer sequences are timed in groups of launches."""
MOST_PARAMETERS = 24
"""Of a kernel (native/device/gpu.hpp)."""
_CODES = {"int": "i", "uint": "I", "long": "l", "ulong": "L", "uchar": "B", "float": "f", "double": "d"}
_FUNCTION = re.compile(r"^(?:GROUP_)?(KERNEL|HELPER)\b[^(;]*?(\w+)\(", re.MULTILINE)
_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)
_KERNEL = re.compile(r"^(GROUP_)?KERNEL (\w+)\(([^)]*)\)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One kernel's parameters: a type code for each, whether it is const, and its name. groups: launched as thread
    groups.
    """

    name: str
    codes: str
    constant: tuple[bool, ...]
    parameters: tuple[str, ...]
    groups: bool

    @cached_property
    def buffers(self) -> tuple[tuple[int, bool], ...]:
        """The positions of its buffers, and whether each is const."""
        return tuple((n, self.constant[n]) for n, code in enumerate(self.codes) if code == "p")


_NO_ENTRY = Entry("", "", (), (), False)


def entries(text: str) -> dict[str, Entry]:
    """The kernels of a kernel file, by name. Raises ValueError for a parameter of an unsupported type, for too many of
    them, and for a name that OpenCL C reserves.
    """
    for macro, name in _FUNCTION.findall(text):
        if name in BUILT_IN:
            raise ValueError(f"{macro.lower()} {name}: '{name}' is a built-in function of OpenCL C; use another name")
    kernels = {}
    for groups, name, parameters in _KERNEL.findall(text):
        codes, constant, names = "", [], []
        for parameter in filter(None, (" ".join(p.split()) for p in parameters.split(","))):
            words = parameter.replace("*", " * ").split()
            kind = "p" if "*" in words else _CODES.get(" ".join(w for w in words[:-1] if w != "const"), "")
            if not kind:
                raise ValueError(f"kernel {name}: '{parameter}' is neither a pointer nor one of {', '.join(_CODES)}")
            codes += kind
            constant.append("const" in words)
            names.append(words[-1])
        if len(codes) > MOST_PARAMETERS:
            raise ValueError(f"kernel {name} has {len(codes)} parameters; a kernel takes at most {MOST_PARAMETERS}")
        kernels[name] = Entry(name, codes, tuple(constant), tuple(names), bool(groups))
    return kernels


def _with_line_directive(text: str, file: str, line: int) -> str:
    name = file.replace("\\", "\\\\").replace('"', '\\"')
    return f'#line {line} "{name}"\n{text}'


def kernel_source(path: Path) -> str:
    """The text of a kernel file, with the files of its folder that it includes in their places."""

    def included(match: re.Match[str]) -> str:
        return kernel_source(path.with_name(match[1]))

    return _INCLUDE.sub(included, path.read_text(encoding="utf-8"))


class KernelFile:
    """One file of kernels: its source, its entry points, and each compiled for a device on first use.

    origin: the file and line where the text begins, for the compiler's messages.
    """

    def __init__(
        self,
        name: str,
        text: str,
        defines: Mapping[str, object] | None = None,
        origin: tuple[str, int] | None = None,
    ) -> None:
        self.name, self.text = name, text if origin is None else _with_line_directive(text, *origin)
        self.defines = [(key, str(value)) for key, value in (defines or {}).items()]
        self.entries = entries(text)
        self._compiled: dict[str, _core.Kernel] = {}

    def compiled(self, device: _core.Device, entry: str) -> _core.Kernel:
        if entry not in self._compiled:
            codes = self.entries[entry].codes
            self._compiled[entry] = device.kernel(self.name, self.text, entry, codes, self.defines)
        return self._compiled[entry]


class _Agent:
    """The common part of both agents: finds kernels by name, declares the accesses of a launch, and fills arrays."""

    agent: Agent
    launch: Callable[..., None]

    def __init__(self, workspace: Workspace, files: Sequence[KernelFile]) -> None:
        self.workspace = workspace
        self._files = {entry: file for file in files for entry in file.entries}
        self._checked = set[tuple[object, ...]]()
        """Names of kernels with types of arguments that fit."""

    def _entry(self, name: str, arguments: Sequence[KernelArgument]) -> tuple[KernelFile, Entry]:
        if name not in self._files:
            raise ValueError(f"there is no kernel {name}; the kernels are {', '.join(self._files)}")
        file = self._files[name]
        entry = file.entries[name]
        if len(arguments) != len(entry.codes):
            raise ValueError(f"kernel {name} takes {len(entry.codes)} arguments, not {len(arguments)}")
        types = (name, *map(type, arguments))
        if types in self._checked:
            return file, entry
        for code, argument in zip(entry.codes, arguments, strict=True):
            if (code == "p") != isinstance(argument, Array):
                raise ValueError(f"kernel {name}: expected a {'buffer' if code == 'p' else 'number'}, not {argument!r}")
        self._checked.add(types)
        return file, entry

    def _declare(
        self,
        entry: Entry,
        arguments: Sequence[KernelArgument],
        reads: Sequence[ByteRange],
        updates: Sequence[ByteRange],
        writes: Sequence[ByteRange],
    ) -> None:
        touch = self.workspace.touch
        for byte_range in reads:
            touch(self.agent, byte_range, reads=True, writes=False)
        named = {id(byte_range.array) for byte_range in (*reads, *updates, *writes)}
        for index, constant in entry.buffers:
            argument = arguments[index]
            if id(argument) not in named:
                assert isinstance(argument, Array)
                touch(self.agent, argument, reads=True, writes=not constant)
        for byte_range in updates:
            touch(self.agent, byte_range, reads=True, writes=True)
        for byte_range in writes:
            touch(self.agent, byte_range, reads=False, writes=True)

    def uniform(self, byte_range: ByteRange, low: float, high: float) -> None:
        """Fill with random numbers in [low, high), each derived from the array's key and its index."""
        array, first, count = _items(byte_range)
        kernel = {"f4": "uniform_f32", "f8": "uniform_f64"}.get(array.dtype.str[1:])
        if kernel is None:
            raise ValueError(f"{array.name}: uniform() fills f32 or f64, not {array.dtype}")
        self.launch(kernel, array, first, count, array.key, low, high, over=count, writes=[byte_range])

    def integers(self, byte_range: ByteRange, low: int, high: int) -> None:
        """Fill with random 32-bit integers in [low, high)."""
        array, first, count = _items(byte_range)
        if array.dtype.str[1:] not in ("i4", "u4"):
            raise ValueError(f"{array.name}: integers() fills i32 or u32, not {array.dtype}")
        self.launch("uniform_i32", array, first, count, array.key, low, high - low, over=count, writes=[byte_range])

    def fill(self, byte_range: ByteRange, value: float) -> None:
        """Set every element to the same value."""
        array, first, count = _items(byte_range)
        word = np.array(value, array.dtype)
        size = array.dtype.itemsize
        if size not in (1, 4, 8):
            raise ValueError(f"{array.name}: fill() takes elements of 1, 4 or 8 bytes, not {size}")
        bits = int(word.view(f"u{size}"))
        self.launch(f"fill_{8 * size}", array, first, count, bits, over=count, writes=[byte_range])


def _items(byte_range: ByteRange) -> tuple[Array, int, int]:
    """A byte range in elements: array, first, count."""
    size = byte_range.array.dtype.itemsize
    return byte_range.array, byte_range.start // size, (byte_range.end - byte_range.start) // size


class Cpu(_Agent):
    """The CPU: native kernels on `threads` pinned threads (0: all of them), and numpy views for small work."""

    agent: Agent = "cpu"

    def __init__(self, workspace: Workspace, files: Sequence[KernelFile]) -> None:
        super().__init__(workspace, files)
        self.threads = 0
        self.in_turns = False
        """Whether a kernel begins only when all queued work of the GPU has ended."""
        self.why_not_at_once = ""
        """Why no kernel may run while GPU kernels use the same bytes, or '' if it may."""

    def launch(
        self,
        kernel: str,
        *arguments: KernelArgument,
        over: int,
        reads: Sequence[ByteRange] = (),
        updates: Sequence[ByteRange] = (),
        writes: Sequence[ByteRange] = (),
        concurrent_with_gpu: bool = False,
        scattered: Sequence[Array] = (),
    ) -> None:
        """Run a kernel over about `over` items and return when it has ended.

        scattered: arrays whose bytes each thread takes here and there, not in order; for predictions.
        concurrent_with_gpu: run while GPU kernels use the same bytes, without waiting for them. The application then
        orders the accesses of both agents itself.

        Raises:
            Unsupported: that is impossible in this run.
        """
        if concurrent_with_gpu and self.why_not_at_once:
            raise Unsupported(self.why_not_at_once)
        file, entry = self._entry(kernel, arguments)
        if self.in_turns:
            self.workspace.wait()
        self.workspace.declare_scattered(scattered)
        if not concurrent_with_gpu:
            self._declare(entry, arguments, reads, updates, writes)
        self._run(file, entry, arguments, over, concurrent_with_gpu)

    def _run(
        self, file: KernelFile, entry: Entry, arguments: Sequence[KernelArgument], over: int, at_once: bool
    ) -> None:
        address: Callable[[Array], int] = (
            self.workspace.concurrent_address if at_once else lambda array: array.memory.address
        )
        values: list[object] = [address(a) if isinstance(a, Array) else a for a in arguments]
        threads = 1 if over <= SMALL_LAUNCH else self.threads
        _core.launch_on_host(f"{file.name}/{entry.name}", entry.codes, threads, values)

    def load(self, array: Array) -> None:
        """Make the contents of its file available in an array declared with file=True, reading it with all threads if
        the array is not a mapping of the file.
        """
        self.workspace.load(array, self.threads)

    def reads(self, byte_range: ByteRange) -> np.ndarray[Any, Any]:
        """A read-only use: the array as numpy, valid until the GPU writes to it."""
        return self.workspace.view(byte_range)

    def updates(self, byte_range: ByteRange) -> np.ndarray[Any, Any]:
        """The array as numpy, to be read and written at once."""
        return self.workspace.view(byte_range, writes=True)

    def writes(self, byte_range: ByteRange) -> np.ndarray[Any, Any]:
        """The array as numpy, to be overwritten entirely and at once."""
        return self.workspace.view(byte_range, reads=False, writes=True)


@dataclass(frozen=True)
class Tile:
    """Rows [first, first + count) of each tiled array. offset: row of the first one in the memory passed to kernels."""

    first: int
    count: int
    offset: int

    def of(self, array: Array) -> ArraySlice:
        return array[self.first : self.first + self.count]


class LaunchSequence:
    """A recorded list of launches that native code replays. Made by Gpu.sequence()."""

    def __init__(self, gpu: Gpu, steps: _core.LaunchList) -> None:
        self._gpu = gpu
        self.steps = steps
        self.arrays: dict[Array, object] = {}

    def add(self, kernel: str, *arguments: KernelArgument, over: int = 0, groups: int = 0, threads: int = 0) -> None:
        """Append a launch, with the arguments of Gpu.launch."""
        compiled, blocks, each, values = self._gpu.prepare_launch(kernel, arguments, over, groups, threads)
        self.steps.add(compiled, blocks, each, values)
        self.arrays |= {a: a.memory for a in arguments if isinstance(a, Array)}

    def __len__(self) -> int:
        return len(self.steps)


class Gpu(_Agent, Messenger):
    """The GPU: launches queued in order on one stream, and the messages that are exchanged between them."""

    agent: Agent = "gpu"

    def __init__(self, workspace: Workspace, files: Sequence[KernelFile]) -> None:
        super().__init__(workspace, files)
        Messenger.__init__(self, workspace)
        self.windows: dict[Array, int] = {}
        """Bytes of device memory for each tiled array that is streamed."""
        self.timer: _core.KernelTimer | None = None
        """Adds up the time of launches, replays and library calls, if set. There are no marks of iterations then."""
        self.idle = False
        """Whether the CPU does all the work of compute(); its iterations are then timed from their beginning."""
        self.marks = IterationMarks(lambda: self.workspace.device.record())
        """The marks of the last loop over `iterations`."""

    def prepare_launch(
        self, kernel: str, arguments: Sequence[KernelArgument], over: int, groups: int, threads: int
    ) -> tuple[_core.Kernel, int, int, list[object]]:
        """The compiled kernel, the number of blocks, the threads of each and the arguments of one launch."""
        file, entry = self._entry(kernel, arguments)
        device = self.workspace.device
        compiled = file.compiled(device, kernel)
        if entry.groups and not (groups and threads):
            raise ValueError(f"kernel {kernel} uses thread groups: pass groups and threads")
        if not (groups or over):
            raise ValueError(f"kernel {kernel}: pass over, the number of items")
        blocks, each = (groups, threads) if groups else device.grid(over)
        if threads and not groups:
            blocks, each = max(1, math.ceil(over / threads)), threads
        return compiled, blocks, each, [a.memory.device if isinstance(a, Array) else a for a in arguments]

    def launch(
        self,
        kernel: str,
        *arguments: KernelArgument,
        over: int = 0,
        groups: int = 0,
        threads: int = 0,
        reads: Sequence[ByteRange] = (),
        updates: Sequence[ByteRange] = (),
        writes: Sequence[ByteRange] = (),
        passes: Passes = NO_PASSES,
    ) -> None:
        """Queue a kernel: either over about `over` items, or as `groups` blocks of `threads` threads.

        With `over`, each thread takes one item, and several (grid-stride) if there are very many. `threads` then sets
        the block size. passes: how often the kernel takes the bytes of an array from memory, if not once; for advice.
        """
        self.workspace.declare_passes(passes)
        compiled, blocks, each, values = self.prepare_launch(kernel, arguments, over, groups, threads)
        self._declare(self._files[kernel].entries[kernel], arguments, reads, updates, writes)
        self._before_launch()
        self.workspace.device.launch(compiled, blocks, each, values, self.timer)

    def library(self, kind: str, wanted: str = "auto") -> tuple[Any, str]:
        """Open the vendor's library of a kind (blas, sparse or fft), and return it with its name for the record.

        Returns None and "own kernels", with the reason, if there is none, or if `wanted` is "own". Call it in
        App.prepare.
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
        reads: Sequence[ByteRange] = (),
        updates: Sequence[ByteRange] = (),
        writes: Sequence[ByteRange] = (),
    ) -> None:
        """Queue a library call with the device memory of each array. The lists must name everything it accesses."""
        self.workspace.declare_passes(NO_PASSES)
        self._declare(_NO_ENTRY, (), reads, updates, writes)
        self._before_launch()
        values = [a.memory.device if isinstance(a, Array) else a for a in arguments]
        if self.timer is not None:
            self.timer.begin()
        function(*values)
        if self.timer is not None:
            self.timer.end()

    def sequence(self) -> LaunchSequence:
        """An empty list of launches, to be filled in App.prepare and replayed in App.compute."""
        return LaunchSequence(self, _core.LaunchList(self.workspace.device))

    def replay(
        self,
        sequence: LaunchSequence,
        *,
        first: int = 0,
        count: int | None = None,
        reads: Sequence[ByteRange] = (),
        updates: Sequence[ByteRange] = (),
        writes: Sequence[ByteRange] = (),
        passes: Passes = NO_PASSES,
    ) -> None:
        """Queue `count` launches of a sequence from `first` on. The lists name all that they access; passes: by all."""
        self.workspace.declare_passes(passes)
        for array, memory in sequence.arrays.items():
            if array.memory is not memory:
                raise ValueError(f"{array.name} was swapped after the sequence was recorded")
        self._declare(_NO_ENTRY, (), reads, updates, writes)
        self._before_launch()
        sequence.steps.replay(first, len(sequence) if count is None else count, self.timer)

    def replay_all(self, sequence: LaunchSequence, *, each: int = 1, **accesses: Any) -> None:
        """Replay a whole sequence, in at most MAX_REPLAYS timed iterations. Each is a multiple of `each` launches.
        accesses: as of replay.
        """
        count = each * max(1, math.ceil(len(sequence) / each / MAX_REPLAYS))
        for step in self.iterations(math.ceil(len(sequence) / count)):
            self.replay(sequence, first=step * count, count=min(count, len(sequence) - step * count), **accesses)

    def swap(self, first: Array, second: Array) -> None:
        """Exchange the memory of two buffers of the same kind, without copying, unless one is declared to have the host
        array alone and one the device array.
        """
        self.workspace.swap(first, second)

    def iterations(self, count: int) -> Iterator[int]:
        """Count from 0 to count - 1, and record an event after each iteration (or group of them, at most MAX_MARKS).

        The first event is recorded before the first launch, after the copies that it needs; at once if the GPU is idle.
        """
        self.marks.begin(count, timed=self.timer is None)
        if self.idle:
            self._before_launch()
        for index in range(count):
            yield index
            self.marks.after(index)
        self.marks.end()

    def _before_launch(self) -> None:
        if self.workspace.clock is not None:
            self.workspace.clock.start()
        self.marks.first()

    def tile_rows(self, *arrays: Array) -> int:
        """Rows of each tile that `tiles` yields; the last one may have fewer."""
        return min((self.windows[a] // a.row_bytes for a in arrays if a in self.windows), default=len(arrays[0]))

    def tiles(self, *arrays: Array) -> Iterator[Tile]:
        """Yield the rows of `arrays`, which must have the same number of rows: as one tile if they fit on the device,
        otherwise as tiles that fit the budget. Kernels find row `first` of a tiled array at row `offset` of its memory.
        """
        rows, each = len(arrays[0]), self.tile_rows(*arrays)
        streamed = [a for a in arrays if a in self.windows]
        for first in range(0, rows, each):
            for array in streamed:
                self.workspace.move_window(array, first * array.row_bytes)
            yield Tile(first, min(each, rows - first), 0 if streamed else first)
