"""What the docs say of predictions: in docs/reproduce.md which of its commands are predicted on the models of their
machines, and in docs/model.md and README.md what `firsttouch validate` finds.

    python evidence/recompute/modelled.py            rewrites it
    python evidence/recompute/modelled.py --check    says what is out of date; exit status 1 if anything is

Each command is planned on its machine's platform file, and its points are predicted in this process. A page holds what
`validate` finds between two comments, <!-- predicted: NAME --> and <!-- end of predicted -->.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from functools import cache
from typing import Any, NamedTuple, NoReturn
from unittest.mock import patch

from firsttouch.apps import all_apps
from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_number, format_size
from firsttouch.cli.main import parser
from firsttouch.comparison.reproducing import on_device
from firsttouch.comparison.validation.in_place import FARTHEST, judged_in_place
from firsttouch.comparison.validation.points import predicted
from firsttouch.comparison.validation.results import ValidatedPlatform, ValidatedRow
from firsttouch.comparison.validation.targets import figures_of, judged_targets
from firsttouch.comparison.validation.validate import validated_platforms
from firsttouch.comparison.validation.wording import (
    figure_sentences,
    number_of_claims,
    published_value,
    target_sentences,
)
from firsttouch.engine import runner
from firsttouch.engine.planned import Planned
from firsttouch.experiments import find_experiment
from firsttouch.experiments.contract.base import Experiment
from firsttouch.harness.experiment import Application
from firsttouch.harness.predicting import WITHOUT_FILES
from firsttouch.records.papers.rows import APPLICATIONS
from firsttouch.records.papers.studies import PAPERS, StudyLine, models_of, studies
from firsttouch.records.predicted import lacking
from firsttouch.records.schema import Record, Scalar
from firsttouch.records.statistics import varying
from firsttouch.records.text import quantity
from records import ROOT, table

DOCS = ROOT / "docs"
DATA = ROOT / "src/firsttouch/records/papers/data/studies"
FOUND_IN = (DOCS / "model.md", ROOT / "README.md")
"""The pages that say what validate finds."""
PLACE = re.compile(r"(<!-- predicted: (\S+) -->\n).*?(<!-- end of predicted -->)", re.DOTALL)
YES, PART, VALUE, SCOPE, REAL, NONE = "yes", "part", "value", "scope", "real", "no"
"""What the column may say; the page explains the words."""
_LOOKS = ("machine", "methods", "profile", "interfaces", "compare", "claims", "examples")
_MOST_VALUES, KIB = 3, 1024


class _Made(Exception):
    """Ends a call when its plan is made."""

    def __init__(self, plan: Sequence[Planned]) -> None:
        super().__init__()
        self.plan = plan


def records_of(words: Sequence[str]) -> list[Record]:
    """The records of a call's points that its machine can have. Raises UsageError as the call does."""

    def keep(request: Any, devices: Any, experiments: Any, limits: Any, *rest: Any) -> NoReturn:
        raise _Made(make_plan(request, devices, experiments, limits, *rest))

    make_plan = runner.make_plan
    with patch.object(runner, "make_plan", keep):
        try:
            with redirect_stderr(io.StringIO()):
                parser()([*words], prog_name="firsttouch", standalone_mode=False)
        except _Made as made:
            return [predicted(planned) for planned in made.plan if not planned.reason]
    raise AssertionError(f"{' '.join(words)} plans nothing")


class Modelled(NamedTuple):
    """What can be predicted of a command. without: what is missing, in words, if anything is predicted."""

    word: str
    without: Sequence[str] = ()


def modelled(line: StudyLine, model: str) -> Modelled:
    """What can be predicted of a line on a model."""
    words = on_device(line.words, f"model:{model}")
    if words[0] in _LOOKS:
        return Modelled(REAL)
    try:
        records = records_of(words)
    except UsageError:
        return Modelled(SCOPE)
    ok = [record for record in records if record.status == "ok"]
    if ok:
        return Modelled(YES, [*left_out(ok), *refused(records), *not_followed(ok)])
    lacks_value = any(" has no value " in record.reason for record in records)
    return Modelled(VALUE if lacks_value else SCOPE)


def left_out(ok: Sequence[Record]) -> Iterator[str]:
    """What the times of predicted points lack."""
    texts = {text for record in ok for text in lacking(record.terms)}
    if texts - {WITHOUT_FILES}:
        yield "kernels"
    if WITHOUT_FILES in texts:
        yield "files"


