from sqlalchemy import Engine, insert

from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged
from build.stored_runs import begin
from tracegrade.store.open import reading
from tracegrade.store.schema import rule_texts
from tracegrade.store.series import recent_series
from tracegrade.store.write import StoreWriter

DAY_NS = 24 * 60 * MINUTE_NS


def of_service(name: str, tenant: str = "default") -> tuple[str, str, str, str, str, str]:
    return (tenant, "checkout-order", "0123456789abcdef", "tool-call-order", "support", name)


def received(day: int) -> dict[str, int]:
    return {"first_received_ns": START_NS + day * DAY_NS, "last_received_ns": START_NS + day * DAY_NS}


def test_the_latest_come_first_and_neither_old_ones_nor_those_of_replays_come(engine: Engine) -> None:
    days = {"old": 0, "first": 3, "last": 5}
    traces = [judged(number, service=name, **received(days[name])) for number, name in enumerate(days)]
    begin(engine, "replay")
    StoreWriter(engine).write([*traces, judged(9, service="replayed", run="replay", **received(5))])
    with reading(engine) as connection:
        assert recent_series(connection, START_NS + DAY_NS, 10) == [of_service("last"), of_service("first")]
        assert recent_series(connection, START_NS, 1) == [of_service("last")]
        assert recent_series(connection, START_NS + 5 * DAY_NS + MINUTE_NS, 9) == [of_service("last")], "the whole day"


def test_releases_of_a_series_are_one_and_tenants_are_not(engine: Engine) -> None:
    StoreWriter(engine).write([judged(1), judged(2, release="2.0"), judged(3, tenant="other")])
    with reading(engine) as connection:
        assert recent_series(connection, START_NS, 10) == [of_service("shop"), of_service("shop", "other")]


def test_a_rule_that_judges_something_else_since_is_left_out(engine: Engine) -> None:
    texts = {"back again": ("old", "new", "old"), "changed": ("old", "new"), "same": ("old", "old")}
    StoreWriter(engine).write([judged(1, evaluations=[evaluation(1, rule_id=rule, rule_hash="old") for rule in texts])])
    with engine.begin() as connection:
        for rule, hashes in texts.items():
            for since_ns, rule_hash in enumerate(hashes):
                row = {"rule_id": rule, "since_ns": since_ns, "rule_hash": rule_hash}
                connection.execute(insert(rule_texts).values(**row, text_hash=f"{since_ns}", text="{}"))
    with reading(engine) as connection:
        assert [rule for _, rule, *_ in recent_series(connection, START_NS, 10)] == ["back again", "same"]
