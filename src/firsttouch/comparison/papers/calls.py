"""The call that measures what a claim is tested on: as data, and as it is typed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from firsttouch.base.units import size_option
from firsttouch.comparison.papers.comparisons import sides_of, values_of
from firsttouch.comparison.papers.pooled import CONDITIONS
from firsttouch.machine.switches import SWITCHES
from firsttouch.records.papers.claims import Alike, Compare, PaperClaim, Trend, Untestable
from firsttouch.records.papers.rows import APPLICATIONS, is_bound, is_exception
from firsttouch.records.schema import PEER, DeviceInfo, Scalar, WorkKind
from firsttouch.records.text import is_size


@dataclass(frozen=True)
class PointsCall:
    """A call of `firsttouch run` or `app`.

    names: the experiment, or the applications. standard: whether the preset standard chooses values. options: further
    words of the call, as they are typed.
    """

    kind: WorkKind
    names: Sequence[str]
    devices: Sequence[str]
    sets: Mapping[str, Sequence[Scalar]]
    standard: bool = False
    exceeds_memory: bool = False
    repeated: bool = False
    options: str = ""

    @property
    def text(self) -> str:
        """The call as it is typed."""
        sets, devices = dict(self.sets), [f"--device {name}" for name in self.devices]
        if self.kind == "app":
            words = ["app", *self.names, *devices]
            words += [f"--strategy {name}" for name in sets.pop("strategy", [])]
            words += ["--size oversubscribed --allow-oversubscription"] if self.exceeds_memory else []
            words += ["--repeat 3"] if self.repeated else []
        else:
            words = ["run", *self.names, *devices, *(["--preset standard"] if self.standard else [])]
        words += [
            f"--set {name}={','.join(_as_argument(name, v) for v in factor_values)}"
            for name, factor_values in sets.items()
        ]
        return " ".join(["firsttouch", *words, *filter(None, [self.options])])


def call_of(
    claim: PaperClaim, device: DeviceInfo, gpus: Sequence[DeviceInfo], hosts: Sequence[DeviceInfo]
) -> PointsCall:
    """The call that measures a claim's points on a device. Where a side leaves a factor open, the preset chooses its
    values.

    gpus, hosts: those of the machine.
    """
    test = claim.test
    assert not isinstance(test, Untestable)
    allocator_names = {a.name for owner in (device, *hosts) for a in owner.allocators}
    values: dict[str, list[Scalar]] = {}
    open_factors = set(test.first.keys() ^ test.second.keys()) if isinstance(test, Compare) else set()
    for side in sides_of(test):
        for name, accepted in side.factors.items():
            factor_values = values_of(accepted)
            open_factors |= {name} if any(is_bound(v) or is_exception(v) for v in factor_values) else set()
            usable = [
                v
                for v in factor_values
                if v is not None and (name != "allocator" or not allocator_names or v in allocator_names)
            ]
            listed = values.setdefault(name, [])
            listed += [v for v in usable if v not in listed]
    if isinstance(test, Alike | Trend) and (switch := SWITCHES.get(test.over)) is not None:
        values.setdefault(test.over, [*switch.values])
    optional = [name for name, accepted in test.where.items() if isinstance(accepted, list) and None in accepted]
    for name in {*open_factors, *optional, *(CONDITIONS.keys() & values.keys())}:
        del values[name]
    is_application = test.experiment == APPLICATIONS
    plain = [] if is_application else _memory_owners(values, hosts)
    device_names = [gpu.name for gpu in gpus if gpu.kind == device.kind] if PEER in open_factors else [device.name]
    return PointsCall(
        kind="app" if is_application else "run",
        names=[*map(str, values.pop("app", []))] if is_application else [test.experiment],
        devices=[*dict.fromkeys([*plain, *device_names])],
        sets=values,
        standard=bool(open_factors),
        exceeds_memory=test.exceeds_memory,
        repeated=is_application and not test.exact,
        options=claim.options,
    )


def _memory_owners(values: Mapping[str, Collection[Scalar]], hosts: Sequence[DeviceInfo]) -> list[str]:
    """The hosts whose memory is among that of the points, if a CPU may act."""
    owners = [h.name for h in hosts if any(h.allocator(str(a)) is not None for a in values.get("allocator", []))]
    return owners if "cpu" in values.get("agent", ["cpu"]) else []


def _as_argument(name: str, value: Scalar) -> str:
    """A factor's value as --set takes it."""
    return size_option(value) if is_size(name) and type(value) is int else str(value)
