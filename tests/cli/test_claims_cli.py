"""`firsttouch claims`: the counts first, at most two screens, every claim in JSON and with --all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.calls import invoke
from tests.schemas import assert_valid

from firsttouch.cli import claims

RESULTS = Path(__file__).resolve().parents[2] / "results"


def test_the_counts_come_first_and_all_fits_on_two_screens(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(claims.command, [RESULTS / "h200-standard"])
    out = capsys.readouterr().out
    assert out.startswith("Of 1")
    assert "hold here," in out.splitlines()[0]
    assert out.index("Does not hold here") < out.index("Holds here") < out.index("Can't be tested here")
    assert len(out.splitlines()) < 90
    assert max(map(len, out.splitlines())) <= 100


def test_one_claim_holds_and_one_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(claims.command, [RESULTS / "h200-pairs"])
    assert "papers, 1 holds here, 1 does not, 0 show no" in capsys.readouterr().out


def test_json_has_every_claim_and_all_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(claims.command, [RESULTS / "h200-pagefault"], as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert_valid("claims", data)
    invoke(claims.command, [RESULTS / "h200-pagefault"], everything=True)
    out = " ".join(capsys.readouterr().out.split())
    for claim in data["claims"]:
        assert claim["text"] in out
        assert claim["command"] in out


def test_the_docs_quote_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    invoke(claims.command, [RESULTS / "h200-standard"])
    printed = capsys.readouterr().out.splitlines()
    claimed = printed[0].split()[1]
    for name, quoted in {
        "docs/published.md": [f"{claimed} orderings, ratios and trends"],
        "README.md": [f"{claimed} claims of five", *printed[:7]],
    }.items():
        page = (RESULTS.parent / name).read_text()
        for line in quoted:
            assert line.strip() in page, f"{name} quotes other numbers"
