"""The application contract: a class declares buffers, initialises, computes and checks. It never places memory.

Each module in apps/ defines a subclass of App, next to a kernel file of the same name (hotspot.py, hotspot.c).
Applications need no other registration. docs/extending/application.md explains an example.
"""

from __future__ import annotations

import ctypes
import inspect
import itertools
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, get_args, overload

import numpy as np

from firsttouch import _core
from firsttouch.base import modules
from firsttouch.experiments.contract.common import BASE_PAGE, MMAP_EVERY_BLOCK
from firsttouch.harness.divided import Division
from firsttouch.harness.random import key_of
from firsttouch.harness.shapes import items, number_type
from firsttouch.program.declarations import Agent, ArraySides, Declaration, Params, Role
from firsttouch.program.execution.agents import Cpu, Gpu, KernelFile, kernel_source
from firsttouch.program.execution.arrays import Array, ByteRange, Scattered
from firsttouch.program.guidance import NONE, memory_words, settings_of
from firsttouch.program.program import SMALL_LAUNCH
from firsttouch.program.strategies import Strategy
from firsttouch.records.schema import DeviceInfo

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

# fmt: off
__all__ = [
    "App", "Cpu", "Gpu", "Params", "PublishedPlacement", "Scattered", "View", "around", "buffer", "c64", "difference",
    "f32", "f64", "i32", "i64", "in_pieces", "on_host", "sample", "shared_kernels", "solve", "u8", "u32", "u64",
]
# fmt: on

f32, f64, c64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.complex64)
i32, i64, u8, u32, u64 = (np.dtype(t) for t in (np.int32, np.int64, np.uint8, np.uint32, np.uint64))

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of mallopt, malloc.h
MOST_REUSED = 32 << 20
"""Bytes of the largest block that a thread may reuse: the most that glibc accepts as a threshold."""
GENERATE = "generate"
"""The file of kernels that generate initial data."""
_MOST_BYTES = 1 << 63


@dataclass(frozen=True)
class PublishedPlacement:
    """What the published version of an application does with its buffers, for --set placement=paper.

    Attributes:
        advice: their advice and prefetches: the words that --set advice.NAME and prefetch.NAME accept, by buffer.
            Buffers that are not named have neither.
        as_stated: the same as the text of the publication states it, where that differs, for --set
            placement=paper-text.
        memory: their memory between kernels, for both: the words that --set memory.NAME accepts, by buffer. Buffers
            that are not named have what their role implies. None: not known.
    """

    advice: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    as_stated: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    memory: Mapping[str, str] | None = None


_TYPES: Sequence[tuple[str, type | tuple[type, ...], str]] = (
    ("source", str, "a text"),
    ("pattern", str, "a text"),
    ("sizes", Mapping, "a mapping"),
    ("grows", str, "the name of a parameter"),
    ("multiple", int, "a whole number"),
    ("expected_rounds", int, "a whole number"),
    ("kernel_text", str, "a text"),
    ("options", Mapping, "a mapping"),
    ("published", PublishedPlacement, "a PublishedPlacement"),
    ("published.advice", Mapping, "a mapping"),
    ("published.as_stated", Mapping, "a mapping"),
    ("published.memory", (Mapping, type(None)), "a mapping or None"),
    ("tiled", (tuple, list), "a tuple of names"),
    ("strided", (tuple, list), "a tuple of names"),
    ("more_kernels", (tuple, list), "a tuple of names"),
)
"""What an application declares besides its buffers: name, type, and what is accepted."""
View: TypeAlias = "Callable[[ByteRange], np.ndarray[Any, Any]]"


class BufferSpec:
    """A buffer declared with `buffer`. On an instance of the application it is an Array."""

    def __init__(self, dtype: DTypeLike, shape: Sequence[int | str], **declared: Any) -> None:
        self.dtype, self.shape, self.declared = number_type(dtype), shape, declared
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, app: None, owner: type) -> BufferSpec: ...
    @overload
    def __get__(self, app: App, owner: type) -> Array: ...
    def __get__(self, app: App | None, owner: type) -> BufferSpec | Array:
        return self if app is None else app.arrays[self.name]

    def declaration(self, params: Params) -> Declaration:
        """Returns the declaration for given parameters. Shape expressions are evaluated as Python code."""
        try:
            shape = tuple(items(s, params) for s in self.shape)
        except ValueError as error:
            raise ValueError(f"cannot evaluate the shape of buffer {self.name}: {error}") from error
        return Declaration(self.name, self.dtype, shape, **self.declared)


