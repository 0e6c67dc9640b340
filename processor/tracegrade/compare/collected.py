"""Reads one side's results one by one: what pairs and clusters are made of, and what runs took."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import orjson
from sqlalchemy import Connection

from tracegrade.compare.behaviour import SideBehaviour
from tracegrade.compare.measures import SideMeasures
from tracegrade.compare.progress import Advance, Progress, ScanProgress
from tracegrade.compare.sides import Side, nothing_in
from tracegrade.compare.store.sides import SideSeries, side_rows
from tracegrade.compare.tally import RuleKey, RuleTallies, RuleTexts, with_several_evaluations
from tracegrade.model.tally import Tally
from tracegrade.model.usage import CostOf
from tracegrade.store.index import numbers_of
from tracegrade.store.schema import OUTCOMES, SUBJECT_KINDS
from tracegrade.telemetry.series_bound import OTHER

MOST_TRACES = 500_000
"""So many traces of a side are read, the newest; a million results need about a gigabyte of memory."""

_PASS, _FAIL = OUTCOMES.index("pass"), OUTCOMES.index("fail")
_AGENT, _SESSION = SUBJECT_KINDS.index("agent"), SUBJECT_KINDS.index("session")


class Place(NamedTuple):
    """Where results are from: a trace, or a session under a trace id of its own; ``cluster`` is what goes together."""

    tenant: str
    trace_id: bytes
    cluster: str | bytes


class Unit(NamedTuple):
    """One pass or fail.

    ``subject`` names what was judged within its trace; ``prompt`` is its agent, and the hash of what that was asked.
    """

    place: Place
    subject: str
    case: str | None
    prompt: str | None
    passed: bool
    probability: float


UnitKey: TypeAlias = tuple[str, str, str]  # rule id, rule hash, evaluation or "" for the whole rule


@dataclass(slots=True)
class Collected:
    """What was read of one side; with ``more_traces`` there are older ones that were not read.

    ``met_cases`` are the cases of rules that subjects met, whatever came of it.
    ``measures`` and ``behaviour``, None where it is not asked for, are of complete traces, whose numbers in the store
    are ``numbers``.
    """

    measures: SideMeasures
    behaviour: SideBehaviour | None = None
    tallies: dict[RuleKey, RuleTallies] = field(default_factory=dict)
    units: defaultdict[UnitKey, list[Unit]] = field(default_factory=lambda: defaultdict(list))
    met_cases: defaultdict[RuleKey, set[str]] = field(default_factory=lambda: defaultdict(set))
    numbers: list[int] = field(default_factory=list)
    traces: int = 0
    more_traces: bool = False


def collect(
    connection: Connection,
    side: Side,
    chosen: Mapping[int, SideSeries],
    texts: RuleTexts,
    cost_of: CostOf,
    progress: Progress,
    *,
    behaviour: bool = False,
) -> Collected:
    """All results of a side, at most those of its `MOST_TRACES` newest traces.

    Args:
        connection: on the store.
        side: which one.
        chosen: its series.
        texts: of its rules.
        cost_of: what the tokens of models cost.
        progress: shows how far it is.
        behaviour: whether also what is called.

    Raises:
        CompareError: there is none.
    """
    rows = side_rows(connection, side.result_filter, chosen)
    looked = ScanProgress(numbers_of(connection, side.result_filter), MOST_TRACES)
    with progress(f"{side.text}: traces read", looked.total) as advance:
        found = collected(_with_progress(rows, looked, advance), side, chosen, texts, cost_of, behaviour=behaviour)
    if not found.tallies:
        raise nothing_in(connection, side)
    return found


def collected(
    rows: Iterable[Sequence[Any]],
    side: Side,
    chosen: Mapping[int, SideSeries],
    texts: RuleTexts,
    cost_of: CostOf,
    *,
    behaviour: bool = False,
) -> Collected:
    """What these rows of ``traces``, as `side_rows` has them, hold of a side; otherwise as `collect`."""
    found = Collected(SideMeasures(cost_of), SideBehaviour() if behaviour else None)
    reader = _Reader(side, chosen, texts, found)
    for some in rows:
        reader.read(some)
        if reader.found.traces >= MOST_TRACES:
            reader.found.more_traces = True
            break
    reader.count()
    return reader.found


def _with_progress(rows: Iterable[Sequence[Any]], looked: ScanProgress, advance: Advance) -> Iterator[Sequence[Any]]:
    """The same rows, with their progress."""
    traces = 0
    for some in rows:
        yield some
        if some:
            traces += len(some)
            advance(looked.steps_to(some[-1].number, traces))


class _Reader:
    """Takes rows of ``traces``, and adds to `found` what they hold."""

    def __init__(self, side: Side, chosen: Mapping[int, SideSeries], texts: RuleTexts, found: Collected) -> None:
        self.found = found
        self._model = side.model
        self._chosen = chosen
        self._texts = texts
        self._counts: defaultdict[tuple[int, bool], list[int]] = defaultdict(lambda: [0] * len(OUTCOMES))
        self._counted_incomplete = {number for number, of in chosen.items() if texts.counts_incomplete(of.rule_hash)}
        several = with_several_evaluations(chosen.values())
        self._several = {number for number, of in chosen.items() if (of.rule_id, of.rule_hash) in several}

    def read(self, rows: Iterable[Sequence[Any]]) -> None:
        """Take the results of rows that have the columns of `SideRow`."""
        found = self.found
        for number, trace_id, tenant, session, complete, start_ns, end_ns, members, *lists in rows:
            evaluations, decisions, tool_calls, agent_runs = lists
            runs = orjson.loads(agent_runs)
            subjects = _Subjects(runs, self._model)
            place = Place(tenant, bytes(trace_id), session or bytes(trace_id))
            cases = self._read_evaluations(orjson.loads(evaluations), complete, place, subjects)
            kept = self._read_decisions(orjson.loads(decisions), complete, place, subjects, cases)
            if kept and members is None:
                found.traces += 1
                if complete:
                    calls = orjson.loads(tool_calls)
                    found.measures.add(start_ns, end_ns, calls, runs, 1 / kept, (tenant, place.cluster))
                    found.numbers.append(number)
                    if found.behaviour is not None:
                        found.behaviour.add(place.trace_id, calls, 1 / kept)

    def _read_evaluations(
        self, evaluations: Iterable[Any], complete: bool, place: Place, subjects: "_Subjects"
    ) -> dict[tuple[str, str], str]:
        """Take those of rules that have several; the first case of each rule's subject, where results have cases."""
        cases: dict[tuple[str, str], str] = {}
        for _, series, case, kind, subject, outcome, *_ in evaluations:
            if case is None and series not in self._several:
                continue  # nearly all: what they say the whole rule says
            of = self._chosen.get(series)
            if of is None or not subjects.has(kind, subject, of.agent):
                continue
            if case is not None:
                cases.setdefault((of.rule_id, subject), case)
                self.found.met_cases[of.rule_id, of.rule_hash].add(case)
            if series in self._several:
                name = f"{kind}/{subject}/{case}" if case else f"{kind}/{subject}"
                self._add(series, complete, outcome, (place, name, case, subjects.prompt(kind, subject)))
        return cases

    def _read_decisions(
        self,
        decisions: Iterable[Any],
        complete: bool,
        place: Place,
        subjects: "_Subjects",
        cases: Mapping[tuple[str, str], str],
    ) -> float:
        """Take the results; how probable it was that one of them is kept, 0.0 where none is of this side."""
        kept = 0.0
        for series, kind, subject, _, outcome, *_ in decisions:
            of = self._chosen.get(series)
            if of is None or outcome is None or not subjects.has(kind, subject, of.agent):
                continue
            if of.probability > kept:
                kept = of.probability
            case = cases.get((of.rule_id, subject)) if cases else None
            self._add(series, complete, outcome, (place, f"{kind}/{subject}", case, subjects.prompt(kind, subject)))
        return kept

    def _add(self, series: int, complete: bool, outcome: int, about: tuple[Place, str, str | None, str | None]) -> None:
        self._counts[series, bool(complete)][outcome] += 1
        if outcome <= _FAIL and (complete or series in self._counted_incomplete):
            of = self._chosen[series]
            unit = Unit(*about, outcome == _PASS, of.probability)
            self.found.units[of.rule_id, of.rule_hash, of.evaluation].append(unit)

    def count(self) -> None:
        """Add up the tallies."""
        for (series, complete), outcomes in self._counts.items():
            of = self._chosen[series]
            key = (of.rule_id, of.rule_hash)
            tallies = self.found.tallies.get(key) or self._texts.empty(of.rule_hash)
            self.found.tallies[key] = tallies
            counts = complete or series in self._counted_incomplete
            tallies.add(of.evaluation, Tally.of(*outcomes, weight=1 / of.probability).counted(counts))


