"""What is judged afterwards stands beside what was judged live: counted once, and gone with its trace."""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import orjson
import pytest
from sqlalchemy import Connection, Engine, select, text

from build import rest_long
from build.judged_traces import AGENT_SPAN, MINUTE_NS, START_NS, evaluation, judged, trace_id
from build.records import decisions_of
from tracegrade.compare.store.backfills import BackfillWriter, JudgedAfter, StoredBackfill
from tracegrade.model.evaluation import BACKFILL
from tracegrade.model.session import session_trace_id
from tracegrade.model.trace_result import TraceResult
from tracegrade.store import schema
from tracegrade.store.backfills import stored_backfills
from tracegrade.store.delete import delete_everywhere, delete_older
from tracegrade.store.open import reading
from tracegrade.store.read import stored_traces
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import full_evaluations, results
from tracegrade.store.schema import DAY_MINUTES, LIVE, traces
from tracegrade.store.tallies import begins_ns, tallies
from tracegrade.store.write import StoreWriter

RULES = {"new": "hash-of-new"}


def writer(engine: Engine, rules: dict[str, str] = RULES, tenant: str | None = None, made: int = 1) -> BackfillWriter:
    return BackfillWriter(
        engine, rules, tenant, START_NS, START_NS + 5 * DAY_MINUTES * MINUTE_NS, START_NS + made, "0.1"
    )


def after(engine: Engine, number: int, outcome: str, rules: dict[str, str] = RULES, **changes: Any) -> JudgedAfter:
    """What the rules say of trace `number` as it is stored."""
    tenant = changes.setdefault("tenant", "default")
    query = select(traces.c.number, traces.c.revision).where(
        traces.c.trace_id == bytes.fromhex(trace_id(number)), traces.c.tenant == tenant, traces.c.run == LIVE
    )
    with reading(engine) as connection:
        row = connection.execute(query).one()
    items = [
        evaluation(number, outcome, rule_id=rule_id, rule_hash=found, run=BACKFILL, revision=row.revision, **changes)
        for rule_id, found in rules.items()
    ]
    return JudgedAfter(row.number, bytes.fromhex(trace_id(number)), tenant, row.revision, decisions_of(items, ()))


def backfilled(engine: Engine, *said: JudgedAfter, rules: dict[str, str] = RULES, made: int = 1) -> StoredBackfill:
    one = writer(engine, rules, made=made)
    for _ in one.remove_earlier():
        pass
    one.write(said)
    one.finish()
    return one.stored


def counted(engine: Engine, run: str = BACKFILL, rule: str | None = None) -> tuple[int, int]:
    """Passes and fails; listed, counted by any length of time, and in rows of values, they are the same."""
    chosen = ResultFilter(run=run, rule=rule)
    with reading(engine) as connection:
        found = tallies(connection, chosen).values()
        sums = sum(item.passed for item in found), sum(item.failed for item in found)
        listed = results(connection, chosen, 1000)
        full = full_evaluations(connection, listed)
        for minutes in (1, 60, schema.DAY_MINUTES):
            by_step = tallies(connection, chosen, step_minutes=minutes)
            assert sums == (sum(s.passed for s in by_step.values()), sum(s.failed for s in by_step.values())), minutes
    outcomes = Counter(item.outcome for item in listed)
    assert sums == (outcomes["pass"], outcomes["fail"])
    assert [(item.outcome, item.subject.run, item.rule_id, item.subject.trace_id) for item in full] == [
        (item.outcome, item.run, item.rule_id, item.trace_id) for item in listed
    ]
    return sums


def judged_by(number: int, rule_id: str, rule_hash: str, outcome: str = "pass", **changes: Any) -> TraceResult:
    """Trace `number` as this rule judged it live."""
    said = evaluation(number, outcome, rule_id=rule_id, rule_hash=rule_hash, **changes)
    return judged(number, evaluations=[said], **changes)


def row_of(engine: Engine, number: int) -> Any:
    with reading(engine) as connection:
        return connection.execute(select(traces).where(traces.c.trace_id == bytes.fromhex(trace_id(number)))).one()


