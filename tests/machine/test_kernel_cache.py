"""PoCL gets a folder for its kernels where its own cannot be used, or the reason says what it lacks."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.texts import assert_states

from firsttouch import _core
from firsttouch.machine import devices
from firsttouch.machine.kernel_cache import choose_cache, pocl_folder, why_unusable

NAME = f"firsttouch-{os.getuid()}"


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"POCL_CACHE_DIR": "/a", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/a"),
        ({"POCL_CACHE_DIR": "", "XDG_CACHE_HOME": "/b", "HOME": "/c"}, "/b/pocl/kcache"),
        ({"XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/pocl/kcache"),
        ({"HOME": ""}, "/.cache/pocl/kcache"),
        ({}, "/tmp/pocl/kcache"),
    ],
)
def test_where_pocl_keeps_kernels(environment: dict[str, str], folder: str) -> None:
    assert pocl_folder(environment) == Path(folder)


def test_a_folder_that_can_be_used_is_left_alone(tmp_path: Path) -> None:
    assert choose_cache({"HOME": str(tmp_path / "new")}, [str(tmp_path / "place")]) == (None, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("home", ["/proc/nowhere", "/dev/null", "/proc/self/cmdline", "FILE", "LINK"])
def test_a_home_that_is_not_there_or_cannot_be_written(tmp_path: Path, home: str) -> None:
    (tmp_path / "FILE").touch()
    (tmp_path / "LINK").symlink_to("nothing")
    home = home if home.startswith("/") else str(tmp_path / home)
    assert choose_cache({"HOME": home}, ["", "relative", "/proc", str(tmp_path)]) == (tmp_path / NAME / "pocl", "")
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o700
    assert choose_cache({"POCL_CACHE_DIR": home}, [str(tmp_path)]) == (tmp_path / NAME / "pocl", "")


@pytest.mark.parametrize("error", ["EACCES", "EROFS", "ENOSPC", "EDQUOT", "ESTALE"])
def test_a_folder_that_refuses_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    def refuse(**_: object) -> None:
        raise OSError(getattr(errno, error), os.strerror(getattr(errno, error)))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    why = os.strerror(getattr(errno, error))
    folder, problem = choose_cache({"HOME": str(tmp_path)}, [str(tmp_path)])
    assert folder is None
    assert_states(problem, f"{tmp_path}/.cache/pocl/kcache ({why})", "set POCL_CACHE_DIR")


def test_a_folder_from_which_nothing_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_unusable(tmp_path) == ""
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC | os.ST_NOSUID))
    assert_states(why_unusable(tmp_path), "noexec")


@pytest.mark.parametrize("kind", ["open to others", "a link", "a file"])
def test_a_folder_that_another_user_could_have_made_is_not_used(tmp_path: Path, kind: str) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    for place in (theirs, mine):
        place.mkdir()
    if kind == "open to others":
        (theirs / NAME).mkdir()
        (theirs / NAME).chmod(0o777)
    elif kind == "a link":
        (theirs / NAME).symlink_to(mine)
    else:
        (theirs / NAME).touch()
    places = [str(theirs), str(mine)]
    assert choose_cache({"HOME": "/proc/nowhere"}, places) == (mine / NAME / "pocl", "")


def test_what_a_driver_lacks_is_told_with_its_devices_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(kind: str) -> int:
        raise _core.Unavailable(f"no {kind} device found")

    monkeypatch.setattr(_core, "count_devices", none)
    monkeypatch.setattr(devices, "show_libraries", lambda: {"opencl": "it has no folder"})
    for kind, reason in (("opencl", "no opencl device found; it has no folder"), ("hip", "no hip device found")):
        with pytest.raises(_core.Unavailable, match=f"^{reason}$"):
            devices.describe_devices(kind)
