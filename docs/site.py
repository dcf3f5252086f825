"""What turns README.md, CONTRIBUTING.md, CHANGELOG.md, docs/*.md and evidence/*.md into a site; mkdocs.yml names it.

The reference of the Python interface is made of docstrings (docs/reference.py).

The pages are written for a clone, where any file can be linked. On the site links to pages stay inside; links to other
files of the repository (results, source code) lead to the clone in which the site was built, and must exist there.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
FROM_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    **{name: name for name in sorted(f"evidence/{path.name}" for path in (ROOT / "evidence").glob("*.md"))},
}
"""Pages of the site that are not in docs."""
LINK = re.compile(r"(?<!`)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
OUTSIDE = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|object|embed)\b[^>]*\s(?:src|data)=["']?(?:https?:)?//[^>]*>
    |<link\b(?=[^>]*\shref=["']?(?:https?:)?//)(?![^>]*\srel=["']?(?:canonical|next|prev|alternate))[^>]*>
    |(?:url\(|@import\s)["']?(?:https?:)?//[^)]*""",
    re.VERBOSE,
)
"""What a browser loads from another host when it shows a page."""
log = logging.getLogger("mkdocs.hooks.site")


def on_files(files: Files, config: Any) -> Files:
    for source, page in FROM_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    for page, text in reference().items():
        files.append(File.generated(config, page, content=text))
    return files


def reference() -> dict[str, str]:
    """The pages that docs/reference.py makes of signatures and docstrings."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "docs/reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages: dict[str, str] = module.pages()
    return pages


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    path = page.file.src_uri
    if path.startswith("reference/"):
        return markdown
    source = next((name for name, of in FROM_ROOT.items() if of == path), f"docs/{path}")

    def target(match: re.Match[str]) -> str:
        text, link, anchor = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", link):
            return match[0]
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
        if not (ROOT / linked).exists():
            log.warning("%s: the link to %s leads nowhere", source, link)
        inside = FROM_ROOT.get(linked) or (linked.removeprefix("docs/") if linked.startswith("docs/") else "")
        file = files.get_file_from_path(inside) if inside else None
        if file is not None and file.inclusion.is_included():
            return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(path) or '.')}{anchor})"
        clone = os.path.relpath(ROOT / linked, Path(config.site_dir) / posixpath.dirname(path))
        return f'<a href="{clone}">{text}</a>'

    return spaced_lists(LINK.sub(target, markdown))


def spaced_lists(markdown: str) -> str:
    """A blank line before each list, which Python-Markdown needs after a paragraph and CommonMark does not."""
    lines: list[str] = []
    fenced = in_list = False
    for line in markdown.split("\n"):
        fenced ^= line.startswith("```")
        begins = not fenced and re.match(r"([-*]|\d+\.) ", line) is not None
        if begins and not in_list and lines and lines[-1]:
            lines.append("")
        in_list = bool(line) and (in_list or begins)
        lines.append(line)
    return "\n".join(lines)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Without the theme's script from another host, which its search needs only in pages opened as files."""
    return re.sub(r'<script src="(?:https?:)?//[^"]*"></script>', "", output)


def on_post_build(config: Any) -> None:
    for path in sorted(Path(config.site_dir).rglob("*")):
        if path.suffix in (".html", ".css"):
            for match in OUTSIDE.finditer(path.read_text()):
                log.warning("%s loads from outside: %s", path.name, match[0][:100])
