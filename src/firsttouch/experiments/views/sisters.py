"""What tells equal devices apart, in words."""

from __future__ import annotations

from collections.abc import Sequence

from firsttouch.records.schema import Record
from firsttouch.records.sisters import differing, groups, unlike
from firsttouch.records.statistics import median_of
from firsttouch.records.text import join_names, quantity


def differences(records: Sequence[Record]) -> list[str]:
    """A sentence for each set of devices that differ from the one that stands for them: by how much the first of them
    does, in the point of each experiment in which that is most.
    """
    sentences = []
    for devices in unlike(records):
        first = next(group[0] for group in groups(records) if devices[0] in group)
        most: dict[str, tuple[Record, Record]] = {}
        for usual, own in sorted(differing(records, first, devices[0]), key=_ratio_of_medians):
            most[own.experiment] = usual, own
        parts = [
            f"{name} {quantity(median_of(own), own.unit)}, not {quantity(median_of(usual), usual.unit)}"
            for name, (usual, own) in most.items()
        ]
        verb = "differs" if len(devices) == 1 else "differ"
        sentences.append(f"{join_names(devices)} {verb} from {first}: {'; '.join(parts)}")
    return sentences


def _ratio_of_medians(pair: tuple[Record, Record]) -> float:
    low, high = sorted(map(median_of, pair))
    return high / low
