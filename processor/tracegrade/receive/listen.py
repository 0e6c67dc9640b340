"""Sockets and certificates, checked when a receiver starts, so that what is wrong with them is said at once."""

import socket
import ssl
from pathlib import Path
from typing import Any

from tracegrade.model.errors import TraceGradeError
from tracegrade.receive.settings import TlsServerSettings, split_endpoint


class ReceiverStartError(TraceGradeError):
    """A receiver cannot start: its address is taken, or its certificate cannot be used."""


def cannot_listen(where: str, endpoint: str, why: object) -> ReceiverStartError:
    """The error for an address that cannot be had; `where` is the protocol's path in the settings."""
    return ReceiverStartError(
        f"{where}.endpoint: cannot listen on {endpoint!r}: {why}; stop what listens there, or choose another endpoint"
    )


def bound_socket(where: str, endpoint: str) -> socket.socket:
    """A TCP socket bound to `endpoint` and not yet listening.

    Raises:
        ReceiverStartError: the address is taken, or not one of this machine's.
    """
    host, port = split_endpoint(endpoint)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise cannot_listen(where, endpoint, error.strerror or error) from None
    try:
        # Without it a restart would wait for old connections to be forgotten. It does not let two listen at once.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise cannot_listen(where, endpoint, error.strerror or error) from None
    return bound


def check_tls(where: str, tls: TlsServerSettings) -> None:
    """Load the files once, to find what is wrong with them.

    Raises:
        ReceiverStartError: naming the file that is missing, unreadable or of the wrong kind.
    """
    for key, name in (("cert_file", tls.cert_file), ("key_file", tls.key_file), ("client_ca_file", tls.client_ca_file)):
        if name is not None:
            try:
                Path(name).read_bytes()
            except OSError as error:
                raise ReceiverStartError(f"{where}.tls.{key}: cannot read {name!r}: {error.strerror}") from None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    except (ssl.SSLError, ValueError) as error:
        raise ReceiverStartError(
            f"{where}.tls: {tls.cert_file!r} and {tls.key_file!r} are no certificate with its key in PEM: {error}"
        ) from None
    if tls.client_ca_file is not None:
        try:
            context.load_verify_locations(tls.client_ca_file)
        except (ssl.SSLError, ValueError) as error:
            raise ReceiverStartError(
                f"{where}.tls.client_ca_file: {tls.client_ca_file!r} holds no certificate in PEM: {error}"
            ) from None


def tls_options(tls: TlsServerSettings | None) -> dict[str, Any]:
    """What uvicorn is to be told of `tls`; {} for plaintext."""
    if tls is None:
        return {}
    options = {"ssl_certfile": tls.cert_file, "ssl_keyfile": tls.key_file}
    if tls.client_ca_file is None:
        return options
    return {**options, "ssl_ca_certs": tls.client_ca_file, "ssl_cert_reqs": ssl.CERT_REQUIRED}
