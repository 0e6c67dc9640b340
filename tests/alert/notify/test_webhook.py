import base64
import hashlib
import hmac
from dataclasses import replace
from importlib.metadata import version

import pytest
from pydantic import SecretStr

from alert.notify.listening import ALERT, GROUP, LINES, LINKS, NOW_NS, SUMMARY, Server
from tracegrade.alert.links import NO_LINKS
from tracegrade.alert.notify.webhook import Webhook, payload
from tracegrade.alert.settings import WebhookSettings


def test_a_notification_has_alertmanager_s_form() -> None:
    ended = replace(ALERT, service="bank", state="resolved", value=0.97, ends_ns=NOW_NS)
    found = payload("pager", GROUP, [ALERT, ended], LINKS)
    firing, resolved = found.pop("alerts")
    assert found == {
        "version": "4",
        "groupKey": '{}:{rule="checkout-order"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "pager",
        "groupLabels": {"rule": "checkout-order"},
        "commonLabels": {
            "alertname": "checkout-order",
            "rule": "checkout-order",
            "rule_hash": "01234567",
            "kind": "below",
            "of": "pass_rate",
            "agent": "support",
            "release": "1.1",
            "tenant": "default",
            "level": "high",
            "severity": "high",
        },
        "commonAnnotations": {"dedup_key": f"{'ab' * 16}-1767225600"},
        "externalURL": "http://tracegrade",
    }
    assert firing == {
        "status": "firing",
        "labels": {**found["commonLabels"], "service": "shop"},
        "annotations": {**found["commonAnnotations"], "summary": SUMMARY, "description": "\n".join(LINES)},
        "startsAt": "2026-01-01T00:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://tracegrade",
        "fingerprint": "ab" * 16,
    }
    assert (resolved["status"], resolved["endsAt"]) == ("resolved", "2026-01-01T00:01:00Z")
    assert "pass rate recovered to 97.0% (40 results)" in resolved["annotations"]["summary"]


def test_only_resolved_alerts_make_a_resolved_notification() -> None:
    resolved = replace(ALERT, state="resolved", ends_ns=ALERT.starts_ns)
    assert payload("pager", GROUP, [resolved], NO_LINKS)["status"] == "resolved"


def test_it_is_posted_with_the_headers_of_the_settings(server: Server) -> None:
    webhook = Webhook(
        "pager", WebhookSettings(url=SecretStr(server.url), headers={"Authorization": SecretStr("Bearer x")}), NO_LINKS
    )
    assert webhook.send(GROUP, [ALERT], NOW_NS) is None
    webhook.close()
    ((headers, body),) = server.requests
    assert headers["Authorization"] == "Bearer x"
    assert headers["User-Agent"] == f"tracegrade/{version('tracegrade')}"
    assert "webhook-signature" not in headers
    assert body == payload("pager", GROUP, [ALERT], NO_LINKS)


def test_who_knows_the_secret_can_tell_that_it_is_ours(server: Server) -> None:
    webhook = Webhook("pager", WebhookSettings(url=SecretStr(server.url), secret=SecretStr("s3cret")), NO_LINKS)
    assert webhook.send(GROUP, [ALERT], NOW_NS) is None
    webhook.close()
    ((headers, _),) = server.requests
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (ALERT.key, "1767225660")
    signed = f"{ALERT.key}.1767225660.".encode() + server.bodies[0]
    expected = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


@pytest.mark.parametrize("status", [302, 400, 503])
def test_any_other_answer_than_success_is_a_failure(server: Server, status: int) -> None:
    server.status = status
    webhook = Webhook("pager", WebhookSettings(url=SecretStr(server.url)), NO_LINKS)
    assert webhook.send(GROUP, [ALERT], NOW_NS) == f"answered {status}"
    webhook.close()
    assert len(server.requests) == 1, "a redirection is not followed: headers would go elsewhere"


def test_a_place_that_is_not_there_is_a_failure(server: Server) -> None:
    server.server_close()
    webhook = Webhook("pager", WebhookSettings(url=SecretStr(server.url)), NO_LINKS)
    assert webhook.send(GROUP, [ALERT], NOW_NS) == "cannot be reached: ConnectionError"
    webhook.close()
