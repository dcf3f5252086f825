"""The first screen of the report and of the terminal: the hardware, advice, numbers that people quote, a picture."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeVar

import msgspec

from firsttouch.advice.findings import AdviceFinding, advice_of
from firsttouch.experiments.views.gpus import by_product
from firsttouch.experiments.views.headlines import MOST, headlines
from firsttouch.experiments.views.latencies import latencies, may_be_cached
from firsttouch.experiments.views.ranking import tied
from firsttouch.harness.outcomes.app_findings import MEAN
from firsttouch.harness.outcomes.app_findings import numbers as of_runs
from firsttouch.harness.outcomes.derive import derive
from firsttouch.harness.outcomes.placements import without_candidates
from firsttouch.harness.outcomes.report import STACK, WITHOUT_CONTEXT
from firsttouch.machine.conditions import first_touch_note, measuring_conditions, mostly_disturbed
from firsttouch.machine.partitions import SAME_GPU
from firsttouch.model.scope import NOT_MODELLED
from firsttouch.records.codebook import codebook_of
from firsttouch.records.conditions import with_conditions
from firsttouch.records.equal_places import measured_on
from firsttouch.records.figures import Bar, Figure
from firsttouch.records.findings import Finding, Quantity, quantity
from firsttouch.records.predicted import assumed, lacking, predicted_for
from firsttouch.records.reading import Results, key_of
from firsttouch.records.schema import DeviceInfo, Machine, Modelled, Record
from firsttouch.records.statements import headed, paragraph
from firsttouch.records.statistics import group_by, measured, median_of
from firsttouch.records.text import caption, count, join_names, label, percent
from firsttouch.report.answers import AnsweredSection
from firsttouch.report.broken import without_broken
from firsttouch.report.gpu_pairs import GpuTable, gpu_tables, pairs_picture
from firsttouch.report.machines import MachinesTable, machines_table
from firsttouch.report.sentences import head_and_text, predicted, quantity_text, statements

_Derived = TypeVar("_Derived")
_NOISE = re.compile(r"\((?:R|TM|C|r|tm|c)\)|\bProcessor\b|\b\d+-Core\b|\bCPU\b|@.*$")
_IN_PART = ", without what was not measured"
_HANDED_OUT = ", which the hypervisor allocates on first use"
LATENCIES = Bar(
    x="memory", colour="agent", y_title="time per load, ns", x_title="agent, memory",
    title="The latency of random loads, by agent and memory",
)  # fmt: skip


@dataclass(frozen=True)
class KeyNumber:
    """One line of the first screen. head: its name, and whether it is predicted. rest: what follows the number.
    experiment: that with the figure behind it.
    """

    name: str
    head: str
    value: str
    rest: str
    experiment: str
    finding: Finding

    @property
    def sentence(self) -> str:
        """What a message that says nothing else says."""
        return f"{self.name} takes {self.text}."

    @property
    def text(self) -> str:
        """The number and what follows it."""
        return self.value + (", " if self.rest[:1].isdigit() else " ") + self.rest


@dataclass(frozen=True)
class FirstScreen:
    """figure, shown: the picture and the records that it shows; None if nothing can be shown. message: its title, which
    says what it shows. conditions: what distorts the values, in a few words each.
    """

    title: str
    numbers: Sequence[KeyNumber]
    advice: Sequence[AdviceFinding]
    figure: Figure | None
    shown: Sequence[Record]
    message: str = ""
    left_out: Sequence[str] = ()
    """Sentences that name points on which what is shown here fails."""
    conditions: Sequence[str] = ()
    measured_on: str = ""
    """A sentence on points that were measured on one GPU for equal ones; '' if there are none."""
    disturbed: str = ""
    """A sentence on a run of which most points were disturbed; '' otherwise."""
    absent: Sequence[str] = ()
    """Sentences on devices that could not be measured, where others of their kind were."""
    gpus: Sequence[GpuTable] = ()
    """What was measured of each of several GPUs."""
    predicted: str = ""
    """That all of it is predicted, and from what; '' of measurements."""
    lacking: Sequence[str] = ()
    """Sentences on what predicted times lack."""
    assumed: Sequence[str] = ()
    """What predictions take for granted, in sentences, those on what their times lack first."""
    machines: MachinesTable | None = None
    """The same points on several modelled machines."""

    @property
    def predicted_in_full(self) -> str:
        """What predictions follow from, and what they do not model; '' of measurements."""
        return f"{self.predicted} Not modelled: {'; '.join(NOT_MODELLED)}." if self.predicted else ""

    @property
    def conditions_text(self) -> str:
        """What distorts the values, in one sentence; '' if nothing is known that does."""
        return f"Conditions: {'; '.join(self.conditions)}." if self.conditions else ""

    @property
    def advice_by_ground(self) -> list[tuple[str, list[str]]]:
        """Sentences under headings that say what their numbers are: estimates, or times that were measured."""
        parts = groupby(self.advice, key=lambda advised: advised.estimated)
        headings = {True: "Advice (estimated)", False: "Advice (predicted)" if self.predicted else "Advice (measured)"}
        return [
            (headings[estimated], paragraph(statements(advised.finding for advised in group)))
            for estimated, group in parts
        ]

    def tiles(self, *, marked: bool) -> list[tuple[str, KeyNumber]]:
        """The numbers as a page shows them, those that are equal together: their names, and the first of them.

        marked: whether the names say what is predicted.
        """
        tiles = []
        for _, same in groupby(self.numbers, key=lambda n: (n.value, n.rest, n.experiment)):
            equal = list(same)
            more = [number.name for number in equal[1:]]
            tiles.append((", ".join([equal[0].head if marked else equal[0].name, *more]), equal[0]))
        return tiles

    @property
    def findings(self) -> list[Finding]:
        return [number.finding for number in self.numbers]


def first_screen(results: Results, answers: Sequence[AnsweredSection]) -> FirstScreen:
    """The first screen of one results directory. answers: its sections with their findings."""
    overview = next((part for part in answers if part.section.overview), None)
    machine, left_out = results.machine, list[str]()

    def derived(derive: Callable[[Sequence[Record]], Sequence[_Derived]]) -> Sequence[_Derived]:
        return _derived(results.records, derive, left_out)

    numbers = list(derived(lambda records: [_key_number(f) for f in headlines(records, machine)]))
    advice = derived(lambda records: advice_of(replace(results, records=list(records))))
    made = derived(lambda records: [pairs_picture(records, machine)])
    if not made or made[0][0] is None:
        made = derived(lambda records: [_latencies(records, machine)])
    figure, shown, message = made[0] if made else (None, [], "")
    tables = derived(lambda records: gpu_tables(records, machine))
    if overview is not None:
        means = [f for f in overview.answer.findings if f.claim.id == MEAN.id]
        numbers += [_of_strategy(f) for f in means[: max(0, MOST - len(numbers))]]
        figure, shown = next(iter(overview.section.figures), None), overview.section.records
        texts = (f"{f.conditions['strategy']} takes {_of_strategy(f).text}." for f in means)
        message = _marked(next(texts, ""), shown)
    if not numbers:
        numbers = list(derived(lambda records: [_key_number(f, is_name=True) for f in _runs(records, machine)]))[:MOST]
    if figure is None and numbers and (runs := [part for part in answers if part.experiment == numbers[0].experiment]):
        figure, shown = next(iter(runs[0].section.figures), None), runs[0].section.records
        message = str(runs[0].answer.statements[0])
        figure = (
            WITHOUT_CONTEXT if figure is STACK else figure
        )  # its sums are then the times that the key numbers state
    if first_touch_note(machine):
        numbers = [replace(n, rest=n.rest + _HANDED_OUT) if _is_touched_by_cpu(n.finding) else n for n in numbers]
    terms = [term for record in results.records for term in record.terms]
    if mostly_disturbed(results.records):
        numbers = [_with_spread(number) for number in numbers]
    return FirstScreen(
        hardware(machine),
        _in_part(numbers, results.records),
        advice,
        figure,
        shown,
        message,
        list(dict.fromkeys(left_out)),
        measuring_conditions(machine, results.records),
        f"{caption(held)}." if (held := measured_on(results.records)) else "",
        mostly_disturbed(results.records),
        absent(machine),
        tables,
        prediction(machine),
        _whole(lacking(terms)),
        _whole(dict.fromkeys([*lacking(terms), *assumed(terms)])),
        machines_table(results.records, machine.devices),
    )


def _whole(texts: Iterable[str]) -> list[str]:
    """Texts as sentences."""
    return [f"{caption(text)}." for text in texts]


def _in_part(numbers: Sequence[KeyNumber], records: Sequence[Record]) -> list[KeyNumber]:
    """The numbers; those of times that lack something say so."""
    parts = {key_of(record) for record in records if lacking(record.terms)}
    return [replace(n, rest=n.rest + _IN_PART) if parts.intersection(n.finding.points) else n for n in numbers]


def _marked(message: str, shown: Sequence[Record]) -> str:
    """The title of a picture, which says for which machine it is predicted, if it is."""
    prediction = predicted_for(r.device for r in shown)
    return headed(message, prediction) if prediction and message else message


def _derived(
    records: Sequence[Record], derive: Callable[[Sequence[Record]], Sequence[_Derived]], left_out: list[str]
) -> Sequence[_Derived]:
    """What can be derived from records that someone may have changed, without the few on which that fails, which are
    named in `left_out`; an empty list if it fails without them too.
    """
    try:
        spared = without_broken(records, derive)
    except (ArithmeticError, LookupError, TypeError, ValueError, AssertionError):
        return []
    left_out += [spared.sentence] if spared.broken else []
    return spared.value


def _with_spread(number: KeyNumber) -> KeyNumber:
    """The number with its interval, if what follows it does not begin with that."""
    value = number.finding.value
    if not isinstance(value, Quantity) or number.rest.startswith("("):
        return number
    return replace(number, value=quantity_text(value, interval=True))


def _key_number(finding: Finding, *, is_name: bool = False) -> KeyNumber:
    """The parts of a headline's sentence: what comes before, the number, and what follows. is_name: what comes before
    is a name, which is not capitalised.
    """
    head, text = head_and_text(finding)
    assert isinstance(finding.value, Quantity)
    value = quantity_text(finding.value)
    if not text.startswith(value):  # a ratio below one, of which the inverse is said
        value = text.partition(" ")[0]
    rest = text.removeprefix(value).lstrip(" ,;")
    name = head if is_name else caption(head)
    return KeyNumber(name, _head(name, head, finding), value, rest, experiment_of(finding), finding)


def _head(name: str, uncapitalised: str, finding: Finding) -> str:
    return f"Predicted: {uncapitalised}" if predicted(finding) else name


def _runs(records: Sequence[Record], machine: Machine) -> list[Finding]:
    """The times of applications on the first device that ran any, one with its own processor if there is one."""
    runs = [r for r in records if r.experiment == "app"]
    devices = sorted(machine.devices, key=lambda d: d.role != "gpu")
    ran = {r.device for r in measured(runs)}
    first = next((d.name for d in devices if d.name in ran), None)
    ran_there = derive(without_candidates([r for r in runs if r.device == first]))
    return [with_conditions(f, measured(ran_there)) for f in of_runs(ran_there)]


def _of_strategy(finding: Finding) -> KeyNumber:
    """A strategy's mean time as a part of the baseline's, as the picture has it."""
    assert isinstance(finding.value, Quantity)
    rest = f"of {finding.conditions['baseline']}'s time, geometric mean of {finding.conditions['over']}"
    name = f"{finding.conditions['strategy']}"
    head = _head(name, name, finding)
    return KeyNumber(name, head, percent(finding.value.value), rest, experiment_of(finding), finding)


def _is_touched_by_cpu(finding: Finding) -> bool:
    """Whether a point of the finding times the CPU's first touch of memory."""
    for point in finding.points:
        experiment, _, factors = msgspec.json.decode(point)
        touch = codebook_of(experiment).touch
        if touch is not None and touch.agents.get(str(factors.get(touch.by))) == "cpu":
            return True
    return False


