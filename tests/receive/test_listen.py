from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from tracegrade.model.errors import TraceGradeError
from tracegrade.receive.certificate import reloading_certificate
from tracegrade.receive.listen import bound_socket
from tracegrade.receive.settings import TlsServerSettings

WHERE = "receivers.otlp.protocols.http"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    paths = {name: tmp_path / name for name in ("cert", "key", "other_key", "ca", "text", "missing")}
    certificate.cert_chain_pems[0].write_to_path(paths["cert"])
    certificate.private_key_pem.write_to_path(paths["key"])
    authority.issue_cert("x").private_key_pem.write_to_path(paths["other_key"])
    authority.cert_pem.write_to_path(paths["ca"])
    paths["text"].write_text("no certificate")
    return paths


def tls(files: dict[str, Path], cert: str, key: str, authority: str | None) -> TlsServerSettings:
    return TlsServerSettings(
        cert_file=str(files[cert]), key_file=str(files[key]), client_ca_file=authority and str(files[authority])
    )


@pytest.mark.parametrize("authority", [None, "ca"])
def test_good_files_are_good(files: dict[str, Path], authority: str | None) -> None:
    reloading_certificate(WHERE, tls(files, "cert", "key", authority))


@pytest.mark.parametrize(
    ("cert", "key", "authority", "message"),
    [
        ("missing", "key", None, r"http\.tls\.cert_file: cannot read '.*missing': No such file"),
        ("cert", "missing", None, r"http\.tls\.key_file: cannot read"),
        ("cert", "key", "missing", r"http\.tls\.client_ca_file: cannot read"),
        ("text", "key", None, r"http\.tls: '.*text' and '.*key' are not a certificate with its key"),
        ("cert", "text", None, "are not a certificate with its key"),
        ("cert", "other_key", None, "are not a certificate with its key"),
        ("cert", "key", "text", r"http\.tls\.client_ca_file: '.*text' holds no certificate"),
    ],
)
def test_what_is_wrong_with_a_certificate_is_said_with_its_file(
    files: dict[str, Path], cert: str, key: str, authority: str | None, message: str
) -> None:
    with pytest.raises(TraceGradeError, match=message):
        reloading_certificate(WHERE, tls(files, cert, key, authority))


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_server_with_a_wrong_certificate_does_not_start(
    serve: Callable[..., Any], files: dict[str, Path], protocol: str
) -> None:
    wrong = {"tls": {"cert_file": str(files["cert"]), "key_file": str(files["other_key"])}}
    with pytest.raises(TraceGradeError, match=rf"protocols\.{protocol}\.tls"):
        serve(**{protocol: wrong})


def test_an_address_of_another_machine_cannot_be_had() -> None:
    with pytest.raises(TraceGradeError, match=r"http\.endpoint: cannot listen on '192.0.2.1:0'"):
        bound_socket(f"{WHERE}.endpoint", "192.0.2.1:0")
