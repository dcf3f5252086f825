"""Reads published rows of a user's own file, in the format of papers/data."""

from __future__ import annotations

from pathlib import Path

import msgspec

from firsttouch.apps import all_apps
from firsttouch.base.errors import did_you_mean
from firsttouch.comparison.papers.comparisons import values_of
from firsttouch.experiments import all_experiments
from firsttouch.machine.switches import SWITCHES
from firsttouch.model.documents import JsonFile, JsonPath, open_document, place_of
from firsttouch.records.codebook import codebook_of
from firsttouch.records.papers.files import MEDIAN
from firsttouch.records.papers.rows import APPLICATIONS, Correspondence, Paper, PaperRow, papers


class RowsFile:
    """The rows of a file.

    name: of the paper, which is that of the file. Raises UsageError: it cannot be read, or something in it is wrong,
    with the line.
    """

    def __init__(self, path: Path) -> None:
        file = open_document(path, str(path), "a file of published rows")
        try:
            self.paper = msgspec.convert(file.value, Paper)
        except msgspec.ValidationError as error:
            file.fail(*place_of(error, Paper))
        self.name, row_ids = path.stem, set[str]()
        for i, row in enumerate(self.paper.rows):
            if row.platform not in self.paper.platforms:
                file.fail(("rows", i, "platform"), f"'{row.platform}' is none of the file's platforms")
            if row.id in row_ids:
                file.fail(("rows", i, "id"), f"'{row.id}' stands twice")
            row_ids.add(row.id)
            if row.here is not None:
                _check_correspondence(file, ("rows", i, "here"), row.here)
        for name, platform in self.paper.platforms.items():
            if unknown := [member for member in platform.members if member not in self.paper.platforms]:
                file.fail(("platforms", name, "members"), f"'{unknown[0]}' is none of the file's platforms")
        if not self.paper.rows:
            file.fail(("rows",), "there are no rows")
        if not any(row.here for row in self.paper.rows):
            file.fail(("rows",), "no row says under 'here' which measurement it corresponds to")
        _take_models(self.name, self.paper)

    @property
    def rows(self) -> list[PaperRow]:
        return [
            PaperRow(
                **{field: getattr(row, field) for field in row.__struct_fields__},
                paper=self.name,
                machine=self.paper.platforms[row.platform].name,
            )
            for row in self.paper.rows
        ]


def _check_correspondence(file: JsonFile, place: JsonPath, here: Correspondence) -> None:
    """Checks that there is such a measurement, with such factors and counters."""
    experiment, book = here.experiment, codebook_of(here.experiment)
    if experiment not in (experiment_names := [APPLICATIONS, *all_experiments()]):
        file.fail(
            (*place, "experiment"), f"there is no experiment '{experiment}'{did_you_mean(experiment, experiment_names)}"
        )
    if experiment == APPLICATIONS:
        named = values_of(here.factors.get("app", []))
        if unknown := [str(app) for app in named if app not in all_apps()] or ([] if named else [""]):
            text = f"there is no application '{unknown[0]}'{did_you_mean(unknown[0], all_apps())}"
            file.fail((*place, "factors"), text if named else 'an application is missing, as in "app": "srad"')
    elif book.factors and not book.open:
        accepted = [*book.factors, *SWITCHES]
        for name in (*here.factors, *here.relative_to):
            if name not in accepted:
                file.fail((*place, "factors"), f"{experiment} has no factor '{name}'{did_you_mean(name, accepted)}")
    if here.metric != MEDIAN and book.counters and not book.knows(here.metric):
        file.fail((*place, "metric"), f"{experiment} has no counter '{here.metric}'")


def _take_models(name: str, paper: Paper) -> None:
    """A further file of a known paper is about the same machines."""
    known_platforms = papers()[name].platforms if name in papers() else {}
    for key, platform in paper.platforms.items():
        if not platform.model and key in known_platforms:
            platform.model = known_platforms[key].model
