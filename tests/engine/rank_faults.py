"""A point of several ranks in which one of them misbehaves, loaded by --module."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from faults import FAULTS, GOOD, _Plain

from firsttouch.experiments.collective import devices_of
from firsttouch.experiments.contract.base import Experiment, Factor, Measurement, Point, RankRules
from firsttouch.workers.session import Session


def _with(library: str) -> bool:
    """Read anew each time, because one process of the tests makes calls with each library."""
    return bool(os.environ.get(f"RANKS_WITH_{library}"))


class RankFault(_Plain, Experiment):
    name = "rank-fault"
    order = 910
    question = "What becomes of the other ranks?"

    def factors(self, device, preset):
        return [
            Factor("what", ["fine"], choices=list(FAULTS)),
            Factor("who", [1], kind="count"),
            Factor("ranks", [], kind="count", least=1),
            Factor("again", [0], kind="count"),
        ]

    def _places(factors, device):
        return devices_of(device)[: factors["ranks"]] if _with("XCCL") else [device.name] * factors["ranks"]

    ranks = RankRules(places=_places, least=1, takes_mpi=lambda factors: _with("MPI"))

    def measure(self, point: Point, session: Session) -> Measurement:
        if log := os.environ.get("RANKS_LOG"):
            with Path(log).open("a") as file:
                file.write(f"{point['again']} {session.rank} {os.getpid()}\n")
        if _with("MPI") or _with("XCCL"):
            comm = session.xccl if _with("XCCL") else session.mpi
            assert (comm.rank, comm.size) == (session.rank, session.ranks)
        if session.rank == point["who"]:
            return FAULTS[point.text("what")](session)
        if point["what"] not in ("fine", "flip"):
            time.sleep(10**6)  # for a message that never comes
        time.sleep(float(os.environ.get("RANKS_SECONDS", "0")))
        return Measurement(GOOD if session.rank == 0 else [], True, counters={"ranks_seen": session.ranks})
