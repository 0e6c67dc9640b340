"""Pictures of every view, to look at, and those that the README shows.

    python tests/web/screenshots.py FOLDER      every view, 390 and 1280 pixels wide, light and dark
    python tests/web/screenshots.py --readme    those in tests/web/pictures

Needs playwright and Chromium, as tests/web/test_browser.py does.
"""

import argparse
import itertools
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from web.browser import browser
from web.shop import SECOND, WRONG_QUANTITY, crawl, fill, fire, order, traffic
from web.site import Site, serving

_TRACES = 3000
_FAILING, _LONG = 900_001, 900_002


def main() -> None:
    """Make the shop's traffic of a day, and take the pictures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--readme", action="store_true")
    options = parser.parse_args()
    if options.readme == (options.folder is not None):
        parser.error("expected a folder, or --readme")
    with tempfile.TemporaryDirectory() as data, serving(_filled(Path(data)), *_rules()) as site:
        if options.readme:
            _take(site, Path(__file__).with_name("pictures"), {name: _views()[name] for name in ("overview", "trace")})
        else:
            options.folder.mkdir(parents=True, exist_ok=True)
            for width, scheme in itertools.product((390, 1280), ("light", "dark")):
                _take(site, options.folder, _views(), width=width, scheme=scheme, suffix=f"-{width}-{scheme}")


def _rules() -> list[str]:
    return [str(Path(__file__).with_name("rules"))]


def _filled(folder: Path) -> Path:
    now_ns = time.time_ns()
    some = [
        (order(_FAILING, now_ns - 100 * SECOND, "1.5.0", WRONG_QUANTITY), None),
        (crawl(_LONG, now_ns - 90 * SECOND, 1000), None),
    ]
    rules = fill(folder, itertools.chain(traffic(_TRACES, now_ns - 60 * SECOND, 30.0), some))
    fire(folder, rules, now_ns, [f"a1{_FAILING:030x}"])
    return folder


def _views() -> dict[str, str]:
    return {
        "overview": "/",
        "empty": "/?agent=nobody",
        "traces": "/traces?outcome=fail",
        "trace": f"/traces/a1{_FAILING:030x}",
        "long": f"/traces/a1{_LONG:030x}",
        "sessions": "/sessions",
        "rules": "/rules",
        "rule": "/rules/order-steps-out-of-order",
        "alerts": "/alerts",
        "ingest": "/ingest",
        "error": "/nowhere",
    }


def _take(
    site: Site, folder: Path, views: dict[str, str], *, width: int = 1280, scheme: str = "light", suffix: str = ""
) -> None:
    folder.mkdir(exist_ok=True)
    with browser() as started:
        for name, address in views.items():
            page = started.new_page(viewport={"width": width, "height": 720}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(site.url + address)
            page.screenshot(path=folder / f"{name}{suffix}.png", full_page=bool(suffix))
            page.close()


if __name__ == "__main__":
    main()
