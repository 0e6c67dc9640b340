"""The handshake of a WebSocket passes the same checks as every request, and is always held to its origin."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from build import each
from build.websockets import Refused, opened
from tracegrade.access.wrong_tokens import FAILURES, FAILURES_WITHIN_S
from tracegrade.config import WebSettings
from tracegrade.receive.access import guarded
from tracegrade.receive.http_connection import Bounds
from tracegrade.receive.http_server import HttpServer
from tracegrade.receive.settings import ListenSettings
from tracegrade.receive.websocket_connection import BoundedWebSocket
from tracegrade.web.access import Access
from tracegrade.web.problem import PREFIX
from tracegrade.web.rights import is_still_let_in, token_of
from tracegrade.web.security import SecurityHeaders
from waiting import WITHIN_S, eventually

TOKEN = "secret-of-the-page"
OTHER = "another-token-of-it"
BEARER = {"authorization": f"Bearer {TOKEN}"}


async def say_who(scope: Scope, receive: Receive, send: Send) -> None:
    """Accepts, and says whether the caller is still let in, each time that it is asked."""
    websocket = WebSocket(scope, receive, send)
    await websocket.accept()
    async for _ in websocket.iter_text():
        await websocket.send_json({"owner": token_of(websocket).owner, "let_in": is_still_let_in(websocket)})


async def talk_on(scope: Scope, receive: Receive, send: Send) -> None:
    """Writes for as long as the client reads."""
    websocket = WebSocket(scope, receive, send)
    await websocket.accept()
    while True:
        await asyncio.sleep(0)
        await websocket.send_text('"' + "x" * 65536 + '"')


@contextmanager
def served(app: object, bounds: Bounds | None = None) -> Iterator[str]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = HttpServer(app, bounds, stop_within_s=1, websockets=True)  # type: ignore[arg-type]
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def guard(**settings: object) -> Access:
    return Access(say_who, WebSettings.model_validate({"auth": {"tokens": [TOKEN]}} | settings))


def refused(url: str, **headers: str) -> Refused:
    with pytest.raises(Refused) as error, opened(url, **headers):
        pass
    return error.value


def posted(address: str, path: str, form: str, cookie: str = "") -> HTTPResponse:
    connection = HTTPConnection(address.removeprefix("http://"), timeout=WITHIN_S)
    connection.request("POST", path, form, {"Sec-Fetch-Site": "same-origin", "Cookie": cookie, "Connection": "close"})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer


def sign_in(address: str) -> str:
    """The cookie of a new session."""
    return str(posted(address, "/login", f"token={TOKEN}").getheader("set-cookie")).partition(";")[0]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(SecurityHeaders(guard())) as address:
        yield address


@pytest.fixture(scope="module")
def open_to_this_machine() -> Iterator[str]:
    with served(Access(say_who, WebSettings())) as address:
        yield address


def test_a_token_lets_in(url: str) -> None:
    with opened(url, **BEARER) as client:
        client.say("who")
        found = client.read()
    assert found["let_in"]
    assert found["owner"]
    assert TOKEN not in found["owner"]


@each("authorization", ["", "Bearer wrong", "Bearer", f"Basic {TOKEN}"])
def test_without_one_it_is_refused_with_a_problem(url: str, authorization: str) -> None:
    found = refused(url, **({"authorization": authorization} if authorization else {}))
    assert (found.status, found.json["type"]) == (401, PREFIX + "unauthenticated")
    assert found.headers["www-authenticate"] == "Bearer"
    assert found.headers["cache-control"] == "no-store"


def test_a_token_in_the_address_is_none(url: str) -> None:
    with pytest.raises(Refused, match="401"), opened(url, f"/ws?token={TOKEN}&authorization=Bearer%20{TOKEN}"):
        pass


@each(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": "http://127.0.0.1:1"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "same-origin", "origin": "https://evil.example"},
    ],
)
def test_a_page_of_another_site_opens_none_even_with_our_token(
    url: str, open_to_this_machine: str, headers: dict[str, str]
) -> None:
    for address, shown in ((url, BEARER), (open_to_this_machine, {})):
        found = refused(address, **headers, **shown)
        assert (found.status, found.json["type"]) == (403, PREFIX + "other-site")


def test_our_own_page_opens_one(url: str, open_to_this_machine: str) -> None:
    for address, shown in ((url, BEARER), (open_to_this_machine, {})):
        with opened(address, origin=address, sec_fetch_site="same-origin", **shown) as client:
            client.say("who")
            assert client.read()["let_in"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", "10.0.0.1"])
def test_without_tokens_only_this_machine_by_its_own_name(open_to_this_machine: str, host: str) -> None:
    found = refused(open_to_this_machine, host=host)
    assert (found.status, found.json["type"]) == (421, PREFIX + "wrong-host")


def test_a_session_lets_in_until_it_ends() -> None:
    with served(guard()) as address:
        cookie = sign_in(address)
        with opened(address, cookie=cookie, origin=address) as client:
            client.say("who")
            assert client.read()["let_in"]
            posted(address, "/logout", "", cookie)
            client.say("who")
            assert not client.read()["let_in"]
        assert refused(address, cookie=cookie, origin=address).status == 401


def test_a_token_that_is_taken_back_is_not_valid_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)
    path = tmp_path / "tokens"
    path.write_text(f"{TOKEN}\n{OTHER}\n")
    with served(guard(auth={"token_file": str(path)})) as address, opened(address, **BEARER) as client:
        client.say("who")
        assert client.read()["let_in"]
        path.write_text(f"{OTHER}\n")
        client.say("who")
        assert not client.read()["let_in"]


def test_after_too_many_wrong_tokens_it_must_wait_and_the_right_one_is_let_in() -> None:
    with served(guard()) as address:
        for _ in range(FAILURES):
            assert refused(address, authorization="Bearer wrong").status == 401
        held = refused(address, authorization="Bearer wrong")
        assert (held.status, held.json["type"]) == (429, PREFIX + "too-many-failures")
        assert float(held.headers["retry-after"]) <= FAILURES_WITHIN_S
        with opened(address, **BEARER):
            pass


def test_the_handshake_has_to_be_whole(url: str) -> None:
    head = (
        "GET /ws HTTP/1.1\r\nhost: 127.0.0.1\r\n{}upgrade: websocket\r\nconnection: upgrade\r\n"
        f"sec-websocket-version: 13\r\nauthorization: Bearer {TOKEN}\r\n"
    )
    key = "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    whole = head.format("") + key
    assert _answer(url, whole) == 101
    assert _answer(url, head.format("")) == 400
    assert _answer(url, head.format("host: localhost\r\n") + key) == 400
    assert _answer(url, whole.replace(": 13", ": 8")) == 426
    assert _answer(url, whole.replace("GET", "POST", 1)) == 400


def test_the_guard_of_receivers_asks_for_the_token_too() -> None:
    settings = ListenSettings.model_validate({"endpoint": "127.0.0.1:0", "auth": {"tokens": [TOKEN]}})
    with served(guarded(say_who, "x", settings)) as address:
        assert refused(address).status == 401
    with served(guarded(say_who, "x", ListenSettings(endpoint="127.0.0.1:0"))) as address:
        assert refused(address, host="evil.example").status == 421


def test_a_websocket_counts_as_a_connection_until_it_is_closed() -> None:
    with served(guard(), Bounds(max_connections=2)) as address:
        with opened(address, **BEARER) as first, opened(address, **BEARER) as second:
            assert not _opens(address)
            for client in (first, second):
                client.say("who")
                assert client.read()["let_in"]
        eventually(lambda: _opens(address), "a connection that is free again")


def test_a_client_that_reads_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedWebSocket, "write_timeout_s", 0.2)
    with served(talk_on, Bounds(max_connections=1)) as address, opened(address):
        eventually(lambda: _opens(address), "the place of the client that does not read")


def test_without_the_wish_for_websockets_a_server_takes_none(tmp_path: Path) -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        server = HttpServer(guard(), stop_within_s=1)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        try:
            found = refused(f"http://127.0.0.1:{listening.getsockname()[1]}")
            assert found.status == 303  # to the form, as any other request
        finally:
            server.should_exit = True
            thread.join()


def _opens(address: str) -> bool:
    try:
        with opened(address, **BEARER):
            return True
    except (OSError, Refused):
        return False


def _answer(address: str, head: str) -> int:
    """The status that a server answers to a request of these lines."""
    host, _, port = address.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=WITHIN_S) as client:
        client.sendall(f"{head}\r\n".encode())
        return int(client.makefile("rb").readline().split()[1])
