"""The lines of a results.jsonl as plain data, and prices of 1 GiB that follow from them, without the code of advice."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

Row = dict[str, Any]


class Lines:
    """The lines of a results.jsonl whose data are right."""

    def __init__(self, directory: Path) -> None:
        self.directory, rows = directory, dict[str, Row]()
        for line in (directory / "results.jsonl").read_text().splitlines():
            row = json.loads(line)
            rows[json.dumps([row["experiment"], row["device"], row["factors"]], sort_keys=True)] = row
        self.rows = [
            r for r in rows.values()
            if r["status"] == "ok" and r["verified"] is not False and not r.get("suspect") and not r.get("parties")
        ]  # fmt: skip
        machine = json.loads((directory / "machine.json").read_text())
        self.facts = machine["facts"]
        self.gpu = "cuda:0" if any(d["name"] == "cuda:0" for d in machine["devices"]) else "opencl:0"

    def find(self, experiment: str, device: str = "", **factors: object) -> list[Row]:
        return [
            r for r in self.rows
            if r["experiment"] == experiment and device in ("", r["device"])
            and all(r["factors"].get(name) == value for name, value in factors.items())
        ]  # fmt: skip

    def largest(self, experiment: str, device: str = "", **factors: object) -> list[Row]:
        rows = self.find(experiment, device, **factors)
        return [r for r in rows if r["factors"]["size"] == max(r["factors"]["size"] for r in rows)]

    @cache  # noqa: B019
    def apps(self) -> dict[tuple[str, object], dict[str, Row]]:
        """The runs of each application by strategy, where there are several."""
        found: dict[tuple[str, object], dict[str, Row]] = {}
        for r in self.find("app"):
            f = r["factors"]
            if f.get("events", "off") == "off":
                found.setdefault((f["app"], f["size"]), {})[f["strategy"]] = r
        return {group: rows for group, rows in found.items() if len(rows) > 1}

    def runs(self) -> dict[str, Row]:
        return {f"{group} {name}": r for group, rows in self.apps().items() for name, r in rows.items()}

    # prices in ns, of 1 GiB

    def pages(self, page_size: str) -> int:
        """The most pages that all threads touched."""
        rows = self.find("pagefault", "cpu", scenario="cpu", access="store", threads=0, page_size=page_size)
        return max(int(r["factors"]["pages"]) for r in rows)

    def touch(self, threads: int, page_size: str = "base") -> float:
        rows = self.find("pagefault", "cpu", scenario="cpu", access="store", threads=threads, page_size=page_size)
        row = max(rows, key=lambda r: r["factors"]["pages"])
        return mid(row) / row["counters"]["page_bytes"] * 2**30

    def copy(self, direction: str, allocator: str) -> float:
        (row,) = self.largest("transfer", self.gpu, direction=direction, allocator=allocator, engine="copy-engine",
                              streams=1, chunk=0)  # fmt: skip
        return 2**30 / mid(row)

    def call(self, call: str, allocator: str) -> float:
        rows = self.largest("allocation", self.gpu, call=call, allocator=allocator)
        return mid(rows[-1]) / rows[-1]["factors"]["size"] * 2**30

    def freed(self, device: str, allocator: str) -> float | None:
        """Freeing what the CPU has touched, or None in older runs."""
        rows = self.find("allocation", device, call="free-cpu-touched", allocator=allocator)
        return mid(rows[0]) / rows[0]["factors"]["size"] * 2**30 if rows else None

    def passes(self, **factors: object) -> list[Row]:
        given = {"touch": "dense", "order": "parallel", "advice": "none", "prefetch": "none", "starts_on": "cpu",
                 "events": "off", **factors}  # fmt: skip
        return [r for r in self.find("migration", self.gpu, **given) if "ratio" not in r["factors"]]

    def moved(self, time: Callable[[Row], float], **factors: object) -> float:
        """The median of a time in ms, as ns of 1 GiB, over the points in managed memory."""
        rows = self.passes(allocator="managed", **factors)
        return median(time(r) * 1e6 / r["factors"]["size"] for r in rows) * 2**30

    def beyond(self, counter: str) -> Callable[[Row], float]:
        """A counter less what it is in page-locked memory, whose pages stay."""
        present: dict[int, float] = {}
        for r in [*self.passes(allocator="pinned"), *self.passes(allocator="registered")]:
            present.setdefault(r["factors"]["size"], r["counters"][counter] / r["factors"]["size"])
        middle = median(present.values())

        def time(row: Row) -> float:
            size = row["factors"]["size"]
            return float(row["counters"][counter]) - size * present.get(size, middle)

        return time

    def faults(self) -> float:
        def time(r: Row) -> float:
            return float(
                r["counters"]["iteration_0_ms"] - r["counters"][f"iteration_{r['factors']['iterations'] - 1}_ms"]
            )

        return self.moved(time, operation="update")

    def prefetch(self) -> float:
        return self.moved(lambda r: float(r["counters"]["prefetch_ms"]), prefetch="whole")

    def adds(self, strategy: str) -> float:
        """What a strategy adds to 1 GiB that the CPU writes, kernels update and the CPU reads back."""
        if strategy in ("explicit", "explicit+pinned"):
            host = "malloc" if strategy == "explicit" else "pinned"
            copies = self.copy("h2d", host) + self.copy("d2h", host)
            if self.gpu != "cuda:0":
                return self.touch(0) + copies + self.touch(1)
            own = self.call("allocate", "device") + self.call("free", "device")
            if host == "pinned":
                return copies + own + self.call("allocate", host) + self.call("free", host)
            freed = self.freed("cpu", host)
            return self.touch(0) + copies + own + (self.call("free", "registered") / 2 if freed is None else freed)
        if strategy == "pinned":
            assert self.gpu == "opencl:0"
            return self.touch(0)
        read = (
            self.beyond("cpu_read_ms")
            if strategy == "managed+prefetch"
            else lambda r: float(r["counters"]["cpu_read_ms"])
        )
        back = self.moved(read, operation="update")  # one byte of each page, which takes no time where pages stay
        moved = {"managed": self.faults, "managed+prefetch": self.prefetch}[strategy]()
        if strategy == "managed+prefetch" and self.passes(allocator="managed", prefetch="back"):
            back = self.moved(lambda r: float(r["counters"]["prefetch_back_ms"]), prefetch="back")
        first = self.moved(self.beyond("initialise_ms"))
        return first + moved + back + (self.freed(self.gpu, "managed") or 0)


def mid(row: Row) -> float:
    return float(row["summary"]["median"])


def interval(row: Row) -> tuple[float, float]:
    return row["summary"]["ci_low"], row["summary"]["ci_high"]
