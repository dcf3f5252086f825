"""Machines that nobody here has, as platform files describe them, and what calls would plan on them.

    python tests/fabricated.py MACHINE < calls

prints one JSON object for each line of stdin, a call such as `firsttouch run latency --device hip:0`: see `Plan`.
A process plays one machine only: the sizes of its pages are read when firsttouch is imported.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import msgspec

from firsttouch.machine.switches import SWITCHES
from firsttouch.model.platform import load_platform
from firsttouch.records.schema import DeviceCapabilities, DeviceInfo, Peer

KIB, MIB, GIB = 2**10, 2**20, 2**30
HOST = DeviceCapabilities(
    on_host_processor=True, shares_host_memory=True, coherent_during_kernel=True, host_native_atomics=True
)
"""The capabilities of the device `cpu`."""


@dataclass(frozen=True)
class Machine:
    """host_bytes: of memory that a process may use. environment: variables that its administrator has set."""

    processors: int
    host_bytes: int
    devices: Sequence[DeviceInfo]
    base_page: int = 4 * KIB
    huge_page: int = 2 * MIB
    environment: Mapping[str, str] = field(default_factory=dict)


def gpu_capabilities(integrated: bool = False, **more: Any) -> DeviceCapabilities:
    """As native/device/gpu.hpp states them."""
    return DeviceCapabilities(
        runs_kernels=True,
        shares_host_memory=integrated,
        gpu_hierarchy=True,
        coherent_during_kernel=True,
        uncached_loads=True,
        device_scope_atomics=True,
        device_clock=True,
        reports_free_memory=True,
        time_class="gpu",
        **more,
    )


def _machine(
    name: str, changes: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Machine:
    """The machine of a platform file. environment: variables that are set there, which the file's switches know."""
    switches = {
        name: environment[switch.variable]
        for name, switch in SWITCHES.items()
        if environment and switch.variable in environment
    }
    platform = load_platform(name).changed(changes or {}).under(switches)
    processors, host_bytes, base_page, huge_page = (
        int(platform.quantity(f"host.{value}").value) for value in ("processors", "memory", "page", "huge_page")
    )
    return Machine(processors, host_bytes, platform.own_devices(), base_page, huge_page, environment or {})


def _h100_node(gpus: int) -> Machine:
    """H100 that reach each other over a switch of NVLink."""
    alone = _machine("h100-pcie")
    host, one = alone.devices
    names = [f"cuda:{index}" for index in range(gpus)]
    link: dict[str, Any] = {"access": "direct", "link": "NVLink switch", "peak_source": "NVML, 18 x NVLink"}
    link |= {"peak_in_gbs": 478.1, "peak_out_gbs": 478.1}
    facts = {**one.facts, "copies_between_devices": True}
    devices = [
        msgspec.structs.replace(
            one,
            name=name,
            facts={**facts, "uuid": f"GPU-0000000{index}"},
            peers=[Peer(name=other, **link) for other in names if other != name],
        )
        for index, name in enumerate(names)
    ]
    return Machine(96, 1800 * GIB, [host, *devices])


def _mi250x_node() -> Machine:
    """Four MI250X, whose eight dies are devices that reach each other's memory."""
    host, one = _machine("mi250x").devices
    names = [f"hip:{index}" for index in range(8)]
    link: dict[str, Any] = {"access": "direct", "link": "XGMI", "peak_source": "amdgpu, XGMI"}
    link |= {"peak_in_gbs": 50.0, "peak_out_gbs": 50.0}
    devices = [
        msgspec.structs.replace(one, name=name, peers=[Peer(name=other, **link) for other in names if other != name])
        for name in names
    ]
    return Machine(64, 480 * GIB, [host, *devices])


MACHINES: Mapping[str, Machine] = {
    "mi300a": _machine("mi300a"),
    "mi300a-xnack": _machine("mi300a", environment={"HSA_XNACK": "1"}),
    "mi300a-node": _machine("mi300a-node"),
    "h100-node": _h100_node(8),
    "mi250x-node": _mi250x_node(),
    "gh200": _machine("gh200", {"host.page": "4KiB"}),
    "gh200-64k": _machine("gh200"),
    "tk1": _machine("tk1"),
    "kaveri": _machine("kaveri", {"driver.release": "FGLRX"}),
    "kaveri-hsa": _machine("kaveri"),
    "pascal": _machine("intel-pascal"),
    "volta": _machine("intel-volta"),
    "power9": _machine("p9-volta"),
}
"""`kaveri-hsa`: as `kaveri`, with a driver whose kernels reach plain memory, as those of HSA do."""


