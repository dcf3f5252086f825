"""What rules of presets are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, TypeAlias

from firsttouch.records.schema import Scalar

Preset = Literal["quick", "standard", "full"]

PropertyValue: TypeAlias = Scalar | AbstractSet[str]
Test: TypeAlias = Callable[[PropertyValue], bool]
RuleCondition: TypeAlias = Scalar | AbstractSet[str] | tuple[Scalar | AbstractSet[str], ...] | Test

NOTHING: AbstractSet[str] = frozenset()


@dataclass(frozen=True, eq=False)
class PresetRule:
    """A rule for the points that meet all conditions in `of`: those that also meet all in `measured` are measured.

    measured: None means that none of them is. why: the reason for which the others are left out, in words. strict: the
    others are left out also if all points of a value that --set names are among them.
    """

    why: str
    presets: Sequence[Preset]
    of: Mapping[str, RuleCondition]
    measured: Mapping[str, RuleCondition] | None
    strict: bool = False
