"""Digests of what a check examines, so that the same output need not be recomputed under every strategy.

A check may take longer than the run. Its result depends on nothing but the buffers that it views and the values that
the application kept, so that a run that leaves all of them bit for bit as a run that was checked is right, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from firsttouch.harness.app import App, View, in_pieces
from firsttouch.program.execution.arrays import Array, ArraySlice, ByteRange

PIECE = 1 << 22
"""Bytes that a thread digests at a time."""
NOT_COMPARED = frozenset({"arrays", "division", "gpu_share_reached", "kernels"})
"""Attributes of an application that say how it runs, not what it found."""


class DigestedView:
    """The view of a check, which digests each buffer, or part of one, when it is first looked at, before the check can
    change it.
    """

    def __init__(self, app: App, view: View) -> None:
        self._app, self._view = app, view
        self._non_array_values = _non_array_values(app)
        self._sums: dict[str, str] = {}

    def __call__(self, part: ByteRange) -> np.ndarray[Any, Any]:
        values, name = self._view(part), _name_of_part(part)
        if name not in self._sums:
            self._sums[name] = f"{values.dtype} {values.shape} {_digest(values)}"
        return values

    def digest(self) -> str:
        """Names and digest of the buffers, together with the application's parameters, options, seed and other values;
        '' if it keeps a value that cannot be compared.
        """
        if not self._non_array_values:
            return ""
        names = sorted(self._sums)
        parts = "\n".join([self._non_array_values, *(self._sums[name] for name in names)])
        digest = hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()
        return f"{_digest_prefix(self._app)}{' '.join(names)}:{digest}"


def matching(app: App, view: View, checked_digests: Collection[str]) -> str:
    """The digest of what this run left, if it is one of those known; otherwise ''."""
    prefix = _digest_prefix(app)
    for names in {digest[len(prefix) :].partition(":")[0] for digest in checked_digests if digest.startswith(prefix)}:
        digested_view = DigestedView(app, view)
        for name in names.split():
            digested_view(_part_named(app, name))
        if (digest := digested_view.digest()) in checked_digests:
            return digest
    return ""


def _name_of_part(part: ByteRange) -> str:
    """The name of a buffer; of a part with its first byte and the one after its last."""
    whole = part.end - part.start == part.array.nbytes
    return part.array.name if whole else f"{part.array.name}[{part.start},{part.end}]"


def _part_named(app: App, name: str) -> ByteRange:
    """The buffer or part with this name."""
    array, _, edges = name.partition("[")
    return ArraySlice(app.arrays[array], *map(int, edges[:-1].split(","))) if edges else app.arrays[array]


def _digest_prefix(app: App) -> str:
    """What runs must have in common before their parts can be compared: the application and the shapes of its buffers,
    and which part of a divided application it is.
    """
    shapes = [app.rank, app.ranks, *((name, array.shape) for name, array in app.arrays.items())]
    return f"{app.name} {hashlib.blake2b(repr(shapes).encode(), digest_size=8).hexdigest()}: "


def _digest(values: np.ndarray[Any, Any]) -> str:
    flat = np.ascontiguousarray(values).reshape(-1).view(np.uint8).data
    parts = in_pieces(lambda a, b: hashlib.blake2b(flat[a:b], digest_size=16).digest(), flat.nbytes, PIECE)
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()


def _non_array_values(app: App) -> str:
    try:
        return repr(_value_as_text({name: value for name, value in vars(app).items() if name not in NOT_COMPARED}))
    except TypeError:
        return ""


def _value_as_text(value: object) -> object:
    """A value as text that two runs share if and only if they found the same. Objects that launch or compute (recorded
    sequences, plans, files) hold no results. Raises TypeError for a type that is not known.
    """
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return repr(value)
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {_digest(value)}"
    if isinstance(value, (list, tuple)):
        return [_value_as_text(each) for each in value]
    if isinstance(value, Mapping):
        return [(_value_as_text(key), _value_as_text(each)) for key, each in value.items()]
    if isinstance(value, Array):
        return value.name
    if isinstance(value, np.random.Generator):
        return _value_as_text(value.bit_generator.state)
    if type(value).__module__.partition(".")[0] == "firsttouch" or hasattr(value, "fileno"):
        return type(value).__name__
    raise TypeError(type(value).__name__)
