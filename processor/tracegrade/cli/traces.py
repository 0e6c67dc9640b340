"""``tracegrade traces``: stored traces."""

import sys
from typing import IO, TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Group
from tracegrade.cli.options import limit_option, query_options, run_option
from tracegrade.cli.output import (
    EXIT_FAILED,
    Styled,
    format_option,
    outcome_text,
    output_option,
    print_how_read,
    print_json,
    print_line,
    print_rich,
    print_rows,
    print_table,
    print_text,
    styled,
    tool_text,
)
from tracegrade.cli.results import show_evaluation
from tracegrade.cli.settings import ReadSettings, tenant_reading_options
from tracegrade.cli.traces_delete import delete
from tracegrade.display import count, elapsed_text, json_text, printable, time_text, took_text
from tracegrade.queries.parameters import TracesQuery

if TYPE_CHECKING:
    from rich.tree import Tree

    from tracegrade.model.span import Span
    from tracegrade.model.tool_call import ToolCall
    from tracegrade.model.trace_result import TraceResult
    from tracegrade.store.heads import TraceHead


@click.group(cls=Group, path="traces")
def command() -> None:
    """Show, export and delete stored traces."""


command.add_command(delete)


@command.command("list")
@query_options(TracesQuery)
@limit_option
@tenant_reading_options
@format_option
def list_(settings: ReadSettings, output_format: str, limit: int, query: TracesQuery) -> None:
    """List traces, the last judged first."""
    from tracegrade.queries.lists import traces_page, with_whole_ids

    with settings.store() as connection:
        query = with_whole_ids(connection, query)
        found = traces_page(connection, query.filter(with_backfilled=True), limit)
    if output_format == "json":
        print_json(head.to_json() for head in found.items)
        return
    print_rows(
        (
            {
                "ended (UTC)": time_text(head.end_ns),
                "trace": head.trace_id,
                "service": head.service,
                "root": head.root_name,
                "spans": head.span_count,
                "calls": head.call_count if head.not_decoded is None else None,
                "duration": took_text(head.start_ns, head.end_ns),
                "closed because": _closing(head),
                "evaluations": _outcome_counts(head),
            }
            for head in found.items
        ),
        empty="No such traces.",
        whole=["ended (UTC)", "trace", "duration", "closed because", "evaluations"],
        spare=["root", "service", "closed because"],
    )
    if found.next is not None:
        print_line(f"The newest {limit}; --limit shows more, --since or --service narrow it down.", err=True)


def _closing(head: "TraceHead") -> str:
    return head.close_reason + ("" if head.complete else ", incomplete") + (", cut" if head.cut_by else "")


def _outcome_counts(head: "TraceHead") -> Styled:
    shown = styled("")
    for outcome, number in head.outcomes.items():
        shown += styled(f"{'  ' if str(shown) else ''}{number} ") + outcome_text(outcome)
    return shown


@command.command()
@click.argument("trace", metavar="TRACE_ID")
@run_option
@tenant_reading_options
@format_option
def show(settings: ReadSettings, output_format: str, trace: str, run: str) -> None:
    """Show a trace with its spans, tool calls and evaluations; or a session with its traces and evaluations.

    TRACE_ID is the id of a trace, its first digits (4 or more), or the id of a session.

    JSON: {trace, tool_calls, evaluations, decisions, spans, unread}; log records are among the events of their spans,
    and `unread` are the spans that look like an agent's work and that could not be read. Exit code 1: the store does
    not have it.
    """
    from tracegrade.history.stored_json import stored_json
    from tracegrade.plugins.entry_points import are_installed
    from tracegrade.queries.lists import check_run
    from tracegrade.store.named import trace_id_named
    from tracegrade.store.read import stored_traces

    if are_installed():
        from tracegrade.plugins.installed import load_plugins

        load_plugins()  # dialects say which log records belong to a span
    with settings.store() as connection:
        check_run(connection, run)
        trace_id = trace_id_named(connection, trace, run=run)
        found = stored_traces(connection, trace_id, run=run)
    if not found:
        print_line(
            f"Trace {trace_id.hex()} is not in the store; 'tracegrade why' says what may be the cause.", err=True
        )
        sys.exit(EXIT_FAILED)
    for stored in found:
        if output_format == "json":
            print_json([stored_json(stored)])
        else:
            _print_trace(stored)


@command.command()
@click.argument("named", nargs=-1, metavar="[TRACE_ID...]")
@query_options(TracesQuery)
@limit_option
@output_option
@tenant_reading_options
def export(
    settings: ReadSettings,
    named: tuple[str, ...],
    limit: int,
    output: IO[str],
    query: TracesQuery,
) -> None:
    """Write traces as OTLP/JSON, one request a line, as the collector's file exporter does.

    The traces named, else those that the options select. Attributes that no dialect and no rule reads were not kept and
    are missing. 'replay', 'extract' and the tests of a rule can read the output; log records are on lines of their own.
    Exit code 1: a trace that was named is not in the store.
    """
    from tracegrade.history.stored_json import otlp_lines
    from tracegrade.queries.lists import traces_page, with_whole_ids
    from tracegrade.store.named import trace_id_named
    from tracegrade.store.read import stored_traces

    unknown, more, gone = [], False, 0
    with settings.store() as connection:
        query = with_whole_ids(connection, query)
        # By id, of which tenants; None for all that have it.
        chosen: dict[bytes, set[str] | None] = {}
        for text in named:
            chosen[trace_id_named(connection, text, run=query.run)] = None
        if not named:
            found = traces_page(connection, query.filter(), limit)
            more = found.next is not None
            for head in found.items:
                tenants = chosen.setdefault(bytes.fromhex(head.trace_id), set())
                assert tenants is not None
                tenants.add(head.tenant)
        for trace_id, tenants in chosen.items():
            if not (of_id := stored_traces(connection, trace_id, run=query.run)):
                unknown.append(trace_id.hex())
            for stored in of_id:
                if tenants is not None and stored.trace.tenant not in tenants:
                    continue
                if stored.values_are_gone:
                    gone += 1
                    continue
                output.writelines(otlp_lines(stored))
    if gone:
        print_line(f"{count(gone, 'trace')} left out: their spans were deleted (store.values_retention).", err=True)
    if more:
        print_line(f"The newest {limit}; --limit writes more.", err=True)
    if unknown:
        print_line(f"Not in the store: {', '.join(unknown)}.", err=True)
        sys.exit(EXIT_FAILED)


