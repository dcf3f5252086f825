"""What an application is: its buffers, three small methods and a check. Nothing in it says where memory lives.

One module per application in this folder, holding a subclass of App, and beside it a file of kernels of the same name
(hotspot.py, hotspot.c). Nothing else registers it. docs/applications.md walks through one.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, get_args, overload

import numpy as np

from firsttouch.apps.random import key_of
from firsttouch.memory.agents import Cpu, Gpu, KernelFile
from firsttouch.memory.strategies import Strategy
from firsttouch.memory.workspace import Agent, Array, Declaration, Role
from firsttouch.schema import DeviceInfo

# fmt: off
__all__ = [
    "App", "Cpu", "Gpu", "Params", "View", "around", "buffer", "c64", "f32", "f64", "i32", "i64", "in_pieces",
    "sample", "solve", "u8", "u32", "u64",
]
# fmt: on

f32, f64, c64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.complex64)
i32, i64, u8, u32, u64 = (np.dtype(t) for t in (np.int32, np.int64, np.uint8, np.uint32, np.uint64))

Params: TypeAlias = Mapping[str, int]
View: TypeAlias = "Callable[[Array], np.ndarray[Any, Any]]"


class BufferSpec:
    """What `buffer` gives: an Array once the application runs."""

    def __init__(self, dtype: np.dtype[Any], shape: Sequence[int | str], **declared: Any) -> None:
        self.dtype, self.shape, self.declared = dtype, shape, declared
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
        """With its shape in numbers. Expressions are the application's own: names of parameters and arithmetic."""
        try:
            shape = [eval(s, {"__builtins__": {}}, dict(params)) if isinstance(s, str) else s for s in self.shape]
        except Exception as error:
            raise ValueError(f"the shape of buffer {self.name} has no value: {error}") from error
        return Declaration(self.name, self.dtype, tuple(map(int, shape)), **self.declared)


def buffer(
    dtype: np.dtype[Any],
    *shape: int | str,
    role: Role,
    starts_on: Agent | None = None,
    ends_on: Agent | None = None,
    sides: Literal["both", "cpu", "gpu"] | None = None,
    advice: tuple[str, ...] | None = None,
    file: bool = False,
) -> BufferSpec:
    """Declare a buffer.

    Args:
        shape: items per dimension, slowest first: numbers, or expressions in the application's parameters ("n + 1").
        role: what it is to the application: input, output, inout, constant, control (small, both sides every
            iteration) or scratch (one side only).
        starts_on, ends_on: who initialises it, and who needs it last.
        sides: who ever touches it; both, or for scratch the side it starts on (the GPU without one).
        advice: in place of what the role implies, such as ("read-mostly",).
        file: it is what a file holds. App.arrange gives the array's `file`, an open descriptor; cpu.load brings it.
    """
    if file and role != "input":
        raise ValueError(f"a file is an input, not {role}: its mapping is only read")
    if role not in get_args(Role):
        raise ValueError(f"'{role}' is no role of a buffer; there are {', '.join(get_args(Role))}")
    if sides is None:
        sides = "both" if role != "scratch" else starts_on or "gpu"
    if strangers := {starts_on, ends_on} - {None, *(get_args(Agent) if sides == "both" else (sides,))}:
        raise ValueError(f"a buffer of sides={sides} starts or ends on {strangers.pop()}")
    declared = {"starts_on": starts_on, "ends_on": ends_on, "advice": advice, "file": file}
    return BufferSpec(dtype, shape, role=role, sides=sides, **declared)


