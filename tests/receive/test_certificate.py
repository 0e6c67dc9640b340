"""Certificates that change under a running receiver: new connections see the new ones, broken ones change nothing."""

import http.client
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
Serve = Callable[..., Any]


@dataclass
class Files:
    """The files that a receiver was told of."""

    folder: Path

    @property
    def tls(self) -> dict[str, str]:
        names = {"cert_file": "cert.pem", "key_file": "key.pem", "client_ca_file": "ca.pem"}
        return {key: str(self.folder / name) for key, name in names.items()}

    def issue(self, authority: trustme.CA) -> None:
        """A certificate of `authority`, which is also the one that clients need."""
        issued = authority.issue_cert("127.0.0.1", "localhost")
        self.put("cert.pem", issued.cert_chain_pems[0].bytes())
        self.put("key.pem", issued.private_key_pem.bytes())
        self.put("ca.pem", authority.cert_pem.bytes())

    def put(self, name: str, content: bytes) -> None:
        other = self.folder / "new"
        other.write_bytes(content)
        other.replace(self.folder / name)


def over_grpc(served: Any, wire: bytes, authority: trustme.CA) -> bool:
    known = authority.issue_cert("client")
    credentials = grpc.ssl_channel_credentials(
        authority.cert_pem.bytes(), known.private_key_pem.bytes(), known.cert_chain_pems[0].bytes()
    )
    with grpc.secure_channel(served.grpc_address, credentials) as channel:
        try:
            return bool(channel.unary_unary(EXPORT)(wire) == b"")
        except grpc.RpcError:
            return False


def over_http(served: Any, wire: bytes, authority: trustme.CA) -> bool:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert("client").configure_cert(context)
    connection = http.client.HTTPSConnection("127.0.0.1", served.http_port, context=context)
    try:
        connection.request("POST", "/v1/traces", wire, {"Content-Type": "application/x-protobuf"})
        return connection.getresponse().status == 200
    except (ssl.SSLError, ConnectionError):
        return False
    finally:
        connection.close()


@pytest.mark.parametrize(("protocol", "sends"), [("grpc", over_grpc), ("http", over_http)])
def test_a_certificate_is_exchanged_without_a_restart(
    serve: Serve,
    wire: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    protocol: str,
    sends: Callable[[Any, bytes, trustme.CA], bool],
) -> None:
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)
    files, first, second = Files(tmp_path), trustme.CA(), trustme.CA()
    files.issue(first)
    served = serve(**{protocol: {"tls": files.tls}})
    assert (sends(served, wire, first), sends(served, wire, second)) == (True, False)

    files.put("cert.pem", b"no certificate")
    assert sends(served, wire, first)
    assert f"protocols.{protocol}.tls: '{tmp_path}/cert.pem' and " in caplog.text
    assert "the old one stays in force" in caplog.text

    files.put("cert.pem", second.issue_cert("127.0.0.1").cert_chain_pems[0].bytes())  # the key is another's
    assert sends(served, wire, first)
    (tmp_path / "key.pem").unlink()
    assert sends(served, wire, first)

    files.issue(second)
    assert (sends(served, wire, first), sends(served, wire, second)) == (False, True)
    assert len(served.journal.entries) == 5


def test_a_connection_that_is_there_is_served_on_under_its_old_certificate(
    serve: Serve, wire: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tracegrade.otlp.reloading.LOOK_EVERY_S", 0.0)
    files, first = Files(tmp_path), trustme.CA()
    files.issue(first)
    served = serve(http={"tls": files.tls})
    context = ssl.create_default_context()
    first.configure_trust(context)
    first.issue_cert("client").configure_cert(context)
    connection = http.client.HTTPSConnection("127.0.0.1", served.http_port, context=context)
    for turn in range(2):
        connection.request("POST", "/v1/traces", wire, {"Content-Type": "application/x-protobuf"})
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b"")
        if turn == 0:
            session = connection.sock.session
            files.issue(trustme.CA())
    connection.close()
    # A session of then is not taken up again: each connection shows certificates anew.
    with (
        socket.create_connection(("127.0.0.1", served.http_port)) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
