"""``tracegrade rules``: rule files checked, tested and listed."""

import re
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.output import (
    EXIT_USAGE,
    format_of,
    format_option,
    markdown_table,
    print_json,
    print_line,
    print_lines,
    print_table,
)
from tracegrade.cli.rule_files import new
from tracegrade.cli.rule_paths import is_place, paths_argument, rules_at, rules_of_id, rules_with_paths
from tracegrade.cli.rule_tests import test
from tracegrade.cli.rule_try import command as try_
from tracegrade.cli.settings import ReadSettings, tenant_reading_options
from tracegrade.display import count, time_text
from tracegrade.model.errors import TraceGradeError
from tracegrade.rule.reading import RuleReading

if TYPE_CHECKING:
    from tracegrade.alert.outlook import Expectation, Volume
    from tracegrade.rule.rule import Rule
    from tracegrade.rule.rule_set import RuleSet


_VOLUME_DAYS = 7


class _Volume(click.ParamType[float]):
    """``500/day``; becomes results a day."""

    name = "volume"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)/(day|hour)", str(value))
        if found is None or not float(found[1]):
            self.fail(f"expected results of one agent such as 500/day or 20/hour, found {value!r}")
        return float(found[1]) * (24 if found[2] == "hour" else 1)


volume_option = click.option(
    "--volume", type=_Volume(), help="How many results of one agent a day, such as 500/day; else from the store."
)
"""``--volume``, for a parameter ``volume``: results a day, None unless given."""


def expected_alerts(
    settings: ReadSettings, rules: "Sequence[Rule]", a_day: float | None
) -> "dict[str, list[Expectation | None]]":
    """What to expect of each alert of each rule that has alerts, by rule; None where falls have no size.

    Args:
        settings: where the store is.
        rules: the rules.
        a_day: how many results of one series come a day; None: as many as the store has.
    """
    alerting = [rule for rule in rules if rule.alert]
    if not alerting:  # nothing is loaded for them
        return {}
    from tracegrade.alert.expected import expected, stated_volume

    if a_day is not None:
        return {rule.id: [expected(alert, stated_volume(a_day, alert)) for alert in rule.alert] for rule in alerting}
    volumes = _stored_volumes(settings, alerting)
    return {
        rule.id: [expected(alert, volumes.get((rule.id, place))) for place, alert in enumerate(rule.alert)]
        for rule in alerting
    }


