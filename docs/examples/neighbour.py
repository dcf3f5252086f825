"""An experiment with two devices: firsttouch run neighbour --module docs/examples/neighbour.py"""

from firsttouch.api import (
    Claim,
    Experiment,
    Factor,
    KiB,
    Line,
    Measurement,
    Metric,
    MiB,
    Planning,
    Unsupported,
    buffer_fact,
    finding,
    main_allocator,
    peer,
    probes,
    unavailable,
    unreachable_peer,
)


class Neighbour(Experiment):
    """Copies to and from another device's memory, queued by the device that acts."""

    name = "neighbour"
    question = "How fast do bytes move between two devices?"
    metric = Metric("GB/s", "higher")
    counted = "Every byte copied counts once. The device queues the copies and times them on its own clock."
    source = "an example"
    figures = (Line(x="size", colour="peer", dash="device", facet="direction", log_x=True, y_title="bandwidth"),)
    planning = Planning(share=0.5)
    across_devices = True  # the report has one section for all devices

    def factors(self, device, preset):
        if not device.capabilities.runs_kernels:
            raise Unsupported(f"{device.name} runs no kernels")
        sizes = [64 * KiB, MiB, 16 * MiB] if preset == "quick" else [64 * KiB << k for k in range(12)]
        directions = ("to", "from")
        return [
            peer(device, itself=True),
            Factor("direction", directions, doc="to the peer's memory or from it"),
            Factor("size", sizes, "size"),
        ]

    def skip(self, factors, device):
        return unavailable(device, main_allocator(device)) or unreachable_peer(device, factors.text("peer"))

    def measure(self, point, session):
        name, size = point.text("peer"), point.size("size")
        device, peer_device = session.device, session.peer(name)
        device.reach(peer_device)  # enables access, or raises Unavailable with the driver's message
        with (
            device.allocate(main_allocator(session.info), size) as own,
            peer_device.allocate(main_allocator(session.peer_info(name)), size) as far,
        ):
            source, target = (own, far) if point["direction"] == "to" else (far, own)
            outcome = probes.copy(
                device, target, source, engine="copy-engine", bytes=size, seed=session.seed, stop=session.stop()
            )
            return Measurement.of(outcome, buffers=[buffer_fact("source", source), buffer_fact("target", target)])

    def findings(self, records, device):
        largest = max(r.count("size") for r in records)
        best = max((r for r in records if r.count("size") == largest), key=lambda r: r.summary.median)
        text = "Fastest: {value} on {device}, {direction} the memory of {peer}, {size} at a time"
        return [finding(Claim("neighbour.fastest", text), best)]
