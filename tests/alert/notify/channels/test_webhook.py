import base64
import hashlib
import hmac
from dataclasses import replace
from importlib.metadata import version

import pytest
from pydantic import SecretStr

from build.listening import ALERT, INCIDENT, LINES, LINKS, NOW_NS, PAGE, SUMMARY, Server, incident
from tracegrade.alert.notify.channels.webhook import Webhook, payload
from tracegrade.alert.notify.links import NO_LINKS
from tracegrade.alert.notify.message import summary
from tracegrade.alert.notify.settings import WebhookSettings


def test_a_notification_has_alertmanager_s_form() -> None:
    ended = replace(ALERT, service="bank", state="resolved", value=0.97, ends_ns=NOW_NS)
    found = payload("pager", incident(ALERT, ended), LINKS)
    (firing,) = found.pop("alerts")
    also = "Also resolved: " + summary(ended)
    assert found == {
        "version": "4",
        "groupKey": f'{{}}:{{incident="{INCIDENT.id}"}}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "pager",
        "groupLabels": {"incident": INCIDENT.id},
        "commonLabels": {
            "alertname": "checkout-order",
            "rule": "checkout-order",
            "rule_hash": "01234567",
            "kind": "below",
            "of": "pass_rate",
            "service": "shop",
            "agent": "support",
            "release": "1.1",
            "tenant": "default",
            "level": "high",
            "severity": "high",
            "incident": INCIDENT.id,
        },
        "commonAnnotations": {
            "summary": f"{SUMMARY} (+1 alert)",
            "description": "\n".join([*LINES, also]),
            "dedup_key": INCIDENT.id,
        },
        "externalURL": "http://tracegrade",
        "incident": {
            "id": INCIDENT.id,
            "members": [
                {"state": alert.state, "summary": summary(alert), "labels": alert.labels} for alert in (ALERT, ended)
            ],
        },
    }
    assert "pass rate recovered to 97% (40 results)" in also
    assert firing == {
        "status": "firing",
        "labels": found["commonLabels"],
        "annotations": found["commonAnnotations"],
        "startsAt": "2026-01-01T00:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": PAGE,
        "fingerprint": "ab" * 16,
    }


def test_only_resolved_alerts_make_a_resolved_notification() -> None:
    resolved = replace(ALERT, state="resolved", ends_ns=ALERT.starts_ns)
    found = payload("pager", incident(resolved), NO_LINKS)
    assert (found["status"], found["alerts"][0]["endsAt"]) == ("resolved", "2026-01-01T00:00:00Z")


def test_it_is_posted_with_the_headers_of_the_settings(server: Server) -> None:
    webhook = Webhook(
        "pager", WebhookSettings(url=SecretStr(server.url), headers={"Authorization": SecretStr("Bearer x")}), NO_LINKS
    )
    assert webhook.send(INCIDENT, NOW_NS) is None
    webhook.close()
    ((headers, body),) = server.requests
    assert headers["Authorization"] == "Bearer x"
    assert headers["User-Agent"] == f"tracegrade/{version('tracegrade')}"
    assert "webhook-signature" not in headers
    assert body == payload("pager", INCIDENT, NO_LINKS)


def test_who_knows_the_secret_can_tell_that_it_is_ours(server: Server) -> None:
    webhook = Webhook("pager", WebhookSettings(url=SecretStr(server.url), secret=SecretStr("s3cret")), NO_LINKS)
    assert webhook.send(INCIDENT, NOW_NS) is None
    webhook.close()
    ((headers, _),) = server.requests
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (INCIDENT.id, "1767225660")
    signed = f"{INCIDENT.id}.1767225660.".encode() + server.bodies[0]
    expected = base64.b64encode(hmac.new(b"s3cret", signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"


@pytest.mark.parametrize("status", [302, 400, 503])
def test_any_other_answer_than_success_is_a_failure(server: Server, status: int) -> None:
    server.status = status
    webhook = Webhook("pager", WebhookSettings(url=SecretStr(server.url)), NO_LINKS)
    assert webhook.send(INCIDENT, NOW_NS) == f"answered {status}"
    webhook.close()
    assert len(server.requests) == 1, "a redirection is not followed: headers would go elsewhere"


def test_user_and_password_in_the_address_are_sent_unless_a_header_says_another(server: Server) -> None:
    url = SecretStr(server.url.replace("//", "//me:p%40ss@"))
    for headers in ({}, {"authorization": SecretStr("Bearer x")}):
        webhook = Webhook("pager", WebhookSettings(url=url, headers=headers), NO_LINKS)
        assert webhook.send(INCIDENT, NOW_NS) is None
        webhook.close()
    expected = ["Basic " + base64.b64encode(b"me:p@ss").decode(), "Bearer x"]
    assert [headers.get("Authorization", headers.get("authorization")) for headers, _ in server.requests] == expected


@pytest.mark.parametrize("scheme", ["http://", ""])
def test_it_goes_by_the_proxy_that_the_environment_names(
    server: Server, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.replace("http://", f"{scheme}me:s3cret@"))
    monkeypatch.setenv("no_proxy", "")
    webhook = Webhook("pager", WebhookSettings(url=SecretStr("http://me:own@pager.invalid/x")), NO_LINKS)
    assert webhook.send(INCIDENT, NOW_NS) is None
    webhook.close()
    ((headers, _),) = server.requests
    assert (server.paths, headers["Host"]) == (["http://pager.invalid/x"], "pager.invalid")
    assert headers["proxy-authorization"] == "Basic " + base64.b64encode(b"me:s3cret").decode()


def test_a_proxy_of_another_kind_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    webhook = Webhook("pager", WebhookSettings(url=SecretStr("http://pager.invalid/x")), NO_LINKS)
    assert webhook.send(INCIDENT, NOW_NS) == "pager.invalid cannot be reached: ProxySchemeUnknown"
    webhook.close()


def test_a_place_that_is_not_there_is_a_failure(server: Server) -> None:
    server.server_close()
    webhook = Webhook("pager", WebhookSettings(url=SecretStr(server.url)), NO_LINKS)
    # Whether the connection is refused or reset is a matter of the moment.
    place = server.url.split("/")[2]
    reasons = ("Connection refused", "Connection reset by peer", "Remote end closed connection without response")
    assert webhook.send(INCIDENT, NOW_NS) in [f"{place} cannot be reached: {reason}" for reason in reasons]
    webhook.close()
