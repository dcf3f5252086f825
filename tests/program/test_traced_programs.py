"""The program of a traced run: what each step means to memory, and with what certainty."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace
from tests.port.traces import Calls

from firsttouch.model.estimate import estimate
from firsttouch.model.platform import platform_of
from firsttouch.model.platform_prices import PlatformPrices
from firsttouch.profile.events.log import MemoryEvent
from firsttouch.profile.symbols.names import kernel_name
from firsttouch.program.exact_run import ExactRun, UsedBlock, UsedPiece
from firsttouch.program.program import Access, Item, Launch, Move, Obtained, Program, Renew, Repeat, decode, encode
from firsttouch.program.program_text import program_lines
from firsttouch.program.strategies import STRATEGIES
from firsttouch.program.trace import TracedLaunch
from firsttouch.program.traced import program_of_trace

MIB = 1 << 20


def short(program: Program) -> list[str]:
    """The items of a program, without times, as text."""
    return [_text(item) for item in (*program.initialise, *program.compute)]


def _text(item: object) -> str:
    if isinstance(item, Repeat):
        return f"{item.count} x ({', '.join(map(_text, item.body))})"
    if isinstance(item, Launch):
        return " ".join([item.kernel or item.agent, *map(_access, item.accesses)])
    if isinstance(item, Move):
        return f"{item.way} {item.block}[{item.start}:{item.end}]" + (f" new {item.new}" if item.new else "")
    return type(item).__name__ + (f" {item.block}" if isinstance(item, Renew) else "")


def _access(a: Access) -> str:
    return f"{'r' * a.reads}{'w' * a.writes}{'?' * (a.certainty == 'assumed')} {a.block}[{a.start}:{a.end}]"


@pytest.fixture
def saxpy() -> Calls:
    """Two arrays in, ten launches, one out."""
    calls = Calls()
    x, y = calls.host(MIB), calls.host(MIB)
    dx, dy = calls.block(MIB), calls.block(MIB)
    calls.copy(dx, x, MIB, seconds=1e-4)
    calls.copy(dy, y, MIB, seconds=3e-4)
    for n in range(10):
        calls.launch(dx, dy, kernel="_Z5saxpyPKfPf", seconds=(n + 1) * 1e-6)
    calls.wait()
    calls.copy(y, dy, MIB)
    calls.free(dx)
    calls.free(dy)
    return calls


def test_a_program_that_copies_in_launches_and_copies_back(saxpy: Calls) -> None:
    program = program_of_trace(saxpy.run, title="saxpy")
    assert short(program) == [
        f"cpu w? 0[0:{MIB}]", f"h2d 0[0:{MIB}] new {MIB}", f"cpu w? 1[0:{MIB}]", f"h2d 1[0:{MIB}] new {MIB}",
        f"10 x (saxpy r? 0[0:{MIB}] rw? 1[0:{MIB}])", "AwaitAll", f"d2h 1[0:{MIB}]",
    ]  # fmt: skip
    assert [(b.role, b.sides, b.starts_on, b.ends_on) for b in program.blocks] == [
        ("input", "both", "cpu", None), ("inout", "both", "cpu", "cpu")
    ]  # fmt: skip
    repeat = program.compute[0]
    assert isinstance(repeat, Repeat)
    assert repeat.body[0].seconds == pytest.approx(5.5e-6)
    assert program.obtained == (Obtained(MIB, 2),)
    assert decode(encode(program), "saxpy") == program


def test_blocks_are_written_where_nothing_is_valid_and_read_where_nothing_leaves() -> None:
    calls = Calls()
    scratch, inputs = calls.block(MIB), calls.block(MIB)
    calls.copy(inputs, calls.host(MIB), MIB // 2)
    calls.launch(inputs, scratch)
    calls.launch(inputs + 4096, scratch)
    program = program_of_trace(calls.run)
    assert short(program)[2:] == [
        f"kernel w? 0[0:{MIB}] r? 1[0:{MIB // 2}]", f"kernel rw? 0[0:{MIB}] r? 1[4096:{MIB // 2}]"
    ]  # fmt: skip
    assert [b.role for b in program.blocks] == ["scratch", "input"]


@pytest.mark.parametrize("kernel", ["_Z4stepPfPKf", "step"])
def test_two_buffers_that_take_turns_are_both_written(kernel: str) -> None:
    """Though only one is copied back. A kernel writes what it does not call const, or by what it must write by."""
    calls = Calls()
    first, second = calls.block(MIB), calls.block(MIB)
    for block in (first, second):
        calls.copy(block + 64, calls.host(MIB), MIB - 64)
    for target, source in ((first, second), (second, first), (first, second)):
        calls.launch(target, source, kernel=kernel)
    calls.copy(calls.host(MIB), first + 64, MIB - 64)
    program = program_of_trace(calls.run)
    if kernel != "step":
        assert short(program)[5] == f"step r? 0[64:{MIB}] rw? 1[64:{MIB}]"
    assert [(b.role, b.ends_on) for b in program.blocks] == [("inout", "cpu"), ("inout", None)]


def test_fills_and_copies_on_the_device_are_the_gpus() -> None:
    calls = Calls()
    first, second = calls.block(MIB), calls.block(MIB)
    calls.fill(first, 4096)
    calls.copy(second + 64, first, 64)
    calls.launch(second)
    assert short(program_of_trace(calls.run)) == [
        "fill w 0[0:4096]", "copy on the device r 0[0:64] w 1[64:128]", "kernel rw? 1[64:128]"
    ]  # fmt: skip


def test_what_a_library_launches_while_it_is_set_up_comes_before_compute() -> None:
    calls = Calls()
    table, data = calls.block(4096), calls.block(MIB)
    calls.copy(table, calls.host(64), 64)
    calls.launch(table, kernel="setup")
    calls.copy(data, calls.host(MIB), MIB)
    calls.wait()
    calls.wait()
    calls.launch(data, table)
    program = program_of_trace(calls.run)
    assert [_text(item).split()[0] for item in program.initialise] == ["cpu", "h2d", "setup", "cpu", "h2d"]
    assert [_text(item).split()[0] for item in program.compute] == ["kernel"]


def test_a_copy_that_repeats_another_is_not_written_by_the_cpu_again() -> None:
    calls = Calls()
    host, block = calls.host(MIB), calls.block(MIB)
    for sample in (1, 1, 2):
        calls.copy(block, host, MIB, sample=sample)
        calls.launch(block, kernel="_Z1kPKf")
    assert short(program_of_trace(calls.run)) == [
        f"cpu w? 0[0:{MIB}]", f"h2d 0[0:{MIB}] new {MIB}", f"k r? 0[0:{MIB}]", f"h2d 0[0:{MIB}]",
        f"k r? 0[0:{MIB}]", f"cpu w? 0[0:{MIB}]", f"h2d 0[0:{MIB}]", f"k r? 0[0:{MIB}]",
    ]  # fmt: skip


def test_a_window_is_the_memory_of_the_host() -> None:
    calls = Calls()
    frames, frame, total = calls.host(4 * MIB), calls.block(MIB), calls.block(64)
    for n in range(4):
        calls.copy(frame, frames + n * MIB, MIB)
        calls.launch(frame, total)
    calls.copy(calls.host(64), total, 64)
    program = program_of_trace(calls.run)
    assert [b.nbytes for b in program.blocks] == [64, 4 * MIB]
    assert short(program)[5] == f"kernel r? 1[{MIB}:{2 * MIB}] rw? 0[0:64]"
    assert program.blocks[1].role == "input"


def test_the_results_of_a_window_are_those_that_are_copied_next() -> None:
    calls = Calls()
    results, part = calls.host(4 * MIB), calls.block(MIB)
    for n in range(4):
        calls.launch(part)
        calls.copy(results + n * MIB, part, MIB)
    program = program_of_trace(calls.run)
    assert short(program)[3:6] == [
        f"kernel w? 0[{MIB}:{2 * MIB}]", f"d2h 0[{MIB}:{2 * MIB}] new {MIB}", f"cpu r 0[{MIB}:{2 * MIB}]"
    ]  # fmt: skip


def test_what_is_allocated_anew_has_lost_its_contents_unless_the_host_has_them() -> None:
    calls = Calls()
    points = calls.host(MIB)
    for _ in range(3):
        block, scratch = calls.block(MIB, line=1), calls.block(MIB, line=2)
        calls.copy(block, points, MIB, sample=1)
        calls.launch(block, scratch, kernel="_Z1kPKfPf")
        calls.free(block)
        calls.free(scratch)
    program = program_of_trace(calls.run)
    assert [block.times for block in program.blocks] == [1, 3]
    assert program.obtained == (Obtained(MIB, 3), Obtained(MIB, 3, alone=True))
    assert "Renew 1" in " ".join(short(program))


def test_flags_that_the_cpu_reads_each_round_control_the_program() -> None:
    calls = Calls()
    host, stop, mask = calls.host(4), calls.block(4), calls.block(MIB)
    for _ in range(100):
        calls.copy(stop, host, 4, host="stack")
        calls.launch(mask, stop)
        calls.copy(host, stop, 4, host="stack")
    program = program_of_trace(calls.run)
    assert [block.role for block in program.blocks] == ["control", "scratch"]
    assert program.launches == 299
    assert len(short(program)) < 20


def test_the_host_as_it_was_watched_replaces_what_is_assumed() -> None:
    calls = Calls()
    host, block = calls.host(MIB), calls.block(MIB)
    calls.copy(block, host, MIB)
    calls.launch(block)
    calls.copy(host, block, MIB)
    calls.host_use(host, MIB, writes=[(host + 4096, host + 8192)], read=65536)
    calls.copy(block, host, MIB)
    calls.launch(block)
    assert short(program_of_trace(calls.run))[3:] == [
        f"d2h 0[0:{MIB}]", "cpu r? 0[0:65536]", "cpu w 0[4096:8192]", f"h2d 0[0:{MIB}]", f"kernel rw? 0[0:{MIB}]"
    ]  # fmt: skip


def test_a_page_that_holds_other_data_too_does_not_tell_exactly_what_was_written() -> None:
    calls = Calls()
    host, block = calls.host(8192) + 2048, calls.block(8192)
    calls.copy(block, host, 8192)
    calls.launch(block)
    calls.copy(host, block, 8192)
    for writes in ([(host - 2048, host + 2048)], [(host - 2048, host + 6144)]):
        calls.host_use(host, 8192, writes=writes)
        calls.copy(block, host, 8192)
    views = [step for step in program_of_trace(calls.run).compute if isinstance(step, Launch)]
    written = [access for view in views for access in view.accesses if view.agent == "cpu" and access.writes]
    assert [access.certainty for access in written] == ["assumed", "exact"]
    assert [access.certain_bytes for access in written] == [0, 6144]


def test_launches_of_growing_grids_are_one_line() -> None:
    calls = Calls()
    block = calls.block(4096)
    for _ in range(17):  # the first one writes, since no byte is valid
        calls.launch(block)
    launches = [step.call for step in calls.run.steps if isinstance(step, TracedLaunch)]
    shapes = {launch.correlation: ((n, 1, 1), (32, 1, 1)) for n, launch in enumerate(launches, 1)}
    program = program_of_trace(replace(calls.run, shapes=shapes))
    assert program_lines(program)[-1] == "  16 times: gpu kernel: updates 0 (block 0) assumed"


def test_what_a_second_run_tells_of_launches_is_exact() -> None:
    calls = Calls()
    frame = calls.block(MIB)
    for _ in range(2):
        calls.copy(frame, calls.host(MIB), MIB)
        calls.launch(frame)
    run = calls.run
    used = (UsedBlock(0, (UsedPiece(0, 65536, True, False), UsedPiece(131072, 196608, True, True))),)
    launches = [n for n, step in enumerate(run.steps) if isinstance(step, TracedLaunch)]
    program = program_of_trace(run, exact=ExactRun(2, {launches[1]: used}))
    assert short(program)[-1] == f"kernel r 0[{MIB}:{MIB + 65536}] rw 0[{MIB + 131072}:{MIB + 196608}]"
    assert "?" in short(program)[2]


def test_what_a_graph_captures_does_not_run() -> None:
    calls = Calls()
    block = calls.block(MIB)
    calls.launch(block, captured=True)
    calls.launch(block, graph=True)
    assert short(program_of_trace(calls.run)) == [f"kernel w? 0[0:{MIB}]"]


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("_Z6kernelPKf", "kernel"),
        ("_Z1kIfEvPKT_PS0_S2_", "k<float>"),
        ("_ZN12_GLOBAL__N_11kEPf", "k"),
        ("_ZN2at6native12_GLOBAL__N_15scaleIfEEvPT_", "at::native::scale<float>"),
        ("_ZN34_GLOBAL__N__7d5b3d0e_4_m_cu_0c5a7b6updateEPf", "update"),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
            "at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>, array<char*, 3ul>>",
        ),
        ("_ZN3cub25CUB_300102_SM_750_800_9006detail6reduceEPf", "cub::detail::reduce"),
        ("_ZN3app10CUB_kernelEPf", "app::CUB_kernel"),
        ("_ZZ4mainENKUliE_clEi", "main::{lambda#1}::operator()"),
        ("_ZN6thrust13_kernel_agentIXnothing", "thrust::_kernel_agent"),
        ("_ZN5thrust13_kernel_agentIfE", "_ZN5thrust13_kernel_agentIfE"),
        ("__nv_static_24__11_bbl_cpp1_ii_e251c242__Z1kIfEvPKT_", "k<float>"),
        ("__nv_static_24__11_bbl_cpp1_ii_e251c242__ZN6thrust13_kernel_agentIXnothing", "thrust::_kernel_agent"),
        ("__nv_static_24__11_bbl_cpp1_ii_e251c242_plain", "plain"),
        ("__nv_static_kernel", "__nv_static_kernel"),  # which a program may call its own
        ("__nv_static_2_x", "__nv_static_2_x"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_kernels_have_names_for_people(mangled: str, name: str) -> None:
    assert kernel_name(mangled) == name


def test_a_window_that_is_allocated_again_shows_nothing_of_before() -> None:
    calls = Calls()
    frames = calls.host(2 * MIB)
    for _ in range(2):
        frame = calls.block(MIB)
        calls.launch(frame)
        for n in range(2):
            calls.copy(frame, frames + n * MIB, MIB)
        calls.launch(frame)
        calls.free(frame)
    launches = [text for text in short(program_of_trace(calls.run)) if text.startswith("kernel")]
    assert launches == ["kernel", f"kernel rw? 0[{MIB}:{2 * MIB}]"] * 2


def unfolded(items: Sequence[Item]) -> Iterator[Item]:
    for item in items:
        if isinstance(item, Repeat):
            for _ in range(item.count):
                yield from unfolded(item.body)
        else:
            yield item


def loops(seed: int) -> Calls:
    """A program of nested loops, which copies and launches in them, and allocates its scratch memory anew."""
    chosen, calls = random.Random(seed), Calls()
    host, blocks = calls.host(MIB), [calls.block(MIB, line=n + 1) for n in range(3)]
    for _ in range(chosen.randint(1, 3)):
        inner, sample = chosen.randint(1, 6), chosen.choice((None, 1))
        copied, launched = chosen.choices(blocks, k=2), chosen.choices(blocks, k=3)
        for _ in range(chosen.randint(2, 5)):
            calls.copy(copied[0], host, chosen.choice((MIB, 4096)), sample=sample)
            for _ in range(inner):
                calls.launch(*launched)
            if seed % 2:
                scratch = calls.block(4 * MIB, line=9)
                calls.launch(scratch, blocks[0])
                calls.free(scratch)
            calls.copy(host, copied[1], MIB)
    return calls


@pytest.mark.parametrize("seed", range(6))
def test_a_folded_program_costs_what_its_rounds_cost_one_by_one(seed: int) -> None:
    program = program_of_trace(loops(seed).run)
    plain = replace(program, compute=tuple(unfolded(program.compute)))
    assert plain.launches == program.launches
    prices = PlatformPrices(platform_of("model:h200-pcie"))
    for strategy in ("explicit", "managed", "managed+prefetch", "pinned"):
        folded, one_by_one = (estimate(p, STRATEGIES[strategy], prices) for p in (program, plain))
        assert [(t.what, t.bytes, t.count) for t in folded] == [(t.what, t.bytes, t.count) for t in one_by_one]
        assert [t.ms for t in folded] == pytest.approx([t.ms for t in one_by_one])


def test_pages_that_moved_tell_what_the_cpu_does_with_managed_memory() -> None:
    calls = Calls()
    data, idle = calls.block(MIB, kind="managed"), calls.block(MIB, kind="managed")
    calls.launch(data, idle)
    calls.wait()
    calls.launch(data, idle)
    calls.wait()
    calls.free(data)
    events = [
        MemoryEvent("h2d", 0.0035, 0.0036, data, 65536, cause="fault"),
        MemoryEvent("h2d", 0.0036, 0.0037, data + 65536, MIB - 65536, cause="speculative"),
        MemoryEvent("d2h", 0.0041, 0.0042, data, 4096, cause="fault"),
        MemoryEvent("h2d", 0.0052, 0.0053, data, 4096, cause="fault"),
        MemoryEvent("d2h", 0.0053, 0.0054, data, MIB, cause="eviction"),
        MemoryEvent("d2h", 0.0061, 0.0062, data, 8192, cause="prefetch"),
    ]
    program = program_of_trace(calls.run, events=events)
    assert short(program) == [
        f"cpu w 0[0:{MIB}]", f"kernel rw? 0[0:{MIB}] w? 1[0:{MIB}]", "AwaitAll", "cpu r 0[0:4096]",
        f"kernel rw? 0[0:{MIB}] rw? 1[0:{MIB}]", "AwaitAll", "cpu r 0[0:8192]",
    ]  # fmt: skip
    assert [(block.role, block.starts_on) for block in program.blocks] == [("inout", "cpu"), ("inout", "gpu")]
    assert not any("copied" in assumption for assumption in program.assumptions)
    assert " a block of managed memory" in program.assumptions[-1]
    assert program.assumptions[-1].endswith("not seen")


def test_kernels_whose_order_does_not_recur_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """That changes no price, but the time that pricing takes."""
    chosen, calls = random.Random(3), Calls()
    host, blocks = calls.host(MIB), [calls.block(MIB, line=n + 1) for n in range(6)]
    for _ in range(4):
        calls.copy(blocks[0], host, MIB)
        for _ in range(200):
            calls.launch(*chosen.sample(blocks, 2), kernel=f"kernel{chosen.randrange(3)}")
            if not chosen.randrange(9):
                calls.wait()
        calls.copy(host, blocks[1], MIB)
    plain = program_of_trace(calls.run)
    monkeypatch.setattr("firsttouch.program.folding.MOST", 100)
    few = program_of_trace(calls.run)
    assert few.launches == plain.launches
    assert len(few.compute) < len(plain.compute) / 2
    assert few.assumptions[:-1] == plain.assumptions
    prices = PlatformPrices(platform_of("model:h200-pcie"))
    for strategy in ("explicit", "managed", "managed+both", "pinned"):
        times = [sum(t.ms for t in estimate(p, STRATEGIES[strategy], prices)) for p in (few, plain)]
        assert times[0] == pytest.approx(times[1])


def test_of_two_blocks_that_one_range_feeds_the_cpu_writes_both_though_it_was_watched() -> None:
    calls = Calls()
    volume, first, second = calls.host(MIB), calls.block(MIB), calls.block(MIB)
    calls.copy(first, volume, MIB)
    calls.host_use(volume, MIB, read=0)
    calls.copy(second, volume, MIB)
    calls.launch(first, second)
    writes = [a.block for i in program_of_trace(calls.run).initialise if isinstance(i, Launch) for a in i.accesses]
    assert writes == [0, 1]
