"""The compressible Euler equations on tetrahedra in f64, to check cfd: its data layout and steps, written in numpy."""

from __future__ import annotations

import numpy as np

from firsttouch.harness.random import F64, Values

STAGES, GAMMA, WALL = 3, 1.4, -1
FAR_AWAY = np.array([1.4, 1.68, 0, 0, 3.508])[:, None]  # density, momentum, energy at Mach 1.2


def step(old: F64, areas: Values, neighbours: Values, normals: Values) -> F64:
    """All stages of one iteration. Arguments are as the arrays of cfd."""
    now, factors = old, 0.5 / (np.sqrt(areas.astype(float)) * _gas(old)[1])
    for stage in range(STAGES):
        (pressure, fast), flux = _gas(now), np.zeros_like(now)
        for face, near in enumerate(neighbours):
            normal = normals[3 * face : 3 * face + 3].astype(float)
            inside = near >= 0
            outside = np.where(inside, now[:, np.where(inside, near, 0)], FAR_AWAY)
            outside_pressure, outside_fast = _gas(outside)
            smooth = 0.1 * np.sqrt((normal**2).sum(axis=0)) * (fast + outside_fast) * inside
            passing = (_flow(now, pressure, normal) + _flow(outside, outside_pressure, normal)) / 2 + smooth * (
                outside - now
            )
            flux += np.where(near == WALL, pressure * np.pad(normal, ((1, 1), (0, 0))), passing)
        now = old + factors / (STAGES + 1 - stage) * flux
    return now


def _gas(s: F64) -> tuple[F64, F64]:
    """Pressure, and the sum of the speeds of the flow and of sound."""
    pressure = (GAMMA - 1) * (s[4] - (s[1:4] ** 2).sum(axis=0) / (2 * s[0]))
    return pressure, np.sqrt((s[1:4] ** 2).sum(axis=0)) / s[0] + np.sqrt(GAMMA * pressure / s[0])


def _flow(s: F64, pressure: F64, normal: F64) -> F64:
    """Flux through a face."""
    v = (s[1:4] * normal).sum(axis=0) / s[0]
    return np.stack([s[0] * v, *(s[1:4] * v + pressure * normal), v * (s[4] + pressure)])