def not_followed(ok: Sequence[Record]) -> Iterator[str]:
    """The factors of several values that a command sets and no prediction follows."""
    for name in varying(ok):
        if any(name in _experiment(record).not_followed for record in ok if name in record.factors):
            yield name


def _experiment(record: Record) -> Experiment:
    if record.experiment == APPLICATIONS:
        return Application(all_apps()[str(record.factors["app"])])
    experiment = find_experiment(record.experiment)
    assert experiment is not None
    return experiment


def refused(records: Sequence[Record]) -> list[str]:
    """The conditions of a command that are refused: those that the reasons name, and of the other points the values
    that no predicted point has.
    """
    lost = [record for record in records if record.status != "ok"]
    named = {f"{name}={value}" for r in lost for name, value in r.factors.items() if f"{name}={value}" in r.reason}
    rest = [r for r in lost if not any(f"{name}={value}" in r.reason for name, value in r.factors.items())]
    kept = [record for record in records if record.status == "ok"]
    while rest:
        only = {
            name: {r.factors[name] for r in rest if name in r.factors} - {r.factors.get(name) for r in kept}
            for name in varying(records)
        }
        name = max(only, key=lambda n: sum(r.factors.get(n) in only[n] for r in rest), default="")
        if not name or not only[name]:
            named.add("some points")
            break
        named.add(f"{name}={in_words(only[name])}")
        rest = [r for r in rest if r.factors.get(name) not in only[name]]
    return sorted(named)


def in_words(values: Collection[Scalar]) -> str:
    """Values of a factor; of many sizes, the range."""
    if len(values) > _MOST_VALUES and all(isinstance(value, int) for value in values):
        ends = (format_size(int(value)) for value in (min(map(int, values)), max(map(int, values))))  # type: ignore[arg-type]
        return " to ".join(ends)
    return ",".join(sorted(format_size(v) if isinstance(v, int) and v >= KIB else str(v) for v in values))


def word_of(paper: str, line: StudyLine) -> str:
    """What the column says of a line; of several machines, all that is missing on one."""
    if not line.command:
        return NONE
    found = {model: modelled(line, model) for model in models_of(paper, line)}
    words = {each.word for each in found.values()}
    if YES not in words:
        return min(words, key=(VALUE, SCOPE, REAL).index)
    without = [text for each in found.values() for text in each.without]
    without += [name for name, each in zip(line.machines, found.values(), strict=False) if each.word != YES]
    return f"{PART}: without {', '.join(dict.fromkeys(without))}" if without else YES


# ------------------------------------------------------------------------------------------------ what validate finds


def lead(validated: Sequence[ValidatedPlatform]) -> str:
    """The three figures over all platforms, in a paragraph."""
    return f"{textwrap.fill(' '.join(figure_sentences(figures_of(validated))), 120)}\n"


def platforms(validated: Sequence[ValidatedPlatform]) -> str:
    """The three figures of each platform, and of all."""
    head = ["platform", "numbers", "within 1.5", "median factor", "orders", "right", "wrong", "equal", "refused"]
    every = [*((f"`{p.platform}`", p.figures) for p in validated), ("all", figures_of(validated))]
    rows = []
    for name, figures in every:
        numbers, orders = figures.numbers, figures.orders
        rows.append(
            [
                name,
                str(numbers.total),
                str(numbers.right) if numbers.total else "",
                "" if numbers.median_factor is None else format_number(numbers.median_factor, 3),
                *map(number_of_claims, (orders.total, orders.right, orders.wrong, orders.tied)),
                f"{number_of_claims(figures.refused)} of {number_of_claims(figures.total)}",
            ]
        )
    return f"{table(head, rows)}\n{textwrap.fill(' '.join(target_sentences(judged_targets(validated))), 120)}\n"


def fitted(validated: Sequence[ValidatedPlatform]) -> str:
    """The rows to which values were fitted, which judge nothing."""
    rows = [
        [
            f"`{platform.platform}`",
            f"`{row.row.partition('/')[2]}`",
            published_value(row),
            _predicted(row),
            format_number(row.factor, 3),
        ]
        for platform in validated
        for row in platform.rows
        if row.role == "fitted" and row.ratio is not None
    ]
    return table(["platform", "row", "published", "predicted", "off by a factor of"], rows)


