"""All kinds of findings of `firsttouch port` by name: each module here that defines a Rule is found without being
registered.

The six hazards are those of "Dissecting CPU-GPU Unified Physical Memory on AMD MI300A APUs", section III-C, which names
them and what to do about them.
"""

from __future__ import annotations

import sys

from firsttouch.advice.port.rule import Rule
from firsttouch.base.modules import find_classes

_NEEDED = ("title", "words", "strategy", "chapter")


def all_rules() -> dict[str, type[Rule]]:
    """The rules by the kind of their findings."""
    return find_classes(Rule, sys.modules[__name__], noun="rule", required=_NEEDED)
