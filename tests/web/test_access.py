import time
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from build import each
from build.asgi import Called, call
from build.site import serving
from tracegrade.access.tokens import MadeTokens, new_token, revoke_token, rotate_token
from tracegrade.access.wrong_tokens import FAILURES, FAILURES_WITHIN_S
from tracegrade.config import WebSettings
from tracegrade.web.access import SESSION_S, Access
from tracegrade.web.app import build_app
from tracegrade.web.problem import PREFIX

TOKEN = "secret-of-the-page"
API = "/api/v1/rules"
FORM = {"content_type": "application/x-www-form-urlencoded", "sec_fetch_site": "same-origin"}


class Clock:
    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


def guarded(clock: Clock | None = None, **settings: object) -> ASGIApp:
    given = {"auth": {"tokens": [TOKEN]}} | settings
    return Access(PlainTextResponse("let in"), WebSettings.model_validate(given), now_s=clock or Clock())


def sign_in(app: ASGIApp, token: str = TOKEN, wanted: str = "/traces?rule=x", **headers: str) -> Called:
    return call(app, "POST", "/login", f"token={token}&next={wanted}".encode(), **(FORM | headers))


def cookie_of(answer: Called) -> str:
    return answer.headers["set-cookie"].partition(";")[0]


def test_a_token_in_the_request_lets_in() -> None:
    app = guarded()
    assert call(app, "GET", API, authorization=f"Bearer {TOKEN}").body == b"let in"
    assert call(app, "DELETE", API, authorization=f"bearer {TOKEN}").body == b"let in"


@each("authorization", ["", "Bearer wrong", "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x"])
def test_the_api_without_one_is_a_problem_in_json(authorization: str) -> None:
    answer = call(guarded(), "GET", API, authorization=authorization)
    assert answer.status == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json["type"] == PREFIX + "unauthenticated"
    assert TOKEN not in answer.body.decode()


def test_a_browser_is_asked_to_sign_in_and_comes_back_to_where_it_was() -> None:
    app = guarded()
    sent_away = call(app, "GET", "/traces?rule=x&agent=y")
    assert sent_away.status == 303
    assert sent_away.headers["location"] == "/login?next=%2Ftraces%3Frule%3Dx%26agent%3Dy"
    form = call(app, "GET", sent_away.headers["location"])
    assert 'name="next" value="/traces?rule=x&amp;agent=y"' in form.body.decode()
    assert "<nav" not in form.body.decode()
    answer = sign_in(app, wanted="%2Ftraces%3Frule%3Dx")
    assert (answer.status, answer.headers["location"]) == (303, "/traces?rule=x")
    assert call(app, "GET", "/traces", cookie=cookie_of(answer)).body == b"let in"


def test_the_session_is_out_of_reach_of_scripts_and_other_sites() -> None:
    given = sign_in(guarded()).headers["set-cookie"].lower()
    assert given.startswith("tracegrade=")
    assert {"httponly", "samesite=lax", "path=/"} <= set(given.split("; "))
    assert TOKEN not in given
    tls = {"cert_file": "c", "key_file": "k"}
    secure = sign_in(guarded(tls=tls)).headers["set-cookie"].lower()
    assert secure.startswith("__host-tracegrade=")
    assert "secure" in secure.split("; ")
    assert "domain=" not in secure


def test_a_session_ends_after_its_time_and_at_sign_out() -> None:
    clock = Clock()
    app = guarded(clock)
    first, second = cookie_of(sign_in(app)), cookie_of(sign_in(app))
    assert first != second
    call(app, "POST", "/logout", cookie=first, sec_fetch_site="same-origin")
    assert call(app, "GET", "/", cookie=first).status == 303
    assert call(app, "GET", "/", cookie=second).body == b"let in"
    clock.s += SESSION_S
    assert call(app, "GET", "/", cookie=second).status == 303


@each("cookie", ["tracegrade", "tracegrade=", "a=\x01;[}=;;tracegrade=\xff", "=" * 9000])
def test_a_cookie_that_is_none_of_ours_is_no_session(cookie: str) -> None:
    assert call(guarded(), "GET", "/", cookie=cookie).status == 303


def test_a_session_ends_with_its_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)
    path = tmp_path / "tokens"
    path.write_text("first-of-the-page\nsecond-of-the-page\n")
    app = guarded(auth={"token_file": str(path)})
    session = cookie_of(sign_in(app, "second-of-the-page"))
    assert call(app, "GET", "/", cookie=session).body == b"let in"
    path.write_text("first-of-the-page\n")
    assert call(app, "GET", "/", cookie=session).status == 303


