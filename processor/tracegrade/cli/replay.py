"""``tracegrade replay``: stored traces judged again."""

import pickle
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from tracegrade.cli.gate_options import AskedGate, gate_options
from tracegrade.cli.judging import jobs_option, judged_and_shown
from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    print_line,
    print_lines,
    reports_errors,
)
from tracegrade.cli.replay_run import asked_run, print_run, recorded, run_options, stored_as_they_come
from tracegrade.cli.replay_summary import EXITS, Replayed, RuleOutcome, Summary, print_gate, print_summary, worse_exit
from tracegrade.cli.reports import Check, report, report_format_option
from tracegrade.cli.settings_option import settings_options
from tracegrade.cli.times import TIME
from tracegrade.display import count, json_text, printable_json
from tracegrade.gate.bounds import Bounds, needs_baseline
from tracegrade.gate.decide import Verdict, judged_by
from tracegrade.pipeline.latest_results import LatestResults, NoRoom

if TYPE_CHECKING:
    from tracegrade.assemble.closed_traces import TraceKey
    from tracegrade.cli.comparing import Comparing
    from tracegrade.config import Config
    from tracegrade.model.evaluation import Decision, Evaluation
    from tracegrade.pipeline.judged import Judged
    from tracegrade.pipeline.replay import Selection
    from tracegrade.rule.rule_set import RuleSet

    Shown = tuple[TraceKey, bytes, bytes]  # what is shown, and what is stored of it

_GROUPS = ("rule", "agent", "service", "release")
_MAX_LISTED = 50


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option(
    "--rules",
    "rule_paths",
    multiple=True,
    metavar="PATH",
    help="Judge by these rules instead of those in the settings.",
)
@click.option("--since", type=TIME, help="Only traces first received (in files: started) at this time or later.")
@click.option("--until", type=TIME, help="Only traces first received (in files: started) before this time.")
@click.option("--service", help="Only traces of this service.")
@click.option("--agent", help="Only traces in which this agent ran.")
@click.option("--trace-id", help="Only this trace.")
@click.option("--release", help="Only traces of this release (service.version).")
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
    help="Print how what is judged differs from a baseline, or a side as 'compare' takes it, in place of the summary; "
    "a rule that is worse ends with 1, too.",
)
@jobs_option
@gate_options
@run_options
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
    release: str | None,
    by: str,
    base: str | None,
    gate: AskedGate,
    jobs: int,
    experiment: str | None,
    run_name: str | None,
    labels: tuple[str, ...],
    config: "Config",
    output_format: str,
) -> None:
    """Judge stored traces again; nothing is sent or alerted, and stored only with --experiment.

    SOURCE is a file or folder of OTLP (JSON or protobuf, gzip or zstd, '-' for standard input); without one, the
    journal of --data-dir. A gate holds where an option below or a rule file ('gate') asks for one; options count before
    files. Exit codes: 0 done or gate passed, 1 gate failed, 2 usage, 3 not enough data to decide.

    Every rule is listed with its pass rate, the rate's 95 % Wilson interval, and the gate's decision. Incomplete traces
    do not count, unless the rule says so. JSON: one evaluation per line. With a gate, standard error gets one JSON line
    per rule, {gate, reason, rule_id, level, status, pass_rate, low, high, results, pass, fail, not_evaluable, error,
    incomplete, bounds, against}, then {gate, reasons}.
    """
    from tracegrade.journal.errors import SegmentDeleted
    from tracegrade.pipeline.replay import NOT_STORED, Selection
    from tracegrade.pipeline.workers import ReplayJob, WorkerEnded
    from tracegrade.rule.load import load_rules

    paths = tuple(rule_paths or config.rules.paths)
    rule_set = load_rules(paths, semantic_model=config.rules.semantic_model)
    if not len(rule_set):
        raise click.UsageError("no rules to judge by: give --rules PATH, or rules.paths in the settings")
    for warning in rule_set.warnings:
        print_line(f"Warning: {warning}", err=True)
    bounds = gate.bounds(rule_set, compares=base is not None)
    if by != "rule" and output_format not in ("table", "markdown"):
        raise click.UsageError(f"--by {by} groups the summary of --format table and markdown; {output_format} has none")
    if experiment is None and (run_name is not None or labels):
        raise click.UsageError("--run and --label are of a run that is stored: --experiment NAME stores one")
    if base is not None and by != "rule":
        raise click.UsageError("--by groups the summary, in place of which --compare prints a comparison")
    comparing = None
    if base is not None or needs_baseline(bounds, rule_set.rules):
        from tracegrade.cli.comparing import Comparing

        comparing = Comparing(config, rule_set, bounds, base)
    selection = Selection(since, until, service, agent, trace_id, release)
    asked = None
    if experiment is not None:
        asked = asked_run(experiment, labels, sources, selection, rule_set, config)
    try:
        with recorded(config, asked, run_name) as recording:
            run = NOT_STORED if recording is None else recording.name
            settings_hash = None if recording is None else config.settings_hash
            show = partial(_replayed, selection, output_format, by, run, settings_hash, comparing is not None)
            job = ReplayJob(
                paths,
                config.rules.semantic_model,
                rule_set.hash,
                run,
                config.traces.tool_aliases,
                config.traces.prices,
                show,
            )
            shown = judged_and_shown(sources, config, rule_set, job, jobs)
            summary = Summary(rule_set, by, None if comparing is None else comparing.judged)
            verdict = _show(stored_as_they_come(shown, recording), output_format, summary, bounds, comparing)
            if recording is not None and verdict.word != "not_gated":
                recording.note_gate(verdict.word)
    except (SegmentDeleted, WorkerEnded, NoRoom) as error:
        print_lines(f"Error: {error}", err=True)
        sys.exit(EXIT_CANNOT_TELL)
    code = EXITS[verdict.word]
    if comparing is not None and base is not None:
        text = ", ".join(sources) or "journal"
        code = worse_exit(code, comparing.print_comparison(text, recording, output_format))
    print_gate(verdict, output_format)
    if recording is not None:
        print_run(config, recording)
    sys.exit(code)


