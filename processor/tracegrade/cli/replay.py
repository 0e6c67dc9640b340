"""``tracegrade replay``: stored traces judged again."""

import os
import pickle
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import click

from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    EXIT_FAILED,
    Styled,
    outcome_text,
    print_line,
    print_lines,
    print_table,
    progress,
    reports_errors,
    styled,
)
from tracegrade.cli.reports import OUTCOMES, Check, interval_text, rate_text, report, report_format_option
from tracegrade.cli.settings_option import settings_options
from tracegrade.cli.times import TIME
from tracegrade.history.gate import (
    LEVELS,
    MIN_RESULTS,
    Bounds,
    Counted,
    RuleVerdict,
    Tally,
    Verdict,
    Word,
    is_of_level,
    judged_by,
)
from tracegrade.model.errors import TraceGradeError
from tracegrade.words import count, json_text, printable_json

if TYPE_CHECKING:
    from tracegrade.assemble.closed_traces import TraceKey
    from tracegrade.config import Config
    from tracegrade.match.rule import Level
    from tracegrade.match.rule_set import RuleSet
    from tracegrade.model.evaluation import Decision, Evaluation
    from tracegrade.pipeline.record_judge import Judged
    from tracegrade.pipeline.replay import Selection

RUN = "replay"
_GROUPS = ("rule", "agent", "service", "release")
_MAX_LISTED = 50
_IN_MEMORY = 256 * 2**20  # bytes of what is shown; the rest lies in a temporary file


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@click.command()
@click.argument("sources", nargs=-1, metavar="[SOURCE...]")
@click.option("--rules", "rule_paths", multiple=True, metavar="PATH", help="Judge by these instead of the settings'.")
@click.option("--since", type=TIME, help="Traces first received (files: begun) at this time or later.")
@click.option("--until", type=TIME, help="Traces first received (files: begun) before this time.")
@click.option("--service", help="Only traces of this service.")
@click.option("--agent", help="Only traces in which this agent ran.")
@click.option("--trace-id", help="Only this trace.")
@click.option("--release", help="Only traces of this release (service.version).")
@click.option(
    "--by",
    type=click.Choice(_GROUPS),
    default="rule",
    show_default=True,
    help="What the summary of table and markdown counts by; the gate is by rule.",
)
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="PASS_RATE",
    help="A gate: exit 1 when the pass rate of any stable rule is below, else 3 when that of any cannot be told.",
)
@click.option(
    "--fail-under-overall",
    type=click.FloatRange(0, 1),
    metavar="PASS_RATE",
    help="A gate: exit 1 when the pass rate over all rules together is below, 3 when nothing could be judged.",
)
@click.option(
    "--min-results",
    type=click.IntRange(min=1),
    help=f"--fail-under: a rule with fewer passes and fails cannot be told.  [default: {MIN_RESULTS}]",
)
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="RULE",
    help="--fail-under: this rule cannot be told when it matched nothing; else it would not count.",
)
@click.option("--level", type=click.Choice(LEVELS), help="A gate counts rules of this level and above.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=_cores,
    show_default="all cores",
    help="Processes that judge; 1: this one alone. What is small is judged by this one.",
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
    release: str | None,
    by: str,
    fail_under: float | None,
    fail_under_overall: float | None,
    min_results: int | None,
    required: tuple[str, ...],
    level: "Level | None",
    jobs: int,
    config: "Config",
    output_format: str,
) -> None:
    """Judge stored traces again; nothing is sent, stored or alerted.

    SOURCE is a file or folder of OTLP (JSON or protobuf, gzip or zstd, '-' for standard input); without one, the
    journal of --data-dir. Exit codes: 0 done or gate passed, 1 gate failed, 2 usage, 3 cannot tell.

    Every rule is listed with its pass rate, the 95 % Wilson interval of that, and what a gate says of it. Incomplete
    traces do not count, unless the rule says so. JSON is one evaluation a line; with a gate, standard error has one
    object a rule, {gate, reason, rule_id, level, status, pass_rate, low, high, results, pass, fail, not_evaluable,
    error, incomplete}, and at its end {gate, reasons}.
    """
    from tracegrade.journal.errors import SegmentDeleted
    from tracegrade.match.load import load_rules
    from tracegrade.pipeline.replay import Selection
    from tracegrade.pipeline.replay_workers import ReplayJob, WorkerEnded, shown_by_workers

    paths = tuple(rule_paths or config.rules.paths)
    rule_set = load_rules(paths, semantic_model=config.rules.semantic_model)
    if not len(rule_set):
        raise click.UsageError("no rules to judge by: give --rules PATH, or rules.paths in the settings")
    bounds = Bounds(fail_under, fail_under_overall, min_results or MIN_RESULTS, level or LEVELS[0], frozenset(required))
    _check_gate(bounds, rule_set, needless=level is not None or min_results is not None)
    if by != "rule" and output_format not in ("table", "markdown"):
        raise click.UsageError(f"--by {by} groups the summary of --format table and markdown; {output_format} has none")
    show = partial(_replayed, Selection(since, until, service, agent, trace_id, release), output_format, by)
    judged = _judged(sources, config, rule_set, judges_traces=jobs == 1)
    if jobs == 1:
        replayed: Iterable[tuple[TraceKey, bytes]] = filter(None, map(show, judged))
    else:
        job = ReplayJob(paths, config.rules.semantic_model, rule_set.hash, RUN, config.traces.tool_aliases, show)
        replayed = shown_by_workers(judged, job, rule_set, jobs)
    try:
        verdict = _show(replayed, output_format, _Summary(rule_set, by), bounds)
    except (SegmentDeleted, WorkerEnded, _NoRoom) as error:
        print_lines(f"Error: {error}", err=True)
        sys.exit(EXIT_CANNOT_TELL)
    _say(verdict, output_format)
    sys.exit(_EXITS[verdict.word])


