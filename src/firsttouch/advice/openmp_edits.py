"""What changes in the source of a program with target constructs of OpenMP: its runtime allocates, copies and frees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from firsttouch.advice.edit import Edit
from firsttouch.advice.port.places import line_of
from firsttouch.advice.port.port_findings import CopyCalls, PortBlock
from firsttouch.records.text import count

MAPPED_ONCE = "put the constructs there into one `target data` region, so that {} of bytes that were mapped before go"


def edits_sharing(blocks: Sequence[PortBlock], calls: Sequence[CopyCalls]) -> Iterator[Edit]:
    """Both sides share their memory. blocks: those that become one with host arrays; calls: all copies of the run."""
    if not blocks:
        return
    size, lines = sum(block.bytes for block in blocks), [line_of(block.helper or block.place) for block in blocks]
    text = "add `#pragma omp requires unified_shared_memory` to each file, so that constructs use "
    text += f"{count(len(blocks), 'host array')} in place of mapped ones"
    yield Edit("allocate", text, [*dict.fromkeys(lines)], len(blocks), size)
    dropped = [row for row in calls if row.fate == "dropped"]
    number, lines = sum(row.copies for row in dropped), [line_of(row.place) for row in dropped]
    text = f"the maps may stay, and no longer make {count(number, 'copy', 'copies')}"
    yield Edit("drop", text, [*dict.fromkeys(lines)], number, sum(row.bytes for row in dropped))
