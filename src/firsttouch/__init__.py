"""firsttouch measures how CPU-GPU memory management behaves on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import os

__version__ = "0.1.0"


def load(directory: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The records of a results directory as flat rows, all with the same columns, one row per point.

    ``pandas.DataFrame(firsttouch.load(DIR))`` and ``polars.DataFrame(firsttouch.load(DIR))`` take them. Columns are the
    fields of a record; the nested ones are spread as ``factors.size``, ``summary.median``, ``counters.faults``,
    ``clocks_before.core_mhz``; samples, buffers and parties stay lists. What a record lacks is None.

    Raises:
        UsageError: the directory holds no results, or a broken file (the text names file and line).
    """
    from firsttouch.records.reading import flat_rows

    return flat_rows(directory)
