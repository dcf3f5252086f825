"""How each paper measured, and what repeats it: one file a paper in data/studies.

A file holds the paper's figures and tables by their own numbers, the conditions of each, the public originals of its
programs, and lines: a call that measures the same, and where the call differs from the paper.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import field

from firsttouch.base.errors import unknown
from firsttouch.records.papers.files import read
from firsttouch.records.schema import Struct

PAPERS = ("mi300a-upm", "mi300a-node", "grace-hopper", "integrated-2017", "cuda-um-2019")
"""The papers that have lines, in the order of docs/reproduce.md."""


class StudiedMemory(Struct):
    """compared: the memories that are compared. baseline: what they are compared to. start: who writes or touches them
    first. gpu_only: buffers that only the GPU uses.
    """

    compared: list[str] = []
    baseline: str = ""
    start: str = ""
    gpu_only: str = ""


class Conditions(Struct):
    """Under which conditions a paper measured, in our words and without results. What it does not state is empty.

    sizes: by what they are the sizes of, which is '' for all. timed: what the clock or counter spans. axes: of a
    figure: x, y, and its series. left_open: what the text leaves open.
    """

    machine: str = ""
    agents: str = ""
    programs: list[str] = []
    memory: StudiedMemory = field(default_factory=StudiedMemory)
    sizes: dict[str, str] = {}
    repetitions: str = ""
    processes: str = ""
    switches: dict[str, str] = {}
    oversubscription: str = ""
    timed: str = ""
    tool: str = ""
    left_open: list[str] = []
    axes: dict[str, str] = {}


class StudiedPart(Struct):
    """A figure, a table or a section. shows: what, in a few words; '' for a section. measured: false for a drawing or a
    listing without results.
    """

    id: str
    shows: str = ""
    measured: bool = True
    conditions: Conditions = field(default_factory=Conditions)


class Original(Struct):
    """The public source of a program, which may differ from what the paper ran. of_paper: whether the paper names it.

    Numbers in the other fields are lines of `file`.
    """

    repository: str
    commit: str = ""
    file: str = ""
    run: str = ""
    cpu_initialises: list[str] = []
    gpu_initialises: list[str] = []
    copied_back: list[str] = []
    gpu_only: list[str] = []
    per_iteration: str = ""
    timed: str = ""
    advice: str = ""
    prefetch: str = ""
    note: str = ""
    of_paper: bool = False


class StudyLine(Struct):
    """What repeats a part of a paper.

    where: figures, tables and sections. what: it measures. command: the call, or '' with the reason in `no_command`.
    machines: as docs/reproduce.md names them. ran: on what the same ran here. modelled: what is predicted of it.
    stated: what the paper states of factors and parameters of the call, in the words of a call. differs: which of these
    are otherwise in the call, and why. assumed: what the paper leaves open, how it is read here, and what else it could
    be.
    """

    where: list[str]
    what: str
    machines: list[str]
    command: str = ""
    no_command: str = ""
    ran: list[str] = []
    modelled: str = ""
    stated: dict[str, str] = {}
    differs: dict[str, str] = {}
    assumed: dict[str, str] = {}

    @property
    def words(self) -> list[str]:
        """Those of the call after `firsttouch`."""
        words = shlex.split(self.command)
        return words[words.index("firsttouch") + 1 :]

    @property
    def environment(self) -> dict[str, str]:
        """The variables that stand before the call."""
        words = shlex.split(self.command)
        return dict(word.split("=", 1) for word in words[: words.index("firsttouch")])


class Study(Struct):
    """A paper's parts, originals and lines. common: conditions of all parts; those of a part stand in their place."""

    common: Conditions
    parts: list[StudiedPart]
    originals: dict[str, Original]
    lines: list[StudyLine]

    def part(self, name: str) -> StudiedPart | None:
        return next((part for part in self.parts if part.id == name), None)

    def lines_of(self, name: str) -> list[StudyLine]:
        """The lines of a figure, a table or a section."""
        return [line for line in self.lines if name in line.where]

    @property
    def names(self) -> list[str]:
        """The figures, tables and sections that have lines, in the order of the lines."""
        return list(dict.fromkeys(name for line in self.lines for name in line.where))


@cache
def studies() -> Mapping[str, Study]:
    """The studies by the names of their papers."""
    return {paper: read(f"studies/{paper}.json", Study) for paper in PAPERS}


def study_of(paper: str) -> Study:
    """Raises UsageError if no paper has that name."""
    found = studies().get(paper)
    if found is None:
        raise unknown("paper", paper, PAPERS)
    return found


MODELS: Mapping[str, Sequence[str]] = {
    "MI300A": ("mi300a",),
    "MI300A XNACK": ("mi300a",),
    "node": ("mi300a-node",),
    "MI250X": ("mi250x",),
    "GH200": ("gh200",),
    "TK1": ("tk1",),
    "Kaveri": ("kaveri",),
    "Kaveri HSA": ("kaveri@driver.ats=on",),
    "Pascal": ("intel-pascal",),
    "Volta": ("intel-volta",),
    "Power 9": ("p9-volta",),
}
"""The platform files of each machine that lines name; of "any", the first that other lines of the paper name."""

_REFERENCE = re.compile(r"\[[0-9]+\]")


def models_of(paper: str, line: StudyLine) -> list[str]:
    """The platform files of the machines of a line."""
    named = [*line.machines, *(name for each in study_of(paper).lines for name in each.machines)]
    known = [name for name in named if name in MODELS]
    return [model for name in known[: max(1, sum(name in MODELS for name in line.machines))] for model in MODELS[name]]


_KINDS = {"fig": "Fig.", "figure": "Fig.", "table": "Table", "sec": "Sec.", "section": "Sec."}
_NAME = re.compile(r"([a-z]+)?[.\s]*([0-9ivx][0-9a-z.-]*)", re.IGNORECASE)
_NUMBERS = re.compile(
    r"Fig\.|Table|Sec\.|Observation|(?<![\w.-])(?:[0-9]+(?:\.[0-9]+)*|[IV]+(?:[.-][0-9A-D]+)*)(?![\w-])"
)


def named_part(paper: str, text: str) -> str:
    """The figure, table or section that a user means: 'Fig. 3' for '3', 'fig3' and 'figure 3'.

    Raises:
        UsageError: no line of the paper repeats it.
    """
    names = study_of(paper).names
    matched = _NAME.fullmatch(text.strip())
    kind = _KINDS.get((matched[1] or "fig").casefold(), matched[1]) if matched else ""
    wanted = (f"{kind} {matched[2]}" if matched else text.strip()).casefold()
    for name in names:
        if name.casefold() == wanted:
            return name
    raise unknown("figure", text, [name for name in names if not name.startswith("Sec.")] if names else [])


def parts_in(text: str) -> list[str]:
    """The figures, tables and sections that a text names: of 'Sec. 2.1, 3, Table 1' three."""
    found, kind = [], ""
    for word in _NUMBERS.findall(_REFERENCE.sub("", text)):
        if word in ("Fig.", "Table", "Sec.", "Observation"):
            kind = word
        elif kind:
            found.append(f"{kind} {word}")
    return found