def buffer(
    dtype: DTypeLike,
    *shape: int | str,
    role: Role,
    starts_on: Agent | None = None,
    ends_on: Agent | None = None,
    sides: Literal["both", "cpu", "gpu"] | None = None,
    advice: tuple[str, ...] | None = None,
    file: bool = False,
    copies: ArraySides = "both",
) -> BufferSpec:
    """Declare a buffer.

    Args:
        dtype: of numbers: f32, u64 and so on, or what numpy takes for one.
        shape: items per dimension, slowest first: numbers, or expressions in the application's parameters ("n + 1").
        role: input, output, inout, constant, control (small, used by both sides in every iteration), scratch (used by
            one side only) or exchange (messages to and from other processes, which kernels pack and unpack).
        starts_on, ends_on: the agent that initialises it, and the one that needs the result.
        sides: the agents that use it. Default: both; for scratch the side that it starts on, or the GPU; for exchange
            the GPU.
        advice: hints that replace those implied by the role, such as ("read-mostly",).
        copies: the arrays that it has under strategies with a host array and a device array of each buffer. Of two
            buffers that gpu.swap exchanges, and of which only the CPU uses one and only kernels the other, one may have
            the host array alone and one the device array: swapping them copies, as programs with copies do.
        file: its contents are those of a file. App.arrange sets the array's `file` to an open descriptor, and cpu.load
            makes the contents available.
    """
    if file and role != "input":
        raise ValueError(f"a buffer with file=True must be an input, not {role}: its mapping is read-only")
    if role not in get_args(Role):
        raise ValueError(f"'{role}' is not a buffer role; the roles are {', '.join(get_args(Role))}")
    if sides is None:
        sides = {"scratch": starts_on or "gpu", "exchange": "gpu"}.get(role, "both")
    if invalid := {starts_on, ends_on} - {None, *(get_args(Agent) if sides == "both" else (sides,))}:
        raise ValueError(f"a buffer with sides={sides} cannot start or end on {invalid.pop()}")
    declared = {"starts_on": starts_on, "ends_on": ends_on, "advice": advice, "file": file, "copies": copies}
    return BufferSpec(dtype, shape, role=role, sides=sides, **declared)


