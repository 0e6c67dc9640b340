"""How the runs of an experiment did: the score of each, against the baseline and against the best before it.

A run's *score* is the mean of the scores of its rules: a rule's pass rate, or of a suite the mean overall score of its
cases; a rule that neither passed nor failed on anything has none.
Scores are rounded to 4 digits, and so are their differences: what cannot be seen makes no run better than another. The
*baseline* is the run that is pinned, else the first complete one with a score. The *best* run is the first of those
with the highest score: a later one has to be better, not as good. Runs that are not complete count for neither.

A timeline also has *entries*: what other tools reported, such as the best result of a tune. They are measured against
the same baseline; a tune is best when it is better than every run and tune before it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection

from tracegrade.display import json_text
from tracegrade.document.problem import did_you_mean
from tracegrade.history.runs.recorded_run import check_title
from tracegrade.model.errors import NotFound
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tally import NO_RESULTS, Tally
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.runs import (
    TUNES,
    Entry,
    Experiment,
    Run,
    experiment_with_id,
    promoted_entry,
    run_names,
    stored_entries,
    stored_experiment,
    stored_experiments,
    stored_run,
    stored_runs,
)
from tracegrade.store.schema import BACKFILL, LIVE
from tracegrade.store.tallies import Summed, tallies

_DIGITS = 4
_LONGEST_SUMMARY = 100
_NONE_YET = ": no run is stored here; 'tracegrade replay --experiment NAME' stores one"


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run with its outcomes by rule id, in order of id; rules that matched nothing have none of any.

    ``overall`` is the mean overall score of each rule that is a suite and judged something, by rule id.
    """

    run: Run
    traces: int
    rules: Mapping[str, Tally]
    score: float | None
    overall: Mapping[str, float] = field(default_factory=dict)

    def rule_score(self, rule_id: str) -> float | None:
        """What of this rule counts in the score; None where nothing of it passed or failed."""
        return self.overall.get(rule_id, self.rules.get(rule_id, NO_RESULTS).pass_rate)

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        run = self.run
        return {
            "tenant": run.tenant,
            "run": run.name,
            "experiment": run.experiment,
            "state": run.state,
            "problem": run.problem,
            "gate": run.gate,
            "begun_ns": run.begun_ns,
            "written_ns": run.written_ns,
            "traces": self.traces,
            "traces_kept": not run.emptied,
            "score": self.score,
            "rules": {
                rule_id: {
                    "hash": run.rules.get(rule_id, {}).get("hash"),
                    "pass_rate": tally.pass_rate,
                    "mean_overall": self.overall.get(rule_id),
                    **tally.by_outcome(),
                }
                for rule_id, tally in self.rules.items()
            },
            "rule_set_hash": run.rule_set_hash,
            "judgement_hash": run.judgement_hash,
            "settings_hash": run.settings_hash,
            "labels": dict(run.labels),
            "releases": list(run.releases),
            "prompt_hash": run.prompt_hash,
            "prompt_count": run.prompt_count,
            "source": run.source,
            "selection": dict(run.selection),
            "tracegrade": run.tracegrade,
            "git_revision": run.git_revision,
        }


@dataclass(frozen=True, slots=True)
class Standing:
    """A run within its experiment.

    ``delta`` is its score less that of the baseline, None where one has no score. ``is_best``: it was better than every
    run before it. ``other_rules``: rules that judged it otherwise than the baseline, or only one of the two; what the
    delta says is then in doubt. A run of another stored suite than the baseline's has no delta and is never best;
    ``delta_note`` says so.
    """

    scored: ScoredRun
    delta: float | None
    is_baseline: bool
    is_best: bool
    other_rules: Sequence[str]
    delta_note: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object: the run's, and how it stands."""
        return {
            **self.scored.to_json(),
            "delta": self.delta,
            "delta_note": self.delta_note,
            "is_baseline": self.is_baseline,
            "is_best": self.is_best,
            "other_rules": list(self.other_rules),
        }


