"""Records what every command of firsttouch prints and writes, so that a move of modules can be shown to change nothing.

    record_outputs.py FIRSTTOUCH CHECKOUT OUT_DIR    # of this program, on results/ and tests/ of this checkout
    record_outputs.py --compare OUT_DIR OUT_DIR      # exit status 1 if a call differs

A call is a process in a folder of its own. Of each, OUT_DIR has a text with its exit status, stdout and stderr, and a
folder with the files that it wrote, both named by its words. No call measures; two run at once, for some minutes. What
varies from call to call is masked: paths, the version, the host, dates and times that calls take; sets have one order.
What is printed depends on the machine and the packages that are installed: record both sides on one machine, each as
`make build` makes it.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from pathlib import Path

CALLS = """
platforms [--json]
platforms gh200 [--json]
platforms {mi300a-node,h200-pcie,p9-volta}
platforms gh200 --what-if host.page=4KiB
platforms --values [--json]

published [--json]
published --all
published --figures [--json]
published --search {triad,"latency gpu",oversubscription}
published --search managed --json
published --search {mi300a-upm,grace-hopper} --all

claims results/h200-standard [--json]
claims results/h200-standard results/h200-apps --all
claims results/xeon-vm-standard
claims results/h100-um-1 results/h100-um-5 --all
claims results/h100-visit-apps-1-1 results/h100-visit-apps-1-2 results/h100-visit-apps-1-3 --json

compare results/h200-standard results/h200-standard-2 [--json]
compare results/h200-standard results/h200-standard-2 results/h200-standard-3 --out page
compare results/h200-quick results/h100-quick results/xeon-vm-quick [--json]
compare runs/same-1,runs/same-2,runs/same-3 runs/slow-1,runs/slow-2,runs/slow-3 --fail-over 5% [--json]
compare runs/same-1,runs/same-2,runs/same-3 runs/slow-1,runs/slow-2,runs/slow-3 --out page.html
compare runs/same-1 runs/same-2 runs/same-3 runs/slow-1 results/xeon-vm-quick --fail-over 5%
compare results/h200-apps-1 results/h200-visit-apps-1-1
compare results/h100-apps-64mib results/h100-apps-64mib-2
compare results/h200-standard published:{mi300a-upm,grace-hopper,gh200}
compare results/h200-standard published:mi300a-upm --json
compare results/h200-x2-quick [--json]

advise results/h200-standard --app {fdtd3d,srad} --size 2GiB [--json]
advise results/h200-standard --app {cfd,producer_consumer,pointer_tree} --size default
advise results/h200-standard results/h200-apps --app gemm [--json]
advise results/h200-standard --pattern {stream,iterate,feed,sparse} --size 4GiB
advise results/h200-standard --pattern alternate --set in=4GiB --set out=8 --set kernels=100 [--json]
advise results/h100-quick
advise results/xeon-vm-quick --device opencl:0 --app bfs --size 64MiB
advise nw --device model:{gh200,h100-pcie} --json
advise srad --device model:{mi300a,h200-pcie} --size 8GiB
advise results/h200-standard --module examples/smooth.py --size 64MiB

app nw srad hotspot --device model:gh200 --size 1GiB --out o [--json]
app backprop bfs kmeans --device model:mi300a --size 256MiB --out o [--json]
app gemm lud fdtd3d --device model:h100-pcie --size 4GiB --out o [--json]
app cfd conjugate_gradient fft_conv_c2c --device model:h200-pcie --size 2GiB --out o [--json]
app --all --device model:{gh200,mi300a} --size tiny --out o --json
app --all --device model:{p9-volta,h200-pcie} --size tiny --strategy explicit --strategy managed --out o
app srad --device model:gh200 --strategy explicit --strategy managed --size 8GiB --explain --out o [--json]
app nn --device model:mi300a --strategy explicit --strategy pinned --strategy managed --explain --out o
app srad --device model:gh200 --what-if host.page=4KiB,64KiB --strategy explicit --strategy system --explain --out o
app hotspot --device model:gh200 --device model:h200-pcie --size 512MiB --relative-to managed --out o
app hotspot --device model:gh200 --placements --size 512MiB --strategy managed --out o
app srad --device model:gh200 --strategy managed --size 1GiB --timeline --iterations 3 --out o --json
app fdtd3d --device model:p9-volta --oversubscribe 1.5 --strategy managed --allow-oversubscription --size 1GiB --out o
app nw --device model:h100-pcie --kernels results/h100-apps-256mib --size 256MiB --out o --json
app smooth --module examples/smooth.py --device model:gh200 --size 64MiB --out o
app --list [--json]
app {srad,producer_consumer} --list
app smooth --module examples/smooth.py --list --json

