"""Patterns of memory use: what their settings change, and how wrong ones are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec import to_builtins
from tests.calls import call

from firsttouch.advice.advisor import advise
from firsttouch.advice.output import answer, output
from firsttouch.base.errors import UsageError
from firsttouch.program.patterns import PATTERNS, SETTINGS, program_for, settings_for
from firsttouch.program.program import Launch, Program, Repeat

QUICK = Path(__file__).parents[2] / "results/h200-quick"
MIB, GIB = 2**20, 2**30


def said(pattern: str, **given: object) -> str:
    return PATTERNS[pattern].meaning(settings_for(pattern, None, given))


def launches(program: Program) -> list[Launch]:
    """All launches of the computation, in order."""
    flat: list[Launch] = []
    for item in program.compute:
        body = item.body * item.count if isinstance(item, Repeat) else (item,)
        flat += [launch for launch in body if isinstance(launch, Launch)]
    return flat


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_setting_changes_the_program_and_its_sentence(pattern: str) -> None:
    usual = settings_for(pattern, GIB)
    for name, value in {"kernels": 7, "passes": 3}.items():
        changed = settings_for(pattern, GIB, {name: value})
        assert program_for(pattern, settings=changed) != program_for(pattern, GIB), name
        assert PATTERNS[pattern].meaning(changed) != PATTERNS[pattern].meaning(usual), name
    kernels = [launch for launch in launches(program_for(pattern, GIB)) if launch.agent == "gpu"]
    assert len(kernels) == usual.kernels


@pytest.mark.parametrize("pattern", [name for name in PATTERNS if name not in ("feed", "generate")])
def test_what_the_gpu_initialises_starts_there(pattern: str) -> None:
    program = program_for(pattern, settings=settings_for(pattern, GIB, {"initialises": "gpu"}))
    assert {item.agent for item in program.initialise if isinstance(item, Launch)} == {"gpu"}
    assert program.blocks[0].starts_on == "gpu"
    assert "GPU" in said(pattern, initialises="gpu") or pattern == "alternate"


def test_a_scalar_that_the_cpu_uses_after_each_kernel() -> None:
    given = {"kernels": ["100"], "in": ["1GiB"], "out": ["8"]}
    program = program_for("alternate", settings=settings_for("alternate", None, given))
    by_cpu = [launch.accesses[0] for launch in launches(program) if launch.agent == "cpu"]
    assert [access.end - access.start for access in by_cpu] == [8] * 100
    assert program.nbytes == GIB
    meaning = said("alternate", **given)
    assert re.search("8 B of them .* CPU .*, 100 times$", meaning)


@pytest.mark.parametrize(
    ("pattern", "given", "sizes"),
    [
        ("stream", {"in": "1GiB"}, [GIB, GIB]),
        ("stream", {"in": "1GiB", "out": "64MiB"}, [GIB, 64 * MIB]),
        ("read-many", {"in": GIB, "out": 8}, [GIB, 8]),
        ("generate", {"out": "64MiB"}, [64 * MIB]),
        ("generate", {"in": "1MiB", "out": "64MiB"}, [MIB, 64 * MIB]),
        ("feed", {"out": "1MiB"}, [GIB, MIB]),
        ("iterate", {"out": 0}, [GIB]),
    ],
)
def test_bytes_in_and_out_are_the_sizes_of_buffers(pattern: str, given: Mapping[str, object], sizes: list[int]) -> None:
    program = program_for(pattern, settings=settings_for(pattern, None, given))
    assert [block.nbytes for block in program.blocks] == sizes


@pytest.mark.parametrize(
    ("pattern", "size", "given", "message"),
    [
        ("iterate", None, {"kernel": 3}, "unknown setting of the pattern iterate 'kernel' (did you mean 'kernels'?)"),
        ("feed", None, {"initialises": "gpu"}, "unknown setting of the pattern feed 'initialises'"),
        ("iterate", None, {"initialises": "gpuu"}, "unknown value of initialises 'gpuu' (did you mean 'gpu'?)"),
        ("iterate", GIB, {"in": 3}, "give the size of all buffers or in, not both"),
        ("iterate", None, {"in": "1MiB", "out": "2MiB"}, "out=2 MiB is a part of the 1 MiB of in"),
        ("iterate", None, {"in": 0}, "needs at least a byte of in"),
        ("generate", None, {"out": 0}, "needs at least a byte of out"),
        ("stream", None, {"in": "much"}, "in: 'much' is not a size"),
        ("stream", None, {"in": -1}, "in=-1 is less than zero"),
        ("stream", None, {"in": 1.5}, "in: 1.5 is not a whole number"),
        ("stream", None, {"kernels": "0"}, "kernels=0 is not a whole number from 1"),
        ("stream", None, {"passes": "two"}, "passes=two is not a whole number from 1"),
        ("stream", None, {"kernels": True}, "kernels=True is not"),
        ("stream", None, {"kernels": ["1", "2"]}, "kernels has 2 values; give a single one"),
    ],
)
def test_wrong_settings_are_one_sentence(
    pattern: str, size: int | None, given: Mapping[str, object], message: str
) -> None:
    with pytest.raises(UsageError) as error:
        settings_for(pattern, size, given)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_advice_names_the_settings() -> None:
    sets = {"kernels": 100, "passes": 2, "in": "1GiB", "out": "64MiB", "initialises": "gpu"}
    advice = advise([QUICK], pattern="iterate", sets=sets)
    for setting in ("1 GiB of buffers", "writes data on the GPU", "100 kernels, 2 times in each"):
        assert setting in str(answer(advice)[0])
    assert to_builtins(output(advice))["pattern"] == {
        "name": "iterate",
        "settings": {"kernels": 100, "passes": 2, "in": GIB, "out": 64 * MIB, "initialises": "gpu"},
    }
    with pytest.raises(UsageError, match="kernels is set for"):
        advise([QUICK], app="gemm", sets={"kernels": 3})


def test_the_help_and_the_page_name_every_setting() -> None:
    words = " ".join(call("advise", "--help").stdout.split())
    page = (Path(__file__).parents[2] / "docs/advise.md").read_text()
    for name in SETTINGS:
        assert name in words
        assert f"`{name}`" in page
