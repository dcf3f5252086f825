"""Draws the first screens of two reports: answer.png, of applications, and report-*.png, of micro-measurements.

Needs Chromium; `make screenshots` runs it.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests" / "report"))

from browser import CHROMIUM, Browser  # noqa: E402

from firsttouch.report.page import write_report  # noqa: E402

SCREENS = {
    "evidence/results/h200-apps-1": {"answer.png": {"width": 1280, "height": 846}},
    "results/h200-standard": {
        "report-light.png": {"width": 1280, "height": 900},
        "report-dark.png": {"width": 1280, "height": 900, "dark": True},
        "report-phone.png": {"width": 390, "height": 844, "phone": True},
    },
}
"""The pictures of each run."""
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def smaller(png: bytes) -> bytes:
    """The same picture, compressed as far as zlib can, without other chunks."""
    at, kept, data = len(SIGNATURE), [], b""
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        kind, body = png[at + 4 : at + 8], png[at + 8 : at + 8 + size]
        at += 12 + size
        if kind == b"IHDR":
            kept.append((kind, body))
        elif kind == b"IDAT":
            data += body
    kept += [(b"IDAT", zlib.compress(zlib.decompress(data), 9)), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(b)) + k + b + struct.pack(">I", zlib.crc32(k + b)) for k, b in kept]
    return SIGNATURE + b"".join(chunks)


def main() -> None:
    if CHROMIUM is None:
        sys.exit("needs chromium or google-chrome on the PATH: install the package chromium")
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser()
        try:
            for run, pictures in SCREENS.items():
                page = write_report([ROOT / run], Path(folder) / f"{Path(run).name}.html")
                for name, screen in pictures.items():
                    browser.open(page, **screen)
                    (HERE / name).write_bytes(smaller(browser.screenshot()))
        finally:
            browser.close()


if __name__ == "__main__":
    main()
