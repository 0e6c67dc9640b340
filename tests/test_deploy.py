"""The examples in ``deploy/``, beside the settings (``test_config.py``): they are what they say they are."""

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from generator.dashboards import dashboards
from packaging.requirements import Requirement
from starlette.routing import Route

from build.metric_snapshots import INSTANCE
from tracegrade.cli import main
from tracegrade.config import Config, load_config
from tracegrade.journal.kafka.produce import TENANT_HEADER
from tracegrade.journal.kafka.topics import USUAL_MAX_MESSAGE_BYTES
from tracegrade.otlp.prometheus import prometheus_name
from tracegrade.serve.status import status_app
from tracegrade.telemetry.metrics import METRICS, Metric

DEPLOY = Path(__file__).parents[1] / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()


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
    collector = _read("kafka/collector.yaml")
    exporter = collector["exporters"]["kafka"]
    settings = load_config(DEPLOY / "kafka" / "tracegrade.yaml").journal.kafka
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


RENDERED = Path(__file__).parent / "system" / "chart" / "rendered" / "standalone.yaml"


def _pod() -> dict[str, Any]:
    """The pod of the chart's StatefulSet, as ``.ci/long chart`` has found it rendered."""
    (found,) = [one for one in yaml.safe_load_all(RENDERED.read_text()) if one["kind"] == "StatefulSet"]
    pod: dict[str, Any] = found["spec"]["template"]["spec"]
    return pod


def test_the_services_reach_each_port_of_the_pod() -> None:
    ports = {port["name"]: port["containerPort"] for port in _pod()["containers"][0]["ports"]}
    assert [*ports.values()] == _ports()
    services = [one for one in yaml.safe_load_all(RENDERED.read_text()) if one["kind"] == "Service"]
    assert len(services) == 2
    for service in services:
        assert {port["targetPort"]: port["port"] for port in service["spec"]["ports"]} == ports


def _ports() -> list[int]:
    """Where the default settings listen."""
    config = Config()
    protocols = config.receivers.otlp.protocols
    endpoints = (protocols.grpc, protocols.http, config.web, config.telemetry)
    return [int(settings.endpoint.rpartition(":")[2]) for settings in endpoints if settings is not None]


def test_probes_ask_the_pages_that_there_are() -> None:
    (container,) = _pod()["containers"]
    pages = {route.path for route in status_app(list, INSTANCE).routes if isinstance(route, Route)}
    asked = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert {get["path"] for get in asked.values()} <= pages
    assert {get["port"] for get in asked.values()} == {"telemetry"}
    assert asked["livenessProbe"]["path"] == "/healthz"
    assert asked["readinessProbe"]["path"] == "/readyz"


