"""Found phases: right on curves with known change points, none on a flat one."""

import random

import pytest

from firsttouch.profile.curves import Curve
from firsttouch.profile.segments import MOST_SPANS, found_phases

MiB = 1 << 20
DIRECTIONS = ("rising", "flat", "falling")


def curve_of(knots, readings, noise, random_numbers):
    """Readings of straight lines between (time, value), with Gaussian noise."""
    curve, place = Curve(), 0
    for i in range(readings):
        t = knots[-1][0] * i / (readings - 1)
        while place + 2 < len(knots) and t > knots[place + 1][0]:
            place += 1
        (a, low), (b, high) = knots[place], knots[place + 1]
        curve.add(t, low + (high - low) * (t - a) / (b - a) + random_numbers.gauss(0, noise))
    return curve


def a_known_curve(seed):
    """A curve of 3 to 7 spans, neighbours of different directions; their names, and the times of the change points."""
    numbers = random.Random(seed)
    seconds = numbers.choice([1.0, 20.0, 600.0])
    count = numbers.randint(3, 7)
    lengths = [numbers.uniform(1, 3) for _ in range(count)]
    scale = seconds / sum(lengths)
    value, t, names, knots = 100.0 * MiB, 0.0, [], [(0.0, 100.0 * MiB)]
    for length in lengths:
        possible = [
            name for name in DIRECTIONS if name != (names or [""])[-1] and (name != "falling" or value > 250 * MiB)
        ]
        name = numbers.choice(possible)
        change = numbers.uniform(120, 400) * MiB
        value += {"rising": change, "flat": 0.0, "falling": -min(change, value - 20 * MiB)}[name]
        t += length * scale
        names.append(name)
        knots.append((t, value))
    span = max(v for _, v in knots) - min(v for _, v in knots)
    noise = numbers.choice([0.0, 0.005, 0.015]) * span
    curve = curve_of(knots, numbers.choice([300, 2000, 20_000]), noise, numbers)
    return curve, names, [t for t, _ in knots[1:-1]], seconds


@pytest.mark.parametrize("seed", range(30))
def test_change_points_of_a_known_curve_are_found(seed):
    curve, names, times, seconds = a_known_curve(seed)
    found = found_phases(curve, 0.0, seconds)
    assert [phase.name for phase in found] == names
    assert {phase.source for phase in found} == {"found"}
    for phase, t in zip(found[1:], times, strict=True):
        assert phase.start == pytest.approx(t, abs=0.03 * seconds)
    assert [phase.end for phase in found[:-1]] == [phase.start for phase in found[1:]]
    assert (found[0].start, found[-1].end) == (0.0, pytest.approx(seconds))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("noise", [0, 1, 20])
def test_a_flat_curve_is_one_flat_span(seed, noise):
    numbers = random.Random(seed)
    curve = curve_of([(0, 500 * MiB), (10, 500 * MiB)], numbers.choice([100, 1000, 5000]), noise * MiB, numbers)
    assert [phase.name for phase in found_phases(curve, 0.0, 10.0)] == ["flat"]


def test_steps_are_short_spans_between_flat_ones():
    """A row is written only when a value changes, so that few readings hold for long."""
    curve = Curve()
    for t, value in [(0, 10), (1, 100), (2, 300), (5, 120), (9, 600)]:
        curve.add(t, value * MiB)
    found = found_phases(curve, 0.0, 10.0)
    changes = [phase for phase in found if phase.name != "flat"]
    assert [phase.name for phase in changes] == ["rising", "rising", "falling", "rising"]
    for phase, t in zip(changes, (1, 2, 5, 9), strict=True):
        assert phase.seconds < 0.05
        assert phase.start == pytest.approx(t, abs=0.05)


@pytest.mark.parametrize("teeth", [3, 5])
def test_few_teeth_are_told_apart(teeth):
    curve = Curve()
    for i in range(6000):
        curve.add(i / 1000, 100 * MiB + 200 * MiB * (i * teeth / 6000 % 1))
    assert [phase.name for phase in found_phases(curve, 0.0, 6.0)] == ["rising", "falling"] * (teeth - 1) + ["rising"]


@pytest.mark.parametrize("teeth", [8, 15, 30, 200, 5000])
def test_many_teeth_of_an_allocator_are_few_spans(teeth):
    curve = Curve()
    for i in range(20_000):
        curve.add(i / 1000, 100 * MiB + 200 * MiB * (i * teeth / 20_000 % 1))
    found = found_phases(curve, 0.0, 20.0)
    assert 1 <= len(found) <= MOST_SPANS
    if teeth >= 30:
        assert [phase.name for phase in found] == ["flat"]


def test_a_day_of_readings_keeps_its_change_points():
    numbers = random.Random(4)
    curve = curve_of(
        [(0, 0), (20_000, 4000 * MiB), (70_000, 4000 * MiB), (86_400, 100 * MiB)], 131_072, 5 * MiB, numbers
    )
    found = found_phases(curve, 0.0, 86_400.0)
    assert [phase.name for phase in found] == ["rising", "flat", "falling"]


@pytest.mark.parametrize("readings", [[], [(0.0, 5.0)], [(0.0, 0.0), (1.0, 0.0)], [(2.0, 7.0), (2.0, 9.0)]])
def test_few_readings_are_at_most_one_span(readings):
    curve = Curve()
    for reading in readings:
        curve.add(*reading)
    assert [phase.name for phase in found_phases(curve, 0.0, 2.0)] in ([], ["flat"])


@pytest.mark.parametrize("ticks", [5, 8, 12, 20, 50, 200])
@pytest.mark.parametrize("tick", [0.1, 1.0])
def test_few_ticks_are_no_stairs(ticks, tick):
    """A straight line, and straight lines that meet, read a little late at each tick; unchanged readings are absent."""
    shapes = {
        ("rising",): lambda i: i,
        ("falling",): lambda i: ticks - i,
        ("rising", "flat"): lambda i: min(i, ticks // 2),
        ("flat", "rising"): lambda i: max(i, ticks // 2),
        ("rising", "falling"): lambda i: min(i, ticks - i),
        ("flat", "rising", "flat"): lambda i: ticks * (i > ticks // 2),
    }
    for names, shape in shapes.items():
        if len(names) > 1 and ticks < 20:
            continue
        curve, last = Curve(), None
        for i in range(ticks + 1):
            value = (10 + 20 * shape(i)) * MiB
            if value != last:
                curve.add(i * tick + 0.0005 * (i % 3), value)
            last = value
        found = found_phases(curve, 0.0, (ticks + 0.3) * tick, tick)
        assert tuple(phase.name for phase in found) == names
        for phase in found[1:]:
            assert phase.start == pytest.approx(ticks // 2 * tick, abs=2 * tick)


def test_the_longest_span_stays_where_there_are_too_many():
    curve, numbers = Curve(), random.Random(3)
    for i in range(4000):  # teeth, and a long level part, which changes least
        tooth = i < 1200 or i >= 2800
        curve.add(i / 1000, (300 + (200 * (i % 200) / 200 if tooth else numbers.gauss(0, 1))) * MiB)
    found = found_phases(curve, 0.0, 4.0)
    assert len(found) <= MOST_SPANS
    longest = max(found, key=lambda phase: phase.seconds)
    assert longest.name == "flat"
    assert (longest.start, longest.end) == (pytest.approx(1.2, abs=0.05), pytest.approx(2.8, abs=0.05))
