"""The line of the program that led to a call, of code in headers of the system too."""

from __future__ import annotations

import pytest

from firsttouch.profile.recorded import CallFrame
from firsttouch.profile.schema import Caller
from firsttouch.profile.traced import place_of

THRUST = "/usr/local/cuda/include/thrust/system/cuda/detail/malloc_and_free.h"
LOAD = ("load", "/app/load.cu")
VECTOR = "/usr/include/c++/12/bits/stl_vector.h"


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([("thrust::cuda_cub::malloc", THRUST), ("thrust::device_vector<int>::resize", THRUST), LOAD],
         LOAD),
        ([("void std::vector<int, app::Allocator>::resize", VECTOR), LOAD], LOAD),
        ([("app::Vector::resize", "/app/vector.h"), LOAD], ("app::Vector::resize", "/app/vector.h")),
        ([("thrust::cuda_cub::malloc", "/app/include/thrust/m.h"), LOAD],
         ("thrust::cuda_cub::malloc", "/app/include/thrust/m.h")),  # the program's own copy
        ([("thrust::cuda_cub::malloc", THRUST), ("load", "")], ("thrust::cuda_cub::malloc", THRUST)),
        ([("load", THRUST), ("main", "/app/load.cu")], ("load", THRUST)),  # it is not main that calls
    ],
)  # fmt: skip
def test_code_in_headers_of_the_system_is_named_by_the_line_that_led_to_it(frames, expected) -> None:
    names = {
        ("/app/program", number): Caller(file="/app/program", offset=number, function=function, source=source, number=7)
        for number, (function, source) in enumerate(frames)
    }
    place = place_of(tuple(CallFrame("/app/program", number) for number in range(len(frames))), names)
    assert (place.function, place.source) == expected


def test_a_line_in_another_library_is_not_taken_for_the_programs() -> None:
    """A library that has Thrust's code inside calls for itself."""
    names = {
        ("/lib/libx.so", 0): Caller(file="/lib/libx.so", offset=0, function="thrust::malloc", source=THRUST, number=7),
        ("/app/program", 1): Caller(file="/app/program", offset=1, function="main", source="/app/p.cu", number=8),
    }
    assert place_of((CallFrame("/lib/libx.so", 0), CallFrame("/app/program", 1)), names).source == THRUST
