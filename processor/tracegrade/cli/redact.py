"""``tracegrade redact``: what redaction would take out of recorded requests."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracegrade.cli.groups import Command
from tracegrade.cli.options import tenant_option
from tracegrade.cli.output import (
    end_if_nothing_read,
    format_option,
    print_json,
    print_line,
    print_source_report,
    print_table,
)
from tracegrade.cli.settings import settings_options
from tracegrade.display import count
from tracegrade.model.tenant import DEFAULT_TENANT

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tracegrade.config import Config
    from tracegrade.journal.record import Record
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.receive.redaction_trial import Trial

_ALL = 1 << 40


@click.command(cls=Command)
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--dry-run", is_flag=True, help="Required: stored data never changes.")
@click.option("--store", "of_store", is_flag=True, help="Look at the stored traces, as far as the store keeps them.")
@tenant_option
@settings_options
@format_option
def command(
    config: "Config", sources: tuple[str, ...], dry_run: bool, of_store: bool, tenant: str | None, output_format: str
) -> None:
    """Show what redaction would take out of recorded requests; nothing is changed, and no value is shown.

    SOURCE is a file or folder of traces, as 'extract' takes it, or '-' for standard input; without one, the
    journal of --data-dir, or with --store what is stored of traces. What is redacted is in the settings under
    'redaction'; without it, all detectors are tried.

    Examples show the form of a value: letters as x, digits as 9. JSON: one object for each place, detector and action,
    {place, part, detector, action, count, example}.

    Exit code 3: no trace was read of the files given.
    """
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.receive.redaction import trial_redactor
    from tracegrade.receive.redaction_trial import try_redaction
    from tracegrade.redact.settings import RedactionSettings

    if not dry_run:
        raise click.UsageError(
            "requests are redacted when they are received, by 'redaction' in the settings of 'serve'; "
            "--dry-run shows what would go"
        )
    if of_store and sources:
        raise click.UsageError("--store looks at the stored traces and reads no SOURCE; give one of both")
    if "-" in sources and sys.stdin.isatty():
        raise click.UsageError("'-' reads standard input, which is a terminal here; give it a file: < traces.json")
    report = SourceReport()
    with config.names_lines():
        redactor = trial_redactor(config.redaction or RedactionSettings())
        with _stored(config, tenant) if of_store else _records(config, sources, tenant, report) as records:
            trial = try_redaction(redactor, records)
    print_source_report(report, output_format)
    if sources and not trial.items:
        end_if_nothing_read(report)
    if output_format == "json":
        print_json(_rows(trial))
        return
    if config.redaction is None:
        print_line("The settings have no 'redaction': all detectors were tried, to mask what they find.")
    values, requests = count(trial.counts.total(), "value"), count(trial.requests, "request")
    print_table(
        f"{values} would be redacted, in {trial.changed} of {requests}",
        ("place", "detector", "action", "count", "such as"),
        ((row["place"], row["detector"], row["action"], row["count"], row["example"]) for row in _rows(trial)),
        empty=f"nothing would be redacted: {requests} with {count(trial.items, 'item')} were looked at",
    )


@contextmanager
def _records(
    config: "Config", sources: tuple[str, ...], tenant: str | None, report: "SourceReport"
) -> "Iterator[Iterator[Record]]":
    from tracegrade.journal.reader import JournalReader
    from tracegrade.otlp.files.sources import read_sources
    from tracegrade.pipeline.data_folder import JOURNAL
    from tracegrade.pipeline.replay import records_in
    from tracegrade.pipeline.whole_traces import records_of

    if sources:
        requests = read_sources(sources, report, sys.stdin.buffer if "-" in sources else None)
        yield records_of(requests, tenant or DEFAULT_TENANT)
        return
    reader = JournalReader(config.data_path / JOURNAL)
    try:
        yield (record for record in records_in(reader) if tenant in (None, record.tenant))
    finally:
        reader.close()


@contextmanager
def _stored(config: "Config", tenant: str | None) -> "Iterator[Iterator[Record]]":
    """The stored traces as requests."""
    from tracegrade.codec.kept_spans import trace_of
    from tracegrade.journal.record import Encoding, Record
    from tracegrade.model.signal import Signal
    from tracegrade.otlp.from_spans import logs_request, trace_request
    from tracegrade.store.open import reading_store
    from tracegrade.store.read import newest_traces

    def records(connection: "Connection") -> "Iterator[Record]":
        for stored in newest_traces(connection, _ALL):
            trace = trace_of(stored)
            for signal, items, request in (
                (Signal.TRACES, trace.spans, trace_request(trace.spans)),
                (Signal.LOGS, trace.log_records, logs_request(trace.log_records)),
            ):
                if items:
                    wire = request.SerializeToString()
                    yield Record(0, 0, 0, trace.tenant, signal, Encoding.PROTOBUF, len(items), wire)

    with reading_store(config.store_url, tenant) as connection:
        yield records(connection)


def _rows(trial: "Trial") -> "Iterator[dict[str, Any]]":
    for redaction, number in sorted(trial.counts.items(), key=lambda item: (-item[1], item[0])):
        yield {
            "place": redaction.place_text,
            "part": redaction.where,
            "detector": redaction.detector,
            "action": redaction.action,
            "count": number,
            "example": trial.examples.get(redaction, ""),
        }


F = TypeVar("F", bound=Callable[..., Any])


def redaction_options(function: F) -> F:
    """Add ``--keep`` and ``--no-redact``."""
    for option in (
        click.option("--no-redact", is_flag=True, help="Write values as they are: for data that was made up."),
        click.option("--keep", multiple=True, metavar="PATH", help="Do not redact what stands there; * is any text."),
    ):
        function = option(function)
    return function


def counts_text(counts: Mapping[str, int]) -> str:
    """How often what was replaced: ``2 call_id, 1 email``, or ``nothing``."""
    return ", ".join(f"{number} {name}" for name, number in counts.items()) or "nothing"


def kept_text(kept: Sequence[str]) -> str:
    """Where values were kept."""
    return f"keeps {count(len(kept), 'value')} that looks personal or secret, at {', '.join(kept)}"
