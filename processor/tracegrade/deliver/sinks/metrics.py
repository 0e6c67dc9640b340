"""Results as our own metrics: scores, outcomes, decisions, and changes by later revisions."""

import logging
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from time import time_ns
from typing import Any, get_args

from sqlalchemy.exc import SQLAlchemyError

from tracegrade.deliver.sink import DONE, Delivery, SinkContext
from tracegrade.journal.retention import WhenFull
from tracegrade.model.evaluation import Decision, JudgedSubject, Outcome
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.open import reading
from tracegrade.store.series import SeriesNames, recent_series
from tracegrade.telemetry.metrics import METRICS, Exemplar, Telemetry
from tracegrade.telemetry.series_bound import OTHER

logger = logging.getLogger(__name__)

_MOST_REMEMBERED = 100_000  # outcomes; about 30 MB
_LONGEST_NAMED = 256  # characters of an agent and its service
_UNKNOWN = "unknown"
_OUTCOMES = get_args(Outcome)
_KNOWN_FOR_NS = 7 * 86_400 * 1_000_000_000  # a series without results for this long starts again

# One trace that passes is as good an example as another, and looking for one of each costs as much as counting them.
_ALL_EXAMPLES_EVERY_NS = 1_000_000_000

_LABELS = METRICS["tracegrade.evaluation.score"].labels

# One evaluation of one rule, for one agent of one service.
_COST = len(_OUTCOMES) * METRICS["tracegrade.evaluations"].lines + METRICS["tracegrade.evaluation.score"].lines

Key = tuple[str, ...]


class MetricsSink:
    """Fills `Telemetry`, each series once for each batch.

    A series with one outcome has all outcomes, 0 where nothing came: so where everything fails, the rate of passes is 0
    and not absent. Series that the store knows from the last days exist before their first result (`begin`).

    First revisions count. A later revision adds only its changes, to ``tracegrade.revisions``, whose ``from`` is
    ``unknown`` when the earlier outcome is no longer (or, after a restart, not yet) in memory. The store is exact.

    Tenants beyond those that `Telemetry.tenant` names count as ``other``. When there are too many series, agent and
    service do, then the tenant too, then everything.
    """

    name = "metrics"
    when_full: WhenFull = "refuse"
    failing = ("exporter_failing", name)

    def __init__(self, telemetry: Telemetry, most_remembered: int = _MOST_REMEMBERED) -> None:
        self._telemetry = telemetry
        self._earlier = _EarlierOutcomes(most_remembered)
        self._shown: set[Key] = set()
        self._all_examples_ns = 0

    def begin(self, known: Iterable[SeriesNames]) -> None:
        """Export each of `known` with 0, so that the first result after a start is seen as a rise."""
        for names in known:
            self._shown_as(*names)

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        """Count the batch; never fails."""
        first = []
        changes: Counter[tuple[str, str, str]] = Counter()
        for judged in batch:
            if judged.trace.supersedes is None:
                first.append(judged)
            else:
                changes.update(self._earlier.changes(judged))
            self._earlier.remember(judged)
        decisions = [decision for judged in first for decision in judged.decisions]
        self._count_evaluations(decisions)
        kinds = Counter([(decision.pair.rule_id, decision.kind) for decision in decisions])
        for (rule, kind), amount in kinds.items():
            shown = self._fitting_rule("tracegrade.decisions", rule, kind)
            self._telemetry.add("tracegrade.decisions", amount, rule=shown, kind=kind)
        for (rule, before, after), amount in changes.items():
            shown = self._fitting_rule("tracegrade.revisions", rule, before, after)
            self._telemetry.add("tracegrade.revisions", amount, rule=shown, **{"from": before, "to": after})
        return DONE

    async def close(self) -> None:
        """Nothing to close."""

    def _count_evaluations(self, decisions: Sequence[Decision]) -> None:
        now_ns = time_ns()
        examples = self._examples(decisions, now_ns)
        outcomes: Counter[Key] = Counter()
        scores: defaultdict[Key, list[float]] = defaultdict(list)
        outcome_exemplars: dict[Key, Exemplar] = {}
        score_exemplars: defaultdict[Key, list[Exemplar]] = defaultdict(list)
        for alike, amount in Counter(_evaluations(decisions)).items():
            *names, outcome, score = alike
            key = self._shown_as(*names)
            outcomes[*key, outcome] += amount
            if score is not None:
                scores[key] += [float(score)] * amount
            if alike in examples:
                subject = examples[alike]
                outcome_exemplars[*key, outcome] = Exemplar(subject.trace_id, subject.span_id, 1.0, now_ns)
                if score is not None:
                    exemplar = Exemplar(subject.trace_id, subject.span_id, float(score), now_ns)
                    score_exemplars[key].append(exemplar)
        for full_key, amount in outcomes.items():
            *labels, outcome = full_key
            exemplar_of = outcome_exemplars.get(full_key)
            self._telemetry.add("tracegrade.evaluations", amount, exemplar_of, **_labels(*labels), outcome=outcome)
        for key, values in scores.items():
            self._telemetry.observe(
                "tracegrade.evaluation.score", values, score_exemplars.get(key, ()), **_labels(*key)
            )

    def _examples(self, decisions: Sequence[Decision], now_ns: int) -> dict[tuple[Any, ...], JudgedSubject]:
        """The last subject of what was found: of all of it once a second, in between of what does not pass."""
        if now_ns - self._all_examples_ns < _ALL_EXAMPLES_EVERY_NS:
            decisions = [decision for decision in decisions if decision.outcome != "pass"]
        else:
            self._all_examples_ns = now_ns
        subjects = [decision.pair.subject for decision in decisions for _ in decision.evaluations]
        return dict(zip(_evaluations(decisions), subjects, strict=True))

    def _shown_as(self, tenant: str, rule: str, rule_hash: str, evaluation: str, agent: str, service: str) -> Key:
        """The names under which it counts: its own where they fit. From then on, all outcomes of these names exist."""
        exact = self._telemetry.tenant(tenant), rule, rule_hash[:8], evaluation, agent, service
        if exact in self._shown:
            return exact
        if len(agent) + len(service) > _LONGEST_NAMED:
            exact = *exact[:4], OTHER, OTHER
        of_tenant = *exact[:4], OTHER, OTHER
        of_rule = OTHER, *exact[1:4], OTHER, OTHER
        key = self._telemetry.fit("tracegrade.evaluations", _COST, exact, of_tenant, of_rule, (OTHER,) * 6)
        if key not in self._shown:
            self._shown.add(key)
            labels = _labels(*key)
            for outcome in _OUTCOMES:
                self._telemetry.add("tracegrade.evaluations", 0, **labels, outcome=outcome)
            self._telemetry.observe("tracegrade.evaluation.score", [], **labels)
        return key

    def _fitting_rule(self, metric: str, rule: str, *others: str) -> str:
        exact = metric, rule, *others
        if exact in self._shown:
            return rule
        names = self._telemetry.fit(metric, METRICS[metric].lines, exact[1:], (OTHER, *others))
        self._shown.add((metric, *names))
        return names[0]


