"""What the port programs share: three forms, how a form is run and checked, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from firsttouch.apps.port_programs.parts import Parts, unified_memory
from firsttouch.base.errors import Unsupported
from firsttouch.experiments.contract.base import Experiment, Factor, Measurement, Planning, Point
from firsttouch.experiments.contract.common import KiB, MiB, buffer_fact
from firsttouch.experiments.contract.rules import Preset
from firsttouch.records.codebook import Codebook, CounterEntry, Words
from firsttouch.records.figures import Bar
from firsttouch.records.findings import Claim, Finding, compare_medians, finding, literal
from firsttouch.records.schema import BufferFact, DeviceInfo, Factors, Metric, Record, Scalar
from firsttouch.workers.session import Session

DISCRETE, NAIVE, PORTED = "discrete", "naive", "ported"
FORMS: Words = {
    DISCRETE: "memory of the host and of the device, with copies",
    NAIVE: "unified memory in place of both, and nothing else changed",
    PORTED: "unified memory, and the program changed as it needs",
}
BY_FORM = Bar(x="form", colour="form", y_title="time of one run", title="One run of the program, by form")
REPEATS = {"quick": 5, "standard": 10, "full": 30}


@dataclass(frozen=True)
class FormRun:
    """One run of a form.

    result: what the program computes, compared with what `expected` returns. hazard: of the naive form, what was
    observed of the hazard, as a clause; '' if nothing was. counters: what was counted, by the codebook's names.
    """

    result: Sequence[int]
    hazard: str = ""
    counters: Mapping[str, Scalar] = field(default_factory=dict)
    buffers: Sequence[BufferFact] = ()


def codebook(*more: CounterEntry, **units: str) -> Codebook:
    """The codebook of a program whose counters have these units, besides others that several experiments have."""
    units |= {"hazard": "word", "observed": ""}
    own_counters = (CounterEntry(name=name, unit=unit) for name, unit in units.items())
    return Codebook(factors={"form": FORMS, "size": {}}, counters=(*own_counters, *more))


class PortProgram(Experiment):
    """A program in three forms. The forms are methods; `hazard` says in a clause what the naive one suffers from."""

    metric = Metric("ms", "lower")
    counted = (
        "Wall time of one run of the program, from its first allocation to its result, after a first run in which its "
        "kernels are compiled. Results are compared with what the CPU computes. The naive form counts only where its "
        "hazard was observed; elsewhere it is skipped with the reason."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-C"
    figures = (replace(BY_FORM, where={"form": (DISCRETE, PORTED)}),)
    planning = Planning(
        share=1e-9,  # runs as often as REPEATS says, whatever the time of the preset
        switches_of=("memory", "copies"),
    )
    size: ClassVar[int] = 4 * MiB
    hazard: ClassVar[str]
    strategy: ClassVar[str]
    """What the ported form does, as a clause."""
    naive_is_right: ClassVar[bool] = False
    """Whether the naive form computes the right result all the same, so that its time says something."""
    needs_unified: ClassVar[frozenset[str]] = frozenset({NAIVE, PORTED})
    """The forms that need memory which the CPU and kernels use by one address."""

    def discrete(self, parts: Parts, size: int) -> FormRun:
        raise NotImplementedError

    def naive(self, parts: Parts, size: int) -> FormRun:
        raise NotImplementedError

    def ported(self, parts: Parts, size: int) -> FormRun:
        raise NotImplementedError

    def expected(self, size: int) -> Sequence[int]:
        """What the program computes, by the CPU alone."""
        raise NotImplementedError

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        return [
            Factor("form", tuple(FORMS), doc="how the program uses memory"),
            Factor("size", [self.size], "size", least=64 * KiB, multiple=4 * KiB, doc="bytes of its largest array"),
        ]

    def skip(self, factors: Factors, device: DeviceInfo) -> str | None:
        if factors.text("form") in self.needs_unified and unified_memory(device) is None:
            return f"{device.name} has no memory that the CPU may use by its address while a kernel runs"
        return None

    def measure(self, point: Point, session: Session) -> Measurement:
        name, size = point.text("form"), point.size("size")
        form: Callable[[Parts, int], FormRun] = getattr(self, name)
        parts, seconds, runs = Parts(session), list[float](), list[FormRun]()
        for repeat in range(1 + REPEATS[session.preset]):
            start = time.perf_counter()
            run = form(parts, size)
            if repeat:
                seconds.append(time.perf_counter() - start)
                runs.append(run)
        counters = {name: value for run in runs for name, value in run.counters.items()}
        milliseconds = [1e3 * second for second in seconds]
        observed = [run.hazard for run in runs if run.hazard]
        if name == NAIVE and not observed:
            raise Unsupported(f"not observed in {len(runs)} runs: {self.hazard}")
        if observed:
            counters |= {"observed": len(observed), "hazard": observed[-1]}
        right: bool | None = all([*run.result] == [*self.expected(size)] for run in runs)
        reason = ""
        if name == NAIVE and not self.naive_is_right:
            right, reason = None, f"the naive form is not meant to be right: {observed[-1]}"
        buffers = [*runs[-1].buffers]
        return Measurement(milliseconds, right, reason, stopped_by="count", counters=counters, buffers=buffers)

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        by_form = {form: [r for r in records if r.factors["form"] == form] for form in FORMS}
        discrete = {alike(r): r for r in by_form[DISCRETE]}
        findings = [self._ported(r, discrete.get(alike(r))) for r in by_form[PORTED]]
        findings += [self._naive(r) for r in by_form[NAIVE]]
        ported = {alike(r) for r in by_form[PORTED]}
        alone = [r for r in by_form[DISCRETE] if alike(r) not in ported]
        return findings + [finding(self._claim(DISCRETE, " takes {value}"), r) for r in alone]

    def _claim(self, form: str, text: str) -> Claim:
        return Claim(f"{self.name}.{form}", f"the {form} form{text}", names=("form",))

    def _naive(self, record: Record) -> Finding:
        hazard = literal(str(record.counters.get("hazard", self.hazard)))
        took = " takes {value}" if self.naive_is_right else ""
        return finding(self._claim(NAIVE, f"{took}: {hazard}"), record)

    def _ported(self, record: Record, discrete: Record | None) -> Finding:
        does = f", which {self.strategy}, takes {{value}}"
        if discrete is None:
            return finding(self._claim(PORTED, does), record)
        comparison = compare_medians(record, discrete)
        beside = "{ratio_as_long} as" if comparison.is_clear else "with no clear difference from"
        return finding(
            self._claim(PORTED, f"{does}, {beside} the discrete form's {{other_value}}"), record, comparison=comparison
        )


def alike(record: Record) -> tuple[tuple[str, Scalar], ...]:
    """The factors of a record but for its form."""
    return tuple(sorted((name, value) for name, value in record.factors.items() if name != "form"))


def fact(name: str, buffer: object) -> BufferFact:
    from firsttouch import _core

    assert isinstance(buffer, _core.Buffer)
    return buffer_fact(name, buffer)
