"""Machines that are described by a file: their devices, and every value with what it rests on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import msgspec

from firsttouch import __version__
from firsttouch.base.errors import Unsupported, UsageError
from firsttouch.machine.backends import MODEL
from firsttouch.machine.switches import SWITCHES
from firsttouch.model.costs import PlatformValue, Price
from firsttouch.model.parameters import PARAMETERS, names_like, parameter
from firsttouch.model.platform_files import Description, describe, device_info, merged, peer_info, platform_names
from firsttouch.model.rules import RULES_VERSION
from firsttouch.model.values import Content, Magnitude, Value, WrongValue, line, parse_value
from firsttouch.records.schema import SCHEMA, DeviceInfo, Machine, Modelled, Scalar

__all__ = ["Magnitude", "MissingValue", "Platform", "load_platform", "platform_names", "platform_of"]

T = TypeVar("T", Magnitude, Price, str, bool)


class MissingValue(Unsupported):
    """A platform lacks a value that is needed."""

    def __init__(self, platform: Platform, name: str) -> None:
        definition = parameter(name)
        meaning = f" ({definition.says})" if definition else ""
        under = f" with {condition}" if (condition := platform.absent_under(name)) else ""
        super().__init__(
            f"{platform.name} has no value {name}{meaning}{under}; give it in a file or with --what-if {name}=VALUE"
        )
        self.name = name


@dataclass(frozen=True, eq=False)
class Platform:
    """A machine of a file.

    name: of the program's platform, or the path of the file. given: the values that the call changed. factors: those of
    the point that it is for, which decide about its `when`: switches.
    """

    name: str
    description: Description
    given: Mapping[str, tuple[str, Value]] = field(default_factory=dict)
    factors: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.description.title

    @property
    def digest(self) -> str:
        """Of the content of the files, without changes of the call."""
        return self.description.digest

    @property
    def changes(self) -> tuple[str, ...]:
        """What the call changed, as NAME=VALUE."""
        return tuple(f"{name}={text}" for name, (text, _) in self.given.items())

    def changed(self, changes: Mapping[str, str]) -> Platform:
        """The platform with other values, as --what-if states them. Raises UsageError."""
        changed_values = dict(self.given)
        for name, text in changes.items():
            if parameter(name) is None:
                raise UsageError(
                    f"--what-if: unknown value '{name}'{names_like(name)}; "
                    f"`firsttouch platforms {self.name}` lists those of {self.name}"
                )
            try:
                changed_values[name] = (text, parse_value(name, text, self.name))
            except WrongValue as error:
                raise UsageError(f"--what-if {name}={text}: {error}") from None
        return replace(self, given=changed_values)

    @property
    def unchanged(self) -> Platform:
        """The platform without what the call changed."""
        return replace(self, given={})

    def as_of(self, name: str) -> Platform:
        """The platform that one of its values is from: the file itself or one that it extends, as that file has it."""
        description: Description | None = self.description
        while description is not None and description.name != name:
            description = description.base
        return replace(self, description=description or self.description, given={})

    def under(self, factors: Mapping[str, Scalar]) -> Platform:
        """The platform for a point with these factors, of which switches decide."""
        decisive = {name: value for name, value in {**self.factors, **factors}.items() if name in SWITCHES}
        key = tuple(sorted(decisive.items()))
        if key not in self._variants:
            self._variants[key] = replace(self, factors=decisive)
        return self._variants[key]

    @cached_property
    def _variants(self) -> dict[tuple[tuple[str, Scalar], ...], Platform]:
        return {}

    # ------------------------------------------------------------------------------------------------ values

    @cached_property
    def _parts(self) -> tuple[Mapping[str, Value], Mapping[str, Any], Mapping[str, Any]]:
        """The values, the device and the host, with what applies under conditions."""
        changed = {name: value for name, (_, value) in self.given.items()}
        values = {**self.description.values, **changed}
        device, host = self.description.device, self.description.host
        for part in self.description.when:
            if part.applies(values, self.factors):
                merged_values = {**values, **part.values, **changed}
                values = {name: value for name, value in merged_values.items() if value is not None}
                device, host = merged(device, part.device), merged(host, part.host)
        return values, device, host

    def values(self) -> list[Value]:
        """All values: those of the catalogue first, in its order."""
        order = {p.name: i for i, p in enumerate(PARAMETERS)}
        return sorted(self._parts[0].values(), key=lambda v: (order[parameter(v.name).name], v.name))  # type: ignore[union-attr]

    def has(self, name: str) -> bool:
        return name in self._parts[0]

    def absent_under(self, name: str) -> str:
        """The switches for which the file takes a value away, as NAME=VALUE; '' if it does not."""
        for part in self.description.when:
            if (
                part.factors
                and part.values.get(name, ...) is None
                and part.applies(self.description.values, self.factors)
            ):
                return " and ".join(f"{switch}={value}" for switch, value in part.factors.items())
        return ""

    def same_value(self, other: Platform, name: str) -> bool:
        """Whether another platform has as much of a value, or neither has it."""
        mine, its = self._parts[0].get(name), other._parts[0].get(name)
        return mine.has_content_of(its) if mine and its else mine is its

    def ground(self, name: str) -> PlatformValue:
        """What a value rests on. Raises MissingValue."""
        return self._value(name).ground

    def quantity(self, name: str) -> Magnitude:
        """A number. Raises MissingValue."""
        return self._content(name, Magnitude)

    def curve(self, name: str) -> Price:
        """A price; a rate is the price in proportion to the bytes. Raises MissingValue."""
        content = self._value(name).content
        return line(content) if isinstance(content, Magnitude) else self._content(name, Price)

    def following(self, name: str, rate: str) -> Price:
        """A price that is in proportion to what a rate of the platform allows: if the call changed the rate, the price
        is what it was at that of the file, times the ratio. Raises MissingValue.
        """
        price = self.curve(name)
        if rate not in self.given or name in self.given or not self.unchanged.has(rate):
            return price
        ratio = self.unchanged.quantity(rate).value / self.quantity(rate).value
        grounds = (*price.grounds, self.ground(rate))
        return replace(price, times=tuple(time.times(ratio) for time in price.times), grounds=grounds)

    def word(self, name: str) -> str:
        """A word. Raises MissingValue."""
        return self._content(name, str)

    def flag(self, name: str) -> bool:
        """Whether something is on. Raises MissingValue."""
        return self._content(name, bool)

    def _value(self, name: str) -> Value:
        value = self._parts[0].get(name)
        if value is None:
            raise MissingValue(self, name)
        return value

    def _content(self, name: str, kind: type[T]) -> T:
        content = self._value(name).content
        if not isinstance(content, kind):
            raise TypeError(f"{name} is no {kind.__name__}")
        return content

    # ------------------------------------------------------------------------------------------------ devices

    @property
    def device_name(self) -> str:
        """As --device takes it: model:gh200@host.page=4KiB."""
        return "".join([f"{MODEL}:{self.name}", *(f"@{change}" for change in self.changes)])

    @property
    def device(self) -> DeviceInfo:
        """The device, or the first of several."""
        return self.devices[1]

    @property
    def host(self) -> DeviceInfo:
        return self.devices[0]

    @cached_property
    def devices(self) -> list[DeviceInfo]:
        """The host and the devices, named as --device takes them. Their kinds are those of the machine itself."""
        host, *devices = self.own_devices()
        names = [self.device_name, *(f"{self.device_name}:{n}" for n in range(1, len(devices)))]
        changes = {name: text for name, (text, _) in self.given.items()}
        modelled = Modelled(platform=self.name, digest=self.digest, changes=changes, rules=RULES_VERSION)
        new = {device.name: name for device, name in zip(devices, names, strict=True)}
        renamed = [
            msgspec.structs.replace(
                device,
                name=new[device.name],
                modelled=modelled,
                peers=[msgspec.structs.replace(peer, name=new[peer.name]) for peer in device.peers],
            )
            for device in devices
        ]
        return [msgspec.structs.replace(host, name=f"{self.device_name}:cpu", modelled=modelled), *renamed]

    def own_devices(self) -> list[DeviceInfo]:
        """The host and the devices as discovery on the machine itself would name them."""
        _, device, host = self._parts
        described = device_info(device)
        names = [f"{described.kind}:{index}" for index in range(self.description.devices)]
        devices = [
            msgspec.structs.replace(
                described,
                name=name,
                facts={**described.facts, **self._facts("device")},
                peers=[peer_info(self.description.peer, other_name) for other_name in names if other_name != name],
            )
            for name in names
        ]
        cpu = device_info(host)
        return [msgspec.structs.replace(cpu, name=cpu.kind, facts={**cpu.facts, **self._facts("host")}), *devices]

    def _facts(self, owner: str) -> dict[str, Scalar]:
        """The facts of the device, the host or the machine that values state."""
        facts: dict[str, Scalar] = {}
        for value in self._parts[0].values():
            definition = parameter(value.name)
            for fact in definition.facts if definition else ():
                if fact.startswith(f"{owner}."):
                    facts[fact.partition(".")[2]] = _fact(value.content)
        return facts

    def machine(self) -> Machine:
        """The modelled machine, as its machine.json would have it. It was created at no time."""
        topics: dict[str, dict[str, Scalar]] = {}
        for name, fact in self._facts("machine").items():
            topic, _, key = name.partition(".")
            topics.setdefault(topic, {})[key] = fact
        return Machine(SCHEMA, self.device_name, "", __version__, topics, list(self.devices))


def _fact(content: Content) -> Scalar:
    if isinstance(content, Magnitude):
        return int(content.value) if float(content.value).is_integer() else content.value
    return content if isinstance(content, str | bool) else None


def load_platform(name: str) -> Platform:
    """A platform of the program by its name, or of a user's file by its path. Raises UsageError."""
    return Platform(name, describe(name))


def platform_of(device: str) -> Platform:
    """The platform that the name of a modelled device has: model:NAME, with @VALUE=... for each value that is changed,
    and with :cpu for the host or :1 for another device. Raises UsageError.
    """
    name, *changes = re.split(r"@(?=[a-z][a-z0-9._-]*=)", device.removeprefix(f"{MODEL}:"))
    last = changes or [name]
    last[-1] = re.sub(r":(cpu|[0-9]+)$", "", last[-1])
    return load_platform(name if changes else last[0]).changed(dict(change.split("=", 1) for change in changes))
