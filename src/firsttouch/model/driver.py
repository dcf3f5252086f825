"""Which driver a measured machine has, as the values of a platform name it."""

from __future__ import annotations

from collections.abc import Mapping

from firsttouch.records.schema import Machine

_RELEASES: Mapping[str, tuple[str, str]] = {"uvm": ("nvidia", "driver"), "kfd": ("amd", "driver")}
"""The fact of the machine that is the release of each family of drivers."""


def driver_of(machine: Machine) -> tuple[str, str]:
    """The family and the release of the driver of a machine's GPUs; '' and '' if the machine does not state them."""
    releases = {family: machine.facts.get(topic, {}).get(name) for family, (topic, name) in _RELEASES.items()}
    return next(((family, str(release)) for family, release in releases.items() if release), ("", ""))
