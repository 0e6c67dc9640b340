"""What was judged afterwards, as alerts read it."""

from sqlalchemy import Engine, select

from alert.test_stored_history import RULE, sums_of
from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged
from tracegrade.alert.check import Before, check
from tracegrade.alert.stored_history import StoredHistory
from tracegrade.compare.store.backfills import BackfillWriter, JudgedAfter
from tracegrade.model.evaluation import BACKFILL
from tracegrade.model.trace_result import TraceResult
from tracegrade.rule.alert import Alert
from tracegrade.store.alerts import StoredAlert
from tracegrade.store.history import Window
from tracegrade.store.open import reading
from tracegrade.store.schema import traces
from tracegrade.store.write import StoreWriter


def test_what_was_judged_afterwards_is_read_apart_and_tells_of_a_fall(engine: Engine) -> None:
    """Ten days of traces that another rule judged live; then ours is deployed, and what it judges falls."""
    hours = 24 * 10
    rule = RULE.model_copy(update={"alert": [Alert.model_validate({"drop": {"against": "7d"}})]})
    numbers = [60 * hour + minute for hour in range(hours) for minute in (5, 25, 45)]
    live = StoreWriter(engine)
    live.write([_judged(number, "another", "0", "pass") for number in numbers])
    backfill = BackfillWriter(engine, {rule.id: rule.hash}, None, START_NS, START_NS + 1, START_NS, "0.1")
    with reading(engine) as connection:
        stored = {bytes(row.trace_id): row.number for row in connection.execute(select(traces))}
    said = []
    for number in numbers:
        trace = _judged(number, rule.id, rule.hash, "fail" if number % 9 == 0 else "pass", run=BACKFILL)
        own = trace.trace.own_id
        said.append(JudgedAfter(stored[own], own, "default", trace.trace.revision, trace.decisions))
    backfill.write(said)
    deployed = 60 * hours
    window = Window("", START_NS, START_NS + deployed * MINUTE_NS, False)

    def looked(minute: int) -> list[StoredAlert]:
        now_ns = START_NS + minute * MINUTE_NS
        with reading(engine) as connection:
            history = StoredHistory(connection, [rule], now_ns)
            assert history.bins(rule.id, window) == {}, "not what happened"
            (sums,) = sums_of(history.backfilled(rule.id, window)).values()
            assert sums.judged == len(numbers)
            return check(history, [rule], Before(), now_ns).open

    assert looked(deployed + 1) == []
    live.write([_judged(number, rule.id, rule.hash, "pass") for number in range(deployed, deployed + 100, 2)])
    assert looked(deployed + 101) == []
    live.write([_judged(number, rule.id, rule.hash, "fail") for number in range(deployed + 101, deployed + 200, 2)])
    (alert,) = looked(deployed + 205)
    assert alert.kind == "drop"
    assert alert.facts.since_ns is not None
    assert alert.facts.since_ns >= START_NS + (deployed + 60) * MINUTE_NS


def _judged(number: int, rule_id: str, rule_hash: str, outcome: str, **changes: str) -> TraceResult:
    said = evaluation(number, outcome, rule_id=rule_id, rule_hash=rule_hash, **changes)
    return judged(number, evaluations=[said], **changes)
