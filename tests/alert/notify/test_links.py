import pytest
from pydantic import ValidationError

from build import each
from build.stored_alerts import INCIDENT
from tracegrade.alert.notify.links import NO_LINKS
from tracegrade.alert.notify.message import annotations, details
from tracegrade.alert.settings import AlertsSettings


@each(
    ("settings", "trace"),
    [
        ({}, "ab"),
        ({"external_url": "https://tg.example/"}, "https://tg.example/traces/ab"),
        ({"trace_url": "https://jaeger.example/trace/{trace_id}?x=1"}, "https://jaeger.example/trace/ab?x=1"),
        (
            {"external_url": "https://tg.example", "trace_url": "https://tempo.example/{trace_id}"},
            "https://tempo.example/ab",
        ),
    ],
)
def test_traces_are_where_the_settings_say(settings: dict[str, str], trace: str) -> None:
    assert AlertsSettings.model_validate(settings).links.trace("ab") == trace


def test_every_notification_names_the_runbook_of_its_rule_where_the_settings_do() -> None:
    links = AlertsSettings.model_validate({"runbook_url": "https://wiki.example/r/{rule}?v=1"}).links
    assert links.runbook("a rule/é") == "https://wiki.example/r/a%20rule%2F%C3%A9?v=1"
    address = "https://wiki.example/r/checkout-order?v=1"
    assert details(INCIDENT, links)[-1] == f"Runbook: {address}"
    assert annotations(INCIDENT, links)["runbook_url"] == address
    assert "runbook_url" not in annotations(INCIDENT, NO_LINKS)
    assert not any("Runbook" in line for line in details(INCIDENT, NO_LINKS))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"runbook_url": "wiki.example/{rule}"}, "expected http"),
        ({"trace_url": "https://jaeger.example/trace/"}, r"expected {trace_id} in it"),
        ({"trace_url": "jaeger.example/{trace_id}"}, "expected http"),
        ({"external_url": "tg.example"}, "expected http"),
    ],
)
def test_an_address_that_cannot_be_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        AlertsSettings.model_validate(settings)
