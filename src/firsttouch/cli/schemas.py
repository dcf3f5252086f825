"""The JSON Schemas of everything that is printed with --json and stored: `firsttouch schema` and docs/schemas.

They are made of the types. An object may have further fields, which later versions of firsttouch add. What commands
print has the name and the version of its schema in `schema`: 'firsttouch-compare/1'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import msgspec

from firsttouch.advice.tried.findings import TryFindings
from firsttouch.base.errors import unknown
from firsttouch.base.examples import Example
from firsttouch.base.outputs import INFINITE, Output
from firsttouch.cli.declaration import DECLARED
from firsttouch.engine.methods import Cell
from firsttouch.harness.outcomes.explanations import Explanation
from firsttouch.harness.outcomes.placements import RankedPlacement
from firsttouch.harness.outcomes.report import PointSummary
from firsttouch.profile.schema import Layer
from firsttouch.profile.summary import ProfileSummary
from firsttouch.records.schema import MAJOR, DeviceInfo, Library, Scalar
from firsttouch.report.sentences import WordedFinding

DRAFT = "https://json-schema.org/draft/2020-12/schema"


class MachineOutput(Output, frozen=True, kw_only=True, tag="firsttouch-machine/1"):
    """What `firsttouch machine --json` prints: the fields of machine.json."""

    host: str
    created: str
    facts: Mapping[str, Mapping[str, Scalar]]
    devices: Sequence[DeviceInfo]
    libraries: Sequence[Library]
    warnings: Sequence[str]


class MethodsOutput(Output, frozen=True, kw_only=True, tag="firsttouch-methods/1"):
    """What `firsttouch methods --json` prints: a cell for each property of each allocator on each device."""

    cells: Sequence[Cell]


class RunOutput(Output, frozen=True, kw_only=True, tag="firsttouch-run/1"):
    """What `firsttouch run --json` prints, about everything that the directory holds.

    report: the path of the page, null if none was drawn. counts: points by status. unverified: points whose data were
    wrong. suspect: points by the rule that they break. disturbed: points that other programs disturbed. seconds: how
    long the call took. title: the hardware. conditions: what distorts the values. measured_on: a sentence on
    points that were measured on one GPU for equal ones, or ''. absent: sentences on devices that are missing.
    predicted: that all of it is predicted, and what is not modelled; '' of measurements. findings: those of the first
    screen come first.
    """

    directory: str
    report: str | None
    counts: Mapping[str, int]
    unverified: int
    suspect: Mapping[str, int]
    disturbed: int
    seconds: float
    title: str
    conditions: Sequence[str]
    measured_on: str
    absent: Sequence[str]
    predicted: str
    findings: Sequence[WordedFinding]


class AppOutput(RunOutput, frozen=True, kw_only=True, tag="firsttouch-app/1"):
    """What `firsttouch app --json` prints: as `run`, with a row for each point, and rankings of placements.

    explanations: with --explain, why predicted times are what they are.
    """

    applications: Sequence[PointSummary]
    placements: Sequence[RankedPlacement]
    explanations: Sequence[Explanation] = ()


class ReportedDirectory(msgspec.Struct, kw_only=True):
    """A directory that a report is about. title: its hardware."""

    directory: str
    title: str


class ReportedFinding(WordedFinding, kw_only=True):
    """A finding with its directory."""

    directory: str


class ReportOutput(Output, frozen=True, kw_only=True, tag="firsttouch-report/1"):
    """What `firsttouch report --json` prints.

    report: the path of the page, null for other formats. files: everything that was written. directories, findings: of
    a page of results. summaries: of a page of profiles.
    """

    report: str | None
    files: Sequence[str]
    directories: Sequence[ReportedDirectory]
    findings: Sequence[ReportedFinding]
    summaries: Sequence[ProfileSummary]
    tried: Sequence[TryFindings] = ()


class SourceOutput(msgspec.Struct, kw_only=True):
    """A layer of profiles, or a part of it. sees: what it sees here. why: why it does not, or not all; mend: the line
    to type.
    """

    layer: Layer
    active: bool
    why: str
    mend: str
    sees: str


class SourcesOutput(Output, frozen=True, kw_only=True, tag="firsttouch-profile-sources/1"):
    """What `firsttouch profile --sources --json` prints."""

    sources: Sequence[SourceOutput]


class ExamplesOutput(Output, frozen=True, kw_only=True, tag="firsttouch-examples/1"):
    """What `firsttouch examples --json` prints: where the examples were copied to."""

    directory: str
    examples: Sequence[Example]


class SchemaTitle(msgspec.Struct, kw_only=True):
    """A schema that `firsttouch schema NAME` prints, and what it is of."""

    name: str
    of: str


class FitOutput(Output, frozen=True, kw_only=True, tag="firsttouch-fit/1"):
    """platform: the file that was written. runs: the directories whose prices it has. values: how many it has."""

    platform: str
    runs: list[str]
    values: int


class SchemasOutput(Output, frozen=True, kw_only=True, tag="firsttouch-schema/1"):
    """What `firsttouch schema --json` prints without a name."""

    schemas: Sequence[SchemaTitle]


@dataclass(frozen=True)
class PublishedSchema:
    """of: what the schema is of, in words. place: the type's module and name."""

    of: str
    place: str

    @property
    def type(self) -> Any:
        module, _, name = self.place.partition(":")
        return getattr(import_module(f"firsttouch.{module}"), name)


