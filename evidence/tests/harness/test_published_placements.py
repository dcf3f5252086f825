"""The published placements: what um-apps at 5e508f8 calls for its arrays, and what the paper's text says of FDTD3d."""

from __future__ import annotations

import pytest
from tests.kept_runs import stored_run

from firsttouch.apps import all_apps
from firsttouch.harness.placements import factors_of, former_factors, placement_of, why_no_setting
from firsttouch.program.guidance import Guidance
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.codebook import codebook_of
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Factors

APPS = all_apps()
SCRATCH = stored_run("h100-by-iteration") / "srad"
GPU, CPU_TOO, READ = "preferred-gpu", "accessed-by-cpu", "read-mostly"


def guidance(app: str, buffer: str, word: str = "paper", strategy: str = "managed+both") -> Guidance:
    kind = APPS[app]
    (declared,) = (d for d in kind.declarations(kind.sizes["tiny"]) if d.name == buffer)
    return placement_of(kind, Factors({"placement": word})).of(declared, STRATEGIES[strategy])


@pytest.mark.parametrize(
    ("app", "buffer", "advice", "prefetch"),
    [
        ("gemm", "c", {GPU, CPU_TOO}, {"gpu", "cpu"}),  # simpleCUBLASUM_hint_prefetch: d_C
        ("gemm", "a", {GPU, CPU_TOO, READ}, {"gpu"}),
        ("graph500_bfs", "parent", {GPU, CPU_TOO}, {"gpu", "cpu"}),  # bfs_romeo_um_both: d_predecessors
        ("graph500_bfs", "col", {GPU, READ}, {"gpu"}),
        ("conjugate_gradient", "values", {GPU, CPU_TOO, READ}, {"gpu", "cpu"}),  # val
        ("conjugate_gradient", "rhs", {GPU}, {"gpu"}),  # r, into which its CPU writes b
        ("conjugate_gradient", "r", {GPU}, set()),
        ("conjugate_gradient", "x", {GPU, CPU_TOO}, {"cpu"}),
        ("fdtd3d", "cells", set(), {"gpu", "cpu"}),  # input
        ("fdtd3d", "next", {GPU, CPU_TOO}, {"gpu"}),  # device_output
        ("fft_conv_c2c", "data", {READ}, {"gpu"}),
        ("black_scholes", "call", set(), {"gpu", "cpu"}),
    ],
)
def test_a_buffer_has_what_its_array_has_in_um_apps(
    app: str, buffer: str, advice: set[str], prefetch: set[str]
) -> None:
    found = guidance(app, buffer)
    assert ({*found.advice}, {*found.prefetch}) == (advice, prefetch)
    assert guidance(app, buffer, strategy="managed+prefetch").advice == ()
    assert guidance(app, buffer, strategy="managed+advise").prefetch == ()


def test_the_text_prefetches_one_of_two_arrays_and_is_offered_where_it_differs() -> None:
    for buffer in ("cells", "next", "weights"):
        code, text = (guidance("fdtd3d", buffer, word) for word in ("paper", "paper-text"))
        assert code.advice == text.advice
        assert ("gpu" in text.prefetch) == ("gpu" in code.prefetch and buffer != "next")
    offered = {name: "paper-text" in factors_of(app)[0].words() for name, app in APPS.items()}
    assert [name for name, is_offered in offered.items() if is_offered] == ["fdtd3d"]


@pytest.mark.parametrize(
    ("app", "buffer", "word", "on_device"),
    [
        ("srad", "sums", "strategy", True),
        ("srad", "sums", "paper", False),
        ("hotspot", "next", "strategy", False),
        ("hotspot", "next", "paper", True),
        ("hotspot", "temp", "paper", False),
    ],
)
def test_memory_is_as_in_the_published_version_unless_it_is_set(
    app: str, buffer: str, word: str, on_device: bool
) -> None:
    kind = APPS[app]
    (declared,) = (d for d in kind.declarations(kind.sizes["tiny"]) if d.name == buffer)
    assert placement_of(kind, Factors({"placement": word})).on_device(declared) == on_device
    if buffer != "temp":
        single = placement_of(kind, Factors({"placement": word, f"memory.{buffer}": "strategy"}))
        assert not single.on_device(declared)


@pytest.mark.parametrize(
    ("app", "name", "why"),
    [
        ("hotspot", "memory.temp", "the CPU, or a message, uses temp of hotspot too"),
        (
            "srad",
            "scratch",
            "scratch is now memory.BUFFER=device|strategy, of srad for memory.sums, memory.squares",
        ),
        ("cfd", "scratch", "scratch is now memory.BUFFER=device|strategy, of cfd for memory.old, memory.flux"),
        ("hotspot", "memory.nowhere", ""),
    ],
)
def test_why_memory_cannot_be_set(app: str, name: str, why: str) -> None:
    assert why in (found := why_no_setting(APPS[app], name))
    assert bool(found) == bool(why)


def test_older_records_have_the_factors_of_today() -> None:
    assert codebook_of("app").former == former_factors(APPS)
    records = load_results(SCRATCH).records
    assert {(r.factors["memory.diffuses"], "scratch" in r.factors) for r in records} == {("strategy", False)}
