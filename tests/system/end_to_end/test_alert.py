"""An alert fires, is stored, is told to a webhook in Alertmanager's form, and resolves.

Evidence takes hours, so a store is given a history before ``serve`` starts. What comes while it runs is the rest.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from build.judged_traces import evaluation, judged
from build.loop_stage import Channel
from build.otlp import agent_span, payload, tool_span
from build.served import LOGS, Downstream, Server, export, exporter, served
from tracegrade.alert.loop import AlertLoop, Recipients
from tracegrade.model.trace_result import TraceResult
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store
from tracegrade.store.write import StoreWriter
from tracegrade.telemetry.metrics import Telemetry
from waiting import eventually

pytestmark = pytest.mark.long

HOUR_NS = 3600 * 10**9
AN_HOUR = 5  # results, in a history
MISSING = 8  # results, until an alert may fire whose history was FELL

# Six hours of passes, then six of fails: hours ago, and the outcome from then until the next.
FELL = ((12, "pass"), (6, "fail"))

RULE: dict[str, Any] = {
    "id": "order-without-check",
    "title": "Orders are checked before they are created",
    "level": "high",
    "match": {"agent": "order-agent"},
    "evaluate": [{"evaluator": "tool-call-order", "tool_calls_order": ["check_inventory", "create_order"]}],
    "alert": [{"below": 0.6, "of": "pass_rate", "over": "1h", "min_samples": 12 * AN_HOUR + MISSING}],
}
WITHOUT_ALERT = {name: value for name, value in RULE.items() if name != "alert"}


def at(service: str) -> dict[str, Any]:
    """`RULE` for one service: what it finds is an incident of its own."""
    return {**RULE, "id": f"order-without-check-at-{service}", "match": {**RULE["match"], "service": service}}


def remember(
    data: Path,
    history: tuple[tuple[int, str], ...],
    now_ns: int,
    *services: str,
    rule_at: Callable[[str], dict[str, Any]] = lambda service: RULE,
    said: Mapping[str, Any] | None = None,
) -> None:
    """Store results of rules as if their agent had run at these services for hours before `now_ns`.

    `said`: what evaluations have beside that.
    """
    data.mkdir(exist_ok=True)
    engine = open_store(f"sqlite:///{data / 'tracegrade.db'}")
    made = list[TraceResult]()
    for service in services:
        rule = Rule.model_validate(rule_at(service))
        for (first, outcome), (last, _) in zip(history, (*history[1:], (0, "")), strict=True):
            for number in range((first - last) * AN_HOUR):
                received_ns = now_ns - first * HOUR_NS + number * HOUR_NS // AN_HOUR
                trace = 1_000_000 + len(made)
                place: dict[str, Any] = {"service": service, "release": None}
                ours = {"rule_id": rule.id, "rule_hash": rule.hash, "agent": "order-agent"} | dict(said or {})
                found = evaluation(trace, outcome, **ours, score=1.0 if outcome == "pass" else 0.75, **place)
                times = {"first_received_ns": received_ns, "last_received_ns": received_ns}
                made.append(judged(trace, evaluations=[found], **place, **times))
    StoreWriter(engine).write(made)
    engine.dispose()


def send(server: Server, numbers: range, *tools: str, service: str = "demo-shop") -> None:
    """Traces of the agent that call these tools, one after another."""
    for number in numbers:
        calls = [tool_span(number, 2 + place, 1, tool) for place, tool in enumerate(tools)]
        export(server.endpoints["grpc"], payload([agent_span(number, 1), *calls], service))


class Webhook(ThreadingHTTPServer):
    """Keeps what is posted; refuses the first request, so that it has to be sent again."""

    before_answer: Callable[[], object] | None = None

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.refusals = 1
        super().__init__(("127.0.0.1", 0), _Post)
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Post(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        assert isinstance(server, Webhook)
        if server.refusals:
            server.refusals -= 1
            self.send_response(503)
        else:
            server.posted.append(json.loads(body))
            if server.before_answer is not None:
                server.before_answer()
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        return


def alert_events(downstream: Downstream) -> list[dict[str, str]]:
    """The text attributes of each alert that came downstream as a log event."""
    return [
        {item.key: item.value.string_value for item in record.attributes}
        for body in downstream.requests[LOGS]
        for resource in ExportLogsServiceRequest.FromString(body).resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
        if record.event_name == "tracegrade.alert"
    ]


@pytest.fixture
def downstream() -> Iterator[Downstream]:
    downstream = Downstream()
    yield downstream
    downstream.stop()


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    server = Webhook()
    yield server
    server.shutdown()
    server.server_close()


class Place:
    """A folder with the rule, and what ``serve`` is told to do with it."""

    def __init__(self, folder: Path, webhook: Webhook, downstream: Downstream) -> None:
        self.rule = folder / "rules" / "rule.yaml"
        self.rule.parent.mkdir()
        self.rule.write_text(json.dumps(RULE))
        hook = {"webhook": {"url": f"http://127.0.0.1:{webhook.server_port}/hook"}}
        others = {"tenants": ["globex"]}  # which sends nothing here
        self.settings = {
            "rules": {"paths": [str(self.rule.parent)], "reload": "200ms"},
            "alerts": {"interval": "200ms", "channels": {"ops": hook, "of-others": {**hook, **others}}},
            "exporters": {**exporter(downstream), "otlp/of-others": exporter(downstream, **others)["otlp"]},
        }


@pytest.fixture
def place(tmp_path: Path, webhook: Webhook, downstream: Downstream) -> Place:
    return Place(tmp_path, webhook, downstream)


def listed(server: Server) -> list[dict[str, Any]]:
    """Every alert of every incident, with who was notified of it."""
    shown = server.cli("alerts", "list", "--data-dir", str(server.data), "--format", "json")
    incidents = [json.loads(line) for line in shown.stdout.splitlines()]
    return [{**alert, "notified": each["notified"]} for each in incidents for alert in each["members"]]


def test_a_fall_below_the_bound_is_told_and_its_end_too(
    tmp_path: Path, place: Place, webhook: Webhook, downstream: Downstream
) -> None:
    remember(tmp_path / "data", FELL, time.time_ns(), "demo-shop")
    with served(tmp_path, **place.settings) as server:
        started_ns = time.time_ns()
        send(server, range(1, 1 + MISSING), "create_order")
        (fired,) = eventually(lambda: webhook.posted[:1], "the alert")
        assert (fired["version"], fired["status"], fired["receiver"]) == ("4", "firing", "ops")
        (alert,) = fired["alerts"]
        assert alert["labels"]["rule"] == "order-without-check"
        assert alert["labels"]["service"] == "demo-shop"
        (firing,) = listed(server)
        assert firing["state"] == "firing"
        assert firing["starts_ns"] > started_ns, "it fired with what came, as the history has too few results"
        assert len(firing["facts"]["worst"]) == 5

        place.rule.write_text(json.dumps(WITHOUT_ALERT))
        (resolved,) = eventually(lambda: webhook.posted[1:2], "the end of the alert")
        assert resolved["status"] == "resolved"
        assert resolved["alerts"][0]["fingerprint"] == alert["fingerprint"]
        assert [item["state"] for item in listed(server)] == ["resolved"]
        events = eventually(lambda: found if len(found := alert_events(downstream)) == 2 else None, "both log events")
        assert [event["tracegrade.alert.state"] for event in events] == ["firing", "resolved"]
        assert {event["tracegrade.alert.key"] for event in events} == {alert["annotations"]["dedup_key"]}


def test_an_alert_that_an_earlier_judge_told_is_resolved_by_the_results_since(
    tmp_path: Path, place: Place, webhook: Webhook, downstream: Downstream
) -> None:
    """It fired 24 hours ago; since then all passed."""
    now_ns = time.time_ns()
    remember(tmp_path / "data", ((48, "pass"), (36, "fail"), (24, "pass")), now_ns, "demo-shop")
    engine = open_store(f"sqlite:///{tmp_path / 'data' / 'tracegrade.db'}")
    earlier, rules = Channel("ops"), RuleSet([Rule.model_validate(RULE)])
    AlertLoop(engine, lambda: rules, Recipients([earlier]), Telemetry("judge")).step(now_ns - 24 * HOUR_NS)
    engine.dispose()
    assert [state for _, _, state in earlier.told] == ["firing"]
    with served(tmp_path, **place.settings) as server:
        (resolved,) = eventually(lambda: webhook.posted[:1], "the end of the alert")
        assert (resolved["status"], resolved["receiver"]) == ("resolved", "ops")
        assert [alert["annotations"]["dedup_key"] for alert in resolved["alerts"]] == earlier.keys
        (alert,) = listed(server)
        assert (alert["state"], alert["value"], alert["facts"]["ended_by"]) == ("resolved", 1.0, "")
        (event,) = eventually(lambda: alert_events(downstream), "the log event")
        assert event["tracegrade.alert.state"] == "resolved"
