from pathlib import Path

from fastapi.routing import APIRoute

from build import store_with
from build.site import serving
from tracegrade.web import pages
from tracegrade.web.api import registry as api_registry
from tracegrade.web.pages import registry
from tracegrade.web.pages.registry import ACTIONS, PAGES
from tracegrade.web.render import SECTIONS


def test_every_file_of_pages_and_of_operations_is_registered() -> None:
    files = {path.stem for path in Path(str(pages.__file__)).parent.glob("*.py")} - {"__init__", "registry"}
    functions = [*PAGES.values(), *(act for act, _ in ACTIONS.values())]
    modules = {function.__module__ for function in functions}
    assert {name.rpartition(".")[2] for name in modules if name.startswith(pages.__name__)} == files
    assert {section.address for section in SECTIONS} <= set(registry.pages())
    files = {
        path.stem for path in Path(api_registry.__file__).parent.glob("*.py") if "= Operations(" in path.read_text()
    }
    routers = api_registry.ROUTERS.values()
    operations = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    modules = {route.endpoint.__module__ for route in operations}
    assert {name.rpartition(".")[2] for name in modules if name.startswith(api_registry.__package__)} == files


def test_rules_without_results_are_listed(tmp_path: Path) -> None:
    store_with(tmp_path)
    with serving(tmp_path, "builtin:demo") as site:
        answer = site.get("/")
    assert answer.status == 200
    assert "order-not-confirmed" in answer.text


def test_without_a_store_it_says_so(tmp_path: Path) -> None:
    with serving(tmp_path) as site:
        answer = site.get("/")
    assert answer.status == 503
    assert "no such store" in answer.text


def test_an_unknown_address_is_not_found(tmp_path: Path) -> None:
    with serving(tmp_path) as site:
        answer = site.get("/nowhere")
    assert answer.status == 404
    assert "Not found" in answer.text


def test_every_answer_forbids_what_is_not_served_here(tmp_path: Path) -> None:
    with serving(tmp_path) as site:
        for path in ("/", "/nowhere", "/static/style.css"):
            headers = site.get(path).headers
            assert headers["Content-Security-Policy"].startswith("default-src 'none';")
            assert "unsafe" not in headers["Content-Security-Policy"]
            assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_crash_is_a_page_of_its_own_with_the_same_headers(tmp_path: Path) -> None:
    store_with(tmp_path)
    with serving(tmp_path) as site:
        del site.rules
        answer = site.get("/")
    assert answer.status == 500
    assert "cannot be shown" in answer.text
    assert "Content-Security-Policy" in answer.headers
