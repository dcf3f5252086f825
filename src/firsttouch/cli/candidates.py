"""What may stand at a place of a command line, for the completion by shells: each candidate with a few words about it.

Shells wait for the answer, so that neither experiments nor devices are loaded: names come from the text of modules,
factors from the codebook, devices from what the system lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from firsttouch.base.errors import UsageError

Candidates: TypeAlias = Mapping[str, str]
Given: TypeAlias = Mapping[str, Sequence[str]]
"""The values of a call so far, by parameter."""
_PACKAGE = Path(__file__).parents[1]
_APP = "app"
"""The entry of the codebook for what all applications have in common."""


def _named_classes(folders: Sequence[str], about: str, options: Given) -> Candidates:
    """The classes in the modules of some folders and of --module that have a name. about: the attribute that describes
    them.
    """
    texts = {}
    module_files = [Path(name).expanduser() for name in options.get("module", ())]
    packaged = [file for folder in folders for file in sorted((_PACKAGE / folder).glob("*.py"))]
    for file in [*packaged, *filter(Path.is_file, module_files)]:
        for part in file.read_text(encoding="utf-8", errors="replace").split("\nclass ")[1:]:
            if name := re.search(r'^    name = "([^"]+)"', part, re.MULTILINE):
                text = re.search(rf'^    {about} = "([^"]+)"', part, re.MULTILINE)
                texts[name[1]] = text[1] if text else ""
    return dict(sorted(texts.items()))


def experiments(options: Given, text: str) -> Candidates:
    return _named_classes(("experiments", "apps/port_programs"), "question", options)


def applications(options: Given, text: str) -> Candidates:
    return _named_classes(("apps",), "pattern", options)


def devices(options: Given, text: str) -> Candidates:
    """The devices of the results that the call names, or else those that the system lists."""
    from firsttouch.machine.backends import MODEL, listed_devices
    from firsttouch.machine.tree import Tree
    from firsttouch.records.reading import read_document
    from firsttouch.records.schema import Machine

    stored = {}
    for directory in options.get("directories", ()):
        with suppress(UsageError, OSError):
            machine = read_document(Path(directory), "machine.json", Machine)
            stored.update({d.name: d.title for d in machine.devices if d.available} if machine else {})
    if stored:
        return stored
    if text.startswith(MODEL):
        return {f"{MODEL}:{name}": "" for name in platforms(options, text)}
    return {**dict.fromkeys(listed_devices(Tree()), ""), f"{MODEL}:": "a machine that a platform file describes"}


def platforms(options: Given, text: str) -> Candidates:
    from firsttouch.model.platform_files import platform_names

    return dict.fromkeys(platform_names(), "")


def platform_values(options: Given, text: str) -> Candidates:
    """NAME= for each value that has one name, or after the equals sign the words that it may be."""
    from firsttouch.model.parameters import PARAMETERS

    single = [parameter for parameter in PARAMETERS if not parameter.is_pattern]
    words = {p.name: ("on", "off") if p.dimension == "flag" else p.words for p in single}
    if "=" in text:
        return _assignments({name: dict.fromkeys(parameter, "") for name, parameter in words.items()}, options, text)
    return {f"{parameter.name}=": parameter.says for parameter in single}


def allocators(options: Given, text: str) -> Candidates:
    from firsttouch.machine.allocators.semantics import SEMANTICS

    return {name: row.call for name, row in SEMANTICS.items()}


def strategies(options: Given, text: str) -> Candidates:
    from firsttouch.program.strategies import STRATEGIES

    return {name: strategy.meaning for name, strategy in STRATEGIES.items()}


def presets(options: Given, text: str) -> Candidates:
    from firsttouch.engine.choices import BUDGETS

    return {name: f"within {budget.tolerance:.1%}" for name, budget in BUDGETS.items()}


def patterns(options: Given, text: str) -> Candidates:
    from firsttouch.program.patterns import PATTERNS

    return dict.fromkeys(PATTERNS, "")


def formats(options: Given, text: str) -> Candidates:
    from firsttouch.cli.report import FORMATS

    return dict.fromkeys(FORMATS, "")


def movements(options: Given, text: str) -> Candidates:
    from firsttouch.experiments.analysis.fastest_interfaces import KINDS

    return dict.fromkeys((kind.name for kind in KINDS), "")


def sizes(options: Given, text: str) -> Candidates:
    return {
        "tiny": "for tests",
        "default": "the original's",
        "in-memory": "what the device has room for",
        "oversubscribed": "more than that",
    }


def sides(options: Given, text: str) -> Candidates:
    """Published results; before their first letter a shell offers directories instead."""
    from firsttouch.comparison.sides import PUBLISHED
    from firsttouch.records.papers.rows import side_names

    return (
        {PUBLISHED + name: "" for name in side_names()} if text and PUBLISHED.startswith(text[: len(PUBLISHED)]) else {}
    )


def _factors(names: Sequence[str]) -> dict[str, Candidates]:
    """The factors of experiments with the words that they accept."""
    codebooks = json.loads((_PACKAGE / "records/codebook.json").read_bytes())
    chosen = [codebooks[name] for name in names if name in codebooks] or [
        book for name, book in codebooks.items() if name != _APP
    ]
    factors: dict[str, Candidates] = {}
    for book in chosen:
        for name, words in book.get("factors", {}).items():
            factors[name] = {**factors.get(name, {}), **words}
    return factors


_OF_FACTORS: Mapping[str, Callable[[Given, str], Candidates]] = {
    "allocator": allocators,
    "app": applications,
    "other": allocators,
    "peer": devices,
    "source": allocators,
    "strategy": strategies,
    "target": allocators,
}
"""The values of factors that are names of something else."""


def papers(options: Given, text: str) -> Candidates:
    from firsttouch.records.papers.rows import authors
    from firsttouch.records.papers.studies import PAPERS

    return {paper: authors(paper) for paper in PAPERS}


def figures(options: Given, text: str) -> Candidates:
    """The numbers of a paper's figures; tables have names of two words, which no shell completes."""
    from firsttouch.records.papers.studies import studies

    study = studies().get("".join(options.get("paper", ())))
    named = {part.id: part.shows for part in study.parts} if study else {}
    return {name.removeprefix("Fig. "): shows for name, shows in named.items() if name.startswith("Fig. ")}