# ------------------------------------------------------------------------------------------------- plans of calls


@dataclass
class Plan:
    """What a call would do. refusal: the sentence of a call that is refused, otherwise ''.

    measured, skipped: factors of the points with their experiment and device, an application's parameters, and how many
    processes there may be; a skipped one has a `reason` too. For
    `firsttouch methods --verify`, measured has each property of an allocator with its stated value.
    left_out: sentences about values of the call that are not measured. requested: the values of --set.
    """

    refusal: str = ""
    measured: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    requested: dict[str, list[Any]] = field(default_factory=dict)


class _Planned(Exception):
    """Ends a call when its plan is made."""


def _parameters(point: Any, experiments: Mapping[str, Any]) -> Mapping[str, int]:
    """Those of an application at a point; of an experiment, none."""
    application = experiments.get(str(point.factors.get("app")))
    with suppress(ValueError):  # none fit the size
        return application.params(point.factors) if application is not None else {}
    return {}


class _Calls:
    """Makes calls of the command line on a machine up to their plans."""

    def __init__(self, machine: Machine) -> None:
        from firsttouch import _core

        core: Any = _core
        core.page_sizes = lambda: (machine.base_page, machine.huge_page)
        core.usable_processors = lambda: machine.processors
        limits = {"host": machine.host_bytes} | dict.fromkeys(
            f"FIRSTTOUCH_MAX_{k}" for k in ("HOST", "DEVICE", "MANAGED")
        )
        core.guard_limits = lambda: limits
        os.environ.pop("HSA_XNACK", None)
        os.environ.update(machine.environment)

        from firsttouch.engine import discover, runner

        self.machine, self.plan, self._make_plan = machine, Plan(), runner.make_plan
        from firsttouch.engine import methods

        changed: Any = runner
        discovering: Any = discover
        verifying: Any = methods
        verifying.verified_cells = self._keep_cells
        changed.find_devices = discovering.find_devices = lambda names: list(machine.devices)
        changed.make_plan = self._keep_plan

    def _keep_plan(self, request: Any, devices: Any, experiments: Any, limits: Any, facts: Any, warn: Any) -> None:
        self.plan.requested = request.set
        for planned in self._make_plan(request, devices, experiments, limits, facts, self.plan.left_out.append):
            point = {"experiment": planned.point.experiment, "device": planned.point.device, **planned.point.factors}
            point = {**_parameters(planned.point, experiments), "processes": request.ranks or 1, **point}
            if planned.reason:
                self.plan.skipped.append(point | {"reason": planned.reason})
            else:
                self.plan.measured.append(point)
        raise _Planned

    def _keep_cells(self, devices: Any, on_cell: Any) -> None:
        from firsttouch.engine.methods import stated_cells

        self.plan.measured = [
            {"device": cell.device, "allocator": cell.allocator, "property": cell.property, "stated": cell.value}
            for device in devices
            for cell in stated_cells(device)
        ]
        raise _Planned

    def call(self, line: str) -> Plan:
        from firsttouch.base.errors import UsageError
        from firsttouch.cli.main import parser

        self.plan = Plan()
        words = shlex.split(line)
        variables = dict(word.split("=", 1) for word in words[: words.index("firsttouch")])
        before = dict(os.environ)
        os.environ.update(variables)
        try:
            parser()(words[words.index("firsttouch") + 1 :], prog_name="firsttouch", standalone_mode=False)
        except _Planned:
            pass
        except UsageError as error:
            self.plan.refusal = str(error)
        finally:
            os.environ.clear()
            os.environ.update(before)
        return self.plan


def main() -> None:
    calls = _Calls(MACHINES[sys.argv[1]])
    for line in sys.stdin:
        print(json.dumps(vars(calls.call(line))), flush=True)


if __name__ == "__main__":
    main()