def experiment_of(finding: Finding) -> str:
    """The experiment of a finding's first point."""
    name: str = msgspec.json.decode(finding.points[0])[0]
    return name


def _latencies(records: Sequence[Record], machine: Machine) -> tuple[Figure | None, Sequence[Record], str]:
    """A picture, its records and its message: the latency of memories by every agent."""
    shown = latencies(records, machine)
    if len(shown) < 2:
        return None, [], ""
    placed = [msgspec.structs.replace(r, counters={**r.counters, "memory": _place(r)}) for r in shown]
    devices = {d.name: d for d in machine.devices}
    message = _of_latencies(shown, any(may_be_cached(r, devices) for r in shown))
    return LATENCIES, placed, _marked(message, shown)


def _of_latencies(records: Sequence[Record], cached: bool) -> str:
    """What the picture of latencies shows: for each agent the least and the greatest, with their memories. cached: a
    cache may hold what is loaded.
    """
    agents = [f"the {str(agent).upper()} {_span(rows)}" for (agent,), rows in group_by(records, "agent").items()]
    size = label("size", records[0].factors["size"])
    place = f"{size}, which a cache may hold," if cached else f"{size} of memory"
    return f"A random load from {place} takes {join_names(agents)}."


def _span(rows: Sequence[Record]) -> str:
    """The least and the greatest of several latencies with the memories that are tied with them, as '142 ns (device or
    managed) to 1.2 us (pinned)'.
    """
    least, greatest = min(rows, key=median_of), max(rows, key=median_of)
    ends = [least] if greatest in tied(rows, least) else [least, greatest]
    texts = [
        f"{quantity_text(quantity(end))} ({join_names([str(r.factors['allocator']) for r in tied(rows, end)], 'or')})"
        for end in ends
    ]
    return " to ".join(texts)


