"""Stored traces judged in this command: files, folders or the journal, by one process or several."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tracegrade.cli.output import print_line, progress
from tracegrade.model.tenant import DEFAULT_TENANT

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.pipeline.judged import Judged
    from tracegrade.pipeline.replay import Selection
    from tracegrade.pipeline.workers import ReplayJob
    from tracegrade.rule.rule_set import RuleSet

Output = TypeVar("Output")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


jobs_option = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=cores,
    show_default="all cores",
    help="The number of judging processes; 1: judge in this process. Small inputs are always judged in this process.",
)


def judged_and_shown(
    sources: tuple[str, ...],
    config: "Config",
    rule_set: "RuleSet",
    job: "ReplayJob[Output]",
    jobs: int,
    report: "SourceReport",
    selection: "Selection | None" = None,
) -> "Iterable[Output]":
    """What is shown and stored of each judged trace and session, in the order in which they closed.

    With a `selection`, traces of other times need not be judged; the `job` leaves them out. What is not read of the
    `sources` is in the `report` at the end.
    """
    from tracegrade.pipeline.workers import shown_by_workers

    judged = _judged(sources, config, rule_set, job.run, selection, report, judges_traces=jobs == 1)
    return filter(None, map(job.show, judged)) if jobs == 1 else shown_by_workers(judged, job, rule_set, jobs)


def judged_here(
    sources: tuple[str, ...], config: "Config", rule_set: "RuleSet", selection: "Selection"
) -> "list[Judged]":
    """The last judgement of each trace and session of `sources`, in this process and all in memory.

    They were read before, and what was not read of them was said then.
    """
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.pipeline.replay import NOT_STORED

    judged = _judged(sources, config, rule_set, NOT_STORED, selection, SourceReport(), judges_traces=True)
    return list({one.key: one for one in judged}.values())


def _judged(
    sources: tuple[str, ...],
    config: "Config",
    rule_set: "RuleSet",
    run: str,
    selection: "Selection | None",
    report: "SourceReport",
    *,
    judges_traces: bool,
) -> "Iterator[Judged]":
    from tracegrade.deletion.request import Deletions
    from tracegrade.otlp.files.sources import read_sources
    from tracegrade.pipeline.data_folder import JOURNAL
    from tracegrade.pipeline.replay import Selection, replay_journal, replay_records, replay_sources
    from tracegrade.pipeline.set_aside import SetAside

    if sources:
        requests = read_sources(sources, report, sys.stdin.buffer)
        tenant = (selection.tenant if selection is not None else None) or DEFAULT_TENANT
        with progress("traces and sessions", None) as advance:
            for judged in replay_sources(
                requests, config.traces, rule_set, run, judges_traces=judges_traces, tenant=tenant
            ):
                yield judged
                advance(1)
        return
    deleted = Deletions(config.data_path).tombstones()
    aside = SetAside(config.data_path).load()
    if config.journal.kafka is not None:
        from tracegrade.serve.judging.kafka.replay import KafkaReplay

        with KafkaReplay(config, config.journal.kafka, selection or Selection()) as kafka:
            with progress("messages read", kafka.total) as advance:
                yield from replay_records(
                    kafka.records(advance),
                    config.traces,
                    rule_set,
                    run,
                    deleted,
                    aside=aside,
                    judges_traces=judges_traces,
                )
            for text in kafka.remarks():
                print_line(f"Warning: {text}", err=True)
        return
    folder = config.data_path / JOURNAL
    with progress("bytes read", _journal_bytes(folder)) as advance:
        yield from replay_journal(
            folder, config.traces, rule_set, run, advance, deleted, aside=aside, judges_traces=judges_traces
        )


def _journal_bytes(folder: Path) -> int:
    from tracegrade.journal.reader import JournalReader

    reader = JournalReader(folder)
    try:
        return reader.durable().end - reader.first()
    finally:
        reader.close()
