from pathlib import Path

from fastapi.routing import APIRoute

from tracegrade.compare.web import api, pages
from tracegrade.compare.web.backtesting import SINCE
from tracegrade.compare.web.registry import WEB


def test_every_file_of_pages_and_of_operations_is_registered() -> None:
    shown = {show.__module__ for show in (*WEB.pages.values(), *(act for act, _ in WEB.actions.values()))}
    assert shown == _modules(pages.__name__, str(pages.__file__))
    routes = [route for _, _, router in WEB.routers for route in router.routes if isinstance(route, APIRoute)]
    assert {route.endpoint.__module__ for route in routes} == _modules(api.__name__, str(api.__file__))


def test_the_form_of_a_backtest_asks_for_the_usual_time() -> None:
    assert WEB.templates is not None
    assert f'since="{SINCE}"' in (WEB.templates / "backtest_form.html").read_text()


def _modules(package: str, file: str) -> set[str]:
    return {f"{package}.{path.stem}" for path in Path(file).parent.glob("*.py") if path.stem != "__init__"}