@dataclass(frozen=True, slots=True)
class EntryStanding:
    """What another tool reported, within its experiment.

    ``delta`` is its score less that of the baseline, None where one has no score, and of a judge. ``is_best``: it is a
    tune that was better than every run and every tune before it.
    """

    entry: Entry
    delta: float | None
    is_best: bool
    is_baseline: bool = False

    @property
    def summary(self) -> str:
        """Its configuration in one line."""
        return configuration_text(self.entry.configuration)

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        entry = self.entry
        return {
            "tenant": entry.tenant,
            "experiment": entry.experiment,
            "entry": entry.id,
            "type": entry.kind,
            "at_ns": entry.at_ns,
            "score": entry.score,
            "delta": self.delta,
            "is_baseline": self.is_baseline,
            "is_best": self.is_best,
            "configuration": dict(entry.configuration),
            "promoted_from": entry.promoted_from,
        }


@dataclass(frozen=True, slots=True)
class Timeline:
    """An experiment with its runs in the order in which they were begun; the last with ``is_best`` is the best.

    ``entries`` are what other tools reported, in the order in which they did. ``outside`` is the baseline where a run
    of another experiment is pinned, and ``reported`` where the promoted result of a tune is.
    """

    experiment: Experiment
    standings: Sequence[Standing]
    entries: Sequence[EntryStanding] = ()
    outside: Standing | None = None
    reported: Entry | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether its baseline was chosen; else it is the first complete run with a score."""
        return self.experiment.baseline is not None or self.reported is not None

    @property
    def baseline(self) -> Standing | None:
        """The run that the others are measured against; None where there is none yet, or where it is ``reported``."""
        return next((standing for standing in self.standings if standing.is_baseline), self.outside)

    def standing(self, run: str) -> Standing:
        """How one of its runs stands."""
        return next(standing for standing in self.standings if standing.scored.run.name == run)

    @property
    def best(self) -> Standing | None:
        """The best run; None when no complete run has a score."""
        return next((standing for standing in reversed(self.standings) if standing.is_best), None)

    @property
    def best_entry(self) -> EntryStanding | None:
        """The best of what was reported, if it is better than every run before it; None otherwise."""
        found = next((standing for standing in reversed(self.entries) if standing.is_best), None)
        best = self.best
        if found is None or best is None:
            return found
        return found if (found.entry.score or 0.0) > (best.scored.score or 0.0) else None

    def to_json(self) -> dict[str, JsonValue]:
        """The documented JSON object."""
        baseline, best = self.baseline, self.best
        return {
            "tenant": self.experiment.tenant,
            "experiment": self.experiment.name,
            "begun_ns": self.experiment.begun_ns,
            "baseline": None if baseline is None else baseline.scored.run.name,
            "best": None if best is None else best.scored.run.name,
            "baseline_entry": None if self.reported is None else self.reported.id,
            "pinned": self.is_pinned,
            "baseline_note": self.experiment.baseline_note,
            "runs": [standing.scored.run.name for standing in self.standings],
        }


def score_of(rules: Mapping[str, Tally], overall: Mapping[str, float]) -> float | None:
    """The mean of the scores of rules, rounded; None when no rule has one: that is not 0.

    Args:
        rules: their outcomes, by rule id.
        overall: of those that are suites, the mean overall score, which counts instead of the pass rate.

    Source: the score of a run of a suite is that of Maheidem/llm-benchmark-studio, routers/tool_eval.py.
    """
    scores = [overall.get(rule_id, tally.pass_rate) for rule_id, tally in rules.items()]
    known = [score for score in scores if score is not None]
    return round(sum(known) / len(known), _DIGITS) if known else None


def scored_run(connection: Connection, run: Run) -> ScoredRun:
    """`run` with what is counted of it; O(its rules, services, agents and releases), however many traces it has."""
    own = ResultFilter(tenant=run.tenant, run=run.name)
    counting = [rule_id for rule_id, known in run.rules.items() if known.get("incomplete") == "count"]
    found = tallies(connection, own, ["rule_id"], incomplete=counting)
    rules = {rule_id: found.get((rule_id,), NO_RESULTS) for rule_id in sorted({*run.rules, *(key[0] for key in found)})}
    overall: dict[str, float] = {}
    suites = [rule_id for rule_id, known in run.rules.items() if known.get("scored_by") == "overall"]
    if suites:
        judged: tuple[Summed, ...] = ("passed", "failed", "score_sum")
        scored = tallies(connection, own, ["rule_id"], of="evaluations", incomplete=counting, summed=judged)
        means = {rule_id: tally.all_scores / tally.all_judged for (rule_id,), tally in scored.items() if tally.judged}
        overall = {rule_id: means[rule_id] for rule_id in suites if rule_id in means}
    came = tallies(connection, own, of="traces", incomplete="count", summed=["passed"]).get((), NO_RESULTS).passed
    return ScoredRun(run, came, rules, score_of(rules, overall), overall)


def timeline(connection: Connection, experiment: Experiment) -> Timeline:
    """The runs of `experiment`, and how each stands."""
    tenant, pinned = experiment.tenant, experiment.baseline
    found = [scored_run(connection, run) for run in stored_runs(connection, tenant, experiment.name)]
    elsewhere = None
    if pinned is not None and all(scored.run.name != pinned for scored in found):
        elsewhere = stored_run(connection, tenant, pinned)
    outside = None if elsewhere is None else scored_run(connection, elsewhere)
    entry = experiment.baseline_entry
    reported = None if entry is None else promoted_entry(connection, tenant, entry)
    stands = standings(found, pinned, outside, reported, experiment.suite)
    baseline = next((standing.scored for standing in stands if standing.is_baseline), outside or reported)
    complete = [standing.scored for standing in stands if standing.scored.run.state == "complete"]
    entries = entry_standings(
        stored_entries(connection, tenant, experiment.name),
        [(scored.run.begun_ns, scored.score) for scored in complete],
        None if baseline is None else baseline.score,
        entry,
    )
    of_outside = None if outside is None else Standing(outside, 0.0, is_baseline=True, is_best=False, other_rules=[])
    return Timeline(experiment, stands, entries, of_outside, reported)


def standings(
    found: Sequence[ScoredRun],
    pinned: str | None,
    outside: ScoredRun | None = None,
    reported: Entry | None = None,
    about: str | None = None,
) -> list[Standing]:
    """How each of these runs of one experiment stands.

    Args:
        found: the runs, in the order in which they were begun.
        pinned: the name of the baseline; None: the first that can be.
        outside: the baseline, if it is a run of another experiment.
        reported: the baseline, if it is what another tool reported; of its rules nothing is known.
        about: the stored suite that the experiment is about, and so what was reported.
    """
    able = [scored for scored in found if scored.run.state == "complete" and scored.score is not None]
    first = outside or (able[0] if able and reported is None else None)
    baseline = next((scored for scored in found if scored.run.name == pinned), first)
    measured = reported.score if reported is not None else None if baseline is None else baseline.score
    of_baseline = about if reported is not None else None if baseline is None else baseline.run.suite
    best: float | None = None
    stands = []
    for scored in found:
        note = other_suite_note(scored.run.suite, of_baseline)
        counts = scored in able and note is None
        is_best = counts and scored.score is not None and (best is None or scored.score > best)
        best = scored.score if is_best else best
        stands.append(
            Standing(
                scored=scored,
                delta=delta_of(scored.score, measured) if note is None else None,
                is_baseline=scored is baseline,
                is_best=is_best,
                other_rules=[] if baseline is None else _other_rules(scored.run, baseline.run),
                delta_note=note,
            )
        )
    return stands


def entry_standings(
    entries: Sequence[Entry],
    scores: Sequence[tuple[int, float | None]],
    baseline: float | None,
    pinned: str | None = None,
) -> list[EntryStanding]:
    """How entries of one experiment stand.

    Args:
        entries: in the order in which they were reported.
        scores: of the runs, each with the time at which it was begun.
        baseline: the score of the baseline.
        pinned: the id of the entry that is the baseline, if one is.
    """
    reported = [(entry.at_ns, entry.score if entry.kind in TUNES else None) for entry in entries]
    are_best = new_bests([*scores, *reported])[len(scores) :]
    return [
        EntryStanding(
            entry, None if entry.kind == "judge" else delta_of(entry.score, baseline), is_best, entry.id == pinned
        )
        for entry, is_best in zip(entries, are_best, strict=True)
    ]


def new_bests(scores: Sequence[tuple[int, float | None]]) -> list[bool]:
    """Whether each of these scores, given with its time, is better than all that are earlier."""
    best, found = -1.0, [False] * len(scores)
    for place in sorted(range(len(scores)), key=lambda place: scores[place][0]):
        score = scores[place][1]
        if score is not None and score > best:
            best, found[place] = score, True
    return found


def configuration_text(configuration: Mapping[str, JsonValue]) -> str:
    """A configuration in one line: `temperature 0.2, tool_choice auto`."""
    parts = (f"{key} {value if isinstance(value, str) else json_text(value)}" for key, value in configuration.items())
    text = " ".join(", ".join(parts).split())
    return text if len(text) <= _LONGEST_SUMMARY else f"{text[: _LONGEST_SUMMARY - 1]}…"


def known_experiment(connection: Connection, tenant: str, name: str) -> Experiment:
    """The experiment of this name.

    Raises:
        NotFound: there is none.
    """
    if (found := stored_experiment(connection, tenant, name)) is None:
        known = [experiment.name for experiment in stored_experiments(connection, tenant)]
        hint = did_you_mean(name, known) or "; 'tracegrade experiments list' shows them"
        raise NotFound(f"no experiment {name!r}{hint if known else _NONE_YET}")
    return found


def experiment_called(connection: Connection, tenant: str, what: str, id_or_name: str) -> Experiment:
    """The experiment with this id, or this name; `what` is where it was written, for messages.

    Raises:
        NotFound: there is none.
        WrongValue: it is neither an id nor a name that an experiment can have.
    """
    found = experiment_with_id(connection, tenant, id_or_name) or stored_experiment(connection, tenant, id_or_name)
    if found is None:
        check_title(what, id_or_name)
        return known_experiment(connection, tenant, id_or_name)
    return found


def known_run(connection: Connection, tenant: str, name: str) -> Run:
    """The run of this name.

    Raises:
        NotFound: there is none.
    """
    if (found := stored_run(connection, tenant, name)) is None:
        raise _no_run(name, [run.name for run in stored_runs(connection, tenant)])
    return found


def run_or_experiment(connection: Connection, tenant: str, name: str) -> Run | Experiment:
    """The run or the experiment of this name; never both have it.

    Raises:
        NotFound: there is none.
    """
    if (experiment := stored_experiment(connection, tenant, name)) is not None:
        return experiment
    if (run := stored_run(connection, tenant, name)) is not None:
        return run
    known = [experiment.name for experiment in stored_experiments(connection, tenant)]
    raise _no_run(name, [*known, *(run.name for run in stored_runs(connection, tenant))], "run or experiment")


def check_stored(connection: Connection, run: str) -> None:
    """Check that a tenant has a run of this name; what is judged live is always there.

    Raises:
        NotFound: none has.
    """
    if run not in (LIVE, BACKFILL) and run not in (known := run_names(connection)):
        raise _no_run(run, known)


def _no_run(name: str, known: Sequence[str], what: str = "run") -> NotFound:
    if not known:
        return NotFound(f"no {what} {name!r}{_NONE_YET}")
    hint = did_you_mean(name, known) or "; 'tracegrade experiments timeline NAME' shows those of an experiment"
    return NotFound(f"no {what} {name!r}{hint}")


def delta_of(score: float | None, other: float | None) -> float | None:
    """How much better than `other` a score is, rounded; None where one is not known."""
    return None if score is None or other is None else round(score - other, _DIGITS)


def other_suite_note(suite: str | None, of_baseline: str | None) -> str | None:
    """Why what ran one stored suite has no delta, when the baseline ran another; None where one of them is unknown."""
    if suite is None or of_baseline is None or suite == of_baseline:
        return None
    return f"it is of the suite {suite}, and the baseline of {of_baseline}: their scores cannot be compared"


def _other_rules(run: Run, baseline: Run) -> list[str]:
    """The rules of which the two runs have different hashes, or one has none."""
    return [
        rule_id
        for rule_id in sorted({*run.rules, *baseline.rules})
        if run.rules.get(rule_id, {}).get("hash") != baseline.rules.get(rule_id, {}).get("hash")
    ]
