"""Of another tenant a command shows what it shows of an empty installation; a new command fails here until it does.

Every command either takes ``--tenant``, or is among those of which it is said here why they need none.
"""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from build import each
from build.commands import run, run_json
from build.journalled import START_S, Came, judged_live
from build.judged_traces import trace_id
from build.otlp import agent_span, tool_span
from build.replayed import request, write_source
from build.without_parts import of_all_parts
from tracegrade.cli import main
from tracegrade.cli.registry import COMMANDS

ID = trace_id(1)
PLANTED = "create_order"
RULE = f"""\
id: order-checked
status: stable
match: {{tools: [{PLANTED}]}}
evaluate: [{{evaluator: tool-call-count, tool_calls_count: {{{PLANTED}: ['<=', 0], crate_order: ['>=', 1]}}}}]
alert: [{{below: 0.9}}]
"""

_CLOCK = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}")

READING = {
    "traces list": [],
    "traces show": [ID],
    "traces export": [ID],
    "results list": [],
    "results show": [ID],
    "results export": [],
    "results stats": [],
    "alerts list": [],
    "alerts show": ["0123456789"],
    "alerts accept": ["0123456789"],
    "alerts acknowledge": ["0123456789"],
    "alerts own": ["0123456789"],
    "alerts comment": ["0123456789", "a word"],
    "alerts slo": [],
    "alerts preview": ["RULE"],
    "alerts silence": ["--list"],
    "why": [ID],
    "experiments list": [],
    "experiments show": ["prompts"],
    "experiments timeline": ["prompts"],
    "experiments best": ["prompts"],
    "jobs list": [],
    "jobs show": ["0123456789ab"],
    "suite list": [],
    "suite show": ["0123456789ab"],
    "suite export": ["0123456789ab"],
    "suite run": ["0123456789ab", "--agent-command", "true"],
    "compare": ["live@30d..7d", "live@7d.."],
    "promote": [ID, "--rules", "RULE", "--rule", "order-checked"],
    "gate": ["live", "--rules", "RULE", "--fail-under", "0.5"],
    "replay": ["--rules", "RULE"],
    "baseline save": ["main", "--of", "live"],
    "rules backtest": ["RULE", "--rule", "order-checked"],
    "rules check": ["RULE"],
    "rules explain": ["RULE"],
    "rules new": ["orders/from-a-trace", "--from-trace", ID],
    "rules try": ["RULE", ID],
    "redact": ["--dry-run"],
    "doctor": ["--rules", "RULE"],
}
"""The commands that ask for what is stored, as they are asked here."""

CHANGING = {
    "experiments baseline", "experiments delete", "jobs cancel", "jobs resume", "suite delete", "suite import",
    "tokens new", "traces delete", "check",
}  # fmt: skip
"""They take a tenant for what they make or change, and are tested where they are."""

WITHOUT = {
    "serve": "is of all tenants",
    "demo": "shows data of its own",
    "healthcheck": "is of all tenants",
    "backup": "copies the installation whole",
    "restore": "brings it back whole",
    "set-aside list": "what ended the judge is the operator's to mend; it says whose each request is",
    "set-aside retry": "as above",
    "tokens list": "who may call is the operator's to say; it says whose each token is",
    "tokens revoke": "as above",
    "tokens rotate": "as above",
    "alerts test": "sends a made alert to the channels of the settings",
    "baseline list": "reads files",
    "baseline show": "reads files",
    "config check": "reads files",
    "config show": "reads files",
    "config schema": "reads nothing",
    "evaluate": "reads files",
    "extract": "reads files",
    "rules export": "reads files",
    "rules import": "reads files",
    "rules list": "reads files",
    "rules schema": "reads nothing",
    "rules test": "reads files",
}
"""The others, each with the reason why there is no tenant to choose."""


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, *path, name)
        else:
            yield " ".join((*path, name)), found


@of_all_parts
def test_every_command_takes_a_tenant_or_there_is_a_reason() -> None:
    assert COMMANDS
    takes = {name: any(option.name == "tenant" for option in command.params) for name, command in commands(main)}
    assert {name for name, takes_it in takes.items() if takes_it} == READING.keys() | CHANGING
    assert {name for name, takes_it in takes.items() if not takes_it} == WITHOUT.keys()


