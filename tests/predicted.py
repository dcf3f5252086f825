"""A results directory as a platform would have predicted it: the records of a run, of the devices of that platform."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from firsttouch.records.reading import Results, load_results
from firsttouch.records.schema import PEER, DeviceInfo, Modelled, Record, encode

MODELLED = Modelled(platform="h200-pcie", digest="0123456789abcdef", changes={}, rules=1)


def write_predicted(
    measured: Path, out: Path, modelled: Modelled = MODELLED, experiments: Collection[str] = (), every: int = 1
) -> Path:
    """Writes the records and the machine of a run to `out`, and returns it. experiments: those to keep; all if none.
    every: of their records, each n-th is kept.
    """
    results = load_results(measured)
    results.machine.devices = [d for d in results.machine.devices if d.available and d.role != "processor"]
    known = {device.name for device in results.machine.devices}
    results.records = [record for record in results.records if record.device in known]
    names = _names(results, modelled)
    machine = replace(
        results.machine,
        host=modelled.platform,
        devices=[_device(device, names, modelled) for device in results.machine.devices],
        libraries=[],
    )
    kept = [r for r in results.records if not experiments or r.experiment in experiments][::every]
    records = [_record(record, names, modelled) for record in kept]
    out.mkdir(parents=True)
    (out / "machine.json").write_bytes(encode(machine))
    (out / "results.jsonl").write_bytes(b"".join(encode(record) + b"\n" for record in records))
    if results.request is not None:
        request = replace(results.request, devices=[names[name] for name in results.request.devices if name in names])
        (out / "run.json").write_bytes(encode(request))
    return out


def _names(results: Results, modelled: Modelled) -> dict[str, str]:
    """The names of the platform's devices, by those of the run."""
    first = f"model:{modelled.platform}"
    gpus = [device.name for device in results.machine.devices if device.role == "gpu"]
    names = {name: first if i == 0 else f"{first}:{i}" for i, name in enumerate(gpus)}
    return {device.name: names.get(device.name, f"{first}:cpu") for device in results.machine.devices}


def _device(device: DeviceInfo, names: dict[str, str], modelled: Modelled) -> DeviceInfo:
    peers = [replace(peer, name=names.get(peer.name, peer.name)) for peer in device.peers]
    return replace(device, name=names[device.name], peers=peers, modelled=modelled)


def _record(record: Record, names: dict[str, str], modelled: Modelled) -> Record:
    changes: dict[str, Any] = {}
    if record.summary is not None:
        changes = {"samples": [record.summary.median], "summary": replace(record.summary, n=1), "verified": None}
        changes["verified_why"] = "predicted"
    factors = {n: names.get(str(v), v) if n in (PEER, "owner") else v for n, v in record.factors.items()}
    return replace(
        record,
        device=names[record.device],
        factors=factors,
        parties=[],
        stands_for=[],
        others_share=None,
        clocks_before=None,
        clocks_after=None,
        throttled=None,
        started="",
        seconds=0.0,
        modelled=modelled,
        **changes,
    )
