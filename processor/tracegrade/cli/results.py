"""``tracegrade results``: stored evaluations."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.options import limit_option, query_options, run_option
from tracegrade.cli.output import (
    EXIT_FAILED,
    format_of,
    format_option,
    outcome_text,
    output_option,
    print_json,
    print_line,
    print_rows,
    print_table,
    print_text,
    styled,
)
from tracegrade.cli.settings import ReadSettings, tenant_reading_options
from tracegrade.display import json_text, judged_score_text, printable_json, printable_lines, time_text
from tracegrade.model.evaluation import BACKFILL, LIVE
from tracegrade.queries.parameters import RatesQuery, ResultsQuery

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tracegrade.model.evaluation import Evaluation
    from tracegrade.model.tally import Tally
    from tracegrade.model.trace_result import TraceResult
    from tracegrade.store.result_filter import ResultFilter
    from tracegrade.store.results import Result
    from tracegrade.store.tallies import Key

_EXPORTED_AT_A_TIME = 1000
# Full-width forms too: some spreadsheets take them for the same.
_FORMULA_BEGINS_WITH = ("=", "+", "-", "@", "\t", "＝", "＋", "－", "＠")
_BY = ["rule", "agent", "service", "release"]


@click.group(cls=Group, path="results")
def command() -> None:
    """Show and export stored evaluations."""


@command.command("list")
@query_options(ResultsQuery)
@limit_option
@click.option("--by", type=click.Choice(_BY), help="Group by rule, agent, service or release.")
@tenant_reading_options
@format_option
def list_(
    settings: ReadSettings,
    output_format: str,
    limit: int,
    by: str | None,
    query: ResultsQuery,
) -> None:
    """List evaluations, the newest first; with --by, group by group.

    JSON: one evaluation per line, with every field and value.
    """
    from tracegrade.queries.lists import results_page, with_whole_ids
    from tracegrade.store.results import full_evaluations

    with settings.store() as connection:
        query = with_whole_ids(connection, query)
        newest = results_page(connection, query.filter(with_backfilled=True), limit)
        found = newest.items
        if by is not None:
            found = sorted(found, key=lambda result: _group(result, by))
        if output_format == "json":
            print_json(evaluation.to_json() for evaluation in full_evaluations(connection, found))
            return
    shows_run = query.run == LIVE and any(result.run != LIVE for result in found)
    print_rows(
        (_row(result, by, shows_run=shows_run) for result in found),
        empty="No such evaluations.",
        whole=["ended (UTC)", "outcome", "run", "trace"],
        spare=[name for name in ("service", "agent") if name != by],
    )
    if newest.next is not None:
        print_line(f"The newest {limit}; --limit shows more, --since, --rule or --outcome narrow it down.", err=True)


def _row(result: "Result", by: str | None, *, shows_run: bool) -> dict[str, object]:
    """One line; the group of `by`, if any, comes first."""
    row: dict[str, object] = {
        "ended (UTC)": time_text(result.time),
        "outcome": outcome_text(result.outcome),
        "rule": result.rule_id,
        "evaluation": result.evaluation + (f" · {result.case}" if result.case else ""),
        "score": result.score,
        "agent": result.agent,
        "service": result.service,
        **({"run": result.run} if shows_run else {}),
        "trace": result.trace_id,
    }
    return row if by is None else {by: _group(result, by)} | {name: row[name] for name in row if name != by}


def _group(result: "Result", by: str) -> str:
    """What `result` stands with; "" for an agent or a release without a name."""
    return {"rule": result.rule_id, "agent": result.agent, "service": result.service}.get(by, result.release or "")


@command.command()
@query_options(ResultsQuery)
@format_of(["jsonl", "csv"], "One JSON object per line, or a table with one column per field.")
@output_option
@tenant_reading_options
def export(settings: ReadSettings, output_format: str, output: IO[str], query: ResultsQuery) -> None:
    """Write all evaluations that the options select, the newest first, with every field and value.

    In CSV, the subject's kind and id are separate columns, details are JSON, and an apostrophe is put before any text
    that a spreadsheet would read as a formula.
    """
    import csv

    from tracegrade.queries.lists import with_whole_ids

    with settings.store() as connection:
        rows = _all_results(connection, with_whole_ids(connection, query).filter())
        if output_format == "jsonl":
            for evaluation in rows:
                output.write(printable_json(json_text(evaluation.to_json())) + "\n")
            return
        table = csv.writer(output, lineterminator="\n")
        for number, evaluation in enumerate(rows):
            row = _csv_row(evaluation)
            if not number:
                table.writerow(row)
            table.writerow(row.values())


def _all_results(connection: "Connection", result_filter: "ResultFilter") -> "Iterator[Evaluation]":
    """All evaluations that `result_filter` selects, a few in memory at a time."""
    from tracegrade.queries.lists import results_page
    from tracegrade.store.results import full_evaluations

    cursor, is_end = None, False
    while not is_end:
        found = results_page(connection, result_filter, _EXPORTED_AT_A_TIME, cursor)
        yield from full_evaluations(connection, found.items)
        cursor, is_end = found.next, found.next is None


def _csv_row(evaluation: "Evaluation") -> dict[str, object]:
    row = evaluation.to_json()
    flat: dict[str, object] = {}
    for key, value in row.items():
        if key == "subject" and isinstance(value, dict):
            flat |= {f"subject_{name}": part for name, part in value.items()}
        else:
            flat[key] = json_text(value) if isinstance(value, dict | list | bool) else value
    return {key: _no_formula(value) if isinstance(value, str) else value for key, value in flat.items()}


def _no_formula(text: str) -> str:
    """`text` as a cell that no spreadsheet takes for a formula, nor a terminal for a command.

    Source: OWASP, CSV injection.
    """
    shown = printable_lines(text)
    return f"'{shown}" if shown.startswith(_FORMULA_BEGINS_WITH) else shown


@command.command()
@click.argument("trace", metavar="TRACE_ID")
@click.option("--rule", metavar="ID", help="Only of this rule.")
@run_option
@tenant_reading_options
@format_option
def show(settings: ReadSettings, output_format: str, trace: str, rule: str | None, run: str) -> None:
    """Show all evaluations of one trace and of the sessions it is part of, with what was found and expected.

    TRACE_ID is the id of a trace, its first digits (4 or more), or the id of a session.

    Exit code 1: the store has none.
    """
    from tracegrade.queries.lists import check_run
    from tracegrade.store.named import trace_id_named
    from tracegrade.store.read import sessions_of, stored_traces

    with settings.store() as connection:
        check_run(connection, run)
        trace_id = trace_id_named(connection, trace, run=run)
        stored = stored_traces(connection, trace_id, run=run)
        stored += [session for trace in stored for session in sessions_of(connection, trace)]
    found = [item for trace in stored for item in _evaluations_of(trace, run) if rule is None or item.rule_id == rule]
    if not found:
        what = f"of rule {rule} " if rule is not None else ""
        print_line(f"No evaluations {what}of trace {trace_id.hex()}; 'tracegrade why' says why.", err=True)
        sys.exit(EXIT_FAILED)
    if output_format == "json":
        print_json(item.to_json() for item in found)
        return
    for item in found:
        show_evaluation(item)


def _evaluations_of(trace: "TraceResult", run: str) -> "list[Evaluation]":
    """Those of a run; of what was judged live, also those that were backfilled."""
    return [item for item in trace.evaluations_of_any_run if run in (LIVE, item.subject.run)]


def show_evaluation(item: "Evaluation") -> None:
    """Print one evaluation with its explanation and details."""
    score = (
        ""
        if item.score is None
        else f"  score {judged_score_text(item.score, item.threshold)}, threshold {item.threshold:.4g}"
    )
    case = f" · {item.case}" if item.case else ""
    print_text(outcome_text(item.outcome) + styled(f"  {item.rule_id}/{item.evaluation}{case}{score}", "bold"))
    subject = item.subject
    who = f"agent {subject.agent}" if subject.agent else "no agent named"
    lines = [f"{subject.kind} {subject.id}, {who}, service {subject.service or 'unnamed'}"]
    if not subject.complete:
        kind = "session" if subject.kind == "session" else "trace"
        lines.append(f"incomplete {kind}: {', '.join(subject.missing)} missing")
    if subject.run == BACKFILL:
        lines.append("judged afterwards, by 'rules backtest --store'")
    lines += list(dict.fromkeys(text for text in (item.full_explanation, item.reason) if text))
    lines += _detail_lines(item.details, "")
    for text in lines:
        for line in text.split("\n"):
            print_text(styled(f"    {line}"))
    print_line()


def _detail_lines(details: dict[str, Any], indent: str) -> list[str]:
    """One line a detail, objects unfolded once; what is empty says nothing."""
    lines = []
    for key, value in details.items():
        if isinstance(value, dict) and not indent:
            if key.startswith(_CALLS):
                value = {_NUMBERED.sub(_expected_call, name): found for name, found in value.items()}
            lines += [f"{_label(key)}:", *_detail_lines(value, "  ")] if value else []
        elif value != []:
            lines.append(f"{indent}{_label(key)}: {value if isinstance(value, str) else json_text(value)}")
    return lines


_CALLS = "explained_tool_calls"  # how each expected call was met
_NUMBERED = re.compile(r"_(\d+)$")


def _label(key: str) -> str:
    return "expected calls" if key.startswith(_CALLS) else key


def _expected_call(number: re.Match[str]) -> str:
    return f" (expected call {int(number[1]) + 1})"


@command.command()
@query_options(RatesQuery)
@click.option("--by", type=click.Choice(_BY), help="One line for each rule, agent, service or release.")
@run_option
@tenant_reading_options
@format_option
def stats(settings: ReadSettings, output_format: str, by: str | None, run: str, query: RatesQuery) -> None:
    """Show how often rules and their evaluations pass, by service.

    Only complete traces count; results of incomplete traces are shown in a column of their own. A rule of several
    evaluations has a line for each, and one without a name for the whole. Results that 'rules backtest --store' made
    afterwards count too; --run backfill is of them alone.

    With --by, the outcomes of whole rules are added up for each rule, agent, service or release. In JSON, the key of
    that name then takes the place of tenant, rule_id, evaluation and service; and coverage, the share that could be
    judged, takes the place of score_sum.
    """
    from tracegrade.queries.lists import check_run
    from tracegrade.store.tallies import RATED, RATED_BY, tallies

    chosen = query.filter(run=run, with_backfilled=True)
    if chosen.stored_as != LIVE and (query.since is not None or query.until is not None):
        raise click.UsageError("a run is counted as a whole: leave out --since and --until; 'results list' takes them")
    if by is not None:
        _show_by(settings, chosen, by, output_format)
        return
    with settings.store() as connection:
        check_run(connection, chosen.run)
        found = sorted(tallies(connection, chosen, RATED_BY, of="both", summed=RATED).items())
    if output_format == "json":
        print_json(
            {**dict(zip(RATED_BY, key, strict=True)), **tally.sums(), "score_sum": tally.score_sum}
            for key, tally in found
        )
        return
    counted = _columns(tally for _, tally in found)
    # With several tenants, their lines would look alike without them.
    first = 0 if len({tenant for (tenant, *_), _ in found}) > 1 else 1
    print_table(
        "",
        [*(name.removesuffix("_id") for name in RATED_BY[first:]), *counted],
        [[*key[first:], *_counted(tally)[: len(counted)]] for key, tally in _once(found)],
        empty="No evaluations.",
    )


def _once(found: "Sequence[tuple[Key, Tally]]") -> "Iterator[tuple[Key, Tally]]":
    """The lines of rules and evaluations, but for the rule's own where its one evaluation says the same."""
    evaluations: dict[tuple[str, str, str], list[Tally]] = {}
    for (tenant, rule_id, evaluation, service), tally in found:
        if evaluation:
            evaluations.setdefault((tenant, rule_id, service), []).append(tally)
    for key, tally in found:
        tenant, rule_id, evaluation, service = key
        of_rule = evaluations.get((tenant, rule_id, service), [])
        if evaluation or len(of_rule) != 1 or _counted(tally) != _counted(of_rule[0]):
            yield key, tally


