"""The random generator of base/kernels/common.h in numpy, by which checks reproduce any element of initial data."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

U64: TypeAlias = np.ndarray[Any, np.dtype[np.uint64]]
F32: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
F64: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
I64: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Values: TypeAlias = np.ndarray[Any, Any]
"""Of any type."""


def mix64(x: Any) -> U64:
    """splitmix64's finaliser (Steele, Lea, Flood, OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        x = np.asarray(x, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)), np.uint64)


def key_of(seed: int, stream: int) -> int:
    """The generator key of one buffer's data. Streams of different seeds are independent."""
    return int(mix64((seed * 0x10001 + stream + 1) % 2**64))


def words(key: int, i: Any) -> U64:
    """random_word for every i."""
    with np.errstate(over="ignore"):
        return mix64(np.asarray(i, np.uint64) + np.uint64(key))


def uniform_f32(key: int, i: Any, low: float, high: float) -> F32:
    """random_f32 for every i, bit-identical to the CPU's. A GPU may fuse the multiplication and the addition."""
    unit = (words(key, i) >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    return np.asarray(np.float32(low) + (np.float32(high) - np.float32(low)) * unit)


def unit_f64(key: int, i: Any) -> F64:
    """random_f64 for every i."""
    return np.asarray((words(key, i) >> np.uint64(11)).astype(np.float64) * 2.0**-53)


def below(key: int, i: Any, n: int) -> I64:
    """random_below for every i."""
    return np.asarray((((words(key, i) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32)).astype(np.int64))


def normal_f64(key: int, i: Any) -> F64:
    """Standard normal numbers, by the method of Box and Muller from two numbers of unit_f64 each: 2 i and 2 i + 1."""
    radius = np.sqrt(-2 * np.log(1 - unit_f64(key, 2 * i)))
    return np.asarray(radius * np.cos(2 * np.pi * unit_f64(key, 2 * i + 1)))
