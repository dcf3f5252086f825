"""Writes the report of one results directory: ``python -m firsttouch.report DIR``."""

from __future__ import annotations

import sys
from pathlib import Path

from firsttouch.errors import UsageError
from firsttouch.report.page import write_report

if __name__ == "__main__":
    try:
        write_report([Path(sys.argv[1])])
    except UsageError as error:
        sys.exit(str(error))
