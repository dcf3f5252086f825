"""firsttouch for Ramble: each headline of a node's memory is a figure of merit.

ramble repo add packaging/ramble; then packaging/ramble/ramble.yaml is the configuration of a workspace. For Benchpark,
this file belongs into its repo/firsttouch, and the experiment of ramble.yaml into its experiments/firsttouch. With
Ramble 0.5.0 it has run; in Benchpark, and with a package of Spack, it was not run.
"""

from ramble.appkit import *

# One line for each number of the first screen. Braces would be Ramble's.
SHOW = (
    "python3 -c 'import json, sys; "
    '[print("headline:", f["text"].partition(": ")[0], "=", f["value"]["value"], f["value"]["unit"]) '
    'for f in json.load(sys.stdin)["findings"] if f["claim"].startswith("headline.") '
    'and "unit" in f["value"] and f["value"]["unit"]]\''
    " < now.json"
)


class Firsttouch(ExecutableApplication):
    """Measures how CPU-GPU memory management behaves on a node."""

    name = "firsttouch"
    tags("memory", "synthetic-benchmarks")

    software_spec("firsttouch", pkg_spec="py-firsttouch", package_manager="spack*")

    executable("clear", template="rm -rf now now.json", use_mpi=False)
    executable(
        "measure",
        template="firsttouch run {experiments} {options} --out now --json > now.json",
        use_mpi=False,
        redirect="",
        output_capture="",
    )
    executable("show", template=SHOW, use_mpi=False)

    workload("node", executables=["clear", "measure", "show"])
    workload_variable(
        "experiments",
        default="latency bandwidth transfer",
        description="`firsttouch run --list` has all",
        workloads=["node"],
    )
    workload_variable("options", default="", description="Further words, such as --device cuda:0", workloads=["node"])

    for unit in ("GB/s", "ns", "us", "ms", "s"):
        figure_of_merit(
            "{head} (" + unit + ")",
            fom_regex=r"headline: (?P<head>.+) = (?P<value>[0-9.e+-]+) " + unit + "$",
            group_name="value",
            units=unit,
        )

    success_criteria("a headline", mode="string", match=r"headline: .+", file="{log_file}")
