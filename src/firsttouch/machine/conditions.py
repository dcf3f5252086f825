"""Under which conditions a run was measured: what the terminal, the first screen and a comparison say of them."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch.machine.measurement_warnings import conditions, memory_comes_as_used
from firsttouch.records.schema import Machine, Record, Scalar, as_number

AS_USED = "the host hands memory out as it is used, so a first touch may take longer than on hardware"


def measuring_conditions(machine: Machine, records: Sequence[Record]) -> list[str]:
    """What distorts the values of a run, each in a few words: first what happened to its points, then its machine."""
    return [*filter(None, [disturbed(records), throttled(records)]), *conditions(machine.facts)]


def disturbed(records: Sequence[Record]) -> str:
    """How many points other programs disturbed, in words; '' if there are none."""
    shares = [record.others_share or 0.0 for record in records if record.is_disturbed]
    if not shares:
        return ""
    return (
        f"{len(shares)} of {_points(records)} measured while other programs used the processors (up to "
        f"{100 * max(shares):.0f} % of their time)"
    )


def throttled(records: Sequence[Record]) -> str:
    """How many points were measured while their device was throttled, in words; '' if there are none."""
    hot = sum(record.status == "ok" and bool(record.throttled) for record in records)
    return f"{hot} of {_points(records)} measured while the device was throttled" if hot else ""


def _points(records: Sequence[Record]) -> str:
    measured = sum(record.status == "ok" for record in records)
    return "1 point" if measured == 1 else f"{measured:,} points"


def compared_conditions(machine: Machine, records: Sequence[Record]) -> dict[str, Scalar]:
    """What a comparison should know of the conditions of a run, by name; None if that is not known.

    They are not among the facts that it compares anyway, because these change from moment to moment.
    """
    cpu = machine.facts.get("cpu", {})
    good = [record for record in records if record.status == "ok"]
    known = any(record.others_share is not None for record in good)
    return {
        "load of other programs at the start, %": as_number(cpu.get("others_percent")),
        "load average at the start": as_number(cpu.get("load_1min")),
        "points disturbed by other programs, %": (
            round(100 * sum(record.is_disturbed for record in good) / len(good)) if known else None
        ),
        "memory handed out as it is used": memory_comes_as_used(machine.facts),
    }


def first_touch_note(machine: Machine) -> str:
    """A clause for what rests on the first touch of memory; '' where it costs what it costs on hardware."""
    return AS_USED if memory_comes_as_used(machine.facts) else ""
