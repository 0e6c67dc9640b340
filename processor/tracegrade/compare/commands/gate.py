"""``tracegrade gate``: may what is stored of a release, a run or a time go out?"""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tracegrade.cli.gate_options import AskedGate, gate_options
from tracegrade.cli.groups import Command
from tracegrade.cli.options import query_options, rules_option
from tracegrade.cli.output import format_of, print_json, print_line, print_lines, progress
from tracegrade.cli.replay_summary import EXITS, gate_line, print_gate, print_rules
from tracegrade.cli.reports import REPORT_FORMATS, report
from tracegrade.cli.settings import settings_options
from tracegrade.compare.query import SidesQuery
from tracegrade.pipeline.gate import Bounds, Counted, Verdict, asks, judged_by
from tracegrade.queries.times import time_of

if TYPE_CHECKING:
    from tracegrade.compare.gate.results import Results
    from tracegrade.config import Config
    from tracegrade.rule.rule_set import RuleSet


@click.command(cls=Command)
@click.argument("side", metavar="SIDE")
@rules_option("Gate these rules instead of those in the settings; only results of the same content of them count.")
@query_options(SidesQuery, without=["rule"])
@gate_options
@settings_options
@format_of(
    ["table", "json", *REPORT_FORMATS], "A table, one JSON object, or a report for CI; markdown is for a pull request."
)
def command(
    side: str,
    rule_paths: tuple[str, ...],
    query: SidesQuery,
    gate: AskedGate,
    config: "Config",
    output_format: str,
) -> None:
    """May it go out? Hold stored results against what rule files ('gate') and the options below require.

    SIDE is release:NAME, agent:NAME, model:NAME, live or a run's name, each with @FROM..TO after it if needed, as
    'compare' takes it: live@2d.. for the last two days. 'replay' has the same options for traces that it judges.

    Exit codes: 0 passed, 1 failed, 3 not enough data to decide, 2 usage. JSON: {side, gate, exit_code, reasons, rules,
    notes}; each rule as 'replay' gives it.
    """
    from tracegrade.compare.gate.against import against
    from tracegrade.compare.gate.baselines import Baselines
    from tracegrade.compare.gate.results import results_of
    from tracegrade.compare.sides import named_side
    from tracegrade.store.open import reading_store
    from tracegrade.store.result_filter import ResultFilter

    rule_set = config.load_rules(rule_paths)
    if not len(rule_set):
        raise click.UsageError("no rules to gate: give --rules PATH, or rules.paths in the settings")
    bounds = gate.bounds(rule_set)
    _check_asks(bounds, rule_set)
    chosen = named_side(side, time_of, query.filter())
    tenant = query.tenant
    shared = ResultFilter(service=query.service, agent=query.agent, tenant=tenant)
    baselines = Baselines(config.store_url, rule_set, time_of, shared=shared, progress=progress)
    baseline_of = baselines.of_gate(bounds)
    with reading_store(config.store_url, tenant) as connection:
        results = results_of(connection, chosen, rule_set, progress)
    counted = list(_counted(rule_set, results))
    verdict = judged_by(bounds, counted, against(bounds, counted, results, baseline_of))
    notes = [*results.notes, *_not_gated(rule_set, results)]
    _print(output_format, side, rule_set, verdict, notes)
    sys.exit(EXITS[verdict.word])


def _check_asks(bounds: Bounds, rule_set: "RuleSet") -> None:
    if not asks(bounds, rule_set.rules):
        raise click.UsageError(
            "nothing is required: no stable rule has 'gate' in its file; give --fail-under, --fail-under-overall or "
            "--baseline"
        )


def _counted(rule_set: "RuleSet", results: "Results") -> Iterator[Counted]:
    """Every rule with the results that its present content made."""
    for rule in rule_set.rules:
        others = [name for name in results.hashes(rule.id) if name != rule.hash]
        missing = f"judged by another content of the rule, {', '.join(others)}, and not by {rule.hash}"
        met = results.met_cases.get((rule.id, rule.hash), ())
        yield Counted.of(rule, results.of(rule.id, rule.hash), missing if others else "", met)


def _not_gated(rule_set: "RuleSet", results: "Results") -> Iterator[str]:
    """What is stored and has no part in the decision."""
    known = {rule.id: rule.hash for rule in rule_set.rules}
    strange = sorted({rule_id for rule_id, _ in results.tallies if rule_id not in known})
    if strange:
        yield f"left out, since they are not among the rules that are gated: {', '.join(strange)}"
    for rule_id, rule_hash in sorted(results.tallies):
        if rule_id in known and rule_hash != known[rule_id] and known[rule_id] in results.hashes(rule_id):
            yield f"{rule_id}: results of another content of the rule are left out ({rule_hash})"


def _print(output_format: str, side: str, rule_set: "RuleSet", verdict: Verdict, notes: list[str]) -> None:
    if output_format == "json":
        rules = [rule.to_json() for rule in verdict.rules]
        code = EXITS[verdict.word]
        head = {"side": side, "gate": verdict.word, "exit_code": code, "reasons": list(verdict.reasons)}
        print_json([{**head, "rules": rules, "notes": notes}])
        return
    if output_format == "table":
        print_rules("", verdict, {})
        for note in notes:
            print_line(note)
        print_line(gate_line(verdict))
        return
    print_lines(report(output_format, [], f"Gate of {side}", rule_set, verdict))
    for note in notes:
        print_line(note, err=True)
    print_gate(verdict, output_format)
