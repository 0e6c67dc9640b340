"""``tracegrade replay``: stored traces judged again; ``check`` judges as it does."""

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Self

import click

from tracegrade.cli.gate_options import AskedGate, gate_options
from tracegrade.cli.groups import Command
from tracegrade.cli.judging import jobs_option, judged_and_shown
from tracegrade.cli.options import query_options, rules_option
from tracegrade.cli.output import EXIT_CANNOT_TELL, print_line, print_lines, print_source_report
from tracegrade.cli.replay_run import asked_run, print_run, recorded, run_options, stored_as_they_come
from tracegrade.cli.replay_summary import EXITS, Replayed, RuleOutcome, Summary, print_gate, print_summary, worse_exit
from tracegrade.cli.reports import Check, report, report_format_option
from tracegrade.cli.settings import settings_options
from tracegrade.display import count, json_text, printable_json
from tracegrade.model.errors import CannotTell
from tracegrade.part import needed
from tracegrade.pipeline.gate import Bounds, Counted, Verdict, judged_by, needs_baseline, with_unread
from tracegrade.pipeline.latest_results import LatestResults
from tracegrade.queries.parameters import JudgedTracesQuery

if TYPE_CHECKING:
    from tracegrade.config import Config
    from tracegrade.history.runs.recorded_run import RecordedRun
    from tracegrade.model.evaluation import Decision, Evaluation
    from tracegrade.model.trace import TraceKey
    from tracegrade.otlp.files.report import SourceReport
    from tracegrade.pipeline.judged import Judged
    from tracegrade.pipeline.replay import Selection
    from tracegrade.pipeline.workers import ReplayJob
    from tracegrade.rule.rule import Rule
    from tracegrade.rule.rule_set import RuleSet
    from tracegrade.store.runs import Run

    ShownAndStored = tuple[TraceKey, bytes, bytes]  # what is shown, and what is stored of it

_MAX_LISTED = 50


class Comparing(Protocol):
    """What is judged now against baselines, where something asks for that."""

    units: "Callable[[Judged], tuple[Any, ...]]"
    """What is needed of a judged trace or session, as plain values; a function of a module, which a worker finds."""

    def add(self, units: tuple[Any, ...]) -> None:
        """Take the ``units`` of one more trace or session."""

    @property
    def is_shown(self) -> bool:
        """Whether a comparison is printed, in place of a summary."""

    def verdict(self, counted: Sequence[Counted]) -> Verdict:
        """The decision of the gate."""

    def print_comparison(self, text: str, run: "RecordedRun | None", output_format: str, unread: str) -> int:
        """Print how what was judged, from `text` and but for what is `unread`, differs; gives the exit code."""


@dataclass(frozen=True, slots=True)
class Asked:
    """By what traces are judged, what is required of them, and how that is shown."""

    paths: Sequence[str]
    rule_set: "RuleSet"
    config: "Config"
    bounds: Bounds
    comparing: "Comparing | None"
    output_format: str
    jobs: int
    by: str
    selection: "Selection"

    @classmethod
    def read(
        cls,
        rule_paths: Sequence[str],
        config: "Config",
        gate: AskedGate,
        output_format: str,
        jobs: int,
        *,
        by: str = "rule",
        base: str | None = None,
        selection: "Selection | None" = None,
        no_fails: bool = False,
    ) -> Self:
        """Read the rules, and what they and the command line require; warnings go to standard error.

        Args:
            rule_paths: where the rules are; those of the settings without any.
            config: the settings.
            gate: of the command line.
            output_format: of the results.
            jobs: how many processes judge.
            by: what the summary is grouped by.
            base: what is compared with, in place of a summary.
            selection: which traces; None: all.
            no_fails: whether rules may not fail of which nothing is required.

        Raises:
            UsageError: there are no rules, or the gate could not be obeyed.
            TraceGradeError: a rule or a baseline cannot be read.
        """
        from tracegrade.pipeline.replay import Selection

        paths = tuple(rule_paths or config.rules.paths)
        selection = selection or Selection()
        tenant = selection.tenant
        rule_set = config.load_rules(rule_paths).seen_by(tenant)
        if not len(rule_set):
            whose = "" if tenant is None else f" the traces of {tenant!r}"
            raise click.UsageError(f"no rules to judge{whose} by: give --rules PATH, or rules.paths in the settings")
        for warning in rule_set.warnings:
            print_line(f"Warning: {warning}", err=True)
        bounds = gate.bounds(rule_set, compares=base is not None, no_fails=no_fails)
        comparing = None
        if base is not None or needs_baseline(bounds, rule_set.rules):
            asks = (
                "--compare" if base is not None else "--baseline" if bounds.baseline is not None else "not_worse_than"
            )
            made: Callable[..., Comparing] = needed("compare", "comparing", asks)
            comparing = made(config, rule_set, bounds, base, selection)
        return cls(paths, rule_set, config, bounds, comparing, output_format, jobs, by, selection)


