"""Advice and prefetches of single buffers: what the driver is told, and that data stay right under random ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.harness.running import opencl, strategies
from tests.program.random_programs import RandomLaunch, expected, programs
from tests.program.test_workspace import arrays, run

from firsttouch.program.declarations import Declaration, Role
from firsttouch.program.execution.workspace import Workspace
from firsttouch.program.guidance import ADVICE, BY_ITSELF, BY_ROLE, Guidance, Placement, settings_of, word_of
from firsttouch.program.strategies import STRATEGIES, Strategy, why_unguided

GUIDED = [name for name, strategy in STRATEGIES.items() if strategy.allocator == "managed"]


@dataclass
class Driver:
    """A device whose fine-grained SVM plays managed memory. It notes advice and prefetches."""

    device: Any
    calls: list[tuple[str, ...]] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.device, name)

    def allocate(self, _: str, nbytes: int, pages: str, host_only: bool) -> Any:
        memory = self.device.allocate("svm-fine", nbytes, pages)
        self.names[id(memory)] = f"b{len(self.names)}"
        return memory

    def advise(self, memory: Any, hint: str) -> None:
        self.calls.append((self.names[id(memory)], hint))

    def prefetch(self, memory: Any, offset: int, nbytes: int, agent: str, stream: object = None) -> None:
        assert (offset, nbytes) == (0, memory.size)
        self.calls.append((self.names[id(memory)], f"to-{agent}"))


def workspace(strategy: str, placement: Placement) -> tuple[Workspace, Driver]:
    """A workspace under a managed strategy, whose memory is fine-grained SVM."""
    info, device = opencl()
    if "svm-fine" not in strategies():
        pytest.skip("no fine-grained SVM")
    entries = [replace(e, name="managed") if e.name == "svm-fine" else e for e in info.allocators]
    driver = Driver(device)
    told = replace(info, allocators=entries)
    return Workspace(STRATEGIES[strategy], told, driver, guidance=placement), driver  # type: ignore[arg-type]


NAMES = [f"b{i}" for i in range(3)]
placements = st.builds(
    Placement,
    st.none() | st.dictionaries(st.sampled_from(NAMES), st.builds(Guidance.of, st.sampled_from(ADVICE))),
    st.fixed_dictionaries(
        {},
        optional={f"advice.{name}": st.sampled_from(ADVICE) for name in NAMES}
        | {f"prefetch.{name}": st.sampled_from(["none", "gpu", "cpu", "gpu+cpu"]) for name in NAMES},
    ),
)


@pytest.mark.parametrize("strategy", GUIDED)
@settings(max_examples=15, deadline=None)
@given(program=programs, placement=placements)
def test_each_buffer_gets_its_guidance_once_and_no_byte_is_stale(
    strategy: str, program: list[RandomLaunch], placement: Placement
) -> None:
    here, driver = workspace(strategy, placement)
    buffers = arrays()
    told = {array.name: placement.of(array.declaration, STRATEGIES[strategy]) for array in buffers}
    run(program, here, buffers)
    here.read_back(buffers)
    for array, right in zip(buffers, expected(program), strict=True):
        np.testing.assert_array_equal(here.contents(array), right)
    here.free()
    before = [(name, hint) for name in NAMES for hint in told[name].at_allocation]
    after = [(name, hint) for name in NAMES for hint in told[name].after_initialise]
    ahead = [(name, "to-gpu") for name in NAMES if "gpu" in told[name].prefetch]
    assert driver.calls[: len(before + after + ahead)] == before + after + ahead
    back = [hint for _, hint in driver.calls[len(before + after + ahead) :]]
    assert back == ["to-cpu" for name in NAMES if "cpu" in told[name].prefetch]  # swaps may have changed which


def declaration(role: Role = "inout", ends_on: Any = None, advice: tuple[str, ...] | None = None) -> Declaration:
    return Declaration("b0", np.dtype(np.uint32), (64,), role, "both", "cpu", ends_on, advice)


@pytest.mark.parametrize("role", BY_ROLE)
def test_a_strategy_without_hints_gives_none_and_one_with_both_what_the_role_implies(role: Role) -> None:
    assert BY_ITSELF.of(declaration(role), STRATEGIES["managed"]) == Guidance()
    assert BY_ITSELF.of(declaration(role), STRATEGIES["managed+both"]) == BY_ROLE[role]
    assert BY_ITSELF.of(declaration(role), STRATEGIES["managed+advise"]) == Guidance(BY_ROLE[role].advice)
    back = BY_ITSELF.of(declaration(role, ends_on="cpu"), STRATEGIES["managed+prefetch"])
    assert back.prefetch == (*BY_ROLE[role].prefetch, "cpu")


def test_settings_come_before_what_was_published_and_that_before_declared_advice_and_roles() -> None:
    both, declared = STRATEGIES["managed+both"], declaration(advice=("accessed-by-cpu",))
    assert BY_ITSELF.of(declared, both).advice == ("accessed-by-cpu",)
    published = Placement({"b0": Guidance.of("read-mostly", "gpu")})
    assert published.of(declared, both) == Guidance(("read-mostly",), ("gpu",))
    assert published.of(declared, STRATEGIES["managed"]) == Guidance()
    assert Placement({}).of(declared, both) == Guidance()
    set_too = Placement(published.declared, {"advice.b0": "none"})
    assert set_too.of(declared, both) == Guidance((), ("gpu",))
    assert Placement(None, {"prefetch.b0": "gpu"}).of(declared, STRATEGIES["managed"]) == Guidance((), ("gpu",))


def test_words_and_guidance_are_the_same() -> None:
    for word in ADVICE:
        assert word_of(Guidance.of(word).advice) == word
    assert settings_of(declaration())["prefetch.b0"] == ("none", "gpu")
    assert settings_of(declaration(ends_on="cpu"))["prefetch.b0"] == ("none", "gpu", "cpu", "gpu+cpu")
    assert settings_of(Declaration("c", np.dtype(np.uint32), (1,), "scratch", "cpu")) == {}


@pytest.mark.parametrize("strategy", [s for s in STRATEGIES.values() if s.name in ("explicit", "pinned", "svm-fine")])
def test_memory_whose_pages_do_not_move_takes_no_guidance(strategy: Strategy) -> None:
    assert why_unguided(strategy, opencl()[0])