def _stored_volumes(settings: ReadSettings, rules: "Sequence[Rule]") -> "dict[tuple[str, int], Volume]":
    """By rule and number of the alert; without those of which nothing is stored."""
    if settings.have_no_store:
        return {}
    from sqlalchemy.exc import SQLAlchemyError

    from tracegrade.alert.expected import stored_volume
    from tracegrade.alert.read import window_of
    from tracegrade.store.history import SeriesHistory
    from tracegrade.store.schema import MINUTE_NS

    now_ns = time.time_ns()
    since_ns = now_ns - _VOLUME_DAYS * 86_400 * 10**9
    found = {}
    try:
        with settings.store() as connection:
            for rule in rules:
                history = SeriesHistory(connection, {rule.hash})
                for place, alert in enumerate(rule.alert):
                    stored = history.bins(window_of(rule, alert, since_ns, now_ns)).get(rule.id, {})
                    bins = {key: list(packed) for key, packed in stored.items()}
                    if (volume := stored_volume(rule, alert, bins, now_ns // MINUTE_NS)) is not None:
                        found[rule.id, place] = volume
    except (TraceGradeError, SQLAlchemyError):  # there is none here, or not yet, or it is damaged: rules are none of it
        return {}
    return found


def alerts_to_come(settings: ReadSettings, rules: "Sequence[Rule]") -> dict[str, list[str]]:
    """How long each alert that does not fire would take if results keep coming, by rule, in words; "" if unknown."""
    if settings.have_no_store:
        return {}
    from sqlalchemy.exc import SQLAlchemyError

    from tracegrade.alert.ahead import ahead
    from tracegrade.alert.check import Before
    from tracegrade.alert.wording import time_to_fire_text
    from tracegrade.store.alerts import open_alerts
    from tracegrade.store.history import SeriesHistory

    now_ns, found = time.time_ns(), dict[str, list[str]]()
    try:
        with settings.store() as connection:
            firing = {(fires.rule_id, fires.kind, fires.of, fires.over_s) for fires in open_alerts(connection)}
            for rule in rules:
                counted = SeriesHistory(connection, {rule.hash})
                found[rule.id] = []
                for alert in rule.alert:
                    fires = (rule.id, alert.kind, alert.of, alert.over) in firing
                    expected = None if fires else ahead(counted, rule, alert, now_ns, Before())
                    found[rule.id].append("" if expected is None else time_to_fire_text(alert, expected))
    except (TraceGradeError, SQLAlchemyError):  # as in `_stored_volumes`
        return {}
    return found


@click.group(
    cls=Group,
    path="rules",
    guessed={"validate": "'rules check' finds what is wrong in rule files", "lint": "write 'rules check'"},
)
@click.option("--semantic-model", metavar="FOLDER", help="The model2vec model for rules with $semantic.")
@click.option(
    "--allow-code",
    is_flag=True,
    help="Run the Python files that rules name as evaluators; without it, as the settings of a command say.",
)
@click.pass_context
def command(context: click.Context, semantic_model: str | None, allow_code: bool) -> None:
    """Check, test and list rule files.

    PATH is a rule file, a folder (its rule.yaml and *.rule.yaml files are read), or builtin:NAME. Without a PATH: the
    folder ./rules if it exists, else all ready-made rules.
    """
    context.obj = RuleReading(semantic_model, allow_code)


@command.command()
@paths_argument
@click.option("--strict", is_flag=True, help="Treat warnings as mistakes: exit 2 for them, too.")
@volume_option
@tenant_reading_options
@format_option
def check(settings: ReadSettings, paths: Sequence[str], strict: bool, volume: float | None, output_format: str) -> None:
    """Report every mistake in rule files, and warn of what looks wrong; exit 2 when there is a mistake.

    Without PATH: the folder ./rules, else the rules in the settings file, else the ready-made ones.

    If there is a store, it warns of tools that none of the newest 2,000 traces of the rule's services calls, and, if
    the settings have no prices, of rules that read costs. For each alert, it says how soon it is expected to fire, and
    how often it may be wrong.

    JSON: {rules, hash, warnings: [{path, line, column, message}], alerts: [{rule, alert, results_a_day, found:
    [{size, minutes}], false_alarms_a_month}]}. size is that of the fall, or the distance past the bound. results_a_day
    is null if unknown, minutes if the change is not found in time.
    """
    from tracegrade.rule.load import named_unlike_their_folders
    from tracegrade.rule.warnings import costs_not_known, unknown_tools

    rule_set = rules_at(paths, settings.rules, _in_force(settings, paths))
    stored = _stored_tools(settings)
    warnings = [
        *rule_set.warnings,
        *named_unlike_their_folders(rule_set, paths or ["rules"]),
        *rule_set.placed(lambda rule: unknown_tools(rule, stored)),
        *(() if settings.has_prices else rule_set.placed(costs_not_known)),
    ]
    expected = _expected(settings, rule_set, volume)
    if output_format == "json":
        found = {
            "warnings": [asdict(item) for item in warnings],
            "alerts": [_expected_json(*item) for item in expected],
        }
        print_json([{"rules": len(rule_set), "hash": rule_set.hash, **found}])
    else:
        for warning in warnings:
            print_line(f"{'Error' if strict else 'Warning'}: {warning}", err=True)
        said = count(len(warnings), "warning") if warnings else "nothing wrong"
        print_line(f"{count(len(rule_set), 'rule')}, {said} (rule set {rule_set.hash})")
        if expected:
            from tracegrade.alert.wording import expectation_text
        for rule_id, item in expected:
            print_line(f"{rule_id}: {item.alert.says}. {expectation_text(item)}")
    if strict and warnings:
        sys.exit(EXIT_USAGE)


def _in_force(settings: ReadSettings, paths: Sequence[str]) -> Sequence[str]:
    """Where the rules of a settings file are, if one is given and no `paths` are."""
    return () if paths or settings.config_path is None else settings.whole().rules.paths


def _expected(settings: ReadSettings, rule_set: "RuleSet", volume: float | None) -> "list[tuple[str, Expectation]]":
    """What to expect of each alert that can fire, with its rule's id."""
    alerting = [rule for rule in rule_set.rules if rule.status != "experimental"]
    found = expected_alerts(settings, alerting, volume)
    return [(rule_id, item) for rule_id, items in found.items() for item in items if item is not None]


def _expected_json(rule_id: str, expected: "Expectation") -> dict[str, Any]:
    return {
        "rule": rule_id,
        "alert": expected.alert.says,
        "results_a_day": None if expected.volume is None else expected.volume.a_day,
        "found": [{"size": size, "minutes": minutes} for size, minutes in expected.found],
        "false_alarms_a_month": expected.false_alarms_a_month,
    }


def _stored_tools(settings: ReadSettings) -> dict[str, frozenset[str]]:
    """The tools that stored traces call, by service; none without a store that can be read."""
    if settings.have_no_store:
        return {}
    from sqlalchemy.exc import SQLAlchemyError

    from tracegrade.store.senders import called_tools

    try:
        with settings.store() as connection:
            return called_tools(connection)
    except (TraceGradeError, SQLAlchemyError):  # there is none here, or not yet, or it is damaged: rules are none of it
        return {}


@command.command(name="list")
@paths_argument
@click.option(
    "--evaluators",
    is_flag=True,
    help="List the evaluators that rules can use; with names, explain each field of these evaluators.",
)
@format_of(["table", "json", "markdown"], "A table, one JSON object per line, or a table for a README.")
def list_(paths: Sequence[str], evaluators: bool, output_format: str) -> None:
    """List rules, or the evaluators that rules can use.

    With --evaluators, NAME in place of a PATH shows the fields of that evaluator.
    """
    if evaluators and paths:
        rows = [row for name in paths for row in _field_rows(name)]
        columns = ["field", "default", "means"] if len(paths) == 1 else ["evaluator", "field", "default", "means"]
    elif evaluators:
        rows = _evaluator_rows()
        columns = ["evaluator", "judges", "fields"]
    else:
        rows = _rule_rows(paths)
        columns = ["rule", "category", "title", "level", "status", "scope", "evaluators"]
    if output_format == "json":
        print_json(rows)
    elif output_format == "markdown":
        print_lines(markdown_table(columns, [_cells(row, columns) for row in rows]))
    else:
        print_table("", columns, [_cells(row, columns) for row in rows], empty="no rules")


@command.command()
def schema() -> None:
    """Print the JSON Schema of a rule file, for editors."""
    from tracegrade.plugins.installed import load_plugins
    from tracegrade.rule.schema import rule_schema_text

    load_plugins()
    print_lines(rule_schema_text())


@command.command()
@click.argument("names", nargs=-1, required=True, metavar="ID|PATH...")
@volume_option
@tenant_reading_options
def explain(settings: ReadSettings, names: Sequence[str], volume: float | None) -> None:
    """Explain in words what rules judge, when a subject passes, when they alert, and since when they are in force.

    Each ID is looked up in the PATHs that are given; with PATHs alone, all of their rules are explained. For each
    alert, it says how soon it is expected to fire, and how often it may be wrong.
    """
    from tracegrade.alert.wording import expectation_text
    from tracegrade.rule.explained import explained

    paths = [name for name in names if is_place(name)]
    ids = [name for name in names if not is_place(name)]
    rule_set = rules_at(paths, settings.rules, _in_force(settings, paths))
    chosen = [rule for name in ids for rule in rules_of_id(rule_set, name)] if ids else list(rule_set.rules)
    since = _in_force_since(settings, chosen)
    to_come = alerts_to_come(settings, [rule for rule in chosen if rule.alert]) if volume is None else {}
    expected = {
        rule_id: [
            " ".join(filter(None, (expectation_text(item) if item is not None else "", later)))
            for item, later in zip(items, to_come.get(rule_id, [""] * len(items)), strict=True)
        ]
        for rule_id, items in expected_alerts(settings, chosen, volume).items()
    }
    print_lines(
        "\n\n\n".join(
            explained(rule, rule_set.paths[rule.id], since.get(rule.id, ""), expected.get(rule.id, []))
            for rule in chosen
        )
    )


def _in_force_since(settings: ReadSettings, rules: "Sequence[Rule]") -> dict[str, str]:
    """Since when each rule judges so, and has its text, as far as the store knows it."""
    from tracegrade.store.errors import StoreError
    from tracegrade.store.rule_texts import rule_versions

    found = {}
    try:
        with settings.store() as connection:
            for rule in rules:
                texts = [item for item in rule_versions(connection, rule.id) if item.rule_hash == rule.hash]
                own = next((item for item in texts if item.text_hash == rule.text_hash), None)
                if texts:
                    text = "not yet in force" if own is None else f"since {time_text(own.since_ns)} UTC"
                    found[rule.id] = f"Judges so since {time_text(texts[-1].since_ns)} UTC, this text {text}"
    except StoreError:  # nothing was judged here yet
        pass
    return found


def _rule_rows(paths: Sequence[str]) -> list[dict[str, Any]]:
    from tracegrade.rule.summary import rule_summary

    return [{**rule_summary(rule, path), "path": path} for rule, path in rules_with_paths(paths)]


def _evaluator_rows() -> list[dict[str, Any]]:
    from tracegrade.evaluate.registry import evaluators
    from tracegrade.plugins.installed import load_plugins
    from tracegrade.rule.evaluation_spec import field_names

    load_plugins()
    return [
        {"evaluator": evaluator.name, "judges": evaluator.summary, "fields": field_names(evaluator)}
        for evaluator in evaluators().values()
    ]


def _field_rows(name: str) -> list[dict[str, Any]]:
    """The fields of one evaluator, with what the schema of rule files says of them."""
    from tracegrade.document.problem import did_you_mean
    from tracegrade.evaluate.registry import evaluators
    from tracegrade.plugins.installed import load_plugins
    from tracegrade.rule.evaluation_spec import field_meanings

    load_plugins()
    if (evaluator := evaluators().get(name)) is None:
        raise click.UsageError(f"no evaluator {name!r}{did_you_mean(name, evaluators())}")
    return [
        {"evaluator": name, "field": field, "default": default, "means": means}
        for field, default, means in field_meanings(evaluator)
    ]


def _cells(row: dict[str, Any], columns: Sequence[str]) -> list[str]:
    return [", ".join(cell) if isinstance(cell := row[column], list) else cell for column in columns]


for subcommand in (test, new, try_):
    command.add_command(subcommand)