def judged_as_asked(
    asked: Asked,
    gather: "Callable[[SourceReport], tuple[str, ...]]",
    text: str,
    run: "Run | None",
    run_name: str | None,
    *,
    explain: "Callable[[tuple[str, ...], Sequence[Rule]], None] | None" = None,
) -> int:
    """Judge, store and show traces, and say how the gate decided.

    Args:
        asked: by what, and how.
        gather: gives the sources, and notes what of them is lost already; called when the run is begun, so that a name
            that cannot be used is said before.
        text: where the traces are from, for people.
        run: what is known of the run that is stored; None: nothing is stored.
        run_name: its name.
        explain: called with the sources, and the rules that fail the gate, if any do.

    Returns:
        The exit code.
    """
    from tracegrade.journal.errors import SegmentDeleted
    from tracegrade.otlp.files.report import SourceReport

    config, comparing = asked.config, asked.comparing
    try:
        with recorded(config, run, run_name) as recording:
            unread = SourceReport()
            sources = gather(unread)
            summary = Summary(asked.rule_set, asked.by, None if comparing is None else comparing.add)
            shown = judged_and_shown(
                sources, config, asked.rule_set, _job(asked, recording), asked.jobs, unread, asked.selection
            )
            verdict = _show(
                stored_as_they_come(shown, recording), asked.output_format, summary, asked.bounds, comparing, unread
            )
            if recording is not None and verdict.word != "not_gated":
                recording.note_gate(verdict.word)
    except (SegmentDeleted, CannotTell) as error:
        print_lines(f"Error: {error}", err=True)
        return EXIT_CANNOT_TELL
    print_source_report(unread, asked.output_format)
    code = EXITS[verdict.word]
    if comparing is not None and comparing.is_shown:
        compared = comparing.print_comparison(text, recording, asked.output_format, unread.not_read_line)
        code = worse_exit(code, compared)
    failed = [asked.rule_set.rule(rule.counted.rule_id) for rule in verdict.rules if rule.word == "fail"]
    if explain is not None and failed:
        explain(sources, [rule for rule in failed if rule is not None])
    if unread.nothing_read:
        code = worse_exit(code, EXIT_CANNOT_TELL)
    print_gate(verdict, asked.output_format)
    if recording is not None:
        print_run(config, recording)
    return code


def _job(asked: Asked, recording: "RecordedRun | None") -> "ReplayJob[ShownAndStored]":
    from tracegrade.pipeline.replay import NOT_STORED
    from tracegrade.pipeline.workers import ReplayJob

    config = asked.config
    run = NOT_STORED if recording is None else recording.name
    settings_hash = None if recording is None else config.settings_hash
    units = None if asked.comparing is None else asked.comparing.units
    show = partial(_replayed, asked.selection, asked.output_format, asked.by, run, settings_hash, units)
    reading, traces = config.rules.reading, config.traces
    return ReplayJob(asked.paths, reading, asked.rule_set.hash, run, traces.tool_aliases, traces.prices, show)