def _check_gate(bounds: Bounds, rule_set: "RuleSet", *, needless: bool) -> None:
    """Refuse what a gate could not obey.

    Raises:
        UsageError: a bound without a gate, or a required rule that never counts.
    """
    from tracegrade.yaml_file import did_you_mean

    if not bounds.is_gate and (needless or bounds.required):
        raise click.UsageError("--min-results, --require and --level need --fail-under or --fail-under-overall")
    if bounds.required and bounds.each is None:
        raise click.UsageError("--require needs --fail-under")
    for rule_id in bounds.required:
        rule = rule_set.rule(rule_id)
        if rule is None:
            hint = did_you_mean(rule_id, [known.id for known in rule_set.rules])
            raise click.UsageError(f"--require: no rule {rule_id!r} here{hint}")
        if rule.status != "stable":
            raise click.UsageError(f"--require: {rule_id} is {rule.status}, and a gate holds for stable rules alone")
        if not is_of_level(rule.level, bounds.level):
            raise click.UsageError(f"--require: {rule_id} is of level {rule.level}, below --level {bounds.level}")


def _judged(
    sources: tuple[str, ...], config: "Config", rule_set: "RuleSet", *, judges_traces: bool
) -> "Iterator[Judged]":
    from tracegrade.deletion.request import Deletions
    from tracegrade.otlp.file import read_sources
    from tracegrade.pipeline.data_folder import JOURNAL
    from tracegrade.pipeline.replay import replay_journal, replay_sources
    from tracegrade.pipeline.set_aside import SetAside

    if sources:
        requests = read_sources(sources, sys.stdin.buffer)
        with progress("traces and sessions", None) as advance:
            for judged in replay_sources(requests, config.traces, rule_set, RUN, judges_traces=judges_traces):
                yield judged
                advance(1)
        return
    folder = config.data_path / JOURNAL
    with progress("bytes read", _journal_bytes(folder)) as advance:
        deleted = Deletions(config.data_path).tombstones()
        aside = SetAside(config.data_path).load()
        yield from replay_journal(
            folder, config.traces, rule_set, RUN, advance, deleted, aside=aside, judges_traces=judges_traces
        )


def _journal_bytes(folder: Path) -> int:
    from tracegrade.journal.reader import JournalReader

    reader = JournalReader(folder)
    try:
        return reader.durable().end - reader.first()
    finally:
        reader.close()


class _RuleOutcome(NamedTuple):
    """What came of one (subject, rule) pair; ``group`` is what the summary counts by, ``chance`` that of being kept."""

    rule_id: str
    outcome: str
    chance: float
    complete: bool
    group: str


class _Replayed(NamedTuple):
    """What is shown of one judged trace or session; ``shown`` depends on the format."""

    is_trace: bool
    complete: bool
    rule_outcomes: list[tuple[Any, ...]]  # of `_RuleOutcome`
    outcomes: list[tuple[str, str, str, bool]]  # rule id, evaluation, outcome, complete
    shown: list[Any]


def _replayed(selection: "Selection", output_format: str, by: str, judged: "Judged") -> "tuple[TraceKey, bytes] | None":
    """What is shown of `judged`, if it is selected, by its key; packed, since all is held to the end."""
    from tracegrade.pipeline.record_judge import JudgedClosing, evaluations_of
    from tracegrade.store.packing import pack

    if not selection.takes(judged):
        return None
    evaluations = evaluations_of(judged)
    is_trace = isinstance(judged, JudgedClosing)
    replayed = _Replayed(
        is_trace,
        (judged.trace if isinstance(judged, JudgedClosing) else judged.session).complete,
        [
            tuple(_rule_outcome(decision, by))
            for decision in judged.decisions
            if decision.kind not in ("not_matched", "sampled_out")
        ],
        [(item.rule_id, item.evaluation, item.outcome, item.subject.complete) for item in evaluations],
        _shown(evaluations, output_format),
    )
    return judged.key, pack(pickle.dumps(tuple(replayed)))


