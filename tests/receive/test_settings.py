from typing import Any

import pytest
from pydantic import ValidationError

from build import each
from tracegrade.receive.settings import OtlpReceiverSettings, ReceiversSettings, split_endpoint


def test_7_11_both_protocols_are_on_with_their_ports_and_bounds_by_default() -> None:
    protocols = ReceiversSettings().otlp.protocols
    assert protocols.grpc is not None
    assert protocols.http is not None
    assert (protocols.grpc.endpoint, protocols.http.endpoint) == ("127.0.0.1:4317", "127.0.0.1:4318")
    assert protocols.grpc.max_recv_msg_size_bytes == protocols.http.max_request_body_size_bytes == 64 * 2**20


@each("written", [None, {}])
def test_presence_of_a_key_enables_its_protocol_and_no_other(written: Any) -> None:
    protocols = OtlpReceiverSettings.model_validate({"protocols": {"http": written}}).protocols
    assert protocols.grpc is None
    assert protocols.http is not None
    assert protocols.http.endpoint == "127.0.0.1:4318"


def test_a_receiver_without_a_protocol_is_refused() -> None:
    with pytest.raises(ValidationError, match="expected grpc, http or both"):
        OtlpReceiverSettings.model_validate({"protocols": {}})


TLS = {"cert_file": "c", "key_file": "k"}
AUTH = {"token_file": "tokens"}


@each("endpoint", ["0.0.0.0:4317", "[::]:4317", "192.168.0.4:4317", "collector:4317"])
@each(
    ("settings", "missing"),
    [
        ({}, r"no tls and no auth \(or tls.client_ca_file\); set tls and auth"),
        ({"tls": TLS}, r"no auth \(or tls.client_ca_file\); set auth"),
        ({"auth": AUTH}, "no tls; set tls"),
        ({"tls": TLS, "auth": AUTH}, None),
        ({"tls": {**TLS, "client_ca_file": "ca"}}, None),
        ({"insecure": True}, None),
    ],
)
def test_to_be_open_to_other_machines_without_tls_and_auth_must_be_asked_for(
    endpoint: str, settings: dict[str, Any], missing: str | None
) -> None:
    protocols = {"protocols": {"grpc": {"endpoint": endpoint, **settings}}}
    if missing is None:
        OtlpReceiverSettings.model_validate(protocols)
    else:
        with pytest.raises(ValidationError, match=f"can be reached from other machines and has {missing}"):
            OtlpReceiverSettings.model_validate(protocols)


@each("endpoint", ["127.0.0.1:4317", "127.9.9.9:1", "localhost:4317", "[::1]:4317"])
def test_loopback_needs_neither(endpoint: str) -> None:
    OtlpReceiverSettings.model_validate({"protocols": {"grpc": {"endpoint": endpoint}}})


@each("endpoint", ["collector", ":4317", "host:", "host:x", "host:70000", "host:٣", "http://127.0.0.1:4318", ""])
def test_an_endpoint_is_host_and_port(endpoint: str) -> None:
    with pytest.raises(ValidationError, match="expected host:port"):
        OtlpReceiverSettings.model_validate({"protocols": {"grpc": {"endpoint": endpoint}}})


def test_addresses_of_version_6_lose_their_brackets() -> None:
    assert split_endpoint("[::1]:4317") == ("::1", 4317)


@each(
    "wrong",
    [
        {"auth": {"authenticator": "bearer"}},  # another's way of saying it: silently open would be worse than refused
        {"protocols": {"grpc": {"auth": {"tokens": [""]}}}},
        {"protocols": {"http": {"auth": {"tokens": ["Bearer a-secret-of-the-page"]}}}},
        {"protocols": {"http": {"max_connections": 0}}},
        {"protocols": {"http": {"read_timeout": "0s"}}},
        {"protocols": {"grpc": {"max_recv_msg_size_mib": 0}}},
        {"protocols": {"grpc": {"tls": {"cert_file": "only"}}}},
        {"protocols": {"http": {"max_request_body_size_mib": "64"}}},
        {"protocols": {"http": {"read_timeout": 30}}},
        {"protocols": {"thrift": {}}},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OtlpReceiverSettings.model_validate(wrong)


def test_room_for_requests_in_work_is_at_least_twice_the_largest() -> None:
    small = {"grpc": {"max_recv_msg_size_mib": 64}}
    OtlpReceiverSettings.model_validate({"protocols": small, "max_in_flight_mib": 128})
    with pytest.raises(ValidationError, match="max_in_flight_mib: expected at least 128"):
        OtlpReceiverSettings.model_validate({"protocols": small, "max_in_flight_mib": 127})
