"""``tracegrade extract``: the tool calls read from traces, whatever framework wrote them."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.output import (
    end_if_nothing_read,
    format_option,
    print_json,
    print_line,
    print_source_report,
    print_table,
    tool_text,
)
from tracegrade.cli.settings import options_read_by
from tracegrade.display import count, json_text
from tracegrade.model.agent_run import AgentRun
from tracegrade.model.extraction import Extraction

if TYPE_CHECKING:
    from tracegrade.assemble.settings import TracesSettings

_MAX_CELL = 60


def _traces_settings(config_path: Path | None, data_dir: str | None) -> "TracesSettings | None":
    """The settings ``traces``; None where no settings file is there.

    Reading the settings takes longer than reading most files of traces.
    """
    if config_path is None:
        return None
    from tracegrade.config import load_config

    return load_config(config_path, data_dir=data_dir, allow_unset=True).traces


def _aliases(settings: "TracesSettings | None") -> Callable[[str], str] | None:
    """Gives the name that rules use for a tool; None where no settings name another."""
    if settings is None:
        return None
    from tracegrade.rule.tool_aliases import ToolAliases

    return ToolAliases(settings.tool_aliases)


@click.command(cls=Command)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@options_read_by(_traces_settings, "settings")
@format_option
def command(settings: "TracesSettings | None", sources: tuple[str, ...], output_format: str) -> None:
    """Show the tool calls read from traces.

    A SOURCE is a file or folder of traces (OTLP in JSON or protobuf, Grafana Tempo's export, ATIF; plain, gzip or
    zstd), or - for standard input. Several sources are one input: a trace may be spread over them. Standard error names
    spans that are not read. Of the settings, only traces.tool_aliases, traces.ignore_scopes and traces.read_by_shape
    are used.

    Exit codes: 2 a source cannot be read, 3 no trace was read: the sources are empty, or none of their spans can be
    read.
    """
    from tracegrade.extract.across import fold_across
    from tracegrade.extract.extract import extract
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.otlp.files.sources import read_sources
    from tracegrade.pipeline.whole_traces import read_traces
    from tracegrade.plugins.installed import load_plugins

    load_plugins()
    stdin = sys.stdin.buffer if "-" in sources else None
    report = SourceReport()
    traces = read_traces(read_sources(sources, report, stdin), settings=settings)
    print_source_report(report, output_format)
    end_if_nothing_read(report)
    # By time, so that the same spans in other files print the same.
    traces.sort(key=lambda trace: (trace.spans[0].start_ns, trace.trace_id))
    aliases = _aliases(settings)
    extractions = [extract(trace, aliases) for trace in traces]
    fold_across(extractions)
    if output_format == "json":
        print_json(_trace_row(extraction, report.not_read) for extraction in extractions)
        return
    traces_read = count(len(extractions), "trace")
    print_table(
        f"{count(sum(len(extraction.calls) for extraction in extractions), 'tool call')} in {traces_read}",
        ("trace", "agent", "call", "arguments", "output", "error", "batch", "read from"),
        _table_rows(extractions),
        empty=f"no tool calls in {traces_read}",
        whole=["trace", "call", "batch"],
        spare=["read from", "agent"],
    )
    _print_how_read(extractions)


def _print_how_read(extractions: Sequence[Extraction]) -> None:
    """One line for each scope whose calls were read by shape, and for each with spans that were not read, by reason."""
    from tracegrade.extract.how_read import BY_SHAPE_ADVICE, UnreadSpan, by_shape, spans_not_read

    for found in by_shape(extractions):
        print_line(f"{found.sentence}; {BY_SHAPE_ADVICE}.")
    alike: dict[tuple[str, str], list[UnreadSpan]] = {}
    for extraction in extractions:
        if extraction.dialect_error:
            print_line(
                f"Trace {extraction.trace.trace_id.hex()} was read without the dialects of installed packages, one of "
                f"which raised {extraction.dialect_error}."
            )
        for span in spans_not_read(extraction):
            alike.setdefault((span.scope, span.reason), []).append(span)
    for _, spans in sorted(alike.items()):
        first = spans[0]
        others = f" (and {len(spans) - 1} more for this reason)" if len(spans) > 1 else ""
        print_line(f"{first.sentence}{others}; {first.advice}.")


def _trace_row(extraction: Extraction, not_read: int) -> dict[str, Any]:
    """One documented JSON object a trace; `agents` are the names of its runs, each once, in order of start.

    `not_read` is of the whole input: of which trace a span is that cannot be read is often not known.
    """
    from tracegrade.extract.how_read import spans_not_read

    return {
        "trace_id": extraction.trace.trace_id.hex(),
        "session": extraction.session,
        "agents": list(dict.fromkeys(run.agent for run in extraction.runs if run.agent)),
        "tool_calls": [call.to_json() for call in extraction.calls],
        "runs": [_run_row(run) for run in extraction.runs],
        "release": extraction.release,
        "unread_tool_spans": extraction.unread_tool_spans,
        "unread": [span._asdict() for span in spans_not_read(extraction)],
        "silent_scopes": extraction.silent_scopes,
        "dialect_error": extraction.dialect_error,
        "not_read": not_read,
    }


def _run_row(run: AgentRun) -> dict[str, Any]:
    return {
        "agent": run.agent,
        "span_id": run.span_id,
        "parent_span_id": run.parent_span_id,
        "prompt": run.prompt,
        "final_answer": run.final_answer,
        "session": run.session,
        "user": run.user,
        "model": run.model,
        "start_ns": run.start_ns,
        "end_ns": run.end_ns,
    }


def _table_rows(extractions: Iterable[Extraction]) -> Iterator[tuple[object, ...]]:
    for extraction in extractions:
        trace_id = extraction.trace.trace_id.hex()
        for call in extraction.calls:
            yield (
                trace_id,
                call.agent,
                tool_text(call.depth, call.name, call.raw_name),
                _value(call.arguments, call.arguments_status),
                _value(call.output, call.output_status),
                "" if call.error is None else _short(call.error.type or call.error.message or "error"),
                call.batch,
                f"{call.dialect} {call.read_from}" + (f", also in {call.duplicate_of}" if call.duplicate_of else ""),
            )


def _value(value: object, status: str) -> str:
    if value is None and status in ("absent", "elsewhere", "redacted"):
        return f"({status})"
    shown = _short(value if isinstance(value, str) else json_text(value))
    return f"(redacted) {shown}" if status == "redacted" else shown


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_CELL else line[: _MAX_CELL - 1] + "…"
