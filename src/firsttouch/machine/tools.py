"""Runs other programs and reads what they print."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

NOT_STARTED = 127
TIMEOUT = 60.0


def ask(command: Sequence[str], text: str = "", timeout: float = TIMEOUT) -> subprocess.CompletedProcess[str]:
    """What a program prints when it reads `text`, whatever its bytes are. A program that does not start or end has the
    status NOT_STARTED, and stderr says why.
    """
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, errors="replace", timeout=timeout)
    except subprocess.TimeoutExpired:
        reason = f"{command[0]} did not end within {timeout:g} s"
    except OSError as error:
        reason = f"{command[0]} did not start: {error.strerror}"
    return subprocess.CompletedProcess(command, NOT_STARTED, "", reason)
