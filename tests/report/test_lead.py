"""The figure of a question at first: which kinds of memory it shows."""

from __future__ import annotations

import pytest
from tests.experiments.fake_records import a_record

from firsttouch.records.figures import Bar, Line
from firsttouch.report.lead import usual


@pytest.mark.parametrize("figure", [Line(x="outside", colour="allocator"), Bar(x="allocator", colour="rivals")])
@pytest.mark.parametrize(
    ("measured", "shown"),
    [
        (["pinned", "pinned-noncoherent"], ["pinned", "pinned-noncoherent"]),  # a call that compares the two
        (["device", "svm-coarse", "svm-fine"], ["device", "svm-coarse", "svm-fine"]),
        (["malloc", "mmap", "malloc-thp"], ["malloc"]),  # the same memory in other pages
        (["device", "pinned", "pinned-wc", "managed"], ["device", "pinned", "managed"]),
        (["svm-coarse", "svm-atomic"], ["svm-coarse", "svm-atomic"]),
        (["mmap", "vmm"], ["mmap", "vmm"]),  # none is usual
    ],
)
def test_few_kinds_of_memory_that_differ_in_coherence_are_shown_together(figure, measured, shown):
    rows = [
        a_record("locking", 10.0, {"allocator": name, "rivals": "both", "outside": n})
        for name in measured
        for n in (0, 100)
    ]
    assert list(dict.fromkeys(r.factors["allocator"] for r in usual(figure, rows))) == shown