class _Subjects:
    """Which subjects of a trace with these agent runs count, and what they were asked."""

    __slots__ = ("_agents", "_model", "_outermost", "_runs")

    def __init__(self, runs: Sequence[Any], model: str | None) -> None:
        self._runs = {run[0]: run for run in runs}
        self._outermost = next((run for run in runs if run[2] is None), runs[0] if runs else None)
        self._model = model
        self._agents = {run[1] for run in runs if run[4] == model} if model is not None else frozenset()

    def has(self, kind: int, subject: str, agent: str) -> bool:
        """Whether a subject is one of the side: of a model, what that model did; a trace by its outermost run."""
        if self._model is None:
            return True
        if kind == _AGENT:
            return subject in self._runs and self._runs[subject][4] == self._model
        if kind == _SESSION or self._outermost is None:
            return False
        # Of an agent that is counted as `other`, only the trace knows the name.
        is_named = agent and agent != OTHER
        return bool(agent in self._agents) if is_named else bool(self._outermost[4] == self._model)

    def prompt(self, kind: int, subject: str) -> str | None:
        """The agent and the hash of what it was asked; None where that is not known, or of single calls."""
        run = self._runs.get(subject) if kind == _AGENT else self._outermost
        if run is None or run[5] is None or kind not in _ASKED:
            return None
        return f"{run[1]} {run[5]}"


_ASKED = (_AGENT, SUBJECT_KINDS.index("trace"))
