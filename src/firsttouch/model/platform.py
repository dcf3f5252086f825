"""Machines that are described by a file: their devices, and every value with what it rests on.

The files of the program are in platforms/; a user's own is given as a path. Each is JSON: `title`, `extends` (another
platform), `device` and `host` as a driver would describe them, `parameters` (parameters.py), and `when`, which changes
all of these for points with certain factors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.resources import files
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from firsttouch import __version__
from firsttouch.encoding import encode_json
from firsttouch.errors import Unsupported, UsageError, did_you_mean
from firsttouch.machine.backends import MODEL
from firsttouch.model.costs import PlatformValue, Price, Time
from firsttouch.model.documents import JsonFile, JsonPath, place_of
from firsttouch.model.parameters import PER_BYTE, Parameter, names_like, parameter, units_of
from firsttouch.records.schema import SCHEMA, AllocatorInfo, DeviceInfo, Machine, Modelled, Peer, Scalar

T = TypeVar("T")
_DEEPEST = 4
_FOLDER = Path(str(files("firsttouch.model") / "platforms"))
How: TypeAlias = Literal["stated", "measured", "derived", "fitted", "assumed"]
_UNCERTAIN = ("derived", "fitted", "assumed")


class MissingValue(Unsupported):
    """A platform lacks a value that is needed."""

    def __init__(self, platform: Platform, name: str) -> None:
        known = parameter(name)
        says = f" ({known.says})" if known else ""
        super().__init__(f"{platform.name} has no value {name}{says}; give it in a file or with --what-if {name}=VALUE")
        self.name = name


@dataclass(frozen=True)
class Magnitude:
    """A number in the program's units (ns, bytes, bytes/ns, 1), with its bounds and what it rests on."""

    value: float
    low: float
    high: float
    ground: PlatformValue