def _on_page() -> dict[str, Metric]:
    """Each name on the metrics page, with its metric."""
    endings = {"counter": ("_total", "_created"), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    return {
        prometheus_name(name, metric).removesuffix("_total") + ending: metric
        for name, metric in METRICS.items()
        for ending in endings[metric.kind]
    }


def _unknown_in(query: str, *more_labels: str) -> set[str]:
    """What a query names that is neither a metric nor a label of one that it names."""
    on_page = _on_page()
    metrics = set(re.findall(r"\btracegrade_\w+", query))
    labels = {label for name in metrics & on_page.keys() for label in on_page[name].labels}
    used = set(re.findall(r"(\w+)\s*(?:=~?|!=)\"", query))
    used |= {label for by in re.findall(r"\bby \(([^)]*)\)", query) for label in re.findall(r"\w+", by)}
    return metrics - on_page.keys() | used - labels - {"job", "instance", *more_labels}


@pytest.mark.parametrize("name", ["tracegrade.alerts.example.yaml", "tracegrade.score-alerts.example.yaml"])
def test_alerts_name_metrics_and_labels_that_exist(name: str) -> None:
    (group,) = _read(name)["groups"]
    recorded = {rule["record"] for rule in group["rules"] if "record" in rule}
    for rule in group["rules"]:
        of_recorded = set(re.findall(r"\btracegrade:[\w:]+", rule["expr"]))
        assert of_recorded <= recorded
        more = METRICS["tracegrade.evaluations"].labels if of_recorded else ()
        shown = re.findall(r"\$labels\.(\w+)", rule.get("annotations", {}).get("summary", ""))
        query = rule["expr"] + "".join(f' {label}=""' for label in shown)
        assert not _unknown_in(query, *more), rule


def test_panels_name_metrics_and_labels_that_exist_and_say_what_they_show() -> None:
    for text in dashboards().values():
        made = json.loads(text)
        panels = [panel for panel in made["panels"] if panel["type"] != "row"]
        variables = {variable["name"] for variable in made["templating"]["list"]} | {"__rate_interval", "__range"}
        for panel in panels:
            (target,) = panel["targets"]
            query = target["expr"]
            assert not _unknown_in(query), panel["title"]
            assert set(re.findall(r"\$(\w+)", query)) <= variables | {"__range_s"}, panel["title"]
            assert panel["description"].endswith(".")
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert legend <= set(re.findall(r"\w+", query)), panel["title"]
        assert len({panel["title"] for panel in panels}) == len(panels)
        assert len({panel["id"] for panel in made["panels"]}) == len(made["panels"])


def test_dashboards_are_what_the_table_of_panels_gives() -> None:
    made = dashboards()
    assert {path.name for path in made} == {path.name for path in (DEPLOY / "grafana").glob("*.json")}
    for path, text in made.items():
        assert path.read_text() == text, f"{path.name}: .ci/generated writes it"


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    fires: dict[bool, set[str]] = {True: set(), False: set()}
    for path in (Path(__file__).parent / "system" / "interop").glob("*_alerts.yaml"):
        for case in yaml.safe_load(path.read_text())["tests"]:
            for asked in case.get("alert_rule_test", ()):
                fires[bool(asked.get("exp_alerts"))].add(asked["alertname"])
    for name in ("tracegrade.alerts.example.yaml", "tracegrade.score-alerts.example.yaml"):
        named = {rule["alert"] for rule in _read(name)["groups"][0]["rules"] if "alert" in rule}
        assert named - fires[True] == set(), name
        assert named - fires[False] == ({"TraceGradeWatchdog"} & named), "that one always fires"


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


def test_the_pod_mounts_each_of_its_volumes_where_the_image_has_its_folders() -> None:
    pod = _pod()
    (container,) = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"data", *(volume["name"] for volume in pod["volumes"])} == mounts.keys()
    assert mounts["data"] == _instruction("WORKDIR")
    assert f"TRACEGRADE_CONFIG={mounts['settings']}/config.yaml" in CONTAINERFILE
    assert CliRunner().invoke(main, [*container["args"], "--help"]).exit_code == 0


def test_the_operators_collector_names_what_it_defines() -> None:
    collector, instrumentation = yaml.safe_load_all((DEPLOY / "operator.example.yaml").read_text())
    config = collector["spec"]["config"]
    for pipeline in config["service"]["pipelines"].values():
        assert set(pipeline["receivers"]) <= config["receivers"].keys()
        assert set(pipeline["exporters"]) <= config["exporters"].keys()
    assert set(config["service"]["extensions"]) == config["extensions"].keys()
    example = yaml.safe_load(re.sub(r"(?m)^  # ( *[\w-]+:)", r"  \1", (DEPLOY / "collector.example.yaml").read_text()))
    for exporter in ("otlp_grpc/tracegrade", "load_balancing"):
        assert config["exporters"][exporter].keys() <= example["exporters"][exporter].keys()
    assert instrumentation["spec"]["sampler"] == {"type": "always_on"}


def test_the_image_exposes_what_is_listened_on_and_its_words_are_a_command() -> None:
    (exposed,) = re.findall(r"^EXPOSE (.*)$", CONTAINERFILE, re.M)
    assert exposed.split() == [str(port) for port in _ports()]
    words = [*yaml.safe_load(_instruction("ENTRYPOINT")), *yaml.safe_load(_instruction("CMD"))]
    assert words[0] == "tracegrade"
    assert CliRunner().invoke(main, [*words[1:], "--help"]).exit_code == 0
    assert "TRACEGRADE_CONFIG=/etc/tracegrade/config.yaml" in CONTAINERFILE
    assert not re.search(r"sha256:|://", CONTAINERFILE), "a digest or an address that nobody looked up"


def _instruction(name: str) -> str:
    (found,) = re.findall(rf"^{name} (.*)$", CONTAINERFILE, re.M)
    return str(found)


def test_the_image_installs_a_pinned_version_of_each_dependency_by_its_hash_alone() -> None:
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    extras = [line for name in ("kafka", "parquet", "postgresql") for line in project["optional-dependencies"][name]]
    for name, wanted in (("slim.txt", project["dependencies"]), ("extras.txt", extras)):
        text = (DEPLOY / "requirements" / name).read_text()
        pinned = dict(re.findall(r"^([\w-]+)==(\S+)[^\n]*\\\n(?: +--hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", text, re.M))
        assert len(pinned) == len(re.findall(r"^\w", text, re.M)), "each has hashes"
        assert "://" not in text
        for requirement in map(Requirement, wanted):
            assert pinned[requirement.name.lower()] in requirement.specifier, f"{requirement}: run .ci/requirements"
