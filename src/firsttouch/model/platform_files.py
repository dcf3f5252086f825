"""Loads platform files. Each error names the file, the line, the path of the value, and what is wrong with it.

A file is JSON with `title`, `device` and `host` as a driver would describe them, `parameters` (parameters.py), and
`when`, the parts that apply under conditions. With `extends` it states only what differs from another platform; null
takes something away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from firsttouch.base.encoding import encode_json
from firsttouch.base.errors import UsageError, did_you_mean
from firsttouch.machine.switches import SWITCHES
from firsttouch.model.documents import JsonFile, place_of, unknown_key
from firsttouch.model.parameters import parameter
from firsttouch.model.values import Value, WrongValue, check_rows, parse_value, read_value
from firsttouch.records.schema import AllocatorInfo, DeviceCapabilities, DeviceInfo, Peer, Scalar

DEEPEST = 4
"""Most files that a file may extend, one through the other."""
_FOLDER = Path(str(files("firsttouch.model") / "platforms"))
COMMON = _FOLDER / "common"
"""Has what several platforms of the program have in common."""
_OWN_DEVICE_FIELDS = ("name", "peers", "available", "reason", "environment", "modelled")
_OWN_ALLOCATOR_FIELDS = ("name", "verified")
"""Fields of a device and of an allocator that a file does not state, since they follow from the machine and the call.
"""


class StatementSource(msgspec.Struct, forbid_unknown_fields=True):
    """Where something that a file says of its devices is from. says: what, such as `on_demand` of allocators. source,
    rows: as of a value.
    """

    says: str
    source: str
    rows: list[str]


class PlatformPart(msgspec.Struct, forbid_unknown_fields=True):
    """What a file says, or what changes under conditions. `if` has what must hold: a value as --what-if states it, or
    a switch of the environment (machine/switches.py) as the factor of a point.
    """

    device: dict[str, Any] = {}
    host: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    conditions: dict[str, str] = msgspec.field(default={}, name="if")
    note: str = ""


class PlatformFile(msgspec.Struct, forbid_unknown_fields=True):
    """The content of a file. devices: how many such devices the machine has. peer: each as the others see it. sources:
    of what `device` and `host` say, as far as published rows say it.
    """

    title: str = ""
    note: str = ""
    extends: str = ""
    devices: int | None = None
    device: dict[str, Any] = {}
    host: dict[str, Any] = {}
    peer: dict[str, Any] = {}
    parameters: dict[str, Any] = {}
    sources: list[StatementSource] = []
    when: list[PlatformPart] = []


@dataclass(frozen=True)
class Conditional:
    """A part of a platform that applies under conditions. needs: values that others must have. factors: those of a
    point. values: those that it has instead, None for one that is taken away.
    """

    needs: Mapping[str, Value]
    factors: Mapping[str, str]
    device: Mapping[str, Any]
    host: Mapping[str, Any]
    values: Mapping[str, Value | None]

    def applies(self, values: Mapping[str, Value], factors: Mapping[str, Scalar]) -> bool:
        return all(name in values and values[name].has_content_of(need) for name, need in self.needs.items()) and all(
            factors.get(name) == value for name, value in self.factors.items()
        )


@dataclass(frozen=True)
class Description:
    """What a file and those that it extends say. name: as its values have it as their platform. base: what the file
    extends. digest: of their content. is_machine: whether it describes a machine, not what several have in common.
    """

    name: str
    base: Description | None
    title: str
    notes: Sequence[str]
    device: Mapping[str, Any]
    host: Mapping[str, Any]
    peer: Mapping[str, Any]
    devices: int
    values: Mapping[str, Value]
    sources: Sequence[StatementSource]
    when: Sequence[Conditional]
    bases: Sequence[str]
    is_machine: bool
    digest: str


def platform_names() -> list[str]:
    """The platforms of the program."""
    return sorted(path.name.removesuffix(".json") for path in _FOLDER.iterdir() if path.name.endswith(".json"))


def describe(name: str) -> Description:
    """A platform of the program by its name, or of a user's file by its path. Raises UsageError."""
    return _own(name) if name in platform_names() else _load(name, _path(name), [])


@cache
def _own(name: str) -> Description:
    return _load(name, _FOLDER / f"{name}.json", [])


