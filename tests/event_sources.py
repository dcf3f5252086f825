"""Sources of unified-memory events for tests that need no driver."""

from __future__ import annotations

from firsttouch.profile.events.sums import CauseSums, Course, PhaseTotals


class Untotalled:
    """The totals of a source that adds nothing up. Tests put rows into its last phase."""

    def __init__(self) -> None:
        self.restart()

    def unlisted(self) -> int:
        return 0

    def restart(self) -> None:
        self.rows: list[tuple[str, list[CauseSums]]] = [("", [])]

    def mark(self, phase: str, restart_course: bool) -> int:
        self.rows.append((phase, []))
        return len(self.rows) - 1

    def phases(self) -> list[PhaseTotals]:
        return [PhaseTotals(name, 0.0, 0, rows) for name, rows in self.rows]

    def course(self) -> Course:
        return Course()