def test_what_is_judged_afterwards_is_listed_counted_and_marked(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2, "fail")])
    said = after(engine, 1, "fail"), after(engine, 2, "pass")
    assert backfilled(engine, *said) == StoredBackfill(subjects=2, traces=2)
    assert counted(engine) == counted(engine, LIVE) == (1, 1)
    with reading(engine) as connection:
        both = results(connection, ResultFilter(with_backfilled=True), 10)
        (stored,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
        (backfill,) = stored_backfills(connection, "new")
        rate = tallies(connection, ResultFilter(with_backfilled=True), ["rule_id"])["new",]
    assert Counter((item.run, item.outcome) for item in both) == {
        (run, outcome): 1 for run in (LIVE, BACKFILL) for outcome in ("pass", "fail")
    }
    assert [item.pair.subject.run for item in stored.decisions] == [LIVE], "what was judged live is as it was"
    assert [item.pair.subject.run for item in stored.backfilled] == [BACKFILL]
    assert stored.backfilled[0].evaluations[0].explanation == "1 of 4 expected calls came in order."
    assert (backfill.rule_hash, backfill.subjects, backfill.complete) == ("hash-of-new", 2, True)
    assert rate.backfilled == 2


def test_it_counts_in_the_minute_of_its_trace(engine: Engine) -> None:
    StoreWriter(engine).write([judged(5)])
    backfilled(engine, after(engine, 5, "fail"))
    with reading(engine) as connection:
        found = tallies(connection, ResultFilter(run=BACKFILL), ("rule_id",), step_minutes=1)
    assert list(found) == [("new", START_NS // MINUTE_NS + 5)]


@pytest.mark.parametrize("outcome", ["pass", None])
def test_a_subject_that_the_same_rule_judged_live_has_none(engine: Engine, outcome: str | None) -> None:
    """Also where it was not in the sample."""
    live = judged_by(1, "new", "hash-of-new")
    (decision,) = live.decisions
    if outcome is None:
        decision.kind, decision.outcome, decision.evaluations = "sampled_out", None, []
    StoreWriter(engine).write([live, judged(2)])
    said = after(engine, 1, "fail"), after(engine, 2, "fail")
    assert backfilled(engine, *said) == StoredBackfill(subjects=1, traces=1, judged_live=1)
    assert counted(engine) == (0, 1)


def test_of_an_earlier_form_of_the_rule_live_results_do_not_matter(engine: Engine) -> None:
    StoreWriter(engine).write([judged_by(1, "new", "hash-of-earlier")])
    assert backfilled(engine, after(engine, 1, "fail")).subjects == 1


def test_sums_of_one_form_leave_it_out_where_another_form_judged_live(engine: Engine) -> None:
    StoreWriter(engine).write([judged_by(1, "new", "hash-of-earlier"), judged_by(2, "other", "hash-of-other")])
    two = {"new": "hash-of-new", "other": "hash-of-other"}
    backfilled(engine, after(engine, 1, "fail", two), after(engine, 2, "fail", two), rules=two)

    def fails(since_minutes: int, one_form: bool) -> dict[str, int]:
        chosen = ResultFilter(with_backfilled=True, since_ns=START_NS + since_minutes * MINUTE_NS)
        with reading(engine) as connection:
            found = tallies(connection, chosen, ("rule_id",), one_form=one_form)
        return {rule_id: sums.failed for (rule_id,), sums in found.items()}

    assert fails(0, one_form=False) == {"new": 2, "other": 1}
    assert fails(0, one_form=True) == {"new": 0, "other": 1}
    assert fails(2, one_form=True) == {"new": 1, "other": 0}, "nothing of another form in this time"


def test_another_subject_of_the_same_trace_has_one(engine: Engine) -> None:
    StoreWriter(engine).write([judged_by(1, "new", "hash-of-new")])
    other = after(engine, 1, "fail", subject={"kind": "trace", "id": AGENT_SPAN})
    assert backfilled(engine, other).subjects == 1


def test_a_later_revision_takes_it_back_and_live_wins(engine: Engine) -> None:
    live = StoreWriter(engine)
    live.write([judged(1), judged(2)])
    backfilled(engine, after(engine, 1, "fail"), after(engine, 2, "fail"))
    live.write([judged_by(1, "new", "hash-of-new", revision=3)])
    assert counted(engine) == (0, 1), "of the other trace"
    assert counted(engine, LIVE, "new") == (1, 0)
    assert backfilled(engine, after(engine, 1, "fail"), after(engine, 2, "fail")).judged_live == 1
    assert counted(engine) == (0, 1)


def test_a_revision_or_a_deletion_between_judging_and_storing_is_left_out(engine: Engine) -> None:
    live = StoreWriter(engine)
    live.write([judged(1), judged(2), judged(3)])
    said = [after(engine, number, "fail") for number in (1, 2, 3)]
    delete_everywhere(engine, {bytes.fromhex(trace_id(3))})
    live.write([judged(4)])
    if engine.dialect.name == "sqlite":
        assert row_of(engine, 4).number == said[2].number, "it was used again"
    live.write([judged(1, revision=3)])
    assert backfilled(engine, *said) == StoredBackfill(subjects=1, traces=1, changed=2)
    assert counted(engine) == (0, 1)


def test_storing_again_leaves_every_row_as_it_is(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2, "fail")])
    said = after(engine, 1, "fail"), after(engine, 2, "pass")
    backfilled(engine, *said)
    rows = row_of(engine, 1), row_of(engine, 2)
    backfilled(engine, *said, made=2)
    assert (row_of(engine, 1), row_of(engine, 2)) == rows
    assert counted(engine) == (1, 1)


def test_what_was_backfilled_is_replaced_by_less_without_a_trace_of_it(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(200)])
    before = [row_of(engine, number).judged for number in range(200)]
    backfilled(engine, *(after(engine, number, "fail") for number in range(0, 200, 3)))
    other = {"new": "hash-of-another-form"}
    backfilled(engine, after(engine, 150, "pass", other), rules=other, made=2)
    assert counted(engine) == (1, 0)
    assert [row_of(engine, number).judged for number in range(200) if number != 150] == before[:150] + before[151:]
    with reading(engine) as connection:
        (backfill,) = stored_backfills(connection, "new")
        assert begins_ns(connection, ResultFilter(run=BACKFILL)) == START_NS + 150 * MINUTE_NS
    assert (backfill.rule_hash, backfill.subjects) == ("hash-of-another-form", 1)


