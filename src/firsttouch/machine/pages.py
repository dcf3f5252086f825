"""The sizes of the host processor's pages."""

from __future__ import annotations

from firsttouch import _core

BASE_PAGE, HUGE_PAGE = _core.page_sizes()
"""Bytes of the kernel's base page (4 KiB, or 64 KiB on some Arm and Power kernels), and of a transparent huge page
(2 MiB with base pages of 4 KiB, 512 MiB with those of 64 KiB on Arm).
"""
