"""Turns findings into sentences, or into plain data with their sentences. Nothing else does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

import msgspec

from firsttouch.base.units import format_number, format_seconds, format_size, significant_digits
from firsttouch.records.findings import Comparison, Condition, Finding, Quantity
from firsttouch.records.predicted import MODEL, predicted_for
from firsttouch.records.reading import PointIdentity, identities
from firsttouch.records.statements import Statement
from firsttouch.records.text import SECONDS, join_names, label, named, times_as

WIDE = 0.1
"""If half the width of a value's interval is more than this fraction of the value, the sentence gives the interval."""
COUNTED = ("pages", "passes", "fault groups")
"""Units of exact counts, which are written with all digits."""
RELATIVE = ("", "%")
"""Units of ratios. A ratio without an interval is written with two digits."""
_PLURAL_OF_ONE = re.compile(r"(?<![\d.,])1 (thread|page)s\b(?!/)")
"""A claim has its nouns in the plural; one thread is written in the singular."""
_AGENTS = {"cpu": "CPU", "gpu": "GPU"}


def sentences(findings: Iterable[Finding]) -> list[str]:
    """The statements of findings as text. Each of those about predictions says for which machine."""
    return [str(statement) for statement in statements(findings)]


def statements(findings: Iterable[Finding]) -> list[Statement]:
    """One sentence per finding, in their order. Adjacent findings with the same claim and head form one list."""
    of_all = []
    for (_, head, prediction), group in groupby(findings, key=lambda f: (f.claim.id, _head(f), predicted(f))):
        texts = [_text(f) for f in group]
        whole = [f"{head} {'; '.join(texts)}"] if head else texts
        of_all += [Statement(_PLURAL_OF_ONE.sub(r"1 \1", f"{text}."), prediction) for text in whole]
    return of_all


def head_and_text(finding: Finding) -> tuple[str, str]:
    """What a finding is about, without its colon, and what it says of that."""
    head, text = (_PLURAL_OF_ONE.sub(r"1 \1", part) for part in (_head(finding), _text(finding)))
    return head.removesuffix(":"), text


def predicted(finding: Finding) -> str:
    """'predicted for gh200' if the finding is about predictions; otherwise ''."""
    points = [point for point in finding.points if f'"{MODEL}:' in point]
    return predicted_for(identity.device for identity in identities(points))


class WordedComparison(msgspec.Struct):
    """What the value of a finding is compared with. ratio: the finding's value divided by this one. is_clear: the two
    intervals do not overlap.
    """

    value: Quantity
    ratio: Quantity
    is_clear: bool
    conditions: Mapping[str, Condition]
    points: list[PointIdentity]


class WordedFinding(msgspec.Struct):
    """A finding as --json has it. claim: a stable id of the kind of finding. text: the finding as a sentence. value: a
    word if it is not a number. conditions: the device, the factors that all its points share, and what else the claim
    names. details: further values. points: the points that support it.
    """

    experiment: str
    claim: str
    text: str
    value: Quantity | str
    conditions: Mapping[str, Condition]
    details: Mapping[str, Quantity]
    comparison: WordedComparison | None
    points: list[PointIdentity]


def worded(experiment: str, findings: Sequence[Finding]) -> list[WordedFinding]:
    """Findings for --json, each with its sentence."""
    return [
        WordedFinding(
            experiment,
            f.claim.id,
            sentences([f])[0],
            f.value,
            f.conditions,
            f.details,
            _worded_comparison(f.comparison) if f.comparison else None,
            identities(f.points),
        )
        for f in findings
    ]


def _worded_comparison(c: Comparison) -> WordedComparison:
    return WordedComparison(c.value, c.ratio, c.is_clear, c.conditions, identities(c.points))


