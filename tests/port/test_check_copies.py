"""--check-copies: all bytes of copies are compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.port.played import FIXTURES, PlayedCuda

from firsttouch.profile.call_journal import read_calls
from firsttouch.profile.calls import MoveCall
from firsttouch.profile.inject import inject_environment

BYTES = 1 << 20


@pytest.mark.parametrize("checks", [False, True])
@pytest.mark.slow
def test_a_changed_byte_is_found_if_all_are_compared(checks: bool, cuda: PlayedCuda, tmp_path: Path) -> None:
    more, _ = inject_environment(tmp_path, nvtx=False, trace=True, check_copies=checks, current={})
    asked = {name: value for name, value in more.items() if "COPIES" in name}
    assert bool(asked) == checks
    (calls,) = read_calls(cuda.trace(FIXTURES / "copies.c", tmp_path, more=asked))
    first, second, third = (call for call in calls.calls if isinstance(call, MoveCall))
    assert first.sample is not None
    assert (first.sample == second.sample, first.sample == third.sample) == (True, not checks)
    assert (first.sampled_bytes == BYTES) == checks
