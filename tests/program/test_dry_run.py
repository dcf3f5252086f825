"""A dry run declares what the application does when it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from firsttouch.apps import all_apps
from firsttouch.base.errors import UsageError
from firsttouch.harness.app import App, Cpu, Gpu, View, buffer, f32
from firsttouch.model.estimate import estimate
from firsttouch.model.measured import MeasuredPrices
from firsttouch.program import dry_run
from firsttouch.program.dry_run import program_of
from firsttouch.program.patterns import PATTERNS, program_for
from firsttouch.program.program import Item, Launch, Repeat
from firsttouch.program.strategies import STRATEGIES
from firsttouch.records.reading import load_results
from firsttouch.records.schema import Record

RESULTS = Path(__file__).parents[2] / "results"
DEPENDS_ON_DATA = ("bfs_concurrent", "kmeans", "kmeans_concurrent", "streamcluster")


@pytest.fixture(scope="module")
def runs() -> Mapping[str, Record]:
    """Runs under explicit on the H200, by application."""
    records = load_results(RESULTS / "h200-apps").records
    return {str(r.factors["app"]): r for r in records if r.factors["strategy"] == "explicit" and r.status == "ok"}


@pytest.fixture(scope="module")
def prices() -> MeasuredPrices:
    run = load_results(RESULTS / "h200-standard")
    device = next(d for d in run.machine.devices if d.capabilities.page_migration)
    return MeasuredPrices(run.machine, run.records, device)


def parameters(record: Record) -> dict[str, int]:
    named = {n.removeprefix("param_"): v for n, v in record.counters.items() if n.startswith("param_")}
    return {name: v for name, v in named.items() if isinstance(v, int)}


def test_a_dry_run_copies_the_bytes_that_a_run_copied(runs: Mapping[str, Record], prices: MeasuredPrices) -> None:
    apps = all_apps()
    for name, record in runs.items():
        declared = program_of(apps[name], parameters(record))
        if name in DEPENDS_ON_DATA:
            assert declared.assumptions, name
            continue
        terms = estimate(declared, STRATEGIES["explicit"], prices)
        for what, counter in (("copy in", "copied_h2d_bytes"), ("copy back", "copied_d2h_bytes")):
            copied = sum(t.bytes for t in terms if t.what.startswith(what))
            assert copied == pytest.approx(float(record.counters[counter] or 0), rel=1e-3, abs=1e4), (name, what)


class Endless(App):
    """Ends only if the data say so, which a dry run does not have."""

    name = "endless"
    source = "this test"
    pattern = "a loop without an end"
    sizes = {"tiny": {"n": 1024}, "default": {"n": 1024}}
    kernel_text = "KERNEL endless(GLOBAL float *a, ulong n) { PARALLEL_FOR(i, n) a[i] += 1; }"
    n: int
    a = buffer(f32, "n", role="inout", starts_on="cpu", ends_on="cpu")

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.fill(self.a, 1)

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        while cpu.reads(self.a)[0] == 0:
            gpu.launch("endless", self.a, self.n, over=self.n)

    def check(self, view: View) -> str:
        return ""


class Growing(Endless):
    """No two of its rounds are equal."""

    name = "growing"

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        n = 0
        while cpu.reads(self.a)[0] == 0:
            n = (n + 1) * 31 % 1009
            gpu.launch("endless", self.a, n, over=n + 1)


class Unready(Endless):
    """Its data are ready when the data say so."""

    name = "unready"

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        cpu.fill(self.a, 0)
        while cpu.reads(self.a)[0] == 0:
            gpu.launch("endless", self.a, self.n, over=self.n)


class Failing(Endless):
    name = "failing"

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        raise ZeroDivisionError("no sum")


def test_a_loop_without_an_end_is_left(prices: MeasuredPrices) -> None:
    declared = program_of(Endless, {"n": 1024})
    (assumption,) = declared.assumptions
    assert assumption.endswith(": 10 rounds are assumed")
    assert 20 <= declared.launches <= 40, "a view and a launch in each round"


def test_a_loop_without_an_end_whose_rounds_differ_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "MOST_ITEMS", 1000)
    declared = program_of(Growing, {"n": 1024})
    (assumption,) = declared.assumptions
    assert "no two rounds" in assumption
    assert "1000 launches" in assumption
    assert declared.launches >= 1000


def test_an_initialisation_without_an_end_is_left() -> None:
    assert "initialisation does not end" in program_of(Unready, {"n": 1024}).assumptions[0]


def test_the_roles_say_what_moves_where_a_dry_run_fails(prices: MeasuredPrices) -> None:
    declared = program_of(Failing, {"n": 1024})
    assert "ZeroDivisionError: no sum" in " ".join(declared.assumptions)
    terms = estimate(declared, STRATEGIES["explicit"], prices)
    moved = {t.what.split(",")[0]: t.bytes for t in terms if t.what.startswith("copy")}
    assert moved == {"copy in": 4096, "copy back": 4096}


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (lambda gpu: gpu.lunch, "has no attribute 'lunch'"),
        (lambda gpu: undefined, "NameError: name 'undefined' is not defined"),  # type: ignore[name-defined]  # noqa: F821
        (lambda gpu: gpu.launch(), "TypeError"),
        (lambda gpu: Path("/nowhere/at/all").read_bytes(), "FileNotFoundError"),
    ],
)
def test_a_program_that_fails_is_not_priced(mistake: Callable[[Gpu], object], said: str) -> None:
    class Mistaken(Endless):
        name = "mistaken"

        def compute(self, cpu: Cpu, gpu: Gpu) -> None:
            mistake(gpu)

    with pytest.raises(UsageError) as error:
        program_of(Mistaken, {"n": 1024})
    assert str(error.value).startswith("mistaken fails: ")
    assert said in str(error.value)


def test_every_pattern_has_times_and_is_named_in_the_help(prices: MeasuredPrices) -> None:
    help_text = " ".join((Path(__file__).parents[2] / "src/firsttouch/cli/advise.py").read_text().split())
    page = (Path(__file__).parents[2] / "docs/advise.md").read_text()
    for name in PATTERNS:
        terms = {
            s: estimate(program_for(name, 1 << 30), STRATEGIES[s], prices) for s in ("explicit", "managed+prefetch")
        }
        assert all(sum(t.ms for t in rows) > 0 for rows in terms.values()), name
        assert name in help_text
        assert f"| `{name}` |" in page


class Numpy(Endless):
    """Fills its whole array by numpy code."""

    name = "numpy"
    grown = 0

    def initialise(self, cpu: Cpu, gpu: Gpu) -> None:
        before = resident()
        cpu.writes(self.a)[:] = 1
        Numpy.grown = resident() - before

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        gpu.launch("endless", self.a, self.n, over=self.n)


def resident() -> int:
    """Bytes of this process, each page divided by how often it is mapped."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return next(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("Pss:"))