def _replayed(
    selection: "Selection",
    output_format: str,
    by: str,
    run: str,
    settings_hash: str | None,
    units: "Callable[[Judged], tuple[Any, ...]] | None",
    judged: "Judged",
) -> "ShownAndStored | None":
    """What is shown of `judged`, if it is selected, by its key; packed, since all is held to the end.

    With it what is stored of it in `run`; nothing without a `settings_hash`. `units` gives what a comparison needs.
    """
    from tracegrade.codec.packing import pack
    from tracegrade.pipeline.judged import JudgedTrace, evaluations_of

    if not selection.takes(judged):
        return None
    evaluations = evaluations_of(judged)
    is_trace = isinstance(judged, JudgedTrace)
    replayed = Replayed(
        is_trace,
        (judged.trace if isinstance(judged, JudgedTrace) else judged.session).complete,
        [
            tuple(_rule_outcome(decision, by))
            for decision in judged.decisions
            if decision.kind not in ("not_matched", "sampled_out")
        ],
        [(item.rule_id, item.evaluation, item.case, item.outcome, item.subject.complete) for item in evaluations],
        _rows(evaluations, output_format),
        None if units is None else units(judged),
    )
    record = b""
    if settings_hash is not None:
        from tracegrade.history.runs.recorded_run import record_of

        record = record_of(judged, run, settings_hash)
    return judged.key, pack(pickle.dumps(tuple(replayed))), record


def _rule_outcome(decision: "Decision", by: str) -> RuleOutcome:
    pair = decision.pair
    group = pair.rule_id if by == "rule" else getattr(pair.subject, by) or ""
    return RuleOutcome(pair.rule_id, decision.outcome or decision.kind, pair.probability, pair.subject.complete, group)


def _rows(evaluations: "list[Evaluation]", output_format: str) -> list[Any]:
    match output_format:
        case "json":
            return [printable_json(json_text(evaluation.to_json())) for evaluation in evaluations]
        case "table":
            return _failed_rows(evaluations)
        case _:
            return _findings(evaluations)


def _failed_rows(evaluations: "list[Evaluation]") -> list[tuple[Any, ...]]:
    return [
        (
            evaluation.outcome,
            f"{evaluation.rule_id}/{evaluation.evaluation}",
            evaluation.score,
            evaluation.subject.agent,
            evaluation.subject.trace_id,
            evaluation.full_explanation,
        )
        for evaluation in evaluations
        if evaluation.outcome in ("fail", "error")
    ]


def _findings(evaluations: "list[Evaluation]") -> list[tuple[str, dict[str, Any]]]:
    """For reports, which others may read: the rule's id, and the fields of a `Check` but for the rule."""
    found = []
    for evaluation in evaluations:
        subject = evaluation.subject
        named = evaluation.evaluation + (f" · {evaluation.case}" if evaluation.case else "")
        where = f"trace {subject.trace_id}"
        where += f", {subject.kind} {subject.id}" if subject.kind != "trace" else ""
        fields = {
            "name": f"{named}, {where}",
            "outcome": evaluation.outcome,
            "message": evaluation.explanation or evaluation.reason,
            "place": subject.trace_id,
            "key": evaluation.id,
        }
        found.append((evaluation.rule_id, fields))
    return found


def _show(
    replayed: "Iterable[tuple[TraceKey, bytes]]",
    output_format: str,
    summary: Summary,
    bounds: Bounds,
    comparing: "Comparing | None",
    unread: "SourceReport",
) -> Verdict:
    def decided() -> Verdict:
        counted = summary.counted()
        verdict = judged_by(bounds, counted) if comparing is None else comparing.verdict(counted)
        return with_unread(verdict, unread.nothing_read or unread.not_read_line)

    rule_set = summary.rule_set
    with LatestResults() as latest:
        for key, packed in replayed:
            latest.put(key, packed)
        if comparing is not None and comparing.is_shown:
            for _ in _added_up(latest, summary):
                pass
            return decided()
        if output_format == "json":
            for item in _added_up(latest, summary):
                if item.shown:
                    print_lines("\n".join(item.shown))
            return decided()
        if output_format == "table":
            failed: list[tuple[Any, ...]] = []
            failures = 0
            for item in _added_up(latest, summary):
                failed += item.shown[: _MAX_LISTED - len(failed)]
                failures += len(item.shown)
            verdict = decided()
            print_summary(summary, verdict, failed, failures)
            return verdict
        checks = [_check(rule_set, *found) for item in _added_up(latest, summary) for found in item.shown]
        verdict = decided()
        groups = {} if summary.by == "rule" else {summary.by: summary.by_group}
        print_lines(
            report(output_format, checks, f"{count(summary.traces, 'trace')} judged", rule_set, verdict, groups)
        )
        return verdict


