import gc
import time
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from sqlalchemy import Engine
from starlette.datastructures import State

from build import store_with
from build.shop import (
    GOOD,
    REFUNDED,
    SECOND,
    WRONG_ORDER,
    WRONG_QUANTITY,
    crawl,
    fill,
    order,
    refund,
    search,
    without_root,
)
from build.site import Site, serving
from tracegrade.model.errors import TraceGradeError
from tracegrade.store.open import open_store
from tracegrade.web import app as web_app
from tracegrade.web.own_process import OwnProcess
from tracegrade.web.part import web_parts

FAILING, PASSING, ENDLESS, HEADLESS, HANDED_OVER, ASKED, ALTERED = 1, 2, 3, 4, 5, 6, 7


@pytest.fixture(autouse=True, scope="session")
def operations_made_once() -> Iterator[None]:
    """All apps share the operations of both APIs, which FastAPI makes when an app is first asked for them."""

    def shared(make: Callable[[], FastAPI]) -> Callable[[], FastAPI]:
        made = cache(make)

        def app_of_its_own() -> FastAPI:
            app = copy(made())
            app.state = State(dict(made().state._state))
            return app

        return app_of_its_own

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(web_app, "Api", shared(web_app.Api))
        of_parts = [replace(part, apis=[shared(api) for api in part.apis]) for part in web_parts()]
        patched.setattr(web_app, "web_parts", lambda: of_parts)
        yield


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """An empty store."""
    found = open_store(store_with(tmp_path))
    yield found
    found.dispose()


@pytest.fixture
def work_done_here() -> Iterator[None]:
    """What pages do in a process of its own is done in this one, for tests that ask how it is answered, not where."""

    def call(process: OwnProcess, work: Callable[..., Any], arguments: tuple[Any, ...], is_stopping: object) -> Any:
        try:
            return work(*arguments)
        except TraceGradeError as error:
            raise process._error(str(error)) from None
        finally:
            gc.enable()  # what ends with its process may leave this off

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(OwnProcess, "_call", call)
        yield


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A page over a few traces of the last minutes, one of each kind."""
    folder: Path = tmp_path_factory.mktemp("shop")
    now_ns = time.time_ns()
    some = [
        (order(FAILING, now_ns - 400 * SECOND, "1.5.0", WRONG_ORDER, "talk"), "talk"),
        (order(PASSING, now_ns - 390 * SECOND, "1.4.2", GOOD, "talk"), "talk"),
        (crawl(ENDLESS, now_ns - 380 * SECOND, 40), None),
        (without_root(HEADLESS, now_ns - 300 * SECOND), None),
        (refund(HANDED_OVER, now_ns - 200 * SECOND, REFUNDED), None),
        (search(ASKED, now_ns - 100 * SECOND, "London", "Paris"), None),
        (order(ALTERED, now_ns - 90 * SECOND, "1.5.0", WRONG_QUANTITY), None),
    ]
    rules = fill(folder, iter(some))
    with serving(folder) as site:
        site.rules = rules
        yield site
