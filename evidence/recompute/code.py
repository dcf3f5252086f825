"""Writes src/firsttouch/model/data/code.json: what compilers make for targets, from the records of `codegen`.

python evidence/recompute/code.py            rewrites it
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from firsttouch.model.micro.code import FILE, MadeOperation, TargetCode
from firsttouch.records.schema import Record
from records import directory

GPUS, HOSTS = "code-for-gpus", ("code-x86-64",)


def target_code(records: list[Record], compiler: str, source: str) -> TargetCode:
    made = {
        r.text("operation"): MadeOperation(
            instructions=int(r.samples[0]),
            made=str(r.counters["made"]),
            instruction=str(r.counters["instruction"]),
            read_from=str(r.counters["read_from"]),
        )
        for r in records
    }
    return TargetCode(compiler=compiler, source=source, operations=made)


def made() -> dict[str, TargetCode]:
    """By target: the code of the host's core that the records of a machine have, and that for GPUs."""
    targets: dict[str, TargetCode] = {}
    for name in HOSTS:
        of_host = directory(name)
        architecture = str(of_host.results.machine.facts["kernel"]["architecture"])
        records = [r for r in of_host.records if r.status == "ok"]
        targets[architecture] = target_code(records, "the compiler of firsttouch's wheel", name)
    of_gpus = [r for r in directory(GPUS).records if r.status == "ok"]
    for target in dict.fromkeys(r.text("target") for r in of_gpus):
        same = [r for r in of_gpus if r.text("target") == target]
        targets[target] = target_code(same, str(same[0].counters["compiler"]), GPUS)
    return targets


def generated() -> bytes:
    return msgspec.json.format(msgspec.json.encode(made()), indent=1) + b"\n"


if __name__ == "__main__":
    Path(str(FILE)).write_bytes(generated())
