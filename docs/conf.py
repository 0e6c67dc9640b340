"""The site: `poe site` builds it from the Markdown pages. What is built asks no other host for anything."""

import re
from importlib.metadata import version as installed
from pathlib import Path

from sphinx.application import Sphinx

project = "TraceGrade"
copyright = "The TraceGrade developers, Apache License 2.0"
version = release = installed("tracegrade")

extensions = ["myst_parser"]
exclude_patterns = ["generator"]
nitpicky = True
# Headings can be linked to as GitHub names them: page.md#a-heading.
myst_heading_anchors = 4

html_theme = "furo"
html_title = "TraceGrade"
html_show_sourcelink = False
html_copy_source = False


def _offer_files_of_the_repository(app: Sphinx, docname: str, source: list[str]) -> None:
    """Make a link to a Markdown file outside docs/ a download: MyST takes every .md for a page of the site."""
    folder = (Path(app.srcdir) / docname).parent

    def link(found: re.Match[str]) -> str:
        file = (folder / found[1]).resolve()
        return f"](path:{found[1]})" if not file.is_relative_to(app.srcdir) and file.is_file() else found[0]

    source[0] = re.sub(r"\]\(([^)\s:#]+\.md)\)", link, source[0])


_LINK = re.compile(r"\[([^\]\n]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")
_SECTIONS = {"": "Start", "guides": "Guides", "reference": "Reference", "extend": "Extend", "internals": "Internals"}


def _write_twins(app: Sphinx, error: Exception | None) -> None:
    """Write each page as Markdown beside its HTML, and ``llms.txt``, which lists them: for programs that read text."""
    if error is not None or app.builder.format != "html":
        return
    listed: dict[str, list[str]] = {folder: [] for folder in _SECTIONS}
    for docname in sorted(app.env.found_docs):
        text = _twin(app, docname)
        path = Path(app.outdir) / f"{docname}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        line = f"- [{app.env.titles[docname].astext()}]({docname}.md): {_first_sentence(text)}"
        listed[docname.partition("/")[0] if "/" in docname else ""].append(line)
    sections = [f"## {title}\n\n" + "\n".join(listed[folder]) for folder, title in _SECTIONS.items()]
    head = f"# {project}\n\n> {_first_sentence(_twin(app, 'index'))}"
    (Path(app.outdir) / "llms.txt").write_text("\n\n".join([head, *sections]) + "\n", encoding="utf-8")


def _twin(app: Sphinx, docname: str) -> str:
    """A page's Markdown, without comments for tools; what it links to outside docs/ is named, not linked."""
    source = Path(app.env.doc2path(docname))
    text = re.sub(r"<!--.*?-->\n*|^```{toctree}.*?^```\n*", "", source.read_text(encoding="utf-8"), flags=re.S | re.M)

    def link(found: re.Match[str]) -> str:
        file = (source.parent / found[2]).resolve()
        if file.is_relative_to(app.srcdir):
            return found[0]
        name = str(file.relative_to(app.srcdir.parent))
        return f"`{name}`" if found[1].strip("`") in name else f"{found[1]} (`{name}`)"

    return _LINK.sub(link, text)


def _first_sentence(text: str) -> str:
    """The beginning of a page's first paragraph, on one line, without links."""
    paragraphs = re.sub(r"^```.*?^```$", "", text, flags=re.S | re.M).split("\n\n")
    prose = next((one for one in paragraphs if re.match(r"[\w*`\[]", one)), "")
    plain = _LINK.sub(r"\1", " ".join(prose.split()))
    return re.split(r"(?<=[.?!])\s", plain, maxsplit=1)[0].rstrip(":")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _offer_files_of_the_repository)
    app.connect("build-finished", _write_twins)
