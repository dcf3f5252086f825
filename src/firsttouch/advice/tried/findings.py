"""What `firsttouch try` found, as data: schema firsttouch-try/1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from firsttouch.advice.edit import Edit
from firsttouch.advice.port.port_findings import ShadowLook
from firsttouch.advice.tried.plan import Apart
from firsttouch.advice.tried.recorded import RunCounts
from firsttouch.base.outputs import Output

TriedStrategy: TypeAlias = Literal[
    "none", "managed", "managed+advise", "managed+prefetch", "explicit+pinned", "pinned", "system", "managed-device"
]
TriedStatus: TypeAlias = Literal["ok", "differs", "left the plan", "impossible", "too long"]
Faster: TypeAlias = Literal["faster", "slower", "unsure"]
BASELINE: TriedStrategy = "none"
UNIFIED: frozenset[TriedStrategy] = frozenset(("managed", "managed+advise", "managed+prefetch", "pinned", "system"))
"""Those under which an array and its block are one memory."""
LEAST_ROUNDS = 5
"""From how many rounds on it is said which is faster: in fewer, all may be on the same side by chance."""


class TriedPair(msgspec.Struct, frozen=True, kw_only=True):
    """An array of the host and a block of the device that copies join: how large both are, and what is copied in each
    direction, in bytes. copied_at, allocated_at: the lines of the first copy and of the block's allocation. count: of
    such pairs at these lines.
    """

    array: int
    block: int
    copied_in: int
    copied_back: int
    copied_at: str
    allocated_at: str
    count: int = 1


class PairApart(msgspec.Struct, frozen=True, kw_only=True):
    """An array and a block that stay apart: why, and in a sentence. copied: bytes, between all such at these lines."""

    reason: Apart
    text: str
    copied: int
    copied_at: str
    allocated_at: str
    count: int = 1


class TriedTime(msgspec.Struct, frozen=True, kw_only=True):
    """A median of seconds or ratios, with the ends of its 95 % interval; of few rounds these are the least and the
    most.
    """

    median: float
    low: float
    high: float
    samples: Sequence[float]


class PredictedTime(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds that a strategy is predicted to take, and the ends of the range in which that lies."""

    seconds: float
    low: float
    high: float


PeakSource: TypeAlias = Literal["device", "processes", "allocations"]
"""Whose memory a peak is. device: what all programs use of the GPU, by its driver, over what they used before.
processes: what the driver says of the program's own. allocations: what the program had allocated at once, and managed
memory, of which it is not known how much was there.
"""


class TracedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a strategy under `profile --trace`, which is not timed. directory: its profile, in that of
    `try`.

    device_peak: bytes at most, as `device_source` has them; None: unseen. pages_in, pages_back: bytes of managed memory
    that the driver moved to the device and back, and gpu_faults, cpu_faults, as CUPTI counts them; None: unseen.
    unseen: why, and what else is missing, in sentences.
    """

    directory: str
    device_peak: int | None = None
    device_source: PeakSource | None = None
    pages_in: int | None = None
    pages_back: int | None = None
    gpu_faults: int | None = None
    cpu_faults: int | None = None
    unseen: Sequence[str] = ()


class TriedResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a strategy. reason: why it has no time, '' if it has. time: seconds of the program, from its start
    to its end; ratio: to the baseline, of the same rounds; None for the baseline, and where there is no time.
    predicted: by the prices of a run: the baseline's time, and what the strategy adds to it or saves; None if not
    asked for, or not known. counts: of the last round, with the kernel's number of the host's peak; None if the program
    did not end by itself. traced: None if the strategy has no time, or its traced run ended otherwise.
    """

    strategy: TriedStrategy
    status: TriedStatus
    reason: str = ""
    time: TriedTime | None = None
    ratio: TriedTime | None = None
    compared: Faster | None = None
    predicted: PredictedTime | None = None
    counts: RunCounts | None = None
    traced: TracedMemory | None = None


class CheckedCopies(msgspec.Struct, frozen=True, kw_only=True):
    """The copies of a run under `strategy`, by the bytes that they carry beside those of plain runs. unsure: copies on
    which two plain runs do not agree, which prove nothing.
    """

    strategy: TriedStrategy
    equal: int
    different: int
    unsure: int


class ComparedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output of the program: its status, its standard output, or a file. compared: how much of it is the same in all
    plain runs, and therefore compared.
    """

    name: str
    compared: Literal["all", "part", "nothing"]


class TryFindings(Output, frozen=True, kw_only=True, tag="firsttouch-try/1"):
    """What `firsttouch try --json` prints.

    directory: where the runs are kept; rounds, tolerance: asked for. device: the title of the GPU, '' if unknown.
    pairs: that were one memory where a strategy unifies. shadow: None if there was no such run.
    checked: None if no strategy does. outputs: of plain runs.
    prices: the results of the run by which times are predicted, '' without; not_predicted: why they are not. edits:
    what `edits_for` needs changed in the source, for the pairs alone: the fastest strategy that was timed and has one
    memory for them, or page-locks arrays and is faster. None if there is none.
    """

    directory: str
    command: Sequence[str]
    rounds: int
    device: str = ""
    prices: str = ""
    tolerance: float = 0.0
    not_predicted: str = ""
    pairs: Sequence[TriedPair]
    apart: Sequence[PairApart]
    shadow: ShadowLook | None = None
    checked: CheckedCopies | None
    outputs: Sequence[ComparedOutput]
    results: Sequence[TriedResult]
    edits_for: TriedStrategy | None = None
    edits: Sequence[Edit] = ()

    def result(self, strategy: str) -> TriedResult | None:
        return next((row for row in self.results if row.strategy == strategy), None)
