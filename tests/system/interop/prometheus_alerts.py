"""The examples in ``deploy/`` with a real Prometheus and a real Alertmanager, at 120 times the speed.

An hour of the rules is 30 s here: every time in the files is divided. Nothing else of them is changed but addresses.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml
from end_to_end.test_alert import FELL, RULE, Webhook, remember
from interop import peers
from interop.peers import Place, Row

from build.otlp import agent_span, payload, tool_span
from build.served import Server, export
from waiting import eventually

DEPLOY = Path(__file__).parents[3] / "deploy"
SPEED = 120

_MILLISECONDS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

BOTH = "Prometheus, Alertmanager"
GOOD = ("check_inventory", "create_order")
BAD = ("create_order",)


def faster(text: str) -> str:
    """`text` with every duration divided by `SPEED`."""
    text = re.sub(r"(?<=time\(\) - )\d+", lambda found: str(int(found[0]) // SPEED), text)
    return re.sub(r"\b(\d+)([smhd])\b", lambda found: f"{int(found[1]) * _MILLISECONDS[found[2]] // SPEED}ms", text)


class Scene:
    """A server that Prometheus scrapes, and everything that Alertmanager's webhook was told."""

    def __init__(self, server: Server, prometheus: str, hook: Webhook) -> None:
        self.server = server
        self._prometheus = prometheus
        self._hook = hook
        self._sent = 0
        self.known = 0  # how many notifications were looked at

    def send(self, service: str, tools: tuple[str, ...], number: int) -> None:
        """So many runs of the agent, at once."""
        for trace in range(self._sent + 1, self._sent + number + 1):
            calls = [tool_span(trace, 2 + order, 1, tool) for order, tool in enumerate(tools)]
            export(self.server.endpoints["grpc"], payload([agent_span(trace, 1), *calls], service))
        self._sent += number

    def api(self, path: str, **arguments: object) -> Any:
        with urlopen(f"{self._prometheus}/api/v1/{path}?{urlencode(arguments)}", timeout=10) as response:
            return json.load(response)["data"]

    def values(self, expression: str) -> list[float]:
        """What an expression gives now."""
        return [float(item["value"][1]) for item in self.api("query", query=expression)["result"]]

    def told(self, status: str) -> set[tuple[str, str]]:
        """(alert, service) of all that the webhook was told since `known`."""
        return {
            (alert["labels"]["alertname"], alert["labels"].get("service", ""))
            for posted in self._hook.posted[self.known :]
            for alert in posted["alerts"]
            if alert["status"] == status
        }

    def until(self, look: Callable[[], Any], what: str) -> Any:
        return eventually(look, what, every_s=0.2)

    def until_told(self, status: str, *expected: tuple[str, str]) -> None:
        try:
            self.until(lambda: set(expected) <= self.told(status), "notifications")
        except AssertionError:
            raise AssertionError(f"expected {expected} to be {status}; told: {self.told(status)}") from None

    def forget(self) -> None:
        """Look at later notifications alone."""
        self.known = len(self._hook.posted)


def prometheus(place: Place) -> Iterator[Row]:
    """The example rules tell of total failure from the first result, of a fall, and of a failure after a restart."""
    with scene_of(place) as scene:
        yield from _fails_from_the_first_result(scene)
        yield from _falls(scene)
        yield from _fails_after_a_restart(scene)


def _fails_from_the_first_result(scene: Scene) -> Iterator[Row]:
    expected = [("TraceGradePassRateLow", "broken"), ("TraceGradeAlertFires", "broken")]
    scene.send("broken", BAD, 40)
    scene.until_told("firing", *expected)
    assert {service for _, service in scene.told("firing")} - {""} == {"broken"}  # "": of TraceGrade's health
    yield Row(BOTH, "all of the first 40 runs fail, at once", "PassRateLow, AlertFires firing")
    (firing,) = scene.api("query", query="tracegrade_alerts_firing == 1")["result"]
    assert firing["metric"].items() >= {"service": "broken", "agent": "order-agent", "level": "high"}.items()
    found = scene.api("query_exemplars", query="tracegrade_evaluations_total", start=0, end=9_999_999_999)
    exemplars = [item for series in found for item in series["exemplars"]]
    assert exemplars
    assert all(1 <= int(item["labels"]["trace_id"], 16) <= 40 for item in exemplars)
    yield Row("Prometheus", "GET /api/v1/query_exemplars", f"{len(exemplars)}, each names a trace that was sent")


