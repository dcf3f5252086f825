"""What a record of a prediction says: which platform it follows from, and the terms of which its time is the sum."""

from __future__ import annotations

import re
from collections.abc import Iterable

from firsttouch.records.factors import Number
from firsttouch.records.stored import Integer, Stored

MODEL = "model"
"""The names of devices that a platform file describes begin with it and a colon: model:gh200."""
_OF_DEVICE = re.compile(r":(cpu|\d+)$")
"""The end of the names of a platform's host and of its further devices."""


def is_predicted(device: str) -> bool:
    """Whether the points of a device are predicted, by its name."""
    return device.startswith(f"{MODEL}:")


def predicted_for(devices: Iterable[str]) -> str:
    """'predicted for gh200' of points on these devices; '' if none of them is modelled."""
    names = dict.fromkeys(_OF_DEVICE.sub("", name.removeprefix(f"{MODEL}:")) for name in devices if is_predicted(name))
    return f"predicted for {' and '.join(names)}" if names else ""


class Modelled(Stored):
    """What a prediction follows from.

    platform: the name of the platform, or the path of its file. digest: of the values of that file, with the changes.
    changes: the values that the call changed, by name, as it gave them. rules: the version of the rules of drivers.
    """

    platform: str
    digest: str
    changes: dict[str, str] = {}
    rules: Integer = 0

    @property
    def device_name(self) -> str:
        """The name of the platform's first device, whatever a reader calls the device of a record."""
        return "".join([f"{MODEL}:{self.platform}", *(f"@{name}={text}" for name, text in self.changes.items())])


class PredictedTerm(Stored):
    """One thing that takes time in a predicted point.

    phase, what: when it happens, and what it is. bytes, count: how much of it, and how many times. ms, low, high: its
    time, and the range that follows from the ranges of the platform's values. values: the names of the values of the
    platform that its price rests on. assumptions: what is taken for granted, in words.
    """

    phase: str
    what: str
    bytes: Integer
    count: Integer
    ms: Number
    low: Number
    high: Number
    values: list[str] = []
    assumptions: list[str] = []


LEFT_OUT = "not in the times"
"""The `what` of a term without time. Its assumptions say which parts of a program the predicted times lack, since
these were not measured anywhere.
"""


WITHOUT_EFFECT = "without effect"
"""The `what` of a term without time. Its assumptions say on which factors of the point no prediction depends."""


def lacking(terms: Iterable[PredictedTerm]) -> list[str]:
    """What predicted times lack, in words."""
    return assumed(term for term in terms if term.what == LEFT_OUT)


def assumed(terms: Iterable[PredictedTerm]) -> list[str]:
    """What is taken for granted, in words, each once."""
    return list(dict.fromkeys(text for term in terms for text in term.assumptions))
