"""The chart in ``deploy/chart``, as far as it can be read without helm; ``.ci/long chart`` renders it."""

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHART = ROOT / "deploy" / "chart"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_it_installs_the_version_of_this_checkout() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == version


def test_every_value_is_in_the_schema_and_every_key_of_the_schema_has_a_value() -> None:
    assert dict(_differences(VALUES, SCHEMA, "")) == {}


def _differences(values: Mapping[str, Any], schema: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if schema.get("additionalProperties") is not False:
        yield path, "other keys are not refused"
    known = schema["properties"]
    # As a part of another chart it is given these; of a probe, these two may be set, too.
    silent = {"global", "enabled"} if not path else {"initialDelaySeconds", "successThreshold"}
    for key in values.keys() ^ known.keys() - silent:
        yield f"{path}.{key}", "is in one of both alone"
    for key, below in known.items():
        if "properties" in below:
            yield from _differences(values[key], below, f"{path}.{key}")


def test_what_it_ships_is_what_lies_beside_it() -> None:
    for link in (CHART / "files").iterdir():
        assert link.is_symlink(), f"{link.name}: a second copy would grow old"
        assert link.resolve().parent in (ROOT / "deploy", ROOT / "deploy" / "grafana")
        assert link.exists()


def test_pods_run_as_the_user_of_the_image_over_a_root_that_they_cannot_write() -> None:
    pod, container = VALUES["podSecurityContext"], VALUES["securityContext"]
    user = f"{pod['runAsUser']}:{pod['runAsGroup']}"
    assert f"USER {user}\n" in (ROOT / "deploy" / "Containerfile").read_text()
    assert pod["runAsNonRoot"]
    assert pod["fsGroup"] == pod["runAsGroup"]
    assert container == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
