"""Advice and prefetches of each buffer in um-apps, the programs of Chien et al., MCHPC 2019 (steven-chien/um-apps).

Taken from its versions with advice and prefetches (..._hint_prefetch, bfs_romeo_um_both.cu) at commit 5e508f8. By
buffer: the words that `--set advice.NAME` and `--set prefetch.NAME` accept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

PublishedAdvice: TypeAlias = Mapping[str, tuple[str, str]]

ORIGINAL = "original"
START = ("needed", ORIGINAL)
"""The values of an option `start`: the CPU writes what kernels read, or all that it writes in the original."""
_READ = "preferred-gpu+accessed-by-cpu+read-mostly"
_WRITTEN = "preferred-gpu+accessed-by-cpu"

BLACK_SCHOLES: PublishedAdvice = {
    **dict.fromkeys(("spot", "strike", "years"), ("read-mostly", "gpu")),
    **dict.fromkeys(("call", "put"), ("none", "gpu+cpu")),
}
CONJUGATE_GRADIENT: PublishedAdvice = {
    **dict.fromkeys(("starts", "columns", "values"), (_READ, "gpu+cpu")),
    "x": (_WRITTEN, "cpu"),
    # Its CPU writes b into r, and the GPU does not use b itself: b here has the guidance of that r.
    "rhs": ("preferred-gpu", "gpu"),
    **dict.fromkeys(("r", "p", "product"), ("preferred-gpu", "none")),
}
# It gives no advice for its input, which is `cells` here in the first step. The text of the study has one of the two
# arrays prefetched, "half of the problem" (Sec. IV.B); the programs prefetch both.
FDTD3D: PublishedAdvice = {"cells": ("none", "gpu+cpu"), "next": (_WRITTEN, "gpu"), "weights": (_READ, "gpu")}
FDTD3D_TEXT: PublishedAdvice = {**FDTD3D, "next": (_WRITTEN, "none")}
FFT_CONV: PublishedAdvice = {
    **dict.fromkeys(("data", "taps"), ("read-mostly", "gpu")),
    "padded": (_WRITTEN, "cpu"),
    **dict.fromkeys(("padded_taps", "spectrum", "spectrum_of_taps"), ("preferred-gpu", "none")),
}
FFT_CONV_C2C: PublishedAdvice = {**FFT_CONV, **dict.fromkeys(("unpacked", "unpacked_taps"), ("preferred-gpu", "none"))}
# simpleCUBLAS, whose CPU writes C too.
GEMM: PublishedAdvice = {**dict.fromkeys(("a", "b"), (_READ, "gpu")), "c": (_WRITTEN, "gpu+cpu")}
# Its bitmaps are scratch here, which is device memory unless `--set memory.BUFFER=strategy`.
GRAPH500_BFS: PublishedAdvice = {
    **dict.fromkeys(("row", "col"), ("read-mostly+preferred-gpu", "gpu")),
    "parent": (_WRITTEN, "gpu+cpu"),
    **dict.fromkeys(("frontier", "visited"), ("preferred-gpu", "gpu")),
    **dict.fromkeys(("next", "counters"), ("preferred-gpu", "none")),
}
