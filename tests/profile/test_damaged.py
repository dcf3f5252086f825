"""Profiles from elsewhere: text that is meant to do harm, numbers that cannot be, and damaged files."""

from __future__ import annotations

import json
import random
import re
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from tests.profile.profiles import MiB, gpu, header, mark, write

from firsttouch.base.errors import UsageError
from firsttouch.cli.output import printable
from firsttouch.cli.profiled import lines
from firsttouch.profile import schema as s
from firsttouch.profile.marks import FILE as MARKS
from firsttouch.profile.reading import read
from firsttouch.profile.summarise import summarise
from firsttouch.profile.views import write as write_views

HOSTILE = ["a\nb\rc\x1b]0;title\x07", "</script><script>alert(1)</script>", "\u202e\u2028x\x85y", "n" * 20_000, "\0z"]
LARGEST = 2**63 - 1


def printed(directory: Path) -> list[str]:
    """The lines on the terminal, as printing shows them."""
    summary, why = write_views(directory)
    assert not why
    return printable("\n".join(lines(summary, ["files"]))).split("\n")


def hostile(number: int) -> str:
    return f"{HOSTILE[number % len(HOSTILE)]}{number}"


def test_names_are_text(tmp_path: Path) -> None:
    more: list[s.ProfileLine] = [
        s.Started(t=0.1, key=k, pid=k, parent=0, name=hostile(k), command=[hostile(k)] * 3) for k in range(2, 40)
    ]
    for number in range(20):
        more += [
            mark(0.1 * number, hostile(number), domain=hostile(number)),
            mark(0.1 * number + 0.05, kind="end", domain=hostile(number)),
            s.Site(site=number, file=hostile(number), offset=LARGEST),
            s.Symbol(site=number, function=hostile(number), source=hostile(number), number=LARGEST),
        ]
    more += [
        s.Mappings(t=1.0, key=0, rows=[s.Mapping(hostile(k), 1, 1, 1, 1) for k in range(40)]),
        s.Faults(t=1.0, every=64, rows=[(k, 0, hostile(k), 5) for k in range(20)]),
        s.BriefProcesses(t=1.0, count=5, names=dict.fromkeys(HOSTILE, 1)),
        *[s.Notice(t=1.0, text=text) for text in HOSTILE],
        *[s.Notice(t=1.0, text=f"{number}") for number in range(1000)],
    ]
    layers = [s.LayerState("gpus", False, text, text) for text in HOSTILE]
    gpus = [gpu(hostile(k), model=hostile(k), source=hostile(k), by_process=hostile(k)) for k in range(5)]
    directory = write(tmp_path / "p", *more, command=HOSTILE, layers=layers, gpus=gpus, host=HOSTILE[0])
    shown = printed(directory)
    assert len(shown) <= 25
    assert max(map(len, shown)) <= 1100
    assert not any(set(line) & set("\r\x1b\0\u202e\u2028\x85") for line in shown)
    assert any(
        "further notices" in row["why"] for row in json.loads((directory / "profile.json").read_text())["unseen"]
    )
    json.loads((directory / "trace.json").read_text())


def test_the_largest_numbers_are_summed(tmp_path: Path) -> None:
    more = [
        s.Started(t=0.0, key=2, pid=LARGEST, parent=LARGEST),
        s.Samples(of="total", columns=["resident"], rows=[[3.0, 1e19]]),
        *[s.Samples(of=f"gpu:0/process:{'9' * 5000}", columns=["used"], rows=[[1.0, 5]])] * 2,
        s.Samples(of=f"process:{'9' * 5000}", columns=["resident"], rows=[[1.0, 5]]),
        *[s.BriefProcesses(t=1.0, count=LARGEST, names={"a": LARGEST})] * 3,
        *[s.Faults(t=1.0, every=LARGEST, rows=[(0, -1, "a", LARGEST)], lost=LARGEST)] * 3,
        s.Mappings(t=1.0, key=0, rows=[s.Mapping("a", LARGEST, LARGEST, LARGEST, LARGEST)] * 3),
    ]
    assert len(printed(write(tmp_path / "p", *more, gpus=[gpu()]))) <= 25


