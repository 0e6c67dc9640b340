"""Users whom a proxy signed in: believed from trusted proxies alone, with the roles of their groups."""

from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from build import each
from build.asgi import call
from tracegrade.access.settings import AccessSettings
from tracegrade.config import WebSettings, load_config
from tracegrade.document.problem import FileError
from tracegrade.receive.http_connection import CLIENT_SUBJECTS
from tracegrade.web.access import Access
from tracegrade.web.problem import PREFIX
from tracegrade.web.rights import caller_in

TOKEN = "secret-of-the-page"
SETTINGS: dict[str, Any] = {
    "trusted_proxies": ["10.0.0.0/24"],
    "user_header": "x-forwarded-email",
    "groups_header": "x-forwarded-groups",
    "roles_by_group": {"sre": ["admin"], "dev": ["run"]},
    "user_roles": ["read"],
    "tenant_header": "x-tenant",
}
API = "/api/v1/rules"


async def who(scope: Scope, receive: Receive, send: Send) -> None:
    caller = caller_in(scope)
    found = caller and {"name": caller.name, "rights": sorted(caller.rights), "tenant": caller.tenant}
    await JSONResponse(found)(scope, receive, send)


@pytest.fixture
def app() -> ASGIApp:
    access = AccessSettings.model_validate(SETTINGS)
    return Access(who, WebSettings.model_validate({"auth": {"tokens": [TOKEN]}}), access=access)


def test_who_shows_a_certificate_is_known_by_it_and_has_its_tenant() -> None:
    access = AccessSettings.model_validate({"tenants_by_subject": {"agents.shop.example": "shop"}})
    guarded = Access(who, WebSettings(), access=access)

    def asked(*subjects: str) -> Any:
        async def shown(scope: Scope, receive: Receive, send: Send) -> None:
            await guarded({**scope, CLIENT_SUBJECTS: subjects}, receive, send)

        found = call(shown, "GET", API).json
        return found["name"], found["tenant"]

    assert asked("agents.shop.example", "CN=agents.shop.example") == ("certificate: CN=agents.shop.example", "shop")
    assert asked("other.example", "CN=other.example") == ("certificate: CN=other.example", None)


@each(
    ("groups", "rights"),
    [
        ("", ["read"]),
        ("others", ["read"]),
        ("others,dev", ["read", "run"]),
        ("dev, sre", ["admin", "read", "read-values", "review", "run"]),
    ],
)
def test_a_user_has_the_roles_of_all_users_and_of_its_groups(app: ASGIApp, groups: str, rights: list[str]) -> None:
    said = {"x_forwarded_email": "ann@shop.example", "x_forwarded_groups": groups}
    found = call(app, "GET", API, client="10.0.0.7", **said).json
    assert found == {"name": "user: ann@shop.example", "rights": rights, "tenant": None}


def test_the_proxy_may_name_the_tenant_too(app: ASGIApp) -> None:
    found = call(app, "GET", API, client="10.0.0.7", x_forwarded_email="ann@shop.example", x_tenant="shop").json
    assert found["tenant"] == "shop"


def test_whoever_comes_through_the_proxy_sees_the_tenant_that_it_names_alone(app: ASGIApp) -> None:
    found = call(app, "GET", API, client="10.0.0.7", authorization=f"Bearer {TOKEN}", x_tenant="shop").json
    assert (found["name"], found["tenant"]) == ("web.auth.tokens[0]", "shop")


@pytest.mark.parametrize("auth", [None, {"tokens": [TOKEN]}])
def test_the_tenant_of_the_proxy_holds_where_it_signs_nobody_in(auth: Any) -> None:
    """As in front of receivers: the header is believed from the proxy, and refused from elsewhere."""
    access = AccessSettings.model_validate({"trusted_proxies": ["10.0.0.7"], "tenant_header": "x-tenant"})
    guarded = Access(who, WebSettings.model_validate({"auth": auth}), access=access)
    token = {"authorization": f"Bearer {TOKEN}"}
    assert call(guarded, "GET", API, client="10.0.0.7", x_tenant="shop", **token).json["tenant"] == "shop"
    assert call(guarded, "GET", API, client="10.0.0.7", **token).json["tenant"] is None
    answer = call(guarded, "GET", API, client="10.0.1.7", x_tenant="shop", **token)
    assert (answer.status, answer.json["type"]) == (403, PREFIX + "untrusted-header")


@each("user", ["", "ann@shop.example"])
@each("tenant", ["", "a b", "(null)"])
def test_a_tenant_that_cannot_be_is_refused_and_does_not_stand_for_all(app: ASGIApp, user: str, tenant: str) -> None:
    async def naming(scope: Scope, receive: Receive, send: Send) -> None:  # `call` sends no empty header
        await app({**scope, "headers": [*scope["headers"], (b"x-tenant", tenant.encode())]}, receive, send)

    said = {"x_forwarded_email": user} if user else {"authorization": f"Bearer {TOKEN}"}
    answer = call(naming, "GET", API, client="10.0.0.7", **said)
    assert answer.status == 403
    assert "expected a tenant of 1 to 64 letters" in answer.json["detail"]


