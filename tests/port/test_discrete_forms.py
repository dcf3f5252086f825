"""The discrete forms of the port programs, as programs that are traced on the stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.port.played import PlayedCuda
from tests.profile.injected import only_journal

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.parametrize("program", sorted(PROGRAMS.iterdir()), ids=lambda path: path.stem)
def test_the_program_is_right_and_its_copies_are_recorded(cuda: PlayedCuda, program: Path, tmp_path: Path) -> None:
    journal = only_journal(cuda.trace(program, tmp_path))
    assert {"d2h"} <= {copy.direction for copy in journal.copies}
    assert journal.kernels
