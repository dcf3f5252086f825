"""Values of modelled machines that a call changes: --what-if NAME=VALUE,VALUE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from firsttouch.base.errors import UsageError
from firsttouch.machine.backends import MODEL, is_modelled
from firsttouch.model.parameters import KERNELS
from firsttouch.model.platform import platform_of

OPTION = "--what-if"


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
    """The devices of a call, and each modelled one again with every single change: machines that differ in one value.

    A value that a machine has anyway makes no other. Raises UsageError.
    """
    pairs = parsed_changes(texts)
    if not pairs:
        return list(devices)
    modelled = [device for device in devices if is_modelled(device)]
    if not modelled:
        raise UsageError(f"{OPTION} changes a modelled machine; name one, such as --device {MODEL}:gh200")
    machines = list(devices)
    for device in modelled:
        base = platform_of(device)
        end = device.removeprefix(base.device_name)
        for name, text in pairs:
            changed = base.changed({name: text})
            if not base.same_value(changed, name):
                machines.append(f"{changed.device_name}{end}")
    return list(dict.fromkeys(machines))


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
