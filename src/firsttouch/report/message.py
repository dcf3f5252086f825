"""What figures say: each gets the first finding of its section whose number it draws, and whose points it shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from firsttouch.records.findings import Finding, Quantity
from firsttouch.report.chart import POINTS
from firsttouch.report.drawing import Drawing
from firsttouch.report.permalinks import id_of
from firsttouch.report.sentences import sentences

LONGEST = 260
"""The characters of a title."""
_AMOUNTS = ("y", "z")
"""Keys of the rows of figures that hold what is drawn."""


def messages(drawings: Sequence[Drawing], findings: Sequence[Finding]) -> list[str]:
    """For each drawing a sentence that no earlier one has; '' where no finding fits."""
    unused, messages_of_drawings = list(findings), []
    for drawing in drawings:
        shown = [f for f in unused if _shows(drawing, f)]
        texts = sentences(_of_one_list(shown))
        if len(texts) != 1 or len(texts[0]) > LONGEST:
            texts, shown = sentences(shown[:1]), shown[:1]
        messages_of_drawings.append(texts[0] if texts else "")
        unused = [f for f in unused if not any(f is used for used in _of_one_list(shown))]
    return messages_of_drawings


def _of_one_list(findings: Sequence[Finding]) -> list[Finding]:
    """The first finding, and those that make one sentence with it."""
    if not findings or not findings[0].claim.head:
        return [*findings[:1]]
    first = findings[0].claim
    return [f for f in findings if (f.claim.id, f.claim.head) == (first.id, first.head)]


def _shows(drawing: Drawing, finding: Finding) -> bool:
    if drawing.spec is None or not isinstance(finding.value, Quantity) or not finding.value.value:
        return False
    points = [point[0] for point in drawing.spec.get("usermeta", {}).get(POINTS, ())]
    wanted = {id_of(key) for key in finding.points}
    if not wanted or not wanted <= set(points):
        return False
    rows = [row for row in drawing.spec.get("datasets", {}).get("rows", ()) if _point(row, points) in wanted]
    amounts = [row[key] for row in rows for key in _AMOUNTS if isinstance(row.get(key), int | float)]
    return any(math.isclose(amount, finding.value.value, rel_tol=1e-6) for amount in amounts)


def _point(row: dict[str, object], points: Sequence[str]) -> str:
    """The id of the point of a row; '' if it has none."""
    mark = str(row.get("mark", ""))
    number = int(mark[1:]) if mark[:1] == "p" and mark[1:].isdecimal() else len(points)
    return points[number] if number < len(points) else ""