class ValueEntry(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A value as a file has it. points: [bytes, value] or [bytes, value, low, high] of a price."""

    how: How
    source: str
    value: float | str | bool | None = None
    points: list[list[float]] = []
    unit: str = ""
    low: float | None = None
    high: float | None = None
    rows: list[str] = []
    note: str = ""


@dataclass(frozen=True)
class Value:
    """A value of a platform. content: a number, a price, a word, or a flag."""

    name: str
    entry: ValueEntry
    content: Magnitude | Price | str | bool


class PlatformPart(msgspec.Struct, forbid_unknown_fields=True):
    """What a file says, or changes for points with certain factors."""

    device: dict[str, Any] = {}
    host: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    factors: dict[str, Scalar] = {}
    note: str = ""


class PlatformFile(PlatformPart, forbid_unknown_fields=True):
    """The content of a file. devices: how many such devices the machine has. peer: each as the others see it."""

    title: str = ""
    extends: str = ""
    devices: int = 1
    peer: dict[str, Any] = {}
    when: list[PlatformPart] = []


@dataclass(frozen=True)
class Platform:
    """A machine of a file.

    name: of the program's platform, or the path of the file. digest: of the files that it comes from. changes: what was
    changed on the command line, as NAME=VALUE.
    """

    name: str
    title: str
    digest: str
    document: PlatformFile
    known: Mapping[str, Value]
    changes: Sequence[str] = ()

    @property
    def device_name(self) -> str:
        return "".join([f"{MODEL}:{self.name}", *(f"@{change}" for change in self.changes)])

    @cached_property
    def device(self) -> DeviceInfo:
        return self.devices[1]

    @cached_property
    def host(self) -> DeviceInfo:
        return self.devices[0]

    @cached_property
    def devices(self) -> Sequence[DeviceInfo]:
        """The host and the devices, named as --device takes them. Their kinds are those of the machine itself."""
        host, *devices = self._described()
        modelled = Modelled(
            platform=self.name, digest=self.digest, changes=dict(change.split("=", 1) for change in self.changes)
        )
        names = [self.device_name, *(f"{self.device_name}:{n}" for n in range(1, len(devices)))]
        by_name = {device.name: name for device, name in zip(devices, names, strict=True)}
        renamed = [
            msgspec.structs.replace(
                d,
                name=by_name[d.name],
                modelled=modelled,
                peers=[msgspec.structs.replace(p, name=by_name[p.name]) for p in d.peers],
            )
            for d in devices
        ]
        return [msgspec.structs.replace(host, name=f"{self.device_name}:cpu", modelled=modelled), *renamed]

    def _described(self) -> Sequence[DeviceInfo]:
        """The host and the devices as the machine's own discovery would name them."""
        d = self.document
        host = _device_info({"name": "cpu", "kind": "cpu", **d.host}, self._facts("host"))
        kind = d.device.get("kind", "")
        names = [f"{kind}:{index}" for index in range(d.devices)]
        return [host] + [
            _device_info(
                {"name": name, **d.device},
                self._facts("device"),
                [{"name": other, **d.peer} for other in names if other != name],
            )
            for name in names
        ]

    def _facts(self, of: str) -> dict[str, Scalar]:
        """The facts of the device, the host or the machine that values state."""
        facts: dict[str, Scalar] = {}
        for value in self.known.values():
            known = parameter(value.name)
            for fact in known.facts if known else ():
                owner, _, name = fact.partition(".")
                if owner == of:
                    facts[name] = _fact(value.content)
        return facts

    def machine(self) -> Machine:
        """The modelled machine, as its machine.json would have it."""
        topics: dict[str, dict[str, Scalar]] = {}
        for name, fact in self._facts("machine").items():
            topic, _, key = name.partition(".")
            topics.setdefault(topic, {})[key] = fact
        return Machine(SCHEMA, self.name, "", __version__, topics, list(self.devices))

    def has(self, name: str) -> bool:
        return name in self.known

    def values(self) -> Sequence[Value]:
        """All values, in the order of their names."""
        return [self.known[name] for name in sorted(self.known)]

    def quantity(self, name: str) -> Magnitude:
        """A number. Raises MissingValue."""
        return self._content(name, Magnitude)

    def curve(self, name: str) -> Price:
        """A price, or the price in proportion to the bytes that a rate is. Raises MissingValue."""
        content = self.known[name].content if self.has(name) else None
        return _line(content) if isinstance(content, Magnitude) else self._content(name, Price)

    def word(self, name: str) -> str:
        """A word. Raises MissingValue."""
        return self._content(name, str)

    def flag(self, name: str) -> bool:
        """Whether something is on. Raises MissingValue."""
        return self._content(name, bool)

    def _content(self, name: str, kind: type[T]) -> T:
        if name not in self.known:
            raise MissingValue(self, name)
        content = self.known[name].content
        if not isinstance(content, kind):
            raise TypeError(f"{name} is no {kind.__name__}")
        return content

    def changed(self, changes: Mapping[str, str]) -> Platform:
        """The platform with other values, as --what-if states them. Raises UsageError."""
        known = dict(self.known)
        for name, text in changes.items():
            known[name] = _changed_value(self, name, text)
        texts = {**dict(c.split("=", 1) for c in self.changes), **changes}
        return replace(self, known=known, changes=tuple(f"{name}={text}" for name, text in texts.items()))

    def under(self, factors: Mapping[str, Scalar]) -> Platform:
        """The platform for a point with these factors."""
        platform = self
        for change in self.document.when:
            if all(factors.get(name) == value for name, value in change.factors.items()):
                known = {**platform.known, **_values(change.parameters, self.name, None, ())}
                changed = dict(c.split("=", 1) for c in self.changes)
                known |= {name: self.known[name] for name in changed}
                platform = replace(platform, known=known, document=_merged(platform.document, change))
        return platform


# ---------------------------------------------------------------------------------------------------- loading


def platform_names() -> list[str]:
    """The platforms of the program."""
    return sorted(path.stem for path in _FOLDER.glob("*.json"))


def platform_of(device: str) -> Platform:
    """The platform of the name of a modelled device. Raises UsageError."""
    name, *changes = device.removeprefix(f"{MODEL}:").split("@")
    head, _, last = name.rpartition(":")
    if head and (last == "cpu" or last.isdigit()):
        name = head
    return load_platform(name).changed(dict(_change(change) for change in changes))


def _change(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise UsageError(f"'{text}' changes no value of a platform; write NAME=VALUE, such as host.page=64KiB")
    return name, value


def load_platform(name: str) -> Platform:
    """A platform of the program by its name, or of a file by its path. Raises UsageError."""
    path = _path(name, Path(), None, ())
    return _loaded(name, path)


@cache
def _loaded(name: str, path: Path) -> Platform:
    document, known, contents = _load(name, path, [])
    digest = hashlib.sha256(b"".join(contents)).hexdigest()
    return Platform(name, document.title, digest, document, known)


def _path(name: str, beside: Path, file: JsonFile | None, place: JsonPath) -> Path:
    if "/" in name or name.endswith(".json"):
        return beside / name
    if name in platform_names():
        return _FOLDER / f"{name}.json"
    known = ", ".join(platform_names())
    text = f"unknown platform '{name}'{did_you_mean(name, platform_names())}; accepted: {known}, or a path to a file"
    if file is None:
        raise UsageError(text)
    file.fail(place, text)


def _load(name: str, path: Path, parents: list[Path]) -> tuple[PlatformFile, dict[str, Value], list[bytes]]:
    file = JsonFile(path, str(path))
    document = _document(file)
    resolved = path.resolve()
    base, known, contents = PlatformFile(), dict[str, Value](), list[bytes]()
    if document.extends:
        above = _path(document.extends, path.parent, file, ("extends",))
        chain = [*parents, resolved]
        if above.resolve() in chain:
            file.fail(("extends",), f"'{document.extends}' extends this file in turn, in a circle")
        if len(chain) > _DEEPEST:
            file.fail(("extends",), f"more than {_DEEPEST} files extend each other; write what is needed in fewer")
        base, known, contents = _load(document.extends, above, chain)
    known |= _values(document.parameters, name, file, ("parameters",))
    for i, change in enumerate(document.when):
        _values(change.parameters, name, file, ("when", i, "parameters"))
    merged = _merged(base, document)
    _checked_devices(merged, file)
    return merged, known, [*contents, encode_json(file.value, order="sorted")]


def _document(file: JsonFile) -> PlatformFile:
    try:
        document = msgspec.convert(file.value, PlatformFile)
    except msgspec.ValidationError as error:
        file.fail(*place_of(error, ()))
    if not document.extends:
        for name in ("title", "device", "host"):
            if not getattr(document, name):
                file.fail((), f"'{name}' is missing")
    return document


def _merged(base: PlatformFile, change: PlatformPart) -> PlatformFile:
    merged = msgspec.structs.replace(
        base, device=_deep(base.device, change.device), host=_deep(base.host, change.host), parameters={}
    )
    if isinstance(change, PlatformFile):
        merged.title, merged.extends = change.title or base.title, ""
        merged.devices, merged.peer = max(base.devices, change.devices), _deep(base.peer, change.peer)
        merged.when = [*base.when, *change.when]
    return merged


def _deep(base: Any, change: Any) -> Any:
    """A value with changes: objects member by member, where null removes one."""
    if not (isinstance(base, dict) and isinstance(change, dict)):
        return change
    merged = {**base, **{name: _deep(base.get(name), value) for name, value in change.items()}}
    return {name: value for name, value in merged.items() if value is not None}


def _checked_devices(document: PlatformFile, file: JsonFile) -> None:
    for section in ("device", "host"):
        try:
            _device_info({"name": section, "kind": section, **getattr(document, section)}, {})
        except msgspec.ValidationError as error:
            file.fail(*place_of(error, (section,)))


def _device_info(
    fields: Mapping[str, Any], facts: Mapping[str, Scalar], peers: Sequence[Mapping[str, Any]] = ()
) -> DeviceInfo:
    """allocators: an object by name in a file, a list in a DeviceInfo."""
    entries = fields.get("allocators", {})
    listed = [msgspec.convert({"name": name, "available": True, **e}, AllocatorInfo) for name, e in entries.items()]
    device = msgspec.convert({**fields, "allocators": []}, DeviceInfo)
    return msgspec.structs.replace(
        device,
        facts={**device.facts, **facts},
        allocators=listed,
        peers=[msgspec.convert(peer, Peer) for peer in peers],
    )


# ---------------------------------------------------------------------------------------------------- values


def _values(raw: Mapping[str, Any], platform: str, file: JsonFile | None, place: JsonPath) -> dict[str, Value]:
    return {name: _value(name, entry, platform, file, (*place, name)) for name, entry in raw.items()}


def _value(name: str, raw: Any, platform: str, file: JsonFile | None, place: JsonPath) -> Value:
    def fail(where: JsonPath, text: str) -> None:
        if file is None:
            raise UsageError(f"{'.'.join(map(str, (*place, *where)))}: {text}")
        file.fail((*place, *where), text)

    known = parameter(name)
    if known is None:
        fail((), f"unknown value{names_like(name)}")
    assert known is not None
    try:
        entry = msgspec.convert(raw, ValueEntry)
    except msgspec.ValidationError as error:
        fail(*place_of(error, ()))
    if not entry.source:
        fail((), "'source' is empty; say where the value is from")
    if entry.how == "fitted" and not entry.rows:
        fail((), "a fitted value names the published rows that it is fitted to, under 'rows'")
    for i, row in enumerate(entry.rows):
        if row not in _rows():
            fail(("rows", i), f"there is no published row '{row}'{did_you_mean(row, _rows())}")
    ground = PlatformValue(platform, name, entry.how, entry.source, tuple(entry.rows))
    wrong, content = _content(known, entry, ground)
    if wrong:
        fail((), wrong)
    return Value(name, entry, content)


@cache
def _rows() -> frozenset[str]:
    from firsttouch.papers.rows import papers

    return frozenset(f"{paper}/{row.id}" for paper, known in papers().items() for row in known.rows)


def _content(known: Parameter, entry: ValueEntry, ground: PlatformValue) -> tuple[str, Magnitude | Price | str | bool]:
    """What is wrong with a value, or '', and its content."""
    if known.dimension in ("word", "flag"):
        wanted = bool if known.dimension == "flag" else str
        if not isinstance(entry.value, wanted) or (known.words and entry.value not in known.words):
            return f"'value' must be {'true or false' if wanted is bool else known.accepted}", ""
        return "", entry.value
    units = units_of(known.dimension)
    if entry.unit not in units:
        return f"unit '{entry.unit}' does not fit; accepted: {', '.join(filter(None, units)) or 'none'}", ""
    scale = units[entry.unit]
    if known.dimension == "price" and entry.points:
        return _points(known, entry, scale, ground)
    if isinstance(entry.value, bool) or not isinstance(entry.value, int | float):
        return "'value' must be a number", ""
    if (entry.low is None) != (entry.high is None) or (entry.how in _UNCERTAIN and entry.low is None):
        return f"a value that is {entry.how} needs 'low' and 'high'", ""
    numbers = [float(v) for v in (entry.value, entry.low, entry.high) if v is not None]
    if not all(isfinite(number) for number in numbers):
        return "'value', 'low' and 'high' must be finite", ""
    numbers = [round(n * scale) if known.dimension in ("size", "count") else n * scale for n in numbers]
    value, low, high = numbers if len(numbers) == 3 else numbers * 3
    if not low <= value <= high:
        return "'value' is not within 'low' and 'high'", ""
    if known.dimension == "price":
        return _price(known, Magnitude(value, low, high, ground), entry.unit)
    return _in_range(known, (value, low, high)), Magnitude(value, low, high, ground)


def _in_range(known: Parameter, values: Sequence[float]) -> str:
    if all(known.low <= value <= known.high for value in values):
        return ""
    return f"outside of what is possible: {known.low:g} to {known.high:g} in the program's units"


def _price(known: Parameter, number: Magnitude, unit: str) -> tuple[str, Price]:
    """A price of one number: a rate, ns per byte, or the same time for any size."""
    if unit == PER_BYTE:
        line = Price((0.0, 1.0), (Time(), Time(number.value, number.low, number.high)), (number.ground,))
        return "", line
    if unit in units_of("rate"):
        return ("", _line(number)) if number.low > 0 else ("a rate must be above 0", _line(replace(number, low=1)))
    time = Time(number.value, number.low, number.high)
    return _in_range(known, (number.value, number.low, number.high)), Price(
        (1.0, 2.0**62), (time, time), (number.ground,)
    )


def _line(rate: Magnitude) -> Price:
    return Price((0.0, 1.0), (Time(), Time(1 / rate.value, 1 / rate.high, 1 / rate.low)), (rate.ground,))


def _points(
    known: Parameter, entry: ValueEntry, scale: float, ground: PlatformValue
) -> tuple[str, Magnitude | Price | str]:
    sizes, times = list[float](), list[Time]()
    for point in entry.points:
        if len(point) not in (2, 4) or not all(isfinite(v) and v >= 0 for v in point):
            return "a point is [bytes, value] or [bytes, value, low, high], none of them negative", ""
        size, value, low, high = point if len(point) == 4 else (*point, point[1], point[1])
        if not low <= value <= high or (sizes and size <= sizes[-1]):
            return "points have rising sizes, and their value within low and high", ""
        if entry.unit in units_of("rate"):
            if low <= 0:
                return "a rate must be above 0", ""
            value, low, high = (size / (v * scale) for v in (value, high, low))
        else:
            per = size if entry.unit == PER_BYTE else 1
            value, low, high = (v * scale * per for v in (value, low, high))
        sizes.append(float(size))
        times.append(Time(value, low, high))
    return "", Price(tuple(sizes), tuple(times), (ground,))


def _changed_value(platform: Platform, name: str, text: str) -> Value:
    """A value of --what-if."""
    known = parameter(name)
    if known is None:
        raise UsageError(
            f"unknown value '{name}'{did_you_mean(name, platform.known)}; "
            f"`firsttouch platforms {platform.name}` lists those of {platform.name}"
        )
    entry = _entry_of(known, text)
    if entry is None:
        raise UsageError(f"--what-if {name}={text}: '{text}' is not {known.accepted}")
    ground = PlatformValue(platform.name, name, "assumed", "given as --what-if")
    wrong, content = _content(known, entry, ground)
    if wrong:
        raise UsageError(f"--what-if {name}={text}: {wrong}")
    return Value(name, entry, content)


def _entry_of(known: Parameter, text: str) -> ValueEntry | None:
    entry = ValueEntry("stated", "given as --what-if")
    if known.dimension == "flag":
        entry.value = {"on": True, "off": False}.get(text)
    elif known.dimension == "word":
        entry.value = text
    else:
        digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/% ")
        entry.unit = text[len(digits) :].strip()
        try:
            entry.value = float(digits)
        except ValueError:
            return None
    return None if entry.value is None else entry


def _fact(content: Magnitude | Price | str | bool) -> Scalar:
    if isinstance(content, Magnitude):
        return int(content.value) if float(content.value).is_integer() else content.value
    return content if isinstance(content, str | bool) else None
