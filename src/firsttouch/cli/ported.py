"""What `firsttouch port` prints: at most 25 lines, the answer first. Each number has its word, at the head of its line:
exact (recorded), seen, likely, or what is unseen.
"""

from __future__ import annotations

import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from firsttouch.advice.port.places import compared_part, counted, named_places, where, where_allocated
from firsttouch.advice.port.port_findings import PortBlock, PortFinding, PortFindings
from firsttouch.advice.port.rules import all_rules
from firsttouch.advice.port.wording import other_copies, shadow_words, turns_words, wait_words
from firsttouch.base.units import format_size
from firsttouch.cli.output import text_width
from firsttouch.profile.headline import short
from firsttouch.profile.traced import CallLocation
from firsttouch.records.text import join_names, join_some

MOST_LINES = 25
_MOST_BLOCKS, _MOST_COPIES, _MOST_UNSEEN, _MOST_PLACES, _MOST_KERNELS, _MOST_PROCESSES = 6, 2, 3, 4, 2, 4
_MOST_WAITS = 2
_FEWEST_BLOCKS = 2
_HEAD, _WORD = 10, 9
"""The widths of the first two columns."""
_LONGEST = 400
_LITTLE = 0.01
"""Other copies are told if they have more than this part of the bytes of those that a unified version does without."""
_BREAKS = re.compile(r"[\t-\r\x1c-\x1e\x85\u2028\u2029]+")


def lines(port: PortFindings, files: Sequence[str] = (), stream: TextIO | None = None) -> list[str]:
    """The findings in words. files: the paths of what was written, named last."""
    first = _wrapped([short(port.summary, _LONGEST)], stream, indent=2)
    last = [*_wrapped(_unseen(port), stream), *_next_step_lines(port), *files]
    room = MOST_LINES - len(first) - len(last)
    for most in range(_MOST_BLOCKS, _FEWEST_BLOCKS - 1, -1):  # the largest are told, the others are added up
        rows = [
            *_process_lines(port),
            *_saved_lines(port, most),
            *_wait_lines(port),
            *_needless_lines(port),
            *_hazard_lines(port),
            *_searched(port),
            *_kernel_lines(port),
        ]
        middle = [_wrapped([row], stream) for row in rows]
        if sum(map(len, middle)) <= room:
            break
    else:
        middle = [*_whole_rows(middle, room - 1), [_row("", "", "more in the JSON (--json)")]]
    return [*first, *(line for row in middle for line in row), *last]


def _whole_rows(rows: Sequence[list[str]], room: int) -> Iterator[list[str]]:
    """The first rows, as many as there is room for."""
    for row in rows:
        room -= len(row)
        if room < 0:
            return
        yield row


def _wrapped(rows: Iterable[str], stream: TextIO | None, indent: int = _HEAD + _WORD) -> list[str]:
    """The rows, each without line breaks, and long ones on several lines."""
    width = text_width(stream or sys.stdout)
    wrapper = textwrap.TextWrapper(
        width,
        subsequent_indent=" " * indent,
        replace_whitespace=False,
        break_long_words=False,
        break_on_hyphens=False,
    )
    plain = [_BREAKS.sub(" ", row) for row in rows]
    return [line for row in plain for line in (wrapper.wrap(row) if len(row) > width else [row])]


def _row(head: str, word: str, text: str) -> str:
    return f"{head:<{_HEAD}}{word:<{_WORD}}{short_end(text)}"