def _path(name: str) -> Path:
    if "/" in name or name.endswith(".json"):
        return Path(name)
    raise UsageError(_unknown_platform(name))


def _unknown_platform(name: str) -> str:
    names = platform_names()
    return f"unknown platform '{name}'{did_you_mean(name, names)}; accepted: {', '.join(names)}, or the path of a file"


def merged(base: Any, change: Any) -> Any:
    """A value with changes: objects member by member, of which null takes one away."""
    if not (isinstance(base, Mapping) and isinstance(change, Mapping)):
        return change
    members = {**base, **{name: merged(base.get(name, {}), value) for name, value in change.items()}}
    return {name: value for name, value in members.items() if value is not None}


def device_info(fields: Mapping[str, Any]) -> DeviceInfo:
    """The description of a device from that of a file, which has the allocators by name. Raises WrongValue."""
    entries = fields.get("allocators", {})
    if not isinstance(entries, Mapping):
        raise WrongValue("expected an object with the allocators by name", "allocators")
    plain = {name: value for name, value in fields.items() if name not in ("allocators", "capabilities")}
    device: DeviceInfo = _part(plain, DeviceInfo, without=_OWN_DEVICE_FIELDS, name="", kind="")
    return msgspec.structs.replace(
        device,
        capabilities=_part(fields.get("capabilities", {}), DeviceCapabilities, "capabilities"),
        allocators=[
            _part(entry, AllocatorInfo, "allocators", name, without=_OWN_ALLOCATOR_FIELDS, name=name, available=True)
            for name, entry in entries.items()
        ],
    )


def _part(raw: Any, kind: type[Any], /, *steps: str, without: Sequence[str] = (), **defaults: Any) -> Any:
    """A part of a device, of which no key is unknown. without: the fields that a file does not state."""
    if not isinstance(raw, Mapping):
        raise WrongValue("expected an object", *steps)
    accepted = [field for field in kind.__struct_fields__ if field not in without]
    for field in raw:
        if field not in accepted:
            raise WrongValue(unknown_key(field, accepted), *steps, field)
    try:
        return msgspec.convert({**defaults, **raw}, kind)
    except msgspec.ValidationError as error:
        inner, text = place_of(error, kind)
        raise WrongValue(text, *steps, *inner) from None


def peer_info(fields: Mapping[str, Any], name: str) -> Peer:
    """A device as the others of its kind see it. Raises WrongValue."""
    peer: Peer = _part(fields, Peer, without=("name",), name=name)
    return peer


# ---------------------------------------------------------------------------------------------------- one file


def _load(name: str, path: Path, above: Sequence[Path]) -> Description:
    json_file = JsonFile(path, str(path) if name not in platform_names() else f"{name}.json")
    try:
        file = msgspec.convert(json_file.value, PlatformFile)
    except msgspec.ValidationError as error:
        json_file.fail(*place_of(error, PlatformFile))
    return _Loader(name, json_file, file, _base(file, json_file, path, above)).description()


def _is_machine(path: Path) -> bool:
    """Whether a file is a machine of its own, not what several platforms of the program have in common."""
    return path.parent.resolve() != COMMON.resolve()


def _base(file: PlatformFile, json_file: JsonFile, path: Path, above: Sequence[Path]) -> Description | None:
    if not file.extends:
        return None
    if file.extends in platform_names():
        base = _FOLDER / f"{file.extends}.json"
    elif "/" in file.extends or file.extends.endswith(".json"):
        base = path.parent / file.extends
    else:
        json_file.fail(("extends",), _unknown_platform(file.extends))
    chain = [*above, path.resolve()]
    if base.resolve() in chain:
        json_file.fail(("extends",), f"'{file.extends}' extends this file in turn, in a circle")
    if len(chain) > DEEPEST and _is_machine(base):
        json_file.fail(("extends",), f"one file extends another more than {DEEPEST} deep; state it in fewer")
    if not base.is_file():
        json_file.fail(("extends",), f"there is no file '{file.extends}'")
    return _load(file.extends if _is_machine(base) else f"common/{base.stem}", base, chain)


