"""Sessions over Kafka: their traces are with several judges, and the results are those of one."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from build.harness import records
from build.otlp import Content, payload, spans_of
from pipeline.test_sessions import LOOKED_UP_FIRST, turn
from pipeline.test_several_judges import one_judge
from serve.judging.kafka.kafka_judges import PARTITIONS, SPANS, KafkaJudge, MockKafka, SharedStore, key_of
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.assemble.share import ALL, Shares, share_of
from tracegrade.model.session import session_trace_id
from tracegrade.pipeline.judged import JudgedSession
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.trace_result import result_of
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet
from tracegrade.serve.judging.kafka.sessions import at_turns
from tracegrade.store.several_processes import SessionTurn
from waiting import eventually

# Sessions end when the test says so, by a judge that knows of no quiet time.
GOING_ON = TracesSettings(settle="100ms", idle_timeout="300ms", reopen_for="60s", session_quiet="1h")
QUIET_SOON = TracesSettings(settle="100ms", idle_timeout="300ms", reopen_for="60s", session_quiet="1s")
TRACES = range(1, 13)

Judges = Callable[..., KafkaJudge]


@pytest.fixture
def kafka() -> MockKafka:
    return MockKafka()


@pytest.fixture
def store() -> SharedStore:
    return SharedStore()


@pytest.fixture
def rule(tmp_path: Path) -> str:
    path = tmp_path / "one.rule.yaml"
    path.write_text(json.dumps(LOOKED_UP_FIRST.model_dump(mode="json", exclude_defaults=True)))
    return str(path)


@pytest.fixture
def judges(kafka: MockKafka, store: SharedStore, rule: str, tmp_path: Path) -> Iterator[Judges]:
    """Starts judges over one store, which end with the test."""
    started: list[KafkaJudge] = []

    def start(name: str, traces: TracesSettings = QUIET_SOON) -> KafkaJudge:
        folder = tmp_path / f"{name}{len(started)}"
        started.append(KafkaJudge(kafka, folder, name, traces, store, [rule]))
        return started[-1]

    yield start
    for judge in started:
        judge.stop()


OF_OTHERS = Shares(other_sessions=ALL)


def _turn(trace: int, session: str = "chat-1") -> list[Content]:
    return turn(trace, session, "find_order" if trace % 2 else "refund", 1000 * trace)


def _send(kafka: MockKafka, trace: int, contents: list[Content]) -> None:
    kafka.send(SPANS, payload(spans_of(contents)), key_of(trace))


def _session(store: SharedStore, name: str = "chat-1") -> tuple[int, str] | None:
    """How many traces it has, and why it closed, as it is stored."""
    found = store.session(("default", name))
    judged = store.traces.get(("default", session_trace_id("default", name)))
    return (len(found.traces), judged.trace.close_reason) if found is not None and judged is not None else None


def _check(store: SharedStore, rule: str, contents: list[Content]) -> None:
    assert store.canonical() == one_judge(load_rules([rule]), QUIET_SOON, contents)
    eventually(lambda: not store.noted, "turns to be deleted")


def test_two_judges_judge_a_session_as_one_does(
    kafka: MockKafka, judges: Judges, store: SharedStore, rule: str
) -> None:
    first, second = judges("a"), judges("b")
    eventually(lambda: len(first.source._parts) == len(second.source._parts) == PARTITIONS // 2)
    names = ["chat-1", "chat-2", "chat-3", "chat-4"]
    sent = {trace: _turn(trace, names[trace % 4]) for trace in TRACES}
    for trace, contents in sent.items():
        _send(kafka, trace, contents)
    for name in names:
        eventually(lambda name=name: _session(store, name) == (3, "quiet"), f"{name}, is {_session(store, name)}")
    assert first.revisions
    assert second.revisions
    _check(store, rule, [content for contents in sent.values() for content in contents])


def test_a_turn_that_comes_after_the_end_opens_the_session_again(
    kafka: MockKafka, judges: Judges, store: SharedStore, rule: str
) -> None:
    judges("a")
    _send(kafka, 1, _turn(1))
    eventually(lambda: _session(store) == (1, "quiet"))
    _send(kafka, 2, _turn(2))
    eventually(lambda: _session(store) == (2, "quiet"))
    _check(store, rule, _turn(1) + _turn(2))


def test_what_one_judge_judged_and_did_not_store_its_follower_judges_again(
    kafka: MockKafka, judges: Judges, store: SharedStore, rule: str
) -> None:
    first = judges("a", GOING_ON)
    _send(kafka, 1, _turn(1))
    eventually(lambda: _session(store) == (1, "turn"))
    _send(kafka, 2, _turn(2))
    eventually(lambda: _session(store) == (2, "turn"))
    eventually(lambda: not store.noted)
    first.delivery.takes = len(first.delivery.results) + 1  # the trace, and not its session
    _send(kafka, 3, _turn(3))
    eventually(lambda: any(len(r.trace.members or ()) == 3 for r in first.delivery.results), "the session, unstored")
    looks = store.looks
    eventually(lambda: store.looks > looks + 1, "the judge to look for turns again")
    first.stop()
    assert _session(store) == (2, "turn")
    assert store.noted, "the turn waits for another judge"
    store.deliveries.remove(first.delivery)
    judges("b")
    eventually(lambda: _session(store) == (3, "quiet"), f"is {_session(store)}")
    _check(store, rule, _turn(1) + _turn(2) + _turn(3))


def test_a_session_that_went_on_ends_at_the_judge_that_has_it_now(
    kafka: MockKafka, judges: Judges, store: SharedStore, rule: str
) -> None:
    first = judges("a", GOING_ON)
    _send(kafka, 1, _turn(1))
    eventually(lambda: _session(store) == (1, "turn") and not store.noted)
    first.stop()
    store.deliveries.remove(first.delivery)
    judges("b")
    eventually(lambda: _session(store) == (1, "quiet"))
    _check(store, rule, _turn(1))


def test_no_session_ends_before_every_judge_has_judged_up_to_then(
    kafka: MockKafka, judges: Judges, store: SharedStore
) -> None:
    judge = judges("a")
    eventually(judge.has_partitions)
    other = type(judge.delivery)(store)  # of a judge that is behind: it has stored nothing yet
    _send(kafka, 1, _turn(1))
    eventually(lambda: _session(store) == (1, "turn"))
    _send(kafka, 2, _turn(2, "chat-2"))
    eventually(lambda: _session(store, "chat-2") == (1, "turn"))
    assert _session(store) == (1, "turn")
    store.deliveries.remove(other)
    eventually(lambda: _session(store) == (1, "quiet"))


def test_a_session_of_several_turns_is_judged_once_as_after_the_last_of_them(store: SharedStore) -> None:
    first = RecordJudge(GOING_ON, RuleSet([LOOKED_UP_FIRST]), ClosedTraces(store.lookup), shares=OF_OTHERS)
    for record in records([(trace, _turn(trace, f"chat-{trace % 2}")) for trace in range(1, 7)]):
        for judged in first.read(record):
            store.add(result_of(judged, "live", "hash"))
    turns = store.turns(PARTITIONS, range(PARTITIONS), 100)
    assert len(turns) == 5, "the last one is still open"
    of = {}
    for name, take in (("one by one", _one_by_one), ("together", at_turns)):
        judge = RecordJudge(GOING_ON, RuleSet([LOOKED_UP_FIRST]), ClosedTraces(store.lookup), shares=OF_OTHERS)
        of[name] = [result_of(judged, "live", "hash") for judged in take(judge, turns)]
    assert [len(results) for results in of.values()] == [5, 2]
    last = {result.trace.session: result for result in of["one by one"]}
    for result in of["together"]:
        alike = last[result.trace.session or ""]
        assert (result.trace.revision, result.trace.members) == (alike.trace.revision, alike.trace.members)
        assert result.evaluations == alike.evaluations


def _one_by_one(judge: RecordJudge, turns: list[SessionTurn]) -> Iterator[JudgedSession]:
    for one in turns:
        yield from at_turns(judge, [one])


def test_the_judge_of_a_session_is_the_one_with_the_partition_of_its_own_id(
    kafka: MockKafka, judges: Judges, store: SharedStore
) -> None:
    running = {"a": judges("a"), "b": judges("b")}
    eventually(lambda: all(len(judge.source._parts) == PARTITIONS // 2 for judge in running.values()))
    own = share_of(session_trace_id("default", "chat-1"), PARTITIONS)
    for trace in TRACES:
        _send(kafka, trace, _turn(trace))
    eventually(lambda: _session(store) == (len(TRACES), "quiet"))
    by = {name for name, judge in running.items() if any(r.trace.members is not None for r in judge.delivery.results)}
    assert by == {name for name, judge in running.items() if own in judge.source._parts}
