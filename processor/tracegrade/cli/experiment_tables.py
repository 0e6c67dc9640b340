"""What ``tracegrade experiments`` prints of experiments and runs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tracegrade.cli.output import Styled, print_line, print_table, print_text, styled
from tracegrade.cli.replay_run import delta_text
from tracegrade.display import count, time_text
from tracegrade.model.evaluation import OUTCOMES

if TYPE_CHECKING:
    from tracegrade.history.runs.experiments import ScoredRun, Standing, Timeline
    from tracegrade.store.runs import Run

_RATE = "pass rate"
_OVERALL = "mean overall"
_COUNT_HEADINGS = (*OUTCOMES, "incomplete")
_COUNTED = ("passed", "failed", "not_evaluable", "errors", "incomplete")


def listed(item: "Timeline") -> list[object]:
    """The row of an experiment: its name and runs, baseline, best and latest run."""
    latest = item.standings[-1] if item.standings else None
    return [
        item.experiment.name,
        len(item.standings),
        *name_and_score(item.baseline),
        *name_and_score(item.best),
        *([None, None] if latest is None else [latest.scored.run.name, time_text(latest.scored.run.begun_ns)]),
        None if latest is None else score_text(latest.scored.score),
        None if latest is None else delta_text(latest),
    ]


def timeline_rows(found: "Timeline") -> list[list[object]]:
    """The rows of an experiment's runs and of what other tools reported, in the order of time."""
    rows: list[tuple[int, list[object]]] = []
    for standing in found.standings:
        run = standing.scored.run
        row: list[object] = [
            time_text(run.begun_ns),
            run.name,
            state_text(run),
            standing.scored.traces,
            score_text(standing.scored.score),
            "baseline" if standing.is_baseline else delta_text(standing),
            "★" if standing.is_best else None,
            run.releases,
            labels_text(run),
        ]
        rows.append((run.begun_ns, row))
    for reported in found.entries:
        entry = reported.entry
        row = [
            time_text(entry.at_ns),
            entry.kind if entry.promoted_from is None else f"{entry.kind}, promoted from the tune",
            None,
            None,
            score_text(entry.score),
            "baseline" if reported.is_baseline else None if reported.delta is None else f"{reported.delta:+.4f}",
            "★" if reported.is_best else None,
            None,
            reported.summary,
        ]
        rows.append((entry.at_ns, row))
    return [row for _, row in sorted(rows, key=lambda timed: timed[0])]


def name_and_score(standing: "Standing | None") -> list[object]:
    """The name and the score of a run, as two cells."""
    if standing is None:
        return [None, None]
    return [standing.scored.run.name, score_text(standing.scored.score)]


def print_experiment(found: "Timeline") -> None:
    """Print which runs of an experiment are its baseline and its best."""
    print_text(styled(f"experiment {found.experiment.name}", "bold"))
    print_line(f"  {count(len(found.standings), 'run')}, the first begun {time_text(found.experiment.begun_ns)} UTC")
    for what, standing in (("baseline", found.baseline), ("best", found.best)):
        if standing is not None:
            pinned = " (pinned)" if what == "baseline" and found.experiment.baseline is not None else ""
            print_line(f"  {what} {standing.scored.run.name}{pinned}, score {score_text(standing.scored.score)}")
    if (reported := found.reported) is not None:
        print_line(f"  baseline eval {reported.id} (pinned), which was reported, score {score_text(reported.score)}")
    if found.experiment.baseline_note is not None:
        print_line(f"  {found.experiment.baseline_note}")
    print_line()