FILES: Mapping[str, PublishedSchema] = {
    "error": PublishedSchema("every command with --json that could not be carried out", "base.outputs:ErrorOutput"),
    "results.jsonl": PublishedSchema("a line of results.jsonl: a point", "records.schema:Record"),
    "machine.json": PublishedSchema("machine.json: the machine that was measured", "records.schema:Machine"),
    "run.json": PublishedSchema("run.json: the request", "records.schema:Request"),
    "methods.json": PublishedSchema("methods.json: what was verified", "engine.verified:VerifiedMethods"),
    "program.json": PublishedSchema(
        "firsttouch port DIR --program --json, and program.json", "program.program:Program"
    ),
    "profile.jsonl": PublishedSchema("a line of profile.jsonl: what was seen", "profile.schema:AnyLine"),
}
"""By name: of any command, and of the files of a results directory or a profile."""
OF: Mapping[str, str] = {
    "run-list": "firsttouch run --list --json",
    "app-list": "firsttouch app --list --json",
    "profile": "firsttouch profile --json, and profile.json",
    "profile-sources": "firsttouch profile --sources --json",
    "platform-values": "firsttouch platforms --values --json",
    "published-figures": "firsttouch published --figures --json",
}
"""What schemas of commands are of, in words, where it is not `firsttouch NAME --json`."""


def schemas() -> Mapping[str, PublishedSchema]:
    """By name: of commands, which have been declared when this is called, and of files."""
    of_commands = {
        name: PublishedSchema(OF.get(name, f"firsttouch {name} --json"), place)
        for command in DECLARED.values()
        for name, place in command.outputs.items()
    }
    return {**dict(sorted(of_commands.items())), **FILES}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of an output or a file. Raises UsageError for an unknown name."""
    if name not in schemas():
        raise unknown("schema", name, schemas())
    published = schemas()[name]
    (made,), parts = msgspec.json.schema_components([published.type], ref_template="#/$defs/{name}")
    whole = {"$schema": DRAFT, "title": published.of, **_open(made), "$defs": _open(parts)}
    if isinstance(published.type, type):
        own_schema = whole["$defs"][published.type.__name__]
        if issubclass(published.type, Output):
            own_schema["required"] = list(own_schema["properties"])  # all of them are always printed
        elif "enum" not in own_schema["properties"].get("schema", {"enum": []}):
            own_schema["properties"]["schema"]["pattern"] = rf"^firsttouch/{MAJOR}\.[0-9]+$"
    return whole


def _open(part: Any) -> Any:
    """A part of a schema in which objects may have further fields, with descriptions on one line, null for what is
    infinite, and nothing that only some versions of msgspec say.
    """
    if isinstance(part, dict) and part.get(INFINITE) is True:
        return {"type": ["number", "null"]}
    if isinstance(part, dict):
        kept = {key: _open(value) for key, value in part.items() if not _is_left_out(part, key, value)}
        words = kept.get("description")
        return kept | {"description": " ".join(words.split())} if isinstance(words, str) else kept
    return [_open(value) for value in part] if isinstance(part, list) else part


def _is_left_out(part: dict[str, Any], key: str, value: Any) -> bool:
    of_type = isinstance(part.get("type"), str)  # otherwise the keys are names of properties
    by_version = key == "propertyNames" or (key == "default" and value in ([], {}))
    return (key, value) == ("additionalProperties", False) or (of_type and by_version)


def schemas_output() -> SchemasOutput:
    titles = [SchemaTitle(name=name, of=schema.of) for name, schema in schemas().items()]
    return SchemasOutput(summary=f"{len(titles)} schemas: of outputs of --json, and of files.", schemas=titles)
