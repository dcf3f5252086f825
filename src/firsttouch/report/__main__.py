"""Draws one report for engine.reporting: ``python -m firsttouch.report '["html", null, ["DIR"]]'``.

Prints the paths of what was written as a JSON list; exit status 2 and one sentence on stderr for a wrong call.
"""

from __future__ import annotations

import gc
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

from firsttouch.engine.reporting import COMPARISON
from firsttouch.errors import UsageError
from firsttouch.report.comparison import write_comparison
from firsttouch.report.export import export
from firsttouch.report.page import write_report
from firsttouch.report.profile import are_profiles, export_profile, write_profile


def main() -> None:
    form, output, directories, *more = json.loads(sys.argv[1])
    target, sources = output and Path(output), [Path(name) for name in directories]
    try:
        with redirect_stdout(sys.stderr):  # modules may print
            if form == COMPARISON:
                paths = [write_comparison(directories, target, *more)]
            elif are_profiles(sources):
                paths = [write_profile(sources, target)] if form == "html" else export_profile(sources, form, target)
            else:
                paths = [write_report(sources, target)] if form == "html" else export(sources, form, target)
    except UsageError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(2)
    print(json.dumps([str(path) for path in paths]))  # noqa: T201
    gc.freeze()  # the process ends, so that what is loaded need not be searched for garbage


if __name__ == "__main__":
    main()
