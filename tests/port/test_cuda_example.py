"""What `firsttouch try` recorded of docs/examples/vector_add.cu on an H200."""

from pathlib import Path

from tests.calls import call
from tests.texts import assert_states

from firsttouch.advice.tried.stored import read_findings

EXAMPLES = Path(__file__).parents[2] / "docs/examples"
TRIED = EXAMPLES / "profiles/h200-vector-add-tried"


def test_the_record_is_of_the_lines_that_the_example_has():
    found, lines = read_findings(TRIED), (EXAMPLES / "vector_add.cu").read_text().splitlines()
    assert len(found.pairs) == 2
    for pair in found.pairs:
        for place, called in ((pair.allocated_at, "cudaMalloc"), (pair.copied_at, "cudaMemcpy")):
            assert called in lines[int(place.rpartition(":")[2]) - 1]
    assert all(row.traced is not None and row.traced.pages_in is not None for row in found.results)


def test_advice_names_what_was_measured_and_calls_of_cuda():
    shown = call("advise", "--profile", TRIED, "--device", "model:h200-pcie")
    assert_states(shown.stdout, "trace on NVIDIA H200", "measured by firsttouch try", "cudaMallocManaged")