def test_only_its_own_rules_are_replaced(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1)])
    two = {"new": "hash-of-new", "other": "hash-of-other"}
    backfilled(engine, after(engine, 1, "fail", two), rules=two)
    backfilled(engine, after(engine, 1, "pass"), made=2)
    assert (counted(engine, rule="new"), counted(engine, rule="other")) == ((1, 0), (0, 1))
    assert counted(engine) == (1, 1)
    backfilled(engine, after(engine, 1, "pass", {"other": "hash-of-other"}), rules={"other": "hash-of-other"}, made=3)
    assert counted(engine) == (2, 0)


def test_decisions_without_an_evaluation_are_found_again(engine: Engine) -> None:
    """A decision may have none, such as an error of the rule as a whole."""
    StoreWriter(engine).write([judged(1)])
    said = after(engine, 1, "fail")
    bare = replace(said.decisions[0], kind="error", outcome=None, reason="hung", evaluations=[])
    clean = row_of(engine, 1)
    backfilled(engine, said._replace(decisions=[bare]))
    backfilled(engine)
    assert row_of(engine, 1) == clean


def test_a_session_that_was_judged_live_has_one_too(engine: Engine) -> None:
    """Its row is under an id of its own, and a higher revision replaces it as that of a trace."""
    about = {"session": "chat", "members": {bytes.fromhex(trace_id(1)): 2}, "run": LIVE}
    live = StoreWriter(engine)
    live.write([judged(1, session="chat"), judged(1, **about)])
    own = session_trace_id("default", "chat")
    with reading(engine) as connection:
        number = connection.execute(select(traces.c.number).where(traces.c.trace_id == own)).scalar_one()
    subject = {"kind": "session", "id": "chat"}
    item = evaluation(1, "fail", rule_id="new", rule_hash="hash-of-new", run=BACKFILL, subject=subject)
    said = JudgedAfter(number, own, "default", 2, decisions_of([item], ()))
    assert backfilled(engine, said).subjects == 1
    with reading(engine) as connection:
        (stored,) = stored_traces(connection, own)
        assert [rate.failed for rate in tallies(connection, ResultFilter(run=BACKFILL)).values()] == [1]
    assert [decision.outcome for decision in stored.backfilled] == ["fail"]
    live.write([judged(1, revision=3, **about)])
    with reading(engine) as connection:
        assert [rate.failed for rate in tallies(connection, ResultFilter(run=BACKFILL)).values()] == [0]


