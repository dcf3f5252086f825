"""firsttouch app --kernels: predictions with what kernels took in one's own runs."""

from __future__ import annotations

import json
from pathlib import Path

from tests.calls import call
from tests.kept_runs import stored_run

RUNS = stored_run("h100-apps-256mib")
MODULE = """
from pathlib import Path
from firsttouch.apps.hotspot import Hotspot

class Mine(Hotspot):
    name = "mine"

    @classmethod
    def kernel_path(cls) -> Path:
        return Hotspot.kernel_path()
"""


def test_an_application_of_one_s_own_is_predicted_with_one_s_own_runs(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MODULE)
    runs = tmp_path / "runs"
    runs.mkdir()
    for file in ("machine.json", "run.json", "results.jsonl"):
        (runs / file).write_text((RUNS / file).read_text().replace('"hotspot"', '"mine"'))
    asked = ("app", "mine", "--module", "mine.py", "--strategy", "explicit", "--size", "256MiB")
    modelled = (*asked, "--device", "model:h200-pcie")
    assert call(*modelled, "--kernels", "runs", "--out", "out", cwd=tmp_path).returncode == 0
    record = json.loads((tmp_path / "out" / "results.jsonl").read_text())
    kernels = next(term for term in record["terms"] if term["what"] == "kernels")
    assert any("(runs)" in text and "H100" in text for text in kernels["assumptions"])
    for wrong in ((*modelled, "--kernels", "nothing"), (*asked, "--device", "cpu", "--kernels", "runs")):
        assert call(*wrong, cwd=tmp_path).returncode == 2
