"""Kernels of HIP programs for the processor: what clang makes of them for an AMD GPU, compiled for x86-64 instead.

    python tests/standins/hip_kernels.py LIBRARY CLANG OPTION... SOURCE.hip

The code that the front end emits for the device is taken before any optimization, and the names of address spaces,
calling conventions and built-in functions of the GPU are replaced by those of the processor (hip_kernels.cpp). The
library then has a function for each kernel, which hip_runtime.cpp calls (STANDIN_KERNELS). The program itself is
compiled as ever. That a kernel computes what its source says is shown; nothing of a GPU is: work-items run one after
another and switch at barriers and where those of a wave exchange values.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOST = "x86_64-unknown-linux-gnu"
DEVICE_OPTIONS = ("--cuda-device-only", "-nogpulib", "-emit-llvm", "-S", "-O1", "-Xclang", "-disable-llvm-passes")
REPLACED = (
    (r"^target datalayout.*$", ""),
    (r"^target triple.*$", f'target triple = "{HOST}"'),
    (r"externally_initialized constant", "externally_initialized global"),  # the host writes it
    (r"\bexternal( \w+)* addrspace\(3\) global \[0 x [^\]]*\]", "global [65536 x i8] zeroinitializer"),  # by the launch
    (r",? ?addrspace\(\d+\)", ""),
    (r"\baddrspacecast\b", "bitcast"),
    (r"\bamdgpu_kernel ", ""),
    (r'"target-(cpu|features)"="[^"]*"', ""),
    (r"@llvm\.amdgcn\.", "@standin.amdgcn."),
)
FUNCTIONS = {
    "__ocml_fma_2f16": "define weak <2 x half> @__ocml_fma_2f16(<2 x half> %a, <2 x half> %b, <2 x half> %c) {\n"
    "  %r = call <2 x half> @llvm.fma.v2f16(<2 x half> %a, <2 x half> %b, <2 x half> %c)\n  ret <2 x half> %r\n}\n"
    "declare <2 x half> @llvm.fma.v2f16(<2 x half>, <2 x half>, <2 x half>)\n",
}
"""Those whose types C++ passes in another way than the kernels do."""


def main() -> None:
    library, *command, source = sys.argv[1:]
    build(Path(library), command, [Path(source)])


def build(library: Path, clang: Sequence[str], sources: Sequence[Path]) -> None:
    """Makes the library of the kernels of these sources.

    Args:
        clang: The compiler and the options of the program, such as `--offload-arch=gfx942`.

    Raises:
        subprocess.CalledProcessError: If something does not compile.
    """
    objects = []
    for source in sources:
        code = library.with_name(f"{source.stem}.device.ll")
        subprocess.run([*clang, "-x", "hip", *DEVICE_OPTIONS, str(source), "-o", str(code)], check=True)
        code.write_text(for_the_processor(code.read_text()))
        objects.append(code.with_suffix(".o"))
        command = [clang[0], "-w", "-x", "ir", "-O2", "-fPIC", "-c", str(code), "-o", str(objects[-1])]
        subprocess.run(command, check=True)
    own = [str(HERE / "hip_kernels.cpp"), "-std=c++20", "-O2"]
    options = ["-shared", "-fPIC", "-Wl,-z,defs", "-Wl,-Bsymbolic", "-o", str(library), *map(str, objects)]
    subprocess.run([f"{clang[0]}".replace("clang-", "clang++-"), *own, *options, "-lm"], check=True)


def for_the_processor(code: str) -> str:
    """LLVM's code for an AMD GPU as code for the processor, with a function `launch.NAME` for each kernel."""
    entries = list(map(entry, kernels(code)))
    for pattern, replacement in REPLACED:
        code = re.sub(pattern, replacement, code, flags=re.M)
    code = re.sub(r"@llvm\.[\w.]+", lambda name: re.sub(r"\.p\d+", ".p0", name[0]), code)
    return without_repeated_declarations(code) + "\n".join(entries)


def without_repeated_declarations(code: str) -> str:
    known, kept = set[str](), []
    for line in code.splitlines():
        declared = re.match(r"declare .*?@([\w.]+)\(", line)
        if declared is not None and declared[1] in FUNCTIONS and declared[1] not in known:
            kept.append(FUNCTIONS[declared[1]])
            known.add(declared[1])
        if declared is None or declared[1] not in known:
            kept.append(line)
        if declared is not None:
            known.add(declared[1])
    return "\n".join([*kept, ""])


def kernels(code: str) -> Iterator[tuple[str, list[str]]]:
    """The name of each kernel and its parameters."""
    for found in re.finditer(r"^define [^@\n]*\bamdgpu_kernel void @([\w.$]+)\(", code, re.M):
        yield found[1], list(parts(code[found.end() : closing(code, found.end() - 1)]))


def closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([{<") - (text[at] in ")]}>")
        if depth == 0:
            return at
    raise ValueError(f"a bracket is not closed: {text[start : start + 80]}")


def parts(parameters: str) -> Iterator[str]:
    depth, begin = 0, 0
    for at, letter in enumerate(parameters):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and depth == 0:
            yield parameters[begin:at].strip()
            begin = at + 1
    if parameters[begin:].strip():
        yield parameters[begin:].strip()


def entry(kernel: tuple[str, list[str]]) -> str:
    """A function that calls the kernel with what an array of addresses of its arguments says."""
    name, parameters = kernel
    lines, arguments = [], []
    for i, parameter in enumerate(parameters):
        lines.append(f"  %a{i} = getelementptr ptr, ptr %arguments, i64 {i}\n  %p{i} = load ptr, ptr %a{i}")
        if " byref(" in parameter:
            arguments.append(f"ptr %p{i}")
            continue
        kind = parameter[: closing(parameter, 0) + 1] if parameter[0] in "[{<" else parameter.split()[0]
        if parameter.startswith('%"'):
            kind = parameter[: parameter.index('"', 2) + 1]
        lines.append(f"  %v{i} = load {kind}, ptr %p{i}")
        arguments.append(f"{kind} %v{i}")
    call = f"  call void @{name}({', '.join(arguments)})\n  ret void"
    return "\n".join([f"define weak_odr void @launch.{name}(ptr %arguments) {{", *lines, call, "}\n"])


if __name__ == "__main__":
    main()
