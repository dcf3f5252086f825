"""
Native core of firsttouch: devices, the allocation guard, measuring loops.
"""

from collections.abc import Callable, Sequence
from typing import Any

class Unavailable(RuntimeError):
    pass

class VendorError(RuntimeError):
    pass

class GuardRefused(MemoryError):
    pass

def set_library_paths(name: str, candidates: Sequence[str]) -> None: ...
def count_devices(kind: str) -> int: ...
def clock_cost() -> float:
    """Seconds that one reading of the host's clock takes."""

def usable_processors() -> int: ...
def guard_limits() -> dict[str, int | None]:
    """Bytes that the guard allows at most, by limit."""

def oversubscription_allowed() -> bool:
    """Whether the user lets managed memory exceed what a device has free."""

def host_available(root: str = "") -> int:
    """Bytes the host can give, under another root for tests."""

def kernel_file(name: str) -> str: ...
def host_kernel_code(name: str) -> bytes:
    """The machine code of a kernel in the core: 512 bytes from its entry."""

def nvrtc_compile(text: str, name: str, architecture: str) -> tuple[bytes, str, str]:
    """Compiles CUDA C++ without a GPU: (cubin, PTX, log)."""

def hiprtc_compile(text: str, name: str, architecture: str) -> tuple[bytes, str]:
    """Compiles HIP C++ without a GPU: (code object, log)."""

def translation_unit(name: str, language: str, defines: Sequence[tuple[str, str]] = [], text: str = "") -> str:
    """
    The whole text of a kernel file, an embedded one without `text`, in a language: cuda, hip or opencl.
    """

class Buffer:
    """Guarded memory; freed at the end of its with block."""

    @property
    def size(self) -> int: ...
    @property
    def allocator(self) -> str: ...
    def __enter__(self) -> Buffer: ...
    def __exit__(self, type: object | None, value: object | None, traceback: object | None) -> None: ...
    def free(self) -> None: ...
    def fill(self, seed: int, agent: str) -> None: ...
    def check(self, seed: int, agent: str) -> int:
        """Words that differ from the seed's pattern."""

    def read(self, offset: int, count: int) -> bytes: ...
    def write(self, offset: int, bytes: bytes) -> None: ...
    def residency(self) -> tuple[int | None, int | None]:
        """
        NUMA node and page size in bytes of the host's pages, each None where unknown.
        """

    @property
    def address(self) -> int:
        """The CPU's address, 0 where there is none outside a mapping."""

    def map(self) -> int:
        """The CPU's address from now on; paired with unmap."""

    def unmap(self, address: int) -> None: ...
    @property
    def device_address(self) -> int:
        """Where kernels see it, 0 where the device has no addresses."""

class Device:
    """A device and its measuring loops."""

    @property
    def name(self) -> str: ...
    def facts(self) -> dict[str, bool | int | float | str]: ...
    def usage(self) -> dict[str, int]:
        """
        Bytes of device memory in use by all programs, by the vendor's management library; empty without one.
        """

    def allocators(self) -> list[dict[str, object]]: ...
    def clocks(self) -> dict[str, object] | None: ...
    def memory(self) -> tuple[int, int]:
        """Bytes of device memory: (total, free)."""

    def allocate(self, allocator: str, bytes: int, pages: str = "policy") -> Buffer:
        """Guarded memory. Raises GuardRefused, Unavailable or VendorError."""

    def map_file(self, descriptor: int, bytes: int) -> Buffer:
        """
        The first bytes of an open file, mapped to be read only, guarded as mmap is. Raises GuardRefused or Unavailable.
        """

    def compile(self, name: str, text: str, defines: Sequence[tuple[str, str]] = []) -> tuple[str, bytes, str]:
        """
        Compiles a kernel file of the dialect, uncached: (kind, machine code, assembly).
        """

    def prepare(self, name: str, text: str, entry: str) -> Callable[[Buffer, int], None]:
        """
        Compiles a kernel (pointer, ulong) of the dialect; the result runs it over n items and waits.
        """

    def kernel(self, name: str, text: str, entry: str, codes: str, defines: Sequence[tuple[str, str]] = []) -> Kernel:
        """
        Compiles a kernel file of the dialect. codes: a letter per parameter, p for a pointer.
        """

    def launch(self, kernel: Kernel, blocks: int, threads: int, arguments: list[object]) -> None: ...
    def grid(self, n: int) -> tuple[int, int]:
        """Blocks and threads for about n items, one a thread."""

    def stream(self) -> Stream: ...
    def copy(self, target: Buffer, target_offset: int, source: Buffer, source_offset: int, bytes: int) -> None: ...
    def prefetch(self, buffer: Buffer, offset: int, bytes: int, agent: str, stream: Stream | None = None) -> None: ...
    def advise(self, buffer: Buffer, advice: str) -> None: ...
    def wait(self) -> None:
        """Until all work of the device's own stream has ended."""

    def record(self, stream: Stream | None = None) -> Event: ...
    def join(self, event: Event) -> None:
        """The device's own stream goes on after the mark."""