def _rule_outcome(decision: "Decision", by: str) -> _RuleOutcome:
    pair = decision.pair
    group = pair.rule_id if by == "rule" else getattr(pair.subject, by) or ""
    return _RuleOutcome(pair.rule_id, decision.outcome or decision.kind, pair.probability, pair.subject.complete, group)


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


class _Summary:
    """What is counted: traces, and outcomes by rule, by group and by evaluation."""

    def __init__(self, rule_set: "RuleSet", by: str) -> None:
        self.rule_set = rule_set
        self.by = by
        self.traces = 0
        self.incomplete = 0
        self.by_rule = {rule.id: Tally() for rule in rule_set.rules}
        self.by_group: dict[str, Tally] = {}
        self.by_evaluation: dict[str, dict[str, Tally]] = {}
        self._counts_incomplete = {rule.id for rule in rule_set.rules if rule.incomplete == "count"}

    def add(self, replayed: _Replayed) -> None:
        if replayed.is_trace:
            self.traces += 1
            self.incomplete += not replayed.complete
        for fields in replayed.rule_outcomes:
            pair = _RuleOutcome(*fields)
            of_group = self.by_group.setdefault(pair.group, Tally())
            for tally in (self.by_rule[pair.rule_id], of_group):
                self._add(tally, pair.rule_id, pair.outcome, pair.complete, pair.chance)
        for rule_id, name, outcome, complete in replayed.outcomes:
            tally = self.by_evaluation.setdefault(rule_id, {}).setdefault(name, Tally())
            self._add(tally, rule_id, outcome, complete, 1.0)

    def _add(self, tally: Tally, rule_id: str, outcome: Any, complete: bool, chance: float) -> None:
        if complete or rule_id in self._counts_incomplete:
            tally.add(outcome, chance)
        else:
            tally.incomplete += 1

    def counted(self) -> list[Counted]:
        """Every rule with what came of it."""
        return [Counted(rule.id, rule.status, rule.level, self.by_rule[rule.id]) for rule in self.rule_set.rules]


def _show(
    replayed: "Iterable[tuple[TraceKey, bytes]]", output_format: str, summary: _Summary, bounds: Bounds
) -> Verdict:
    rule_set = summary.rule_set
    with _Latest() as latest:
        for key, packed in replayed:
            latest.put(key, packed)
        if output_format == "json":
            for item in _added_up(latest, summary):
                if item.shown:
                    print_lines("\n".join(item.shown))
            return judged_by(bounds, summary.counted())
        if output_format == "table":
            failed: list[tuple[Any, ...]] = []
            failures = 0
            for item in _added_up(latest, summary):
                failed += item.shown[: _MAX_LISTED - len(failed)]
                failures += len(item.shown)
            verdict = judged_by(bounds, summary.counted())
            _print_summary(summary, verdict, failed, failures)
            return verdict
        checks = [_check(rule_set, *found) for item in _added_up(latest, summary) for found in item.shown]
        verdict = judged_by(bounds, summary.counted())
        groups = {} if summary.by == "rule" else {summary.by: summary.by_group}
        print_lines(
            report(output_format, checks, f"{count(summary.traces, 'trace')} judged", rule_set, verdict, groups)
        )
        return verdict


class _NoRoom(TraceGradeError):
    """The temporary file cannot be written."""


