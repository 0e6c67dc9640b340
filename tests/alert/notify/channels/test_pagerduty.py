from dataclasses import replace

from pydantic import SecretStr

from build.listening import ALERT, INCIDENT, LINES, LINKS, NOW_NS, PAGE, SUMMARY, Server, incident
from tracegrade.alert.notify.channels.pagerduty import PagerDuty
from tracegrade.alert.notify.settings import PagerDutySettings


def pagerduty(server: Server) -> PagerDuty:
    return PagerDuty("pd", PagerDutySettings(routing_key=SecretStr("R0"), url=server.url), LINKS)


def test_a_firing_is_triggered_and_resolved_by_one_key(server: Server) -> None:
    channel = pagerduty(server)
    assert channel.send(INCIDENT, NOW_NS) is None
    assert channel.send(incident(replace(ALERT, state="resolved", ends_ns=NOW_NS)), NOW_NS) is None
    triggered, resolved = (body for _, body in server.requests)
    assert (triggered["event_action"], resolved["event_action"]) == ("trigger", "resolve")
    assert triggered["dedup_key"] == resolved["dedup_key"] == INCIDENT.id
    assert (triggered["routing_key"], triggered["client_url"]) == ("R0", PAGE)
    assert triggered["links"] == [{"href": LINKS.trace("aa" * 16), "text": f"trace {'aa' * 16}"}]
    payload = triggered["payload"]
    assert payload.pop("custom_details")["details"] == LINES
    assert payload == {
        "summary": SUMMARY,
        "source": "shop",
        "severity": "error",
        "timestamp": "2026-01-01T00:00:00Z",
        "component": "support",
        "group": "checkout-order",
        "class": "below",
    }


def test_a_refusal_is_a_failure(server: Server) -> None:
    server.status = 429
    assert pagerduty(server).send(INCIDENT, NOW_NS) == "answered 429"
    assert len(server.requests) == 1
