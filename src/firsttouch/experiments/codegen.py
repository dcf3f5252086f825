"""codegen: the instructions that the compiler generated for atomic adds, vector loads and uncached loads."""

from __future__ import annotations

import io
import platform
import re
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from firsttouch import _core
from firsttouch.base.errors import NotModelled, Unsupported
from firsttouch.experiments.contract.base import Experiment, Factor, Measurement, Planning, Point, ReportSection
from firsttouch.experiments.contract.modelled import device_of, predicted
from firsttouch.experiments.contract.rules import Preset
from firsttouch.machine.backends import HOST
from firsttouch.machine.compilers import TARGETS, compile_for, llvm_tools
from firsttouch.machine.tools import ask
from firsttouch.model.micro.code import code
from firsttouch.records.codebook import Codebook, CounterEntry
from firsttouch.records.figures import Table
from firsttouch.records.findings import Claim, Finding, finding
from firsttouch.records.schema import DeviceInfo, Metric, Record, Scalar
from firsttouch.records.statistics import group_by
from firsttouch.workers.session import Session

if TYPE_CHECKING:
    import capstone

    from firsttouch.model.platform import Platform

OPERATIONS = (
    "add_u64_device",
    "add_u64_system",
    "add_f64_device",
    "add_f64_system",
    "load_vector",
    "load_uncached",
)
LONGEST_LISTING = 6000
TARGET = "target"
"""The factor that names the GPU of another machine."""
EXAMPLES = ("gfx942", "gfx90a", "sm_90")
INSTALL = "pip install 'firsttouch[codegen]'"
NOT_RUN = "compiled, not run"

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
    # Imported here, because every worker loads this module, and this takes as long as all the others.
    try:
        import capstone
    except ModuleNotFoundError:
        raise Unsupported(f"disassembling the processor's code needs capstone; {INSTALL}") from None
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
            done = ask([tool, "-c", str(path)])
        body = re.search(rf"\.text\.{kernel}:(.*?)(?=\n\s*\.section|\Z)", done.stdout, re.DOTALL)
        if done.returncode == 0 and body:
            instructions = re.findall(r"/\*[0-9a-f]+\*/\s+(.*?)\s*;", body[1])
            return "SASS", [
                instruction for instruction in instructions if instruction != "NOP"
            ]  # the end is padded with them
    body = re.search(rf"\.entry {kernel}\((.*?)\n}}", ptx, re.DOTALL)
    if body is None:
        raise Unsupported(f"the compiled code holds no kernel {kernel}")
    return "PTX", re.findall(r"^\s+((?!\.|//)\S.*?);", body[1], re.MULTILINE)


def hip_listing(kernel: str, code: bytes) -> tuple[str, list[str]]:
    """Returns the kernel's instructions in an AMD code object, from llvm-objdump.

    Raises:
        Unsupported: no llvm-objdump can read the code object.
    """
    problem = "llvm-objdump is neither on the PATH nor in ROCm's folder; install llvm 19 or newer, or ROCm"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.co"
        path.write_bytes(code)
        for tool in llvm_tools("llvm-objdump"):
            done = ask([tool, "-d", f"--disassemble-symbols={kernel}", str(path)])
            listing = re.findall(r"^\t(\S.*?)\s*//", done.stdout, re.MULTILINE)
            if done.returncode == 0 and "s_endpgm" in listing:
                return "AMD GPU code", listing[: len(listing) - listing[::-1].index("s_endpgm")]  # the end is padded
            words = done.stderr.strip().replace(str(path), "the code") or f"no kernel {kernel} of an AMD GPU is in it"
            problem = f"{tool} does not read the compiled code: {words}"
    raise Unsupported(problem)


def assembly_listing(kernel: str, assembly: str) -> tuple[str, list[str]]:
    """Returns the kernel's instructions in clang's assembly for an AMD GPU, without labels and directives.

    Raises:
        Unsupported: the assembly holds no such kernel.
    """
    body = re.search(rf"^{kernel}:(.*?)^\.Lfunc_end", assembly, re.DOTALL | re.MULTILINE)
    if body is None:
        raise Unsupported(f"the compiler's assembly holds no kernel {kernel}")
    return "clang's assembly", re.findall(r"^\t([a-z].*?)\s*(?:;.*)?$", body[1], re.MULTILINE)


def _opencl_listing(kernel: str, code: bytes) -> tuple[str, list[str]]:
    """The work-group function of the kernel in the ELF objects that PoCL's binary carries."""
    try:
        from elftools.elf.elffile import ELFFile
    except ModuleNotFoundError:
        raise Unsupported(f"reading PoCL's object needs pyelftools; {INSTALL}") from None

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
    if kind == "hsaco":
        return assembly_listing(kernel, assembly) if assembly else hip_listing(kernel, code)
    return _opencl_listing(kernel, code)