def _falls(scene: Scene) -> Iterator[Row]:
    scene.forget()
    scene.send("falling", GOOD, 150)
    lower = 'tracegrade:pass_rate:lower7d{service="falling"}'
    scene.until(lambda: scene.values(f"{lower} > 0.9"), "the week before")
    scene.until_told("resolved", ("TraceGradePassRateLow", "broken"))
    assert not [told for told in scene.told("firing") if told[1] == "falling"]
    yield Row(BOTH, "150 good runs; an hour without any of the other", "the other resolved, no more")
    scene.send("falling", BAD, 40)
    scene.until_told("firing", ("TraceGradePassRateFell", "falling"), ("TraceGradePassRateLow", "falling"))
    yield Row(BOTH, "then 40 of 40 fail", "PassRateFell, PassRateLow firing")
    scene.until_told("resolved", ("TraceGradePassRateFell", "falling"), ("TraceGradePassRateLow", "falling"))
    yield Row(BOTH, "an hour later", "both resolved")


def _fails_after_a_restart(scene: Scene) -> Iterator[Row]:
    scene.forget()
    scene.server.stop()
    scene.server.start()
    outcomes = 'tracegrade_evaluations_total{service="falling"} == 0'
    scene.until(lambda: len(scene.values(outcomes)) == 4, "every outcome at 0")
    assert not [name for name, _ in scene.told("firing") if name.startswith("TraceGradePassRate")]
    yield Row("Prometheus", "restart, no run since", "4 outcomes of each service at 0; no rate fires")
    scene.send("falling", BAD, 40)
    scene.until_told("firing", ("TraceGradePassRateLow", "falling"))
    yield Row(BOTH, "all of the first 40 runs after it fail, at once", "PassRateLow firing")


@contextmanager
def scene_of(place: Place, *more_rules: dict[str, Any], **settings: Any) -> Iterator[Scene]:
    """A server with a rule whose alert fires at the service `broken`, scraped by a Prometheus that notifies."""
    folder = place.new("prometheus")
    rules = folder / "rules"
    rules.mkdir()
    for number, rule in enumerate((RULE, *more_rules)):
        (rules / f"{number}.rule.yaml").write_text(json.dumps(rule))
    fixed = {"telemetry": {"endpoint": f"127.0.0.1:{peers.free_port()}"}}  # the same after the restart
    alerts = {"interval": "200ms"}
    hook = Webhook()
    hook.refusals = 0
    # Only the alert of the rule itself knows it: evidence takes hours. Metrics count what comes.
    remember(folder / "data", FELL, time.time_ns(), "broken")
    server = Server(folder, rules={"paths": [str(rules)]}, alerts=alerts, **fixed, **settings)
    server.start()
    try:
        config = (DEPLOY / "alertmanager.example.yaml").read_text()
        config = re.sub(r"http://127\.0\.0\.1:9095", f"http://127.0.0.1:{hook.server_port}", faster(config))
        with peers.alertmanager(place.installed, folder / "alertmanager", config) as address:
            _write_prometheus_files(folder, server.endpoints["telemetry"], address.removeprefix("http://"))
            with peers.prometheus(place.installed, folder) as found:
                scene = Scene(server, found, hook)
                scene.until(lambda: scene.values("up == 1"), "the first scrape")
                yield scene
    finally:
        server.stop()
        hook.shutdown()
        hook.server_close()


def _write_prometheus_files(folder: Path, scraped: str, alertmanager: str) -> None:
    config: dict[str, Any] = yaml.safe_load((DEPLOY / "compose" / "prometheus.yaml").read_text())
    config["global"] = {"evaluation_interval": "1s"}
    (job,) = config["scrape_configs"]
    job |= {"scrape_interval": "1s", "static_configs": [{"targets": [scraped]}]}
    config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]}
    config["rule_files"] = ["tracegrade.alerts.example.yaml", "tracegrade.score-alerts.example.yaml"]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    for name in config["rule_files"]:
        (folder / name).write_text(faster((DEPLOY / name).read_text()))
