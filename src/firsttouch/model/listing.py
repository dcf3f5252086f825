"""What `firsttouch platforms` says: the machines that files describe, with every value and what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from firsttouch.base.outputs import Output
from firsttouch.model.parameters import PARAMETERS, Dimension, parameter
from firsttouch.model.platform import Platform, load_platform, platform_names, platform_of
from firsttouch.model.platform_files import StatementSource
from firsttouch.model.values import How, Value
from firsttouch.records.text import count, join_names

WAYS: tuple[How, ...] = ("stated", "measured", "derived", "fitted", "assumed")


class PlatformEntry(msgspec.Struct, kw_only=True):
    """A value of a platform. about: what it is. text: the value for a reader, with its range. value, points, unit, low,
    high, how, source, rows, note: as its file has them. platform: the one whose file has it.
    """

    name: str
    about: str
    text: str
    value: float | str | bool | None
    points: list[list[float]]
    unit: str
    low: float | None
    high: float | None
    how: How
    source: str
    rows: list[str]
    note: str
    platform: str


class PlatformCondition(msgspec.Struct, kw_only=True):
    """What is different under conditions. when: values and switches of the environment, with what they must be.
    values: those that it has instead. absent: names of those that it has not. devices: whether devices differ too.
    """

    when: dict[str, str]
    values: list[PlatformEntry]
    absent: list[str]
    devices: bool


class PlatformDescription(msgspec.Struct, kw_only=True):
    """A platform. devices: how many such devices it has. device, host: what they are called. extends: the platforms
    that it is based on, the nearest first. sources: of what the files say of devices. digest: of the files.
    changes: by the call. ways: how many values are from where.
    """

    name: str
    title: str
    devices: int
    device: str
    host: str
    extends: list[str]
    notes: list[str]
    sources: list[StatementSource]
    digest: str
    changes: list[str]
    ways: dict[How, int]
    values: list[PlatformEntry]
    conditions: list[PlatformCondition]


class PlatformsOutput(Output, frozen=True, kw_only=True, tag="firsttouch-platforms/1"):
    """What `firsttouch platforms --json` prints."""

    platforms: list[PlatformDescription]


class KnownValue(msgspec.Struct, kw_only=True):
    """A value that a platform file may have. name: or a pattern, with words in angle brackets. takes: what a value of
    its kind may be, and in which units. about: what it is.
    """

    name: str
    kind: Dimension
    takes: str
    about: str


class KnownValuesOutput(Output, frozen=True, kw_only=True, tag="firsttouch-platform-values/1"):
    """What `firsttouch platforms --values --json` prints."""

    values: list[KnownValue]


def known_values() -> KnownValuesOutput:
    """All values that a file may have."""
    values = [KnownValue(name=p.name, kind=p.dimension, takes=p.accepted, about=p.says) for p in PARAMETERS]
    return KnownValuesOutput(summary=f"A platform file may have {len(values)} kinds of values.", values=values)


def platforms(name: str | None = None, changes: Mapping[str, str] | None = None) -> PlatformsOutput:
    """The platform of a name or of a file, with changes, or all of the program's. Raises UsageError."""
    if name is None:
        descriptions = [_described(load_platform(description)) for description in platform_names()]
        names = join_names([description.name for description in descriptions])
        return PlatformsOutput(summary=f"{count(len(descriptions), 'platform')}: {names}.", platforms=descriptions)
    only = _described(platform_of(name).changed(changes or {}))
    ways = join_names([f"{n} {how}" for how, n in only.ways.items() if n])
    return PlatformsOutput(
        summary=f"{only.name} is {only.title}, with {count(len(only.values), 'value')}: {ways}.", platforms=[only]
    )


def _described(platform: Platform) -> PlatformDescription:
    values, description = platform.values(), platform.description
    ways = Counter(value.entry.how for value in values)
    return PlatformDescription(
        name=platform.name,
        title=platform.title,
        devices=description.devices,
        device=platform.device.title,
        host=platform.host.title,
        extends=list(description.bases),
        notes=list(description.notes),
        sources=list(description.sources),
        digest=platform.digest,
        changes=list(platform.changes),
        ways={how: ways[how] for how in WAYS},
        values=_entries(values),
        conditions=[
            PlatformCondition(
                when={**{name: need.text for name, need in part.needs.items()}, **part.factors},
                values=_entries([value for value in part.values.values() if value is not None]),
                absent=[name for name, value in part.values.items() if value is None],
                devices=bool(part.device or part.host),
            )
            for part in description.when
        ],
    )


def _entries(values: Sequence[Value]) -> list[PlatformEntry]:
    entries = []
    for value in values:
        definition = parameter(value.name)
        assert definition is not None
        fields = msgspec.structs.asdict(value.entry)
        about, platform = definition.says, value.ground.platform
        entries.append(PlatformEntry(name=value.name, about=about, text=value.text, platform=platform, **fields))
    return entries