def test_of_one_tenant_alone(engine: Engine) -> None:
    """Two tenants have a trace of the same id."""
    StoreWriter(engine).write([judged(1), judged(1, tenant="other")])
    both = after(engine, 1, "fail"), after(engine, 1, "fail", tenant="other")
    backfilled(engine, *both)
    assert counted(engine) == (0, 2)
    one = writer(engine, tenant="other", made=2)
    list(one.remove_earlier())
    one.write([after(engine, 1, "pass", tenant="other")])
    one.finish()
    assert counted(engine) == (1, 1)
    with reading(engine) as connection:
        assert [(item.tenant, item.made_ns - START_NS) for item in stored_backfills(connection, "new")] == [
            ("default", 1),
            ("other", 2),
        ]


def test_deleting_a_trace_takes_it_along(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2)])
    backfilled(engine, after(engine, 1, "fail"), after(engine, 2, "fail"))
    assert delete_everywhere(engine, {bytes.fromhex(trace_id(1))}).evaluations == 2
    assert counted(engine) == (0, 1)
    assert backfilled(engine, after(engine, 2, "pass")).subjects == 1
    assert counted(engine) == (1, 0)


def test_retention_takes_it_along_and_forgets_that_there_was_a_backfill(engine: Engine) -> None:
    late = 4 * DAY_MINUTES
    StoreWriter(engine).write([judged(number) for number in (1, late)])
    backfilled(engine, after(engine, 1, "fail"), after(engine, late, "pass"))
    while delete_older(engine, START_NS + DAY_MINUTES * MINUTE_NS):
        pass
    assert counted(engine) == (1, 0)
    with reading(engine) as connection:
        assert len(stored_backfills(connection, "new")) == 1
    while delete_older(engine, START_NS + 5 * DAY_MINUTES * MINUTE_NS):
        pass
    with reading(engine) as connection:
        assert stored_backfills(connection, "new") == [], "all that it judged is older than what is kept"


def test_a_backfill_that_broke_off_says_so_and_is_made_whole_by_the_next(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(4)])
    said = [after(engine, number, "fail") for number in range(4)]
    broken_off = writer(engine)
    list(broken_off.remove_earlier())
    broken_off.write(said[:2])
    with reading(engine) as connection:
        assert [item.complete for item in stored_backfills(connection, "new")] == [False]
    assert backfilled(engine, *said, made=2).subjects == 4
    assert counted(engine) == (0, 4)
    with reading(engine) as connection:
        assert [(item.complete, item.subjects) for item in stored_backfills(connection, "new")] == [(True, 4)]


def test_two_at_the_same_time_double_nothing(engine: Engine) -> None:
    StoreWriter(engine).write([judged(number) for number in range(3)])
    said = [after(engine, number, "fail") for number in range(3)]
    one, two = writer(engine), writer(engine, made=2)
    list(one.remove_earlier())
    list(two.remove_earlier())
    for judged_after in said:
        one.write([judged_after])
        two.write([judged_after])
    assert counted(engine) == (0, 3)


def test_a_batch_that_fails_changes_nothing(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2)])
    one = writer(engine)
    wrong = after(engine, 2, "fail")
    wrong.decisions[0].evaluations[0].score = object()  # type: ignore[assignment]
    with pytest.raises(TypeError):
        one.write([after(engine, 1, "fail"), wrong])
    assert counted(engine) == (0, 0)
    one.write([after(engine, 1, "fail")])
    assert counted(engine) == (0, 1)


