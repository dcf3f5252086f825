"""codegen: the instructions that the compiler generated for atomic adds, vector loads and uncached loads."""

from __future__ import annotations

import io
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import capstone
from elftools.elf.elffile import ELFFile

from firsttouch import _core
from firsttouch.analysis.findings import Claim, Finding, finding
from firsttouch.analysis.statistics import group_by
from firsttouch.errors import Unsupported
from firsttouch.experiments.base import Experiment, Factor, Measurement, Point, Preset
from firsttouch.figures import Table
from firsttouch.records.schema import DeviceInfo, Metric, Record
from firsttouch.session import Session

OPERATIONS = (
    "add_u64_device",
    "add_u64_system",
    "add_f64_device",
    "add_f64_system",
    "load_vector",
    "load_uncached",
)
LONGEST_LISTING = 6000

# By operation, (verdict, pattern over PTX, SASS, AMD GPU, x86-64 and AArch64 text). The first pattern that is found
# decides. Compare-and-swap comes first because its loop may also contain a native add.
_SIGNS = {
    "add": (
        ("loop", r"atom\S*\.cas|ATOM\S*\.CAS|_atomic_cmpswap|lock cmpxchg|\bcas[al]*\b|\bstl?xr\b"),
        (
            "native",
            r"(atom|red)\S*\.add\.\w+|(ATOMG?|RED)\S*\.ADD\S*|_atomic_(pk_)?f?add\w*|lock (xadd|add|inc)|\bldadd\w*",
        ),
    ),
    "load_vector": (
        (
            "16 bytes or more a load",
            r"ld\.global\S*\.v[248]\S*|LDG\S*\.128\S*|(global|flat)_load_(dwordx4|b128)"
            r"|v?mov[au]p[sd] [xyz]mm\d+, \w|ldp? q\d",
        ),
        ("scalar", r"ld\.global\S*|LDG\S*|(global|flat)_load_\w+|v?movsd|ldr d\d+"),
    ),
    "load_uncached": (
        (
            "bypasses the first level",
            r"ld\.(volatile|relaxed|cv|mmio)\S*|LDG\S*\.STRONG\S*|LDG\S*\.SYS\S*|_load_.* (glc|sc0|scope:)",
        ),
        ("an ordinary load", r"\bmov \w+, qword|\bldr x\d+|ld\.global\S*|LDG\S*|(global|flat)_load_\w+"),
    ),
}


def classify(operation: str, listing: Iterable[str]) -> tuple[str, str]:
    """Returns how the listing implements an operation, and the instruction that shows it, or ("unknown", "")."""
    lines = list(listing)
    for verdict, pattern in _SIGNS["add" if operation.startswith("add") else operation]:
        for line in lines:
            if re.search(pattern, line):
                return verdict, line.strip()
    return "unknown", ""


def _disassembler() -> capstone.Cs:
    if platform.machine() in ("aarch64", "arm64"):
        return capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_ARM)
    return capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)


def disassemble(code: bytes, *, one_function: bool = False) -> list[str]:
    """Disassembles code of this machine's processor.

    one_function: stops at the first return behind which no earlier jump leads.
    """
    listing, farthest = [], 0
    for instruction in _disassembler().disasm(code, 0):
        listing.append(f"{instruction.mnemonic} {instruction.op_str}".strip())
        if target := re.fullmatch(r"(?:j\w+|b\.?\w*|cbn?z.*|tbn?z.*) .*?#?(0x[0-9a-f]+)", listing[-1]):
            farthest = max(farthest, int(target[1], 16) if int(target[1], 16) < len(code) else 0)
        if one_function and instruction.mnemonic.startswith("ret") and instruction.address >= farthest:
            break
    return listing


def _host_listing(kernel: str) -> tuple[str, list[str]]:
    return "the core's own code", disassemble(_core.host_kernel_code(kernel), one_function=True)


def _cuda_listing(kernel: str, code: bytes, ptx: str) -> tuple[str, list[str]]:
    """Returns SASS if nvdisasm is on the PATH, otherwise the PTX from which the machine code was compiled."""
    if tool := shutil.which("nvdisasm"):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "kernel.cubin"
            path.write_bytes(code)
            done = subprocess.run([tool, "-c", str(path)], capture_output=True, text=True, check=False)
        body = re.search(rf"\.text\.{kernel}:(.*?)(?=\n\s*\.section|\Z)", done.stdout, re.DOTALL)
        if done.returncode == 0 and body:
            instructions = re.findall(r"/\*[0-9a-f]+\*/\s+(.*?)\s*;", body[1])
            return "SASS", [one for one in instructions if one != "NOP"]  # the end is padded with them
    body = re.search(rf"\.entry {kernel}\((.*?)\n}}", ptx, re.DOTALL)
    if body is None:
        raise Unsupported(f"the compiled code holds no kernel {kernel}")
    return "PTX", re.findall(r"^\s+((?!\.|//)\S.*?);", body[1], re.MULTILINE)


