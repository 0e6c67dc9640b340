from pathlib import Path

from tracegrade.compare.web import pages
from tracegrade.compare.web.backtesting import SINCE
from tracegrade.compare.web.registry import WEB


def test_every_file_of_pages_is_registered() -> None:
    shown = {show.__module__ for show in (*WEB.pages.values(), *(act for act, _ in WEB.actions.values()))}
    assert shown == _modules(pages.__name__, str(pages.__file__))


def test_the_form_of_a_backtest_asks_for_the_usual_time() -> None:
    assert WEB.templates is not None
    assert f'since="{SINCE}"' in (WEB.templates / "backtest_form.html").read_text()


def _modules(package: str, file: str) -> set[str]:
    return {f"{package}.{path.stem}" for path in Path(file).parent.glob("*.py") if path.stem != "__init__"}
