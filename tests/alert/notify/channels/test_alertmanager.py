from dataclasses import replace

from build.listening import ALERT, INCIDENT, LINES, LINKS, NOW_NS, PAGE, SUMMARY, Server, incident
from tracegrade.alert.notify.channels.alertmanager import Alertmanager
from tracegrade.alert.notify.links import NO_LINKS
from tracegrade.alert.notify.settings import AlertmanagerSettings


def test_what_fires_is_posted_until_it_is_heard_of_again_and_what_ended_with_its_end(server: Server) -> None:
    channel = Alertmanager("am", AlertmanagerSettings(url=server.url.removesuffix("/hook")), LINKS)
    ended = replace(ALERT, state="resolved", ends_ns=NOW_NS, release=None)
    assert [channel.send(each, NOW_NS) for each in (INCIDENT, incident(ended))] == [None, None]
    channel.close()
    assert server.paths == ["/api/v2/alerts"] * 2
    ((_, (firing,)), (_, (resolved,))) = server.requests
    assert firing == {
        "labels": {
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
        "annotations": {"summary": SUMMARY, "description": "\n".join(LINES), "dedup_key": INCIDENT.id},
        "startsAt": "2026-01-01T00:00:00Z",
        "endsAt": "2026-01-01T00:05:00Z",
        "generatorURL": PAGE,
    }
    assert resolved["endsAt"] == "2026-01-01T00:01:00Z"
    assert "release" not in resolved["labels"], "Alertmanager takes an empty label for none"


def test_a_refusal_is_a_failure(server: Server) -> None:
    server.status = 500
    channel = Alertmanager("am", AlertmanagerSettings(url=server.url), NO_LINKS)
    assert channel.send(INCIDENT, NOW_NS) == "answered 500"
    channel.close()
