"""Exceptions with a defined effect on the run."""


class UsageError(Exception):
    """The call was wrong. The text is one sentence that says what was wrong and what is accepted. Exit status 2."""


class Unsupported(Exception):
    """A point turned out to be impossible while it was measured. It is recorded as skipped with this text."""


class Terminated(KeyboardInterrupt):
    """A signal ends the program. Measured points are kept, as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
