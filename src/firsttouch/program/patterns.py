"""Patterns of memory use, for advice about a program that is not an application of firsttouch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from firsttouch.base.errors import UsageError, unknown
from firsttouch.base.units import format_size, parse_size
from firsttouch.program.declarations import Agent, Role
from firsttouch.program.program import Access, Block, Item, Launch, Program, append_body

SIZE = 1 << 30
"""The size of a pattern's buffers if none is given."""
MOST = 10**9
"""The most kernels and passes of a pattern."""
SPREAD, PICKED = "per-64KiB", 128 / 65536
"""Sparse touches, in the words of the experiment migration, and the part of the bytes that they use."""


class PatternSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a program that follows a pattern.

    kernels: how many it launches. passes: how often each uses its bytes. input, output: the bytes that are there before
    the kernels, and those that the CPU uses after them. initialises: who writes the former.
    """

    kernels: int
    passes: int
    input: int = msgspec.field(name="in")
    output: int = msgspec.field(name="out")
    initialises: Agent

    @property
    def with_kernels(self) -> str:
        return "a kernel" if self.kernels == 1 else f"{self.kernels:,} kernels"

    @property
    def by(self) -> str:
        return f"on the {self.initialises.upper()}"

    @property
    def often(self) -> str:
        return "once" if self.passes == 1 else f"{self.passes:,} times"

    @property
    def times(self) -> str:
        """How often each kernel uses its bytes, if that is more than once."""
        return f", {self.passes:,} times in each" if self.passes > 1 else ""

    @property
    def results(self) -> str:
        return f", with {format_size(self.output)} of results that the CPU reads" if self.output else ""

    @property
    def part(self) -> str:
        """The part of data that the CPU uses, where that is not all."""
        return f"{format_size(self.output)} of them" if self.output < self.input else "them"


SETTINGS = {
    "kernels": "how many kernels it launches",
    "passes": "how often each kernel uses its bytes",
    "in": "bytes that are there before the kernels",
    "out": "bytes that the CPU uses after kernels",
    "initialises": "who writes the bytes before the kernels: cpu or gpu",
}


class _Builder:
    """Makes a program, one launch at a time."""

    def __init__(self, settings: PatternSettings) -> None:
        self.settings = settings
        self.blocks: list[Block] = []
        self.initialise: list[Item] = []
        self.compute: list[Item] = []

    def buffer(self, name: str, nbytes: int, role: Role, ends_on: Agent | None = None) -> int:
        number, agent = len(self.blocks), self.settings.initialises
        starts_on: Agent | None = None if role == "output" else agent
        self.blocks.append(Block(name, nbytes, role, "both", starts_on, ends_on))
        if starts_on:
            self.initialise.append(Launch(agent, (Access(number, 0, nbytes, reads=False, writes=True),)))
        return number

    def results(self) -> tuple[int, ...]:
        """A buffer of results that the CPU reads, if there are any."""
        size = self.settings.output
        return (self.buffer("output", size, "output", "cpu"),) if size else ()

    def kernel(self, *, reads: tuple[int, ...] = (), writes: tuple[int, ...] = ()) -> Launch:
        passes = float(self.settings.passes)
        return Launch("gpu", tuple(self._access(n, reads, writes, passes) for n in dict.fromkeys((*reads, *writes))))

    def _access(self, n: int, reads: tuple[int, ...], writes: tuple[int, ...], passes: float) -> Access:
        return Access(n, 0, self.blocks[n].nbytes, n in reads, n in writes, passes)

    def cpu(self, number: int, *, reads: bool, writes: bool, nbytes: int = 0) -> Launch:
        """The CPU uses the first bytes of a buffer, or all."""
        return Launch("cpu", (Access(number, 0, nbytes or self.blocks[number].nbytes, reads, writes),))

    def repeat(self, *body: Launch, times: int | None = None) -> None:
        append_body(self.compute, body, self.settings.kernels if times is None else times)


def _stream(b: _Builder) -> None:
    source, result = b.buffer("input", b.settings.input, "input"), b.results()
    b.repeat(b.kernel(reads=(source,), writes=result))


def _iterate(b: _Builder) -> None:
    whole = b.settings.output == b.settings.input
    data = b.buffer("data", b.settings.input, "inout", "cpu" if whole else None)
    b.repeat(b.kernel(reads=(data,), writes=(data,)))
    if b.settings.output and not whole:
        b.repeat(b.cpu(data, reads=True, writes=False, nbytes=b.settings.output), times=1)


def _feed(b: _Builder) -> None:
    data = b.buffer("input", b.settings.input, "inout")
    kernel = b.kernel(reads=(data,), writes=b.results())
    b.repeat(kernel, times=1)
    b.repeat(b.cpu(data, reads=False, writes=True), kernel, times=b.settings.kernels - 1)


def _alternate(b: _Builder) -> None:
    whole = b.settings.output == b.settings.input
    data = b.buffer("data", b.settings.input, "inout", "cpu" if whole else None)
    kernel = b.kernel(reads=(data,), writes=(data,))
    used = [b.cpu(data, reads=True, writes=True, nbytes=b.settings.output)] if b.settings.output else []
    b.repeat(kernel, *used)


def _sparse(b: _Builder) -> None:
    data = b.buffer("input", b.settings.input, "inout")
    result = b.results()
    picked = Access(data, 0, b.settings.input, True, False, PICKED * b.settings.passes, SPREAD)
    b.repeat(Launch("gpu", (picked, *(b.kernel(writes=result).accesses if result else ()))))


def _generate(b: _Builder) -> None:
    source = (b.buffer("input", b.settings.input, "input"),) if b.settings.input else ()
    b.repeat(b.kernel(reads=source, writes=b.results()))


@dataclass(frozen=True)
class Pattern:
    """meaning: what the program does, in words that follow 'a program that'.

    kernels: how many it launches unless told otherwise. divide: its input and output for a size of all buffers.
    in_place: whether its output is a part of its input. fixed: settings that it does not have.
    """

    meaning: Callable[[PatternSettings], str]
    build: Callable[[_Builder], None]
    divide: Callable[[int], tuple[int, int]]
    kernels: int = 10
    in_place: bool = False
    fixed: tuple[str, ...] = ()


def _stream_meaning(s: PatternSettings) -> str:
    written = " that the GPU wrote" if s.initialises == "gpu" else ""
    kernels = "a kernel" if s.kernels == 1 else f"each of {s.with_kernels}"
    return f"reads each input{written} {s.often} in {kernels} and each result once on the CPU"


def _iterate_meaning(s: PatternSettings) -> str:
    back = f", and reads {s.part} back" if s.output else ""
    return f"writes data {s.by}, updates them in {s.with_kernels}{s.times}{back}"


def _feed_meaning(s: PatternSettings) -> str:
    each = "" if s.kernels == 1 else "each of "
    return f"writes new data on the CPU before {each}{s.with_kernels}{s.times}{s.results}"


def _alternate_meaning(s: PatternSettings) -> str:
    part, turns = f"{s.part} " if s.output < s.input else "", "once" if s.kernels == 1 else f"{s.kernels:,} times"
    return f"updates the same data in a kernel{s.times} and {part}on the CPU in turn, {turns}"


def _sparse_meaning(s: PatternSettings) -> str:
    kernels = "a kernel reads" if s.kernels == 1 else f"{s.with_kernels} each read"
    return f"writes data {s.by}, of which {kernels} one line in each 64 KiB, {s.often}{s.results}"


def _generate_meaning(s: PatternSettings) -> str:
    source = f" from {format_size(s.input)} that are written {s.by}" if s.input else ""
    return f"generates data in {s.with_kernels}{s.times}{source}, and reads them on the CPU"


def _read_meaning(s: PatternSettings) -> str:
    return f"writes data {s.by} and reads them in {s.with_kernels}{s.times}{s.results}"


def _only_input(size: int) -> tuple[int, int]:
    return size, 0


def _only_output(size: int) -> tuple[int, int]:
    return 0, size


def _halves(size: int) -> tuple[int, int]:
    return size // 2, size // 2


def _the_same(size: int) -> tuple[int, int]:
    return size, size


PATTERNS: Mapping[str, Pattern] = {
    "stream": Pattern(_stream_meaning, _stream, _halves, kernels=1),
    "iterate": Pattern(_iterate_meaning, _iterate, _the_same, in_place=True),
    "read-many": Pattern(_read_meaning, _generate, _only_input),
    "feed": Pattern(_feed_meaning, _feed, _only_input, fixed=("initialises",)),
    "alternate": Pattern(_alternate_meaning, _alternate, _the_same, in_place=True),
    "sparse": Pattern(_sparse_meaning, _sparse, _only_input, kernels=1),
    "generate": Pattern(_generate_meaning, _generate, _only_output),
}
USUAL = "iterate"
"""The pattern for which advice is given if none is named."""


# ------------------------------------------------------------------------------------------------ settings


def settings_for(pattern: str, size: int | None = None, values: Mapping[str, object] | None = None) -> PatternSettings:
    """The settings of a pattern with `size` bytes of buffers, but for those that are given, by name.

    Raises:
        UsageError: a setting is unknown, its value is invalid, or it does not go with the others.
    """
    usual, values = PATTERNS[pattern], {name: _single(name, value) for name, value in (values or {}).items()}
    for name in values:
        if name not in SETTINGS or name in usual.fixed:
            raise unknown(f"setting of the pattern {pattern}", name, [n for n in SETTINGS if n not in usual.fixed])
    named = [name for name in ("in", "out") if name in values]
    if size is not None and named:
        raise UsageError(f"give the size of all buffers or {' and '.join(named)}, not both")
    source, result = usual.divide(SIZE if size is None else size)
    has_input, has_both = source > 0, source > 0 and result > 0
    source = _bytes("in", values["in"]) if "in" in values else source
    result = _bytes("out", values["out"]) if "out" in values else source if "in" in values and has_both else result
    if usual.in_place and result > source:
        raise UsageError(f"out={format_size(result)} is a part of the {format_size(source)} of in for {pattern}")
    if (has_input and not source) or (not has_input and not result):
        raise UsageError(f"the pattern {pattern} needs at least a byte of {'in' if has_input else 'out'}")
    agent = values.get("initialises", "cpu")
    if agent not in ("cpu", "gpu"):
        raise unknown("value of initialises", str(agent), ("cpu", "gpu"))
    kernels, passes = _count("kernels", values.get("kernels", usual.kernels)), _count("passes", values.get("passes", 1))
    return PatternSettings(
        kernels=kernels, passes=passes, input=source, output=result, initialises="gpu" if agent == "gpu" else "cpu"
    )


def _single(name: str, value: object) -> object:
    """The value of a setting, which the command line gives as a list."""
    if isinstance(value, list | tuple):
        if len(value) != 1:
            raise UsageError(f"{name} has {len(value)} values; give a single one")
        return value[0]
    return value


def _bytes(name: str, value: object) -> int:
    try:
        number = parse_size(value) if isinstance(value, str) else _whole(value)
    except ValueError as error:
        raise UsageError(f"{name}: {error}") from None
    if number < 0:
        raise UsageError(f"{name}={number} is less than zero")
    return number


def _count(name: str, value: object) -> int:
    try:
        number = int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() else _whole(value)
    except ValueError:
        number = 0
    if not 1 <= number <= MOST:
        raise UsageError(f"{name}={value!s:.40} is not a whole number from 1 to {MOST:,}")
    return number


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{value!s:.40} is not a whole number")


def program_for(pattern: str, size: int | None = None, settings: PatternSettings | None = None) -> Program:
    """The program of a pattern with these settings, or with its usual ones and `size` bytes of buffers."""
    settings = settings or settings_for(pattern, size)
    builder = _Builder(settings)
    PATTERNS[pattern].build(builder)
    title = f"{pattern}, {format_size(sum(block.nbytes for block in builder.blocks))}"
    return Program(title, tuple(builder.blocks), tuple(builder.initialise), tuple(builder.compute))
