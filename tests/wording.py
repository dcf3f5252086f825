"""Writes tests/report/wording.txt, the sentences that runs and claims are told in: make wording"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from string import Formatter
from tempfile import TemporaryDirectory

from msgspec.structs import replace
from tests.experiments.fake_records import a_record
from tests.predicted import write_predicted

from firsttouch import experiments, harness
from firsttouch.apps.port_programs import port_programs
from firsttouch.apps.port_programs.program import FORMS
from firsttouch.records.findings import Claim, Finding
from firsttouch.records.reading import load_results
from firsttouch.report.conclusions import Conclusions, conclusions
from firsttouch.report.first_screen import FirstScreen
from firsttouch.report.sentences import sentences

FILE = Path(__file__).with_name("report") / "wording.txt"
RESULTS = Path(__file__).parents[1] / "results"
INTRODUCTION = """\
What runs and claims are told in; other tests assert what a finding has, not what it says. Written by: make wording

The first screens of the runs in results/ come first. Then come all claims by their ids: each in a sentence of the
first of these runs that shows it, or with its placeholders if none does. Of texts that are made for a finding, as
those of advice are, one stands for all.
"""


def generated() -> str:
    runs = {path.name: conclusions(load_results(path)) for path in sorted(RESULTS.iterdir())}
    with TemporaryDirectory() as folder:
        predicted = write_predicted(RESULTS / "h200-quick", Path(folder) / "out")
        runs["h200-quick as if predicted"] = conclusions(load_results(predicted))
    screens = [_block(f"First screen of {name}", _lines_of(run.screen)) for name, run in runs.items()]
    return "\n".join([INTRODUCTION, *screens, *(_block(name, lines) for name, lines in _claims(runs).items())])


def _block(title: str, lines: Iterable[str]) -> str:
    return "".join([f"{title}\n", *(f"    {line}\n" for line in lines)])


def _lines_of(screen: FirstScreen) -> Iterator[str]:
    yield from [screen.title, *screen.absent, screen.predicted] if screen.predicted else [screen.title, *screen.absent]
    for heading, texts in screen.advice_by_ground:
        yield from (f"{heading}: {text}" for text in texts)
    yield from (f"{number.head}: {number.text}" for number in screen.numbers)
    yield from filter(None, [screen.message, *screen.left_out, screen.measured_on, screen.conditions_text])


def _claims(runs: Mapping[str, Conclusions]) -> dict[str, list[str]]:
    """Lines by the ids of claims."""
    findings = [(f"{name}: ", finding) for name, run in runs.items() for finding in _findings(run)]
    findings += [("", finding) for finding in (*map(_with_placeholders, _declared()), *_of_port_programs())]
    lines: dict[str, dict[object, str]] = {}
    for name, finding in findings:
        claim = finding.claim
        texts = (claim.head, claim.text) if "{" in claim.text else ()
        lines.setdefault(claim.id, {}).setdefault(texts, name + sentences([finding])[0])
    return {claim: sorted(lines[claim].values()) for claim in sorted(lines)}


def _findings(run: Conclusions) -> Iterator[Finding]:
    yield from run.screen.findings
    yield from (advice.finding for advice in run.screen.advice)
    yield from (finding for part in run.answers for finding in part.answer.findings)


def _declared() -> Iterator[Claim]:
    """All claims that modules of experiments and of applications have."""
    for package in (experiments, harness):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield from _claims_in(vars(import_module(module.name)).values())


def _claims_in(values: Iterable[object]) -> Iterator[Claim]:
    for value in values:
        if isinstance(value, Claim):
            yield value
        elif isinstance(value, tuple):
            yield from _claims_in(value)
        elif isinstance(value, dict):
            yield from _claims_in(value.values())


def _with_placeholders(claim: Claim) -> Finding:
    names = {name for text in (claim.head, claim.text) for _, name, *_ in Formatter().parse(text) if name}
    return Finding(claim, "<value>", {name: f"<{name}>" for name in names}, ())


def _of_port_programs() -> Iterator[Finding]:
    """Of made-up records, since no run in results/ has these programs."""
    for name, program in port_programs().items():
        records = [replace(a_record("migration", 1.0 + n, {"form": form}), experiment=name)
                   for n, form in enumerate(FORMS)]  # fmt: skip
        yield from program.findings(records, None)
        yield from program.findings(records[:1], None)


if __name__ == "__main__":
    FILE.write_text(generated())
