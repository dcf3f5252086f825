"""Judges platforms: by published rows and claims, and by applications that were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from firsttouch.base.errors import UsageError
from firsttouch.comparison.validation.measured import judged_by_runs
from firsttouch.comparison.validation.origins import Origins, values_of
from firsttouch.comparison.validation.points import PlatformPoints
from firsttouch.comparison.validation.published import validated_claim, validated_row
from firsttouch.comparison.validation.results import (
    RowRole,
    ValidatedPlatform,
    ValidatedRow,
    Validation,
    ValidationOutcome,
    error_summary,
    held_names,
    independent_figures,
)
from firsttouch.comparison.validation.rows_file import RowsFile
from firsttouch.comparison.validation.targets import figures_of
from firsttouch.comparison.validation.tried import judged_by_tries
from firsttouch.comparison.validation.wording import measured_sentences, platform_sentences, summary_of
from firsttouch.model.platform import Platform, platform_names, platform_of
from firsttouch.records.papers.claims import Across, PaperClaim, all_claims
from firsttouch.records.papers.rows import Paper, PaperRow, all_rows, models_of, papers, stated_value
from firsttouch.records.text import join_names

FILE = files("firsttouch.comparison.validation") / "data" / "wrong.json"
"""Why predictions are wrong, by platform and row or claim."""
FREE = ("fitted", "assumed")
"""How values are known that nothing outside of the model determines."""
_FIRST: Mapping[ValidationOutcome, int] = {"wrong": 0, "open": 1, "right": 2, "not predicted": 3}


def validated_platforms(names: Sequence[str], rows_file: Path | None = None) -> list[ValidatedPlatform]:
    """The platforms that are named, or all of the program's with published rows; judged by the rows of a file, or by
    all that the papers state.

    Raises:
        UsageError: there is no such platform, the file is wrong, or nothing is published about a platform.
    """
    platforms = [platform_of(name) for name in dict.fromkeys(names or platform_names())]
    file = RowsFile(rows_file) if rows_file is not None else None
    validated = []
    for platform in platforms:
        rows, claims = _rows_of_file(file, platform, bool(names)) if file else _rows_of_papers(platform)
        if rows or claims:
            validated.append(validated_platform(platform, rows, claims))
        elif names:
            raise UsageError(_nothing_to_validate(platform, file))
    if not validated:
        raise UsageError(_nothing_to_validate(None, file))
    return validated


def _rows_of_papers(platform: Platform) -> tuple[list[PaperRow], list[PaperClaim]]:
    """What the papers state about a platform."""
    about = {row.name for row in all_rows() if platform.name in models_of(papers()[row.paper], row.platform)}
    rows = [row for row in all_rows() if row.name in about and stated_value(row) is not None]
    return rows, [c for c in all_claims() if about.intersection(c.rows) and _is_judged_on(c, platform)]


def _is_judged_on(claim: PaperClaim, platform: Platform) -> bool:
    """Whether a claim counts for a platform: one about several counts once, for those that the others are told from."""
    return not isinstance(claim.test, Across) or platform.name in claim.test.than_on


def _rows_of_file(file: RowsFile, platform: Platform, named: bool) -> tuple[list[PaperRow], list[PaperClaim]]:
    """The rows of a file about a platform; those about its only machine, if the call names the platform."""
    only = named and len(file.paper.platforms) == 1
    return [row for row in file.rows if only or platform.name in models_of(file.paper, row.platform)], []


def _nothing_to_validate(platform: Platform | None, file: RowsFile | None) -> str:
    """Why there is nothing to validate."""
    name = platform.name if platform else "any platform"
    if file is not None:
        return f"no row of {file.name} is about {name}; its rows are about {join_names(_model_names([file.paper]))}"
    return f"the papers state nothing about {name}; they do about {join_names(_model_names(papers().values()))}"


def _model_names(some: Iterable[Paper]) -> list[str]:
    return sorted({m for paper in some for row in paper.rows if row.here for m in models_of(paper, row.platform)})


def validated_platform(platform: Platform, rows: Iterable[PaperRow], claims: Iterable[PaperClaim]) -> ValidatedPlatform:
    """A platform, judged by rows and claims."""
    points, origins = PlatformPoints(platform), Origins(platform)
    of_rows = [validated_row(each, points, origins) for each in rows]
    of_claims = [validated_claim(claim, points, origins) for claim in claims]
    reasons = why_wrong().get(platform.name, {}) if not platform.changes else {}
    named = [*((row.row, row) for row in of_rows), *((claim.id, claim) for claim in of_claims)]
    for name, entry in named:
        if entry.outcome == "wrong":
            entry.reason = reasons.get(name, "")
    values = [*values_of(platform)]
    roles: tuple[RowRole, ...] = ("input", "fitted")
    return ValidatedPlatform(
        platform="@".join([platform.name, *platform.changes]),
        title=platform.title,
        digest=platform.digest,
        figures=independent_figures(of_rows, of_claims),
        values=len(values),
        free=sum(value.entry.how in FREE for value in values),
        held=len(held_names(of_rows, of_claims)),
        open=sum(claim.outcome == "open" for claim in of_claims),
        compared={
            role: error_summary(row.factor for row in of_rows if row.role == role and row.ratio is not None)
            for role in roles
        },
        sentences=[],
        rows=sorted(of_rows, key=_worst_row_first),
        claims=sorted(of_claims, key=lambda claim: _FIRST[claim.outcome]),
    )


@cache
def why_wrong() -> Mapping[str, Mapping[str, str]]:
    """Why predictions are wrong, by platform and row (PAPER/ID) or claim."""
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, dict[str, str]])


def _worst_row_first(row: ValidatedRow) -> tuple[int, float]:
    return _FIRST[row.outcome], -row.factor if row.ratio is not None else 0.0


def validation(
    names: Sequence[str],
    rows_file: Path | None,
    directories: Sequence[Path],
    tried: Sequence[Path] = (),
    prices: Path | None = None,
) -> Validation:
    """Judges platforms by what is published, or by applications that were measured if directories are given; or advice
    about traced programs, if those of `firsttouch try` are. prices: the results by which that is predicted anew.

    Raises:
        UsageError: as validated_platforms, judged_by_runs and judged_by_tries.
    """
    given = {"--rows": rows_file, "--measured": directories, "--tried": tried}
    if len(several := [name for name, value in given.items() if value]) > 1:
        raise UsageError(f"{join_names(several)} were given; judge by one of them")
    if prices is not None and not tried:
        raise UsageError("--prices predicts what was tried; name that with --tried DIR")
    if tried and names:
        raise UsageError(f"--tried judges advice about programs, not platforms; leave out {join_names(names)}")
    if tried or directories:
        measured = [judged_by_tries(tried, prices)] if tried else judged_by_runs(names, directories)
        for judged in measured:
            judged.sentences = [*measured_sentences(judged)]
        heads = [f"{judged.platform}: " if judged.platform else "" for judged in measured]
        summary = " ".join(f"{head}{judged.sentences[0]}" for head, judged in zip(heads, measured, strict=True))
        return Validation(summary=summary, platforms=[], measured=measured)
    platforms = validated_platforms(names, rows_file)
    for platform in platforms:
        platform.sentences = [*platform_sentences(platform)]
    return Validation(summary=summary_of(platforms), figures=figures_of(platforms), platforms=platforms)