def print_run(standing: "Standing", baseline: "Standing | None") -> None:
    """Print one run: what it was made of, and every rule beside the baseline."""
    scored, run = standing.scored, standing.scored.run
    print_text(styled(f"run {run.name}", "bold") + styled("  ") + state_text(run))
    score = f"score {score_text(scored.score)}"
    if standing.is_baseline:
        score += ", the baseline"
    elif baseline is not None:
        score += f", {delta_text(standing)} against the baseline {baseline.scored.run.name}"
    for line in (score, *_made_of(standing)):
        print_line(f"  {line}")
    before = None if baseline is None or standing.is_baseline else baseline.scored
    overall = [_OVERALL] if scored.overall else []
    print_table(
        "",
        ["rule", _RATE, *overall, *(["baseline", "delta"] if before else []), *_COUNT_HEADINGS],
        [
            [
                rule_id,
                _rate_text(sums.pass_rate),
                *([_overall_text(scored.overall.get(rule_id))] if overall else []),
                *(_against(scored, before, rule_id, rule_id in standing.other_rules) if before else []),
                *(getattr(sums, name) or None for name in _COUNTED),
            ]
            for rule_id, sums in scored.rules.items()
        ],
        empty="\nNo rule judged anything.",
        whole=[_RATE, _OVERALL],
        spare=["incomplete", "error", "not_evaluable"],
    )


def _made_of(standing: "Standing") -> Iterator[str]:
    """What a run was made of, a line each."""
    run = standing.scored.run
    if run.state == "incomplete":
        yield f"it is being written, or that broke off; the same command with --run {run.name} goes on with it"
    traces = f"{count(standing.scored.traces, 'trace')} of {run.source}"
    chosen = f", {_selection_text(run)}" if run.selection else ""
    yield traces + chosen + (f"; releases {', '.join(run.releases)}" if run.releases else "")
    gate = f"; gate: {run.gate.replace('_', ' ')}" if run.gate else ""
    yield f"begun {time_text(run.begun_ns)} UTC, written {time_text(run.written_ns)} UTC{gate}"
    git = f", git {run.git_revision}" if run.git_revision else ""
    yield f"rules {run.judgement_hash}, settings {run.settings_hash}, TraceGrade {run.tracegrade}{git}"
    if run.prompt_hash is not None:
        yield f"{count(run.prompt_count, 'prompt')}, together {run.prompt_hash}"
    if run.labels:
        yield f"labels {labels_text(run)}"
    if run.emptied:
        yield "its traces were deleted by store.retention; what was counted stays"


def _against(scored: "ScoredRun", before: "ScoredRun", rule_id: str, is_other: bool) -> list[str]:
    """The rule's score in the baseline, and the difference from it."""
    score, other = scored.rule_score(rule_id), before.rule_score(rule_id)
    delta = "" if score is None or other is None else f"{round(score - other, 4):+.4f}"
    text = _overall_text(other) if rule_id in before.overall else _rate_text(other) if rule_id in before.rules else ""
    return [text, f"{delta} (another rule)".strip() if is_other else delta]


def state_text(run: "Run") -> Styled:
    """The state in its colour and with a sign, and what ended a failed run."""
    sign, style = {
        "complete": ("✓", "green"),
        "incomplete": ("–", "yellow"),
        "failed": ("✗", "bold red"),
        "deleting": ("–", "yellow"),
    }[run.state]
    return styled(f"{sign} {run.state}" + (f": {run.problem}" if run.problem else ""), style)


def score_text(score: float | None) -> str:
    """A score with its 4 digits; "unknown" is not 0."""
    return "unknown" if score is None else f"{score:.4f}"


def _rate_text(rate: float | None) -> str:
    return "unknown" if rate is None else f"{rate:.1%}"


def _overall_text(overall: float | None) -> str:
    return "" if overall is None else score_text(overall)


def labels_text(run: "Run") -> str:
    """The labels as they were given, in order of their keys."""
    return ", ".join(f"{key}={value}" for key, value in sorted(run.labels.items()))


def _selection_text(run: "Run") -> str:
    chosen = [
        f"{name.removesuffix('_ns')} {time_text(value) if name.endswith('_ns') else value}"
        for name, value in run.selection.items()
    ]
    return "only " + ", ".join(chosen)
