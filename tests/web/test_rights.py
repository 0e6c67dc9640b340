"""Every page and operation says which right it needs, and refuses callers who lack it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp

from build import each
from build.asgi import Called, call
from build.site import Site
from tracegrade.access.caller import KNOWN, UNKNOWN, Caller
from tracegrade.access.rights import RIGHTS, Right
from tracegrade.config import Config
from tracegrade.rule.rule_set import RuleSet
from tracegrade.web import rights
from tracegrade.web.api.app import Api
from tracegrade.web.api.parameters import NeededRight
from tracegrade.web.app import build_app, routes
from tracegrade.web.part import web_parts
from tracegrade.web.problem import PREFIX
from tracegrade.web.rights import Needs

API = Api()
APIS: list[FastAPI] = [API, *(make() for part in web_parts() for make in part.apis)]
OPEN_TO_OTHERS = {"endpoint": "0.0.0.0:4319", "insecure": True}
WRITES = {"POST", "PUT", "PATCH", "DELETE"}


def rights_of(route: BaseRoute) -> set[Right]:
    """The rights that a page or operation says it needs."""
    if isinstance(route, APIRoute):
        calls = (dependency.call for dependency in route.dependant.dependencies)
        return {call.right for call in calls if isinstance(call, NeededRight)}
    assert isinstance(route, Route)
    return {route.app.right} if isinstance(route.app, Needs) else set()


def every_route() -> list[Any]:
    found = [("", route) for route in routes(APIS) if isinstance(route, Route)]
    for api in APIS:
        found += [(api.state.prefix, route) for route in api.routes if isinstance(route, Route)]
        routers = api.state.routers
        found += [(api.state.prefix, route) for own in routers for route in own.routes if isinstance(route, APIRoute)]
    return [
        pytest.param(
            prefix + route.path, set(route.methods or ()), route, id=f"{min(route.methods or ())} {prefix}{route.path}"
        )
        for prefix, route in found
    ]


def app_for(folder: Path, **web: object) -> ASGIApp:
    config = Config.model_validate({"data_dir": str(folder), "web": web})
    return build_app(Site(config.store_url, RuleSet([]), config).sources)


def test_every_operation_of_the_documents_is_asked() -> None:
    asked = {
        (method.lower(), path.replace(":path", ""))
        for path, _, route in (param.values for param in every_route())
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    named = {
        (method, api.state.prefix + path.replace(":path", ""))
        for api in APIS
        for path, found in api.openapi()["paths"].items()
        for method in found
    }
    assert asked == named


def test_nothing_but_static_files_is_mounted_beside_the_routes() -> None:
    assert [route.path for route in routes(APIS) if isinstance(route, Mount)] == [
        "/static",
        *(api.state.prefix for api in APIS),
    ]


@each(("path", "methods", "route"), every_route())
def test_every_route_says_which_right_it_needs(path: str, methods: set[str], route: BaseRoute) -> None:
    needed = rights_of(route)
    assert needed, path
    if methods & WRITES:
        assert needed & {"run", "review", "admin"}, path
    else:
        assert "read" in needed, path
        assert needed <= {"read", "read-values"}, path


@each("right", RIGHTS)
def test_who_is_known_has_every_right_and_others_may_look(right: Right) -> None:
    assert KNOWN.may(right)
    assert UNKNOWN.may(right) is (right in ("read", "read-values"))
    assert not Caller(frozenset()).may(right)


def test_callers_without_a_right_get_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "UNKNOWN", Caller(frozenset()))
    answers = answers_to_other_machines(tmp_path, lambda methods: methods - {"HEAD"})
    assert {asked for asked, answer in answers.items() if answer.status != 403} == set()
    of_apis = {asked: answer.json["type"] for asked, answer in answers.items() if "/api/" in asked}
    assert {asked for asked, type_ in of_apis.items() if type_ != PREFIX + "read-only"} == set()


def test_other_machines_change_nothing_without_authentication(tmp_path: Path) -> None:
    answers = answers_to_other_machines(tmp_path, lambda methods: methods & WRITES)
    assert answers
    assert {asked for asked, answer in answers.items() if answer.status != 403} == set()
    assert {asked for asked, answer in answers.items() if b"web.auth" not in answer.body} == set()


def answers_to_other_machines(folder: Path, chosen: Callable[[set[str]], set[str]]) -> dict[str, Called]:
    """What every page and operation answers to the chosen ones of its methods."""
    app = app_for(folder, **OPEN_TO_OTHERS)
    asked = (
        (path, method) for path, methods, _ in (param.values for param in every_route()) for method in chosen(methods)
    )
    return {f"{method} {path}": call(app, method, path.replace("{trace_id}", "ab" * 16)) for path, method in asked}


def test_this_machine_and_known_callers_may_delete(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    address = f"/api/v1/traces/{'ab' * 16}"
    assert call(app_for(tmp_path, endpoint="127.0.0.1:4319"), "DELETE", address).status == 202
    app = app_for(tmp_path, **OPEN_TO_OTHERS, auth={"tokens": ["a-token-of-the-page"]})
    assert call(app, "DELETE", address, authorization="Bearer a-token-of-the-page").status == 202
    assert call(app, "DELETE", address).status == 401