def wrong(validated: Sequence[ValidatedPlatform]) -> str:
    """All that is predicted wrong, and why."""
    rows = []
    for platform in validated:
        for entry in platform.entries("wrong"):
            if isinstance(entry, ValidatedRow):
                name, said = entry.row.partition("/")[2], f"{published_value(entry)}; predicted {_predicted(entry)}"
            else:
                name, said = entry.id, entry.why.partition(":")[0]
            independent = "yes" if entry.role == "held" else "no"
            reason = entry.reason or "no reason is known"
            rows.append([f"`{platform.platform}`", f"`{name}`", independent, said, reason])
    head = ["platform", "row or claim", "independent", "published; or values that a claim compares", "why"]
    return table(head, rows)


def _predicted(row: ValidatedRow) -> str:
    return quantity(row.predicted or 0, "" if row.unit == "ratio" else row.unit)


def in_place(validated: Sequence[ValidatedPlatform]) -> str:
    """How right profiles of kernels are about memory of the host."""
    judged = judged_in_place()
    said = (
        f"Kernels in page-locked memory of the host, from profiles of other visits and of sizes that are at most "
        f"{FARTHEST} times as large or as small: {len(judged.runs)} runs "
        f"of {len({run.application for run in judged.runs})} applications, a median error of "
        f"{format_number(100 * judged.error, 2)} %, {format_number(100 * judged.within, 2)} % within a factor of two."
    )
    return f"{textwrap.fill(said, 120)}\n"


UM_APPS = (
    "black_scholes",
    "gemm",
    "conjugate_gradient",
    "graph500_bfs",
    "fft_conv_r2c",
    "fft_conv_c2c",
    "fft_conv_fused",
    "fdtd3d",
)
"""The programs of the study of unified memory of 2019."""
PAPER = "--set placement=paper"
IN_MEMORY, ONE_STEP, EXCEEDING = (
    "--size in-memory",
    "--size in-memory --iterations 1",
    "--size oversubscribed --allow-oversubscription",
)


@cache
def gpu_seconds(model: str, application: str, strategy: str, options: str) -> float:
    """The GPU time of a program of that study, as its paper guides the memory."""
    call = f"app {application} --device model:{model} --strategy {strategy} {PAPER} {options}"
    (record,) = (r for r in records_of(shlex.split(call)) if r.factors.get("events") in (None, "off"))
    return 1e-3 * float(record.counters["gpu_ms"])


def older(validated: Sequence[ValidatedPlatform]) -> str:
    """Figures of the study of 2019: what it states, what was predicted by the rules of release 515 with the faults of
    H200s, and what is now.
    """

    def ratio(model: str, application: str, first: str, second: str, options: str) -> float:
        return gpu_seconds(model, application, first, options) / gpu_seconds(model, application, second, options)

    def saved(model: str, application: str = "fdtd3d") -> float:
        return 1 - ratio(model, application, "managed+prefetch", "managed", IN_MEMORY)

    def conv2(model: str) -> str:
        return format_number(ratio(model, "fft_conv_fused", "managed", "explicit", ONE_STEP), 3)

    def exceeding(strategy: str) -> str:
        return quantity(gpu_seconds("p9-volta", "fdtd3d", strategy, EXCEEDING), "s")

    on_pascal = f"{100 * saved('intel-pascal'):.0f} %"
    more = sum(saved("intel-volta", application) > saved("p9-volta", application) for application in UM_APPS)
    advised = ratio("p9-volta", "fdtd3d", "managed+advise", "managed", EXCEEDING)
    rows = [
        ["3", "Power 9", "conv2, managed to explicit", "14", "16.3", conv2("p9-volta")],
        ["3", "Intel-Volta", "the same", "similar to Power 9", "11.6", conv2("intel-volta")],
        ["3", "Intel-Pascal", "the same", "2 to 3", "2.33", conv2("intel-pascal")],
        ["3", "Intel-Pascal", "fdtd3d, saved by prefetches", "up to 56 %", "34 %", on_pascal],
        ["3", "Intel-Volta, Power 9", "programs of 8 that prefetches help more on Intel", "most", "0", str(more)],
        ["6", "Power 9", "fdtd3d that exceeds GPU memory", "60.9 s", "5.13 s", exceeding("managed")],
        ["6", "Power 9", "the same with prefetches", "45.3 s", "1.83 s", exceeding("managed+prefetch")],
        ["6", "Power 9", "the same with advice, to none", "about 3", "1.11", format_number(advised, 2)],
    ]
    return table(["figure", "machine", "GPU time", "published", "predicted before", "now"], rows)