class App:
    """A computation with declared buffers, run under every memory strategy.

    A subclass names its parameters as annotations (n: int), gives `sizes` and declares buffers with `buffer`.
    """

    name: ClassVar[str]
    source: ClassVar[str]
    """Who defined the computation, and what the check rests on."""
    pattern: ClassVar[str]
    """How memory is used, in a few words."""
    sizes: ClassVar[Mapping[str, Params]]
    """Parameters by size: "tiny" (under a second on two cores), "default" (the original's own), and "bytes", the
    parameters besides `grows` of a size in bytes where they are not those of "default"."""
    grows: ClassVar[str] = "n"
    """The parameter that a size in bytes is solved for."""
    multiple: ClassVar[int] = 1
    """What `grows` must be a multiple of."""
    power_of_two: ClassVar[bool] = False
    """Whether `grows` must be a power of two."""
    bounded: ClassVar[bool] = False
    """Whether its buffers have a bound known before the program runs."""
    by_halves: ClassVar[bool] = False
    """Whether both agents work at the same time, each on its part of the same buffers."""
    tiled: ClassVar[Sequence[str]] = ()
    """Buffers of as many rows each that compute() walks by gpu.tiles, so that a budget can stream them."""
    kernel_text: ClassVar[str] = ""
    """The kernels, where they are not in a file beside the module."""
    more_kernels: ClassVar[Sequence[str]] = ()
    """Kernel files of this folder besides, such as one that makes the input."""
    options: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Parameters that are one of a few words, the first by default: given to --set, kept as attributes."""

    def __init_subclass__(cls) -> None:
        """Raises ValueError for a declaration that means nothing."""
        super().__init_subclass__()
        if "name" in vars(cls) and (flaw := cls._flaw()):
            raise ValueError(f"application {cls.name}: {flaw}")

    @classmethod
    def _flaw(cls) -> str:
        for text in ("source", "pattern", "sizes"):
            if not hasattr(cls, text):
                return f"{text} is not given"
        names = cls.sizes.get("default", {}).keys()
        if cls.sizes.keys() - {"tiny", "default", "bytes"} or cls.sizes.get("tiny", {}).keys() != names:
            return "sizes are those of tiny and of default, with the same parameters, and perhaps of bytes"
        if unknown := {cls.grows, *cls.sizes.get("bytes", {})} - names:
            return f"there is no parameter {unknown.pop()}"
        if unknown := set(cls.tiled) - {spec.name for spec in cls.buffers()}:
            return f"there is no buffer {unknown.pop()}"
        try:
            declared = cls.declarations(cls.sizes["tiny"])
        except ValueError as error:
            return str(error)
        rows = {d.name: d.shape[0] for d in declared if d.name in cls.tiled}
        return f"tiled buffers have as many rows each, not {rows}" if len(set(rows.values())) > 1 else ""

    def __init__(self, params: Params, seed: int = 1, options: Mapping[str, str] | None = None) -> None:
        self.seed = seed
        for name, value in params.items():
            setattr(self, name, value)
        for name, words in self.options.items():
            setattr(self, name, (options or {}).get(name, words[0]))
        self.arrays = {
            spec.name: Array(spec.declaration(params), key_of(seed, stream))
            for stream, spec in enumerate(self.buffers())
        }
        self.used: dict[str, str] = {}
        """What the record should say was used, such as a vendor's library."""

    @classmethod
    def buffers(cls) -> list[BufferSpec]:
        found = {n: s for c in reversed(cls.__mro__) for n, s in vars(c).items() if isinstance(s, BufferSpec)}
        return list(found.values())

    @classmethod
    def declarations(cls, params: Params) -> list[Declaration]:
        return [spec.declaration(params) for spec in cls.buffers()]

    @classmethod
    def footprint(cls, params: Params) -> int:
        """Bytes of the declared buffers, each once."""
        return sum(d.nbytes for d in cls.declarations(params))

    @classmethod
    def problem(cls, params: Params) -> str:
        """Why these parameters are impossible, in one sentence, or ''. Extend it for what else must hold."""
        for name, value in params.items():
            if value < 1:
                return f"{cls.name}: {name} must be at least 1, not {value}"
        n = params[cls.grows]
        if n % cls.multiple:
            return f"{cls.name}: {cls.grows} must be a multiple of {cls.multiple}, not {n}"
        if cls.power_of_two and n & (n - 1):
            return f"{cls.name}: {cls.grows} must be a power of two, not {n}"
        return ""

    @classmethod
    def refuses(cls, strategy: Strategy, device: DeviceInfo) -> str | None:
        """Why the application can't honestly use a strategy, by what the strategy is (never by its name), or None."""
        entry = device.allocator(strategy.allocator)
        if not cls.by_halves or strategy.duplicated or entry is None:
            return None
        if entry.cpu != "mapped" and (entry.disjoint or entry.concurrent):
            return None
        return "both agents work at once on halves, and this memory belongs to one of them at a time"

    @classmethod
    def kernel_path(cls) -> Path:
        return Path(inspect.getfile(cls)).with_suffix(".c")

    def defines(self) -> Mapping[str, object]:
        """Macros that the kernel file is compiled with on the GPU."""
        return {}

    @cached_property
    def kernels(self) -> KernelFile:
        path = self.kernel_path()
        text = self.kernel_text or path.read_text(encoding="utf-8")
        return KernelFile(path.stem, text, self.defines())

    def arrange(self) -> None:
        """Before anything is allocated or timed: what is found outside of memory, such as files."""

    def prepare(self, gpu: Gpu) -> None:
        """After allocation, not timed with any phase: lists of launches."""

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        """Phase initialise: the input data, on the agent that the buffers start on."""
        raise NotImplementedError

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        """Phase compute; what gpu.iterations yields is timed one by one."""
        raise NotImplementedError

    def check(self, view: View) -> str:
        """After the measured window: '' where the result is right, else what is wrong in one sentence.

        view(array) is the memory itself as a numpy array shaped as declared; keep no second copy of anything large.
        """
        raise NotImplementedError

    def tiled_arrays(self) -> list[Array]:
        return [self.arrays[name] for name in self.tiled]


