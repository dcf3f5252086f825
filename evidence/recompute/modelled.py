"""What the docs say of predictions: in docs/reproduce.md which of its commands are predicted on the models of their
machines, and in docs/model.md what `firsttouch validate` finds.

    python evidence/recompute/modelled.py            rewrites it
    python evidence/recompute/modelled.py --check    says what is out of date; exit status 1 if anything is

Each command is planned on its machine's platform file, and its points are predicted in this process. A page holds what
`validate` finds between two comments, <!-- predicted: NAME --> and <!-- end of predicted -->.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr
from functools import cache
from typing import Any, NoReturn
from unittest.mock import patch

from firsttouch.base.errors import UsageError
from firsttouch.base.units import format_number
from firsttouch.cli.main import parser
from firsttouch.comparison.validation.in_place import judged_in_place
from firsttouch.comparison.validation.points import predicted
from firsttouch.comparison.validation.results import ValidatedPlatform, ValidatedRow, error_summary
from firsttouch.comparison.validation.targets import judged_targets
from firsttouch.comparison.validation.validate import validated_platforms
from firsttouch.comparison.validation.wording import published_value, target_sentences
from firsttouch.engine import runner
from firsttouch.engine.planned import Planned
from firsttouch.records.schema import Record
from firsttouch.records.text import quantity
from records import ROOT, table

DOCS = ROOT / "docs"
PAGE, MODEL = DOCS / "reproduce.md", DOCS / "model.md"
PLACE = re.compile(r"(<!-- predicted: (\S+) -->\n).*?(<!-- end of predicted -->)", re.DOTALL)
MODELS: Mapping[str, Sequence[str]] = {
    "any": ("gh200",),
    "MI300A": ("mi300a",),
    "MI300A XNACK": ("mi300a",),
    "node": ("mi300a-node",),
    "GH200": ("gh200",),
    "TK1": ("tk1",),
    "Kaveri": ("kaveri",),
    "Kaveri HSA": ("kaveri@driver.ats=on",),
    "Pascal": ("intel-pascal",),
    "Volta": ("intel-volta",),
    "Power 9": ("p9-volta",),
}
"""The models of each machine that the page names."""
YES, PART, VALUE, SCOPE, REAL, NONE = "yes", "part", "value", "scope", "real", "no"
"""What the column may say; the page explains the words."""
_LOOKS = ("machine", "methods", "profile", "interfaces", "compare", "claims", "examples")
_CELLS = 6


class _Made(Exception):
    """Ends a call when its plan is made."""

    def __init__(self, plan: Sequence[Planned]) -> None:
        super().__init__()
        self.plan = plan


def on_model(command: str, model: str) -> list[str]:
    """The words of a call after `firsttouch`, on a model in place of the devices that it names."""
    words = shlex.split(command)
    words = words[words.index("firsttouch") + 1 :]
    if "--device" not in words:
        return [*words, "--device", f"model:{model}"]
    known = dict(zip(words[1:], words, strict=False))
    return [_device(word, model) if known.get(word) == "--device" or "peer=" in word else word for word in words]


def _device(word: str, model: str) -> str:
    """A device of the page, or several in a list of peers, on a model."""
    word = re.sub(r"\b(?:hip|cuda|opencl):0\b", f"model:{model}", word)
    word = re.sub(r"\b(?:hip|cuda|opencl):(\d+)\b", rf"model:{model}:\1", word)
    return f"model:{model}:cpu" if word == "cpu" else word


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


def word_for(command: str, model: str) -> str:
    """What the column says of a command."""
    words = on_model(command, model)
    if words[0] in _LOOKS:
        return REAL
    try:
        records = records_of(words)
    except UsageError:
        return SCOPE
    ok = [record for record in records if record.status == "ok"]
    if ok:
        return YES if len(ok) == len(records) else PART
    lacks_value = any(" has no value " in record.reason for record in records)
    return VALUE if lacks_value else SCOPE


def word_of(row: Sequence[str]) -> str:
    """What the column says of a row of the page; of several machines, the most."""
    command, machines = row[2].strip("`"), row[3].split(", ")
    if command.startswith("none: "):
        return NONE
    said = [word_for(command, model) for machine in machines for model in MODELS[machine]]
    order = (YES, PART, VALUE, SCOPE, REAL)
    return said[0] if len(set(said)) == 1 else PART if {YES, PART} & set(said) else min(said, key=order.index)


def rows(text: str) -> Iterator[tuple[str, list[str]]]:
    """The lines of the page's tables, and their cells."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and len(cells) == _CELLS and cells[0] != "in the study":
            yield line, cells


