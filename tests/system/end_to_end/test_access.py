"""A receiver with TLS and tokens as ``serve`` runs it, another ``serve`` that sends to it, and files that change."""

from pathlib import Path

import grpc
import pytest
import trustme

from build.otlp import agent_span, payload
from build.served import TRACES, Server, export, served
from waiting import eventually

pytestmark = pytest.mark.long


def issue(authority: trustme.CA, folder: Path) -> None:
    """A certificate for 127.0.0.1 and its authority, in place of those that are there."""
    issued = authority.issue_cert("127.0.0.1")
    written = {
        "cert.pem": issued.cert_chain_pems[0],
        "key.pem": issued.private_key_pem,
        "ca.pem": authority.cert_pem,
    }
    for name, blob in written.items():
        blob.write_to_path(folder / "new")
        (folder / "new").replace(folder / name)


def code(server: Server, authority: trustme.CA, token: str) -> str:
    """What a sender of one request is answered that trusts `authority` and sends `token`."""
    credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
    with grpc.secure_channel(server.endpoints["grpc"], credentials) as channel:
        try:
            channel.unary_unary(TRACES)(payload([agent_span(1, 1)]), metadata=[("authorization", f"Bearer {token}")])
        except grpc.RpcError as error:
            return error.code().name
    return "OK"


def test_certificates_and_tokens_are_asked_for_and_change_without_a_restart(tmp_path: Path) -> None:
    for name in ("near", "far"):
        (tmp_path / name).mkdir()
    far, (first, second) = tmp_path / "far", (trustme.CA(), trustme.CA())
    issue(first, far)
    (far / "tokens").write_text("token-of-sender-1\ntoken-of-sender-2\n")
    grpc_settings = {
        "endpoint": "127.0.0.1:0",
        "tls": {"cert_file": str(far / "cert.pem"), "key_file": str(far / "key.pem")},
        "auth": {"token_file": str(far / "tokens")},
    }
    receivers = {"otlp": {"protocols": {"grpc": grpc_settings}}}
    with served(far, receivers=receivers, rules={"paths": []}) as receiver:
        assert code(receiver, first, "token-of-sender-1") == "OK"
        assert code(receiver, first, "token-of-sender-3") == "UNAUTHENTICATED"
        assert code(receiver, second, "token-of-sender-1") == "UNAVAILABLE"
        exporter = {
            "endpoint": receiver.endpoints["grpc"],
            "tls": {"ca_file": str(far / "ca.pem")},
            "headers": {"authorization": "Bearer token-of-sender-2"},
            "retry_on_failure": {"initial_interval": "50ms", "max_interval": "200ms", "max_elapsed_time": "0s"},
        }
        with served(tmp_path / "near", exporters={"otlp": exporter}, rules={"paths": []}) as sender:

            def sent() -> float:
                return sender.metric("tracegrade_exporter_sent_requests_total", "receive", signal="traces")

            export(sender.endpoints["grpc"], payload([agent_span(2, 1)]))
            eventually(lambda: sent() == 1, "a request that was let in")
            issue(second, far)
            (far / "tokens").write_text("token-of-sender-2\n")
            eventually(lambda: code(receiver, second, "token-of-sender-1") == "UNAUTHENTICATED", "the new files")
            assert code(receiver, first, "token-of-sender-2") == "UNAVAILABLE"
            assert code(receiver, second, "token-of-sender-2") == "OK"
            # A connection that is there goes on; a new one, which both ends have new files for, does too.
            export(sender.endpoints["grpc"], payload([agent_span(3, 1)]))
            eventually(lambda: sent() == 2, "a request that was let in after the change")
        assert "token-of" not in receiver.log + sender.log
