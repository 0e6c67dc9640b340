"""Whose spans a request holds, over both protocols."""

import http.client
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme
from cryptography import x509
from pydantic import ValidationError

from build import each
from tracegrade.access.caller import Caller
from tracegrade.access.rights import EVERYTHING
from tracegrade.access.settings import AccessSettings
from tracegrade.access.tokens import MadeTokens, new_token
from tracegrade.receive.ingest import Refused
from tracegrade.receive.tenants import Sender, SenderTenants, grpc_address, subjects_of

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
Serve = Callable[..., Any]


def over_grpc(served: Any, wire: bytes, headers: dict[str, str]) -> tuple[str, str]:
    with grpc.insecure_channel(served.grpc_address) as channel:
        return _called(channel, wire, headers)


def _called(channel: grpc.Channel, wire: bytes, headers: dict[str, str]) -> tuple[str, str]:
    try:
        channel.unary_unary(EXPORT)(wire, metadata=list(headers.items()))
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


def over_http(served: Any, wire: bytes, headers: dict[str, str]) -> tuple[str, str]:
    return _posted(http.client.HTTPConnection("127.0.0.1", served.http_port), wire, headers)


def _posted(connection: http.client.HTTPConnection, wire: bytes, headers: dict[str, str]) -> tuple[str, str]:
    try:
        connection.request("POST", "/v1/traces", wire, {"Content-Type": "application/x-protobuf", **headers})
        answer = connection.getresponse()
        said = answer.read().decode("utf-8", "replace")
        return {200: "OK", 403: "PERMISSION_DENIED"}.get(answer.status, str(answer.status)), said
    finally:
        connection.close()


BOTH = pytest.mark.parametrize("send", [over_grpc, over_http])


@BOTH
def test_the_header_of_a_trusted_proxy_names_the_tenant(serve: Serve, wire: bytes, send: Callable[..., Any]) -> None:
    served = serve(access=AccessSettings(tenant_header="X-Scope-OrgID", trusted_proxies=["127.0.0.0/8"]))
    assert send(served, wire, {"x-scope-orgid": "acme"})[0] == "OK"
    assert send(served, wire, {})[0] == "OK"
    assert [entry.tenant for entry in served.journal.entries] == ["acme", "default"]


@BOTH
def test_the_header_of_anybody_else_is_refused(serve: Serve, wire: bytes, send: Callable[..., Any]) -> None:
    served = serve(access=AccessSettings(tenant_header="x-scope-orgid", trusted_proxies=["10.0.0.0/24"]))
    code, said = send(served, wire, {"x-scope-orgid": "acme"})
    assert code == "PERMISSION_DENIED"
    assert "'x-scope-orgid' is taken from access.trusted_proxies alone, and 127.0.0.1 is none of them" in said
    assert not served.journal.entries
    assert served.requests(outcome="refused", reason="tenant_refused") == 1


@BOTH
def test_a_token_says_the_tenant_and_a_header_cannot_change_it(
    serve: Serve, wire: bytes, send: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "tokens.json"
    _, secret = new_token(path, "agents", ["send"], "acme", None, 1)
    served = serve(
        grpc={"auth": {}},
        http={"auth": {}},
        made=MadeTokens(path),
        access=AccessSettings(tenant_header="x-scope-orgid", trusted_proxies=["127.0.0.1"]),
    )
    token = {"authorization": f"Bearer {secret}"}
    assert send(served, wire, token)[0] == "OK"
    assert send(served, wire, {**token, "x-scope-orgid": "acme"})[0] == "OK"
    code, said = send(served, wire, {**token, "x-scope-orgid": "globex"})
    assert code == "PERMISSION_DENIED"
    assert "names another tenant than the sender's token or certificate" in said
    assert [entry.tenant for entry in served.journal.entries] == ["acme", "acme"]


@BOTH
def test_a_header_that_can_be_no_tenant_is_refused(serve: Serve, wire: bytes, send: Callable[..., Any]) -> None:
    served = serve(access=AccessSettings(tenant_header="x-scope-orgid", trusted_proxies=["127.0.0.1"]))
    code, said = send(served, wire, {"x-scope-orgid": "../etc"})
    assert code == "PERMISSION_DENIED"
    assert "expected a tenant of 1 to 64 letters" in said
    assert "found '../etc'" in said


@each("second", ["globex", "acme", ""])
def test_a_header_that_comes_twice_is_refused(serve: Serve, wire: bytes, second: str) -> None:
    """A proxy that adds its own to what a client sent: neither is known to be the proxy's."""
    served = serve(access=AccessSettings(tenant_header="x-scope-orgid", trusted_proxies=["127.0.0.1"]))
    both = [("x-scope-orgid", "acme"), ("x-scope-orgid", second)]
    with (
        grpc.insecure_channel(served.grpc_address) as channel,
        pytest.raises(grpc.RpcError, match="the header 'x-scope-orgid' came 2 times") as refused,
    ):
        channel.unary_unary(EXPORT)(wire, metadata=both)
    assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
    connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
    connection.putrequest("POST", "/v1/traces")
    for name, value in [("Content-Type", "application/x-protobuf"), ("Content-Length", str(len(wire))), *both]:
        connection.putheader(name, value)
    connection.endheaders(wire)
    answer = connection.getresponse()
    assert (answer.status, b"the header 'x-scope-orgid' came 2 times" in answer.read()) == (403, True)
    connection.close()
    assert not served.journal.entries


@each("name", ["x-tenant-bin", "grpc-tenant", "Authorization", "x tenant", ""])
def test_a_name_that_no_proxy_can_set_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="expected the name of a header such as 'x-scope-orgid'"):
        AccessSettings(tenant_header=name, trusted_proxies=["127.0.0.1"])


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_certificate_says_the_tenant(serve: Serve, wire: bytes, tmp_path: Path, is_whole: bool) -> None:
    authority = trustme.CA()
    own = authority.issue_cert("127.0.0.1")
    own.private_key_pem.write_to_path(tmp_path / "key.pem")
    own.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    tls = {
        "cert_file": str(tmp_path / "cert.pem"),
        "key_file": str(tmp_path / "key.pem"),
        "client_ca_file": str(tmp_path / "ca.pem"),
    }
    agents = authority.issue_cert("client", common_name="agents", organization_name="Shop, Inc.")
    certificate = x509.load_pem_x509_certificate(agents.cert_chain_pems[0].bytes())
    name = certificate.subject.rfc4514_string() if is_whole else "agents"
    served = serve(grpc={"tls": tls}, http={"tls": tls}, access=AccessSettings(tenants_by_subject={name: "acme"}))
    for client in (agents, authority.issue_cert("client", common_name="strangers")):
        credentials = grpc.ssl_channel_credentials(
            authority.cert_pem.bytes(), client.private_key_pem.bytes(), client.cert_chain_pems[0].bytes()
        )
        with grpc.secure_channel(served.grpc_address, credentials) as channel:
            assert _called(channel, wire, {}) == ("OK", "")
        context = ssl.create_default_context()
        authority.configure_trust(context)
        client.configure_cert(context)
        connection = http.client.HTTPSConnection("127.0.0.1", served.http_port, context=context)
        assert _posted(connection, wire, {})[0] == "OK"
    assert [entry.tenant for entry in served.journal.entries] == ["acme", "acme", "default", "default"]


