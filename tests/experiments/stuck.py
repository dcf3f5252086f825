"""The experiment locking with a competitor that never releases the lock. Loaded as a module outside the package."""

from __future__ import annotations

from firsttouch import _core
from firsttouch.experiments import locking
from firsttouch.experiments.contract.base import Measurement, Point
from firsttouch.workers.session import Session


class Stuck(locking.Locking):
    name = "stuck"

    def measure(self, point: Point, session: Session) -> Measurement:
        rivals = point["rivals"]
        with session.device.allocate(str(point["allocator"]), 4096) as region:
            outcome = _core.locking(
                session.device,
                region,
                cpu_threads=int(rivals == "cpu"),
                gpu_groups=int(rivals == "gpu"),
                sections=100,
                livelock_seconds=0.2,
                block_lock=True,
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement(outcome.samples, outcome.errors == 0)
