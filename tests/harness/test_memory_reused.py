from __future__ import annotations

import os
import subprocess
import sys

from firsttouch.experiments.contract.common import MMAP_EVERY_BLOCK

FAULTS = """
import resource
import numpy as np
from firsttouch.harness.app import in_pieces

def faults(function):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    function()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

def touch(*_):
    np.ones(1 << 20, np.uint8)

print(faults(lambda: [touch() for _ in range(64)]))
print(faults(lambda: in_pieces(touch, 64, 1)))
print(faults(lambda: [touch() for _ in range(64)]))
"""


def test_threads_of_a_check_reuse_memory_and_later_blocks_are_untouched() -> None:
    environment = {**os.environ, **MMAP_EVERY_BLOCK}
    found = subprocess.run([sys.executable, "-c", FAULTS], env=environment, capture_output=True, text=True, check=True)
    before, in_threads, after = map(int, found.stdout.split())
    assert in_threads < before / 2
    assert after >= 0.9 * before
