"""The site that the documentation is built to: without a warning, and whole without another host."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from build import each

ROOT = Path(__file__).parents[1]
# What a browser fetches by itself, in pages and in style sheets.
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?\b(?:src|href|data|srcset)=[\"']?(//|https?:)"
    r"|@import\s+(?:url\()?[\"']?(//|https?:)|url\([\"']?(//|https?:)"
)


@pytest.mark.long
def test_the_site_is_built_without_a_warning_and_asks_no_other_host(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(ROOT / "docs"), str(tmp_path)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = [*tmp_path.rglob("*.html"), *tmp_path.rglob("*.css")]
    assert {"index.html", "settings.html", "furo.css"} <= {page.name for page in pages}
    asking = [str(page) for page in pages if FETCHED.search(page.read_text(encoding="utf-8"))]
    assert not asking
    _check_twins(tmp_path)


def _check_twins(site: Path) -> None:
    """Each page is there as Markdown, is listed, and leads to nothing that is not there."""
    index = (site / "llms.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^- \[.+?\]\((\S+\.md)\): \S", index, re.M)
    assert sorted(listed) == sorted(str(path.relative_to(site).with_suffix(".md")) for path in _pages(site))
    for name in listed:
        text = (site / name).read_text(encoding="utf-8")
        assert text.startswith("# "), name
        assert "[[[cog" not in text, name
        linked = re.findall(r"\]\(([^)\s:#]+\.md)", re.sub(r"^ *```.*?^ *```", "", text, flags=re.S | re.M))
        assert not [link for link in linked if not ((site / name).parent / link).exists()], name


def _pages(site: Path) -> list[Path]:
    own = {"genindex.html", "search.html"}  # the theme's
    return [path for path in site.rglob("*.html") if path.name not in own and "_static" not in path.parts]


@each(
    "text",
    [
        '<script src="https://x/a.js">',
        '<link rel="stylesheet" href="//x/a.css">',
        "@import 'https://x/a.css'",
        "b {background: url(http://x/a.png)}",
    ],
)
def test_what_asks_another_host_is_seen(text: str) -> None:
    assert FETCHED.search(text)


@pytest.mark.parametrize("text", ['<a href="https://x">', '<script src="_static/a.js">', "url(a.png)"])
def test_links_that_people_follow_are_not_taken_for_it(text: str) -> None:
    assert not FETCHED.search(text)
