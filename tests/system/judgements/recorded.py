"""What was judged, as lines of JSON: one for each subject and rule of each trace, and one for each vector."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from build import read_case, trace
from system.judgements.made_rules import made_rules
from system.judgements.made_traces import TRACES_A_GROUP, MadeTrace, made_trace
from tracegrade.assemble.settings import TracesSettings
from tracegrade.journal.record import Encoding, Record
from tracegrade.judge import judge
from tracegrade.judge_case import judge_case
from tracegrade.match.select import explain_each, explain_session
from tracegrade.model.evaluation import Decision, Evaluation
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session
from tracegrade.model.signal import Signal
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.pipeline.judged import Judged, JudgedSession
from tracegrade.pipeline.replay import replay_records, replay_sources
from tracegrade.receive.validate import check
from tracegrade.rule.load import builtin_rules, load_rules
from tracegrade.rule.rule_set import RuleSet

TESTS = Path(__file__).parents[2]
_RUN = "recorded"
_READY_MADE = ["builtin:all"]
_PRICES = {"small-1": {"input": 1.0, "output": 4.0}}
Line = dict[str, Any]


def parts(shared: Path, made: int) -> list[tuple[str, str]]:
    """What there is to be judged: a kind, and the file or number."""
    cases = sorted((TESTS / "extract").glob("*/*.yaml"))
    captures = sorted((shared / "corpus").rglob("*.jsonl"))
    rules = sorted(builtin_rules().rglob("*tests.yaml"))
    vectors = [*sorted((TESTS / "conformance" / "vectors").glob("*.json"))]
    vectors += sorted((shared / "conformance").glob("*.json"))
    return [
        *(("made", str(number)) for number in range(made // TRACES_A_GROUP)),
        *(("capture", str(path)) for path in captures),
        *(("rule", str(path)) for path in rules),
        *(("case", str(path)) for path in cases),
        *(("vectors", str(path)) for path in vectors),
    ]


def lines_of(part: tuple[str, str]) -> list[str]:
    """The lines of one part, as JSON with sorted keys."""
    kind, what = part
    source = what if kind == "made" else "/".join(Path(what).parts[-3:])
    return [
        json.dumps({"source": f"{kind} {source}", **line}, sort_keys=True, separators=(",", ":"), default=str)
        for line in _KINDS[kind](what)
    ]


def _made(number: str) -> Iterator[Line]:
    group = int(number)
    traces = [made_trace(group * TRACES_A_GROUP + place) for place in range(TRACES_A_GROUP)]
    rule_set = RuleSet(made_rules(group))
    settings = TracesSettings.model_validate({"prices": _PRICES})
    yield from _lines(replay_records(_records(traces), settings, rule_set, _RUN), rule_set)


def _records(traces: Iterable[MadeTrace]) -> Iterator[Record]:
    requests = sorted(request for made in traces for request in made.requests)
    for number, (received_ns, payload) in enumerate(requests):
        checked = check(Signal.TRACES, Encoding.PROTOBUF, payload)
        yield Record(
            number, number + 1, received_ns, "default", Signal.TRACES, Encoding.PROTOBUF, checked.items, checked.payload
        )


def _capture(path: str) -> Iterator[Line]:
    rule_set = load_rules(_READY_MADE)
    requests = read_sources([path], SourceReport())
    yield from _lines(replay_sources(requests, TracesSettings(), rule_set, _RUN), rule_set)


def _rule(path: str) -> Iterator[Line]:
    """A rule over all traces beside it, whatever its tests name."""
    folder = Path(path).parent
    rule_set = load_rules([str(folder)])
    for traces in sorted((folder / "traces").iterdir()) if (folder / "traces").is_dir() else ():
        requests = read_sources([str(traces)], SourceReport())
        for line in _lines(replay_sources(requests, TracesSettings(), rule_set, _RUN), rule_set):
            yield {"file": traces.name, **line}


def _case(path: str) -> Iterator[Line]:
    case = read_case(Path(path).read_text(encoding="utf-8"))
    rule_set = load_rules(_READY_MADE)
    judgement = judge(trace(case["spans"], log_records=case.get("log_records", ())), rule_set, run=_RUN)
    yield from _of_trace(judgement.extraction, judgement.decisions, rule_set)


def _vectors(path: str) -> Iterator[Line]:
    for case in json.loads(Path(path).read_text(encoding="utf-8"))["cases"]:
        yield {"vector": case.get("id"), **judge_case(case).to_json()}


_KINDS = {"made": _made, "capture": _capture, "rule": _rule, "case": _case, "vectors": _vectors}


def _lines(found: Iterable[Judged], rule_set: RuleSet) -> Iterator[Line]:
    for judged in found:
        if isinstance(judged, JudgedSession):
            yield from _of_session(judged.session, judged.decisions, rule_set)
        else:
            yield from _of_trace(judged.judgement.extraction, judged.decisions, rule_set)


def _of_trace(extraction: Extraction, decisions: list[Decision], rule_set: RuleSet) -> Iterator[Line]:
    of = {"trace": extraction.trace.trace_id.hex(), "revision": extraction.trace.revision}
    for decision in decisions:
        yield {**of, **_decision(decision)}
    for rule, explanations in explain_each(rule_set.rules, extraction):
        for explained in explanations:
            if explained.clause is not None:
                subject = explained.subject
                yield {**of, "rule": rule.id, "subject": [subject.kind, subject.id], "clause": explained.clause}


def _of_session(session: Session, decisions: list[Decision], rule_set: RuleSet) -> Iterator[Line]:
    of = {"session": session.id, "revision": session.revision}
    for decision in decisions:
        yield {**of, **_decision(decision)}
    for rule in rule_set.rules:
        for explained in explain_session(rule, session) if rule.scope == "session" else ():
            if explained.clause is not None:
                yield {**of, "rule": rule.id, "subject": ["session", session.id], "clause": explained.clause}


def _decision(decision: Decision) -> Line:
    pair = decision.pair
    return {
        "rule": pair.rule_id,
        "rule_hash": pair.rule_hash,
        "subject": [pair.subject.kind, pair.subject.id],
        "kind": decision.kind,
        "outcome": decision.outcome,
        "reason": decision.reason,
        "probability": pair.probability,
        "measured": decision.measured,
        "evaluations": [_evaluation(one) for one in decision.evaluations],
    }


def _evaluation(one: Evaluation) -> Line:
    return {
        "id": one.id,
        "evaluation": one.evaluation,
        "evaluator": one.evaluator,
        "case": one.case,
        "outcome": one.outcome,
        "score": one.score,
        "reason": one.reason,
        "explanation": one.explanation,
        "details": one.details,
    }
