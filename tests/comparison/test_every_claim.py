"""Every claim can be tested on its paper's own machine: it holds on what the paper states, and not on the opposite."""

from __future__ import annotations

import pytest
from tests.comparison.made_up import calls_on, machine_of, made_up, points_on, results_of, verdict_on

from firsttouch.comparison.papers.comparisons import sides_of
from firsttouch.records.papers.claims import Check, PaperClaim, all_claims

NOT_TESTABLE = {"gh-34-explicit", "kaveri-gaussian-malloc", "um-prefetch-impact"}
"""Claims that no run of their machine tests; claims.json has the reasons."""


@pytest.mark.parametrize("machine", sorted({machine_of(claim) for claim in all_claims()}))
@pytest.mark.slow
def test_every_claim_is_testable_on_its_papers_machine_and_decided_by_its_values(machine: str) -> None:
    own = [claim for claim in all_claims() if machine_of(claim) == machine]
    wrong = {claim.id: problem for claim in own if (problem := _problem(claim, machine))}
    assert not {name: problem for name, problem in wrong.items() if name not in NOT_TESTABLE}
    assert {claim.id for claim in own if claim.id in NOT_TESTABLE} <= set(wrong), "testable now: leave it out"


def _problem(claim: PaperClaim, machine: str) -> str:
    """What is wrong with a claim, or ''."""
    if not isinstance(claim.test, Check):
        return claim.test.why
    call = calls_on(machine)[claim.id]
    if not call:
        return verdict_on(claim, results_of(machine)).why
    if not points_on(machine, call):
        return f"no points: {call}"
    for opposite, expected in ((False, "holds"), (True, "does not hold")):
        verdict = verdict_on(claim, made_up(claim, opposite=opposite))
        if verdict.verdict != expected:
            return f"{'the opposite' if opposite else 'what is stated'}: {verdict.verdict}, {verdict.why}; {call}"
    return ""


def test_claims_about_events_are_about_managed_memory() -> None:
    """The driver reports no events of other memory, so that a claim about none of them would hold of itself."""
    for claim in all_claims():
        if isinstance(claim.test, Check) and any(name.startswith("um_") for name in claim.test.counters):
            for side in sides_of(claim.test):
                memory = side.factors.get("allocator") or side.factors.get("strategy")
                assert str(memory).startswith("managed"), claim.id
