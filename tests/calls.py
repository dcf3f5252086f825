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
UNDRAWN = COMMAND if os.environ.get("FIRSTTOUCH_EXHAUSTIVE") else (sys.executable, "-c", _UNDRAWN)
"""For tests that do not look at the report, which takes longer than their points do. Exhaustive tests draw it too."""
