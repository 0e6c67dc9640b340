"""How many rules of its own a tenant may have."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from build import each
from tracegrade.access.quotas import QuotasSettings
from tracegrade.cli import main
from tracegrade.config import RulesSettings
from tracegrade.model.errors import TraceGradeError
from tracegrade.rule.load import load_rules
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.telemetry.metrics import Telemetry

RULE = """\
id: {id}
match: {{{match}}}
evaluate: [{{evaluator: tool-call-order, tool_calls_order: [a, b]}}]
"""


def write(folder: Path, **tenants: str) -> None:
    for id_, match in tenants.items():
        (folder / f"{id_}.rule.yaml").write_text(RULE.format(id=id_, match=match))


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    folder = tmp_path / "rules"
    folder.mkdir()
    write(folder, one="tenant: shop", two="tenant: [globex, shop]", all="")
    return folder


@pytest.mark.parametrize(
    ("quotas", "said"),
    [
        ({"tenants": {"shop": {"rules": 1}}}, "tenant 'shop' has 2 rules of its own, and quotas.tenants.shop.rules"),
        ({"each": {"rules": 1}}, "tenant 'shop' has 2 rules of its own, and quotas.each.rules"),
    ],
)
def test_more_than_the_quota_are_refused(rules: Path, quotas: object, said: str) -> None:
    with pytest.raises(TraceGradeError) as refused:
        QuotasSettings.model_validate(quotas).check_rules(load_rules([rules]))
    assert str(refused.value) == (f"{rules}/two.rule.yaml: {said} allows 1; remove 'two', or allow more")


@each(
    "quotas",
    [
        {},
        {"each": {"rules": 2}},
        {"each": {"rules": 1}, "tenants": {"shop": {"rules": 2}}},
        {"tenants": {"a": {"rules": 1}}},
    ],
)
def test_as_many_as_the_quota_are_not(rules: Path, quotas: object) -> None:
    QuotasSettings.model_validate(quotas).check_rules(load_rules([rules]))


@pytest.mark.parametrize("command", [["config", "check"], ["serve"]])
def test_the_settings_are_refused_before_anything_starts(rules: Path, tmp_path: Path, command: list[str]) -> None:
    settings = tmp_path / "config.yaml"
    quotas = {"tenants": {"shop": {"rules": 1}}}
    written = {"data_dir": str(tmp_path / "data"), "rules": {"paths": [str(rules)]}, "quotas": quotas}
    settings.write_text(json.dumps(written))
    refused = CliRunner().invoke(main, [*command, "-c", str(settings)])
    assert (refused.exit_code, "quotas.tenants.shop.rules allows 1" in refused.output) == (2, True), refused.output
    assert not (tmp_path / "data").exists()


def test_a_rule_too_many_leaves_those_in_force(rules: Path) -> None:
    quotas = QuotasSettings.model_validate({"tenants": {"shop": {"rules": 2}}})
    reload = RuleReload(RulesSettings(paths=[str(rules)]), Telemetry("judge"), quotas)
    before = reload.in_force
    write(rules, three="tenant: shop")
    assert reload.poll() is None
    assert reload.in_force is before
    (rules / "three.rule.yaml").unlink()
    write(rules, four="tenant: globex")
    assert reload.poll() is reload.in_force is not before
