"""A point that several ranks carry out together: their limits, and one record of what each of them found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from firsttouch.engine.filling import blank_record
from firsttouch.engine.job import Job
from firsttouch.engine.planned import Planned
from firsttouch.machine.backends import HOST
from firsttouch.machine.limits import VARIABLES, environment_limits, host_limit
from firsttouch.machine.tree import parse_ids
from firsttouch.records.schema import SHARED, DeviceInfo, Party, Record, Scalar
from firsttouch.workers.process import TaskResult
from firsttouch.workers.protocol import Reply, one_line
from firsttouch.workers.ranks import Launcher, Ranks


class RankedWorker:
    """The ranks of a group of points, behind the interface of a worker."""

    def __init__(self, devices: Sequence[DeviceInfo], launcher: Launcher, environment: Mapping[str, str], slack: int):
        """slack: bytes of host memory that each may use beyond the guard's limit. Raises OSError."""
        limits = divided_limits(devices)
        memory = int(limits[VARIABLES[0]]) + slack
        self._ranks = Ranks(len(devices), launcher, {**environment, **limits}, memory)
        self.alive, self.stop, self.kill = self._ranks.alive, self._ranks.stop, self._ranks.kill

    def ask(self, job: Job, *, timeout: float, memory: int | None = None) -> TaskResult:
        """Measure a point. The limit of memory is that of the group's start."""
        names = [device.name for device in job.planned.ranks]
        result = self._ranks.ask(job.of_rank, timeout=timeout, names=names)
        if result.outcome == "done":
            return replace(result, reply=Reply(state="done", record=combined(job.planned, result.replies)))
        return result


def divided_limits(devices: Sequence[DeviceInfo]) -> dict[str, str]:
    """The guard's limits for each rank: of host memory by all ranks, of device memory by those on one device."""
    host, device, managed = VARIABLES
    set_limits, on_one = environment_limits(), Counter(d.name for d in devices if d.capabilities.runs_kernels)
    most = max(on_one.values(), default=1)
    totals = [total for d in devices if isinstance(total := d.facts.get("memory_bytes"), int) and total > 0]
    limits = {host: host_limit() // len(devices)}
    if totals:
        limits[device] = min([*totals, set_limits.get(device, totals[0])]) // most
    if managed in set_limits:
        limits[managed] = set_limits[managed] // most
    return {name: str(limit) for name, limit in limits.items()}


def combined(planned: Planned, replies: Sequence[Reply | None]) -> Record:
    """One record of all ranks: samples and counters of rank 0, verified if all are, and every rank as a party. If the
    point ended early for a rank, the record has its status and its reason, with the rank's name.
    """
    records = {rank: reply.record for rank, reply in enumerate(replies) if reply is not None and reply.record}
    parties = [party for record in records.values() for party in record.parties]
    if early := {rank: record for rank, record in records.items() if record.status != "ok"}:
        rank, first = next(iter(early.items()))
        rank_prefix = "" if len(early) == len(replies) else f"rank {rank} ({_rank_name(planned, first, rank)}): "
        ended = blank_record(planned, first.status, rank_prefix + first.reason)
        return msgspec.structs.replace(ended, parties=parties, seconds=first.seconds, started=first.started)
    wrong = {rank: record for rank, record in records.items() if record.verified is False}
    reason = "; ".join(
        f"rank {rank} ({_rank_name(planned, record, rank)}) received wrong data" for rank, record in wrong.items()
    ) or records[0].verified_why  # fmt: skip
    return msgspec.structs.replace(
        records[0],
        parties=parties,
        verified=False if wrong else records[0].verified,
        verified_why=one_line(reason),
        seconds=max(record.seconds for record in records.values()),
        throttled=_any_known(record.throttled for record in records.values()),
        counters={**records[0].counters, **shared(parties)},
    )


def _rank_name(planned: Planned, record: Record, rank: int) -> str:
    host = record.parties[0].host if record.parties else ""
    return f"{planned.ranks[rank].name}{f' at {host}' if host else ''}"


def _any_known(values: Iterable[bool | None]) -> bool | None:
    known_values = [value for value in values if value is not None]
    return any(known_values) if known_values else None


def shared(parties: Sequence[Party]) -> dict[str, Scalar]:
    """The counter with what several ranks have in common, in words; nothing if each has its own."""
    at: Mapping[str, Callable[[Party], Sequence[object]]] = {
        "device": lambda party: [] if party.device == HOST else [party.device],
        "processor": lambda party: parse_ids(party.processors),
        "NUMA node": lambda party: [] if party.numa_node is None else [party.numa_node],
    }
    words = [
        resource_kind
        for resource_kind, resources_of in at.items()
        if max(Counter((p.host, resource) for p in parties for resource in resources_of(p)).values(), default=0) > 1
    ]
    return {SHARED: ", ".join(words)} if words else {}
