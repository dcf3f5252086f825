"""docs/extending/sentence.md: its test passes, and its words are those of its row, as printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.experiments.fake_records import a_record

from firsttouch.report.sentences import sentences

PAGE = Path(__file__).parents[2] / "docs/extending/sentence.md"


def test_the_recipe_works_as_printed() -> None:
    names: dict[str, Any] = {"__name__": "recipe"}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(code, names)
    names["test_the_range_of_sizes_is_stated"]()
    records = [a_record("latency", 5.0, {"agent": "cpu", "allocator": "malloc", "size": size}) for size in (1024, 4096)]
    assert sentences([names["range_of"](records)]) == [
        "Loads by the CPU from malloc memory are measured over 1 KiB to 4 KiB."
    ]
