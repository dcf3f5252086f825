"""Exceptions with a defined effect on the run."""

from __future__ import annotations

from collections.abc import Iterable


class UsageError(Exception):
    """The call was wrong. The text is one sentence that says what was wrong and what is accepted. Exit status 2."""


class Failure(Exception):
    """The call was right and could not be carried out. The text says why. Exit status 1."""


class Unsupported(Exception):
    """A device cannot do what was asked for. A point that turns out to be impossible while it is measured, or an
    experiment that cannot run on a device, is recorded as skipped with this text.
    """


NOT_JUDGED = 4
"""The exit status where the answer needs more runs or measurements than there are; the output says which."""


class NotModelled(Unsupported):
    """No model covers what was asked for. The text is the reason."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(f"not modelled: {reason}" if reason else "not modelled")


class Terminated(KeyboardInterrupt):
    """A signal ends the program. Measured points are kept, as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.status = 128 + number


def unknown(noun: str, typed: str, accepted: Iterable[str]) -> UsageError:
    """Returns the error for a word that is not among those accepted."""
    words = list(accepted)
    alike = [word for word in words if ("." in word) == ("." in typed)]  # settings of a buffer, such as advice.power
    return UsageError(
        f"unknown {noun} '{typed}'{did_you_mean(typed, alike)}; accepted: {', '.join(words) or 'none here'}"
    )


def did_you_mean(typed: str, candidates: Iterable[str]) -> str:
    """' (did you mean ...?)' for a word that is close to a known one, or ''."""
    import difflib

    near = difflib.get_close_matches(typed, list(candidates), n=1)
    return f" (did you mean '{near[0]}'?)" if near else ""