# ------------------------------------------------------------------------------------------------ what validate finds


def platforms(validated: Sequence[ValidatedPlatform]) -> str:
    """How each platform is judged."""
    head = [
        "platform",
        "free values",
        "rows: fitted",
        "held",
        "held numbers",
        "within 1.5",
        "worst",
        "held claims right",
    ]
    rows = []
    for platform in validated:
        numbers = [row for row in platform.rows if row.role == "held" and row.ratio is not None]
        errors = error_summary(row.factor for row in numbers)
        decided = platform.right + platform.wrong
        rows.append(
            [
                f"`{platform.platform}`",
                str(platform.free),
                str(platform.fitted),
                str(platform.held),
                str(errors.numbers),
                "" if errors.within is None else f"{100 * errors.within:.0f} %",
                "" if errors.worst is None else format_number(errors.worst, 2),
                f"{platform.right} of {decided}" if decided else "",
            ]
        )
    judged = table(
        [*head, "not predicted"],
        [[*r, str(len(p.entries("not predicted")))] for r, p in zip(rows, validated, strict=True)],
    )
    return f"{judged}\n{textwrap.fill(' '.join(target_sentences(judged_targets(validated))), 120)}\n"


def wrong(validated: Sequence[ValidatedPlatform]) -> str:
    """All that is predicted wrong, and why."""
    rows = []
    for platform in validated:
        for entry in platform.entries("wrong"):
            if isinstance(entry, ValidatedRow):
                unit = "" if entry.unit == "ratio" else entry.unit
                said = f"{published_value(entry)}; predicted {quantity(entry.predicted or 0, unit)}"
                name = entry.row.partition("/")[2]
            else:
                name, said = entry.id, entry.why.partition(":")[0]
            rows.append([f"`{platform.platform}`", f"`{name}`", said, entry.reason or "no reason is known"])
    return table(["platform", "row or claim", "published; or values that a claim compares", "why"], rows)


def in_place(validated: Sequence[ValidatedPlatform]) -> str:
    """How right profiles of kernels are about memory of the host."""
    judged = judged_in_place()
    said = (
        f"Kernels in page-locked memory of the host, from profiles of other sizes and visits: {len(judged.runs)} runs "
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
    "platforms": platforms,
    "wrong": wrong,
    "in-place": in_place,
    "older": older,
    "counters": counters,
}


def with_found(text: str) -> str:
    """A page with what validate finds."""
    validated = validated_platforms([])
    return PLACE.sub(lambda part: part[1] + FOUND[part[2]](validated) + part[3], text)


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="change nothing, and say what is out of date")
    check = options.parse_args(arguments).check
    text, before, stale = PAGE.read_text(), MODEL.read_text(), 0
    lines = [*rows(text)]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        page = pool.submit(with_found, before)
        words = [*pool.map(word_of, [cells for _, cells in lines])]
        after = page.result()
    for (line, cells), word in zip(lines, words, strict=True):
        if word != cells[-1]:
            stale += 1
            print(f"{cells[2]}: {cells[-1]}, is {word}")
            text = text.replace(line, f"| {' | '.join([*cells[:-1], word])} |")
    if after != before:
        stale += 1
        print(f"{MODEL.name}: what validate finds has changed")
    if stale and not check:
        PAGE.write_text(text)
        MODEL.write_text(after)
    return int(check and stale > 0)


if __name__ == "__main__":
    sys.exit(main())
