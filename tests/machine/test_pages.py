"""The sizes of the host's pages."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from firsttouch.machine.pages import BASE_PAGE, HUGE_PAGE

STATED = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")


def test_a_base_page_is_what_the_system_states():
    assert os.sysconf("SC_PAGE_SIZE") == BASE_PAGE


@pytest.mark.skipif(not STATED.exists(), reason="this kernel has no transparent huge pages")
def test_a_huge_page_is_what_the_kernel_states():
    assert int(STATED.read_text()) == HUGE_PAGE
