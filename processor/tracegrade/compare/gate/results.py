"""The passes and fails of one side by rule, with what makes pairs and clusters: read from the store, or just judged."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

from sqlalchemy import Connection

from tracegrade.compare.collected import Place, Unit, UnitKey, collect
from tracegrade.compare.progress import Progress, unseen
from tracegrade.compare.sides import Side, check_side, stored_runs_of
from tracegrade.compare.store.sides import side_series
from tracegrade.compare.tally import RuleKey, RuleTallies, RuleTexts
from tracegrade.model.evaluation import Outcome
from tracegrade.model.tally import NO_RESULTS, Tally
from tracegrade.model.usage import no_prices
from tracegrade.pipeline.judged import Judged, JudgedTrace
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.rule_texts import rules_of
from tracegrade.store.schema import SUBJECT_KINDS, WHOLE_RULE

_OUTCOMES: dict[str, Outcome] = {name: name for name in get_args(Outcome)}
_ASKED = ("agent", "trace")  # of these it is known what was asked


@dataclass(slots=True)
class Results:
    """The results of rules as a whole, as `compare.comparison.by_results` reads them.

    ``levels`` are by rule id. ``met_cases`` are the cases that subjects met. ``notes`` is what else is to be known.
    """

    tallies: dict[RuleKey, RuleTallies] = field(default_factory=dict)
    units: defaultdict[UnitKey, list[Unit]] = field(default_factory=lambda: defaultdict(list))
    levels: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    met_cases: Mapping[RuleKey, Collection[str]] = field(default_factory=dict)

    def of(self, rule_id: str, rule_hash: str) -> Tally:
        """The outcomes of a rule; none where it matched nothing."""
        found = self.tallies.get((rule_id, rule_hash))
        return NO_RESULTS if found is None else found.whole

    def hashes(self, rule_id: str) -> list[str]:
        """The contents of a rule that judged something here, in order."""
        return sorted(rule_hash for known, rule_hash in self.tallies if known == rule_id)


def results_of(connection: Connection, side: Side, rule_set: RuleSet, progress: Progress = unseen) -> Results:
    """What is stored of a side, at most its newest `compare.collected.MOST_TRACES` traces.

    Args:
        connection: on the store.
        side: which one.
        rule_set: rules in force, which say how incomplete traces count; of others, their stored texts do.
        progress: shows how many traces were read.

    Raises:
        CompareError: it has no result.
    """
    check_side(connection, side)
    series = side_series(connection, side.result_filter)
    runs = stored_runs_of(connection, side)
    known = rules_of(connection, {found.rule_hash for found in series.values()})
    texts = RuleTexts({**known, **{rule.hash: rule for rule in rule_set.rules}}, runs)
    read = collect(connection, side, series, texts, no_prices, progress)
    notes = [f"the run is {run.state}; results may be missing" for run in runs if run.state != "complete"]
    if read.more_traces:
        notes.append(f"only its newest {read.traces} traces were read")
    tallies = {key: RuleTallies(found.whole, kept=found.kept) for key, found in read.tallies.items()}
    units = {key: units for key, units in read.units.items() if key[2] == WHOLE_RULE}
    levels = {found.rule_id: found.level for found in series.values() if found.level}
    return Results(tallies, defaultdict(list, units), levels, notes, read.met_cases)


class JudgedUnits(NamedTuple):
    """What a judged trace or session adds to `Results`: plain values, which a worker hands back.

    ``place`` has the fields of `Place`. Each of ``units`` has the rule's id and hash, the outcome, and the fields of
    `Unit` after the place.
    """

    place: tuple[str, bytes, str | bytes]
    complete: bool
    units: list[tuple[str, str, Outcome, tuple[str, str | None, str | None, bool, float]]]


def judged_units(judged: Judged) -> JudgedUnits:
    """What `judged` adds to `Results`, the same as `collect` reads of it once it is stored."""
    tenant, trace_id = judged.key
    if isinstance(judged, JudgedTrace):
        extraction, complete = judged.judgement.extraction, judged.trace.complete
        session = extraction.session
        runs = {run.span_id: run for run in extraction.runs}
        outermost = next((run for run in extraction.runs if run.parent_span_id is None), None)
        outermost = outermost or (extraction.runs[0] if extraction.runs else None)
    else:
        session, complete, runs, outermost = judged.session.id, judged.session.complete, {}, None
    units = []
    for decision in judged.decisions:
        outcome = decision.outcome or _OUTCOMES.get(decision.kind)
        if outcome is None:  # sampled out
            continue
        pair, subject = decision.pair, decision.pair.subject
        run = runs.get(subject.id) if subject.kind == "agent" else outermost
        asked = subject.kind in _ASKED and run is not None and run.prompt_hash is not None
        prompt = f"{run.agent} {run.prompt_hash}" if run is not None and asked else None
        case = next((item.case for item in decision.evaluations if item.case is not None), None)
        name = f"{SUBJECT_KINDS.index(subject.kind)}/{subject.id}"
        unit = (name, case, prompt, outcome == "pass", pair.probability)
        units.append((pair.rule_id, pair.rule_hash, outcome, unit))
    return JudgedUnits((tenant, trace_id, session or trace_id), complete, units)


class JudgedResults:
    """Adds up what is judged now. ``results`` has every rule, also those that matched nothing."""

    def __init__(self, rule_set: RuleSet) -> None:
        tallies = {(rule.id, rule.hash): RuleTallies(kept=rule.sample.kept_passes) for rule in rule_set.rules}
        self.results = Results(tallies, levels={rule.id: rule.level for rule in rule_set.rules})
        self._counting = {rule.id for rule in rule_set.rules if rule.incomplete == "count"}

    def add(self, judged: JudgedUnits) -> None:
        """Add one more trace or session."""
        place = Place(*judged.place)
        for rule_id, rule_hash, outcome, unit in judged.units:
            counts = judged.complete or rule_id in self._counting
            tallies = self.results.tallies[rule_id, rule_hash]
            tallies.add(WHOLE_RULE, Tally.one(outcome, unit[-1]).counted(counts))
            if counts and outcome in ("pass", "fail"):
                self.results.units[rule_id, rule_hash, WHOLE_RULE].append(Unit(place, *unit))
