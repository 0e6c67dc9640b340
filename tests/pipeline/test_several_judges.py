"""As many judges as there are, whoever is killed and however their number changes: the results are those of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import each
from build.harness import Run, batches_of, packing, parts, records
from build.otlp import Content, log_payload, otlp_log, otlp_span
from build.several_judges import Judges
from pipeline.test_promises import CONTENTS as TRACES
from pipeline.test_promises import SETTINGS as TRACE_SETTINGS
from pipeline.test_sessions import CONTENTS as TURNS
from pipeline.test_sessions import LOOKED_UP_FIRST, PER_TRACE, turn
from pipeline.test_sessions import SETTINGS as SESSION_SETTINGS
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.assemble.share import Share, Shares, share_of
from tracegrade.journal.record import Encoding, Record
from tracegrade.model.session import session_trace_id
from tracegrade.model.signal import Signal
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.watched_judge import Watchdog
from tracegrade.rule.load import load_rules
from tracegrade.rule.rule_set import RuleSet

LATER_S = 100_000.0


@pytest.fixture(scope="module")
def rule_set() -> RuleSet:
    return load_rules(["builtin:demo"])


def one_judge(rules: RuleSet, traces: TracesSettings, contents: list[Content]) -> list[str]:
    run = Run(rules, traces)
    run.read(records([(0.0, contents)]))
    run.end()
    return run.store.canonical()


def check(rules: RuleSet, traces: TracesSettings, contents: list[Content], data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(contents), max_size=6), label="sent again")
    journal = records(batches_of(data.draw(st.permutations([*contents, *again]), label="arrival order"), data))
    of = data.draw(st.sampled_from([1, 2, 4]), label="judges")
    judges = Judges(rules, packing(traces, data), of, parts(data))
    for _ in range(data.draw(st.integers(2, 14), label="steps")):
        number = data.draw(st.integers(0, len(judges.judges) - 1), label="judge")
        step = data.draw(st.sampled_from(["read", "read", "deliver", "turns", "tick", "kill", "change"]), label="step")
        commits = data.draw(st.booleans(), label="before the kill it committed")
        if step == "read":
            judges.read(number, journal[: data.draw(st.integers(1, len(journal)), label="durable")], commits=commits)
        elif step == "deliver":
            judges.deliver(number, data.draw(st.integers(1, 4), label="stored"))
        elif step == "turns" and len(judges.judges) > 1:
            judges.take_turns(number, commits=commits)
        elif step == "tick":
            read = [r for r in journal if r.end <= judges.judges[number].read_position]
            judges.tick(number, read[-1].received_ns / 1e9 if read else 0.0)
        elif step == "kill":
            judges.kill(number)
        elif step == "change":
            judges.change(data.draw(st.sampled_from([1, 2, 3, 4]), label="judges from now on"))
    judges.end(journal, LATER_S)
    assert judges.store.canonical() == one_judge(rules, traces, contents)


@given(st.data())
def test_traces_and_log_records_are_judged_as_by_one(rule_set: RuleSet, data: st.DataObject) -> None:
    check(rule_set, TRACE_SETTINGS, TRACES, data)


@given(st.data())
def test_sessions_are_judged_as_by_one(data: st.DataObject) -> None:
    check(RuleSet([LOOKED_UP_FIRST, PER_TRACE]), SESSION_SETTINGS, TURNS, data)


# Of two judges, one has the trace and the other one its session.
OF_SESSION = share_of(session_trace_id("default", "chat-1"), 2)
ELSEWHERE = next(trace for trace in range(10, 99) if share_of(trace.to_bytes(16, "big"), 2) != OF_SESSION)
LATE_CALL = turn(ELSEWHERE, "chat-1", "find_order", 1000)
MOVED = otlp_span(6, 1, start=500, end=700, gen_ai__operation__name="invoke_agent", gen_ai__conversation__id="chat-3")


@each(
    ("first", "late"),
    [
        pytest.param([LATE_CALL[0], *turn(2, "chat-1", "refund", 2000)], LATE_CALL[1:], id="a call came late"),
        pytest.param([*turn(6, "chat-1", "refund", 500), *LATE_CALL], [MOVED], id="a trace left its session"),
    ],
)
def test_a_session_is_judged_again_after_its_trace_was(first: list[Content], late: list[Content]) -> None:
    rules = RuleSet([LOOKED_UP_FIRST, PER_TRACE])
    journal = records([(0.0, first), (6.0, late)])
    judges = Judges(rules, SESSION_SETTINGS, 2)
    for durable in (journal[:1], journal):
        for number in (0, 1):
            judges.read(number, durable)
            judges.tick(number, durable[-1].received_ns / 1e9 + 5.0)
            judges.deliver(number)
        for number in (0, 1):
            judges.take_turns(number)
            judges.deliver(number)
    sessions = [key for key, judged in judges.store.traces.items() if judged.trace.members is not None]
    assert sessions, "they were judged as they stood"
    judges.end(journal, LATER_S)
    assert judges.store.canonical() == one_judge(rules, SESSION_SETTINGS, [*first, *late])


@given(st.data())
def test_each_judge_counts_its_share_and_together_they_count_everything(rule_set: RuleSet, data: st.DataObject) -> None:
    again = data.draw(st.lists(st.sampled_from(TRACES), max_size=8), label="sent again")
    journal = records(batches_of(data.draw(st.permutations([*TRACES, *again])), data))
    nameless = otlp_log(1, 1, "gen_ai.choice")
    nameless.trace_id = b""
    last = journal[-1]
    own = log_payload([otlp_log(trace, 1, "gen_ai.choice") for trace in range(1, 5)], "tracegrade")
    for items, payload in ((3, log_payload([nameless] * 3)), (4, own)):
        end = last.end + len(payload)
        last = Record(last.end, end, last.received_ns, "default", Signal.LOGS, Encoding.PROTOBUF, items, payload)
        journal.append(last)
    aside = {data.draw(st.sampled_from(journal), label="set aside").position}
    of = data.draw(st.sampled_from([2, 3, 4]), label="judges")
    shares = [Share(number, of) for number in range(of)]
    judges = [
        RecordJudge(TRACE_SETTINGS, rule_set, ClosedTraces(), watchdog=Watchdog(positions=aside), shares=Shares(s))
        for s in shares
    ]
    read = [0, 0]
    for record in journal:
        read[record.signal == Signal.LOGS] += record.items
        for judge in judges:
            list(judge.read(record))
            spans, logs = judge.intake.span_dispositions, judge.intake.log_record_dispositions
            assert sum(spans.values()) + judge.live.open_spans == judge.intake.read_spans
            assert sum(logs.values()) + judge.live.open_log_records == judge.intake.read_log_records
        assert [sum(judge.intake.read_spans for judge in judges)] == read[:1]
        assert [sum(judge.intake.read_log_records for judge in judges)] == read[1:]
    one = RecordJudge(TRACE_SETTINGS, rule_set, ClosedTraces(), watchdog=Watchdog(positions=aside))
    for record in journal:
        list(one.read(record))
    for fate in one.intake.log_record_dispositions:
        assert one.intake.log_record_dispositions[fate] == sum(
            judge.intake.log_record_dispositions.get(fate, 0) for judge in judges
        ), fate
    for fate in one.intake.span_dispositions:
        assert one.intake.span_dispositions[fate] == sum(
            judge.intake.span_dispositions.get(fate, 0) for judge in judges
        ), fate
