"""Distances of points from centres in f64, to check kmeans and streamcluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from firsttouch.harness.app import in_pieces, on_host, relative, shared_kernels
from firsttouch.harness.random import F64, I64, Values

CHUNK = 1 << 14
"""Points that one thread checks at a time."""


def assigned(points: Callable[[int, int], F64], centres: F64, labels: Values, squares: Values) -> tuple[F64, float]:
    """The means of the points of each label, and the largest relative error of a squared distance.

    Each point should have the label of the nearest centre, and the square of its distance from that. An error is also
    by how much the true square exceeds that of the nearest centre. A centre without points is its own mean.

    Args:
        points: the points from a first to a last one, in f64.
    """
    k = len(centres)

    def of_some(first: int, last: int) -> tuple[F64, I64, float]:
        part, label = points(first, last), labels[first:last]
        label_in_range = label.clip(0, k - 1)
        true = np.stack([((part - centre) ** 2).sum(axis=1) for centre in centres])
        theirs = np.where(label_in_range == label, true[label_in_range, np.arange(len(part))], np.inf)
        errors = relative(theirs, true.min(axis=0)), relative(squares[first:last], theirs)
        sums = np.asarray([np.bincount(label_in_range, column, k) for column in part.T], float).T
        return sums, np.bincount(label_in_range, minlength=k), float(np.max(errors))

    totals, numbers, errors = zip(*in_pieces(of_some, len(labels), CHUNK), strict=True)
    members = sum(numbers)[:, None]
    return np.where(members, sum(totals) / np.maximum(members, 1), centres), float(np.max(errors))


class Tried(NamedTuple):
    """What streamcluster writes about all points when it tries another one as a centre.

    cost: of each point at the candidate. moved: 1 if that is less than its cost now. rows: the difference of both
    costs, in the last column if the point would move, otherwise in the column of its centre; 0 in all others.
    columns: by centre.
    """

    candidate: int
    cost: Values
    moved: Values
    rows: Values
    columns: Values


def cost_error(coord: Values, weight: Values, cost: Values, centres: Values, tried: Tried | None) -> float:
    """The largest relative error of the costs of points at their centres, and of what was written about a candidate.

    coord: by dimension. centres: of each point, the number of a point.
    """
    own_costs = _costs(coord, weight, centres)
    at_candidate = _costs(coord, weight, np.full_like(centres, tried.candidate)) if tried else own_costs

    def largest(first: int, last: int) -> float:
        part = slice(first, last)
        now, centre = cost[part], centres[part]
        errors = [relative(now, own_costs[part])]
        if tried:
            then = tried.cost[part]
            errors.append(relative(then, at_candidate[part]))
            wrong = _row_errors(now, then, tried.rows[part], tried.columns[centre]) + (
                tried.moved[part] != (then < now)
            )
            errors.append(np.where(centre == tried.candidate, 0, wrong))  # it replaced their costs
        return float(np.max(errors))

    return float(np.max(in_pieces(largest, len(cost), CHUNK)))


def _costs(coord: Values, weight: Values, centres: Values) -> F64:
    """The weighted squared distance of each point from its centre."""
    costs = np.empty(len(weight))
    on_host(shared_kernels("distances"), "distances_weighted", coord, weight, centres, costs, *coord.shape)
    return costs


def _row_errors(now: Values, then: Values, rows: Values, own_columns: Values) -> F64:
    width = rows.shape[1]
    column = np.where(then < now, width - 1, own_columns)
    right = np.where(column[:, None] == np.arange(width), -np.abs(then - now)[:, None], 0)
    return np.asarray(np.abs(rows - right).max(axis=1) / (then + now + 1e-30))