class Stream:
    """A queue of a device's own."""

class Kernel:
    """Compiled device code."""

class Event:
    """A mark in a stream."""

    def seconds_until(self, later: Event) -> float:
        """
        Seconds between two marks on the device's clock; waits for the later one.
        """

class LaunchList:
    """Launches prepared once, replayed by the core."""

    def __init__(self, device: Device) -> None: ...
    def add(self, kernel: object, blocks: int, threads: int, arguments: list[object]) -> None: ...
    def __len__(self) -> int: ...
    def replay(self, first: int, count: int) -> None: ...

def launch_on_host(kernel: str, codes: str, threads: int, arguments: list[object]) -> float:
    """
    Runs 'application/entry' on pinned threads (0: all), addresses for pointers; seconds that it took.
    """

def has_host_kernel(name: str) -> bool: ...
def open(name: str) -> Device:
    """Opens cpu, cuda:N or opencl:N. Raises Unavailable with the reason."""

class Stop:
    """When to stop sampling."""

    def __init__(self, *, tolerance: float, seconds: float, min_samples: int = 3, max_samples: int = 1000) -> None: ...
    @property
    def tolerance(self) -> float: ...
    @property
    def seconds(self) -> float: ...

class Outcome:
    """Samples of one point, wrong words found, further counters."""

    @property
    def samples(self) -> list[float]: ...
    @property
    def stopped_by(self) -> str: ...
    @property
    def errors(self) -> int: ...
    @property
    def counters(self) -> dict[str, float]: ...

def summarise(values: Sequence[float]) -> tuple[int, float, float, float, float, float, float, float]:
    """n, median, p5, p95, min, max, and the 95 % interval of the median."""

def stream_bytes(op: str) -> int: ...
def stream_instructions() -> str: ...
def chase(
    device: Device,
    buffer: Buffer,
    *,
    agent: str,
    first_touch: str,
    stride: int,
    group_bytes: int = 0,
    hops: int = 100000,
    last_level: int = 0,
    past_l1: bool = False,
    seed: int,
    stop: Stop,
) -> Outcome:
    """Dependent loads; ns per load."""

def stream(
    device: Device,
    a: Buffer,
    b: Buffer,
    c: Buffer,
    *,
    op: str,
    agent: str,
    first_touch: str,
    threads: int = 0,
    nontemporal: bool = False,
    passes: int = 1,
    seed: int,
    stop: Stop,
) -> Outcome:
    """STREAM; GB/s of bytes read plus written."""

def copy(
    device: Device,
    target: Buffer,
    source: Buffer,
    *,
    engine: str,
    bytes: int,
    streams: int = 1,
    chunk: int = 0,
    seed: int,
    stop: Stop,
) -> Outcome:
    """One-way copies; GB/s, each byte counted once."""

def allocation(
    device: Device, *, allocator: str, bytes: int, chunks: int = 100, warmups: int = 10, stop: Stop
) -> Outcome:
    """ns per allocation, memory not touched."""

def page_faults(
    device: Device,
    *,
    allocator: str,
    pages: str,
    page_bytes: int,
    count: int,
    scenario: str,
    warmups: int = 10,
    seed: int,
    stop: Stop,
) -> Outcome:
    """ns per page of the first touch, less a second touch."""

class MigrationOutcome(Outcome):
    """An Outcome with the steps of every repetition."""

    @property
    def repetitions(self) -> list[list[tuple[str, float, float]]]:
        """
        Per repetition (name, start, end) of its steps in order; seconds of time.monotonic().
        """

def migration(
    device: Device,
    *,
    allocator: str,
    bytes: int,
    copied: bool = False,
    run_bytes: int = 128,
    stride_bytes: int = 128,
    shuffled: bool = False,
    sequential: bool = False,
    update: bool = True,
    advice: Sequence[str] = [],
    prefetch: str = "none",
    streams: int = 1,
    starts_on: str = "cpu",
    iterations: int = 12,
    seed: int,
    stop: Stop,
) -> MigrationOutcome:
    """
    Passes over a buffer that began on one side, then a read by the CPU; ms of all passes.
    """

def concurrency(
    device: Device,
    array: Buffer,
    copy: Buffer | None,
    *,
    strategy: str,
    iterations: int = 100,
    threads: int = 0,
    longest: float = 20.0,
    seed: int,
    stop: Stop,
) -> Outcome:
    """CPU and GPU count up a half each and swap; ms per iteration."""

