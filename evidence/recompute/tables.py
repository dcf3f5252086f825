"""The tables of docs/experiments and docs/events.md that are computed from records, as data."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from firsttouch.base.units import format_size
from firsttouch.experiments.codegen import OPERATIONS
from firsttouch.records.schema import Record
from firsttouch.records.statistics import value
from firsttouch.records.text import quantity
from records import Directory, Terms, digits, exact, number_of, only, table, terms

Cell = Callable[[Record], str]
"""What a cell says of its record."""


def number(name: str = "median", scale: float = 1.0) -> Cell:
    """A value times `scale`, three digits; nothing where a record has none."""

    def cell(record: Record) -> str:
        v = number_of(record, name)
        return "" if v is None else digits(v * scale)

    return cell


def count(name: str) -> Cell:
    def cell(record: Record) -> str:
        v = number_of(record, name)
        return "" if v is None else exact(v)

    return cell


def time(unit: str = "ns", name: str = "median") -> Cell:
    """A time, with its unit."""

    def cell(record: Record) -> str:
        v = number_of(record, name)
        return "" if v is None else quantity(v, unit)

    return cell


def size(name: str) -> Cell:
    def cell(record: Record) -> str:
        v = number_of(record, name)
        return "" if v is None else format_size(v)

    return cell


def word(name: str) -> Cell:
    def cell(record: Record) -> str:
        v = value(record, name)
        return "" if v is None else ("yes" if v else "no") if isinstance(v, bool) else str(v)

    return cell


def percent(name: str) -> Cell:
    def cell(record: Record) -> str:
        v = number_of(record, name)
        return "" if v is None else f"{digits(100 * v)} %"

    return cell


def compiled(record: Record) -> str:
    """What the compiler made, and the instruction without its condition and operands."""
    words = [w for w in str(value(record, "instruction")).split() if not w.startswith("@")]
    return f"{value(record, 'made')}, `{' '.join(words[: 1 + (words[0] == 'lock')])}`"


def before(record: Record) -> str:
    """The time of the copy, prefetch or advice before the passes, ms."""
    times = [v for name in ("copy_in_ms", "prefetch_ms", "advise_ms") if (v := number_of(record, name)) is not None]
    return digits(sum(times)) if times else ""


def later(record: Record) -> str:
    """The median of the last three passes, ms."""
    last = [v for i in (9, 10, 11) if (v := number_of(record, f"iteration_{i}_ms")) is not None]
    return digits(statistics.median(last)) if last else ""


@dataclass(frozen=True)
class Table:
    """One record per row or per cell: the one with the factors of `where`, of the row and of the column. Of several
    directories, a row is from the first that has records of it.

    where, rows, columns: factors as 'allocator=malloc size=4MiB'; a column has a cell besides.
    """

    experiment: str
    where: str
    head: str
    rows: Mapping[str, str]
    columns: Mapping[str, tuple[str, Cell]]

    def text(self, directories: Sequence[Directory]) -> str:
        heads = [*self.head.split(" | "), *self.columns]
        rows = [[*label.split(" | "), *self.row(directories, terms(row))] for label, row in self.rows.items()]
        return table(heads, rows)

    def row(self, directories: Sequence[Directory], row: Terms) -> list[str]:
        for directory in directories:
            cells = self.cells([r for r in directory.records if r.experiment == self.experiment], row)
            if any(cells):
                return cells
        return [""] * len(self.columns)

    def cells(self, records: Sequence[Record], row: Terms) -> list[str]:
        return [
            self.cell(records, {**terms(self.where), **row, **terms(column[0])}, column[1])
            for column in self.columns.values()
        ]

    def cell(self, records: Sequence[Record], wanted: Terms, text: Cell) -> str:
        record = only(records, wanted)
        return "" if record is None else text(record) if record.status == "ok" else record.status


def plain(columns: Mapping[str, str], cell: Cell | None = None) -> dict[str, tuple[str, Cell]]:
    return {label: (factors, cell or number()) for label, factors in columns.items()}


def values(**columns: Cell) -> dict[str, tuple[str, Cell]]:
    return {f"`{name}`": ("", cell) for name, cell in columns.items()}


def named(names: Sequence[str]) -> dict[str, str]:
    """Rows or columns that are the allocators of one device."""
    return {f"`{name}`": f"allocator={name}" for name in names}


def sizes(*texts: str) -> dict[str, str]:
    return {text: f"size={text.replace(' ', '')}" for text in texts}


def pages(*counts: int) -> dict[str, str]:
    return {f"{exact(n)} page{'s' * (n > 1)}": f"pages={n}" for n in counts}


MIB = 2.0**-20
ALL_GPU_THREADS = 270336
"""All that an H200 holds at once."""


TABLES: Mapping[str, Table] = {
    "bandwidth": Table(
        "bandwidth",
        "device=cuda:0 agent=gpu allocator=device first_touch=self arrays=memory threads=0 stores=normal",
        "kernel on `device`",
        {name: f"kernel={name}" for name in ("copy", "scale", "add", "triad", "read", "write")},
        plain(sizes("256 MiB", "1 GiB")),
    ),
    "bandwidth-allocators": Table(
        "bandwidth",
        "device=cuda:0 agent=gpu first_touch=self arrays=memory threads=0 stores=normal kernel=triad size=256MiB",
        "triad, 256 MiB, on",
        named(["device", "vmm", "managed", "managed-static", "pinned", "pinned-wc"]),
        {"GB/s": ("", number())},
    ),
    "latency": Table(
        "latency",
        "device=cuda:0 agent=gpu first_touch=self order=random",
        "allocator",
        {
            "`device`": "allocator=device",
            "`managed`, pages on the GPU": "allocator=managed",
            "`pinned`": "allocator=pinned",
            "`registered`": "allocator=registered",
        },
        plain(sizes("16 KiB", "16 MiB", "256 MiB", "1 GiB")),
    ),
    "transfer": Table(
        "transfer",
        "device=cuda:0 size=256MiB other=device streams=1 chunk=0",
        "",
        named(["pinned", "pinned-wc", "registered", "malloc"]),
        plain(
            {
                "copy engine, h2d": "engine=copy-engine direction=h2d",
                "copy engine, d2h": "engine=copy-engine direction=d2h",
                "kernel, h2d": "engine=kernel direction=h2d",
                "kernel, d2h": "engine=kernel direction=d2h",
            }
        ),
    ),
    "allocation": Table(
        "allocation",
        "device=cuda:0 call=allocate",
        "allocator",
        named(["device", "vmm", "managed", "managed-static", "pinned", "pinned-wc", "registered"]),
        plain(sizes("64 B", "4 KiB", "256 KiB", "16 MiB"), time()),
    ),
    "faultcount": Table(
        "faultcount",
        "",
        "allocator | first touch | streamed by",
        {
            "`malloc` | cpu | cpu": "device=cpu allocator=malloc first_touch=cpu",
            "`malloc-thp` | cpu | cpu": "device=cpu allocator=malloc-thp first_touch=cpu",
            **{
                f"`{name}` | {first} | {then}": f"device=cuda:0 allocator={name} first_touch={first} streamed_by={then}"
                for name, first, then in (
                    ("pinned", "gpu", "gpu"),
                    ("pinned", "gpu", "cpu"),
                    ("registered", "gpu", "gpu"),
                    ("pinned-wc", "gpu", "gpu"),
                    ("managed", "cpu", "cpu"),
                    ("managed", "gpu", "gpu"),
                    ("managed", "gpu", "cpu"),
                    ("device", "gpu", "gpu"),
                )
            },
        },
        {
            "faults/MiB": ("", number()),
            "allocate": ("", count("allocate")),
            "touch": ("", count("touch")),
            "triad": ("", count("triad")),
            "page": ("", size("page_bytes")),
            "contiguous base pages": ("", number("contiguous_pages")),
        },
    ),
    "codegen": Table(
        "codegen",
        "",
        "operation",
        {f"`{name}`": f"operation={name}" for name in OPERATIONS},
        plain({"H200 (SASS)": "device=cuda:0", "its host (the native module)": "device=cpu"}, compiled),
    ),
    "context": Table(
        "context",
        "",
        "phase",
        {
            f"`{name}`": f"phase={name}"
            for name in ("library", "context", "compile-cold", "compile-cached", "launch-first", "launch-next")
        },
        plain({"H200 (CUDA)": "device=cuda:0", "its host (PoCL)": "device=opencl:0"}),
    ),
    "pagefault": Table(
        "pagefault",
        "device=cuda:0 allocator=managed page_size=base access=store",
        "scenario",
        {
            "`cpu`, one thread": "scenario=cpu threads=1",
            "`cpu`, all 16 threads": "scenario=cpu threads=0",
            "`gpu-major`": "scenario=gpu-major",
            "`gpu-minor`": "scenario=gpu-minor",
            "`prefault+minor`": "scenario=prefault+minor",
        },
        plain(pages(1, 10, 100, 1000, 10_000, 100_000), time()),
    ),
    "atomics": Table(
        "atomics",
        "scope=system reading=progress",
        "type, elements",
        {
            f"`{kind}`, {label}": f"type={kind} elements={n}"
            for kind in ("u64", "f64")
            for label, n in (("1", 1), ("2^10", 2**10), ("2^20", 2**20))
        },
        plain(
            {
                **{
                    f"{n} CPU thread{'s' * (n > 1)}": f"device=cpu allocator=malloc cpu_threads={n} gpu_threads=0"
                    for n in (1, 16)
                },
                **{
                    f"{n} GPU threads"
                    if n < 10_000
                    else f"{n:,} GPU threads": f"device=cuda:0 allocator=device cpu_threads=0 gpu_threads={n}"
                    for n in (64, 4096, ALL_GPU_THREADS)
                },
            }
        ),
    ),
    "atomics-together": Table(
        "atomics",
        "scope=system reading=progress type=u64 elements=1024",
        "device, allocator",
        {
            "`cuda:0`, `pinned`": f"device=cuda:0 allocator=pinned gpu_threads={ALL_GPU_THREADS}",
            "`cuda:0`, `registered`": f"device=cuda:0 allocator=registered gpu_threads={ALL_GPU_THREADS}",
            "`cuda:0`, `managed`": f"device=cuda:0 allocator=managed gpu_threads={ALL_GPU_THREADS}",
            "`opencl:0`, `svm-atomic`": "device=opencl:0 allocator=svm-atomic gpu_threads=1024",
        },
        {
            "CPU alone": ("cpu_threads=16", number("cpu_alone")),
            "CPU together": ("cpu_threads=16", number("cpu_rate")),
            "of the CPU's rate alone": ("cpu_threads=16", percent("cpu_relative")),
            "GPU alone": ("cpu_threads=16", number("gpu_alone")),
            "GPU together": ("cpu_threads=16", number("gpu_rate")),
            "of the GPU's rate alone": ("cpu_threads=16", percent("gpu_relative")),
        },
    ),
    "caching": Table(
        "caching",
        "device=cuda:0 threads=1 pattern=reread loads=cached",
        "agent | allocator",
        {
            "GPU | `device`": "agent=gpu allocator=device",
            "GPU | `managed`": "agent=gpu allocator=managed",
            "GPU | `pinned`": "agent=gpu allocator=pinned",
            "GPU | `pinned-wc`": "agent=gpu allocator=pinned-wc",
            "CPU | `pinned`": "agent=cpu allocator=pinned",
            "CPU | `pinned-wc`": "agent=cpu allocator=pinned-wc",
        },
        values(reread_ns=number("reread_ns"), cold_ns=number("cold_ns"), cached=word("cached")),
    ),
    "migration-records": Table(
        "migration",
        "device=cuda:0 allocator=managed operation=update advice=none prefetch=none starts_on=cpu events=on",
        "touch",
        {
            **{
                f"`{touch}`, in order": f"touch={touch} order=sequential"
                for touch in ("per-4KiB", "per-64KiB", "per-2MiB")
            },
            "`dense`, all threads": "touch=dense order=parallel",
        },
        {
            "touches": ("", count("touched")),
            "fault groups": ("", count("compute_gpu_fault_groups")),
            "moved": ("", size("compute_h2d_bytes")),
            "`fault`": ("", size("compute_h2d_fault_bytes")),
            "`speculative`": ("", size("compute_h2d_speculative_bytes")),
            "records": ("", count("compute_h2d_migrations")),
            "smallest": ("", size("smallest_record")),
            "largest": ("", size("largest_record")),
        },
    ),
    "migration": Table(
        "migration",
        "device=cuda:0 size=64MiB order=parallel touch=dense events=off",
        "case",
        {
            label: f"operation=update advice=none prefetch=none starts_on=cpu {factors}"
            for label, factors in (
                ("`device`", "allocator=device"),
                ("`pinned`", "allocator=pinned"),
                ("`managed` (the base point)", "allocator=managed"),
                ("`managed`, starts on gpu", "allocator=managed starts_on=gpu"),
                ("`managed`, prefetch whole", "allocator=managed prefetch=whole"),
                ("`managed`, prefetch iteration", "allocator=managed prefetch=iteration"),
                ("`managed`, `preferred-cpu`", "allocator=managed advice=preferred-cpu"),
                ("`managed`, `accessed-by-gpu`", "allocator=managed advice=accessed-by-gpu"),
                ("`managed`, read only", "allocator=managed operation=read"),
                ("`managed`, `read-mostly`, read only", "allocator=managed operation=read advice=read-mostly"),
            )
        },
        {
            "before": ("", before),
            "first pass": ("", number("iteration_0_ms")),
            "later pass": ("", later),
            "all": ("", number()),
            "CPU reads after": ("", number("cpu_read_ms")),
        },
    ),
    "events": Table(
        "migration",
        "device=cuda:0 allocator=managed size=64MiB operation=update advice=none starts_on=cpu",
        "point",
        {
            "dense, by faults": "touch=dense order=parallel prefetch=none",
            "dense, prefetch whole": "touch=dense order=parallel prefetch=whole",
            **{
                f"`{touch}`, in order": f"touch={touch} order=sequential prefetch=none"
                for touch in ("per-4KiB", "per-64KiB", "per-2MiB")
            },
        },
        {
            "GPU fault groups": ("events=on", count("compute_gpu_fault_groups")),
            "off": ("events=off", number()),
            "on": ("events=on", number()),
        },
    ),
    "concurrency": Table(
        "concurrency",
        "",
        "memory | strategy",
        {
            **{
                f"`{name}` | `{strategy}`": f"device=cuda:0 cpu_half=same allocator={name} strategy={strategy}"
                for name, strategy in (
                    ("pinned", "concurrent"),
                    ("pinned", "lockstep"),
                    ("device", "copying"),
                    ("managed", "concurrent"),
                    ("managed", "lockstep"),
                )
            },
            "`svm-fine` (PoCL) | `concurrent`": "device=opencl:0 allocator=svm-fine strategy=concurrent",
        },
        {
            "CPU alone": ("", number("cpu_alone_ms")),
            "GPU alone": ("", number("gpu_alone_ms")),
            "together": ("", number("together_ms")),
            "overlap": ("", number("overlap")),
        },
    ),
    "locking": Table(
        "locking",
        "inside=16 gpu_group_threads=1",
        "device, allocator | outside",
        {
            **{
                f"`cuda:0`, `{name}` | {n}": f"device=cuda:0 allocator={name} outside={n}"
                for n in (0, 1000)
                for name in ("device", "pinned", "managed")
            },
            "`opencl:0`, `svm-atomic` | 0": "device=opencl:0 allocator=svm-atomic outside=0",
        },
        {
            "CPU alone": ("rivals=cpu", time()),
            "GPU alone": ("rivals=gpu", time()),
            "both": ("rivals=both", time()),
            "CPU, sections/s": ("rivals=both", number("cpu_sections_per_s")),
            "GPU, sections/s": ("rivals=both", number("gpu_sections_per_s")),
            "CPU's share": ("rivals=both", percent("cpu_share")),
        },
    ),
    "tlb": Table(
        "tlb",
        "device=cpu agent=cpu method=chase",
        "allocator, stride",
        {
            f"`{name}`, {stride}": f"allocator={name} stride={stride.replace(' ', '')}"
            for name in ("malloc", "malloc-thp")
            for stride in ("4 KiB", "2 MiB")
        },
        plain(pages(16, 32, 64, 128, 1024, 2048, 4096, 8192), number("translated_ns")),
    ),
    "accounting": Table(
        "accounting",
        "",
        "allocator | touched by",
        {
            "`device` | GPU": "device=cuda:0 allocator=device toucher=gpu",
            "`pinned` | CPU": "device=cuda:0 allocator=pinned toucher=cpu",
            "`pinned-wc` | CPU": "device=cuda:0 allocator=pinned-wc toucher=cpu",
            "`managed` | GPU": "device=cuda:0 allocator=managed toucher=gpu",
            "`managed` | CPU": "device=cuda:0 allocator=managed toucher=cpu",
            "`managed-static` | CPU": "device=cuda:0 allocator=managed-static toucher=cpu",
            "`mmap` on `cpu` | CPU": "device=cpu allocator=mmap toucher=cpu",
        },
        {
            f"{moment}: `{name}`": ("", number(f"{moment}_{name}", MIB))
            for moment in ("call", "touch")
            for name in ("rss", "mem_free", "cgroup", "vendor_used")
        },
    ),
}
