from pathlib import Path

from fastapi.routing import APIRoute

from tracegrade.suites.web import api, pages
from tracegrade.suites.web.api.app import ROUTERS
from tracegrade.suites.web.registry import WEB


def _files(package: Path, with_text: str) -> set[str]:
    return {path.stem for path in package.parent.glob("*.py") if with_text in path.read_text()}


def test_every_file_of_pages_and_of_operations_is_registered() -> None:
    shown = {show.__module__ for show in (*WEB.pages.values(), *(act for act, _ in WEB.actions.values()))}
    own = {module.rpartition(".")[2] for module in shown if module.startswith(pages.__name__)}
    assert own == _files(Path(str(pages.__file__)), "def ")
    routers = (*ROUTERS, *(router for _, _, router in WEB.routers))
    operations = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    assert {route.endpoint.__module__.rpartition(".")[2] for route in operations} == _files(
        Path(str(api.__file__)), "= Operations("
    )
