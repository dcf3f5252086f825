"""Findings as tests assert them: by claim and values. What they say in words is in tests/report/wording.txt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from firsttouch.records.findings import Claim, Finding, Quantity


def row(finding: Finding) -> dict[str, Any]:
    """What a finding has for each placeholder that its claim's text may use, and the conditions that it states."""
    fields: dict[str, Any] = {**finding.conditions, **finding.details, "value": finding.value}
    if comparison := finding.comparison:
        fields |= {f"other_{name}": value for name, value in comparison.conditions.items()}
        fields |= {"other_value": comparison.value, "ratio": comparison.ratio}
    return fields | {"stated": dict(finding.stated)}


def claims(findings: Iterable[Finding]) -> list[Claim]:
    return [finding.claim for finding in findings]


def assert_finding(findings: Iterable[Finding], claim: Claim | str, **fields: Any) -> None:
    """Asserts that exactly one finding of a claim, or of a claim's id, has these fields of its row.

    Numbers that are not whole are compared to three digits. A number is compared with the value of a quantity, a
    Quantity with its unit too, and with its bounds if it has any.
    """
    rows = [row(finding) for finding in findings if claim in (finding.claim, finding.claim.id)]
    found = [each for each in rows if all(_is_alike(each.get(name), field) for name, field in fields.items())]
    shown = "\n".join(str({name: each.get(name) for name in fields}) for each in rows)
    assert len(found) == 1, f"{len(found)} of {claim} have {fields}, not one:\n{shown}"


def _is_alike(found: Any, expected: Any) -> bool:
    if isinstance(found, Quantity):
        parts = _parts(expected) if isinstance(expected, Quantity) else {"value": expected}
        return all(_is_alike(getattr(found, name), part) for name, part in parts.items())
    if isinstance(found, float) and isinstance(expected, float | int):
        return bool(found == pytest.approx(expected, rel=5e-3))
    return bool(found == expected)


def _parts(quantity: Quantity) -> Mapping[str, Any]:
    bounds = {} if quantity.low is None else {"low": quantity.low, "high": quantity.high}
    return {"value": quantity.value, "unit": quantity.unit, **bounds}