@pytest.mark.parametrize(
    "line",
    [
        '{"line":"samples","of":"total","columns":["resident"],"rows":[[0.1,1e300]]}',
        '{"line":"samples","of":"total","columns":["resident"],"rows":[[0.1,99999999999999999999999]]}',
        '{"line":"samples","of":"total","columns":["resident"],"rows":[[-0.1,5]]}',
        '{"line":"samples","of":"total","columns":["resident"],"rows":[[1e12,5]]}',
        '{"line":"started","t":-1,"key":5,"pid":1}',
        '{"line":"started","t":1,"key":99999999999999999999999,"pid":1}',
        '{"line":"mappings","t":1,"key":0,"rows":[["a",1,-1,5,5]]}',
        '{"line":"end","t":1e300,"why":"x"}',
        '{"line":"notice","t":1,"text":"x","more":1}',
        '{"line":"notice","t":1,"text":"\udcff"}',
        "[" * 100_000,
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, line: str) -> None:
    directory = write(tmp_path / "p")
    with (directory / s.FILE).open("ab") as file:
        file.write(line.encode(errors="surrogateescape") + b"\n")
    with pytest.raises(UsageError, match=r"profile\.jsonl:? ?\S*:"):
        read(directory)


def test_marks_are_within_the_run(tmp_path: Path) -> None:
    """Anybody may write marks; those of a target that outlives its profiler are of a time that was not seen."""
    for name, whole in (("ended", True), ("killed", False)):
        directory = write(tmp_path / name, whole=whole)
        marks = [mark(1000.0 + t, text) for t, text in ((-500, "early"), (1, "within"), (900, "late"))]
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in marks)
        (directory / MARKS).write_bytes(b"\xff\xfe\n" + data + b'{"line":"mark","t":1e300,"kind":"begin","pid":1}\n')
        profile = read(directory)
        assert profile.seconds <= 4
        assert [phase.name for phase in profile.phases] == ["early", "within"]
        assert all(0 <= phase.start <= phase.end <= profile.seconds for phase in profile.phases)


def test_shared_memory_never_counts_for_more_than_the_sum(tmp_path: Path) -> None:
    """The processes were read one by one, while memory rose."""
    pss = s.Samples(of="total", columns=["pss"], rows=[[0.105, 100 * MiB]])
    host = summarise(read(write(tmp_path / "p", pss))).host
    assert host.pss is None or (host.pss_resident or 0) >= host.pss.bytes
    assert "counted once" not in "\n".join(printed(tmp_path / "p"))  # of a time with little memory


def test_files_with_random_damage(tmp_path: Path) -> None:
    """They are read or refused."""
    chance = random.Random(5)
    whole = (write(tmp_path / "whole", mark(1, "a"), mark(2, kind="end"), gpus=[gpu()]) / s.FILE).read_bytes()
    numbers = [b"-1", b"1e300", b"99999999999999999999", b"null", b"9223372036854775807", b"-0.0", b'"x"']
    directory = tmp_path / "damaged"
    directory.mkdir()
    accepted = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.choice([1, 1, 5])):
            place = chance.randrange(len(data))
            match chance.randrange(4):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    del data[place : place + chance.randrange(200)]
                case 2:
                    data[place:place] = data[chance.randrange(len(data)) :][: chance.randrange(300)]
                case _:
                    found = chance.choice(list(re.finditer(rb"\d+", data)))
                    data[found.start() : found.end()] = chance.choice(numbers)
        (directory / s.FILE).write_bytes(data)
        with suppress(UsageError):
            assert len(printed(directory)) <= 25
            accepted += 1
    assert accepted


def test_a_second_header_is_refused(tmp_path: Path) -> None:
    directory = write(tmp_path / "p", header())
    with pytest.raises(UsageError, match="a second header"):
        read(directory)