class App:
    """A computation with declared buffers, run under every memory strategy.

    A subclass annotates its parameters (n: int), sets `sizes` and declares its buffers with `buffer`.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    """Where the computation was first defined, and how this version deviates from it."""
    pattern: ClassVar[str]
    """The memory access pattern in a few words."""
    sizes: ClassVar[Mapping[str, Params]]
    """Parameters by size name: "tiny" (under a second on two cores) and "default" (the original's size). "bytes" may
    replace default parameters for sizes given in bytes."""
    grows: ClassVar[str] = "n"
    """The parameter that is solved for when a size is given in bytes, or several, which become equal."""
    multiple: ClassVar[int] = 1
    """`grows` must be a multiple of this."""
    power_of_two: ClassVar[bool] = False
    """Whether `grows` must be a power of two."""
    bounded: ClassVar[bool] = False
    """Whether its buffer sizes have an upper bound that is known at compile time."""
    divided: ClassVar[bool] = False
    """Whether both agents work at the same time, each on its part of the same buffers. compute() asks gpu_part() for
    that of the GPU, and queues the GPU's launches of each step before those of the CPU."""
    exchanges: ClassVar[bool] = False
    """Whether its work can be divided among several processes, each with a part of the data (part()), which send
    messages to each other: gpu.exchange(), gpu.send_and_receive() and gpu.total()."""
    expected_rounds: ClassVar[int] = 0
    """How many rounds a loop takes that ends when what kernels compute says so, for advice; 0: unknown."""
    tiled: ClassVar[Sequence[str]] = ()
    """Buffers that compute() processes with gpu.tiles, so that they can be streamed under a budget. All must have the
    same number of rows."""
    strided: ClassVar[Sequence[str]] = ()
    """Buffers through which kernels go by columns, in no order or along a wavefront, so that the GPU faults on many
    blocks of 2 MiB at once, which its driver serves together."""
    kernel_text: ClassVar[str] = ""
    """Source of the kernels, if they are not in a file next to the module."""
    more_kernels: ClassVar[Sequence[str]] = ()
    """Names of further kernel files in apps/, such as one that generates the input."""
    options: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Parameters whose values are words, the default first. They are set with --set and become attributes."""
    same_kernels: ClassVar[Collection[str]] = ()
    """Options that change no kernel: where data are from, what is written before, or how often kernels run."""
    published: ClassVar[PublishedPlacement] = PublishedPlacement()
    """What the published version does with its buffers."""

    def __init_subclass__(cls) -> None:
        """Raises ValueError for an invalid declaration."""
        super().__init_subclass__()
        if "name" in vars(cls) and (error := cls._declaration_error()):
            raise ValueError(f"application {cls.name}: {error}")

    @classmethod
    def _declaration_error(cls) -> str:
        for text in ("source", "pattern", "sizes"):
            if not hasattr(cls, text):
                return f"{text} is missing"
        for name, kind, accepted in _TYPES:
            if not isinstance(value := attrgetter(name)(cls), kind):
                return f"{name} is {value!r:.80}, not {accepted}"
        for size, params in cls.sizes.items():
            wrong = {name: value for name, value in params.items() if type(value) is not int}
            if wrong:
                return f"sizes: {size}: {', '.join(wrong)} is {next(iter(wrong.values()))!r:.80}, not a whole number"
        names = cls.sizes.get("default", {}).keys()
        if cls.sizes.keys() - {"tiny", "default", "bytes"} or cls.sizes.get("tiny", {}).keys() != names:
            return "sizes must hold tiny and default, with the same parameters, and may hold bytes"
        if unknown := {*cls.grows.split(), *cls.sizes.get("bytes", {})} - names:
            return f"there is no parameter {unknown.pop()}"
        advices, memory = (cls.published.advice, cls.published.as_stated), cls.published.memory or {}
        if unknown := {*cls.tiled, *cls.strided, *itertools.chain(*advices), *memory} - {
            spec.name for spec in cls.buffers()
        }:
            return f"there is no buffer {unknown.pop()}"
        try:
            declared = cls.declarations(cls.sizes["tiny"])
            largest = cls.footprint(cls.sizes["default"])
        except ValueError as error:
            return str(error)
        if largest >= _MOST_BYTES:
            return "the buffers of the size default take more than 2^63 bytes"
        for d in declared:
            if d.name in memory and memory[d.name] not in memory_words(d):
                return f"published: buffer {d.name} cannot have memory {memory[d.name]}"
        for d, advice in itertools.product(declared, advices):
            words = advice.get(d.name, (NONE, NONE))
            if any(word not in accepted for word, accepted in zip(words, settings_of(d).values(), strict=False)):
                return f"published: buffer {d.name} cannot have advice {words[0]} and prefetch {words[1]}"
        rows = {d.name: d.shape[0] for d in declared if d.name in cls.tiled}
        return f"tiled buffers must have the same number of rows, not {rows}" if len(set(rows.values())) > 1 else ""

    def __init__(
        self,
        params: Params,
        seed: int = 1,
        options: Mapping[str, str] | None = None,
        *,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        """rank, ranks: which part of an application that exchanges data this process has, and how many there are."""
        self.seed, self.rank, self.ranks = seed, rank, ranks
        params = self.part(params, rank, ranks)
        for name, value in params.items():
            setattr(self, name, value)
        for name, words in self.options.items():
            setattr(self, name, (options or {}).get(name, words[0]))
        self.arrays = {
            spec.name: Array(spec.declaration(params), key_of(seed, stream))
            for stream, spec in enumerate(self.buffers())
        }
        self.used: dict[str, str] = {}
        """Further facts for the record, such as the vendor library that was used."""
        self.division = Division()
        """How much of the work each agent does, if it is divided."""
        self.gpu_share_reached = 0.0
        """The part that gpu_part returned last: the division's share, rounded to whole items."""

    @classmethod
    def buffers(cls) -> list[BufferSpec]:
        specs = {n: s for c in reversed(cls.__mro__) for n, s in vars(c).items() if isinstance(s, BufferSpec)}
        return list(specs.values())

    @classmethod
    def part(cls, params: Params, rank: int, ranks: int) -> Params:
        """The parameters of one process's part of the whole, with further ones for the shapes of its buffers."""
        return params

    @classmethod
    def declarations(cls, params: Params, rank: int = 0, ranks: int = 1) -> list[Declaration]:
        own = cls.part(params, rank, ranks)
        return [spec.declaration(own) for spec in cls.buffers()]

    @classmethod
    def footprint(cls, params: Params) -> int:
        """Total bytes of the declared buffers, each counted once, if one process has all of them."""
        return sum(d.nbytes for d in cls.declarations(params))

    @classmethod
    def problem(cls, params: Params) -> str:
        """Returns why these parameters are invalid, in one sentence, or ''. Override it to add conditions."""
        for name, value in params.items():
            if value < 1:
                return f"{cls.name}: {name} must be at least 1, not {value}"
        n = params[cls.grows.split()[0]]
        if n % cls.multiple:
            return f"{cls.name}: {cls.grows} must be a multiple of {cls.multiple}, not {n}"
        if cls.power_of_two and n & (n - 1):
            return f"{cls.name}: {cls.grows} must be a power of two, not {n}"
        try:
            cls.declarations(params)
        except ValueError as error:
            return f"{cls.name}: {error}"
        return ""

    @classmethod
    def why_not_divided(cls, params: Params, ranks: int) -> str:
        """Returns why the work cannot be divided among so many processes, in one sentence, or ''."""
        return ""

    @classmethod
    def refuses(cls, strategy: Strategy, device: DeviceInfo) -> str | None:
        """Returns why the application can't use a strategy, or None. Test the strategy's properties, not its name."""
        return None

    @classmethod
    def kernel_path(cls) -> Path:
        return Path(inspect.getfile(cls)).with_suffix(".c")

    def defines(self) -> Mapping[str, object]:
        """Macros for compiling the kernel file on the GPU."""
        return {}

    @cached_property
    def kernels(self) -> KernelFile:
        path = self.kernel_path()
        text = self.kernel_text or kernel_source(path)
        return KernelFile(path.stem, text, self.defines(), self._origin())

    def _origin(self) -> tuple[str, int] | None:
        """File and line where the kernels of a user's module begin; None for the package's own applications."""
        module = inspect.getfile(type(self))
        if not modules.is_foreign(module):
            return None
        if not self.kernel_text:
            return str(self.kernel_path()), 1
        before, text, _ = Path(module).read_text(encoding="utf-8").partition(self.kernel_text)
        return module, before.count("\n") + 1 if text else 1

    def kernel_files(self) -> list[KernelFile]:
        """All files whose kernels this application can launch."""
        return [*map(shared_kernels, (GENERATE, *self.more_kernels)), self.kernels]

    def arrange(self) -> None:
        """Prepare resources other than memory, such as files. Called before anything is allocated or timed."""

    def prepare(self, gpu: Gpu) -> None:
        """Record launch sequences and open libraries. Called after allocation, outside all timed phases."""

    def has_files(self) -> bool:
        """Whether it reads its input from files and writes its output to files, in the phases input and output."""
        return False

    def read_from_files(self) -> Sequence[Array]:
        """The buffers that the phase input fills."""
        return ()

    def read_files(self, cpu: Cpu) -> None:
        """Phase input, before the phase initialise: read files into buffers."""

    def write_files(self, cpu: Cpu) -> None:
        """Phase output, after the phase readback: write buffers to files."""

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        """Phase initialise: generate the input data on the agent that each buffer starts on."""
        raise NotImplementedError

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        """Phase compute. Iterations of gpu.iterations are timed one by one."""
        raise NotImplementedError

    def check(self, view: View) -> str:
        """Return '' if the result is correct, otherwise what is wrong, in one sentence.

        Called after the measured window. view(array) returns the memory as a numpy array of the declared shape, and
        view(array[a:b]) that of some rows. Avoid copies of large arrays.
        """
        raise NotImplementedError

    def gpu_part(self, items: int) -> int:
        """The number of items that the GPU works on, of all; the CPU works on the others."""
        part = round(self.division.gpu_share * items)
        self.gpu_share_reached = part / items
        return part

    def tiled_arrays(self) -> list[Array]:
        return [self.arrays[name] for name in self.tiled]


def solve(app: type[App], size: int) -> dict[str, int]:
    """Returns the largest parameters whose footprint is at most `size` bytes.

    If these are below 90 % of the size, returns the next larger ones if they exceed it by at most 0.1 %: a quantum
    state takes 2^n bytes, and its gates a little more. Raises ValueError if none fit or they are invalid.
    """
    params = {**app.sizes["default"], **app.sizes.get("bytes", {})}

    def with_step(step: int) -> dict[str, int]:
        value = 2**step if app.power_of_two else step * app.multiple
        return params | dict.fromkeys(app.grows.split(), value)

    low, high = 0, 1
    while app.footprint(with_step(high)) <= size and high < 2**48:
        low, high = high, high * 2 if not app.power_of_two else high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if app.footprint(with_step(middle)) <= size else (low, middle)
    if app.footprint(with_step(low)) < 0.9 * size and app.footprint(with_step(high)) <= 1.001 * size:
        low = high
    solution = with_step(low)
    if low == 0:
        smallest = app.footprint(with_step(1))
        raise ValueError(f"{app.name} needs at least {smallest} bytes, more than {size}")
    if problem := app.problem(solution):
        raise ValueError(f"{problem} (for a size of {size} bytes)")
    return solution


def sample(n: int, count: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns `count` random indices below n for checks of a sample, including the first and the last."""
    if n <= count:
        return np.arange(n)
    chosen = np.random.default_rng(seed).integers(0, n, count)
    chosen[:2] = (0, n - 1)
    return chosen


def around(centre: Sequence[int], radius: int, shape: Sequence[int]) -> list[range]:
    """Returns the index range within `radius` of a point in each dimension, clamped to `shape`."""
    return [range(max(0, i - radius), min(n, i + radius + 1)) for i, n in zip(centre, shape, strict=True)]


@contextmanager
def memory_reused() -> Iterator[None]:
    """Let threads reuse memory that they freed. Processes that measure map every block of a page or more anew, so that
    threads with temporary arrays would spend their time on page faults and wait for each other. All free memory is
    returned at the end, because what is measured next must begin with untouched pages.
    """
    if MMAP_EVERY_BLOCK.items() <= os.environ.items():
        libc = ctypes.CDLL(None)
        thresholds = (M_TRIM_THRESHOLD, M_MMAP_THRESHOLD)
        for threshold in thresholds:
            libc.mallopt(threshold, MOST_REUSED)
        try:
            yield
        finally:
            for threshold in thresholds:
                libc.mallopt(threshold, BASE_PAGE)
            libc.malloc_trim(0)
    else:
        yield


T = TypeVar("T")


def in_pieces(function: Callable[[int, int], T], rows: int, each: int) -> list[T]:
    """Call function(first, last) for ranges of at most `each` rows on several threads. Returns the results in order.

    numpy releases the GIL, so the calls run in parallel. A single range is left to the calling thread.
    """
    pieces = math.ceil(rows / each)
    if pieces == 1:
        with memory_reused():
            return [function(0, rows)]
    edges = [math.ceil(rows * i / pieces) for i in range(pieces + 1)]
    with memory_reused(), ThreadPoolExecutor() as pool:
        return [*pool.map(function, edges[:-1], edges[1:])]


def relative(actual: np.ndarray[Any, Any], true: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The relative errors of numbers that are not negative; 0 where both are 0. NaN where a number is NaN."""
    return np.abs((actual + 1e-30) / (true + 1e-30) - 1)


def difference(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Root mean square and maximum of the differences, in f64. NaN if an element is NaN, so compare with <=."""
    pairs = [a.reshape(-1) for a in (actual, expected)]

    def piece(first: int, last: int) -> tuple[float, float]:
        apart = np.abs(np.subtract(*(a[first:last] for a in pairs), dtype=np.float64))
        return float(apart @ apart), float(apart.max())

    squares, worst = np.array(in_pieces(piece, actual.size, 1 << 20)).T
    return math.sqrt(squares.sum() / actual.size), float(worst.max())


def shared_kernels(name: str) -> KernelFile:
    """A kernel file that several applications share, from apps/ or program/execution/."""
    folder = "program/execution" if name == GENERATE else "apps"
    path = Path(__file__).parents[1] / folder / f"{name}.c"
    return KernelFile(name, kernel_source(path))


def on_host(file: KernelFile, kernel: str, *arguments: np.ndarray[Any, Any] | float) -> None:
    """Run a kernel on contiguous numpy arrays, for checks that repeat a part of a computation: on all processors, or on
    one if the arrays are small.
    """
    values: list[object] = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments]
    largest = max((a.size for a in arguments if isinstance(a, np.ndarray)), default=0)
    threads = 1 if largest <= SMALL_LAUNCH else 0
    _core.launch_on_host(f"{file.name}/{kernel}", file.entries[kernel].codes, threads, values)