def solve(app: type[App], size: int) -> dict[str, int]:
    """Parameters whose footprint is as near below `size` bytes as they come. Where that is far below, one that is a
    thousandth above will do: a quantum state is 2^n bytes, and its gates are a little more. Raises ValueError where
    none fits, or where those are impossible.
    """
    params = {**app.sizes["default"], **app.sizes.get("bytes", {})}

    def with_step(step: int) -> dict[str, int]:
        value = 2**step if app.power_of_two else step * app.multiple
        return params | {app.grows: value}

    low, high = 0, 1
    while app.footprint(with_step(high)) <= size and high < 2**48:
        low, high = high, high * 2 if not app.power_of_two else high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if app.footprint(with_step(middle)) <= size else (low, middle)
    if app.footprint(with_step(low)) < 0.9 * size and app.footprint(with_step(high)) <= 1.001 * size:
        low = high
    found = with_step(low)
    if low == 0:
        least = app.footprint(with_step(1))
        raise ValueError(f"{app.name} needs at least {least} bytes, more than {size}")
    if problem := app.problem(found):
        raise ValueError(f"{problem} ({size} bytes were asked for)")
    return found


def sample(n: int, count: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """`count` indices below n, with both ends among them, for checks that look at some elements."""
    if n <= count:
        return np.arange(n)
    chosen = np.random.default_rng(seed).integers(0, n, count)
    chosen[:2] = (0, n - 1)
    return chosen


def around(place: Sequence[int], reach: int, shape: Sequence[int]) -> list[range]:
    """What lies within `reach` of a place in each dimension of an array: its light cone of as many steps."""
    return [range(max(0, i - reach), min(n, i + reach + 1)) for i, n in zip(place, shape, strict=True)]


T = TypeVar("T")


def in_pieces(function: Callable[[int, int], T], rows: int, each: int) -> list[T]:
    """function(first, last) of runs of nearly as many rows, at most `each`, on all threads: numpy lets go of the
    interpreter's lock.
    """
    pieces = math.ceil(rows / each)
    edges = [math.ceil(rows * i / pieces) for i in range(pieces + 1)]
    with ThreadPoolExecutor() as pool:
        return [*pool.map(function, edges[:-1], edges[1:])]