def counters(validated: Sequence[ValidatedPlatform]) -> str:
    """Figures of the study of Grace Hopper that rest on access counters: what it states, what was predicted when pages
    moved as long as a kernel used them, and what is now.
    """

    def counter(call: str, name: str, strategy: str = "system") -> float:
        words = f"app {call} --strategy {strategy}"
        (record,) = (r for r in records_of(shlex.split(words)) if r.factors.get("events") in (None, "off"))
        return float(record.counters[name])

    def srad(first: int, last: int, strategy: str = "system") -> str:
        call = "srad --device model:gh200 --set rows=20000 --set cols=20000 --iterations 12 " + PAPER
        times = [counter(call, f"iteration_{n - 1}_ms", strategy) for n in range(first, last + 1)]
        return ", ".join(dict.fromkeys(format_number(ms, 3) for ms in times))

    def compute(application: str, page: str) -> float:
        return counter(f"{application} --device model:gh200@host.page={page} --size 4GiB {PAPER}", "phase_compute_ms")

    def by_page(strategy: str, page: str) -> float:
        call = f"quantum_volume --device model:gh200@host.page={page} --set qubits=33"
        return sum(counter(call, f"phase_{phase}_ms", strategy) for phase in ("initialise", "compute"))

    slower = [format_number(by_page(s, "4KiB") / by_page(s, "64KiB"), 3) for s in ("system", "managed")]
    faster = [name for name in ("bfs", "hotspot", "nw", "pathfinder") if compute(name, "4KiB") < compute(name, "64KiB")]
    rows = [
        ["10", "srad, iteration 1, ms", "the longest", "1,470", srad(1, 1)],
        ["10", "iterations 2 to 4", "shorter; longer than managed", "18.6, 17.2, 15.6", srad(2, 4)],
        ["10", "iterations 5 to 12", "settled, next to nothing across the link", "14.5 to 10.9", srad(5, 12)],
        ["10", "iterations 2 to 12, managed", "", "8.86", srad(2, 12, "managed")],
        ["7", "compute faster with 4 KiB", "bfs, hotspot, nw, pathfinder", "nw, pathfinder", ", ".join(faster)],
        ["8", "33 qubits, initialise and compute, malloc: 4 KiB to 64 KiB", "2.9", "1.98", slower[0]],
        ["9", "the same, managed", "1.1", "0.99", slower[1]],
    ]
    return table(["figure", "what", "published", "predicted before", "now"], rows)


FOUND: Mapping[str, Callable[[Sequence[ValidatedPlatform]], str]] = {
    "figures": lead,
    "platforms": platforms,
    "fitted": fitted,
    "wrong": wrong,
    "in-place": in_place,
    "older": older,
    "counters": counters,
}


def with_found(texts: Sequence[str]) -> list[str]:
    """Pages with what validate finds."""
    validated = validated_platforms([])
    return [PLACE.sub(lambda part: part[1] + FOUND[part[2]](validated) + part[3], text) for text in texts]


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="change nothing, and say what is out of date")
    check = options.parse_args(arguments).check
    before, stale = [path.read_text() for path in FOUND_IN], 0
    files = {paper: json.loads((DATA / f"{paper}.json").read_text()) for paper in PAPERS}
    lines = [(paper, line) for paper in PAPERS for line in studies()[paper].lines]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        pages = pool.submit(with_found, before)
        words = [*pool.map(word_of, *zip(*lines, strict=True))]
        after = pages.result()
    entries = [entry for paper in PAPERS for entry in files[paper]["lines"]]
    for entry, word in zip(entries, words, strict=True):
        if word != entry.get("modelled"):
            stale += 1
            print(f"{entry.get('command')}: {entry.get('modelled')}, is {word}")
            entry["modelled"] = word
    for path, old, new in zip(FOUND_IN, before, after, strict=True):
        if old != new:
            stale += 1
            print(f"{path.name}: what validate finds has changed")
    if stale and not check:
        for paper, content in files.items():
            (DATA / f"{paper}.json").write_text(f"{json.dumps(content, indent=1, ensure_ascii=False)}\n")
        for path, new in zip(FOUND_IN, after, strict=True):
            path.write_text(new)
        subprocess.run([sys.executable, DOCS / "reproduce.py"], check=True)
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