class _Latest:
    """What is shown of the highest revision of each trace and session, in the order in which they were first judged.

    Ten kilobytes a trace with ten results, all of which are printed when the last one is judged.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  # closed with this
        self._places: dict[TraceKey, tuple[int, int]] = {}
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def put(self, key: "TraceKey", packed: bytes) -> None:
        """Hold `packed` in place of what was held by `key`."""
        try:
            self._file.write(packed)
        except OSError as error:
            raise _NoRoom(
                f"{tempfile.tempdir or 'temporary files'}: {error.strerror}: what is found is held there until the "
                "last trace is judged; let TMPDIR name a folder with more room, or choose fewer traces by --since or "
                "--service"
            ) from None
        self._places[key] = (self._end, len(packed))
        self._end += len(packed)

    def __iter__(self) -> Iterator[bytes]:
        for begin, length in self._places.values():
            self._file.seek(begin)
            yield self._file.read(length)


def _added_up(latest: _Latest, summary: _Summary) -> Iterator[_Replayed]:
    from tracegrade.store.packing import unpack

    for packed in latest:
        replayed = _Replayed(*pickle.loads(unpack(packed)))
        summary.add(replayed)
        yield replayed


def _check(rule_set: "RuleSet", rule_id: str, fields: dict[str, Any]) -> Check:
    rule = rule_set.rule(rule_id)
    assert rule is not None, "an evaluation is of a rule of the set that judged it"
    return Check(rule=rule, rule_path=rule_set.paths[rule.id], **fields)


def _print_summary(summary: _Summary, verdict: Verdict, failed: list[tuple[Any, ...]], failures: int) -> None:
    title = f"{count(summary.traces, 'trace')} judged, {summary.incomplete} of them incomplete"
    is_empty = not any(summary.by_group.values())
    if is_empty and verdict.word == "not_gated":
        print_line(
            f"{count(summary.traces, 'trace')} read, no rule matched any of them ('tracegrade why' names the clauses)"
        )
        return
    if summary.by != "rule":
        print_table(title, [summary.by, *_NUMBERS], _group_rows(summary), whole=_WHOLE, spare=_SPARE_NUMBERS)
        title = ""
    if summary.by == "rule" or verdict.word != "not_gated":
        gated = ["gate"] if verdict.word != "not_gated" else []
        columns = ["rule", *_NUMBERS, "level", "status", *gated]
        rows = [row[: len(columns)] for row in _rule_rows(summary, verdict)]
        print_table(title, columns, rows, whole=_WHOLE, spare=["status", "level", *_SPARE_NUMBERS])
    if failed:
        print_table(
            "What failed",
            ["outcome", "evaluation", "score", "agent", "trace", "why"],
            [[outcome_text(outcome), *rest] for outcome, *rest in failed],
            whole=["outcome", "score", "trace"],
            spare=["agent"],
        )
        if failures > len(failed):
            print_line(f"... and {failures - len(failed)} more; --format json prints all")


_NUMBERS = [*OUTCOMES, "incomplete", "results", "pass rate", "95 % interval"]
_SPARE_NUMBERS = ["incomplete", "error", "not_evaluable", "pass", "fail"]
_WHOLE = ["results", "pass rate", "95 % interval"]


def _group_rows(summary: _Summary) -> Iterator[list[object]]:
    for group, tally in sorted(summary.by_group.items()):
        yield [group or "(none)", *_numbers(tally)]


def _rule_rows(summary: _Summary, verdict: Verdict) -> Iterator[list[object]]:
    """A row for each rule, and below it one for each of its evaluations where there are several."""
    for rule in verdict.rules:
        counted = rule.counted
        yield [counted.rule_id, *_numbers(counted.tally), counted.level, counted.status, _gate_text(rule)]
        evaluations = summary.by_evaluation.get(counted.rule_id, {})
        for name, tally in sorted(evaluations.items()) if len(evaluations) > 1 else ():
            yield [f"  {name}", *_numbers(tally), "", "", ""]


def _numbers(tally: Tally) -> list[object]:
    outcomes = (tally.passed, tally.failed, tally.not_evaluable, tally.errors, tally.incomplete)
    return [*(number or None for number in outcomes), tally.results, rate_text(tally), interval_text(tally)]


def _gate_text(rule: RuleVerdict) -> Styled:
    sign, style = _SIGNS[rule.word]
    text = "" if rule.word == "not_gated" else f" {rule.word.replace('_', ' ')}"
    reason = f"{':' if text else ''} {rule.reason}" if rule.reason else ""
    return styled(f"{sign}{text}{reason}", style)


_SIGNS: dict[Word, tuple[str, str]] = {
    "pass": ("✓", "green"),
    "fail": ("✗", "bold red"),
    "cannot_tell": ("?", "yellow"),
    "not_gated": ("–", ""),
}
_EXITS: dict[Word, int] = {"pass": 0, "not_gated": 0, "fail": EXIT_FAILED, "cannot_tell": EXIT_CANNOT_TELL}


def _say(verdict: Verdict, output_format: str) -> None:
    """What the gate said, on standard error; nothing without one."""
    if verdict.word == "not_gated":
        return
    if output_format == "json":
        for rule in verdict.rules:
            print_line(json_text(rule.to_json()), err=True)
        print_line(json_text({"gate": verdict.word, "reasons": verdict.reasons}), err=True)
        return
    print_line(f"{_GATE_WORDS[verdict.word]}: {'. '.join(verdict.reasons)}.", err=True)


_GATE_WORDS = {"pass": "Gate passed", "fail": "Gate failed", "cannot_tell": "Cannot tell"}
