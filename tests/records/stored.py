"""Records, machines and requests for tests of what is stored."""

from __future__ import annotations

import socket
from pathlib import Path

from firsttouch.records.schema import SCHEMA, Machine, Record, Request
from firsttouch.records.store import Store

MACHINE_HERE = Machine(schema=SCHEMA, host=socket.gethostname(), created="now", firsttouch="0")
REQUEST = Request(schema=SCHEMA, experiments=["steady"], devices=["cpu"], preset="quick", seed=1)


def a_record(n: int, **more: object) -> Record:
    fields = {"schema": SCHEMA, "experiment": "steady", "device": "cpu", "factors": {"n": n}, "unit": "ns"}
    return Record(**(fields | {"status": "ok", "samples": [1.0]} | more))  # type: ignore[arg-type]


def fill(directory: Path, *records: Record) -> Path:
    """A results directory with these records."""
    with Store(directory, resume=False) as store:
        store.describe(MACHINE_HERE, REQUEST)
        for record in records:
            store.append(record)
    return directory