def _replayed(
    selection: "Selection",
    output_format: str,
    by: str,
    run: str,
    settings_hash: str | None,
    compares: bool,
    judged: "Judged",
) -> "Shown | None":
    """What is shown of `judged`, if it is selected, by its key; packed, since all is held to the end.

    With it what is stored of it in `run`; nothing without a `settings_hash`. `compares`: also what a comparison needs.
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
        [(item.rule_id, item.evaluation, item.outcome, item.subject.complete) for item in evaluations],
        _shown(evaluations, output_format),
        _units(judged) if compares else None,
    )
    record = b""
    if settings_hash is not None:
        from tracegrade.history.recorded_run import record_of

        record = record_of(judged, run, settings_hash)
    return judged.key, pack(pickle.dumps(tuple(replayed))), record


def _units(judged: "Judged") -> tuple[Any, ...]:
    from tracegrade.gate.results import judged_units

    return tuple(judged_units(judged))


def _rule_outcome(decision: "Decision", by: str) -> RuleOutcome:
    pair = decision.pair
    group = pair.rule_id if by == "rule" else getattr(pair.subject, by) or ""
    return RuleOutcome(pair.rule_id, decision.outcome or decision.kind, pair.probability, pair.subject.complete, group)


def _shown(evaluations: "list[Evaluation]", output_format: str) -> list[Any]:
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
            evaluation.explanation,
        )
        for evaluation in evaluations
        if evaluation.outcome in ("fail", "error")
    ]


def _findings(evaluations: "list[Evaluation]") -> list[tuple[str, dict[str, Any]]]:
    """For reports: the rule's id, and the fields of a `Check` but for the rule."""
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
) -> Verdict:
    def decided() -> Verdict:
        return judged_by(bounds, summary.counted()) if comparing is None else comparing.verdict(summary.counted())

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
