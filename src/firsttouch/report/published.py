"""Published results of other machines beside a section's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from firsttouch.comparison.papers.beside import Beside, beside
from firsttouch.records.schema import DeviceInfo, Record, Scalar
from firsttouch.records.text import quantity

_HEDGES = {"up-to": "up to", "at-best": "at best", "at-least": "at least", "more-than": "more than"}


@dataclass
class PublishedTable:
    """A table of what papers state for the conditions of points of a section. caveats: what must be read with it."""

    columns: Sequence[str]
    rows: list[list[str]]
    caveats: list[str]


def published_tables(
    records: Iterable[Record], devices: Sequence[DeviceInfo]
) -> dict[tuple[str, str, Scalar], PublishedTable]:
    """The tables by experiment, device and application, which is None for other experiments."""
    groups: dict[tuple[str, str, Scalar], list[Beside]] = {}
    for entry in beside(records, devices):
        groups.setdefault((entry.experiment, entry.device, entry.factors.get("app")), []).append(entry)
    return {key: _table(entries) for key, entries in groups.items()}


def _table(entries: Sequence[Beside]) -> PublishedTable:
    rows = [
        [
            entry.says.rstrip("."),
            _here(entry),
            stated_text(entry.stated, entry.unit, entry.qualifier),
            entry.machine,
            _where(entry),
        ]
        for entry in entries
    ]
    remarks = dict.fromkeys(remark for e in entries for remark in (e.assumed, e.note) if remark)
    return PublishedTable(
        ("published statement", "predicted" if entries[0].predicted else "here", "there", "machine there", "source"),
        rows,
        [_sentence(r) for r in remarks],
    )


def _here(entry: Beside) -> str:
    """'333 ns (size 1 GiB)'."""
    return quantity(entry.value, entry.unit) + (f" ({entry.conditions})" if entry.conditions else "")


def _where(entry: Beside) -> str:
    return entry.source.removesuffix(f", on {entry.machine}")


def stated_text(stated: tuple[float, float], unit: str, qualifier: str) -> str:
    """'333 to 350 ns', 'about 9 us'."""
    low, high = stated
    text, end = quantity(low, unit), quantity(high, unit)
    if low != high:
        one_unit = end.partition(" ")[2]
        text = f"{text.removesuffix(f' {one_unit}')} to {end}"
    return f"{_HEDGES.get(qualifier, qualifier)} {text}".strip()


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."
