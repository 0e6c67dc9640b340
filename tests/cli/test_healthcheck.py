"""``tracegrade healthcheck`` against the pages of a status server on loopback."""

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner, Result

from build import each
from tracegrade.cli import main
from tracegrade.config import load_config
from tracegrade.serve.status import answering_status
from tracegrade.telemetry.metrics import Telemetry

TOKEN = "a-token-that-nobody-can-guess-0123456789"
SERVERS = ("grpc", "starlette", "uvicorn", "fastapi", "sqlalchemy", "urllib3", "opentelemetry.sdk")


def written(folder: Path, **telemetry: Any) -> Path:
    path = folder / "config.yaml"
    path.write_text(json.dumps({"data_dir": str(folder / "data"), "telemetry": telemetry}))  # JSON is YAML
    return path


def asked_of(
    folder: Path, receive: Telemetry, shown: str = "127.0.0.1", options: Sequence[object] = (), **telemetry: Any
) -> Result:
    """What the command prints while `receive` answers with these settings of its own."""
    (folder / "data").mkdir(exist_ok=True)
    config = load_config(written(folder, endpoint="127.0.0.1:0", **telemetry))
    with answering_status(config, lambda: [receive.snapshot()]) as endpoint:
        port = endpoint.rpartition(":")[2]
        path = written(folder, endpoint=f"{shown}:{port}", insecure=shown == "0.0.0.0", **telemetry)
        return CliRunner().invoke(main, ["healthcheck", "-c", str(path), *map(str, options)])


@each("shown", ["127.0.0.1", "0.0.0.0"])
def test_who_serves_senders_is_healthy(tmp_path: Path, shown: str) -> None:
    found = asked_of(tmp_path, Telemetry("receive"), shown)
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout.startswith("telemetry.endpoint 127.0.0.1:")
    assert found.stdout.endswith(": ok\n")


def test_who_refuses_senders_is_not_and_the_condition_is_named(tmp_path: Path) -> None:
    receive = Telemetry("receive")
    receive.conditions.begin("disk_failing", "the disk is full", "journal")
    found = asked_of(tmp_path, receive)
    assert (found.exit_code, found.stdout) == (1, "")
    assert ": refusing. disk_failing: the disk is full; " in found.stderr


def test_a_token_of_the_settings_is_shown(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"\n{TOKEN}\n")
    for auth in ({"tokens": [TOKEN]}, {"token_file": str(tmp_path / "tokens")}):
        found = asked_of(tmp_path, Telemetry("receive"), auth=auth)
        assert found.exit_code == 0, found.output


def test_the_certificate_of_the_settings_is_trusted_though_it_names_another_host(tmp_path: Path) -> None:
    issued = trustme.CA().issue_cert("traces.example")
    issued.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    for pem in issued.cert_chain_pems:
        pem.write_to_path(str(tmp_path / "cert.pem"), append=True)
    tls = {"cert_file": str(tmp_path / "cert.pem"), "key_file": str(tmp_path / "key.pem")}
    found = asked_of(tmp_path, Telemetry("receive"), tls=tls)
    assert found.exit_code == 0, found.output
    trustme.CA().issue_cert("traces.example").cert_chain_pems[0].write_to_path(str(tmp_path / "other.pem"))
    (tmp_path / "data").mkdir(exist_ok=True)
    config = load_config(written(tmp_path, endpoint="127.0.0.1:0", tls=tls))
    with answering_status(config, lambda: [Telemetry("receive").snapshot()]) as endpoint:
        path = written(tmp_path, endpoint=endpoint, tls=tls | {"cert_file": str(tmp_path / "other.pem")})
        stranger = CliRunner().invoke(main, ["healthcheck", "-c", str(path)])
    assert stranger.exit_code == 1
    assert "certificate verify failed" in stranger.stderr