def test_a_dry_run_takes_little_memory_even_if_code_writes_all() -> None:
    declared = program_of(Numpy, {"n": 1 << 27})
    (write,), (launch,) = declared.initialise, declared.compute
    assert isinstance(write, Launch)
    assert isinstance(launch, Launch)
    assert (write.agent, write.by, write.accesses[0].end) == ("cpu", "view", 1 << 29)
    assert launch.agent == "gpu"
    assert Numpy.grown < 200 << 20


class Sums(Endless):
    """Reads all that a kernel wrote, and ends when its sum is small."""

    name = "sums"
    expected_rounds = 3
    grown = 0

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        before = resident()
        for _ in range(100):
            gpu.launch("endless", self.a, self.n, over=self.n)
            if cpu.reads(self.a).sum() < 1:
                break
        Sums.grown = max(Sums.grown, resident() - before)


def test_a_dry_run_takes_no_memory_for_what_code_only_reads() -> None:
    declared = program_of(Sums, {"n": 1 << 24})
    assert declared.launches == 1 + 2 * Sums.expected_rounds
    assert Sums.grown < 16 << 20


class Solver(Endless):
    """Steps end when a residual is small, as those of conjugate gradients do, several times."""

    name = "solver"
    expected_rounds = 6
    solves = 8

    def solve(self, cpu: Cpu, gpu: Gpu) -> None:
        square = start = float(cpu.reads(self.a)[1])
        for _ in range(100):
            if square <= 1e-12 * start:
                return
            gpu.launch("endless", self.a, self.n, over=self.n)
            length = square / float(cpu.reads(self.a)[0])
            gpu.launch("endless", self.a, int(length) % 7, over=self.n)
            square = float(cpu.reads(self.a)[1])

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for _ in gpu.iterations(self.solves):
            gpu.launch("endless", self.a, self.n, over=self.n)
            self.solve(cpu, gpu)