run {latency,migration} --device model:gh200 --out o [--json]
run {allocation,faultcount,accounting} --device model:mi300a --out o
run {bandwidth,pagefault} --device model:h200-pcie --out o
run --device model:h100-pcie --out o
run p2p-latency p2p-direct p2p-copy --device model:mi300a-node --out o --json
run latency --device model:tk1 --set size=4KiB,1MiB --set agent=cpu,gpu --out o
run transfer --device model:gh200 --what-if link.h2d=128GB/s --preset standard --out o
run stride --module examples/stride.py --device model:gh200 --out o
run --list [--json]
run {allocation,port-static} --list --device cpu
run neighbour --module examples/neighbour.py --list --json

report results/h200-quick -o page.html [--json]
report results/{h100-um-events,h100-port-programs,h100-by-iteration/srad,h200-x2-quick,h200-placements} -o page.html
report results/h200-apps-1 results/h200-visit-apps-1-1 -o page.html --json
report results/{xeon-vm-quick,h200-apps-4,h200-profile} --format svg -o o
report results/{h200-standard,h200-apps,h200-profile,h200-counters/memory} --format csv -o o
report results/h200-quick --format openmetrics -o o --json
report results/h100-um-2 --format png -o o
report results/h200-timelines/timelines/0001 results/h200-timelines/timelines/0002 -o page.html
report traces/{nw,h100-bfs} -o page.html
report traces/streamcluster -o page.html --json

interfaces results/{h200-pairs,h200-x2-quick} [--json]
interfaces results/{h200-message,h200-x2-collective} --all
interfaces results/h200-pairs --kind copy --kind direct --all

validate gh200 [--json]
validate kaveri tk1 p9-volta --all
validate mi300a@host.page=4KiB
validate h200-pcie --measured results/h200-visit-apps-1-1 [--json]

fit results/h200-standard --out mine.json [--json]
fit results/h100-port/prices/micro results/h100-port/prices/transfer --extends h100-pcie --title H100 --out mine.json
fit results/xeon-vm-standard --device opencl:0 --out mine.json

port traces/{backprop,bfs,cfd,heartwall,myocyte,nn,particlefilter_naive,simpleStreams,streamcluster} --json
port traces/{h100-BlackScholes-validate,h100-nw,h100-simpleCUBLAS,h100-srad_v1,FDTD3dUM,hec-jacobi} --json
port traces/{backprop,heartwall,h100-nw,h100-simpleCUBLAS,nn,simpleStreams}
port traces/{heartwall,h100-FDTD3d} --program
port traces/backprop --program --json
port results/{h200-profile,h200-timelines/timelines/0001,h100-port}
advise results/h100-quick --profile traces/{nw,heartwall,h100-bfs} [--json]
advise results/h200-standard --profile traces/{backprop,h100-hotspot} --out page.html
advise --device model:{gh200,mi300a,h100-pcie} --profile traces/h100-matrixMul
advise --device model:h200-pcie --profile traces/h100-BlackScholes --json
advise results/h200-standard --profile results/h200-profile --json

schema [--json]
schema {SCHEMAS}
examples copied --json
completion {bash,zsh,fish}
mark solve
machine --json
methods --device cpu [--json]
methods --device opencl:0
profile --sources [--json]

