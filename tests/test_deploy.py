"""The examples in ``deploy/``, beside the settings (``test_config.py``): they are what they say they are."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from starlette.routing import Route

from build.metric_snapshots import INSTANCE
from tracegrade.cli import main
from tracegrade.config import Config, load_config
from tracegrade.journal.kafka.produce import TENANT_HEADER
from tracegrade.journal.kafka.topics import USUAL_MAX_MESSAGE_BYTES, topic_names
from tracegrade.otlp.prometheus import prometheus_name
from tracegrade.serve.status import status_app
from tracegrade.telemetry.metrics import METRICS

DEPLOY = Path(__file__).parents[1] / "deploy"


def _read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text())


def _unit() -> dict[str, list[str]]:
    lines = (DEPLOY / "tracegrade.service").read_text().splitlines()
    settings: dict[str, list[str]] = {}
    for name, _, value in (line.partition("=") for line in lines if "=" in line and not line.startswith("#")):
        settings.setdefault(name, []).append(value)
    return settings


def test_the_collector_defines_every_component_that_its_pipelines_name() -> None:
    collector = _read("collector.example.yaml")
    pipelines = collector["service"]["pipelines"]
    assert set(pipelines) == {"traces", "logs", "metrics"}
    for pipeline in pipelines.values():
        assert set(pipeline["receivers"]) <= set(collector["receivers"])
        assert set(pipeline["exporters"]) <= set(collector["exporters"])
    storage = collector["exporters"]["otlp_grpc/tracegrade"]["sending_queue"]["storage"]
    assert storage in collector["extensions"]
    assert storage in collector["service"]["extensions"]


def test_the_collectors_batches_are_smaller_than_what_is_taken() -> None:
    batch = _read("collector.example.yaml")["exporters"]["otlp_grpc/tracegrade"]["sending_queue"]["batch"]
    grpc = Config().receivers.otlp.protocols.grpc
    assert grpc is not None
    assert batch["max_size"] * 1024 < grpc.max_recv_msg_size_bytes


def test_the_collector_writes_to_kafka_what_judges_expect() -> None:
    collector = _read("collector.kafka.example.yaml")
    exporter = collector["exporters"]["kafka"]
    settings = load_config(DEPLOY / "config.kafka.example.yaml").journal.kafka
    assert settings is not None
    topics = {signal: exporter[signal]["topic"] for signal in ("traces", "logs", "metrics")}
    assert topics == {"traces": settings.traces_topic, "logs": settings.logs_topic, "metrics": settings.metrics_topic}
    assert exporter["partition_traces_by_id"]
    assert exporter["partition_logs_by_trace_id"]
    assert exporter["include_metadata_keys"] == [TENANT_HEADER]
    assert (exporter["producer"]["required_acks"], exporter["producer"]["compression"]) == ("all", "lz4")
    assert exporter["producer"]["max_message_bytes"] <= USUAL_MAX_MESSAGE_BYTES
    assert "record_partitioner" not in exporter
    for pipeline in collector["service"]["pipelines"].values():
        assert pipeline == {"receivers": ["otlp"], "exporters": ["kafka"]}


def test_compose_starts_roles_that_exist_over_the_settings_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compose = _read("compose.kafka.example.yaml")
    services = compose["services"]
    ours = {name: service for name, service in services.items() if service["image"] == "tracegrade"}
    roles = {service["command"][-1] for service in ours.values()}
    assert roles == {"receive", "judge", "web"}
    names = [service["environment"]["INSTANCE"] for service in ours.values()]
    assert len(set(names)) == len(names), "members of a group need names of their own"
    for key, value in ours["receiver"]["environment"].items():
        monkeypatch.setenv(key, value)
    config = load_config(DEPLOY / compose["configs"]["settings"]["file"])
    assert config.journal.kafka is not None
    assert config.journal.kafka.brokers == ["kafka:9092"]
    made = "".join(services["topics"]["command"])
    assert all(f" {topic}" in made for topic in topic_names(config.journal.kafka))
    assert "message.timestamp.type=LogAppendTime" in made
    volumes = [volume.split(":") for service in services.values() for volume in service.get("volumes", ())]
    assert sorted(name for name, _ in volumes) == sorted(compose["volumes"]), "each is declared, and used by one alone"
    assert {name for name, service in services.items() if "volumes" in service} == services.keys() - {"topics"}
    assert {service["volumes"][0].split(":")[1] for service in ours.values()} == {str(config.data_path)}


def _manifest() -> tuple[dict[str, Any], dict[str, Any]]:
    """The Service and the StatefulSet."""
    service, stateful_set = yaml.safe_load_all((DEPLOY / "kubernetes.example.yaml").read_text())
    return service, stateful_set


def test_the_service_reaches_each_port_of_the_stateful_sets_pod() -> None:
    service, stateful_set = _manifest()
    assert [(item["apiVersion"], item["kind"]) for item in (service, stateful_set)] == [
        ("v1", "Service"),
        ("apps/v1", "StatefulSet"),
    ]
    spec = stateful_set["spec"]
    assert spec["serviceName"] == service["metadata"]["name"]
    assert spec["template"]["metadata"]["labels"] == spec["selector"]["matchLabels"] == service["spec"]["selector"]
    (container,) = spec["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == ports
    config = Config()
    protocols = config.receivers.otlp.protocols
    assert protocols.grpc is not None
    assert protocols.http is not None
    assert config.web is not None
    endpoints = (protocols.grpc, protocols.http, config.web, config.telemetry)
    assert [*ports.values()] == [int(settings.endpoint.rpartition(":")[2]) for settings in endpoints]


def test_probes_ask_the_pages_that_there_are() -> None:
    (container,) = _manifest()[1]["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    pages = {route.path for route in status_app(list, INSTANCE).routes if isinstance(route, Route)}
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {get["path"] for get in asked.values()} <= pages
    assert {f"127.0.0.1:{ports[get['port']]}" for get in asked.values()} == {Config().telemetry.endpoint}
    assert asked["livenessProbe"]["path"] == "/healthz"
    assert asked["readinessProbe"]["path"] == "/readyz"


def test_prometheus_scrapes_where_metrics_are() -> None:
    (job,) = _read("prometheus.example.yaml")["scrape_configs"]
    assert job["static_configs"] == [{"targets": [Config().telemetry.endpoint]}]
    for name in _read("prometheus.example.yaml")["rule_files"]:
        assert (DEPLOY / name).exists()


@pytest.mark.parametrize("name", ["tracegrade.alerts.example.yaml", "tracegrade.score-alerts.example.yaml"])
def test_alerts_name_metrics_and_labels_that_exist(name: str) -> None:
    on_page = {
        prometheus_name(name, metric) + ending: metric
        for name, metric in METRICS.items()
        for ending in (("_total", "_created") if metric.kind == "counter" else ("",))
    }
    (group,) = _read(name)["groups"]
    job = _read("prometheus.example.yaml")["scrape_configs"][0]["job_name"]
    recorded = {rule["record"] for rule in group["rules"] if "record" in rule}
    for rule in group["rules"]:
        of_recorded = set(re.findall(r"\btracegrade:[\w:]+", rule["expr"]))
        assert of_recorded <= recorded
        names = re.findall(r"\btracegrade_\w+", rule["expr"])
        assert set(names) <= set(on_page), rule
        labels = {"instance", *(label for name in names for label in on_page[name].labels)}
        if of_recorded:
            labels |= set(on_page["tracegrade_evaluations_total"].labels)
        used = set(re.findall(r"\$labels\.(\w+)", rule.get("annotations", {}).get("summary", "")))
        used |= set(re.findall(r"(\w+)\s*(?:=~?|!=)\"", rule["expr"]))
        used -= {"job"} if f'job="{job}"' in rule["expr"] else set()
        assert used <= labels, rule


def _health_rules() -> list[dict[str, Any]]:
    (group,) = _read("tracegrade.alerts.example.yaml")["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def test_each_health_alert_has_a_severity_and_a_section_that_says_what_to_do() -> None:
    titles = re.findall(r"^### (TraceGrade\w+)$", (DEPLOY.parent / "docs/guides/operate.md").read_text(), re.M)
    assert sorted(titles) == sorted(rule["alert"] for rule in _health_rules())
    for rule in _health_rules():
        assert rule["labels"]["severity"] in ("critical", "high", "medium", "none"), rule
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["runbook_url"].endswith(f"/operate.html#{rule['alert'].lower()}")


@pytest.mark.skipif(shutil.which("amtool") is None, reason="needs apt's prometheus-alertmanager")
def test_alertmanager_pages_on_what_cannot_wait() -> None:
    config = DEPLOY / "alertmanager.example.yaml"
    subprocess.run(["amtool", "check-config", config], check=True, capture_output=True)
    routed: dict[str, set[str]] = {}
    for rule in _health_rules():
        labels = {"alertname": rule["alert"], "instance": "127.0.0.1:8888", **rule["labels"]}
        command = ["amtool", "config", "routes", "test", f"--config.file={config}"]
        done = subprocess.run(
            [*command, *(f"{name}={value}" for name, value in labels.items())],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        routed.setdefault(done.stdout.strip(), set()).add(rule["alert"])
    assert routed["heartbeat"] == {"TraceGradeWatchdog"}
    assert routed["team"] == {"TraceGradeCondition", "TraceGradeJudgeRestarts"}
    assert {"TraceGradeDown", "TraceGradeRefuses", "TraceGradeForwardingFails", "TraceGradeKafkaLag"} <= routed["pager"]
    assert routed.keys() == {"heartbeat", "team", "pager"}


def test_the_unit_runs_commands_that_exist() -> None:
    unit = _unit()
    for line in unit["ExecStartPre"] + unit["ExecStart"]:
        program, *arguments = shlex.split(line)
        assert program.endswith("/tracegrade")
        words = [word for word in arguments if not word.startswith(("/", "-"))]
        assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0
    assert unit["RestartPreventExitStatus"] == ["2"], "a wrong setting does not get better by trying again"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    text = (DEPLOY / "tracegrade.service").read_text()
    unit = tmp_path / "tracegrade.service"
    unit.write_text(re.sub(r"/opt/tracegrade/bin/tracegrade", "/bin/true", text))
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "tracegrade" in line]) == (0, [])
    exposed = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=25", str(unit)], capture_output=True, text=True
    )
    assert exposed.returncode == 0, exposed.stdout


def test_the_pod_runs_with_settings_like_those_that_its_comment_names_and_writes_to_its_volumes_alone(
    tmp_path: Path,
) -> None:
    stateful_set = _manifest()[1]["spec"]
    pod = stateful_set["template"]["spec"]
    (container,) = pod["containers"]
    text = (DEPLOY / "kubernetes.example.yaml").read_text()
    (telemetry,) = re.findall(r"`telemetry: (\{.*?\})`", text)
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    config = tmp_path / "config.yaml"
    config.write_text(f"data_dir: {mounts['data']['mountPath']}\ntelemetry: {telemetry}\n")
    checked = CliRunner().invoke(main, ["config", "check", str(config)])
    assert checked.exit_code == 0, checked.output
    claims = [claim["metadata"]["name"] for claim in stateful_set["volumeClaimTemplates"]]
    assert {*claims, *(volume["name"] for volume in pod["volumes"])} == mounts.keys()
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod["securityContext"]["runAsNonRoot"]
    made_by = (DEPLOY.parent / "docs" / "guides" / "deploy.md").read_text()
    assert f"--uid {pod['securityContext']['runAsUser']} " in made_by