def test_another_tenant_than_that_of_the_caller_is_refused() -> None:
    settings = {"trusted_proxies": ["10.0.0.7"], "tenant_header": "x-tenant", "tenants_by_subject": {"a.example": "a"}}
    guarded = Access(who, WebSettings(), access=AccessSettings.model_validate(settings))

    async def shown(scope: Scope, receive: Receive, send: Send) -> None:
        await guarded({**scope, CLIENT_SUBJECTS: ("a.example",)}, receive, send)

    assert call(shown, "GET", API, client="10.0.0.7", x_tenant="a").json["tenant"] == "a"
    answer = call(shown, "GET", API, client="10.0.0.7", x_tenant="b")
    assert answer.status == 403
    assert "names another tenant than the caller's token or certificate" in answer.json["detail"]


def test_a_browser_behind_the_proxy_is_not_asked_to_sign_in(app: ASGIApp) -> None:
    assert call(app, "GET", "/traces", client="10.0.0.7", x_forwarded_email="ann@shop.example").status == 200


@each("header", ["x_forwarded_email", "x_forwarded_groups", "x_tenant"])
@each("authorization", ["", f"Bearer {TOKEN}"])
def test_from_elsewhere_the_header_is_refused_and_not_ignored(app: ASGIApp, header: str, authorization: str) -> None:
    for address in (API, "/traces"):
        answer = call(app, "GET", address, client="10.0.1.7", authorization=authorization, **{header: "sre"})
        assert answer.status == 403
        assert b"is believed from access.trusted_proxies alone, and 10.0.1.7 is none of them" in answer.body.replace(
            b"&#39;", b"'"
        )
    assert call(app, "GET", API, client="10.0.1.7", **{header: "sre"}).json["type"] == PREFIX + "untrusted-header"


@pytest.mark.parametrize("header", ["x-forwarded-email", "x-forwarded-groups", "x-tenant"])
def test_a_header_that_comes_twice_is_refused(app: ASGIApp, header: str) -> None:
    """A proxy that adds its own to what a browser sent: neither is known to be the proxy's."""

    async def adding(scope: Scope, receive: Receive, send: Send) -> None:
        added = [(header.encode(), b"globex"), (header.encode(), b"sre")]
        await app({**scope, "headers": [*scope["headers"], *added]}, receive, send)

    user = {} if header == "x-forwarded-email" else {"x_forwarded_email": "ann@shop.example"}
    answer = call(adding, "GET", API, client="10.0.0.7", **user)
    assert answer.status == 403
    assert f"the header '{header}' came more than once" in answer.json["detail"]


def test_without_the_header_a_token_is_needed_also_from_the_proxy(app: ASGIApp) -> None:
    assert call(app, "GET", API, client="10.0.0.7").status == 401
    assert (
        call(app, "GET", API, client="10.0.0.7", authorization=f"Bearer {TOKEN}").json["name"] == "web.auth.tokens[0]"
    )


@pytest.mark.parametrize("user", ["a" * 101, "caf\xe9\x85"])
def test_a_name_that_cannot_be_shown_is_refused(app: ASGIApp, user: str) -> None:
    answer = call(app, "GET", API, client="10.0.0.7", x_forwarded_email=user)
    assert answer.status == 403
    assert b"expected a name of 1 to 100 printable characters" in answer.body


@each(
    ("access", "why"),
    [
        ("{user_header: x-user, user_roles: [read]}", "is believed from trusted_proxies alone, and there are none"),
        ("{user_header: x-user, trusted_proxies: [10.0.0.1]}", "may do nothing; set access.user_roles or roles_by"),
        (
            "{user_header: x-user, trusted_proxies: [10.0.0.1], roles_by_group: {sre: [admin]}}",
            "roles_by_group needs access.groups_header",
        ),
        ("{user_roles: [read]}", "user_roles is about users whom a proxy signed in; set access.user_header"),
        (
            "{user_header: x-user, trusted_proxies: [10.0.0.1], user_roles: [read]}",
            "access.user_header needs web.auth, so that requests that bypass the proxy must present a token",
        ),
        (
            "{user_header: authorization, trusted_proxies: [10.0.0.1], user_roles: [read]}",
            "expected the name of a header",
        ),
    ],
)
def test_settings_that_let_in_nobody_or_everybody_are_refused(tmp_path: Path, access: str, why: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"access: {access}\n")
    with pytest.raises(FileError, match=why):
        load_config(path)