--help
--version
{COMMANDS} --help
{run,app,profile,machine} --no-such-option
{claims,interfaces,report,compare,advise,port,validate} none --json
no-such-command
run latncy --json
run latency --device model:gh20
run latency --device cpu --set size=4XB
run latency --device cpu --set sise=4KiB --json
run latency --resume
run latency --device model:gh200 --what-if host.pages=4KiB
app
app nv
app nw --strategy manged --device model:gh200
app nw --device cuda:9
app nw --seed -1
app hotspot --device model:h200-pcie:cpu --size 64MiB --out o
advise results/h200-standard --app nv
advise results/h200-standard --pattern streem --size 1GiB --json
advise results/h200-standard --profile traces/nw --app nw
compare results/h200-standard results/h200-standard-2 --fail-over five
compare results/h200-standard published:nobody
compare results/h200-apps
interfaces results/h200-pairs --kind mail
report results/h200-quick --format pfd
published --search xyzzy
schema platform
fit results/h200-apps --out mine.json
completion csh
mark
methods --out o
methods --device cuda:7 --json
port
port traces/nw --process 5
profile
profile --interval 1us -- true
profile --trace --pid 1
"""
"""Each line is a call, or one for each word in its braces; [--json]: without it and with it. None may measure."""
COMMANDS = (
    "machine,methods,run,app,profile,port,mark,report,compare,advise,fit,interfaces,platforms,published,reproduce,claims,"
    "validate,examples,completion,schema"
)
COMPLETED = ("", "com", "app nw --strategy m", "app nw --device model:", "run latency --set all", "compare published:",
             "advise results/h200-quick --device ", "run stride --module examples/stride.py --set ")  # fmt: skip
"""Calls that a shell would have completed."""
VOLATILE = re.compile(
    r'"(now_mhz|load_1min|others_percent|pair_speedup|\w*available\w*_bytes|\w*free_bytes|node\d_total_bytes'
    r'|swap_used_bytes|pool_\w+_free|touch_\w+_ns)": [\d.]+'
)
"""Facts of a machine that differ from call to call."""
MOST, WIDEST = 20, 200
"""The lines, and the characters of a line, that are shown of a difference."""
LONGEST = 300
"""The seconds that a call may take."""


def expanded(text: str) -> Iterator[str]:
    """The lines that one with braces stands for."""
    if (match := re.search(r"\{([^{}]*)\}", text)) is None:
        yield text
        return
    for word in match[1].split(","):
        yield from expanded(f"{text[: match.start()]}{word}{text[match.end() :]}")


def calls(schemas: list[str]) -> Iterator[str]:
    lists = {"COMMANDS": COMMANDS, "SCHEMAS": ",".join(schemas)}
    for line in filter(None, CALLS.splitlines()):
        for call in expanded(re.sub(r"(?<=\{)[A-Z]+(?=\})", lambda match: lists[match[0]], line)):
            yield call.replace(" [--json]", "")
            if call.endswith(" [--json]"):
                yield call.replace("[--json]", "--json")


class Recorder:
    """Carries out calls of one program. work: a folder with all that they read."""

    def __init__(self, program: Path, work: Path, out: Path) -> None:
        self.program, self.work, self.out = program, work, out
        (work / "tmp").mkdir()
        self.environment = {"HOME": str(work), "TMPDIR": str(work / "tmp"), "PATH": os.environ["PATH"], "TZ": "UTC",
                            "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}  # fmt: skip
        version = self._run(["--version"], work).stdout.decode().split()[-1]
        self.masks = [(version, "VERSION"), (str(program.parents[1]), "VENV")]

    def _run(self, words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[bytes]:
        command, environment = [str(self.program), *words], self.environment | more
        no = subprocess.DEVNULL
        return subprocess.run(command, cwd=folder, env=environment, stdin=no, capture_output=True, timeout=LONGEST)

    def record(self, call: str, *, complete: bool = False) -> str:
        """Carries out a call in a new folder, and stores what it printed and wrote. Returns its name."""
        name = re.sub(r"[^\w.+:=,@%-]+", "_", f"complete {call}$" if complete else call)[:180]
        folder = Path(tempfile.mkdtemp(dir=self.work / "tmp", prefix="call-"))
        for shared in ("results", "runs", "traces", "examples"):
            (folder / shared).symlink_to(self.work / shared)
        words = call.split(" ") if complete else shlex.split(call)
        done = self._run(words, folder, **{"_FIRSTTOUCH_COMPLETE": "1"} if complete else {})
        masked = partial(self.masked, folder=folder)
        errors = re.sub(r"(?m)^\d+ of \d+ points in .*\n", "", masked(done.stderr))  # printed after 10 s without a line
        errors = re.sub(r"(?<=[ ,])[\d.]+ (ns|us|ms|s|min|h)\b", "TIME", errors)
        printed = f"$ firsttouch {call}\nexit status {done.returncode}\n{masked(done.stdout)}"
        with open(self.out / f"{name}.txt", "x", encoding="utf-8") as text:
            text.write(f"{printed}\n--- stderr\n{errors}")
        for path in (Path(where) / file for where, _, files in os.walk(folder) for file in files):
            stored = self.out / name / masked(str(path.relative_to(folder)).encode())
            stored.parent.mkdir(parents=True, exist_ok=True)
            stored.write_text(masked(path.read_bytes()), encoding="utf-8")
        shutil.rmtree(folder)
        return name

    def masked(self, content: bytes, folder: Path) -> str:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return f"{len(content)} bytes, {hashlib.sha256(content).hexdigest()}"
        for value, name in ((str(folder), "CWD"), (str(self.work), "WORK"), *self.masks):
            text = text.replace(value, name)
        text = re.sub(rf'("host": ?"|"summary": "){re.escape(socket.gethostname())}(?=[":])', r"\1HOST", text)
        text = re.sub(r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)?", "DATE", text)
        text = re.sub(r'(?<="seconds":)[\d.]+(?=,"title":)', "0", text)
        if '"schema": "firsttouch-machine' in text:
            text = re.sub(r'(?s)"warnings": \[.*?\]', '"warnings": []', VOLATILE.sub(r'"\1": 0', text))
        return text


def made_run(source: Path, target: Path, factor: float) -> None:
    """Makes a run of another one, in which a latency is `factor` times as long."""
    shutil.copytree(source, target)
    records = [json.loads(line) for line in (source / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    for record in records:
        if record["experiment"] == "latency" and record["summary"]:
            scaled = {name: value if name == "n" else value * factor for name, value in record["summary"].items()}
            record.update(samples=[value * factor for value in record["samples"]], summary=scaled)
    text = "".join(f"{json.dumps(record)}\n" for record in records)
    (target / "results.jsonl").write_text(text, encoding="utf-8")


def prepare(checkout: Path, work: Path) -> None:
    """Copies and makes what the calls read."""
    for results in (checkout / "results", checkout / "evidence/results"):
        if results.is_dir():
            shutil.copytree(results, work / "results", dirs_exist_ok=True)
    shutil.copytree(checkout / "docs/examples", work / "examples")
    for archive in (checkout / "tests/port/recorded").glob("*.tar.xz"):
        with tarfile.open(archive) as content:
            content.extractall(work / "traces" / archive.name.removesuffix(".tar.xz"), filter="data")
    for number, factor in enumerate((1, 1.01, 0.99), start=1):
        made_run(work / "results/xeon-vm-quick", work / f"runs/same-{number}", factor)
        made_run(work / "results/xeon-vm-quick", work / f"runs/slow-{number}", 1.5 * factor)


def record(program: Path, checkout: Path, out: Path) -> None:
    os.nice(10)
    out.mkdir(parents=True)
    schemas = [file.name.removesuffix(".schema.json") for file in sorted((checkout / "docs/schemas").iterdir())]
    with tempfile.TemporaryDirectory(prefix="firsttouch-record-") as name:
        prepare(checkout, Path(name))
        recorder = Recorder(program, Path(name), out)
        with ThreadPoolExecutor(2) as pool:
            names = list(pool.map(recorder.record, calls(schemas)))
            names += pool.map(partial(recorder.record, complete=True), COMPLETED)
    print(f"{len(names)} calls, into {out}")


def lines(file: Path) -> list[str]:
    """The lines of a file, with one for each value of JSON and each element of HTML, and several for a wide one."""
    parts = re.sub(r"(?<=[,>{\[])(?!\n)", "\n", file.read_text(encoding="utf-8")).split("\n")
    return [part[at : at + WIDEST] for part in parts for at in range(0, len(part) or 1, WIDEST)]


def differences(before: Path, after: Path) -> list[str]:
    """The first lines of a unified diff, of what is near the first difference: all of a report would take long."""
    first, second = lines(before), lines(after)
    begin = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, second, strict=False)))
    near = slice(max(0, begin - 2), begin + 10 * MOST)
    names = (str(before), str(after))
    return list(difflib.unified_diff(first[near], second[near], *names, n=1, lineterm=""))[:MOST]


def compare(first: Path, second: Path) -> int:
    """Prints what differs of two recordings. Returns the exit status."""
    files = sorted({file.relative_to(side) for side in (first, second) for file in side.rglob("*") if file.is_file()})
    differing = dict[str, None]()
    for file in files:
        missing = [side for side in (first, second) if not (side / file).is_file()]
        if not missing and (first / file).read_bytes() == (second / file).read_bytes():
            continue
        differing[file.parts[0].removesuffix(".txt")] = None
        shown = [f"{file} is not in {missing[0]}"] if missing else differences(first / file, second / file)
        print(*shown, "", sep="\n")
    n = sum(file.suffix == ".txt" and len(file.parts) == 1 for file in files)
    print(f"{len(differing)} of {n} calls differ", *differing, sep="\n  ")
    return int(bool(differing))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--compare", first, second]:
            sys.exit(compare(Path(first), Path(second)))
        case [program, checkout, out]:
            record(Path(os.path.abspath(program)), Path(checkout).resolve(), Path(out).resolve())
        case _:
            sys.exit(__doc__)