class _Loader:
    """What a file says, over what it extends."""

    def __init__(self, name: str, json_file: JsonFile, file: PlatformFile, base: Description | None) -> None:
        self._name, self._json, self._file, self._base = name, json_file, file, base

    def description(self) -> Description:
        file, base = self._file, self._base
        if base is None:
            for key in ("title", "device", "host"):
                if not getattr(file, key):
                    self._fail(f"'{key}' is missing, since the file extends no other")
        if file.devices is not None and not 1 <= file.devices <= 64:
            self._fail(f"{file.devices} is not 1 to 64", "devices")
        device = merged(base.device if base else {}, file.device)
        host = merged(base.host if base else {}, file.host)
        peer = merged(base.peer if base else {}, file.peer)
        self._checked(device_info, device, "device")
        self._checked(device_info, host, "host")
        self._checked(lambda fields: peer_info(fields, ""), {"access": "none", **peer}, "peer")
        values = {**(base.values if base else {}), **self._values(file.parameters, "parameters")}
        self._check_facts(file.device, values, "device")
        self._check_facts(file.host, values, "host")
        for i, part in enumerate(file.when):
            self._check_facts(part.device, values, "device", "when", i)
            self._check_facts(part.host, values, "host", "when", i)
        parts = [self._conditional(part, i, device, host) for i, part in enumerate(file.when)]
        content = encode_json(self._json.value, order="sorted")
        return Description(
            name=self._name,
            base=base,
            title=file.title or (base.title if base else ""),
            notes=[*(base.notes if base and base.is_machine else ()), *filter(None, [file.note])],
            device=device,
            host=host,
            peer=peer,
            devices=file.devices or (base.devices if base else 1),
            values={name: value for name, value in values.items() if value is not None},
            sources=[*(base.sources if base else ()), *self._sources()],
            when=[*(base.when if base else ()), *parts],
            bases=[*([file.extends] if base.is_machine else []), *base.bases] if base else (),
            is_machine=_is_machine(self._json.path),
            digest=hashlib.sha256((base.digest.encode() if base else b"") + content).hexdigest(),
        )

    def _fail(self, text: str, *path: str | int) -> NoReturn:
        self._json.fail(path, text)

    def _checked(self, make: Any, fields: Any, *path: str | int) -> None:
        try:
            make(fields)
        except WrongValue as error:
            self._fail(str(error), *path, *error.steps)

    def _check_facts(
        self, fields: Mapping[str, Any], values: Mapping[str, Any], section: str, *above: str | int
    ) -> None:
        """A fact of a device that follows from a value is not stated beside it."""
        definitions = [entry for name in values if (entry := parameter(name))]
        stating = {fact: entry.name for entry in definitions for fact in entry.facts}
        for fact in fields.get("facts", {}):
            if name := stating.get(f"{section}.{fact}"):
                self._fail(f"it follows from the value {name}; state that", *above, section, "facts", fact)

    def _values(self, raw: Mapping[str, Any], *path: str | int) -> dict[str, Value | None]:
        values: dict[str, Value | None] = {}
        for name, entry in raw.items():
            try:
                values[name] = None if entry is None and parameter(name) else read_value(name, entry, self._name)
            except WrongValue as error:
                self._fail(str(error), *path, name, *error.steps)
        return values

    def _sources(self) -> Iterator[StatementSource]:
        for i, source in enumerate(self._file.sources):
            self._checked(check_rows, source.rows, "sources", i)
            yield source

    def _conditional(self, part: PlatformPart, i: int, device: Any, host: Any) -> Conditional:
        path = ("when", i)
        if not part.conditions:
            self._fail("'if' is missing or empty", *path)
        needs, factors = dict[str, Value](), dict[str, str]()
        for name, text in part.conditions.items():
            if name in SWITCHES:
                if text not in SWITCHES[name].values:
                    self._fail(f"'{text}' is not {' or '.join(SWITCHES[name].values)}", *path, "if", name)
                factors[name] = text
            elif parameter(name):
                try:
                    needs[name] = parse_value(name, text, self._name)
                except WrongValue as error:
                    self._fail(str(error), *path, "if", name)
            else:
                self._fail(f"neither a value nor a switch ({', '.join(SWITCHES)})", *path, "if", name)
        self._checked(device_info, merged(device, part.device), *path, "device")
        self._checked(device_info, merged(host, part.host), *path, "host")
        return Conditional(needs, factors, part.device, part.host, self._values(part.parameters, *path, "parameters"))
