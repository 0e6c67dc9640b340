"""Users who sign in at an OpenID Connect provider, through Apache with mod_auth_openidc in front of a real ``serve``.

The Apache settings are those of the guide, with other addresses. The provider is a small one of our own.
"""

import base64
import hashlib
import hmac
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from build.served import Server, served
from waiting import eventually

MODULES = Path("/usr/lib/apache2/modules")
APACHE = shutil.which("apache2") or shutil.which("apache2", path="/usr/sbin")
GUIDE = Path(__file__).parents[3] / "docs/guides/access.md"
CLIENT, SECRET = "tracegrade", "secret-of-the-proxy-at-the-provider"

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        APACHE is None or not (MODULES / "mod_auth_openidc.so").exists(),
        reason="needs Apache with mod_auth_openidc: apt-get install apache2-bin libapache2-mod-auth-openidc",
    ),
]


class Provider(ThreadingHTTPServer):
    """Signs everybody in as ``user``, without asking."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        self.user: dict[str, Any] = {}
        self.nonces: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def id_token(self, code: str) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "sub": self.user["email"], "aud": CLIENT, "iat": now, "exp": now + 600}
        parts = [{"alg": "HS256", "typ": "JWT"}, {**claims, **self.user, "nonce": self.nonces.pop(code)}]
        text = ".".join(_base64(json.dumps(part).encode()) for part in parts)
        return f"{text}.{_base64(hmac.new(SECRET.encode(), text.encode(), hashlib.sha256).digest())}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Answers(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        path, url = urlsplit(self.path), self.server.url
        if path.path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            lists = {
                "response_types_supported": ["code"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["HS256"],
            }
            self._json({"issuer": url, **{name: f"{url}/{place}" for name, place in names.items()}, **lists})
        elif path.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(path.query).items()}
            code = hashlib.sha256(asked["state"].encode()).hexdigest()
            self.server.nonces[code] = asked["nonce"]
            self.send_response(302)
            self.send_header("Location", f"{asked['redirect_uri']}?code={code}&state={asked['state']}")
            self.end_headers()
        else:
            self._json({"keys": []})

    def do_POST(self) -> None:
        given = parse_qs(self.rfile.read(int(self.headers["content-length"])).decode())
        token = self.server.id_token(given["code"][0])
        self._json({"access_token": "unused", "token_type": "Bearer", "expires_in": 600, "id_token": token})

    def _json(self, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *unused: object) -> None:
        pass


@contextmanager
def provided() -> Iterator[Provider]:
    provider = Provider()
    thread = threading.Thread(target=provider.serve_forever)
    thread.start()
    try:
        yield provider
    finally:
        provider.shutdown()
        thread.join()
        provider.server_close()


def guide_settings() -> str:
    """The Apache settings that the guide shows."""
    blocks = re.findall(r"```\w+\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (found,) = [block for block in blocks if "OIDCRedirectURI" in block]
    return str(found)


@contextmanager
def proxied(folder: Path, provider: Provider, upstream: str) -> Iterator[int]:
    """Apache as the guide sets it up, before `upstream`; its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    shown = guide_settings()
    for old, new in {
        "https://login.example/": f"{provider.url}/",
        "http://127.0.0.1:4319/": f"{upstream}/",
        '"exec:/usr/local/bin/oidc-secret"': SECRET,
        '"exec:/usr/local/bin/oidc-passphrase"': "passphrase-of-the-proxy",
    }.items():
        assert old in shown, old
        shown = shown.replace(old, new)
    names = "mpm_event authn_core authz_core authz_user headers proxy proxy_http auth_openidc"
    there = [name for name in names.split() if (MODULES / f"mod_{name}.so").exists()]
    loaded = "\n".join(f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in there)
    settings = f"""
        ServerRoot {folder}
        ServerName 127.0.0.1
        Listen 127.0.0.1:{port}
        PidFile {folder}/apache.pid
        ErrorLog {folder}/apache.log
        DefaultRuntimeDir {folder}
        User #{os.getuid() or 65534}
        Group #{os.getgid() or 65534}
        {loaded}
        OIDCIDTokenSignedResponseAlg HS256
        OIDCCookieSameSite On
        {shown}
    """
    path = folder / "apache.conf"
    path.write_text("\n".join(line.strip() for line in settings.splitlines()))
    assert APACHE is not None
    apache = subprocess.Popen([APACHE, "-f", str(path), "-X"], cwd=folder)
    try:
        eventually(lambda: _listens(port), f"Apache: {folder / 'apache.log'}")
        yield port
    finally:
        apache.terminate()
        apache.wait()