def test_a_damaged_trace_is_left_as_it_is(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2)])
    with engine.begin() as connection:
        damaged = traces.update().where(traces.c.trace_id == bytes.fromhex(trace_id(1)))
        connection.execute(damaged.values(judged=b"\x00damaged"))
    assert backfilled(engine, after(engine, 1, "fail"), after(engine, 2, "fail")).changed == 1
    assert row_of(engine, 1).judged == b"\x00damaged"
    assert len(orjson.loads(row_of(engine, 1).evaluations)) == 1


def test_samples_count_for_as_many_as_they_stand_for(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1)])
    backfilled(engine, after(engine, 1, "fail", probability=0.25))
    with reading(engine) as connection:
        (rate,) = tallies(connection, ResultFilter(run=BACKFILL)).values()
    assert (rate.failed, rate.fails.total) == (1, 4.0)


def test_measured_values_are_summed_and_taken_back(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1)])
    said = after(engine, 1, "pass")
    said.decisions[0].measured = (("tokens", 120.0),)
    query = text(
        "SELECT sum(c.passed), sum(c.score_sum) FROM counts c JOIN series s ON s.number = c.series "
        "WHERE s.run = 'backfill' AND s.evaluation = 'tokens' AND c.minutes = 60"
    )

    def tokens(connection: Connection) -> tuple[float, ...]:
        return tuple(connection.execute(query).one())

    backfilled(engine, said)
    with reading(engine) as connection:
        assert tokens(connection) == (1, 120.0)
        (stored,) = stored_traces(connection, bytes.fromhex(trace_id(1)))
    assert stored.backfilled[0].measured == (("tokens", 120.0),)
    backfilled(engine)
    with reading(engine) as connection:
        assert tokens(connection) == (0, 0.0)


@pytest.mark.parametrize("seed", rest_long(range(8), [0]))
def test_whatever_happens_in_whichever_order_what_is_counted_is_what_is_listed(engine: Engine, seed: int) -> None:
    """Revisions, deletions, and backfills of two rules in two forms, broken off or not."""
    chance = random.Random(seed)
    live = StoreWriter(engine)
    revisions: dict[int, int] = {}
    for made in range(2, 40):
        match chance.randrange(4):
            case 0 | 1:
                some = [chance.randrange(12) for _ in range(3)]
                for number in some:
                    revisions[number] = revisions.get(number, 0) + chance.randrange(2)
                live.write([_some(chance, number, revisions[number]) for number in some])
            case 2:
                gone = chance.randrange(12)
                revisions.pop(gone, None)
                delete_everywhere(engine, {bytes.fromhex(trace_id(gone))})
            case _:
                rules = {name: chance.choice(("old", "new")) for name in chance.choice((("a",), ("b",), ("a", "b")))}
                one = writer(engine, rules, made=made)
                list(one.remove_earlier())
                for number in list(revisions)[: chance.randrange(12)]:
                    one.write([after(engine, number, chance.choice(("pass", "fail")), rules)])
        counted(engine)
        counted(engine, LIVE)
        _assert_none_twice(engine)


def _some(chance: random.Random, number: int, revision: int) -> TraceResult:
    rule_id, rule_hash = chance.choice(("a", "b", "c")), chance.choice(("old", "new"))
    return judged_by(number, rule_id, rule_hash, chance.choice(("pass", "fail")), revision=revision + 1)


def _assert_none_twice(engine: Engine) -> None:
    with reading(engine) as connection:
        listed = results(connection, ResultFilter(with_backfilled=True), 1000)
        hashes = [item.pair.rule_hash for item in full_evaluations(connection, listed)]
    subjects = Counter(
        (item.trace_id, item.rule_id, rule_hash, item.subject_id)
        for item, rule_hash in zip(listed, hashes, strict=True)
    )
    assert set(subjects.values()) <= {1}, "live or backfilled, never both"
    of_rule = Counter((item.trace_id, item.rule_id) for item in listed if item.run == BACKFILL)
    assert set(of_rule.values()) <= {1}, "one backfill of each rule"
