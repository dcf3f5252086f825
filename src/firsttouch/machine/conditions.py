"""Under which conditions a run was measured: what the terminal, the first screen and a comparison say of them."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch.machine.measurement_warnings import conditions, memory_comes_as_used
from firsttouch.records.codebook import codebook_of
from firsttouch.records.schema import Machine, Record

AS_USED = "the hypervisor allocates memory on first use, so a first touch may take longer than on bare metal"


_PRICES_WITH_TOUCHES = {"first_touch", "moving_touch", "copy_into_new", "allocation"}
"""The price of an allocation contains first touches where pages are locked."""
_COUNTERS_WITH_TOUCHES = ("touch", "phase_initialise_ms")
TOOK_TURNS = "took turns"
"""Words in the text on how a point's events were counted, if there were more events than counters of the processor."""


def measuring_conditions(machine: Machine, records: Sequence[Record]) -> list[str]:
    """What distorts the values of a run, each in a few words: first what happened to its points, then its machine.
    Nothing distorts predictions.
    """
    if any(device.modelled for device in machine.devices):
        return []
    of_points = [disturbed(records), throttled(records), _scaled(records)]
    return [*filter(None, of_points), *conditions(machine.facts)]


def _scaled(records: Sequence[Record]) -> str:
    """How many points have counters of events that took turns, in words; '' if there are none."""
    texts = ([value for value in record.counters.values() if isinstance(value, str)] for record in records)
    scaled = sum(any(TOOK_TURNS in text for text in of_record) for of_record in texts)
    return f"{scaled} of {_points(records)} with counters that {TOOK_TURNS} and were scaled" if scaled else ""


def disturbed(records: Sequence[Record]) -> str:
    """How many points other programs disturbed, in words; '' if there are none."""
    shares = [record.others_share or 0.0 for record in records if record.is_disturbed]
    if not shares:
        return ""
    return (
        f"{len(shares)} of {_points(records)} measured while other programs used the processors (up to "
        f"{100 * max(shares):.0f} % of their time)"
    )


def mostly_disturbed(records: Sequence[Record]) -> str:
    """A sentence on a run of which most points were disturbed, so that its numbers are not to be trusted; else ''."""
    if (disturbed_percent(records) or 0) <= 50:
        return ""
    return (
        f"This run was disturbed: {disturbed(records)}. Its numbers are not to be trusted; `firsttouch run --wait` "
        "measures when the machine is idle."
    )


def throttled(records: Sequence[Record]) -> str:
    """How many points were measured while their device was throttled, in words; '' if there are none."""
    hot = sum(record.status == "ok" and bool(record.throttled) for record in records)
    return f"{hot} of {_points(records)} measured while the device was throttled" if hot else ""


def _points(records: Sequence[Record]) -> str:
    measured = sum(record.status == "ok" for record in records)
    return "1 point" if measured == 1 else f"{measured:,} points"


def disturbed_percent(records: Sequence[Record]) -> int | None:
    """The percentage of measured points that other programs disturbed; None if it is not known of any."""
    good = [record for record in records if record.status == "ok"]
    if all(record.others_share is None for record in good):
        return None
    return round(100 * sum(record.is_disturbed for record in good) / len(good))


def rests_on_first_touch(experiment: str) -> bool:
    """Whether values of an experiment contain the time of first touches of host memory."""
    book = codebook_of(experiment)
    counted = any(book.counter(name) is not None for name in _COUNTERS_WITH_TOUCHES)
    return book.touch is not None or counted or any(price.price in _PRICES_WITH_TOUCHES for price in book.prices)


def first_touch_note(machine: Machine) -> str:
    """A clause for what rests on the first touch of memory; '' where it costs what it costs on hardware."""
    return AS_USED if memory_comes_as_used(machine.facts) else ""
