"""Code objects as AMD's compilers make them, as far as the trace reads them: kernels with their parameters."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import msgspec

Parameter = tuple[int, int, str, str]
"""Offset, bytes, kind and access ('' if none is told)."""


def code_object(kernels: Mapping[str, Sequence[Parameter]]) -> bytes:
    """An ELF file with nothing but the note that tells of kernels."""
    described = [
        {
            ".name": name,
            ".symbol": f"{name}.kd",
            ".args": [
                {".offset": offset, ".size": size, ".value_kind": kind} | ({".actual_access": access} if access else {})
                for offset, size, kind, access in parameters
            ],
            ".wavefront_size": 64,
        }
        for name, parameters in kernels.items()
    ]
    metadata = {"amdhsa.kernels": described, "amdhsa.target": "amdgcn-amd-amdhsa--gfx90a", "amdhsa.version": [1, 2]}
    packed = msgspec.msgpack.encode(metadata)
    padding = bytes(-len(packed) % 4)
    note = struct.pack("<III", 7, len(packed), 32) + b"AMDGPU\0\0" + packed + padding
    header_bytes, segment_bytes = 64, 56
    start = header_bytes + segment_bytes
    ident = b"\x7fELF\x02\x01\x01\x40".ljust(16, b"\0")
    end = start + len(note)  # of the file, where the headers of its sections would be
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 64, end, 0, 64, segment_bytes, 1, 64, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 4, 4, start, start, start, len(note), len(note), 4)
    return header + segment + note


def bundle(*images: bytes) -> bytes:
    """What clang makes of several, after one of the host that is empty."""
    names = [b"host-x86_64-unknown-linux-gnu-", *(b"hipv4-amdgcn-amd-amdhsa--gfx90a" for _ in images)]
    at = -(-(32 + sum(24 + len(name) for name in names)) // 4096) * 4096
    head, content = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(names)), b""
    for name, image in zip(names, (b"", *images), strict=True):
        head += struct.pack("<QQQ", at + len(content), len(image), len(name)) + name
        content += image + bytes(-len(image) % 4096)
    return head.ljust(at, b"\0") + content


SCALE: Sequence[Parameter] = (
    (0, 8, "global_buffer", "write_only"),
    (8, 8, "global_buffer", "read_only"),
    (16, 4, "by_value", ""),
    (24, 4, "hidden_block_count_x", ""),
)
"""Those of the kernel of tests/port/fixtures/hip.c."""
SCALE_NAME = "_Z5scalePfPKfi"