def _place(record: Record) -> str:
    """The agent that loads and the memory: 'GPU, managed'."""
    return f"{str(record.factors['agent']).upper()}, {record.factors['allocator']}"


def prediction(machine: Machine) -> str:
    """That all values are predicted, and from which platforms; '' of a machine that was measured."""
    platforms = dict.fromkeys(
        f"{d.modelled.platform} ({d.modelled.digest[:12]}{changed(d.modelled)})" for d in machine.devices if d.modelled
    )
    if not platforms:
        return ""
    rules = max(d.modelled.rules for d in machine.devices if d.modelled)
    return (
        f"Predicted, not measured: from the values of {join_names([*platforms])}, with version {rules} of the driver "
        "rules."
    )


def changed(modelled: Modelled) -> str:
    """', with link.h2d=128GB/s' if values of the platform were changed."""
    texts = [f"{name}={text}" for name, text in modelled.changes.items()]
    return f", with {join_names(texts)}" if texts else ""


def hardware(machine: Machine) -> str:
    """The hardware in a few words: 'NVIDIA H200, Intel Xeon, PCIe 5 x16', and that its values are predicted. Several
    GPUs of one kind are counted, and followed by what connects them.
    """
    text = _hardware(machine)
    return f"Predicted: {text}" if any(device.modelled for device in machine.devices) else text