def _listens(port: int) -> bool:
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


class Browser:
    """Follows redirects, and keeps cookies by host."""

    def __init__(self, port: int) -> None:
        self._home = f"http://127.0.0.1:{port}"
        self._cookies: dict[str, dict[str, str]] = {}

    def ask(self, method: str, address: str, **headers: str) -> tuple[int, str]:
        """Status and body of what is reached in the end."""
        url = self._home + address
        for _ in range(10):
            answer, body = self._once(method, url, headers)
            if answer.status not in (302, 303):
                return answer.status, body
            location = answer.headers["location"]
            url = location if "://" in location else f"{url[: url.index('/', 8)]}{location}"
        raise AssertionError(f"too many redirects, the last to {url}")

    def _once(self, method: str, url: str, headers: dict[str, str]) -> tuple[HTTPResponse, str]:
        parts = urlsplit(url)
        cookies = self._cookies.setdefault(parts.netloc, {})
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        sent["Accept"] = "text/html,application/json"  # programs are answered 401 by the proxy, and not sent to sign in
        connection = HTTPConnection(parts.netloc)
        connection.request(method, url.removeprefix(f"{parts.scheme}://{parts.netloc}"), headers=sent)
        answer = connection.getresponse()
        body = answer.read().decode("utf-8", "replace")
        connection.close()
        for cookie in answer.headers.get_all("set-cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            cookies[name] = value
        return answer, body


def noted(server: Server) -> list[dict[str, Any]]:
    """The access log."""
    lines = [
        line
        for path in sorted((server.data / "access").glob("access-*.jsonl"))
        for line in path.read_text().splitlines()
    ]
    return [json.loads(line) for line in lines]


def test_users_sign_in_at_the_provider_and_have_the_roles_of_their_groups(tmp_path: Path) -> None:
    for name in ("serve", "apache"):
        (tmp_path / name).mkdir()
    access = {
        "trusted_proxies": ["127.0.0.1"],
        "user_header": "x-forwarded-email",
        "groups_header": "x-forwarded-groups",
        "roles_by_group": {"sre": ["admin"]},
        "user_roles": ["read"],
    }
    web = {"endpoint": "127.0.0.1:0", "auth": {}}
    with (
        provided() as provider,
        served(tmp_path / "serve", web=web, access=access, rules={"paths": []}) as server,
        proxied(tmp_path / "apache", provider, server.endpoints["web"]) as port,
    ):
        address = "/api/v1/traces/" + "ab" * 16
        provider.user = {"email": "ann@shop.example", "groups": ["developers"]}
        ann = Browser(port)
        assert ann.ask("GET", "/api/v1/rules")[0] == 200
        status, told = ann.ask("DELETE", address)
        assert (status, "which 'user: ann@shop.example' has not" in told) == (403, True)
        # What a browser says of itself is taken out by the proxy.
        forged = {"x_forwarded_email": "root@shop.example", "x_forwarded_groups": "sre"}
        assert ann.ask("DELETE", address, **forged)[0] == 403

        provider.user = {"email": "bob@shop.example", "groups": ["developers", "sre"]}
        bob = Browser(port)
        assert bob.ask("GET", "/api/v1/rules")[0] == 200
        assert bob.ask("DELETE", address)[0] == 202
        eventually(lambda: len(noted(server)) >= 5, "the access log")
        assert [(entry["name"], entry["right"], entry["status"]) for entry in noted(server)] == [
            ("user: ann@shop.example", "read", 200),
            ("user: ann@shop.example", "admin", 403),
            ("user: ann@shop.example", "admin", 403),
            ("user: bob@shop.example", "read", 200),
            ("user: bob@shop.example", "admin", 202),
        ]