class Frontier(Endless):
    """A search for which something is left to do while a number is not zero, from several roots."""

    name = "frontier"
    expected_rounds = 6

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for _ in range(8):
            left = 1
            while left:
                gpu.launch("endless", self.a, self.n, over=self.n)
                left = int(cpu.reads(self.a)[0])


class Settling(Endless):
    """Rounds until nothing changes."""

    name = "settling"
    expected_rounds = 6

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for _ in gpu.iterations(500):
            gpu.launch("endless", self.a, self.n, over=self.n)
            if not cpu.reads(self.a).any():
                break


class Counted(Endless):
    """The CPU reads a number in each of 20 rounds, whatever it is."""

    name = "counted"

    def compute(self, cpu: Cpu, gpu: Gpu) -> None:
        for _ in range(20):
            gpu.launch("endless", self.a, int(cpu.reads(self.a)[0]), over=self.n)


def kernels(items: Sequence[Item]) -> int:
    """How many kernels the GPU runs."""
    return sum(
        i.count * kernels(i.body) if isinstance(i, Repeat) else isinstance(i, Launch) and i.agent == "gpu"
        for i in items
    )


@pytest.mark.parametrize(
    ("app", "rounds", "expected"),
    [
        (Solver, 0, 8 * (1 + 2 * 6)),
        (Solver, 3, 8 * (1 + 2 * 3)),
        (Frontier, 0, 8 * 6),
        (Frontier, 20, 8 * 20),
        (Settling, 0, 6),
        (Settling, 12, 12),
    ],
)
def test_a_loop_that_data_end_takes_the_rounds_that_are_expected(app: type[App], rounds: int, expected: int) -> None:
    program = program_of(app, {"n": 1024}, rounds)
    assert kernels(program.compute) == expected
    assert program.rounds == (rounds or 6)
    assert any("assumed" in text for text in program.assumptions)


def test_a_loop_that_only_reads_data_has_its_own_rounds() -> None:
    program = program_of(Counted, {"n": 1024})
    assert kernels(program.compute) == 20
    assert program.rounds == 0
    (assumption,) = program.assumptions
    assert assumption.endswith("assumed to be 0")


def test_the_scalars_of_conjugate_gradients_are_read_as_often_as_a_run_reads_them(runs: Mapping[str, Record]) -> None:
    record = runs["conjugate_gradient"]
    steps = int(str(record.counters["steps"]))
    program = program_of(all_apps()["conjugate_gradient"], parameters(record))
    assert views(program.compute) == parameters(record)["iterations"] * (1 + 2 * steps)


def views(items: Sequence[Item]) -> int:
    """How often CPU code reads or writes numbers."""
    return sum(
        i.count * views(i.body) if isinstance(i, Repeat) else isinstance(i, Launch) and i.by == "view" for i in items
    )
