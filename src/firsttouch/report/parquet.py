"""Tables as Parquet files, by pyarrow, which is not installed with this package."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from firsttouch import __version__
from firsttouch.base.encoding import encode_json, valid_text
from firsttouch.base.errors import UsageError
from firsttouch.records.schema import SCHEMA

_LEAST, _LARGEST = -(2**63), 2**63 - 1


def parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """A Parquet file. A column of whole numbers, numbers, truth values, text, or lists of numbers has that type; others
    are text, with lists and objects as JSON. Of a column of numbers and text, the text is in a column NAME.text. The
    metadata name the schema of records and this build.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow.parquet import write_table
    except ImportError:
        raise UsageError(
            "--format parquet needs pyarrow; install it with `pip install 'firsttouch[parquet]'`"
        ) from None
    typed = {valid_text(name): _column(pyarrow, part) for name, part in _parts(columns)}
    table = pyarrow.table(
        typed,
        metadata={"schema": SCHEMA, "firsttouch": __version__},
    )
    data = io.BytesIO()
    write_table(table, data, compression="zstd")
    return data.getvalue()


def _parts(columns: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Sequence[Any]]]:
    """The columns; those of numbers and text in two."""
    for name, values in columns.items():
        numbers = [value if type(value) in (int, float) else None for value in values]
        texts = [None if type(value) in (int, float) else value for value in values]
        if any(value is not None for value in numbers) and any(value is not None for value in texts):
            yield from ((name, numbers), (f"{name}.text", texts))
        else:
            yield name, values


def _column(pyarrow: Any, values: Sequence[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    lists = [value for value in values if isinstance(value, list)]
    if kinds == {bool}:
        return pyarrow.array(values, pyarrow.bool_())
    if kinds == {int} and all(v is None or _LEAST <= v <= _LARGEST for v in values):
        return pyarrow.array(values, pyarrow.int64())
    if kinds and kinds <= {int, float}:
        return pyarrow.array([None if v is None else float(v) for v in values], pyarrow.float64())
    if kinds == {list} and all(type(item) in (int, float) for value in lists for item in value):
        return pyarrow.array(values, pyarrow.list_(pyarrow.float64()))
    return pyarrow.array([_text(value) for value in values], pyarrow.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value if value is None else valid_text(value)
    return encode_json(value).decode()
