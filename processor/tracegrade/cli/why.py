"""``tracegrade why``: the decision of every rule on one trace."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import rules_option, run_option, tenant_option
from tracegrade.cli.output import (
    EXIT_FAILED,
    Styled,
    format_option,
    outcome_text,
    print_how_read,
    print_json,
    print_line,
    print_lines,
    print_table,
)
from tracegrade.cli.settings import settings_options
from tracegrade.display import count, json_text, judged_score_text, time_text
from tracegrade.model.evaluation import LIVE
from tracegrade.model.tenant import DEFAULT_TENANT

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.history.lateness import LateArrival
    from tracegrade.history.why import StoredJudgement
    from tracegrade.model.extraction import Extraction
    from tracegrade.model.trace_result import TraceResult
    from tracegrade.rule.rule_set import RuleSet

_UNKNOWN = """Trace {} is not in the store. It may
  - be open still: a trace is judged when it is finished (traces.settle, idle_timeout, max_age),
  - wait to be read: 'tracegrade_judge_lag_bytes' on /metrics says how much, with Kafka 'tracegrade_kafka_lag_seconds',
  - be older than store.retention,
  - have come to another data_dir: this is {},
  - never have come here, or have been refused: 'tracegrade_receiver_requests_total' on /metrics counts by reason."""


@click.command(cls=Command)
@click.argument("trace", metavar="TRACE_ID", required=False)
@click.option("--last", is_flag=True, help="The trace that was judged last, in place of TRACE_ID.")
@click.option("--rule", "only", metavar="ID", help="Only of this rule.")
@rules_option("Use these rules instead of those in the settings.")
@run_option
@tenant_option
@settings_options
@format_option
def command(
    config: "Config",
    output_format: str,
    trace: str | None,
    last: bool,
    only: str | None,
    rule_paths: tuple[str, ...],
    run: str,
    tenant: str | None,
) -> None:
    """Explain why a trace, and the sessions it is part of, were judged as they were, or not at all.

    TRACE_ID is the id of a trace, its first digits (4 or more), or the id of a session, which is then explained alone.
    What failed or could not be judged is shown first.

    Decisions are stored for the rules that matched. For the others, the stored trace is matched again with the rules in
    force now, and the clause that did not match is shown. Spans that arrived too late to be judged are counted, as far
    back as the journal goes.

    JSON: one line for each (subject, rule) pair: {rule_id, subject, decision, outcome, reason, evaluations}.

    Exit code 1: the store does not have the trace.
    """
    from tracegrade.deletion.request import Deletions
    from tracegrade.history.lateness import late_arrivals
    from tracegrade.history.why import derived_pairs, read_judgement, stored_pairs, worst_first
    from tracegrade.model.tenant_mark import tenant_mark
    from tracegrade.pipeline.data_folder import JOURNAL
    from tracegrade.queries.lists import check_run, traces_page
    from tracegrade.queries.parameters import TracesQuery
    from tracegrade.store.named import trace_id_named
    from tracegrade.store.open import reading_store
    from tracegrade.store.read import stored_traces
    from tracegrade.store.rule_texts import judges_alike

    if last is (trace is not None):
        raise click.UsageError("expected a TRACE_ID, or --last; 'traces list' shows the ids")
    rule_set = config.load_rules(rule_paths)
    with reading_store(config.store_url, tenant) as connection:
        check_run(connection, run)
        if trace is None:
            newest = traces_page(connection, TracesQuery(run=run).filter(), 1).items
            if not newest:
                raise click.UsageError("--last: the store has no trace yet")
            trace = newest[0].trace_id
        trace_id = trace_id_named(connection, trace, run=run)
        stored_ones = stored_traces(connection, trace_id, run=run)
        found = [read_judgement(connection, stored, config.traces) for stored in stored_ones]
        alike = [judges_alike(connection, read.stored.trace.rule_set_hash, rule_set) for read in found]
        shown = [
            [*stored_pairs(read), *derived_pairs(read, rule_set, judged_alike=judged_alike)]
            for read, judged_alike in zip(found, alike, strict=True)
        ]
    if not found and run != LIVE:
        print_line(
            f"Run {run} does not have trace {trace_id.hex()}; 'traces list --run {run}' shows those it has.", err=True
        )
        sys.exit(EXIT_FAILED)
    if not found:
        tombstones = Deletions(config.data_path).tombstones()
        of_tenant = tenant_mark(tenant or DEFAULT_TENANT, trace_id)
        deleted_ns = tombstones.deleted_ns(trace_id) or tombstones.deleted_ns(of_tenant)
        if deleted_ns is not None:
            print_line(f"Trace {trace_id.hex()} was deleted on request, {time_text(deleted_ns)} UTC.", err=True)
        else:
            print_lines(_UNKNOWN.format(trace_id.hex(), config.data_path.resolve()), err=True)
        sys.exit(EXIT_FAILED)
    shown = [worst_first(pair for pair in pairs if only in (None, pair["rule_id"])) for pairs in shown]
    for read, pairs, judged_alike in zip(found, shown, alike, strict=True):
        if output_format == "json":
            print_json(pairs)
        else:
            late: list[LateArrival] = []
            if read.extraction is not None and run == LIVE:  # a run may be of files, of which the journal says nothing
                late = late_arrivals(config.data_path / JOURNAL, read.stored, config.traces, rule_set)
            print_judgement(read, pairs, rule_set, judged_alike=judged_alike, late=late)


def print_judgement(
    read: "StoredJudgement",
    pairs: "list[dict[str, Any]]",
    rule_set: "RuleSet",
    *,
    judged_alike: bool = True,
    late: "Sequence[LateArrival]" = (),
) -> None:
    """Print what is known of a trace or session, and then the decision of each of `pairs` with its reason."""
    _print_head(read.stored, rule_set, judged_alike)
    _print_late(late)
    if read.extraction is not None:
        _print_renamed(read.extraction)
        _print_silent(read.extraction)
        print_how_read(read.extraction)
    _print_pairs(pairs)


def _print_head(stored: "TraceResult", rule_set: "RuleSet", judged_alike: bool) -> None:
    head = stored.trace
    completeness = "complete" if head.complete else f"incomplete ({', '.join(head.missing)} missing)"
    what = f"trace {head.trace_id}" if stored.trace.members is None else f"session {head.session}"
    of_run = "" if head.run == LIVE else f", run {head.run}"
    print_line(f"{what} of {head.service or 'an unnamed service'}, tenant {head.tenant}{of_run}")
    closed = f" {time_text(head.closed_ns)} UTC" if head.closed_ns else ""  # of files nobody knows when
    were_never_read = head.not_decoded is not None and stored.values_are_gone
    calls = "tool calls were never read" if were_never_read else f"{head.call_count} tool calls"
    print_line(
        f"  {completeness}, closed{closed} ({head.close_reason}), revision "
        f"{head.revision}, {head.span_count} spans, {calls}"
    )
    if head.cut_by:
        print_line(f"  cut short by {head.cut_by}: spans beyond that bound were not judged")
    if head.not_decoded is not None:
        why = {
            "not_matched": "no rule could match it",
            "sampled_out": "the samples of all rules that might match left it out",
        }[head.not_decoded.reason]
        print_line(f"  not decoded when it came, since {why}")
    if stored.values_are_gone:
        print_line(
            "  its prompts, arguments and outputs were deleted (store.values_retention), so what did not match is not "
            "shown"
        )
        return
    if not len(rule_set):
        print_line("  no rules given: give -c CONFIG or --rules PATH to see what did not match")
    elif not judged_alike:
        print_line(
            "  judged by another rule set than the one loaded now (-c chooses it), which says what did not match"
        )


def _print_late(arrivals: "Iterable[LateArrival]") -> None:
    from tracegrade.assemble.dispositions import reason_text

    by_reason: dict[str, list[LateArrival]] = {}
    for arrival in arrivals:
        by_reason.setdefault(arrival.reason, []).append(arrival)
    for reason, some in by_reason.items():
        found = ((sum(a.spans for a in some), "span"), (sum(a.log_records for a in some), "log record"))
        what = " and ".join(count(number, name) for number, name in found if number)
        times = " to ".join(dict.fromkeys(f"{time_text(a.received_ns)} UTC" for a in (some[0], some[-1])))
        why = reason_text(reason, f"came beyond {reason}")
        print_line(f"  {what} not judged: {why}, {times}")


def _print_renamed(extraction: "Extraction") -> None:
    names = sorted({(call.raw_name, call.name) for call in extraction.calls if call.raw_name != call.name})
    for raw_name, name in names:
        print_line(f"  the tool {raw_name} is {name} to rules (traces.tool_aliases)")


def _print_silent(extraction: "Extraction") -> None:
    if extraction.silent_scopes:
        scopes = ", ".join(map(repr, extraction.silent_scopes))
        print_line(f"  no tool call was read, though models or agents wrote spans: scope {scopes}")


def _print_pairs(pairs: list[dict[str, Any]]) -> None:
    rows: list[list[object]] = []
    for pair, number in _alike_once(pairs):
        kind = pair["subject"]["kind"]
        subject = f"{kind} {pair['subject']['id']}".strip() if number == 1 else f"{number} {kind}s"
        evaluations = pair["evaluations"]
        if len(evaluations) == 1 and not evaluations[0]["case"]:  # it says all that there is to say of the rule
            (item,) = evaluations
            rows.append([_decision_text(pair), pair["rule_id"], subject, _because(item)])
            rows += [["", "", "", line] for line in _lookup_lines(item)]
            continue
        rows.append([_decision_text(pair), pair["rule_id"], subject, pair["reason"]])
        for item in evaluations:
            case = f" · {item['case']}" if item["case"] else ""
            text = "" if (item["explanation"] or item["reason"]) == pair["reason"] else _because(item)
            rows.append(["", "  " + item["evaluation"] + case, outcome_text(item["outcome"]), text])
            rows += [["", "", "", line] for line in _lookup_lines(item)]
    print_table(
        "",
        ["decision", "rule", "subject", "because"],
        rows,
        empty="\nNo rule matched when it was judged.",
        whole=["decision", "subject"],
    )


def _because(item: dict[str, Any]) -> str:
    score = (
        ""
        if item["score"] is None
        else f"score {judged_score_text(item['score'], item['threshold'])}, threshold {item['threshold']:.4g}. "
    )
    return f"{score}{item['explanation'] or item['reason']}"


def _alike_once(pairs: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """Each pair with how many it stands for: those that were not judged are shown once for each rule and reason."""
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for number, pair in enumerate(pairs):
        of_all = (pair["decision"], pair["rule_id"], pair["subject"]["kind"], pair["reason"])
        alike.setdefault((str(number),) if pair["evaluations"] or pair["outcome"] else of_all, []).append(pair)
    for some in alike.values():
        yield some[0], len(some)


def _lookup_lines(evaluation: dict[str, Any]) -> Iterator[str]:
    """Where a value was to come from elsewhere in the run: what it is, and what was looked up, in which call."""
    for item in evaluation.get("differences", ()):
        found = "nothing" if item["problem"] == "missing" else json_text(item["found"])
        text = f"{item['call']} {item['path']}: found {found}, expected {item['expected']}"
        places = []
        for at in item["looked_up"]:
            value = "cannot be read" if at.get("unreadable") else json_text(at["value"]) if "value" in at else "nothing"
            places.append(f"{value} in call {at['call']} ({at['tool']})" if "call" in at else f"{value} in the prompt")
        yield f"{text}: {', '.join(places) or item['origin']}"
    yield from evaluation.get("earlier_turns", ())


def _decision_text(pair: dict[str, Any]) -> str | Styled:
    if pair["decision"] in ("evaluated", "not_evaluable", "error"):
        return outcome_text(pair["outcome"] or pair["decision"])
    return f"  {pair['decision']}"
