"""``tracegrade healthcheck``: ask a running serve whether it takes requests. It imports no server."""

import http.client
import json
import ssl
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.output import EXIT_FAILED, print_line
from tracegrade.cli.settings import config_option
from tracegrade.model.errors import TraceGradeError

if TYPE_CHECKING:
    from tracegrade.config.config import TelemetrySettings

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_LARGEST_ANSWER_BYTES = 1 << 20


@click.command(cls=Command)
@config_option
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="How long each step of the request may take.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Send the first token of this file, such as one of 'tracegrade tokens new', in place of one of the settings.",
)
@click.option(
    "--cert",
    "cert_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The certificate (PEM) to present if telemetry.tls.client_ca_file asks for one.",
)
@click.option(
    "--key", "key_file", type=click.Path(path_type=Path), metavar="FILE", help="The key of --cert, if not in its file."
)
def command(
    config_path: Path | None, timeout_s: float, token_file: Path | None, cert_file: Path | None, key_file: Path | None
) -> None:
    """Ask /readyz of the serve that runs here with the same settings: for the health check of a container.

    Exit code 0: senders are served. 1: senders are refused, or no serve answers. 2: wrong settings.
    """
    from tracegrade.config import load_config

    settings = load_config(config_path, allow_unset=True).telemetry
    asked = _connection(settings, timeout_s, cert_file, key_file)
    address = f"telemetry.endpoint {asked.host}:{asked.port}"
    try:
        status, body = _answer(asked, _headers(settings, token_file))
    except (OSError, http.client.HTTPException) as error:
        why = str(error) or type(error).__name__
        print_line(f"no answer at {address}: {why}; expected a serve with these settings to run here", err=True)
        sys.exit(EXIT_FAILED)
    health = _health(body)
    is_ready = status == http.client.OK and health is not None
    print_line(f"{address}: {health or _unexpected(status, body)}", err=not is_ready)
    sys.exit(0 if is_ready else EXIT_FAILED)


def _answer(asked: http.client.HTTPConnection, headers: dict[str, str]) -> tuple[int, bytes]:
    with closing(asked):
        asked.request("GET", "/readyz", headers=headers)
        answer = asked.getresponse()
        return answer.status, answer.read(_LARGEST_ANSWER_BYTES)


def _connection(
    settings: "TelemetrySettings", timeout_s: float, cert_file: Path | None, key_file: Path | None
) -> http.client.HTTPConnection:
    from tracegrade.receive.settings import split_endpoint

    host, port = split_endpoint(settings.endpoint)
    host = _LOOPBACK.get(host, host)
    if settings.tls is None:
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    if cert_file is None and settings.tls.client_ca_file is not None:
        raise TraceGradeError(
            "telemetry.tls.client_ca_file: the server asks for a certificate of this authority; expected one in "
            "--cert, with its key there or in --key"
        )
    trusted = _trusting(settings.tls.cert_file)
    if cert_file is not None:
        try:
            trusted.load_cert_chain(cert_file, key_file, password="")  # else an encrypted key asks at the terminal
        except OSError as error:
            raise TraceGradeError(
                f"--cert {str(cert_file)!r}: cannot read a certificate and its key in PEM: {error}"
            ) from None
    return http.client.HTTPSConnection(host, port, timeout=timeout_s, context=trusted)


def _trusting(cert_file: str) -> ssl.SSLContext:
    """Trust the very certificate of the settings: it names the host by which others call, not this address."""
    try:
        trusted = ssl.create_default_context(cafile=cert_file)
    except OSError as error:
        raise TraceGradeError(
            f"telemetry.tls.cert_file: cannot read {cert_file!r} as certificates (PEM): {error}"
        ) from None
    trusted.check_hostname = False
    trusted.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return trusted


def _headers(settings: "TelemetrySettings", token_file: Path | None) -> dict[str, str]:
    if settings.auth is None:
        return {}
    if token_file is not None:
        tokens = _tokens("--token-file", token_file)
    else:
        tokens = [token.get_secret_value() for token in settings.auth.tokens]
        if settings.auth.token_file is not None:
            tokens += _tokens("telemetry.auth.token_file", Path(settings.auth.token_file))
    if not tokens:
        raise TraceGradeError(
            "telemetry.auth: found no token, expected one in --token-file, or in tokens or token_file of the settings"
        )
    return {"Authorization": f"Bearer {tokens[0]}"}


def _tokens(where: str, path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceGradeError(f"{where}: cannot read it: {error}") from None


def _health(body: bytes) -> str | None:
    """Status and conditions, each with what to do; None where this is no answer of /readyz."""
    try:
        health = json.loads(body)
        conditions = [f". {found['name']}: {found['message']}; {found['advice']}" for found in health["conditions"]]
        return f"{health['status']}{''.join(conditions)}"
    except (ValueError, KeyError, TypeError):
        return None


def _unexpected(status: int, body: bytes) -> str:
    text = body[:200].decode(errors="replace").strip()
    return f"found HTTP status {status}, expected the answer of /readyz: {text}"