def short_end(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"


def _process_lines(port: PortFindings) -> Iterator[str]:
    """The traced processes, if there are several. What follows is of one of them."""
    for number, row in enumerate(port.processes[:_MOST_PROCESSES]):
        parts = [f"{counted(row.copies, 'copy', 'copies')} ({format_size(row.copied, 3)})"]
        if row.saved is not None and row.hazards is not None:
            parts.append(f"at most {format_size(row.saved, 3)} saved")
            parts.append(counted(len(row.hazards), "hazard") if row.hazards else "no hazard")
        rank = f"rank {row.rank}, " if row.rank else ""
        what = f"{rank}{row.pid} {short(shlex.join(row.command), 40)}: {', '.join(parts)}"
        yield _row("" if number else "processes", "exact", what)
    if not port.processes:
        return
    more = len(port.processes) - _MOST_PROCESSES
    rest = f"{counted(more, 'more process', 'more processes')} in the JSON; " if more > 0 else ""
    one = port.directory if port.processes[0].rank else f"process {port.pid} (--process)"
    yield _row("", "", f"{rest}what follows is of {one}")


def _saved_lines(port: PortFindings, most: int) -> Iterator[str]:
    """The blocks that have a partner, or are not needed, with their copies. most: so many are told one by one."""
    rows = [block for block in port.blocks if block.partners or block.unused]
    before: CallLocation | None = None
    for number, block in enumerate(rows[:most]):
        place = short(where_allocated(block.place, block.helper, before), 60)
        yield _row(
            "buffers" if not number else "",
            "assumed" if block.in_pool == "part" else "exact",
            f"{format_size(block.bytes, 3):>9}  {place}  {_about(block)}",
        )
        before = block.place
    if more := rows[most:]:
        size = format_size(sum(block.bytes for block in more), 3)
        yield _row("", "exact", f"{size:>9}  in {counted(len(more), 'more buffer')}")


def _about(block: PortBlock) -> str:
    parts = [f"{block.allocations:,} allocations"] if block.allocations > 1 else []
    parts += ["part of a memory pool"] if block.in_pool == "part" else []
    for word, way in (("in", block.into), ("out", block.out)):
        if way.copies:
            parts.append(f"{word} {way.copies:,}x")
    if in_turn := turns_words(block):
        parts.append(in_turn)
    elif block.ranges > 1:
        parts.append(f"{block.ranges} host ranges")
    again = [f"the CPU reads about {format_size(block.read_again or 0, 3)} of it again"] if block.is_read_again else []
    return "; ".join(filter(None, [", ".join(parts), *again, *block.unused]))


def _wait_lines(port: PortFindings) -> Iterator[str]:
    """The waits that a unified version needs."""
    for number, wait in enumerate(port.waits[:_MOST_WAITS]):
        certainty = "assumed" if wait.certainty == "likely" else "possible"
        yield _row("waits" if not number else "", certainty, wait_words(wait))
    if more := port.waits[_MOST_WAITS:]:
        yield _row("", "assumed", f"{counted(len(more), 'more wait')} in the JSON (--json)")


def _needless_lines(port: PortFindings) -> Iterator[str]:
    head = "copies"
    for row in port.needless[:_MOST_COPIES]:
        side = "device" if row.direction == "h2d" else "host"
        text = f"{counted(row.copies, 'copy', 'copies')} ({format_size(row.bytes, 3)}) at {where(row.place)} "
        text += "moves" if row.copies == 1 else "move"
        has = "had" if row.renewed else "already has"
        text += f" bytes that the {side} {has} from {where(row.since, row.place)}"
        text += compared_part(row.compared, row.each)
        if row.renewed:
            buffers, were = ("buffers", "were") if len(row.blocks) > 1 else ("buffer", "was")
            text += f", before its {buffers} {were} freed and allocated again"
            text += f" ({row.renewed:,}x)" if row.renewed > 1 else ""
        if row.reading:
            text += f"; unless {row.reading}"
        yield _row(head, row.certainty, text)
        head = ""
    other = [row for row in port.other_copies if row.bytes > _LITTLE * port.copied]
    if other and port.copies:  # else the first line has them
        yield _row(head, "exact", f"{other_copies(other)} not counted above")


def _next_step_lines(port: PortFindings) -> Iterator[str]:
    if port.copies:
        yield f"{'next':<{_HEAD}}firsttouch advise RUN --profile {shlex.quote(port.directory)}"


def grouped(findings: Iterable[PortFinding]) -> list[list[PortFinding]]:
    """Findings of one kind that say the same, of other blocks or calls."""
    groups: dict[tuple[str, str, str], list[PortFinding]] = {}
    for finding in findings:
        groups.setdefault((finding.kind, finding.certainty, finding.text), []).append(finding)
    return list(groups.values())


def _hazard_lines(port: PortFindings) -> Iterator[str]:
    """What has to be fixed first, and what is only to be noted."""
    for head, to_fix in (("fix first", True), ("notes", False)):
        yield from _finding_lines(head, port, grouped(row for row in port.counted if row.to_fix == to_fix))


def _finding_lines(head: str, port: PortFindings, groups: Sequence[Sequence[PortFinding]]) -> Iterator[str]:
    names = {block.number: short(block.name, 40) for block in port.blocks if block.name}
    for number, group in enumerate(groups):
        first, rule = group[0], all_rules()[group[0].kind]
        places = list(dict.fromkeys(place for finding in group for place in finding.places))
        blocks = [block for finding in group for block in finding.blocks] if rule.names_variables else []
        variables = join_some([names[block] for block in blocks if block in names], _MOST_PLACES)
        subject = f"{rule.title} {variables}".strip()
        text = f"{subject} at {named_places(places, most=_MOST_PLACES)} ({_amount_words(group)}): {first.text}"
        if first.reading:
            text += f"; unless {first.reading}"
        following = groups[number + 1][0] if number + 1 < len(groups) else None
        yield _row(head, first.certainty, text)
        if following is None or following.kind != first.kind:
            yield _row("", "", f"{first.strategy}: {first.link}")
        head = ""


def _amount_words(group: Sequence[PortFinding]) -> str:
    size = sum(finding.bytes for finding in group)
    times = f"{sum(finding.count for finding in group):,}x"
    return f"{times}, {format_size(size, 3)}" if size else times


def _searched(port: PortFindings) -> Iterator[str]:
    if port.shadow is not None:
        yield _row("shadow", "seen", shadow_words(port.shadow))
    found = {finding.kind for finding in port.counted}
    none = [row for row in port.searched if row.searched and row.kind not in found]
    if none:
        names = [all_rules()[row.kind].title + (f" ({row.text})" if row.text else "") for row in none]
        yield _row("hazards", "none", f"{join_names(names, 'or')}{' in these records' if port.partial else ''}")
    for row in port.searched:
        if not row.searched:
            yield _row("" if none else "hazards", "unseen", f"{all_rules()[row.kind].title}: {row.text}")


def _kernel_lines(port: PortFindings) -> Iterator[str]:
    """What the second run told of kernels."""
    kernel_use = port.kernels
    if kernel_use is None:
        return
    slower = f", {kernel_use.slowdown:.1f} times as long" if kernel_use.slowdown else ""
    use_words = (
        f"accesses of {kernel_use.told:,} of {counted(kernel_use.launches, 'launch', 'launches')}: "
        f"{kernel_use.recorded:,} recorded"
    )
    use_words += f" in a second run{slower}, {kernel_use.alike:,} equal to recorded ones"
    yield _row(
        "kernels", "exact", f"{use_words}; {counted(kernel_use.outside, 'access', 'accesses')} outside all buffers"
    )
    for row in [row for row in kernel_use.kernels if row.used < row.bytes][:_MOST_KERNELS]:
        used = f"{format_size(row.used, 3)} of {format_size(row.bytes, 3)} at {where(row.place)}"
        yield _row("", "exact", f"{short(row.kernel, 60)} accesses {used}, {row.launches:,}x")
    other_uses = [
        (kernel_use.varying, "whose accesses differ from launch to launch"),
        (kernel_use.opaque, "through tensor maps"),
        (kernel_use.graphs, "in graphs of several kernels, which can't be distinguished"),
    ]
    for number, how in other_uses:
        if number:
            yield _row("", "unseen", f"accesses of {counted(number, 'launch', 'launches')} {how}")
    for text in (kernel_use.ended, *kernel_use.notices):
        if text:
            yield _row("", "unseen", text)


def _unseen(port: PortFindings) -> Iterator[str]:
    rows = [*port.lacking, *port.unseen]
    for number, text in enumerate(rows[:_MOST_UNSEEN]):
        more = f"; {len(rows) - _MOST_UNSEEN} more in the JSON" if number == _MOST_UNSEEN - 1 < len(rows) - 1 else ""
        yield f"{'unseen' if not number else '':<{_HEAD}}{short(text, 300)}{more}"
