"""The chart, rendered by helm: against committed output, Kubernetes' own schemas, and the settings' check."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from build import each
from tracegrade.cli import main

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy" / "chart"
RENDERED = Path(__file__).parent / "rendered"
CASES = sorted(path.name.removesuffix("-values.yaml") for path in (CHART / "ci").glob("*-values.yaml"))
VERSIONS = ("1.28", "1.34", "1.37")
NOT_OF_KUBERNETES = {
    "ServiceMonitor",
    "PrometheusRule",
}  # of the Prometheus operator: no schema of Kubernetes knows them
RULE = "id: one\nevaluate:\n  - {evaluator: tool-call-order, tool_calls_order: [a, b]}\n"
HELM = "helm.sh/helm/v3/cmd/helm@v3.22.0"

# Values, and the key that the refusal names.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "a key that does not exist": ({"replicas": 3}, "replicas"),
    "a misspelt key of the image": ({"image": {"repo": "x"}}, "repo"),
    "a misspelt key of a port": ({"ports": {"web": {"port": 1}}}, "port"),
    "a port that does not exist": ({"ports": {"grpc": {"containerPort": 4317}}}, "grpc"),
    "a port beyond the last": ({"ports": {"web": {"containerPort": 70000}}}, "ports.web.containerPort"),
    "a mode that does not exist": ({"mode": "daemonset"}, "mode"),
    "a text for a number": ({"replicaCount": "3"}, "replicaCount"),
    "no replica": ({"mode": "sharded", "replicaCount": 0}, "replicaCount"),
    "a digest that is none": ({"image": {"digest": "latest"}}, "image.digest"),
    "a pull policy that does not exist": ({"image": {"pullPolicy": "Sometimes"}}, "image.pullPolicy"),
    "no repository": ({"image": {"repository": ""}}, "image.repository"),
    "a list for a map": ({"config": []}, "config"),
    "a number in a label": ({"podLabels": {"tier": 1}}, "podLabels.tier"),
    "a size without a number": ({"persistence": {"size": "large"}}, "persistence.size"),
    "a volume that several mount": ({"persistence": {"accessModes": ["ReadWriteMany"]}}, "persistence.accessModes"),
    "a probe with a path": ({"livenessProbe": {"path": "/"}}, "path"),
    "a percentage above all": ({"autoscaling": {"targetCPUUtilizationPercentage": 200}}, "targetCPU"),
    "an interval without a unit": ({"serviceMonitor": {"interval": "30"}}, "serviceMonitor.interval"),
    "a dashboard's key": ({"dashboards": {"enable": True}}, "enable"),
    "sharded without PostgreSQL": ({"mode": "sharded"}, "config.store.url"),
    "kafka without brokers": ({"mode": "kafka", "config": {"store": {"url": "x"}}}, "config.journal.kafka"),
    "scaling of what has a volume": ({"autoscaling": {"enabled": True}}, "autoscaling.enabled"),
    "certificates of probes": (
        {"config": {"telemetry": {"tls": {"client_ca_file": "ca.pem"}}}}, "config.telemetry.tls.client_ca_file",
    ),
    "tokens that no probe has": ({"config": {"telemetry": {"auth": {}}}}, "config.telemetry.auth"),
    "settings of nobody": ({"configMap": {"create": False}}, "configMap.existingName"),
}  # fmt: skip


@pytest.fixture(scope="session")
def helm() -> Path:
    """Helm, built from Go's module proxy: some minutes the first time."""
    cache = Path(os.environ.get("TRACEGRADE_TEST_CACHE", Path.home() / ".cache" / "tracegrade-tests"))
    if shutil.which("go") is None and not (cache / "helm").exists():
        pytest.skip("needs Go, to build helm")
    if not (cache / "helm").exists():
        environment = os.environ | {"GOBIN": str(cache), "GOFLAGS": "-mod=mod -p=2"}
        subprocess.run(
            ["nice", "-n", "5", "go", "install", HELM], env=environment, stdin=subprocess.DEVNULL, check=True
        )
    return cache / "helm"


def _template(helm: Path, values: Path, version: str = "1.34") -> "subprocess.CompletedProcess[str]":
    # Built so, helm believes that Kubernetes is 1.20.
    command = [helm, "template", "x", CHART, "--namespace", "agents", "--kube-version", f"{version}.0", "-f", values]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def _values(case: str) -> Path:
    return CHART / "ci" / f"{case}-values.yaml"


