"""Bearer tokens, over both protocols."""

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from pydantic import ValidationError
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from build import each
from build.asgi import call
from tracegrade.access.settings import AccessSettings
from tracegrade.access.tokens import MadeTokens, new_token, revoke_token
from tracegrade.access.wrong_tokens import FAILURES
from tracegrade.config import TelemetrySettings
from tracegrade.model.errors import TraceGradeError
from tracegrade.receive.access import guarded
from tracegrade.receive.auth import BearerTokens
from tracegrade.receive.http_connection import CLIENT_SUBJECTS
from tracegrade.receive.settings import AuthSettings

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
WHERE = "receivers.otlp.protocols.grpc.auth"
Serve = Callable[..., Any]


def over_grpc(served: Any, wire: bytes, authorization: str | None, method: str = EXPORT) -> tuple[str, str]:
    """What became of one call: the code and its message."""
    metadata = [] if authorization is None else [("authorization", authorization)]
    with grpc.insecure_channel(served.grpc_address) as channel:
        try:
            channel.unary_unary(method)(wire, metadata=metadata)
        except grpc.RpcError as error:
            return error.code().name, error.details()
    return "OK", ""


def over_http(served: Any, wire: bytes, authorization: str | None) -> tuple[int, str, str | None]:
    """Status, message and ``WWW-Authenticate`` of one request."""
    headers = {"Content-Type": "application/x-protobuf"}
    if authorization is not None:
        headers["Authorization"] = authorization
    connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
    try:
        connection.request("POST", "/v1/traces", wire, headers)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace"), response.headers["www-authenticate"]
    finally:
        connection.close()


@each(
    ("authorization", "why"),
    [
        (None, "no header 'authorization'"),
        ("", "no header 'authorization'"),
        ("Basic c2VjcmV0OnNlY3JldA==", "another scheme than Bearer"),
        ("secret-of-sender-1", "another scheme than Bearer"),
        ("Bearer", "its token is not accepted"),
        ("Bearer secret-of-sender-3", "its token is not accepted"),
        ("Bearer secret-of-sender-1 secret-of-sender-2", "its token is not accepted"),
        ("Bearer secret-of-sender-1", None),
        ("bearer  secret-of-sender-2", None),
    ],
)
def test_30_who_sends_a_token_is_let_in_and_nobody_else(
    serve: Serve, wire: bytes, authorization: str | None, why: str | None
) -> None:
    auth = {"tokens": ["secret-of-sender-1", "secret-of-sender-2"]}
    served = serve(grpc={"auth": auth}, http={"auth": auth})
    code, told = over_grpc(served, wire, authorization)
    status, body, challenge = over_http(served, wire, authorization)
    if why is None:
        assert (code, status) == ("OK", 200)
        assert len(served.journal.entries) == 2
    else:
        assert (code, status, challenge) == ("UNAUTHENTICATED", 401, "Bearer")
        for message in (told, body):
            assert why in message
            assert "authorization: Bearer TOKEN" in message
            assert "secret" not in message
        assert served.journal.entries == []
        for transport in ("grpc", "http"):
            assert served.requests(transport=transport, outcome="refused", reason="unauthenticated") == 1


def test_a_refusal_in_json_is_a_status_in_json(serve: Serve) -> None:
    served = serve(http={"auth": {"tokens": ["secret-of-a-sender"]}})
    connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
    connection.request("POST", "/v1/traces", b"{}", {"Content-Type": "application/json"})
    response = connection.getresponse()
    assert response.status == 401
    assert orjson.loads(response.read())["code"] == 16
    connection.close()