def test_a_session_ends_when_its_token_is_rotated_or_revoked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)
    path = tmp_path / "tokens.json"
    made = MadeTokens(path)
    app = Access(PlainTextResponse("let in"), WebSettings.model_validate({"auth": {}}), made)
    _, old = new_token(path, "page", ["read"], None, None, time.time_ns())
    session = cookie_of(sign_in(app, old))
    _, new = rotate_token(path, "page", 60.0, None, time.time_ns())
    assert call(app, "GET", "/", cookie=session).body == b"let in"
    assert call(app, "GET", "/", authorization=f"Bearer {new}").body == b"let in"
    rotate_token(path, "page", 60.0, None, time.time_ns())
    assert call(app, "GET", "/", cookie=session).status == 303
    session = cookie_of(sign_in(app, new))
    assert call(app, "GET", "/", cookie=session).body == b"let in"
    revoke_token(path, "page", time.time_ns())
    assert call(app, "GET", "/", cookie=session).status == 303


@each(
    "wanted", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", "/a%0d%0aSet-Cookie:%20x"]
)
def test_nobody_is_sent_elsewhere_after_signing_in(wanted: str) -> None:
    assert sign_in(guarded(), wanted=wanted).headers["location"] == "/"


@each(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "", "origin": "https://evil.example"},
        {"sec_fetch_site": "", "origin": "null"},
    ],
)
def test_no_other_site_can_have_a_browser_change_or_sign_in(headers: dict[str, str]) -> None:
    app = guarded()
    session = cookie_of(sign_in(app))
    assert sign_in(app, **headers).status == 403
    for method in ("POST", "DELETE"):
        answer = call(app, method, API, cookie=session, **headers)
        assert (answer.status, answer.json["type"]) == (403, PREFIX + "other-site")
    open_to_all = Access(PlainTextResponse("let in"), WebSettings())
    assert call(open_to_all, "DELETE", API, **headers).status == 403
    assert call(open_to_all, "DELETE", API).body == b"let in"  # no browser


def test_wrong_tokens_are_told_to_wait_and_the_right_one_is_let_in_whoever_shares_its_address() -> None:
    clock = Clock()
    app = guarded(clock)
    for _ in range(FAILURES // 2):
        assert call(app, "GET", API, authorization="Bearer wrong").status == 401
        assert sign_in(app, "wrong").status == 401
    held = call(app, "GET", API, authorization="Bearer wrong")
    assert (held.status, held.headers["retry-after"]) == (429, f"{FAILURES_WITHIN_S:.0f}")
    assert sign_in(app, "wrong").status == 429
    assert call(app, "GET", API, authorization="Bearer wrong", client="10.0.0.1").status == 401
    assert call(app, "GET", API, authorization=f"Bearer {TOKEN}").body == b"let in"
    assert sign_in(app).status == 303
    clock.s += FAILURES_WITHIN_S
    assert sign_in(app, "wrong").status == 401


def test_a_session_goes_on_while_its_address_guesses() -> None:
    app = guarded()
    session = cookie_of(sign_in(app))
    for _ in range(FAILURES + 1):
        call(app, "GET", API, authorization="Bearer wrong")
    assert call(app, "GET", API, cookie=session).body == b"let in"


@each(
    ("host", "status"),
    [
        ("127.0.0.1:4319", 200),
        ("localhost", 200),
        ("page.localhost:4319", 200),
        ("[::1]:4319", 200),
        ("evil.example:4319", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example", 421),
        ("10.0.0.1", 421),
        ("", 421),
    ],
)
def test_without_tokens_only_this_machine_is_answered_by_its_own_name(host: str, status: int) -> None:
    app = Access(PlainTextResponse("let in"), WebSettings())
    assert call(app, "GET", "/", host=host).status == status
    assert call(guarded(), "GET", "/", host=host, authorization=f"Bearer {TOKEN}").status == 200


def test_a_form_that_is_too_long_or_broken_is_not_read() -> None:
    app = guarded()
    for body in (b"token=" + TOKEN.encode() + b"&x=" + b"a" * 10_000, b"\xff\xfe", b""):
        assert call(app, "POST", "/login", body, **FORM).status == 401


def test_every_answer_has_the_headers_that_keep_a_page_safe(tmp_path: Path) -> None:
    with serving(tmp_path) as site:
        settings = WebSettings.model_validate({"auth": {"tokens": [TOKEN]}})
        site.config = site.config.model_copy(update={"web": settings})
        app = build_app(site.sources)
    for method, path in (
        ("GET", "/login"),
        ("GET", API),
        ("GET", "/"),
        ("POST", "/login"),
        ("GET", "/static/style.css"),
    ):
        headers = call(app, method, path).headers
        assert headers["content-security-policy"].startswith("default-src 'none';")
        assert headers["x-content-type-options"] == "nosniff"
        assert ("no-store" in headers["cache-control"]) == (not path.startswith("/static/"))
