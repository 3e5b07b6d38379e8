"""The documentation as a site: `tox -e docs`. The pages stay Markdown that a forge shows.

The root of the sources is the repository, so that pages under docs/ and design/ link to each other; only they are read.
Tables of contents and the pages of the API are made here, from the links of docs/index.md and the public names.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

import jgroups_py  # noqa: E402  the import needs the path

project = "jgroups_py"
author = "The jgroups_py developers"
release = version = jgroups_py.__version__
root_doc = "docs/index"
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
include_patterns = ["docs/**", "design/**", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "README.md",
                    "benchmarks/**/README.md"]
exclude_patterns = ["**/__pycache__", "docs/_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
html_theme = "furo"
html_title = f"jgroups_py {release}"
html_theme_options = {"footer_icons": []}
html_copy_source = html_show_sourcelink = False
myst_heading_anchors = 5
copybutton_prompt_text = "$ "
autodoc_typehints = "none"                # the signatures of a page have them already
autodoc_member_order = "bysource"
nitpicky = True
GROUPS = (("Tutorial", "tutorial"), ("How to", "how-to"), ("Building blocks", "blocks"), ("Reference", "reference"))


def contents() -> str:
    """Hidden tables of contents: of each folder of docs/, in the order in which docs/index.md links its pages."""
    text = (HERE / "index.md").read_text(encoding="utf-8")
    linked = list(dict.fromkeys(re.findall(r"\]\(((?:\w|-)+/(?:\w|-)+)\.md", text)))
    parts = []
    for title, folder in GROUPS:
        pages = [page for page in linked if page.startswith(f"{folder}/")]
        pages += sorted(f"{folder}/{path.stem}" for path in (HERE / folder).glob("*.md")
                        if f"{folder}/{path.stem}" not in pages)
        if folder == "reference":
            pages.append("/docs/api")
        parts.append(toctree(title, pages))
    design = sorted(f"/{path.relative_to(ROOT).with_suffix('')}" for path in (ROOT / "design").rglob("*.md"))
    other = [f"/{name}" for name in ("README", "CONTRIBUTING", "SECURITY", "CHANGELOG")]
    other += sorted(f"/{path.relative_to(ROOT).with_suffix('')}" for path in (ROOT / "benchmarks").rglob("README.md"))
    return "\n".join([*parts, toctree("Design", design), toctree("Project", other)])


def toctree(title: str, pages: list[str]) -> str:
    """A table of contents that only the side of the page shows."""
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```", ""])


def links_of_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the tables of contents to the first page; links to what is no page of the site become plain text."""
    folder = (ROOT / docname).parent

    def replaced(match: re.Match[str]) -> str:
        text, target = match.groups()
        parts = urlsplit(target)
        if parts.scheme or not parts.path:
            return match[0]
        there = (folder / parts.path).resolve()
        if there.is_dir() and (there / "index.md").exists():
            return f"[{text}]({parts.path.rstrip('/')}/index.md)"
        page = str(there.relative_to(ROOT).with_suffix("")) if there.is_relative_to(ROOT) else ""
        return match[0] if there.suffix == ".md" and page in app.env.found_docs else text
    source[0] = re.sub(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])+)\]\(([^()\s]+)\)", replaced, source[0])
    if docname == root_doc:
        source[0] += contents()


def write_api() -> None:
    """docs/api.rst: the public names of the package, each with its docstring."""
    classes = sorted(name for name in jgroups_py.__all__ if isinstance(getattr(jgroups_py, name), type))
    lines = ["API", "===", "", "The public names of ``jgroups_py``, from their docstrings.", ""]
    for name in classes:
        directive = "autoexception" if issubclass(getattr(jgroups_py, name), BaseException) else "autoclass"
        lines += [name, "-" * len(name), "", f".. {directive}:: jgroups_py.{name}", "   :members:", ""]
    text = "\n".join(lines)
    path = HERE / "api.rst"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def keep(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Before napoleon: remember the docstring of a property. What stands before a colon there is no type."""
    if what in ("property", "attribute"):
        KEPT[name] = list(lines)


def restore(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """After napoleon."""
    if any(line.startswith(":type:") for line in lines) and name in KEPT:
        lines[:] = KEPT[name]


def write_entry(app: Sphinx, exception: Exception | None) -> None:
    """index.html leads to the first page."""
    if exception is None and app.builder.name == "html":
        (Path(app.outdir) / "index.html").write_text(
            '<!DOCTYPE html><meta charset="utf-8"><title>jgroups_py</title>'
            '<meta http-equiv="refresh" content="0; url=docs/index.html"><a href="docs/index.html">jgroups_py</a>\n',
            encoding="utf-8")


KEPT: dict[str, list[str]] = {}


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", links_of_pages)
    app.connect("autodoc-process-docstring", keep, priority=1)
    app.connect("autodoc-process-docstring", restore, priority=999)
    app.connect("build-finished", write_entry)


write_api()
