from __future__ import annotations

import pytest
from tests.port.played import MakeOnce, PlayedCuda, played_cuda


@pytest.fixture(scope="session")
def cuda(make_once: MakeOnce) -> PlayedCuda:
    """The stand-ins for CUDA, on which C programs are traced."""
    return played_cuda(make_once)