def factors(options: Given, text: str) -> Candidates:
    return _assignments(_factors(options.get("experiments", ())), options, text)


def application_factors(options: Given, text: str) -> Candidates:
    words_by_factor = _factors([_APP])
    if "=" in text:  # as this takes twice as long
        from firsttouch.harness.exchanging import FACTORS, OPTIONS
        from firsttouch.harness.experiment import SETTINGS

        declared = {factor.name: factor.choices or factor.values for factor in (*SETTINGS.values(), *FACTORS)} | OPTIONS
        words_by_factor = {
            name: words or {str(v): "" for v in declared.get(name, ())} for name, words in words_by_factor.items()
        }
    return _assignments(words_by_factor, options, text)


def settings(options: Given, text: str) -> Candidates:
    from firsttouch.program.patterns import SETTINGS

    return _assignments({name: {} for name in SETTINGS}, options, text)


def _assignments(words_by_name: Mapping[str, Candidates], options: Given, text: str) -> Candidates:
    """NAME= for each factor, or after the equals sign NAME=V1,V2 for each value that is not there yet."""
    name, equals, values = text.partition("=")
    if not equals:
        return {f"{factor}=": ", ".join(words) for factor, words in words_by_name.items()}
    before, comma, _ = values.rpartition(",")
    words = words_by_name.get(name) or (_OF_FACTORS[name](options, "") if name in _OF_FACTORS else {})
    return {f"{name}={before}{comma}{word}": about for word, about in words.items() if word not in before.split(",")}


def shells(options: Given, text: str) -> Candidates:
    from firsttouch.cli.shells import SCRIPTS

    return dict.fromkeys(SCRIPTS, "")


def schemas(options: Given, text: str) -> Candidates:
    from firsttouch.cli.schemas import schemas

    return {name: schema.of for name, schema in schemas().items()}


VALUES: Mapping[str, Callable[[Given, str], Candidates]] = {
    "app": applications,
    "device": devices,
    "experiments": experiments,
    "figure": figures,
    "form": formats,
    "kind": movements,
    "names": applications,
    "paper": papers,
    "pattern": patterns,
    "preset": presets,
    "relative_to": strategies,
    "sets": factors,
    "shell": shells,
    "sides": sides,
    "size": sizes,
    "strategy": strategies,
    "what_if": platform_values,
    "platforms name": platforms,
    "validate names": platforms,
    "app sets": application_factors,
    "advise sets": settings,
    "schema name": schemas,
}
"""By parameter, or by command and parameter where it means something else there. Others take what a shell offers
itself, the names of files.
"""