_COUNTED = ("pass rate", "pass", "fail", "not_evaluable", "error", "incomplete")


def _columns(found: "Iterable[Tally]") -> tuple[str, ...]:
    """With one more where some results were judged afterwards."""
    return (*_COUNTED, "backfilled") if any(item.backfilled for item in found) else _COUNTED


def _counted(found: "Tally") -> list[object]:
    return [
        "unknown" if found.pass_rate is None else f"{found.pass_rate:.1%}",
        found.passed,
        found.failed,
        found.not_evaluable or None,
        found.errors or None,
        found.incomplete or None,
        found.backfilled or None,
    ]


def _show_by(settings: ReadSettings, chosen: "ResultFilter", by: str, output_format: str) -> None:
    """Outcomes of whole rules, one line for each rule, agent, service or release."""
    from tracegrade.queries.lists import check_run
    from tracegrade.store.tallies import DIMENSIONS, tallies

    with settings.store() as connection:
        check_run(connection, chosen.run)
        found = tallies(connection, chosen, [DIMENSIONS[by]])
    rows = [(name, tally) for (name,), tally in sorted(found.items())]
    if output_format == "json":
        print_json({by: name, **tally.sums(), "coverage": tally.coverage} for name, tally in rows)
        return
    counted = _columns(tally for _, tally in rows)
    shown = [[name, *_counted(tally)[: len(counted)]] for name, tally in rows]
    print_table("", [by, *counted], shown, empty="No evaluations.")
