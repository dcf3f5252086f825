"""Draws one report for engine.reporting: ``python -m firsttouch.report '["html", null, ["DIR"]]'``.

Prints the paths of what was written as a JSON list; exit status 2 and one sentence on stderr for a wrong call.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

from firsttouch.base.errors import UsageError
from firsttouch.base.processes import die_with
from firsttouch.engine.reporting import ADVICE, COMPARISON
from firsttouch.report.converter import another_process


def write(call: Sequence[Any]) -> list[Path]:
    """Writes what a call of engine.reporting asks for. Returns the paths. Raises UsageError if the call is wrong.

    Each kind of page loads what it needs alone, since the modules take longer than a page of few points.
    """
    form, output, directories, *more = call
    target, sources = output and Path(output), [Path(name) for name in directories]
    if more == [True]:  # of a profile that another process still writes, which sends a byte when it is complete
        import firsttouch.report.profile  # noqa: F401

        if not os.read(sys.stdin.fileno(), 1):
            raise UsageError("the profile was not completed")
    if form == COMPARISON:
        from firsttouch.report.comparison import write_comparison

        return [write_comparison(directories, target, *more)]
    if form == ADVICE:
        from firsttouch.report.advised import write_advice

        return [write_advice(directories, target, *more)]
    from firsttouch.advice.tried.stored import PROFILE, is_tried
    from firsttouch.profile.reading import are_profiles

    if any(map(is_tried, sources)):
        from firsttouch.report.tried import write_tried

        if form != "html":
            raise UsageError(
                f"what was tried is not written as {form}; {sources[0] / PROFILE} holds a profile, which is"
            )
        return [write_tried(sources, target)]
    if are_profiles(sources):
        from firsttouch.report.profile import export_profile, write_profile

        return [write_profile(sources, target, *more)] if form == "html" else export_profile(sources, form, target)
    if form == "html":
        from firsttouch.report.page import write_report

        return [write_report(sources, target)]
    from firsttouch.report.export import export

    return export(sources, form, target)


def main() -> None:
    die_with(os.getppid())
    call = json.loads(sys.argv[1])
    is_page = call[0] in ("html", COMPARISON, ADVICE)
    try:
        # modules may print
        with redirect_stdout(sys.stderr), another_process("firsttouch.report.svg") if is_page else nullcontext():
            paths = write(call)
    except UsageError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(2)
    print(json.dumps([str(path) for path in paths]))  # noqa: T201
    gc.freeze()  # the process ends, so that what is loaded need not be searched for garbage


if __name__ == "__main__":
    main()
