"""A receiver's certificate: checked when it starts, and read again when its files change."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from tracegrade.model.errors import TraceGradeError
from tracegrade.otlp.reloading import Reloading
from tracegrade.receive.settings import TlsServerSettings


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate and the authority of its clients: PEM, and a TLS context made from them."""

    chain: bytes
    key: bytes
    client_authority: bytes | None
    context: ssl.SSLContext


def reloading_certificate(where: str, tls: TlsServerSettings) -> Reloading[Certificate]:
    """The certificate of `tls` as its files hold it now; `where` is the protocol's path in the settings.

    Raises:
        TraceGradeError: naming the file that is missing, unreadable or of the wrong kind.
    """
    paths = [path for path in (tls.cert_file, tls.key_file, tls.client_ca_file) if path is not None]
    return Reloading(f"{where}.tls", paths, lambda: read_certificate(where, tls))


def server_context(where: str, tls: TlsServerSettings) -> ssl.SSLContext:
    """A context that hands each handshake over to one of the certificate that is in force then.

    Raises:
        TraceGradeError: as `reloading_certificate`.
    """
    certificate = reloading_certificate(where, tls)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = certificate.value.context.verify_mode
    # A session that began under an authority that has been replaced since would be resumed unasked.
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0

    def hand_over(handshake: ssl.SSLObject, name: str | None, begun_by: ssl.SSLContext) -> None:
        certificate.poll()
        handshake.context = certificate.value.context

    context.sni_callback = hand_over  # called for every handshake, also of clients that name no server
    return context


def read_certificate(where: str, tls: TlsServerSettings) -> Certificate:
    """Read the files of `tls`; raises as `reloading_certificate` does."""
    chain = _content(where, "cert_file", tls.cert_file)
    key = _content(where, "key_file", tls.key_file)
    authority = None if tls.client_ca_file is None else _content(where, "client_ca_file", tls.client_ca_file)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    except (ssl.SSLError, ValueError) as error:
        raise TraceGradeError(
            f"{where}.tls: {tls.cert_file!r} and {tls.key_file!r} are not a certificate with its key in PEM: {error}"
        ) from None
    if tls.client_ca_file is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(tls.client_ca_file)
        except (ssl.SSLError, ValueError) as error:
            raise TraceGradeError(
                f"{where}.tls.client_ca_file: {tls.client_ca_file!r} holds no certificate in PEM: {error}"
            ) from None
    return Certificate(chain, key, authority, context)


def _content(where: str, key: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise TraceGradeError(f"{where}.tls.{key}: cannot read {path!r}: {error.strerror}") from None
