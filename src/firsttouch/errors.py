"""The errors that have a meaning of their own."""


class UsageError(Exception):
    """The call was wrong. The text is one clear sentence that names what was wrong and what is accepted (exit 2)."""


class Unsupported(Exception):
    """A point turned out, while it was measured, to be impossible here (recorded as skipped with this text)."""


class Terminated(KeyboardInterrupt):
    """A signal asks the program to end; what was measured is kept, as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number
