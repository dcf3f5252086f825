"""What compilers make of an operation on a device of a modelled machine: what they made of it for that target, read
elsewhere.

No model tells what a compiler does. But for a target that a compiler knows, it makes the same code on every machine.
The recorded code is that of the compilers named with it, and others may do otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import msgspec

from firsttouch.base.errors import NotModelled
from firsttouch.model.micro.answers import Answer
from firsttouch.model.platform import Platform
from firsttouch.records.schema import DeviceInfo, Scalar

FILE = files("firsttouch.model") / "data" / "code.json"
ARCHITECTURE = "host.architecture"


class MadeOperation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a compiler made of an operation, as `codegen` records it. instructions: how many its kernel has."""

    instructions: int
    made: str
    instruction: str
    read_from: str


class TargetCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a compiler made of each operation for a target. source: the directory of the records."""

    compiler: str
    source: str
    operations: dict[str, MadeOperation]


@cache
def recorded_code() -> Mapping[str, TargetCode]:
    """By target: the code that was read (data/code.json, made by evidence/recompute/code.py)."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, TargetCode])


def code(platform: Platform, device: DeviceInfo, operation: str) -> Answer:
    """The number of instructions, with what was made of an operation as counters.

    Raises:
        NotModelled: the file does not say which instructions the device has, or no code for these was read.
    """
    target = _target(platform, device)
    recorded = recorded_code().get(target)
    if recorded is None or operation not in recorded.operations:
        raise NotModelled(f"what compilers make for {target}")
    made = recorded.operations[operation]
    counters: dict[str, Scalar] = {
        "made": made.made,
        "instruction": made.instruction,
        "read_from": f"{made.read_from}, for {target}",
        "compiler": recorded.compiler,
    }
    return Answer(made.instructions, made.instructions, made.instructions, counters)


def _target(platform: Platform, device: DeviceInfo) -> str:
    """A device's instruction set, by the name that compilers have for it."""
    if device.role == "host":
        return platform.word(ARCHITECTURE)
    if isinstance(architecture := device.facts.get("arch"), str):
        return architecture.partition(":")[0]
    if isinstance(capability := device.facts.get("compute_capability"), str):
        return f"sm_{capability.replace('.', '')}"
    raise NotModelled("code for a device whose instruction set is not stated")
