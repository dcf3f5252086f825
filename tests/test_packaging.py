"""Recipes, policies and metadata agree with pyproject.toml, and nothing is published by mistake."""

from __future__ import annotations

import ast
import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGING = ROOT / "packaging"
PROJECT = (ROOT / "pyproject.toml").read_text()
SPACK = PACKAGING / "spack/packages/py_firsttouch/package.py"
ADDRESS = re.search(r'^Repository = "(.*)"', PROJECT, re.MULTILINE)[1]  # type: ignore[index]


def _names(requirements: Iterable[str]) -> set[str]:
    """The names of packages; in lists of requirements what follows a name is its version."""
    return {re.split(r"[^\w-]", text.strip())[0].lower().replace("_", "-") for text in requirements}


def _array(name: str) -> list[str]:
    """An array of pyproject.toml. CPython 3.10 has no tomllib."""
    found = re.search(rf"^{name} = \[(.*?)\]$", PROJECT, re.DOTALL | re.MULTILINE)
    assert found is not None
    return re.findall(r'"([^"]+)"', found[1])


def _spack(kind: str) -> set[str]:
    """What the Spack package needs when it is built, or when it runs, whatever the variant."""
    calls = [node for node in ast.walk(ast.parse(SPACK.read_text())) if isinstance(node, ast.Call)]
    needs = [node for node in calls if isinstance(node.func, ast.Name) and node.func.id == "depends_on"]
    always = [node for node in needs if all(word.arg != "when" for word in node.keywords)]
    of_kind = [n for n in always if any(kind in ast.literal_eval(w.value) for w in n.keywords if w.arg == "type")]
    return {name.removeprefix("py-") for name in _names(ast.literal_eval(node.args[0]) for node in of_kind)}


def _conda(section: str) -> set[str]:
    found = re.search(rf"^  {section}:\n((?:    - .*\n)+)", (PACKAGING / "conda/recipe.yaml").read_text(), re.MULTILINE)
    assert found is not None
    return _names(re.findall(r"- (.*)", found[1]))


def test_recipes_need_what_the_project_needs():
    run, build = _names(_array("dependencies")), _names(_array("requires"))
    assert _conda("run") == run | {"python"}
    assert _conda("host") == build | {"python", "pip"}
    assert _spack("run") == run | {"python"}
    assert _spack("build") == build | {"python", "cxx", "cmake", "ninja"}
    tools = re.findall(r"'([\w>=.-]+)'", re.search(r"install -q ('scikit.*)", (ROOT / "Makefile").read_text())[1])
    assert tools == _array("requires")


@pytest.mark.parametrize("file", ["CITATION.cff", "packaging/conda/recipe.yaml", str(SPACK.relative_to(ROOT))])
def test_every_file_names_one_address_and_version(file):
    text = (ROOT / file).read_text()
    assert set(re.findall(r"https?://[^/]*/firsttouch", text)) == {ADDRESS}
    released = re.search(r'^fallback_version = "(.*)\.dev0"', PROJECT, re.MULTILINE)[1]
    assert released in re.findall(r"\b\d+\.\d+\.\d+\b", text)


def test_the_readme_of_a_package_index_has_absolute_links_only():
    text = (ROOT / "README.md").read_text()
    rules = re.findall(r"^pattern = '(.*)'\nreplacement = '(.*)'$", PROJECT, re.MULTILINE)
    assert len(rules) == 2
    for pattern, replacement in rules:
        text = re.sub(pattern, replacement, text)
    links = re.findall(r"\]\(([^)]*)\)", text)
    assert len(links) > 20
    assert [link for link in links if not link.startswith(ADDRESS)] == []
    assert f"and advice]({ADDRESS}/raw/HEAD/docs/figures/answer.png)" in text


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_only_a_clean_tag_of_a_published_project_is_published(tmp_path):
    def git(*words: str) -> None:
        identity = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    def refused() -> str:
        check = ["packaging/publish.sh", "--check"]
        return subprocess.run(check, cwd=tmp_path, text=True, capture_output=True).stderr

    def replace(file: str, before: str, after: str) -> None:
        text = (tmp_path / file).read_text()
        assert before in text
        (tmp_path / file).write_text(text.replace(before, after))

    (tmp_path / "packaging").mkdir()
    for name in ("pyproject.toml", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "packaging/publish.sh"):
        shutil.copy(ROOT / name, tmp_path / name)
    git("init", "-q")
    git("add", ".")
    assert f"{ADDRESS} leads nowhere" in refused()
    replace("pyproject.toml", ADDRESS, "https://example.org/firsttouch")
    assert "SECURITY.md does not say" in refused()
    replace("SECURITY.md", "by the form of the site that hosts this repository", "to security@example.org")
    assert "uncommitted changes" in refused()
    git("commit", "-aqm", "first")
    assert "no tag such as v0.2.0" in refused()
    git("tag", "v0.2.0")
    assert "no dated section [0.2.0]" in refused()
    replace("CHANGELOG.md", "[0.2.0] - unreleased", "[0.2.0] - 2026-12-01")
    git("commit", "-aqm", "second")
    git("tag", "-f", "v0.2.0")
    assert refused() == ""
    git("tag", "v0.3.0")
    git("tag", "-d", "v0.2.0")
    assert "no dated section [0.3.0]" in refused()


def test_one_script_fills_in_what_leads_nowhere(tmp_path):
    prepare = load_from(ROOT / "packaging/prepare.py")
    for name in prepare.FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    values = {prepare.ADDRESS: "https://host/ft", prepare.REPORT: "to us", prepare.DIGEST: "1" * 64}
    assert prepare.fill_in(tmp_path, values) == [*prepare.FILES]
    assert not any(text in (tmp_path / name).read_text() for name in prepare.FILES for text in values)
    packaged = [file for file in (ROOT / "packaging").rglob("*") if file.suffix in (".py", ".yaml", ".yml", ".md")]
    left = {str(file.relative_to(ROOT)) for file in packaged if any(text in file.read_text() for text in values)}
    assert left <= {*prepare.FILES, "packaging/prepare.py", "packaging/PUBLISH.md"}


def load_from(file):
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