def quantity_text(q: Quantity, *, interval: bool = False) -> str:
    """A value with its unit and no more digits than its interval supports.

    interval: adds the interval if it is wide.
    """
    if q.unit in COUNTED:
        return f"{q.value:,.0f} {q.unit}"
    text = _amount(q.value, q, q.unit)
    if not interval or q.low is None or q.high is None or q.high - q.low <= 2 * WIDE * abs(q.value):
        return text
    low, high = _amount(q.low, q, q.unit), _amount(q.high, q, q.unit)
    unit = high.partition(" ")[2]
    return f"{text} ({low.removesuffix(f' {unit}')} to {high})"


def quantity_texts(value: float, low: float, high: float, unit: str) -> list[str]:
    """A value and the ends of its interval, with the digits that sentences give it."""
    q = Quantity(value, unit, low, high)
    return [quantity_text(q), *(_amount(end, q, unit) for end in (low, high))]


def _amount(value: float, q: Quantity, unit: str) -> str:
    digits = significant_digits(q.value, q.low, q.high)
    if unit in RELATIVE and (q.low is None or q.high is None):
        digits = 2
    head, _, rest = unit.partition(" ")
    if head == "B":
        return format_size(value, 3)
    if scale := SECONDS.get(head):
        return f"{format_seconds(value * scale, digits)} {rest}".strip()
    if unit == "%":
        return f"{format_number(value, digits)} %"
    return f"{format_number(value, digits)} {unit}".strip()


def _head(finding: Finding) -> str:
    if not finding.claim.head:
        return ""
    head = finding.claim.head.format_map(_fields(finding))
    text = head.removesuffix(":")
    return text + (f" ({stated})" if (stated := _stated(finding)) else "") + head[len(text) :]


def _text(finding: Finding) -> str:
    text = finding.claim.text.format_map(_fields(finding))
    return text if finding.claim.head or not finding.stated else f"{text}, with {_stated(finding)}"


def _stated(finding: Finding) -> str:
    """The conditions that the claim does not name."""
    return ", ".join(f"no {name}" if v is None else named(name, v) for name, v in finding.stated.items())


def _fields(finding: Finding) -> dict[str, str]:
    """The text for every placeholder that a claim may use."""
    fields = {name: _condition(name, v) for name, v in finding.conditions.items()}
    fields |= {name: quantity_text(q) for name, q in finding.details.items()}
    fields |= {f"{name}_and_interval": quantity_text(q, interval=True) for name, q in finding.details.items()}
    fields["measured"] = "predicted" if predicted(finding) else "measured"
    value = finding.value
    fields["value"] = value if isinstance(value, str) else quantity_text(value, interval=True)
    ratios = dict(finding.details) | ({} if isinstance(value, str) else {"value": value})
    if comparison := finding.comparison:
        ratios["ratio"] = comparison.ratio
        fields |= {f"other_{name}": _condition(name, v) for name, v in comparison.conditions.items()}
        fields |= {"other_value": quantity_text(comparison.value), "ratio": quantity_text(comparison.ratio)}
    for name, ratio in ratios.items():
        if not ratio.unit and ratio.value > 0:
            fields[f"{name}_as_long"] = ratio_text(ratio, "long", "fast", interval=name == "value")
            fields[f"{name}_as_fast"] = ratio_text(ratio, "slow", "fast", interval=name == "value")
    return fields


def ratio_text(ratio: Quantity, longer: str, shorter: str, *, interval: bool = False) -> str:
    """A ratio of times in words, such as '1.6 times as fast' for 0.63. longer, shorter: what follows 'times as'."""
    bounds = (None, None) if not ratio.low or not ratio.high else (1 / ratio.high, 1 / ratio.low)
    shown = ratio if ratio.value >= 1 else Quantity(1 / ratio.value, "", *bounds)
    return times_as(ratio.value, longer, shorter, lambda _: quantity_text(shown, interval=interval))


def _condition(name: str, v: Condition) -> str:
    if isinstance(v, tuple):
        return join_names([_condition(name, item) for item in v])
    return _AGENTS.get(v, v) if isinstance(v, str) else label(name, v)
