"""What one rule says of traces, judged as ``rules test`` judges the files that are made of them."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tracegrade.assemble.settings import TracesSettings
from tracegrade.model.evaluation import Evaluation
from tracegrade.model.signal import Signal
from tracegrade.model.trace import Trace
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.otlp.from_spans import logs_request, trace_request
from tracegrade.pipeline.judged import Judged, evaluations_of
from tracegrade.pipeline.replay import replay_sources
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet

Outcomes: TypeAlias = list[tuple[object, ...]]
"""Of each decision its kind and outcome, and of each of its evaluations the outcome; comparable, without ids."""


def judged_as_files(traces: Sequence[Trace], rule: Rule, settings: TracesSettings) -> list[Judged]:
    """The last judgement of each trace and session that files of `traces` hold."""
    judged = replay_sources(_requests(traces), settings, RuleSet([rule]), "test", tenant=rule.tried_as)
    return list({item.key: item for item in judged}.values())


def _requests(traces: Sequence[Trace]) -> Iterator[SourceRequest]:
    for trace in traces:
        yield SourceRequest(Signal.TRACES, trace_request(trace.spans).SerializeToString(), "")
        if trace.log_records:
            yield SourceRequest(Signal.LOGS, logs_request(trace.log_records).SerializeToString(), "")


def outcomes(judged: Sequence[Judged], *, scores: bool = False) -> Outcomes:
    """What must stay when traces are changed: all outcomes, and on request the scores."""
    return [
        (
            decision.pair.subject.kind,
            decision.kind,
            decision.outcome,
            *(
                (item.evaluation, item.case, item.outcome, item.score if scores else None)
                for item in decision.evaluations
            ),
        )
        for one in judged
        for decision in one.decisions
    ]


def evaluations(judged: Sequence[Judged]) -> list[Evaluation]:
    """All evaluations, in their order."""
    return [evaluation for one in judged for evaluation in evaluations_of(one)]
