"""ReFrame tests of the memory of a node.

NodeHeadlines exports each headline of a run as a performance value. With --json outputs of runs of a good node, their
median is its reference, and a value that is worse by more than the tolerance fails:

    firsttouch run --json > good1.json      # three times, on the good node
    export FIRSTTOUCH_GOOD=$PWD/good1.json,$PWD/good2.json,$PWD/good3.json
    reframe -c firsttouch_checks.py -n NodeHeadlines -r --performance-report

NodeComparison fails if `firsttouch compare` finds anything that is clearly slower than in BASELINE_RUNS, the results
directories of a good node, joined by commas; docs/compare.md says what is clear:

    reframe -c firsttouch_checks.py -n NodeComparison -r

-S sets what they measure: -S experiments='latency bandwidth', -S options='--device cuda:0', -S tolerance=0.05. Both
have run with ReFrame 4.10 on a processor.
"""

# ruff: noqa: F821
import json
import os
import re
import statistics
from pathlib import Path

import reframe as rfm
import reframe.utility.sanity as sn


def headlines(outcome):
    """By name: the value and the unit of each number of the first screen, in what `firsttouch run --json` printed. The
    slowest of several is NAME-worst.
    """
    numbers = {}
    for finding in outcome["findings"]:
        if finding["claim"].startswith("headline."):
            head = re.sub(r"\W+", "-", finding["text"].partition(": ")[0].lower()).strip("-")
            for part, quantity in {"": finding["value"], **finding["details"]}.items():
                if is_measured(part, quantity):
                    numbers[f"{head}-{part}".strip("-")] = (quantity["value"], quantity["unit"])
    return numbers


def is_measured(part, quantity):
    """Whether it is neither a word, a ratio nor what is stated, and there whatever the values are."""
    return isinstance(quantity, dict) and quantity["unit"] not in ("", "%") and not re.search("limit|apart", part)


def references(good, tolerance):
    """By name, for all systems: the median of good runs, and by how much a value may be lower or higher."""
    runs = [headlines(json.loads(Path(file).read_text())) for file in good]
    known = {}
    for name, (_, unit) in (runs[0] if runs else {}).items():
        values = [numbers[name][0] for numbers in runs if name in numbers]
        below, above = (-tolerance, None) if unit.endswith("/s") else (None, tolerance)
        known[name] = (statistics.median(values), below, above, unit)
    return known


class NodeMemory(rfm.RunOnlyRegressionTest):
    """What both tests have in common."""

    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "firsttouch"
    experiments = variable(str, value="latency bandwidth transfer")
    options = variable(str, value="")
    """Further words for `firsttouch run`, such as "--device cuda:0"."""
    preset = variable(str, value="quick")
    tolerance = variable(float, value=0.1)
    time_limit = "20m"

    def measurement(self):
        return ["run", *self.experiments.split(), "--preset", self.preset, *self.options.split(), "--out", "now"]


@rfm.simple_test
class NodeHeadlines(NodeMemory):
    descr = "firsttouch: the headlines of a node as performance values"
    good = variable(str, value=os.environ.get("FIRSTTOUCH_GOOD", ""))
    """Files with the --json outputs of a good node, joined by commas; without them values are only reported."""

    @run_before("run")
    def commands(self):
        self.executable_opts = [*self.measurement(), "--json", "> now.json"]
        self.keep_files = ["now.json", "now"]

    def outcome(self):
        return json.loads(Path(self.stagedir, "now.json").read_text())

    def known(self):
        return references([file for file in self.good.split(",") if file], self.tolerance)

    @sanity_function
    def all_was_measured_and_right(self):
        try:
            outcome = self.outcome()
        except ValueError:
            return sn.assert_true(False, "firsttouch printed no results; the test's stderr says why")
        bad = {status: n for status, n in outcome["counts"].items() if status not in ("ok", "skipped")}
        missing = sorted(self.known().keys() - headlines(outcome).keys())
        return sn.all(
            [
                sn.assert_eq(bad, {}, "points that were not measured: {0}"),
                sn.assert_eq(outcome["unverified"], 0, "{0} points had wrong data"),
                sn.assert_eq(missing, [], "headlines of the good node that this one lacks: {0}"),
            ]
        )

    @run_before("performance")
    def values(self):
        numbers, known = headlines(self.outcome()), self.known()
        self.perf_variables = {
            name: sn.make_performance_function(lambda value=value: value, unit)
            for name, (value, unit) in numbers.items()
        }
        self.reference = {"*": {name: known.get(name, (0, None, None, unit)) for name, (_, unit) in numbers.items()}}


@rfm.simple_test
class NodeComparison(NodeMemory):
    descr = "firsttouch: nothing is clearly slower than on the good node"
    baseline = variable(str, value=os.environ.get("BASELINE_RUNS", ""))

    @run_before("run")
    def commands(self):
        self.skip_if(not self.baseline, "set BASELINE_RUNS to results of a good node")
        self.prerun_cmds = [" ".join(["firsttouch", *self.measurement()])]
        limit = f"{100 * self.tolerance:g}%"
        self.executable_opts = ["compare", self.baseline, "now", "--fail-over", limit, "--out", "compare.html"]
        self.postrun_cmds = ["echo exit status $?"]
        self.keep_files = ["now", "compare.html"]

    @sanity_function
    def nothing_is_worse(self):
        too_few = sn.assert_not_found(
            r"^exit status 4$", self.stdout, "not judged: BASELINE_RUNS needs three runs, and both sides an idle node"
        )
        found = sn.assert_found(
            r"^exit status 0$", self.stdout, "a regression, or no comparison; see the test's output"
        )
        return sn.all([too_few, found])

    @performance_function("points")
    def compared(self):
        return sn.extractsingle(r"of\s+([\d,]+)\s+points", self.stdout, 1, lambda text: int(text.replace(",", "")))
