"""Bodies that no operation can read, over a real connection: too long, neither JSON nor UTF-8, or never sent."""

import json
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from build import store_with
from build.api import DOCUMENT
from build.site import serving
from suites.build.api import TOOL_EVAL_DOCUMENT
from tracegrade.web.api import app
from tracegrade.web.problem import PREFIX
from waiting import WITHIN_S

LIMITS = {"/api/v1": 1 << 20, "/api": 4 << 20}


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(app, "WITHIN_S", 1)
    store_with(tmp_path)
    with serving(tmp_path) as site:
        yield site.url


def operations() -> Iterator[tuple[str, str, str]]:
    """The limit, method and address of every operation that may be sent a body."""
    for document in (DOCUMENT, TOOL_EVAL_DOCUMENT):
        prefix = document["servers"][0]["url"]
        for path, found in document["paths"].items():
            for method in found.keys() - {"get"}:
                yield prefix, method.upper(), prefix + re.sub(r"\{\w+\}", "none", path)


def sent(stack: ExitStack, url: str, method: str, address: str, body: bytes, length: int) -> socket.socket:
    """A connection on which a request was sent that announces `length` bytes."""
    parts = urlsplit(url)
    connection = socket.create_connection((parts.hostname, parts.port), WITHIN_S)
    stack.enter_context(connection)
    head = f"{method} {address} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-length: {length}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def answer_on(connection: socket.socket) -> tuple[int, Any]:
    with HTTPResponse(connection) as response:
        response.begin()
        return response.status, json.loads(response.read())


def test_a_body_that_cannot_be_read_is_refused_by_every_operation(url: str) -> None:
    failures = []
    with ExitStack() as stack:
        asked = []
        for prefix, method, address in operations():
            too_long = f"body: expected at most {LIMITS[prefix]} bytes, found {5 << 20} announced"
            for body, length, status, type_, said in (
                (b"", 5 << 20, 413, "too-long", too_long),
                (b'{"a": 1,}', 9, 400, "invalid-parameter", "body: not JSON: trailing comma is not allowed: line 1"),
                (b'{"a":"\xff"}', 9, 400, "invalid-parameter", "body: not UTF-8: byte 7 is 0xff"),
                (b'{"a"', 9, 408, "timeout", "body: expected all of it within 1 s, found 4 bytes"),
            ):
                connection = sent(stack, url, method, address, body, length)
                asked.append((connection, f"{method} {address}", status, type_, said))
        for connection, operation, status, type_, said in asked:
            found, problem = answer_on(connection)
            if (found, problem["type"]) != (status, PREFIX + type_) or not problem["detail"].startswith(said):
                failures.append(f"{operation}: expected {status} {said!r}, found {found} {problem}")
    assert not failures, "\n".join(failures)
    assert len(asked) == 4 * 37
