"""``tracegrade replay``: stored traces judged again."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    EXIT_FAILED,
    outcome_text,
    print_json,
    print_table,
    progress,
    reports_errors,
)
from tracegrade.cli.reports import OUTCOMES, Check, report, report_format_option
from tracegrade.cli.settings_option import settings_options
from tracegrade.cli.times import TIME
from tracegrade.words import count

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.match.rule_set import RuleSet
    from tracegrade.model.evaluation import Evaluation
    from tracegrade.pipeline.record_judge import Judged
    from tracegrade.pipeline.replay import Selection

RUN = "replay"


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--rules", "rule_paths", multiple=True, metavar="PATH", help="Judge by these instead of the settings'.")
@click.option("--since", type=TIME, help="Traces first received (files: begun) at this time or later.")
@click.option("--until", type=TIME, help="Traces first received (files: begun) before this time.")
@click.option("--service", help="Only traces of this service.")
@click.option("--agent", help="Only traces in which this agent ran.")
@click.option("--trace-id", help="Only this trace.")
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="PASS_RATE",
    help="A gate: exit 1 when the pass rate over all rules is below, 3 when nothing could be judged.",
)
@settings_options
@report_format_option
@reports_errors
def command(
    sources: tuple[str, ...],
    rule_paths: tuple[str, ...],
    since: int | None,
    until: int | None,
    service: str | None,
    agent: str | None,
    trace_id: str | None,
    fail_under: float | None,
    config: "Config",
    output_format: str,
) -> None:
    """Judge stored traces again; nothing is sent, stored or alerted.

    SOURCE is a file or folder of OTLP (JSON or protobuf, gzip or zstd, '-' for standard input); without one, the
    journal of --data-dir. Exit codes: 0 done or gate passed, 1 gate failed, 2 usage, 3 cannot tell.
    """
    from tracegrade.journal.errors import SegmentDeleted
    from tracegrade.match.load import load_rules
    from tracegrade.pipeline.replay import Selection

    rule_set = load_rules(rule_paths or config.rules.paths, semantic_model=config.rules.semantic_model)
    if not len(rule_set):
        raise click.UsageError("no rules to judge by: give --rules PATH, or rules.paths in the settings")
    selection = Selection(since, until, service, agent, trace_id)
    try:
        tally = _show(_judged(sources, config, rule_set), selection, output_format, rule_set)
    except SegmentDeleted as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_CANNOT_TELL)
    _gate(tally, fail_under)


def _judged(sources: tuple[str, ...], config: "Config", rule_set: "RuleSet") -> "Iterator[Judged]":
    from tracegrade.deletion.request import Deletions
    from tracegrade.otlp.file import read_sources
    from tracegrade.pipeline.data_folder import JOURNAL
    from tracegrade.pipeline.replay import replay_journal, replay_sources

    if sources:
        yield from replay_sources(read_sources(sources, sys.stdin.buffer), config.traces, rule_set, RUN)
        return
    folder = config.data_path / JOURNAL
    with progress("bytes read", _journal_bytes(folder)) as advance:
        yield from replay_journal(
            folder, config.traces, rule_set, RUN, advance, Deletions(config.data_path).tombstones()
        )


def _journal_bytes(folder: Path) -> int:
    from tracegrade.journal.reader import JournalReader

    reader = JournalReader(folder)
    try:
        return reader.durable().end - reader.first()
    finally:
        reader.close()


class _Tally:
    """What the summary says: outcomes by evaluation, and rule outcomes for the gate."""

    def __init__(self) -> None:
        self.traces = 0
        self.incomplete = 0
        self.by_evaluation: dict[tuple[str, str], Counter[str]] = {}
        self.rules: Counter[str] = Counter()

    def add(self, shown: "_Replayed") -> None:
        if shown.is_trace:
            self.traces += 1
            self.incomplete += not shown.complete
        self.rules.update(shown.rule_outcomes)
        for evaluation in shown.evaluations:
            key = (evaluation.rule_id, evaluation.evaluation)
            self.by_evaluation.setdefault(key, Counter())[evaluation.outcome] += 1


@dataclass(slots=True)
class _Replayed:
    """What is shown of one judged trace or session; its spans are let go."""

    is_trace: bool
    complete: bool
    rule_outcomes: list[str]
    evaluations: "list[Evaluation]"

    @classmethod
    def of(cls, judged: "Judged", with_details: bool) -> "_Replayed":
        from tracegrade.pipeline.record_judge import JudgedClosing, evaluations_of

        evaluations = evaluations_of(judged)
        if not with_details:
            for evaluation in evaluations:
                evaluation.details = {}
        outcomes: list[str] = [decision.outcome or decision.kind for decision in judged.decisions]
        if isinstance(judged, JudgedClosing):
            return cls(True, judged.trace.complete, outcomes, evaluations)
        return cls(False, judged.session.complete, outcomes, evaluations)


def _show(judged: "Iterable[Judged]", selection: "Selection", output_format: str, rule_set: "RuleSet") -> _Tally:
    as_json = output_format == "json"
    # The highest revision of each trace and session, in the order in which they were first judged.
    latest: dict[tuple[str, bytes], _Replayed] = {}
    for item in judged:
        if selection.takes(item):
            latest[item.key] = _Replayed.of(item, with_details=as_json)
    tally = _Tally()
    for shown in latest.values():
        tally.add(shown)
        if as_json:
            print_json(evaluation.to_json() for evaluation in shown.evaluations)
    if output_format == "table":
        _print_summary(tally, list(latest.values()))
    elif not as_json:
        checks = [_check(evaluation, rule_set) for shown in latest.values() for evaluation in shown.evaluations]
        click.echo(report(output_format, checks, f"{count(tally.traces, 'trace')} judged"))
    return tally


def _check(evaluation: "Evaluation", rule_set: "RuleSet") -> Check:
    rule = rule_set.rule(evaluation.rule_id)
    assert rule is not None, "an evaluation is of a rule of the set that judged it"
    subject = evaluation.subject
    named = evaluation.evaluation + (f" · {evaluation.case}" if evaluation.case else "")
    where = f"trace {subject.trace_id}" + (f", {subject.kind} {subject.id}" if subject.kind != "trace" else "")
    return Check(
        rule=rule,
        rule_path=rule_set.paths[rule.id],
        name=f"{named}, {where}",
        outcome=evaluation.outcome,
        message=evaluation.explanation or evaluation.reason,
        place=subject.trace_id,
        key=evaluation.id,
    )


def _print_summary(tally: _Tally, replayed: list[_Replayed]) -> None:
    print_table(
        f"{count(tally.traces, 'trace')} judged, {tally.incomplete} of them incomplete",
        ["rule", "evaluation", *OUTCOMES, "pass rate"],
        [
            [rule, name, *(counts[outcome] or None for outcome in OUTCOMES), _rate(counts)]
            for (rule, name), counts in sorted(tally.by_evaluation.items())
        ],
        empty=f"{count(tally.traces, 'trace')} read, no rule matched any of them ('tracegrade why' names the clauses)",
    )
    failed = [
        [
            outcome_text(e.outcome),
            f"{e.rule_id}/{e.evaluation}",
            e.score,
            e.subject.agent,
            e.subject.trace_id,
            e.explanation,
        ]
        for shown in replayed
        for e in shown.evaluations
        if e.outcome in ("fail", "error")
    ]
    if failed:
        print_table(
            "What failed",
            ["outcome", "evaluation", "score", "agent", "trace", "why"],
            failed[:50],
            whole=["outcome", "score", "trace"],
            spare=["agent"],
        )
        if len(failed) > 50:
            click.echo(f"... and {len(failed) - 50} more; --format json prints all")


def _rate(counts: Counter[str]) -> str | None:
    judged = counts["pass"] + counts["fail"]
    return f"{counts['pass'] / judged:.1%}" if judged else None


def _gate(tally: _Tally, fail_under: float | None) -> None:
    if fail_under is None:
        return
    judged = tally.rules["pass"] + tally.rules["fail"]
    if not judged:
        click.echo("Cannot tell: no rule passed or failed on any trace.", err=True)
        sys.exit(EXIT_CANNOT_TELL)
    rate = tally.rules["pass"] / judged
    verdict = "passed" if rate >= fail_under else "failed"
    click.echo(f"Gate {verdict}: pass rate {rate:.4f} of {judged} rule outcomes, bound {fail_under:g}.", err=True)
    if rate < fail_under:
        sys.exit(EXIT_FAILED)
