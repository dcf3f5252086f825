"""An experiment of your own: firsttouch run stride --module docs/examples/stride.py --device cpu"""

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
    agents,
    buffer_fact,
    compare_medians,
    extremes,
    finding,
    main_allocator,
    probes,
    unreachable,
)

SLOWEST = Claim(
    "stride.slowest",
    "one load every {stride} takes the {agent} {value}, {ratio} times as long as every {other_stride}",
)


class Stride(Experiment):
    """Dependent loads, one every `stride` bytes of a 64 MiB buffer."""

    name = "stride"
    question = "Does the distance between two loads matter?"
    metric = Metric("ns", "lower")
    counted = "One dependent load of a random cycle over 64 MiB with one node every `stride` bytes."
    source = "an example"
    figures = (Line(x="stride", colour="agent", log_x=True, y_title="time per load"),)
    planning = Planning(share=0.2)

    def factors(self, device, preset):
        strides = [64, 256, KiB, 4 * KiB] if preset == "quick" else [64 << k for k in range(9)]
        return [Factor("agent", agents(device)), Factor("stride", strides, "size")]

    def skip(self, factors, device):
        return unreachable(device, main_allocator(device), factors["agent"])

    def measure(self, point, session):
        agent, device = point["agent"], session.device
        with device.allocate(main_allocator(session.info), 64 * MiB) as buffer:
            outcome = probes.chase(
                device,
                buffer,
                agent=agent,
                first_touch=agent,
                stride=point["stride"],
                seed=session.seed,
                stop=session.stop(),
            )
            return Measurement.of(outcome, buffers=[buffer_fact("chase", buffer)])

    def findings(self, records, device):
        fastest, slowest = extremes(records)
        comparison = compare_medians(slowest, fastest)
        return [finding(SLOWEST, slowest, comparison=comparison)] if comparison.is_clear else []