def open_sinks(context: SinkContext) -> list[MetricsSink]:
    """The sink for our own metrics, which always exists."""
    sink = MetricsSink(context.telemetry)
    try:
        with reading(context.store) as connection:
            sink.begin(recent_series(connection, time_ns() - _KNOWN_FOR_NS, context.telemetry.max_series // _COST))
    except SQLAlchemyError as error:  # series then begin with their first result
        logger.warning("metrics do not begin with what the store knows: %s", error)
    return [sink]


class _EarlierOutcomes:
    """The latest outcomes of as many traces and sessions as fit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._traces: OrderedDict[Key, list[tuple[Any, ...]]] = OrderedDict()
        self._remembered = 0

    def remember(self, judged: TraceResult) -> None:
        """Remember the outcomes, in place of the oldest ones."""
        key = _trace(judged)
        outcomes = _outcomes(judged)
        self._remembered += len(outcomes) - len(self._traces.pop(key, ()))
        if outcomes:  # else a trace without judging rules would stay for ever, since only outcomes are bounded
            self._traces[key] = outcomes
        while self._remembered > self._most:
            self._remembered -= len(self._traces.popitem(last=False)[1])

    def changes(self, judged: TraceResult) -> list[tuple[str, str, str]]:
        """(rule, from, to) of every outcome that differs from the earlier one."""
        key = _trace(judged)
        before = {tuple(identity): outcome for *identity, outcome in self._traces.get(key, ())}
        found = []
        for *identity, after in _outcomes(judged):
            earlier = before.get(tuple(identity), _UNKNOWN)
            if earlier != after:
                found.append((identity[0], earlier, after))
        return found


def _evaluations(decisions: Sequence[Decision]) -> list[tuple[Any, ...]]:
    """What evaluations are counted by, one after the other: six names, the outcome, the score."""
    return [
        (of.tenant, pair.rule_id, pair.rule_hash, e.evaluation, of.agent, of.service, e.outcome, e.score)
        for decision in decisions
        for pair in (decision.pair,)
        for of in (pair.subject,)
        for e in decision.evaluations
    ]


def _outcomes(judged: TraceResult) -> list[tuple[Any, ...]]:
    """For each evaluation, a key that is unique in the trace, and its outcome."""
    return [
        (decision.pair.rule_id, e.evaluation, e.case, decision.pair.subject.kind, decision.pair.subject.id, e.outcome)
        for decision in judged.decisions
        for e in decision.evaluations
    ]


def _trace(judged: TraceResult) -> Key:
    trace = judged.trace
    own = (trace.trace_id,) if trace.members is None else ("session", trace.session or "")
    return trace.tenant, trace.run, *own


def _labels(*names: str) -> dict[str, str]:
    return dict(zip(_LABELS, names, strict=True))
