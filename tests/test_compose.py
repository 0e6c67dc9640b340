"""The compose files in ``deploy/``: each name, port, file and command is that of what it starts.

``.ci/long compose`` starts those of ``deploy/compose``.
"""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from click.testing import CliRunner
from generator.dashboards import dashboards
from interop import peers

from tracegrade.cli import main
from tracegrade.config import Config, load_config
from tracegrade.journal.kafka.topics import topic_names

DEPLOY = Path(__file__).parents[1] / "deploy"
FOLDER = DEPLOY / "compose"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
TEXT = (FOLDER / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
# Where programs listen whose configuration does not say it.
USUAL_PORTS = {"jaeger": {4317, 16686}, "prometheus": {9090}, "alertmanager": {9093}, "grafana": {3000}}


@pytest.fixture(scope="module")
def config() -> Config:
    """The settings of the TraceGrade."""
    return load_config(FOLDER / "tracegrade.yaml")


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def _mounts(name: str) -> dict[str, Path]:
    """What a service finds at which place: files of the checkout."""
    volumes = [volume.split(":") for volume in SERVICES[name].get("volumes", ())]
    return {target: (FOLDER / source).resolve() for source, target, *_ in volumes if source.startswith(".")}


def _listens(config: Config) -> dict[str, set[int]]:
    protocols = config.receivers.otlp.protocols
    servers = [protocols.grpc, protocols.http, config.telemetry, config.web]
    ours = {int(server.endpoint.rpartition(":")[2]) for server in servers if server is not None}
    collector = _yaml(DEPLOY / "collector.example.yaml")["receivers"]["otlp"]["protocols"]
    theirs = {int(protocol["endpoint"].rpartition(":")[2]) for protocol in collector.values()}
    return {"tracegrade": ours, "collector": theirs, **USUAL_PORTS}


def test_each_file_and_volume_that_is_mounted_is_there_and_read_only_where_it_is_ours() -> None:
    named = set()
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            source, _, *options = volume.split(":")
            if source.startswith("."):
                assert options == ["ro"], f"{name}: {volume}"
            else:
                named.add(source)
        for path in _mounts(name).values():
            assert path.exists(), f"{name}: {path}"
    assert named == yaml.safe_load(TEXT)["volumes"].keys()


def test_each_address_in_the_files_names_a_service_that_listens_there(config: Config) -> None:
    listens = _listens(config)
    files = {path for name in SERVICES for path in _mounts(name).values() if path.parent == FOLDER}
    texts = {path.name: path.read_text() for path in (FOLDER / "compose.yaml", *files)}
    texts = {name: re.sub(r"(?m)^ *#.*$", "", text) for name, text in texts.items()}
    found = [
        (name, host, int(port))
        for name, text in texts.items()
        for host, port in re.findall(r"\b([a-z]+):(\d{4,5})\b", text)
    ]
    assert {host for _, host, _ in found} >= {"tracegrade", "collector", "jaeger", "alertmanager", "prometheus"}
    for name, host, port in found:
        assert port in listens.get(host, ()), f"{name}: {host}:{port}"


def test_people_reach_from_this_machine_alone_what_is_listened_on(config: Config) -> None:
    published = {}
    for name, service in SERVICES.items():
        for text in service.get("ports", ()):
            host, outside, inside = text.split(":")
            assert host == "127.0.0.1", f"{name}: {text}"
            assert int(inside) in _listens(config)[name], f"{name}: {text}"
            published[f"http://{host}:{outside}"] = name
    for page, name in ((config.alerts.external_url, "tracegrade"), (config.alerts.trace_url, "jaeger")):
        assert published["://".join(urlsplit(str(page))[:2])] == name
    for text in dashboards().values():
        (box,) = [found for found in json.loads(text)["templating"]["list"] if found["type"] == "textbox"]
        assert published[box["query"]] == "tracegrade"


def test_commands_name_files_that_are_mounted_and_ours_exist() -> None:
    for name in ("collector", "prometheus", "alertmanager"):
        (path,) = [word.partition("=")[2] for word in SERVICES[name]["command"] if word.startswith("--config")]
        assert path in _mounts(name), name
    for name in ("agent", "tracegrade"):
        assert CliRunner().invoke(main, [*SERVICES[name]["command"], "--help"]).exit_code == 0
    for file in _yaml(FOLDER / "prometheus.yaml")["rule_files"]:
        assert f"/etc/prometheus/{file}" in _mounts("prometheus")
    for variable in ("LISTEN_HOST", "TRACEGRADE_ENDPOINT"):
        assert f"${{env:{variable}:-" in _mounts("collector")["/etc/otelcol/config.yaml"].read_text()
        assert variable in SERVICES["collector"]["environment"]


def test_health_checks_ask_a_port_that_is_published_or_are_a_command_of_ours() -> None:
    for name, service in SERVICES.items():
        kind, program, *words = service.get("healthcheck", {"test": ["CMD", "", ""]})["test"]
        assert kind == "CMD"
        if program == "tracegrade":
            assert CliRunner().invoke(main, [*words, "--help"]).exit_code == 0
        elif program:
            url = urlsplit(words[-1])
            assert f"127.0.0.1:{url.port}:{url.port}" in service["ports"], name
        needed = service.get("depends_on", {})
        for other, found in needed.items() if isinstance(needed, dict) else ():
            assert found != {"condition": "service_healthy"} or "healthcheck" in SERVICES[other], f"{name}: {other}"


def test_images_are_of_one_version_and_ours_is_built_from_the_checkout(config: Config) -> None:
    for name, service in SERVICES.items():
        image, _, tag = service["image"].partition(":")
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", tag) or image == "tracegrade", name
    # Those that are started by .ci/long; a Prometheus 3.13 is the module 0.313.
    assert SERVICES["collector"]["image"].endswith(f":{peers.COLLECTOR.removeprefix('v')}")
    assert SERVICES["prometheus"]["image"].endswith(re.sub(r"v0\.3(\d+)", r":v3.\1", peers.PROMETHEUS))
    for name in ("agent", "tracegrade"):
        build = SERVICES[name]["build"]
        assert (FOLDER / build["context"]).resolve() == DEPLOY.parent
        assert (DEPLOY.parent / build["dockerfile"]).read_text() == CONTAINERFILE
        assert f" AS {build['target']}\n" in CONTAINERFILE
    (settings,) = [target for target, path in _mounts("tracegrade").items() if path == FOLDER / "tracegrade.yaml"]
    assert f"TRACEGRADE_CONFIG={settings} " in CONTAINERFILE
    assert f"tracegrade:{config.data_path}" in SERVICES["tracegrade"]["volumes"]


def test_grafana_shows_the_dashboards_of_prometheus_and_finds_traces_in_jaeger() -> None:
    mounts = _mounts("grafana")
    (provider,) = _yaml(FOLDER / "grafana-dashboards.yaml")["providers"]
    folder = mounts[provider["options"]["path"]]
    assert {path.name for path in dashboards()} == {path.name for path in folder.iterdir()}
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home == f"{provider['options']['path']}/results.json"
    sources = {source["uid"]: source for source in _yaml(FOLDER / "grafana-datasources.yaml")["datasources"]}
    (destination,) = sources["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert sources[destination["datasourceUid"]]["type"] == "jaeger"
    assert "--enable-feature=exemplar-storage" in SERVICES["prometheus"]["command"]
    (job,) = _yaml(FOLDER / "prometheus.yaml")["scrape_configs"]
    assert sources["prometheus"]["jsonData"]["timeInterval"] == job["scrape_interval"]
    for place in ("datasources", "dashboards"):
        assert mounts[f"/etc/grafana/provisioning/{place}/tracegrade.yaml"] == FOLDER / f"grafana-{place}.yaml"


def test_tempo_in_jaegers_place_listens_where_its_comments_say() -> None:
    (block,) = re.findall(r"(?m)^  # tempo:\n(?:  #   .*\n)+", TEXT)
    tempo = yaml.safe_load(re.sub(r"(?m)^  # ", "", block))["tempo"]
    (volume,) = tempo["volumes"]
    source, target, _ = volume.split(":")
    assert tempo["command"] == [f"-config.file={target}"]
    settings = _yaml(FOLDER / source)
    (source,) = re.findall(r"# - (\{.*\})", (FOLDER / "grafana-datasources.yaml").read_text())
    assert yaml.safe_load(source)["url"] == f"http://tempo:{settings['server']['http_listen_port']}"
    assert settings["distributor"]["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"] == "0.0.0.0:4317"
    assert settings["storage"]["trace"]["local"]["path"].startswith(tempo["tmpfs"][0].partition(":")[0])


def test_kafka_starts_roles_that_exist_over_the_settings_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compose = yaml.safe_load((DEPLOY / "kafka" / "compose.yaml").read_text())
    services = compose["services"]
    ours = {name: service for name, service in services.items() if service["image"] == "tracegrade"}
    roles = {service["command"][-1] for service in ours.values()}
    assert roles == {"receive", "judge", "web"}
    for service in ours.values():  # of the image, whose entry point is tracegrade
        assert CliRunner().invoke(main, [*service["command"], "--help"]).exit_code == 0
        assert CliRunner().invoke(main, [*service["healthcheck"]["test"][2:], "--help"]).exit_code == 0
    names = [service["environment"]["INSTANCE"] for service in ours.values()]
    assert len(set(names)) == len(names), "members of a group need names of their own"
    for key, value in ours["receiver"]["environment"].items():
        monkeypatch.setenv(key, value)
    config = load_config(DEPLOY / "kafka" / compose["configs"]["settings"]["file"])
    assert config.journal.kafka is not None
    assert config.journal.kafka.brokers == ["kafka:9092"]
    made = "".join(services["topics"]["command"])
    assert all(f" {topic}" in made for topic in topic_names(config.journal.kafka))
    assert "message.timestamp.type=LogAppendTime" in made
    volumes = [volume.split(":") for service in services.values() for volume in service.get("volumes", ())]
    assert sorted(name for name, _ in volumes) == sorted(compose["volumes"]), "each is declared, and used by one alone"
    assert {name for name, service in services.items() if "volumes" in service} == services.keys() - {"topics"}
    assert {service["volumes"][0].split(":")[1] for service in ours.values()} == {str(config.data_path)}
