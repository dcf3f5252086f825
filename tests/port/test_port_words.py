"""What `firsttouch port` says: the words of each kind of finding; of programs that nobody here wrote, that each number
has its word, and that only what is seen or likely comes with advice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.port.test_third_party import KNOWN, findings_of
from tests.texts import assert_states

from firsttouch.advice.port.dropped import are_perhaps_needed, needed_copies
from firsttouch.advice.port.places import where
from firsttouch.advice.port.port_findings import (
    CopyCalls,
    FindingCertainty,
    NeededWait,
    PortFindings,
    SavedBytes,
    StepRecord,
)
from firsttouch.advice.port.rule import Coverage, FindingRow, Hazard
from firsttouch.advice.port.rules import all_rules
from firsttouch.advice.port.wording import (
    PAGE,
    UnseenUse,
    headline,
    limit_words,
    unseen_sentences,
    wait_words,
    worded_finding,
)
from firsttouch.cli.ported import MOST_LINES, lines
from firsttouch.profile.reading import read
from firsttouch.profile.recorded import Runtime
from firsttouch.profile.traced import CallLocation
from firsttouch.report.ported import ported_page

LARGE = {"streamcluster", "cfd", "simpleStreams"}
"""Those that take seconds."""
WORD = re.compile(r"\b(exact|assumed|unseen|seen|likely|at most|none)\b")
NAMES = re.compile(r"\S+\.(?:cu|cpp|c|h|tcc|so)\S*|docs/\S+|:\d+|\b[A-Za-z_]+\w*\d\w*")
"""Files, lines, links and names, whose digits are no numbers of this program."""


@pytest.fixture(params=sorted(KNOWN.keys() - LARGE), scope="module")
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PortFindings:
    return findings_of(request.param, tmp_path_factory.mktemp("recorded"))


def test_each_number_on_the_terminal_has_its_word(port: PortFindings):
    shown = lines(port, ["report.html"])
    assert len(shown) <= MOST_LINES
    *paragraphs, last, page = re.split(r"\n(?! )", "\n".join(shown))
    assert last.startswith("next      firsttouch advise RUN --profile ")
    assert page == "report.html"
    entries = [entry for paragraph in paragraphs for entry in re.split(r"\n {10}(?=\S)", paragraph)]
    for entry in entries:
        head = paragraphs[-1].startswith("unseen") and entry in paragraphs[-1]
        assert head or WORD.search(entry) or not re.search(r"\d", NAMES.sub("", entry)), entry


def test_advice_is_given_for_what_is_seen_or_likely_and_a_likely_finding_names_its_innocent_reading(port: PortFindings):
    for finding in port.findings:
        is_counted = finding.certainty != "possible"
        assert bool(finding.strategy) == bool(finding.link) == is_counted
        assert bool(finding.reading) == (finding.certainty == "likely")
    assert all(bool(row.reading) == (row.certainty == "likely") for row in port.needless)


def test_each_number_of_the_page_s_tables_has_its_word(port: PortFindings):
    page = ported_page(read(Path(port.directory)))
    assert page is not None
    tables = {table.anchor: table for table in page.tables}
    for anchor in tables.keys() & {"solve-first", "needless-copies"}:
        assert {row[0] for row in tables[anchor].rows} <= {"seen", "likely", "possible"}
    assert all("exact" in note or "at most" in note for note in tables["unified-memory"].notes[1:2])
    for (step,) in tables["program"].rows:
        used = re.search(r"^ *(?:gpu|cpu|copy) .*\[|reads|writes|updates", step)
        assert not used or re.search(r"\b(exact|assumed)\b", step), step


def test_each_number_of_the_json_has_its_certainty(port: PortFindings):
    data = msgspec.to_builtins(port)

    def walk(value: Any, path: str) -> Iterator[str]:
        for key, part in value.items() if isinstance(value, dict) else ():
            yield from walk(part, f"{path}.{key}" if path else key)
        for part in value if isinstance(value, list | tuple) else ():
            yield from walk(part, path)
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield path

    known = tuple(data["certainties"])
    bare = {path for path in walk(data, "") if not path.startswith((*known, "findings", "needless"))}
    assert bare <= {"pid", "others", "status", "blocks.number", "blocks.place.line"}


def test_each_finding_links_to_a_chapter_of_the_guide():
    text = (Path(__file__).parents[2] / PAGE).read_text()
    chapters = {line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
    assert {rule.chapter for rule in all_rules().values()} <= chapters


SINCE = {"since": ":11", "part": " (32 KiB of 1 MiB compared)"}
WRITER = SINCE | {"writer": "update"}
WORDS: dict[str, dict[str, tuple[dict[str, str], str, str]]] = {
    "concurrent": {
        "written": ({}, "the CPU writes it after a kernel launch that may use it, before the next synchronization", ""),
        "prepared": (
            {},
            "the CPU prepares new data for a buffer that a kernel may still use",
            "the data were prepared before the launch",
        ),
    },
    "free-memory": {
        "asked": ({}, "the program queries the free memory of the device", ""),
        "library": ({}, "a library queries the free memory of the device", ""),
        "allocates": (
            {"share": "80 %"},
            "the program queries the free memory of the device, and the same function then allocates 80 % of it",
            "the sizes do not follow from it",
        ),
    },
    "partial": {
        "h2d": ({}, "only part of a buffer is copied to the device", ""),
        "d2h": ({}, "only part of a buffer is copied back", ""),
        "adjacent": (
            {},
            "two buffers are filled from adjacent host memory, probably parts of one array",
            "they are two arrays that happen to be adjacent",
        ),
    },
    "stack": {
        "blocking": ({}, "harmless as long as its copies are synchronous", ""),
        "ended": ({}, "copied asynchronously, and its function returned before the next synchronization", ""),
        "waited": ({}, "copied asynchronously, and used until the next synchronization", ""),
    },
    "static": {"device": ({}, "of the device", ""), "host": ({}, "of the host", "")},
    "hidden": {
        "container": (
            {},
            "a container of the C++ library touches the memory first",
            "that memory was freed and reused, or the program allocated it itself",
        ),
        "library": (
            {},
            "a library touches the memory first",
            "that memory was freed and reused, or the program allocated it itself",
        ),
    },
    "restoring": {
        "overwritten": (
            WRITER,
            "it copies the bytes of :11 (32 KiB of 1 MiB compared) again, after update overwrote them",
            "the bytes that were not compared differ",
        ),
        "perhaps overwritten": (
            WRITER,
            "it copies the bytes of :11 (32 KiB of 1 MiB compared) again, and update may have overwritten them",
            "that kernel does not write them",
        ),
        "back": (
            SINCE,
            "it copies the bytes of :11 (32 KiB of 1 MiB compared) back again, after the CPU overwrote them",
            "the bytes that were not compared differ",
        ),
    },
}
"""What a finding of each kind and variant says, with its grounds: what happens, and what it is unless."""


@pytest.mark.parametrize("kind", WORDS)
def test_each_finding_says_what_happens_and_what_innocent_reading_remains(kind: str):
    rule = all_rules()[kind]
    said = {}
    for variant, (grounds, _, _) in WORDS[kind].items():
        finding = worded_finding(
            FindingRow(rule, "likely", variant, grounds), lambda step: StepRecord(step=step, t=0.0)
        )
        said[variant] = (grounds, finding.text, finding.reading)
    assert said == WORDS[kind]
    assert rule.words.keys() == WORDS[kind].keys()


@pytest.mark.parametrize(
    ("kind", "variant", "certainty", "runtime", "more"),
    [
        ("stack", "ended", "seen", None, ""),
        ("stack", "ended", "seen", Runtime(api="OpenCL"), ""),
        ("stack", "blocking", "seen", Runtime(api="HIP"), "; an AMD GPU reaches the stack only with XNACK"),
        (
            "static",
            "host",
            "seen",
            Runtime(api="HIP", architecture="gfx90a:sramecc+:xnack-"),
            "; an AMD GPU reaches static variables of the host only with XNACK, which was off",
        ),
        ("static", "device", "seen", Runtime(api="HIP", architecture="gfx90a:xnack-"), ""),
        ("partial", "h2d", "seen", Runtime(api="HIP", architecture="gfx90a:xnack-"), ""),
        (
            "hidden",
            "container",
            "likely",
            Runtime(api="HIP", architecture="gfx942:sramecc+:xnack+"),
            "; an AMD GPU reaches memory of malloc only with XNACK, which was on",
        ),
    ],
)
def test_what_an_amd_gpu_reaches_only_with_xnack_is_said_of_programs_that_use_hip(
    kind: str, variant: str, certainty: FindingCertainty, runtime: Runtime | None, more: str
):
    rule = all_rules()[kind]
    row = FindingRow(rule, certainty, variant, {})
    finding = worded_finding(row, lambda step: StepRecord(step=step, t=0.0), [runtime] if runtime else [])
    assert finding.strategy == rule.strategy + more


@pytest.mark.parametrize(
    ("kind", "coverage", "said"),
    [
        ("concurrent", Coverage(limit="not watched"), "judged by copies only, without --host"),
        (
            "concurrent",
            Coverage(limit="not while kernels ran"),
            "judged by copies only, since no host memory was watched while kernels ran",
        ),
        (
            "concurrent",
            Coverage(limit="partly watched", grounds={"watched": "1", "ranges": "2 ranges"}),
            "1 of 2 ranges of host memory were watched while kernels ran",
        ),
        (
            "hidden",
            Coverage(False, "not sampled"),
            "no first touches were sampled (--faults)",
        ),
        (
            "hidden",
            Coverage(limit="partly sampled", grounds={"unknown": "1", "ranges": "2 ranges"}),
            "1 of 2 ranges of host memory have no sampled first touch",
        ),
    ],
)
def test_how_far_a_hazard_was_looked_for_is_said(kind: str, coverage: Coverage, said: str):
    hazard = all_rules()[kind]
    assert issubclass(hazard, Hazard)
    assert limit_words(hazard, coverage) == said


LESS = "A unified version of p saves at most 3 MiB of 6 MiB at the peak and"


@pytest.mark.parametrize(
    ("copies", "hazards", "said"),
    [
        (
            0,
            0,
            "p copies no buffer between host and device, so a unified version saves nothing; no hazard was found.",
        ),
        (1, 1, f"{LESS} does not need its 1 copy (2 MiB); fix 1 hazard first."),
        (3, 2, f"{LESS} needs none of the 3 copies (2 MiB); fix 2 hazards first."),
    ],
)
def test_the_answer_is_one_sentence(copies: int, hazards: int, said: str):
    saved = SavedBytes(bytes=3 << 20, of=6 << 20, device=3 << 20, host=3 << 20, t=0.0)
    assert headline("p", saved, copies, 2 << 20, hazards, [], partial=False) == said


@pytest.mark.parametrize(("copies", "needed", "said"), [(3, 2, "needs 2 of the 3 copies"), (1, 1, "needs its 1 copy")])
def test_the_answer_counts_the_copies_that_stay(copies: int, needed: int, said: str):
    saved = SavedBytes(bytes=1, of=2, device=1, host=1, t=0.0)
    assert said in headline("p", saved, copies, 2 << 20, 0, needed=needed)


@pytest.mark.parametrize(
    ("unless", "said"),
    [("", "needs none of the 3 copies"), ("the CPU reads the host array again", "needs up to 3 of the 3 copies")],
)
def test_the_answer_depends_on_what_was_not_seen_of_dropped_copies(unless: str, said: str):
    place = CallLocation("main", "/app/p.cu", 7)
    calls = [CopyCalls(fate="dropped", unless=unless, blocks=[0], place=place, copies=3, bytes=1)]
    saved = SavedBytes(bytes=1, of=2, device=1, host=1, t=0.0)
    answer = headline("p", saved, 3, 2, 0, needed=needed_copies(calls), perhaps=are_perhaps_needed(calls))
    assert said in answer


@pytest.mark.parametrize("hazards", [0, 2])
def test_the_answer_counts_the_waits_that_are_needed(hazards: int):
    saved, place = SavedBytes(bytes=1, of=2, device=1, host=1, t=0.0), CallLocation("main", "/app/p.cu", 7)
    wait = NeededWait(before="reads", copy=place, work=place, kernel="k", copies=1, records=[])
    said = headline("p", saved, 3, 2 << 20, hazards, waits=[wait])
    assert ("wait" in said, "no hazard" in said, "fix 2 hazards" in said) == (True, False, hazards > 0)
    assert_states(wait_words(wait), "p.cu:7", "k may still run")


@pytest.mark.parametrize(("line", "counted"), [(7, "1 explicit wait "), (8, "2 explicit waits ")])
def test_a_wait_in_a_template_counts_once(line: int, counted: str):
    """As of fma of HeCBench, whose functions of four types wait at the same lines."""
    saved = SavedBytes(bytes=1, of=2, device=1, host=1, t=0.0)
    places = [CallLocation("f<float>", "/app/p.cu", 7), CallLocation("f<double>", "/app/p.cu", line)]
    waits = [NeededWait(before="reads", copy=p, work=p, kernel="k", copies=1, records=[]) for p in places]
    assert counted in headline("p", saved, 3, 2 << 20, 0, waits=waits)


NOTHING_UNSEEN = UnseenUse(
    pooled=0,
    parts=0,
    named=0,
    unrecorded=0,
    is_exact=False,
    unknown=0,
    launches=5,
    not_compared={},
    unwatched=0,
    unwatched_inputs=0,
    gpus=1,
    strange=0,
    outside=0,
)


@pytest.mark.parametrize(
    ("unseen", "said"),
    [
        ({}, []),
        (
            {"pooled": 1},
            ["the single buffers in 1 memory pool, which is treated as one buffer"],
        ),
        (
            {"pooled": 2},
            ["the single buffers in 2 memory pools, each of which is treated as one buffer"],
        ),
        (
            {"named": 2, "unrecorded": 3},
            ["which bytes of 2 buffers the kernels of 3 launches access (use --exact)"],
        ),
        (
            {"named": 2, "unrecorded": 3, "is_exact": True},
            ["which bytes of 2 buffers the kernels of 3 launches access"],
        ),
        ({"unknown": 1}, ["which buffers 1 of 5 launches access"]),
        ({"not_compared": {"part": 1}}, ["whether 1 repeated copy moved the same bytes again (use --check-copies)"]),
        (
            {"not_compared": {"no sample": 2}},
            [
                "whether 2 repeated copies moved the same bytes again (in a graph, or back without blocking, they are "
                "not compared)"
            ],
        ),
        ({"gpus": 2}, ["which of 2 GPUs a unified buffer would be on: several GPUs are not modelled"]),
        ({"strange": 1}, ["memory that is passed to 1 launch and that no recorded call allocated (pools, VMM)"]),
        ({"outside": 2}, ["2 copies of memory that no recorded call allocated"]),
    ],
)
def test_what_the_profile_cannot_tell_is_said(unseen: dict[str, int], said: list[str]):
    assert [*unseen_sentences(replace(NOTHING_UNSEEN, **unseen))] == said


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("/site-packages/torch/lib/libc10_cuda.so", ["PyTorch"]),
        ("/site-packages/cupy_backends/cuda/api/runtime.so", ["CuPy"]),
        ("/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so", ["JAX"]),
        ("/app/program", []),
    ],
)
@pytest.mark.parametrize("kind", ["pooled", "parts"])
def test_the_allocator_that_is_named_is_the_one_that_allocates(kind: str, file: str, named: list[str]):
    (said,) = unseen_sentences(replace(NOTHING_UNSEEN, **{kind: 1}, pool_files=frozenset({file})))
    assert [name for name in ("PyTorch", "CuPy", "JAX") if name in said] == named


@pytest.mark.parametrize(
    ("function", "source", "file", "named"),
    [
        (
            "xla::gpu::Stream::Memcpy(void*, long)",
            "",
            "/v/site-packages/jax_plugins/x.so+0x9",
            "Stream::Memcpy of jax_plugins",
        ),
        ("", "", "/v/site-packages/jax_plugins/x.so+0x9", "x.so+0x9"),
        ("app::gpu::Stream::copy(void*)", "", "/home/u/app+0x9", "app::gpu::Stream::copy app+0x9"),
        ("step", "/v/site-packages/train/loop.py", "/v/site-packages/train/loop.py", "step loop.py:7"),
    ],
)
def test_a_function_of_a_package_without_lines_is_named_with_it(function: str, source: str, file: str, named: str):
    assert where(CallLocation(function, source, 7 if source else 0, file)) == named