def test_a_certificate_is_shown_where_the_server_asks_for_one(tmp_path: Path) -> None:
    authority = trustme.CA()
    ours, server = authority.issue_cert("probe.example"), authority.issue_cert("traces.example")
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    server.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    ours.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    ours.private_key_pem.write_to_path(str(tmp_path / "key.pem"))
    ours.cert_chain_pems[0].write_to_path(str(tmp_path / "cert.pem"))
    trustme.CA().issue_cert("x.example").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "stranger.pem"))
    tls = {"cert_file": str(tmp_path / "server.pem"), "key_file": str(tmp_path / "server.pem")}
    tls |= {"client_ca_file": str(tmp_path / "ca.pem")}
    for options in (
        ["--cert", tmp_path / "both.pem"],
        ["--cert", tmp_path / "cert.pem", "--key", tmp_path / "key.pem"],
    ):
        found = asked_of(tmp_path, Telemetry("receive"), options=options, tls=tls)
        assert found.exit_code == 0, found.output
    refused = asked_of(tmp_path, Telemetry("receive"), options=["--cert", tmp_path / "stranger.pem"], tls=tls)
    assert refused.exit_code == 1
    assert "no answer at telemetry.endpoint" in refused.stderr
    unread = asked_of(tmp_path, Telemetry("receive"), options=["--cert", tmp_path / "cert.pem"], tls=tls)
    assert unread.exit_code == 2
    assert "cert.pem': cannot read a certificate and its key in PEM" in unread.stderr


def test_a_token_that_was_made_is_shown_from_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, auth={})
    new = CliRunner().invoke(main, ["tokens", "new", "probe", "--role", "read", "-c", str(path)])
    assert new.exit_code == 0, new.output
    (tmp_path / "token").write_text(new.stdout)
    options = ["--token-file", tmp_path / "token"]
    found = asked_of(tmp_path, Telemetry("receive"), options=options, auth={})
    assert found.exit_code == 0, found.output
    (tmp_path / "token").write_text(TOKEN)
    stranger = asked_of(tmp_path, Telemetry("receive"), options=options, auth={})
    assert stranger.exit_code == 1
    assert "found HTTP status 401" in stranger.stderr


@each(
    ("telemetry", "said"),
    [
        ({"auth": {}}, "telemetry.auth: found no token"),
        ({"auth": {"token_file": "missing"}}, "telemetry.auth.token_file: cannot read it"),
        (
            {"tls": {"cert_file": "c", "key_file": "k", "client_ca_file": "a"}},
            "telemetry.tls.client_ca_file: the server asks",
        ),
        ({"tls": {"cert_file": "missing", "key_file": "k"}}, "telemetry.tls.cert_file: cannot read"),
        ({"endpiont": "127.0.0.1:1"}, "endpiont"),
    ],
)
def test_settings_by_which_nobody_can_be_asked_are_wrong_usage(
    tmp_path: Path, telemetry: dict[str, Any], said: str
) -> None:
    found = CliRunner().invoke(main, ["healthcheck", "-c", str(written(tmp_path, **telemetry))])
    assert found.exit_code == 2
    assert said in found.stderr


@each("status", [200, 404])
def test_another_program_at_the_port_is_not_taken_for_serve(tmp_path: Path, status: int) -> None:
    class Other(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status, "no such page")

        def log_message(self, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.handle_request).start()
        path = written(tmp_path, endpoint=f"127.0.0.1:{server.server_port}")
        found = CliRunner().invoke(main, ["healthcheck", "-c", str(path)])
    assert found.exit_code == 1
    assert f"found HTTP status {status}, expected the answer of /readyz" in found.stderr


def test_where_nobody_listens_it_ends_with_1_and_imports_no_server(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as closed:
        port = closed.server_port
    path = written(tmp_path, endpoint=f"127.0.0.1:{port}")
    program = f"""
import sys
from tracegrade.cli import main
try:
    main(["healthcheck", "-c", {str(path)!r}])
except SystemExit as ended:
    print(ended.code, *(name for name in {SERVERS!r} if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
    assert f"no answer at telemetry.endpoint 127.0.0.1:{port}: " in done.stderr


@pytest.mark.parametrize("option", ["0", "-1"])
def test_a_timeout_is_more_than_nothing(option: str) -> None:
    assert CliRunner().invoke(main, ["healthcheck", "--timeout", option]).exit_code == 2
