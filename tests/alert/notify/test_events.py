import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from build.listening import LINKS, PAGE
from build.stored_alerts import ALERT, INCIDENT, incident
from tracegrade.alert.notify.events import AlertEvents, event
from tracegrade.alert.notify.message import summary
from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import Answer

NOW_NS = ALERT.starts_ns + 60_000_000_000


class Client:
    """Takes notes, and answers as it is told."""

    def __init__(self) -> None:
        self.answer = Answer("sent")
        self.requests: list[tuple[Signal, ExportLogsServiceRequest]] = []

    async def export(self, signal: Signal, payload: bytes) -> Answer:
        self.requests.append((signal, ExportLogsServiceRequest.FromString(payload)))
        return self.answer


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_firing_and_its_end_are_events_of_the_service(loop: asyncio.AbstractEventLoop) -> None:
    client = Client()
    over = replace(ALERT, state="resolved", ends_ns=NOW_NS)
    events = AlertEvents("exporters.otlp", client, loop)
    assert [events.send(each, NOW_NS) for each in (INCIDENT, incident(over))] == [None, None]
    (signal, request), (_, last) = client.requests
    assert signal is Signal.LOGS
    (resource,) = request.resource_logs
    named = {item.key: item.value.string_value for item in resource.resource.attributes}
    assert named == {"service.name": "shop", "service.version": "1.1"}
    (scope,) = resource.scope_logs
    assert scope.scope.name == "tracegrade"
    (firing,), (resolved,) = scope.log_records, last.resource_logs[0].scope_logs[0].log_records
    assert (firing.event_name, firing.severity_text, firing.time_unix_nano) == (
        "tracegrade.alert",
        "ERROR",
        ALERT.starts_ns,
    )
    assert (resolved.event_name, resolved.severity_text, resolved.time_unix_nano) == (
        "tracegrade.alert",
        "INFO",
        NOW_NS,
    )
    assert "pass rate 50% is below 95%" in firing.body.string_value
    texts = {item.key: item.value.string_value for item in firing.attributes if item.value.string_value}
    assert texts == {
        "event.name": "tracegrade.alert",
        "tracegrade.alert.state": "firing",
        "tracegrade.alert.key": INCIDENT.id,
        "tracegrade.alert.kind": "below",
        "tracegrade.alert.of": "pass_rate",
        "tracegrade.rule.id": "checkout-order",
        "tracegrade.rule.hash": "0123456789abcdef",
        "tracegrade.rule.level": "high",
        "tracegrade.tenant": "default",
        "gen_ai.agent.name": "support",
    }
    numbers = {item.key: item.value.double_value for item in firing.attributes if item.value.HasField("double_value")}
    assert numbers == {
        "tracegrade.alert.value": 0.5,
        "tracegrade.alert.low": 0.35,
        "tracegrade.alert.high": 0.65,
        "tracegrade.alert.bound": 0.95,
    }
    lists = {
        item.key: [value.string_value for value in item.value.array_value.values]
        for item in firing.attributes
        if item.value.HasField("array_value")
    }
    assert lists == {
        "tracegrade.alert.traces": ["aa" * 16],
        "tracegrade.alert.changed": ["release 1.1 first seen at 00:00 UTC"],
        "tracegrade.alert.members": [summary(ALERT)],
    }


def test_an_event_links_to_the_page_of_its_incident_where_that_is_known() -> None:
    def links_of(encoded: bytes) -> list[str]:
        attributes = LogRecord.FromString(encoded).attributes
        return [one.value.string_value for one in attributes if one.key == "tracegrade.alert.url"]

    assert links_of(event(INCIDENT, LINKS)) == [PAGE]
    assert links_of(event(INCIDENT)) == []


def test_the_same_alert_is_the_same_event() -> None:
    assert event(INCIDENT) == event(replace(incident(replace(ALERT, updated_ns=NOW_NS)), notified={}))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer("retry", "unavailable", message="away"), "unavailable away"),
        (Answer("failed", "unimplemented"), "unimplemented"),
        (Answer("sent", rejected=1, message="no logs here"), "rejected no logs here"),
    ],
)
def test_what_was_not_taken_is_a_failure(loop: asyncio.AbstractEventLoop, answer: Answer, said: str) -> None:
    client = Client()
    client.answer = answer
    assert AlertEvents("exporters.otlp", client, loop).send(INCIDENT, NOW_NS) == said
