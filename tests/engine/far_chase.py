"""An experiment outside the package: one device loads from the memory of another."""

from firsttouch.api import (
    Experiment,
    Factor,
    KiB,
    Line,
    Measurement,
    Metric,
    Unsupported,
    main_allocator,
    peer,
    probes,
    unreachable_peer,
)


class FarChase(Experiment):
    name = "far-chase"
    question = "How long does a load from another device's memory take?"
    metric = Metric("ns", "lower")
    counted = "One dependent load."
    source = "a test"
    figures = (Line(x="size", colour="peer"),)

    def factors(self, device, preset):
        if not device.capabilities.runs_kernels:
            raise Unsupported(f"{device.name} runs no kernels")
        return [peer(device), Factor("size", [64 * KiB, 128 * KiB], "size")]

    def skip(self, factors, device):
        return unreachable_peer(device, factors.text("peer"))

    def measure(self, point, session):
        device, other = session.device, session.peer(point.text("peer"))
        device.reach(other)
        with other.allocate(main_allocator(session.peer_info(other.name)), point.size("size")) as far:
            outcome = probes.chase(
                device, far, agent="gpu", first_touch="gpu", stride=64, hops=1000, seed=1, stop=session.stop()
            )
            return Measurement.of(outcome, counters={"owner": far.device})

    def findings(self, records, device):
        return []