def test_helm_finds_nothing_to_say(helm: Path) -> None:
    for case in CASES:
        command = [helm, "lint", "--strict", "--kube-version", "1.34.0", CHART, "-f", _values(case)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("case", CASES)
def test_what_is_rendered_is_what_is_committed(helm: Path, case: str, request: pytest.FixtureRequest) -> None:
    texts = set()
    for version in VERSIONS:
        done = _template(helm, _values(case), version)
        assert done.returncode == 0, done.stderr
        shown = [_without_copies(manifest) for manifest in yaml.safe_load_all(done.stdout) if manifest]
        texts.add(yaml.safe_dump_all(shown, sort_keys=False, width=120))
    (text,) = texts
    path = RENDERED / f"{case}.yaml"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert path.read_text() == text


def _without_copies(manifest: dict[str, Any]) -> dict[str, Any]:
    """A manifest, with the name of a file in place of its content where that is the content."""
    for name, text in (manifest.get("data") or {}).items():
        source = ROOT / "deploy" / "grafana" / name.removeprefix("tracegrade-")
        if source.suffix == ".json":
            assert text == source.read_text()
            manifest["data"][name] = f"(deploy/grafana/{source.name})"
    if manifest["kind"] == "PrometheusRule":
        names = ("tracegrade.alerts.example.yaml", "tracegrade.score-alerts.example.yaml")
        groups = [group for name in names for group in yaml.safe_load((ROOT / "deploy" / name).read_text())["groups"]]
        assert manifest["spec"]["groups"] == groups
        manifest["spec"]["groups"] = list(names)
    return manifest


def test_kubernetes_knows_every_field(helm: Path, tmp_path: Path) -> None:
    validate = shutil.which("kubernetes-validate")
    if validate is None:
        pytest.skip("pip install kubernetes-validate")
    for case in CASES:
        for version in VERSIONS:
            rendered = tmp_path / f"{case}-{version}.yaml"
            rendered.write_text(_template(helm, _values(case), version).stdout)
            command = [validate, "--strict", "-k", version, rendered]
            done = subprocess.run(command, capture_output=True, text=True)
            said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith(("WARN", "ERROR"))]
            unexpected = [line for line in said if not any(kind in line for kind in NOT_OF_KUBERNETES)]
            assert (done.returncode, unexpected) == (0, []), done.stdout + done.stderr
            kinds = {manifest["kind"] for manifest in yaml.safe_load_all(rendered.read_text()) if manifest}
            assert len(said) == len(kinds & NOT_OF_KUBERNETES)


@each(("what", "values", "key"), [(what, *wrong) for what, wrong in WRONG.items()])
def test_wrong_values_are_refused_by_the_name_of_their_key(
    helm: Path, tmp_path: Path, what: str, values: dict[str, Any], key: str
) -> None:
    (tmp_path / "values.yaml").write_text(json.dumps(values))
    done = _template(helm, tmp_path / "values.yaml")
    assert done.returncode != 0, what
    assert key in done.stderr.replace("/", "."), f"{what}: {done.stderr}"


@pytest.mark.parametrize("case", CASES)
def test_the_settings_that_it_writes_are_right(
    helm: Path, case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the environment that the values give, and rules where the pod has them."""
    monkeypatch.setenv("STORE", "postgresql+psycopg://tracegrade@127.0.0.1/tracegrade")
    monkeypatch.setenv("TOKEN", "a-token-that-nobody-can-guess-0123456789")
    manifests = [one for one in yaml.safe_load_all(_template(helm, _values(case)).stdout) if one]
    (settings,) = [one["data"]["config.yaml"] for one in manifests if "config.yaml" in (one.get("data") or {})]
    rules = tmp_path / "rules"
    rules.mkdir()
    ours = [("one.rule.yaml", RULE)]  # of a ConfigMap that the values only name
    for name, text in list(_rules_in(manifests)) or ours:
        (rules / name).write_text(text)
    path = tmp_path / "config.yaml"
    path.write_text(settings.replace("/etc/tracegrade-rules", str(rules)))
    checked = CliRunner().invoke(main, ["config", "check", str(path)])
    assert checked.exit_code == 0, checked.output
    for container in _containers(manifests):
        assert CliRunner().invoke(main, [*container["args"], "--help"]).exit_code == 0


def _rules_in(manifests: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for manifest in manifests:
        for name, text in (manifest.get("data") or {}).items():
            if name.endswith(".rule.yaml"):
                yield name, text


def _containers(manifests: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Ours, in every workload."""
    for manifest in manifests:
        if manifest["kind"] in ("StatefulSet", "Deployment"):
            yield from (
                one for one in manifest["spec"]["template"]["spec"]["containers"] if one["name"] == "tracegrade"
            )
