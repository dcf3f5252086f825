"""An acceptance test for ReFrame: the node is as good as the runs in BASELINE_RUNS (docs/compare.md).

reframe -c docs/examples/acceptance_reframe.py -r
"""

import os

import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class MemoryAcceptance(rfm.RunOnlyRegressionTest):
    """Measures the node and compares it with a baseline: directories of one good node, joined by commas."""

    descr = "firsttouch: nothing is clearly slower than on the good node"
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    executable = "firsttouch"
    baseline = variable(str, value=os.environ.get("BASELINE_RUNS", ""))  # noqa: F821
    experiments = variable(str, value="latency bandwidth transfer")  # noqa: F821
    devices = variable(str, value="")  # noqa: F821
    """Such as "--device cuda:0"; empty for all."""
    limit = variable(str, value="10%")  # noqa: F821
    time_limit = "10m"

    @run_before("run")  # noqa: F821
    def commands(self):
        self.skip_if(not self.baseline, "set BASELINE_RUNS to results of a good node")
        self.prerun_cmds = [f"firsttouch run {self.experiments} {self.devices} --preset quick --out now"]
        self.executable_opts = ["compare", self.baseline, "now", "--fail-over", self.limit, "--out", "compare.html"]
        self.postrun_cmds = ["echo exit status $?"]
        self.keep_files = ["now", "compare.html"]

    @sanity_function  # noqa: F821
    def nothing_is_worse(self):
        return sn.assert_found(r"^exit status 0$", self.stdout, "a regression, or no comparison; see the test's output")

    @performance_function("points")  # noqa: F821
    def compared(self):
        return sn.extractsingle(r"of\s+([\d,]+)\s+points", self.stdout, 1, lambda text: int(text.replace(",", "")))