class Codegen(Experiment):
    """Reads the compiled code, to distinguish slow atomics from slow memory. Source: MI300A artefacts."""

    name = "codegen"
    order = 80
    question = "What do compilers generate for atomics and special loads?"
    metric = Metric("instructions", "neither")
    counted = (
        "Instructions of a kernel that does one operation, from the compiled device code (SASS where nvdisasm is "
        "present, else PTX; an AMD code object by llvm-objdump; PoCL's object; the code of the native module for the "
        "CPU). made says native or loop; the listing is in the record. With --set target=, from code that is compiled "
        "for another machine's GPU and not run (SASS or PTX; clang's assembly, or hipRTC's code object)."
    )
    source = "Wahlgren et al., IISWC 2025, Sec. III-B4; the vendors' instruction-set manuals"
    codebook = Codebook(
        called="compiled code",
        factors={
            "operation": {
                f"{operation}_{scope}": f"{about}, seen by {of}"
                for operation, about in (
                    ("add_u64", "atomic addition of whole numbers"),
                    ("add_f64", "atomic addition of floating-point numbers"),
                )
                for scope, of in (("device", "the device"), ("system", "CPU and device"))
            }
            | {"load_vector": "a load of 16 bytes", "load_uncached": "a load that no cache may serve"},
            TARGET: {},
        },
        counters=(
            CounterEntry(name="made|instruction|listing|read_from|target|same_as|compiler|execution", unit="word"),
        ),
    )
    figures = (
        Table(titles={"median": "instructions"},
              columns=("operation", "made", "instruction", "read_from", "median")),
    )  # fmt: skip
    planning = Planning(
        share=0.1,
        setup=0.45,
        switches_of=(),
    )

    def factors(self, device: DeviceInfo, preset: Preset) -> list[Factor]:
        doc = "compile for this GPU, which need not be here; needs NVRTC, or clang or hipRTC"
        return [
            Factor("operation", OPERATIONS, doc="what the code does"),
            Factor(TARGET, (), "name", choices=EXAMPLES, doc=doc, pattern=TARGETS, optional=True, only_on=HOST),
        ]

    def measure(self, point: Point, session: Session) -> Measurement:
        operation = point.text("operation")
        kernel, about, reason = f"codegen_{operation}", dict[str, Scalar](), "the instructions are read, not run"
        if TARGET in point.factors:
            compiled = compile_for(point.text(TARGET), "codegen")
            read_from, listing = _device_listing(compiled.kind, kernel, compiled.code, compiled.assembly)
            about, reason = {"execution": NOT_RUN, "compiler": compiled.compiler}, NOT_RUN
        elif session.info.kind == HOST:
            read_from, listing = _host_listing(kernel)
        else:
            kind, code, assembly = session.device.compile("codegen", _core.kernel_file("codegen.c"))
            read_from, listing = _device_listing(kind, kernel, code, assembly)
        made, instruction = classify(operation, listing)
        return Measurement(
            samples=[len(listing)],
            verified=None,
            verified_why=reason,
            stopped_by="count",
            counters={
                "made": made,
                "instruction": instruction,
                "read_from": read_from,
                **about,
                "listing": "\n".join(listing)[:LONGEST_LISTING],
            },
        )

    def predict(self, point: Point, platform: Platform) -> Measurement:
        if TARGET in point.factors:
            raise NotModelled("code that is compiled on this machine")
        return predicted(code(platform, device_of(point, platform), point.text("operation")))

    def findings(self, records: Sequence[Record], device: DeviceInfo | None) -> list[Finding]:
        return [
            finding(
                COMPILED if target is None else COMPILED_FOR,
                same,
                COMPILED_WORDS.get(str(made), str(made)),
                operation=tuple(r.text("operation") for r in same),
            )
            for (target,), rows in group_by(records, TARGET).items()
            for (made,), same in group_by(rows, "made").items()
        ]

    def derive(self, records: Sequence[Record]) -> list[Record]:
        """Adds to each record of a target what every target made of the same operation, as a counter of its name."""
        made: dict[Scalar, dict[str, Scalar]] = {}
        for r in records:
            if TARGET in r.factors and "made" in r.counters:
                by_target = made.setdefault(r.factors["operation"], {})
                by_target[r.text(TARGET)] = f"{r.counters['made']}: {r.counters['instruction']}"
        return [
            replace(r, counters={**r.counters, **made.get(r.factors["operation"], {})}) if TARGET in r.factors else r
            for r in records
        ]

    def sections(self, records: Sequence[Record], device: DeviceInfo | None) -> list[ReportSection]:
        """A section on the device's code, and one on the code for targets, with a column for each target."""
        of_targets = [r for r in records if TARGET in r.factors]
        of_device = [r for r in records if TARGET not in r.factors]
        targets = dict.fromkeys(r.text(TARGET) for r in of_targets if r.status == "ok")
        figures = (
            Table(title=f"By target: {NOT_RUN}", columns=("operation", *targets), titles={t: t for t in targets}),
            Table(columns=(TARGET, "compiler", "read_from")),
        )
        by_target = self.section(of_targets, figures=figures, title="other machines")
        return [*([self.section(of_device)] if of_device else []), *([by_target] if of_targets else [])]


COMPILED = Claim("codegen.form", "{value} ({operation})", "operations are compiled to:")
COMPILED_FOR = Claim("codegen.target", COMPILED.text, "for {target}, operations are compiled, not run, to:")
COMPILED_WORDS = {
    "native": "a native instruction",
    "loop": "a compare-and-swap loop",
    "16 bytes or more a load": "loads of 16 bytes or more",
    "scalar": "scalar loads",
    "bypasses the first level": "a load that bypasses the first level",
}
"""What classify() found, in words that follow "compiled to"."""
