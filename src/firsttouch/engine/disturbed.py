"""Points that were measured while other programs used the processors, or while the device was throttled.

They are measured once more at the end of a call, as nvbench does with throttled samples; what is still disturbed then
stays marked in its record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from firsttouch.engine.counted import PointCounter
from firsttouch.engine.executor import PointExecutor
from firsttouch.engine.planned import Planned
from firsttouch.machine.conditions import disturbed
from firsttouch.records.schema import Record
from firsttouch.records.text import count

SHARE = 0.2
"""The part of the time that a call has taken which measuring again may take in addition."""
GIVE_UP_AFTER = 3
"""The number of points in a row that were disturbed again, after which the machine is taken to be still busy."""


@dataclass(frozen=True)
class _Measured:
    planned: Planned
    record: Record
    counter: PointCounter | None


@dataclass
class DisturbedPoints:
    """Collects the disturbed points of a call while it measures, with the time that measuring takes."""

    points: list[_Measured] = field(default_factory=list)
    seconds: float = 0.0

    def note(self, planned: Planned, record: Record, counter: PointCounter | None, seconds: float) -> None:
        self.seconds += seconds
        if is_doubtful(record):
            self.points.append(_Measured(planned, record, counter))

    def measure_again(self, executor: PointExecutor, show: Callable[[Planned], None]) -> Iterator[Record]:
        """Measures each once more, as long as there is time and the machine is not still busy. Yields the records that
        are no longer disturbed. show: is called with each point before.
        """
        end = time.monotonic() + SHARE * self.seconds
        in_a_row = 0
        for point in self.points:
            if time.monotonic() + point.record.seconds > end or in_a_row >= GIVE_UP_AFTER:
                break
            show(point.planned)
            record = executor.measure(point.planned)
            if record.is_measured and not is_doubtful(record) and _is_known_quiet(record, point.record):
                in_a_row = 0
                if point.counter is not None:
                    point.counter.add(point.planned, record, executor.outputs)
                yield record
            else:
                in_a_row += 1


def is_doubtful(record: Record) -> bool:
    """Whether a point is worth measuring again."""
    return record.status == "ok" and (record.is_disturbed or bool(record.throttled))


def _is_known_quiet(record: Record, before: Record) -> bool:
    """Whether it is known that other programs left a point alone that they had disturbed before."""
    return not before.is_disturbed or record.others_share is not None


def why(records: Iterable[Record]) -> str:
    """Why points are measured again, in one sentence."""
    doubtful = list(records)
    loaded = sum(record.is_disturbed for record in doubtful)
    hot = len(doubtful) - loaded
    busy = f"{count(loaded, 'point')} while other programs used the processors" if loaded else ""
    throttled = f"{count(hot, 'point')} while the device was throttled" if hot else ""
    return f"measured {' and '.join(filter(None, [busy, throttled]))}: measuring again, as far as time allows"


def what_remains(records: Sequence[Record]) -> str:
    """The sentence on the points that stay disturbed; '' if there are none."""
    sentence = disturbed(records)
    return f"{sentence}, and marked; --wait waits until the machine is quiet" if sentence else ""