def _print_trace(stored: "TraceResult") -> None:
    from tracegrade.codec.kept_spans import trace_of
    from tracegrade.extract.extract import extract

    trace = stored.trace
    missing = "complete" if trace.complete else f"incomplete, missing {', '.join(trace.missing)}"
    session = f", session {trace.session}" if trace.session else ""
    release = f" {trace.release}" if trace.release else ""
    cut = f", cut by {trace.cut_by}: results may depend on when its spans came" if trace.cut_by else ""
    took = ("took " if trace.end_ns else "") + took_text(trace.start_ns, trace.end_ns)
    what = "trace" if trace.members is None else "session, last trace"
    print_text(styled(f"{what} {trace.trace_id}", "bold"))
    for line in (
        f"service {trace.service or 'unnamed'}{release}{session}, tenant {trace.tenant}",
        f"started {time_text(trace.start_ns)} UTC, {took}",
        f"{missing}; closed: {trace.close_reason}, revision {trace.revision}{cut}",
    ):
        print_text(styled(f"  {line}"))
    print_line()
    if stored.values_are_gone:
        print_line("  its spans, prompts, arguments and outputs were deleted (store.values_retention)")
        print_line()
    elif trace.members is None:
        kept = trace_of(stored)
        for tree in _span_trees(kept.spans):
            print_rich(tree)
        _print_calls(stored.tool_calls, trace.start_ns)
        print_how_read(extract(kept))
    for trace_id in filter(None, trace.members or ()):
        print_line(f"  trace {trace_id.hex()}")
    if stored.evaluations_of_any_run:
        print_line()
    for item in stored.evaluations_of_any_run:
        show_evaluation(item)


def _span_trees(spans: "list[Span]") -> "list[Tree]":
    """The spans as trees: one for each root, and for each span whose parent is missing."""
    from rich.text import Text
    from rich.tree import Tree

    known = {span.span_id for span in spans}
    base = min(span.start_ns for span in spans)
    nodes: dict[bytes, Tree] = {}
    for span in spans:
        label = Text(printable(span.name) or "(no name)")
        label.append(f"  {took_text(span.start_ns, span.end_ns)}", style="dim")
        label.append(f"  +{elapsed_text(span.start_ns - base)}", style="dim")
        label.append(f"  {span.span_id.hex()}", style="dim")
        if span.status_code == 2:
            label.append(f"  ✗ error {printable(span.status_message)}".rstrip(), style="bold red")
        if span.parent_span_id and span.parent_span_id not in known and not span.is_local_root:
            label.append(f"  parent {span.parent_span_id.hex()} is missing", style="yellow")
        nodes[span.span_id] = Tree(label, guide_style="dim")
    parents = {span.span_id: span.parent_span_id for span in spans}
    roots = []
    for span in spans:
        if span.parent_span_id in known and not _leads_back(span.span_id, parents):
            nodes[span.parent_span_id].children.append(nodes[span.span_id])
        else:
            roots.append(nodes[span.span_id])
    return roots


def _leads_back(span_id: bytes, parents: dict[bytes, bytes]) -> bool:
    """Whether the parents of a span lead back to it: senders can write circles."""
    seen = {span_id}
    above = parents[span_id]
    while above in parents and above not in seen:
        seen.add(above)
        above = parents[above]
    return above == span_id


def _print_calls(calls: "list[ToolCall]", start_ns: int) -> None:
    from tracegrade.model.tool_call import numbers_in_runs

    def shown(value: Any, status: str) -> str:
        if status in ("absent", "elsewhere"):
            return f"({status})"
        return json_text(value) + ("" if status == "ok" else f" ({status})")

    def outcome(call: "ToolCall") -> str | Styled:
        if call.error is None:
            return shown(call.output, call.output_status)
        return styled(f"✗ {call.error.type} {call.error.message}".strip(), "bold red")

    in_trace, in_runs = list(range(1, len(calls) + 1)), numbers_in_runs(calls)
    # Explanations number the calls of what was judged: an agent run, or the trace.
    columns = {"#": in_trace} if in_trace == in_runs else {"in trace": in_trace, "in run": in_runs}
    print_table(
        "",
        [*columns, "tool call", "arguments", "output", "agent", "batch", "begins at", "duration"],
        [
            [
                *numbers,
                tool_text(call.depth, call.name, call.raw_name)
                + (f" (attempt {call.attempt})" if call.attempt > 1 else ""),
                shown(call.arguments, call.arguments_status),
                outcome(call),
                call.agent,
                call.batch,
                f"+{elapsed_text(call.start_ns - start_ns)}" if call.start_ns else None,
                took_text(call.start_ns, call.end_ns) if call.start_ns else None,
            ]
            for call, *numbers in zip(calls, *columns.values(), strict=True)
        ],
        empty="\nNo tool calls.",
    )
