"""A place for the kernels that PoCL has compiled. Without one it has no devices, and says nothing."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

VARIABLE = "POCL_CACHE_DIR"
_PLACES = ("/tmp", "/var/tmp", "/dev/shm")
_PROBE = bytes(4096)


@cache
def provide_cache() -> str:
    """Names another folder to PoCL in this process and those that it starts if its own cannot be used, such as in a
    home that is not there. Returns '', or one sentence that says why there is none.
    """
    chosen, problem = choose_cache(os.environ, [os.environ.get("TMPDIR", ""), *_PLACES])
    if chosen is not None:
        os.environ[VARIABLE] = str(chosen)
    return problem


def choose_cache(environment: Mapping[str, str], places: Iterable[str]) -> tuple[Path | None, str]:
    """The folder that PoCL must be told, None if it needs none; and why there is none. places: folders for temporary
    files, in the order to try.
    """
    own_folder = pocl_folder(environment)
    if not (problem := why_unusable(own_folder)):
        return None, ""
    for place in filter(os.path.isabs, places):
        folder = Path(place) / f"firsttouch-{os.getuid()}"
        if not why_unusable(folder) and _is_private(folder):
            return folder / "pocl", ""
    return None, f"PoCL cannot keep kernels in {own_folder} ({problem}); set {VARIABLE} to a folder that can be written"


def pocl_folder(environment: Mapping[str, str]) -> Path:
    """Where PoCL keeps kernels. Source: pocl_cache_init_topdir() in PoCL's lib/CL/pocl_cache.c."""
    if chosen := environment.get(VARIABLE):
        return Path(chosen)
    if caches := environment.get("XDG_CACHE_HOME"):
        return Path(caches) / "pocl" / "kcache"
    home = environment.get("HOME")
    return Path("/tmp/pocl/kcache") if home is None else Path(f"{home}/.cache/pocl/kcache")


def why_unusable(folder: Path) -> str:
    """Why no libraries can be written to a folder, which need not exist, and be loaded from there; '' if they can."""
    try:
        existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if os.path.lexists(path))
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(_PROBE)
            file.flush()
        return "it is mounted with noexec" if os.statvfs(existing).f_flag & os.ST_NOEXEC else ""
    except OSError as error:
        return str(error.strerror)


def _is_private(folder: Path) -> bool:
    """Makes a folder that nobody else can write, since what is in it is executed; False if another has it."""
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
