"""The command firsttouch, whose profiles have no page: for tests that do not look at it."""

from firsttouch.engine import reporting

reporting.write_report = lambda directory: ""

from firsttouch.cli.main import main  # noqa: E402

main()
