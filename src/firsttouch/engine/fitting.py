"""A call of `run` or `app` for one device, as another device can carry it out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from firsttouch.base.errors import UsageError
from firsttouch.engine.choices import choose_preset
from firsttouch.engine.on_device import on_device
from firsttouch.engine.values import valid_values
from firsttouch.engine.work_kinds import APP, RUN
from firsttouch.experiments.contract.base import Factor
from firsttouch.program.strategies import strategies_of
from firsttouch.records.schema import PEER, DeviceInfo


def fitted(words: Sequence[str], devices: Sequence[DeviceInfo]) -> tuple[list[str], list[str]]:
    """The words of a call after `firsttouch`, without the factors and values that none of the devices has; and what was
    left out, in words.

    Raises:
        UsageError: of a factor that they have, they have none of the values; or none of the strategies.
    """
    factors = dict(_factors(words, devices))
    strategies = {name for device in devices for name in strategies_of(device, on_request=True)}
    kept, without = [words[0]], list[str]()
    rest = iter(words[1:])
    for word in rest:
        value = next(rest, "") if word in ("--set", "--strategy") else None
        if value is None:
            kept.append(word)
        elif word == "--strategy":
            without += [value] if value not in strategies else []
            kept += [word, value] if value in strategies else []
        else:
            name, _, texts = value.partition("=")
            usable = [text for text in texts.split(",") if name == PEER or _is_usable(factors.get(name), text)]
            gone = [text for text in texts.split(",") if text not in usable]
            if name in factors and not usable:
                raise UsageError(f"{_names(devices)} has none of {value}")
            kept += [word, f"{name}={','.join(usable)}"] if usable else []
            without += [f"{name}={','.join(gone)}"] if gone else []
    if "--strategy" in words and "--strategy" not in kept:
        raise UsageError(f"{_names(devices)} has none of the strategies {', '.join(without)}")
    return kept, without


def _names(devices: Sequence[DeviceInfo]) -> str:
    return ", ".join(device.name for device in devices)


def _is_usable(factors: Sequence[Factor] | None, text: str) -> bool:
    return any(valid_values(factor, text) for factor in factors or ())


def _factors(words: Sequence[str], devices: Sequence[DeviceInfo]) -> Iterator[tuple[str, list[Factor]]]:
    """The factors that the experiments or applications of a call have on devices, by name."""
    known = (APP if words[0] == "app" else RUN).experiments({})
    preset = choose_preset(dict(pairwise(words)).get("--preset", "quick"))
    found: dict[str, list[Factor]] = {}
    for name in (word for word in words[1:] if word in known):
        for device in devices:
            try:
                pair = on_device(name, known[name], device, preset, {})
            except UsageError:
                continue
            for factor in (*pair.factors, *pair.optional):
                found.setdefault(factor.name, []).append(factor)
    yield from found.items()
