"""Port programs on the HIP device of the stand-in: where kernels reach the stack, the naive form writes into it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import run
from tests.texts import assert_states

APU = {"STANDIN_INTEGRATED": "1", "STANDIN_ARCH": "gfx942:sramecc+"}


@pytest.mark.exhaustive
@pytest.mark.parametrize(("xnack", "status"), [("0", "skipped"), ("1", "ok")])
def test_a_kernel_stores_into_the_frame_of_the_next_function(xnack: str, status: str, tmp_path: Path) -> None:
    records = run(tmp_path / "out", "port-stack", **APU, HSA_XNACK=xnack)
    forms = {r.factors["form"]: r for r in records}
    assert [forms[form].verified for form in ("discrete", "ported")] == [True, True]
    assert forms["ported"].counters.get("waited") == (1 if xnack == "1" else None)
    assert forms["naive"].status == status
    if status == "ok":
        assert forms["naive"].counters["overwritten_words"] == 1
    else:
        assert_states(forms["naive"].reason, "kernel", "the stack: ")
