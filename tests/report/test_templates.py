"""What pages make of texts."""

from __future__ import annotations

import pytest

from firsttouch.report.templates import breakable, coded

LONG = "a_name_of_many_words/and_of_a_folder"


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("run `firsttouch app NAME` first", "run <code>firsttouch app NAME</code> first"),
        ("`a` or `b`", "<code>a</code> or <code>b</code>"),
        ("`<b>` & more", "<code>&lt;b&gt;</code> &amp; more"),
        ("no code, a < b", "no code, a &lt; b"),
        ("one ` only", "one ` only"),
        ("none between ``", "none between ``"),
    ],
)
@pytest.mark.parametrize("shown", [coded, breakable])
def test_what_is_between_backticks_is_code(text: str, html: str, shown) -> None:
    assert str(shown(text)) == html


def test_code_in_a_cell_may_be_broken_as_other_long_words() -> None:
    broken = LONG.replace("_", "_<wbr>").replace("/", "/<wbr>")
    assert str(breakable(f"see `{LONG}`")) == f"see <code>{broken}</code>"
    assert str(coded(f"see `{LONG}`")) == f"see <code>{LONG}</code>"
