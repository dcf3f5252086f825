"""Values of modelled machines that a call changes: --what-if NAME=VALUE,VALUE."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

from firsttouch.base.errors import UsageError
from firsttouch.machine.backends import MODEL, is_modelled
from firsttouch.model.parameters import KERNELS
from firsttouch.model.platform import Platform, platform_of

OPTION = "--what-if"
MOST_MACHINES = 256
"""The most machines that the values of one call make."""


def parsed_changes(texts: Iterable[str]) -> list[tuple[str, str]]:
    """The pairs of a name and a value that options state. Raises UsageError."""
    pairs: dict[tuple[str, str], None] = {}
    for text in texts:
        name, equals, values = text.partition("=")
        words = [word.strip() for word in values.split(",")]
        if not (equals and name.strip() and all(words)):
            raise UsageError(f"{OPTION} '{text}' is not NAME=VALUE, such as host.page=4KiB or host.page=4KiB,64KiB")
        pairs |= {(name.strip(), word): None for word in words}
    return list(pairs)


def single_changes(name: str | None, texts: Sequence[str]) -> dict[str, str]:
    """The changes of one platform, of which each value has one. Raises UsageError."""
    pairs = parsed_changes(texts)
    if pairs and name is None:
        raise UsageError(f"{OPTION} changes one platform; name it, as in firsttouch platforms gh200 {OPTION} ...")
    changes = dict(pairs)
    for changed in changes:
        if sum(each == changed for each, _ in pairs) > 1:
            raise UsageError(f"{OPTION} states two values for {changed}; a listing shows one machine, so give one")
    return changes


def with_changes(devices: Sequence[str], texts: Sequence[str]) -> list[str]:
    """The devices of a call, and each modelled one again with every combination of the values of those that change.

    A value that a machine has anyway is no change. Raises UsageError.
    """
    values: dict[str, list[str]] = {}
    for name, text in parsed_changes(texts):
        values.setdefault(name, []).append(text)
    if not values:
        return list(devices)
    modelled = [device for device in devices if is_modelled(device)]
    if not modelled:
        raise UsageError(f"{OPTION} changes a modelled machine; name one, such as --device {MODEL}:gh200")
    if (machines := math.prod(map(len, values.values())) * len(modelled)) > MOST_MACHINES:
        raise UsageError(f"{OPTION}: the values combine to {machines:,} machines; at most {MOST_MACHINES} are accepted")
    names = list(devices)
    for device in modelled:
        base = platform_of(device)
        end = device.removeprefix(base.device_name)
        for combination in itertools.product(*values.values()):
            changed = _without_effectless(base, dict(zip(values, combination, strict=True)))
            names.append(f"{changed.device_name}{end}")
    return list(dict.fromkeys(names))


def _without_effectless(base: Platform, changes: Mapping[str, str]) -> Platform:
    """A platform with those changes that give it another value than it has with the others."""
    changed = base.changed(changes)
    for name in changes:
        other = base.changed({n: text for n, text in changes.items() if n != name})
        if other.same_value(changed, name):
            return _without_effectless(base, {n: text for n, text in changes.items() if n != name})
    return changed


def with_kernels(devices: Sequence[str], directory: str | None) -> list[str]:
    """The devices of a call, for which one's own runs say what kernels take. Raises UsageError."""
    if directory is None:
        return list(devices)
    from firsttouch.model.kernel_records import own_runs

    if not any(map(is_modelled, devices)):
        raise UsageError(f"--kernels is for predictions; name a modelled machine, such as --device {MODEL}:gh200")
    own_runs(directory)
    machines = []
    for device in devices:
        if is_modelled(device):
            base = platform_of(device)
            end, device = device.removeprefix(base.device_name), base.changed({KERNELS: directory}).device_name
            device += end
            if platform_of(device).word(KERNELS) != directory:
                raise UsageError(f"the name of a device cannot hold --kernels {directory}; rename the directory")
        machines.append(device)
    return machines