def _added_up(latest: LatestResults, summary: Summary) -> Iterator[Replayed]:
    from tracegrade.codec.packing import unpack

    for packed in latest:
        replayed = Replayed(*pickle.loads(unpack(packed)))
        summary.add(replayed)
        yield replayed


def _check(rule_set: "RuleSet", rule_id: str, fields: dict[str, Any]) -> Check:
    rule = rule_set.rule(rule_id)
    assert rule is not None, "an evaluation is of a rule of the set that judged it"
    return Check(rule=rule, rule_path=rule_set.paths[rule.id], **fields)


_GROUPS = ("rule", "agent", "service", "release")


@click.command(cls=Command)
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@rules_option("Judge by these rules instead of those in the settings.")
@query_options(JudgedTracesQuery, without=["tenant"])
@click.option("--trace-id", metavar="TRACE_ID", help="Only this trace, or those whose ids begin so.")
@click.option("--session", metavar="ID", help="Only traces of this session.")
@click.option(
    "--by",
    type=click.Choice(_GROUPS),
    default="rule",
    show_default=True,
    help="Group the summary of table and markdown by this; the gate is always by rule.",
)
@click.option(
    "--compare",
    "base",
    metavar="NAME|FILE|SIDE",
    help="Print a comparison with this baseline, or side as 'compare' takes it, in place of the summary; exit 1 "
    "also when a rule is worse.",
)
@jobs_option
@gate_options
@run_options
@settings_options
@report_format_option
def command(
    sources: tuple[str, ...],
    rule_paths: tuple[str, ...],
    query: JudgedTracesQuery,
    trace_id: str | None,
    session: str | None,
    by: str,
    base: str | None,
    gate: AskedGate,
    jobs: int,
    experiment: str | None,
    run_name: str | None,
    labels: tuple[str, ...],
    tenant: str | None,
    config: "Config",
    output_format: str,
) -> None:
    """Judge stored traces again; nothing is sent or alerted, and stored only with --experiment.

    SOURCE is a file or folder of traces, as 'extract' takes it, or '-' for standard input; without one, the
    journal of --data-dir, or Kafka where journal.kafka is set. Traces of files are chosen by when they started.

    A gate holds where an option below or a rule file ('gate') asks for one; options count before files. Exit codes: 0
    done or gate passed, 1 gate failed, 2 usage, 3 not enough data to decide, or spans of a file could not be read.

    Every rule is listed with its pass rate, the rate's 95 % Wilson interval, and the gate's decision. Incomplete traces
    do not count, unless the rule says so. JSON: one evaluation per line. With a gate, standard error gets one JSON line
    per rule, {gate, reason, rule_id, level, status, pass_rate, low, high, results, pass, fail, not_evaluable, error,
    incomplete, bounds, against}, then {gate, reasons}.
    """
    from tracegrade.pipeline.replay import Selection

    if by != "rule" and output_format not in ("table", "markdown"):
        raise click.UsageError(f"--by {by} groups the summary of --format table and markdown; {output_format} has none")
    if base is not None and by != "rule":
        raise click.UsageError("--by groups the summary, in place of which --compare prints a comparison")
    asked = Asked.read(
        rule_paths,
        config,
        gate,
        output_format,
        jobs,
        by=by,
        base=base,
        selection=Selection(
            query.since, query.until, query.service, query.agent, trace_id, query.release, tenant, session
        ),
    )
    source = ", ".join("standard input" if source == "-" else source for source in sources) or "journal"
    run = asked_run(experiment, run_name, labels, source, asked.selection, asked.rule_set, config)
    sys.exit(judged_as_asked(asked, lambda report: sources, source, run, run_name))
