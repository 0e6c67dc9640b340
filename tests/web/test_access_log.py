"""What the access log says of requests."""

import re
import time
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from build import each
from build.asgi import call
from build.shop import GOOD, SECOND, fill, order
from build.site import Site
from build.without_parts import of_all_parts
from tracegrade.access.log import Access
from tracegrade.access.tokens import new_token
from tracegrade.config import Config
from tracegrade.web.app import build_app
from web.test_rights import every_route

TRACE = (0xA1 << 120 | 1).to_bytes(16, "big").hex()


class Place:
    def __init__(self, folder: Path) -> None:
        rules = fill(folder, iter([(order(1, time.time_ns() - 100 * SECOND, "1.5.0", GOOD), None)]))
        (folder / "journal").mkdir()
        config = Config.model_validate({"data_dir": str(folder), "web": {"auth": {}}})
        _, self.reader = new_token(folder / "tokens.json", "auditor", ["read"], "default", None, time.time_ns())
        _, self.admin = new_token(folder / "tokens.json", "operator", ["admin"], None, None, time.time_ns())
        self.noted: list[Access] = []
        site = Site(config.store_url, rules, config)
        site.note = self.noted.append
        self.app: ASGIApp = build_app(site.sources)

    def asks(self, method: str, address: str, token: str) -> Access | None:
        """What is noted of one request."""
        self.noted.clear()
        call(self.app, method, address, authorization=f"Bearer {token}")
        assert len(self.noted) <= 1
        return self.noted[0] if self.noted else None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("noted"))


def test_a_page_is_noted_with_whom_and_what(place: Place) -> None:
    noted = place.asks("GET", f"/traces/{TRACE}?rule=some&all=1", place.reader)
    assert noted is not None
    assert (noted.name, noted.tenant, noted.right, noted.status) == ("auditor", "default", "read", 200)
    assert noted.operation == "GET /traces/{trace_id}"
    assert noted.named == {"trace_id": TRACE, "rule": "some"}
    assert not noted.values
    with_values = place.asks("GET", f"/api/v1/traces/{TRACE}", place.admin)
    assert with_values is not None
    assert (with_values.operation, with_values.named) == ("GET /api/v1/traces/{trace_id}", {"trace_id": TRACE})
    assert with_values.values


def test_a_deletion_is_noted_with_its_right_and_a_user_by_a_hash(place: Place) -> None:
    noted = place.asks("DELETE", "/api/v1/users/alice@shop.example", place.admin)
    assert noted is not None
    assert (noted.name, noted.tenant, noted.right, noted.status) == ("operator", None, "admin", 202)
    assert noted.operation == "DELETE /api/v1/users/{user_id}"
    assert noted.named["user_id"].startswith("sha256:")
    assert b"alice" not in noted.line()


def test_what_was_refused_for_want_of_a_right_is_noted(place: Place) -> None:
    noted = place.asks("DELETE", f"/api/v1/traces/{TRACE}", place.reader)
    assert noted is not None
    assert (noted.name, noted.right, noted.status, noted.values) == ("auditor", "admin", 403, False)


def test_strangers_and_the_files_of_the_page_are_not_noted(place: Place) -> None:
    assert place.asks("GET", "/traces", "tgr_wrong") is None
    assert place.asks("GET", "/static/style.css", place.reader) is None


def test_no_secret_is_noted(place: Place) -> None:
    noted = place.asks("GET", f"/api/v1/results?token={place.admin}&rule=x", place.admin)
    assert noted is not None
    assert noted.status == 400
    assert place.admin.encode() not in noted.line()


@of_all_parts
def test_a_name_with_a_slash_is_noted_as_it_is(place: Place) -> None:
    noted = place.asks("GET", "/api/experiments/a%2Fb/timeline", place.admin)
    assert noted is not None
    assert noted.operation == "GET /api/experiments/{experiment_id}/timeline"
    assert noted.named == {"experiment_id": "a/b"}


LEFT_OUT = {"/live"}  # says only that something is new


@each(("path", "methods", "route"), every_route())
def test_every_page_and_operation_leaves_one_entry(place: Place, path: str, methods: set[str], route: object) -> None:
    named = path.replace(":path", "")
    values = {name: f"{number:032x}" for number, name in enumerate(re.findall(r"\{([a-z_]+)\}", named), 1)}
    for method in methods - {"HEAD"}:
        noted = place.asks(method, named.format(**values), place.admin)  # asserts that there is one at most
        if path in LEFT_OUT:
            assert noted is None
            continue
        assert noted is not None, (method, path)
        assert (noted.name, noted.operation) == ("operator", f"{method} {named}")
        assert noted.named.keys() == values.keys()
