"""Builds the stand-in for AMD's runtime on the processor, and sets it as the HIP library of every test here."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import standin
from tests.conftest import MakeOnce


@pytest.fixture(scope="session")
def library() -> Path:
    if shutil.which("g++") is None:
        pytest.skip("no g++ to build the stand-in with")
    return standin.build("hip_on_host")


@pytest.fixture(scope="session")
def cache(make_once: MakeOnce) -> Path:
    """The cache of the kernels of all tests here."""
    return make_once("cache-of-standins", lambda folder: None)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, library: Path, cache: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("STANDIN_", "HSA_", "FIRSTTOUCH_MAX_"))]:
        monkeypatch.delenv(name)
    for variable in standin.VARIABLES:
        monkeypatch.setenv(variable, str(library))
    monkeypatch.setenv("FIRSTTOUCH_CACHE", str(cache))