def test_a_whole_subject_is_written_as_grpc_writes_it() -> None:
    subject = ((("countryName", "DE"),), (("organizationName", "Shop, Inc."),), (("commonName", "agénts"),))
    assert subjects_of({"subject": subject}) == ("agénts", "CN=ag\\C3\\A9nts,O=Shop\\, Inc.,C=DE")
    several = ((("organizationName", "Shop"),), (("commonName", "agents"), ("userId", "u1")))
    assert subjects_of({"subject": several}) == ("agents", "UID=u1+CN=agents,O=Shop")  # what stands together, too
    assert subjects_of({}) == subjects_of(None) == ()


@each(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.7:5000", "10.0.0.7"),
        ("ipv6:%5B::1%5D:5000", "::1"),
        ("ipv6:[fe80::1%25eth0]:5000", "fe80::1%eth0"),
        ("unix:/tmp/socket", ""),
        ("", ""),
    ],
)
def test_a_peer_of_grpc_has_an_address(peer: str, address: str) -> None:
    assert grpc_address(peer) == address


@each("address", ["10.0.0.7", "::ffff:10.0.0.7", "fd00::7%eth0"])
def test_a_proxy_is_known_in_each_spelling_of_its_address(address: str) -> None:
    settings = AccessSettings(tenant_header="x-tenant", trusted_proxies=["10.0.0.7", "fd00::/64"])
    assert SenderTenants(settings).tenant_of(Sender(None, ["acme"], address)) == "acme"


def test_the_tenant_of_a_token_goes_before_that_of_a_certificate() -> None:
    tenants = SenderTenants(AccessSettings(tenants_by_subject={"agents": "globex"}))
    token = Caller(EVERYTHING, "acme", "agents")
    assert [tenants.tenant_of(Sender(one, [], "", ("agents",))) for one in (token, None)] == ["acme", "globex"]


def test_who_may_send_for_every_tenant_sends_for_the_one_that_the_proxy_names() -> None:
    tenants = SenderTenants(AccessSettings(tenant_header="x-tenant", trusted_proxies=["10.0.0.7"]))
    operator = Caller(EVERYTHING, None, "proxy")
    assert tenants.tenant_of(Sender(operator, ["acme"], "10.0.0.7")) == "acme"
    assert isinstance(tenants.tenant_of(Sender(operator, ["acme"], "")), Refused)


@each(
    ("wrong", "said"),
    [
        ({"tenant_header": "x-tenant"}, "is believed from trusted_proxies alone, and there are none"),
        ({"tenant_header": "x tenant", "trusted_proxies": ["::1"]}, "expected the name of a header"),
        ({"tenant_header": "Authorization", "trusted_proxies": ["::1"]}, "expected the name of a header"),
        ({"trusted_proxies": ["proxy.example"]}, "expected addresses of proxies such as '10.0.0.7'"),
        ({"trusted_proxies": ["0.0.0.0/0"]}, "found '0.0.0.0/0', which is everybody's"),
        ({"tenants_by_subject": {"agents": "a/b"}}, "expected a tenant of 1 to 64 letters"),
    ],
)
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        AccessSettings.model_validate(wrong)
