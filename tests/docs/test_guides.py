"""Settings and rules that guides show are taken as they stand."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import trustme
import yaml
from click.testing import CliRunner

from build import each
from docs.pages import ROOT
from tracegrade.cli import main
from tracegrade.rule.alert import Alert, AlertKind

_RULE = {"id": "shown", "evaluate": [{"evaluator": "abstention", "should_call_tool": True, "name": "order"}]}


def _blocks(page: str) -> list[dict[str, Any]]:
    text = (ROOT / "docs" / "guides" / page).read_text(encoding="utf-8")
    return [yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Stands in for /etc/tracegrade."""
    trustme.CA().issue_cert("example").private_key_and_cert_chain_pem.write_to_path(tmp_path / "tls.crt")
    (tmp_path / "tls.key").write_bytes((tmp_path / "tls.crt").read_bytes())
    (tmp_path / "tokens").write_text("0123456789abcdef0123456789abcdef\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "rule.yaml").write_text(yaml.safe_dump(_RULE))
    return tmp_path


@pytest.mark.parametrize("page", ["alerts.md", "deploy.md"])
def test_settings_are_taken(page: str, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLACK_WEBHOOK", "PAGERDUTY_KEY", "HOOK_SECRET"):
        monkeypatch.setenv(name, "https://example.org/secret")
    shown = [block for block in _blocks(page) if "alert" not in block]
    assert shown
    for settings in shown:
        config = files / "config.yaml"
        config.write_text(yaml.safe_dump(settings).replace("/etc/tracegrade", str(files)))
        done = CliRunner().invoke(main, ["config", "check", str(config)])
        assert done.exit_code == 0, done.output


def _alerts() -> list[Any]:
    text = (ROOT / "docs/guides/alerts.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .+ \| `(\{.+?\})`(?:, or `of: error`)? \|$", text, re.MULTILINE)
    return [yaml.safe_load(row) for row in rows] + [
        item for block in _blocks("alerts.md") for item in block.get("alert", ())
    ]


@each("alert", _alerts(), ids=str)
def test_every_kind_of_alert_is_taken(alert: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "rule.yaml").write_text(yaml.safe_dump({**_RULE, "alert": [alert]}))
    done = CliRunner().invoke(main, ["rules", "check", str(tmp_path)])
    assert done.exit_code == 0, done.output


def test_all_kinds_of_alerts_are_shown() -> None:
    assert {Alert.model_validate(alert).kind for alert in _alerts()} == set(get_args(AlertKind))