def atomics(
    device: Device,
    buffer: Buffer,
    *,
    type: str,
    scope: str,
    elements: int,
    cpu_threads: int,
    gpu_threads: int,
    reading: str = "progress",
    window: float = 0.01,
    seed: int,
    stop: Stop,
) -> Outcome:
    """
    A histogram incremented by the CPU, the GPU or both; million updates per second of all.
    """

def counted_triad(
    device: Device, *, allocator: str, bytes: int, event: str = "dtlb-load-misses", seed: int, stop: Stop
) -> Outcome:
    """
    A triad by one CPU thread, its hardware events counted. Raises Unavailable where they cannot be.
    """

def caching(
    device: Device,
    buffer: Buffer,
    *,
    agent: str,
    threads: int,
    stride: int,
    even_only: bool = False,
    loads: str = "cached",
    seed: int,
    stop: Stop,
) -> Outcome:
    """A load and a store of each thread's entry; ns per update."""

REREAD_BYTES: int = 4096

def reread(device: Device, buffer: Buffer, *, agent: str, seed: int, stop: Stop) -> Outcome:
    """
    ns per load of 4 KiB that are read again; counters reread_ns and cold_ns tell whether the agent caches.
    """

def locking(
    device: Device,
    region: Buffer,
    *,
    cpu_threads: int,
    gpu_groups: int,
    sections: int,
    inside: int = 16,
    outside: int = 0,
    patience: float = 2.0,
    longest: float = 15.0,
    stuck: bool = False,
    seed: int,
    stop: Stop,
) -> Outcome:
    """
    Critical sections under a lock that both agents compete for; ns per section.
    """

def try_access(device: Device, buffer: Buffer, agent: str, seed: int) -> int:
    """
    Wrong words after the agent used the buffer by its bare address. May end the process.
    """

def try_coherence(device: Device, buffer: Buffer) -> dict[str, float]:
    """
    How many changes each agent saw of what the other stored while a kernel ran. May end the process.
    """

def try_halves(device: Device, buffer: Buffer) -> dict[str, float]:
    """
    Wrong words after both agents worked on a half each at once. May end the process.
    """

def try_shared_adds(device: Device, buffer: Buffer) -> dict[str, int]:
    """
    What one word holds after both agents added to it at once. May end the process.
    """

def try_moves(device: Device, buffer: Buffer, seed: int) -> dict[str, Any]:
    """
    Which pages left the CPU's page tables when the GPU touched one word, and one in every page.
    """

def events_start() -> list[str]:
    """
    Record the unified-memory events of this process, in which CUDA must be initialised, until its end: the kinds that are recorded. Raises Unavailable with one sentence.
    """

def events_take() -> list[tuple[str, float, float, int, int, int, str, str, str, str]]:
    """
    What was recorded since the last call, by work that has ended: kind, start and end (seconds of time.monotonic()), address, bytes, count, source, target, cause, symbol.
    """

def events_dropped() -> int:
    """Records lost since the last call, for want of room."""

class Blas:
    """Dense linear algebra by the vendor's library: f32, matrices row-major."""

    @property
    def title(self) -> str:
        """Name and version."""

    def gemm(self, a: Buffer, b: Buffer, c: Buffer, m: int, n: int, k: int) -> None:
        """Queues c (m x n) = a (m x k) b (k x n)."""

    def dot(self, x: Buffer, y: Buffer, result: Buffer, result_index: int, n: int) -> None:
        """Queues result[result_index] = the sum of x[i] y[i]."""

class SparsePlan:
    """A sparse matrix; it keeps the buffers that it names."""

    def multiply(self, x: Buffer, y: Buffer) -> None:
        """Queues y = A x."""

class Sparse:
    """Sparse linear algebra by the vendor's library: CSR, i32, f32."""

    @property
    def title(self) -> str:
        """Name and version."""

    def plan(
        self, row_pointers: Buffer, column_indices: Buffer, values: Buffer, rows: int, columns: int, nonzeros: int
    ) -> SparsePlan:
        """
        A matrix in buffers that are filled before the first product, which analyses its pattern.
        """

class FftPlan:
    """A transform of one size."""

    def execute(self, input: Buffer, output: Buffer, direction: str) -> None:
        """Queues it, forward or backward, unscaled. c2r may overwrite input."""

class Fft:
    """Fourier transforms by the vendor's library: two dimensions, f32."""

    @property
    def title(self) -> str:
        """Name and version."""

    def plan(self, kind: str, height: int, width: int) -> FftPlan:
        """kind: r2c, c2r or c2c."""

def open_blas(device: Device) -> Blas:
    """Raises Unavailable with the reason where the device has none."""

def open_sparse(device: Device) -> Sparse:
    """Raises Unavailable with the reason where the device has none."""

def open_fft(device: Device) -> Fft:
    """Raises Unavailable with the reason where the device has none."""