def test_a_stranger_is_told_before_the_request_is_read(serve: Serve) -> None:
    served = serve(grpc={"auth": {"tokens": ["secret-of-a-sender"]}}, http={"auth": {"tokens": ["secret-of-a-sender"]}})

    told = threading.Event()

    def never() -> Iterator[bytes]:
        told.wait()
        yield b""

    with grpc.insecure_channel(served.grpc_address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.stream_unary(EXPORT)(never())
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        told.set()
    connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
    connection.putrequest("POST", "/v1/traces")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "9")
    connection.endheaders(b"{")
    assert connection.getresponse().status == 401
    connection.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are looked at for every request, not once a second-of-the-file."""
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)


def replace(path: Path, content: bytes) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(content)
    other.replace(path)


@pytest.mark.usefixtures("at_once")
def test_the_tokens_of_a_file_change_with_it(
    serve: Serve, wire: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    path.write_text("first-of-the-file\n\n  second-of-the-file  \n")
    served = serve(grpc={"auth": {"tokens": ["stated-in-settings"], "token_file": str(path)}})

    def let_in() -> set[str]:
        known = ["stated-in-settings", "first-of-the-file", "second-of-the-file", "third-of-the-file"]
        return {token for token in known if over_grpc(served, wire, f"Bearer {token}")[0] == "OK"}

    assert let_in() == {"stated-in-settings", "first-of-the-file", "second-of-the-file"}
    replace(path, b"second-of-the-file\nthird-of-the-file\n")
    assert let_in() == {"stated-in-settings", "second-of-the-file", "third-of-the-file"}
    for broken in (b"", b"two words\n", b"\xff\xfe"):
        replace(path, broken)
        assert let_in() == {"stated-in-settings", "second-of-the-file", "third-of-the-file"}
    path.unlink()
    assert let_in() == {"stated-in-settings", "second-of-the-file", "third-of-the-file"}
    assert [record.levelname for record in caplog.records] == ["ERROR"] * 4
    assert "the old one stays in force" in caplog.text
    assert "second-of-the-file" not in caplog.text
    replace(path, b"first-of-the-file\n")
    assert let_in() == {"stated-in-settings", "first-of-the-file"}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "cannot read '.*tokens': No such file"),
        (b"\n\n", "expected a token a line, found none"),
        (b"a-token-of-the-file\ntwo words and more\n", "line 2: expected a token of printable ASCII without"),
        (b"\xff\xfe\xff", "cannot read '.*tokens': it is no text"),
    ],
)
def test_a_token_file_that_cannot_be_used_stops_the_start(
    serve: Serve, tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_bytes(content)
    for protocol in ("grpc", "http"):
        with pytest.raises(TraceGradeError, match=rf"protocols\.{protocol}\.auth\.token_file: .*{why}"):
            serve(**{protocol: {"auth": {"token_file": str(path)}}})


def test_tokens_are_never_shown() -> None:
    auth = AuthSettings.model_validate({"tokens": ["secret-of-sender-1"]})
    assert "secret-of-sender-1" not in f"{auth!r} {auth.model_dump(mode='json')} {vars(BearerTokens(WHERE, auth))}"


@pytest.mark.usefixtures("at_once")
def test_a_made_token_sends_where_it_has_the_right(serve: Serve, wire: bytes, tmp_path: Path) -> None:
    made = MadeTokens(tmp_path / "tokens.json")
    served = serve(grpc={"auth": {}}, http={"auth": {}}, made=made)
    assert over_grpc(served, wire, "Bearer tgr_x")[0] == "UNAUTHENTICATED"
    _, sender = new_token(made.path, "agents", ["send"], None, None, time.time_ns())
    _, reader = new_token(made.path, "page", ["admin"], None, None, time.time_ns())
    assert over_grpc(served, wire, f"Bearer {sender}")[0] == "OK"
    assert over_http(served, wire, f"Bearer {sender}")[0] == 200
    code, message = over_grpc(served, wire, f"Bearer {reader}")
    assert code == "PERMISSION_DENIED"
    assert "the token 'page' has not the right 'send'" in message
    status, message, challenge = over_http(served, wire, f"Bearer {reader}")
    assert (status, challenge) == (403, None)
    assert "the token 'page' has not the right 'send'" in message
    assert served.requests(transport="http", outcome="refused", reason="no_right") == 1
    revoke_token(made.path, "agents", time.time_ns())
    assert over_grpc(served, wire, f"Bearer {sender}")[0] == "UNAUTHENTICATED"
    assert over_http(served, wire, f"Bearer {sender}")[0] == 401
    assert len(served.journal.entries) == 2


SHORT = "expected a token of at least 16 characters, which nobody can guess, found one of 4"


@each(
    ("tokens", "why"),
    [
        (["abcd"], SHORT),
        (
            ["a-token-of-a-sender", "another-of-a-sender", "a-token-of-a-sender"],
            "number 3 is the same token as number 1",
        ),
    ],
)
def test_tokens_that_can_be_guessed_or_stand_twice_are_refused(tokens: list[str], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        AuthSettings.model_validate({"tokens": tokens})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("abcd\n", f"line 1: {SHORT}"),
        ("a-token-of-the-file\na-token-of-the-file\n", r"line 2 is the same token as .*\.token_file line 1$"),
        ("stated-in-settings\n", r"line 1 is the same token as .*\.tokens\[0\]$"),
    ],
)
def test_the_same_holds_for_those_of_a_file(tmp_path: Path, content: str, why: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(content)
    auth = AuthSettings.model_validate({"tokens": ["stated-in-settings"], "token_file": str(path)})
    with pytest.raises(TraceGradeError, match=why) as caught:
        BearerTokens(WHERE, auth)
    assert "abcd" not in str(caught.value)


def test_a_made_token_in_the_settings_is_refused(tmp_path: Path) -> None:
    made_path = tmp_path / "tokens.json"
    _, secret = new_token(made_path, "agents", ["send"], "shop", None, time.time_ns())
    auth = AuthSettings.model_validate({"tokens": [secret]})
    with pytest.raises(TraceGradeError, match=r"grpc\.auth\.tokens\[0\]: this is the token 'agents' that") as caught:
        BearerTokens(WHERE, auth, MadeTokens(made_path))
    assert secret not in str(caught.value)


def test_wrong_tokens_are_slowed_by_address_and_a_right_one_never(serve: Serve, wire: bytes) -> None:
    auth = {"tokens": ["secret-of-a-sender"]}
    served = serve(grpc={"auth": auth}, http={"auth": auth})
    for _ in range(FAILURES):
        assert over_grpc(served, wire, "Bearer wrong")[0] == "UNAUTHENTICATED"
        assert over_http(served, wire, "Bearer wrong")[0] == 401
    code, message = over_grpc(served, wire, "Bearer wrong")
    assert (code, "too many wrong tokens came from 127.0.0.1" in message) == ("UNAVAILABLE", True)
    status, message, _ = over_http(served, wire, "Bearer wrong")
    assert (status, "too many wrong tokens came from 127.0.0.1" in message) == (429, True)
    assert over_grpc(served, wire, None)[0] == "UNAUTHENTICATED"
    assert over_grpc(served, wire, "Bearer secret-of-a-sender")[0] == "OK"
    assert over_http(served, wire, "Bearer secret-of-a-sender")[0] == 200
    assert served.requests(transport="grpc", outcome="refused", reason="too_many_failures") == 1


@pytest.mark.parametrize(("tenant", "status"), [(None, 200), ("acme", 403)])
def test_what_is_shown_of_all_tenants_is_not_for_a_token_of_one(
    tmp_path: Path, tenant: str | None, status: int
) -> None:
    path = tmp_path / "tokens.json"
    _, secret = new_token(path, "team", ["read"], tenant, None, 1)
    settings = TelemetrySettings.model_validate({"auth": {}})
    app = guarded(PlainTextResponse("metrics"), "telemetry", settings, MadeTokens(path))
    answer = call(app, "GET", "/metrics", authorization=f"Bearer {secret}")
    assert answer.status == status
    assert ("is of one" in answer.body.decode()) == (tenant is not None)


@each("settings", [{}, {"auth": {"tokens": ["0123456789abcdef"]}}])
def test_what_is_of_all_tenants_is_not_shown_to_who_is_sent_for_one(settings: dict[str, Any]) -> None:
    listen = TelemetrySettings.model_validate(settings)
    access = AccessSettings.model_validate(
        {"trusted_proxies": ["127.0.0.1"], "tenant_header": "x-tenant", "tenants_by_subject": {"shop.example": "shop"}}
    )
    app = guarded(PlainTextResponse("metrics"), "telemetry", listen, access=access)
    token = {"authorization": "Bearer 0123456789abcdef"}
    assert call(app, "GET", "/metrics", **token).status == 200
    answer = call(app, "GET", "/metrics", x_tenant="shop", **token)
    assert (answer.status, answer.body) == (
        403, b"telemetry: what is shown here is of all tenants, and the header 'x-tenant' names one\n"
    )  # fmt: skip

    async def shown(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, CLIENT_SUBJECTS: ("shop.example", "CN=shop.example")}, receive, send)

    answer = call(shown, "GET", "/metrics", **token)
    assert (answer.status, answer.body) == (
        403, b"telemetry: what is shown here is of all tenants, and the certificate 'shop.example' is of one\n"
    )  # fmt: skip


@pytest.mark.usefixtures("at_once")
def test_a_watch_of_health_ends_when_its_token_is_revoked(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.receive.otlp_grpc.LOOK_EVERY_S", 0.01)
    made = MadeTokens(tmp_path / "tokens.json")
    _, secret = new_token(made.path, "watcher", ["send"], None, None, time.time_ns())
    served = serve(grpc={"auth": {}}, made=made)
    with grpc.insecure_channel(served.grpc_address) as channel:
        states = channel.unary_stream("/grpc.health.v1.Health/Watch")(
            b"", metadata=[("authorization", f"Bearer {secret}")]
        )
        assert next(states) == b"\x08\x01"
        revoke_token(made.path, "watcher", time.time_ns())
        with pytest.raises(grpc.RpcError) as ended:
            next(states)
        assert ended.value.code() is grpc.StatusCode.UNAUTHENTICATED
