"""Builds the stand-in for AMD's runtime on the processor once, and sets it as the HIP library of every test here."""

from __future__ import annotations

import os
import shutil
from functools import partial
from pathlib import Path

import pytest
import standin
from tests.conftest import MakeOnce


@pytest.fixture(scope="session")
def folder(make_once: MakeOnce) -> Path:
    """The library, and the cache of the kernels that all tests compile."""
    if shutil.which("g++") is None:
        pytest.skip("no g++ to build the stand-in with")
    return make_once("standin", partial(standin.build, "hip_on_host"))


@pytest.fixture(scope="session")
def library(folder: Path) -> Path:
    return standin.library("hip_on_host", folder)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, library: Path, folder: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("STANDIN_", "HSA_", "FIRSTTOUCH_MAX_"))]:
        monkeypatch.delenv(name)
    for variable in standin.VARIABLES:
        monkeypatch.setenv(variable, str(library))
    monkeypatch.setenv("FIRSTTOUCH_CACHE", str(folder / "cache"))