def _disassemblers() -> list[str]:
    """Returns LLVM's disassemblers in the order to try: ROCm's supports its GPUs, others may be too old for them."""
    folder = os.path.join(os.environ.get("ROCM_PATH", "/opt/rocm"), "llvm/bin")
    names = ["llvm-objdump", *(f"llvm-objdump-{version}" for version in range(25, 14, -1))]
    found = [shutil.which("llvm-objdump", path=folder), *map(shutil.which, names)]
    return [tool for tool in found if tool is not None]


def hip_listing(kernel: str, code: bytes) -> tuple[str, list[str]]:
    """Returns the kernel's instructions in an AMD code object, from llvm-objdump.

    Raises:
        Unsupported: no llvm-objdump can read the code object.
    """
    problem = "llvm-objdump is neither on the PATH nor in ROCm's folder"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.co"
        path.write_bytes(code)
        for tool in _disassemblers():
            command = [tool, "-d", f"--disassemble-symbols={kernel}", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            listing = re.findall(r"^\t(\S.*?)\s*//", done.stdout, re.MULTILINE)
            if done.returncode == 0 and "s_endpgm" in listing:
                return "AMD GPU code", listing[: len(listing) - listing[::-1].index("s_endpgm")]  # the end is padded
            words = done.stderr.strip().replace(str(path), "the code") or f"no kernel {kernel} of an AMD GPU is in it"
            problem = f"{tool} does not read the compiled code: {words}"
    raise Unsupported(problem)


def _opencl_listing(kernel: str, code: bytes) -> tuple[str, list[str]]:
    """The work-group function of the kernel in the ELF objects that PoCL's binary carries."""
    for start in (match.start() for match in re.finditer(rb"\x7fELF", code)):
        elf = ELFFile(io.BytesIO(code[start:]))
        table = elf.get_section_by_name(".symtab") or elf.get_section_by_name(".dynsym")
        text = elf.get_section_by_name(".text")
        if table is None or text is None:
            continue
        for symbol in table.iter_symbols():
            if kernel in symbol.name and symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_size"] > 0:
                offset = symbol["st_value"] - text["sh_addr"]
                return "PoCL's object", disassemble(text.data()[offset : offset + symbol["st_size"]])
    raise Unsupported("this OpenCL driver's program binary holds no machine code of this processor to read")


def _device_listing(kind: str, kernel: str, code: bytes, assembly: str) -> tuple[str, list[str]]:
    if kind == "cubin":
        return _cuda_listing(kernel, code, assembly)
    return hip_listing(kernel, code) if kind == "hsaco" else _opencl_listing(kernel, code)


class Codegen(Experiment):
    """Reads the compiled code, to distinguish slow atomics from slow memory. Source: MI300A artefacts."""

    name = "codegen"
    order = 80
    question = "What did the compiler make of atomics and special loads?"
    metric = Metric("instructions", "neither")
    counted = (
        "Instructions of a kernel that does one operation, from the compiled device code (SASS where nvdisasm is "
        "present, else PTX; an AMD code object by llvm-objdump; PoCL's object; the code of the native module for the "
        "CPU). made says native or loop; the listing is in the record."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-B.4; the vendors' instruction-set manuals"
    figures = (
        Table(titles={"median": "instructions"},
              columns=("operation", "made", "instruction", "read_from", "median")),
    )  # fmt: skip
    share = 0.1

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        return [Factor("operation", OPERATIONS, choices=OPERATIONS, doc="what the code does")]

    def measure(self, point: Point, session: Session) -> Measurement:
        operation = point.text("operation")
        kernel = f"codegen_{operation}"
        if session.info.kind == "cpu":
            read_from, listing = _host_listing(kernel)
        else:
            kind, code, assembly = session.device.compile("codegen", _core.kernel_file("codegen.c"))
            read_from, listing = _device_listing(kind, kernel, code, assembly)
        made, instruction = classify(operation, listing)
        return Measurement(
            samples=[len(listing)],
            verified=None,
            verified_why="the instructions are read, not run",
            stopped_by="count",
            counters={
                "made": made,
                "instruction": instruction,
                "read_from": read_from,
                "listing": "\n".join(listing)[:LONGEST_LISTING],
            },
        )

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        by_form = group_by(records, "made")
        return [
            finding(
                COMPILED,
                rows,
                COMPILED_WORDS.get(str(made), str(made)),
                operation=tuple(r.text("operation") for r in rows),
            )
            for (made,), rows in by_form.items()
        ]


COMPILED = Claim("codegen.form", "{value} ({operation})", "operations are compiled to:")
COMPILED_WORDS = {
    "native": "a native instruction",
    "loop": "a compare-and-swap loop",
    "16 bytes or more a load": "loads of 16 bytes or more",
    "scalar": "scalar loads",
    "bypasses the first level": "a load that bypasses the first level",
}
"""What classify() found, in words that follow "compiled to"."""
