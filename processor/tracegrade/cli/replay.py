"""``tracegrade replay``: stored traces judged again."""

import os
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import click

from tracegrade.cli.output import (
    EXIT_CANNOT_TELL,
    EXIT_FAILED,
    outcome_text,
    print_line,
    print_lines,
    print_table,
    progress,
    reports_errors,
)
from tracegrade.cli.reports import OUTCOMES, Check, report, report_format_option
from tracegrade.cli.settings_option import settings_options
from tracegrade.cli.times import TIME
from tracegrade.model.errors import TraceGradeError
from tracegrade.words import count, json_text, printable_json

if TYPE_CHECKING:
    from tracegrade.assemble.closed_traces import TraceKey
    from tracegrade.config import Config
    from tracegrade.match.rule_set import RuleSet
    from tracegrade.model.evaluation import Evaluation
    from tracegrade.pipeline.record_judge import Judged
    from tracegrade.pipeline.replay import Selection

RUN = "replay"
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
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 1),
    metavar="PASS_RATE",
    help="A gate: exit 1 when the pass rate over all rules is below, 3 when nothing could be judged.",
)
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
    fail_under: float | None,
    jobs: int,
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
    from tracegrade.pipeline.replay_workers import ReplayJob, WorkerEnded, shown_by_workers

    paths = tuple(rule_paths or config.rules.paths)
    rule_set = load_rules(paths, semantic_model=config.rules.semantic_model)
    if not len(rule_set):
        raise click.UsageError("no rules to judge by: give --rules PATH, or rules.paths in the settings")
    show = partial(_replayed, Selection(since, until, service, agent, trace_id), output_format)
    judged = _judged(sources, config, rule_set, judges_traces=jobs == 1)
    if jobs == 1:
        replayed: Iterable[tuple[TraceKey, bytes]] = filter(None, map(show, judged))
    else:
        job = ReplayJob(paths, config.rules.semantic_model, rule_set.hash, RUN, config.traces.tool_aliases, show)
        replayed = shown_by_workers(judged, job, rule_set, jobs)
    try:
        tally = _show(replayed, output_format, rule_set)
    except (SegmentDeleted, WorkerEnded, _NoRoom) as error:
        print_lines(f"Error: {error}", err=True)
        sys.exit(EXIT_CANNOT_TELL)
    _gate(tally, fail_under)


def _judged(
    sources: tuple[str, ...], config: "Config", rule_set: "RuleSet", *, judges_traces: bool
) -> "Iterator[Judged]":
    from tracegrade.deletion.request import Deletions
    from tracegrade.otlp.file import read_sources
    from tracegrade.pipeline.data_folder import JOURNAL
    from tracegrade.pipeline.replay import replay_journal, replay_sources

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
        yield from replay_journal(folder, config.traces, rule_set, RUN, advance, deleted, judges_traces=judges_traces)


def _journal_bytes(folder: Path) -> int:
    from tracegrade.journal.reader import JournalReader

    reader = JournalReader(folder)
    try:
        return reader.durable().end - reader.first()
    finally:
        reader.close()


class _Replayed(NamedTuple):
    """What is shown of one judged trace or session; ``shown`` depends on the format."""

    is_trace: bool
    complete: bool
    rule_outcomes: list[str]
    outcomes: list[tuple[str, str, str]]  # rule id, evaluation, outcome
    shown: list[Any]


def _replayed(selection: "Selection", output_format: str, judged: "Judged") -> "tuple[TraceKey, bytes] | None":
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
        [decision.outcome or decision.kind for decision in judged.decisions],
        [(evaluation.rule_id, evaluation.evaluation, evaluation.outcome) for evaluation in evaluations],
        _shown(evaluations, output_format),
    )
    return judged.key, pack(pickle.dumps(tuple(replayed)))


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


class _Tally:
    """What the summary says: outcomes by evaluation, and rule outcomes for the gate."""

    def __init__(self) -> None:
        self.traces = 0
        self.incomplete = 0
        self.by_evaluation: dict[tuple[str, str], Counter[str]] = {}
        self.rules: Counter[str] = Counter()

    def add(self, replayed: _Replayed) -> None:
        if replayed.is_trace:
            self.traces += 1
            self.incomplete += not replayed.complete
        self.rules.update(replayed.rule_outcomes)
        for rule_id, name, outcome in replayed.outcomes:
            self.by_evaluation.setdefault((rule_id, name), Counter())[outcome] += 1


def _show(replayed: "Iterable[tuple[TraceKey, bytes]]", output_format: str, rule_set: "RuleSet") -> _Tally:
    tally = _Tally()
    with _Latest() as latest:
        for key, packed in replayed:
            latest.put(key, packed)
        if output_format == "json":
            for item in _added_up(latest, tally):
                if item.shown:
                    print_lines("\n".join(item.shown))
        elif output_format == "table":
            failed: list[tuple[Any, ...]] = []
            failures = 0
            for item in _added_up(latest, tally):
                failed += item.shown[: _MAX_LISTED - len(failed)]
                failures += len(item.shown)
            _print_summary(tally, failed, failures)
        else:
            checks = [_check(rule_set, *found) for item in _added_up(latest, tally) for found in item.shown]
            print_lines(report(output_format, checks, f"{count(tally.traces, 'trace')} judged"))
    return tally


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


def _added_up(latest: _Latest, tally: _Tally) -> Iterator[_Replayed]:
    from tracegrade.store.packing import unpack

    for packed in latest:
        replayed = _Replayed(*pickle.loads(unpack(packed)))
        tally.add(replayed)
        yield replayed


def _check(rule_set: "RuleSet", rule_id: str, fields: dict[str, Any]) -> Check:
    rule = rule_set.rule(rule_id)
    assert rule is not None, "an evaluation is of a rule of the set that judged it"
    return Check(rule=rule, rule_path=rule_set.paths[rule.id], **fields)


def _print_summary(tally: _Tally, failed: list[tuple[Any, ...]], failures: int) -> None:
    print_table(
        f"{count(tally.traces, 'trace')} judged, {tally.incomplete} of them incomplete",
        ["rule", "evaluation", *OUTCOMES, "pass rate"],
        [
            [rule, name, *(counts[outcome] or None for outcome in OUTCOMES), _rate(counts)]
            for (rule, name), counts in sorted(tally.by_evaluation.items())
        ],
        empty=f"{count(tally.traces, 'trace')} read, no rule matched any of them ('tracegrade why' names the clauses)",
    )
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


def _rate(counts: Counter[str]) -> str | None:
    judged = counts["pass"] + counts["fail"]
    return f"{counts['pass'] / judged:.1%}" if judged else None


def _gate(tally: _Tally, fail_under: float | None) -> None:
    if fail_under is None:
        return
    judged = tally.rules["pass"] + tally.rules["fail"]
    if not judged:
        print_line("Cannot tell: no rule passed or failed on any trace.", err=True)
        sys.exit(EXIT_CANNOT_TELL)
    rate = tally.rules["pass"] / judged
    verdict = "passed" if rate >= fail_under else "failed"
    print_line(f"Gate {verdict}: pass rate {rate:.4f} of {judged} rule outcomes, bound {fail_under:g}.", err=True)
    if rate < fail_under:
        sys.exit(EXIT_FAILED)