@pytest.fixture(scope="module")
def rule(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "order.rule.yaml"
    path.write_text(RULE)
    return path


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, rule: Path) -> Path:
    """What the default tenant sent is in the journal, and judged in the store."""
    folder = tmp_path_factory.mktemp("full")
    now_s = time.time() - START_S
    came = [
        Came(now_s - n, [agent_span(n, 1), tool_span(n, 2, 1, PLANTED, '{"to": "ann@shop.example"}')])
        for n in range(60, 0, -1)
    ]
    judged_live(folder, came, rule)
    return folder


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory, rule: Path) -> Path:
    """The rule is in force here, too, and nothing came."""
    folder = tmp_path_factory.mktemp("empty")
    judged_live(folder, [], rule)
    return folder


def asked(folder: Path, name: str, rule: Path, *more: str) -> Result:
    words = [str(rule) if word == "RULE" else word for word in READING[name]]
    return run(folder, *name.split(), *words, *more)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files


def shown(result: Result, folder: Path, rule: Path) -> tuple[int, str]:
    """Without what is of the place and the moment."""
    return result.exit_code, _CLOCK.sub("", result.output.replace(str(folder), "").replace(str(rule), ""))


@of_all_parts
@each("name", READING)
def test_of_another_tenant_a_command_shows_what_it_shows_of_nothing(
    full: Path, empty: Path, rule: Path, name: str
) -> None:
    there = asked(full, name, rule, "--tenant", "globex")
    assert shown(there, full, rule) == shown(asked(empty, name, rule, "--tenant", "globex"), empty, rule)


def test_redaction_is_tried_on_one_tenants_requests(full: Path, empty: Path, rule: Path) -> None:
    of_none = asked(full, "redact", rule, "--tenant", "globex", "--store")
    assert shown(of_none, full, rule) == shown(asked(empty, "redact", rule, "--store"), empty, rule)
    for more in ((), ("--store",)):
        assert "email" in asked(full, "redact", rule, "--tenant", "default", *more).output


_SHOWING = [
    "traces list", "traces show", "results list", "results show", "results stats", "why", "replay", "gate",
    "rules backtest", "rules check", "rules explain", "rules try", "rules new", "doctor", "promote",
    "baseline save",
]  # fmt: skip


@of_all_parts
@each("name", _SHOWING)
def test_of_its_own_tenant_it_shows_more(full: Path, empty: Path, rule: Path, name: str) -> None:
    own = asked(full, name, rule, "--tenant", "default")
    assert shown(own, full, rule) != shown(asked(empty, name, rule, "--tenant", "default"), empty, rule)


@of_all_parts
@each("name", sorted({*READING, "tokens new"} - {"suite run"}))
def test_what_no_tenant_can_be_called_is_refused(full: Path, rule: Path, name: str) -> None:
    more = ["--tenant", "../globex"]
    found = run(full, "tokens", "new", "a", "--role", "read", *more) if name == "tokens new" else None
    found = found or asked(full, name, rule, *more)
    assert found.exit_code == 2
    said = " ".join(found.output.split())
    assert "'--tenant': expected a tenant of 1 to 64 letters (a to z, A to Z), digits, '.', '_' and '-'," in said
    assert "found '../globex'" in said


