"""A page with sections of experiments of one's own is not replaced by one that has lost them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import sample
from tests.calls import call

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
pytestmark = pytest.mark.usefixtures("drawn_here", "undrawn")


def stride():
    return [sample.point("stride", "cpu", 9.0, factors={"agent": "cpu", "stride": 64 << i}) for i in range(3)]


def smooth():
    return [sample.app("smooth", strategy) for strategy in ("explicit", "managed")]


@pytest.fixture
def measured(write):
    """Writes results of a module as a run does, and returns the directory."""

    def measured(records, *modules):
        results = sample.results()
        results.records = [*results.records[:4], *records]
        request = msgspec.structs.replace(results.request, modules=[str(path) for path in modules])
        directory = write(results)
        (directory / "run.json").write_bytes(msgspec.json.encode(request))
        return directory

    return measured


@pytest.mark.parametrize(("name", "records", "shown"), [
    ("stride", stride, "Does the distance between two loads matter?"), ("smooth", smooth, "this example"),
])  # fmt: skip
def test_a_page_is_kept_whose_sections_this_call_does_not_know(measured, tmp_path, name, records, shown):
    module = tmp_path / f"{name} of mine.py"
    module.write_text((EXAMPLES / f"{name}.py").read_text())
    directory = measured(records(), module)
    page, before = directory / "report.html", set(tmp_path.rglob("*"))
    assert call("report", directory, "--module", module).returncode == 0
    assert set(tmp_path.rglob("*")) - before == {page}
    good = page.read_text()
    assert shown in good

    again = call("report", directory)
    assert (again.returncode, again.stdout, page.read_text()) == (2, "", good)
    assert f"{page} has sections of {name}," in again.stderr
    assert f"type: firsttouch report {directory} --module '{module}'" in again.stderr
    assert len(again.stderr.splitlines()) == 1

    other = tmp_path / "other.html"
    assert call("report", directory, "-o", other).returncode == 0
    assert shown not in other.read_text()
    assert call("report", directory, "--module", module).returncode == 0
    page.unlink()
    assert call("report", directory).returncode == 0  # nothing is lost
    assert call("report", directory).returncode == 0
    assert call("report", directory, "--module", module).returncode == 0
    assert page.read_text() == good


def test_what_the_records_no_longer_hold_does_not_count(measured):
    directory = measured(stride(), EXAMPLES / "stride.py")
    call("report", directory, "--module", EXAMPLES / "stride.py")
    lines = (directory / "results.jsonl").read_text().splitlines(keepends=True)
    (directory / "results.jsonl").write_text("".join(line for line in lines if "stride" not in line))
    assert call("report", directory).returncode == 0


def test_a_page_of_others_is_only_read(measured, tmp_path):
    directory = measured(stride())
    for text in ("", "<meta name", '<meta name="firsttouch-known" content="stride"' + " " * (1 << 17), "\udcff"):
        (directory / "report.html").write_text(text, errors="surrogateescape")
        assert call("report", directory).returncode == 0
        assert (directory / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(("text", "said"), [("x = 1", "no experiment"), ("x =", "does not")])
def test_a_module_without_either_is_refused(measured, tmp_path, text, said):
    (tmp_path / "mine.py").write_text(text)
    directory = measured(stride())
    done = call("report", directory, "--module", tmp_path / "mine.py")
    assert done.returncode == 2
    assert said in done.stderr
    assert not (directory / "report.html").exists()
