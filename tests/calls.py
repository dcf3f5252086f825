"""Calls of the firsttouch command by tests."""

from __future__ import annotations

import os
import sys

COMMAND = (sys.executable, "-m", "firsttouch.cli.main")
_UNDRAWN = """
from firsttouch.engine import runner
runner.write_report = lambda directory: ''
from firsttouch.cli.main import main
main()
"""
UNDRAWN = (sys.executable, "-c", _UNDRAWN)
"""For tests that do not look at the report, which takes longer than their points do."""
DRAWN_BESIDES = COMMAND if os.environ.get("FIRSTTOUCH_EXHAUSTIVE") else UNDRAWN
"""For tests whose records are unlike those of other tests: with the exhaustive tests, the report is drawn too."""