def _hardware(machine: Machine) -> str:
    present = [d for d in machine.devices if d.available and d.role == "gpu"]
    sets = {tuple(d.modelled.changes.items()): d for d in present if d.modelled}
    present = _of_one_set(present)
    gpus, names = _counted(present), {d.name for d in present}
    links = (p.link for d in present for p in d.peers if p.same_driver and p.name in names)
    between = dict.fromkeys(link for link in links if link != SAME_GPU)
    parts = [
        *gpus,
        *(link if len(between) == 1 else f"{link} between some" for link in between if link not in ("", "PCIe")),
        _plain(str(machine.facts.get("cpu", {}).get("model") or _host_title(machine.devices))),
    ]
    if gpus:
        parts.append(_link(machine))
    if len(sets) > 1:
        parts.append(f"with {count(len(sets), 'set')} of values")
    return ", ".join(filter(None, parts)) or machine.host


def _of_one_set(devices: Sequence[DeviceInfo]) -> list[DeviceInfo]:
    """Without the devices of a platform that occur again with other values."""
    first: dict[str, dict[str, str]] = {}
    return [
        d
        for d in devices
        if d.modelled is None or d.modelled.changes == first.setdefault(d.modelled.platform, d.modelled.changes)
    ]


def _counted(gpus: Sequence[DeviceInfo]) -> list[str]:
    """Each model, with how many there are and their partitions: '2 x NVIDIA H200'. Two backends may have the same."""
    models: dict[str, list[DeviceInfo]] = {}
    for (product, _), same in by_product(gpus).items():
        models[product] = max(models.get(product, []), same, key=len)
    texts = []
    for product, same in models.items():
        parts = [d for d in same if "partitions" in d.facts]
        n = len({str(d.facts["pci_bus"]) for d in parts}) if parts else len(same)
        texts.append(f"{n} x {_plain(product)}" if n > 1 else _plain(product))
        texts[-1] += f" ({count(len(parts), 'partition')}, {parts[0].facts['partition_mode']})" if parts else ""
    return texts


def absent(machine: Machine) -> list[str]:
    """A sentence for each device that did not open, where others of its kind did."""
    kinds = {d.kind for d in machine.devices if d.available}
    return [f"{d.name} is not available: {d.reason}." for d in machine.devices if not d.available and d.kind in kinds]


def _host_title(devices: Sequence[DeviceInfo]) -> str:
    return next((d.title for d in devices if d.role == "host" and d.available), "")


def _plain(name: str) -> str:
    """A product's name without trademarks and general words: 'Intel(R) Xeon(R) Processor' is 'Intel Xeon'."""
    return " ".join(_NOISE.sub(" ", name).split())


def _link(machine: Machine) -> str:
    """The link of the first GPU: 'PCIe 5 x16', or its connection to the processor by another link."""
    links = machine.facts.get("links", {})
    if links.get("gpu0_c2c") is True:
        return "NVLink-C2C"
    generation, width = (links.get(f"gpu0_pcie_{name}") for name in ("generation_max", "width_max"))
    return f"PCIe {generation} x{width}" if generation and width else ""
