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


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _offer_files_of_the_repository)