@of_all_parts
def test_replay_of_one_tenant_stores_its_run_and_of_files_that_tenants(full: Path, rule: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    came = [Came(1, [tool_span(1, 2, 1, PLANTED)], "shop"), Came(2, [tool_span(2, 2, 1, PLANTED)], "globex")]
    judged_live(folder, came, rule)
    how = ("replay", "--rules", str(rule), "--experiment", "orders")
    first = run(folder, *how, "--tenant", "shop")
    assert "Stored as run orders/1 of experiment orders: 1 trace," in first.output
    source = write_source(tmp_path, request(3, PLANTED), request(4, PLANTED))
    second = run(folder, *how, source, "--tenant", "globex", "--run", "files")
    assert "Stored as run files of experiment orders: 2 traces," in second.output
    for tenant, runs in (("shop", ["orders/1"]), ("globex", ["files"]), ("default", None)):
        found = run(folder, "experiments", "timeline", "orders", "--tenant", tenant, "--format", "json")
        names = [json.loads(line)["run"] for line in found.stdout.splitlines()] if found.exit_code == 0 else None
        assert names == runs
    of_files = run_json(folder, "traces", "list", "--run", "files", "--tenant", "globex")
    assert {row["trace_id"] for row in of_files} == {trace_id(3), trace_id(4)}
    saved = run(folder, "baseline", "save", "of-run", "--run", "files", "--tenant", "globex")
    assert saved.output == "Saved of-run, the run files, to .tracegrade/baselines/of-run.json.\n"
    compared = run(folder, *how[:3], source, "--compare", "orders/1", "--tenant", "globex")
    assert "no run of that name in the store" in compared.output  # that one is shop's


def test_a_silence_of_one_tenant_is_of_its_alerts_alone(tmp_path: Path, rule: Path) -> None:
    judged_live(tmp_path, [], rule)
    (made,) = run_json(tmp_path, "alerts", "silence", "rule=order-*", "--tenant", "shop")
    assert made["labels"] == {"rule": "order-*", "tenant": "shop"}
    assert run_json(tmp_path, "alerts", "silence", "--list", "--tenant", "globex") == []
    refused = run(tmp_path, "alerts", "silence", "--end", made["id"], "--tenant", "globex")
    assert refused.exit_code == 2
    assert "no silence" in refused.output
    twice = run(tmp_path, "alerts", "silence", "tenant=globex", "--tenant", "shop")
    assert "labels: expected the tenant 'shop', or none, found 'globex'" in twice.output
    assert run_json(tmp_path, "alerts", "silence", "--end", made["id"], "--tenant", "shop") == []


def test_repair_is_of_all_tenants(full: Path) -> None:
    refused = run(full, "doctor", "--repair", "--tenant", "default")
    assert (refused.exit_code, "--repair makes the store of all tenants whole" in refused.output) == (2, True)


OF_SHOP = """\
id: of-shop
match: {tenant: shop, tools: [create_order]}
evaluate: [{evaluator: tool-call-count, tool_calls_count: {create_order: ['<=', 0]}}]
"""


def test_a_rule_of_one_tenant_judges_its_traces_alone(tmp_path: Path) -> None:
    path = tmp_path / "own.rule.yaml"
    path.write_text(OF_SHOP)
    spans = [agent_span(1, 1), tool_span(1, 2, 1, PLANTED)]
    results = judged_live(tmp_path, [Came(1, spans, "shop"), Came(2, spans, "globex")], path)
    assert {result.trace.tenant: [item.outcome for item in result.evaluations] for result in results} == {
        "shop": ["fail"],
        "globex": [],
    }
    (why,) = run_json(tmp_path, "why", ID, "--tenant", "globex", "--rules", str(path))
    assert (why["rule_id"], why["decision"], why["reason"]) == (
        "of-shop",
        "not_matched",
        'match.tenant does not hold: expected "shop"',
    )
    source = write_source(tmp_path, request(3, PLANTED))
    (judged,) = run_json(tmp_path, "replay", source, "--rules", str(path), "--tenant", "shop")
    assert judged["outcome"] == "fail"
    unjudged = run(tmp_path, "replay", source, "--rules", str(path), "--tenant", "globex")
    assert "no rules to judge the traces of 'globex' by" in unjudged.output
    assert run_json(tmp_path, "replay", source, "--rules", str(path)) == []


def test_a_tenants_rule_is_tested_as_if_its_traces_were_the_tenants(tmp_path: Path) -> None:
    made = run(tmp_path, "rules", "new", "orders/checked-first")
    assert made.exit_code == 0
    path = Path("rules/orders/checked-first/rule.yaml")
    path.write_text(path.read_text().replace("match: {", "match: {tenant: shop, ", 1))
    tested = CliRunner().invoke(main, ["rules", "test", str(path)])
    assert (tested.exit_code, tested.output.splitlines()[-1]) == (0, "2 passed, 0 failed"), tested.output
