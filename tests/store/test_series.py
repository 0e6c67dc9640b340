"""Series: those of late, and names of agents, services and releases beyond the bound, which counts call `other`."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from sqlalchemy import Engine, insert, select, text

from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged, trace_id
from build.stored_runs import begin
from tracegrade.model.tally import NO_RESULTS
from tracegrade.model.trace_result import TraceResult
from tracegrade.store import series as series_module
from tracegrade.store import write as write_module
from tracegrade.store.delete import delete_everywhere
from tracegrade.store.heads import trace_heads
from tracegrade.store.open import reading
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import results
from tracegrade.store.schema import rule_texts, series
from tracegrade.store.series import recent_series
from tracegrade.store.tallies import tallies
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


ATTRIBUTES = ("agent", "service", "release")


def named(number: int, outcome: str = "pass", revision: int = 2, **names: str) -> TraceResult:
    """Trace `number`, whose service and release are those of its one result."""
    item = evaluation(number, outcome, revision=revision, **names)
    of_trace = {name: value for name, value in names.items() if name != "agent"}
    return judged(number, evaluations=[item], revision=revision, **of_trace)


def counted(engine: Engine, attribute: str) -> dict[str, tuple[int, int]]:
    """(passed, failed) of the rule by a name."""
    with reading(engine) as connection:
        found = tallies(connection, ResultFilter(), (attribute,))  # type: ignore[arg-type]
    return {name: (sums.passed, sums.failed) for (name,), sums in found.items() if sums.results}


def listed(engine: Engine, **asked: str) -> list[int]:
    """The traces with results, which every list agrees about."""
    with reading(engine) as connection:
        found = [int(result.trace_id, 16) for result in results(connection, ResultFilter(**asked), 100)]
        heads = [int(head.trace_id, 16) for head in trace_heads(connection, ResultFilter(**asked), 100)]
    if "service" not in asked or asked["service"] != "other":  # a trace has its own service alone
        assert heads == list(dict.fromkeys(found))
    return sorted(set(found))


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_further_names_count_as_other_and_are_listed_by_their_own(engine: Engine, attribute: str) -> None:
    writer = StoreWriter(engine, max_names=2)
    names = ["a", "b", "c", "d", "a"]
    writer.write([named(number, **{attribute: name}) for number, name in enumerate(names, 1)])
    assert counted(engine, attribute) == {"a": (2, 0), "b": (1, 0), "other": (2, 0)}
    asked = {name: listed(engine, **{attribute: name}) for name in "abcd"}
    assert asked == {"a": [1, 5], "b": [2], "c": [3], "d": [4]}
    assert listed(engine) == [1, 2, 3, 4, 5]
    if attribute != "service":
        assert listed(engine, **{attribute: "other"}) == [3, 4]
    with reading(engine) as connection:
        shown = connection.execute(text(f"SELECT {attribute} FROM results ORDER BY trace_id")).scalars().all()
        own = {getattr(result, attribute) for result in results(connection, ResultFilter(), 100)}
    assert (shown, own) == (names, set(names))
    found = [(each.tenant, each.service, each.name) for each in writer.take_beyond()]
    assert found == [("default", "d" if attribute == "service" else "shop", "d")]
    assert writer.take_beyond() == []
    # Other tenants have bounds of their own, and a writer that starts later knows the names in use.
    later = StoreWriter(engine, max_names=2)
    later.write([named(6, **{attribute: "e"}), named(7, **{attribute: "b"})])
    later.write([judged(8, evaluations=[evaluation(8, tenant="acme", agent="x")], tenant="acme", service="y")])
    assert counted(engine, attribute)["other"] == (3, 0)
    assert counted(engine, attribute)["b"] == (2, 0)


def test_sums_hold_when_results_with_further_names_are_replaced_and_deleted(engine: Engine) -> None:
    writer = StoreWriter(engine, max_names=1)
    names = {"agent": "z", "service": "z", "release": "z"}
    writer.write([named(1), named(2, **names), named(3, **names)])
    # With room for more, what was counted as `other` is taken back from there, and the new revision has its name.
    more = StoreWriter(engine, max_names=9)
    more.write([named(2, "fail", 3, **names)])
    for attribute, first in (("agent", "support"), ("service", "shop"), ("release", "1.0")):
        assert counted(engine, attribute) == {first: (1, 0), "other": (1, 0), "z": (0, 1)}
    delete_everywhere(engine, [bytes.fromhex(trace_id(number)) for number in (2, 3)])
    assert counted(engine, "agent") == {"support": (1, 0)}
    with reading(engine) as connection:
        by_service = {
            name: tallies(connection, ResultFilter(service=name), of="traces").get((), NO_RESULTS).passed
            for name in ("shop", "other", "z")
        }
    assert by_service == {"shop": 1, "other": 0, "z": 0}


def many(number: int, agents: Sequence[str]) -> TraceResult:
    subjects = [{"kind": "agent", "id": f"{place:016x}"} for place in range(len(agents))]
    items = [evaluation(number, agent=agent, subject=subject) for agent, subject in zip(agents, subjects, strict=True)]
    return judged(number, evaluations=items)


def test_a_record_with_many_names_is_stored_after_what_comes_meanwhile(
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_module, "_LEARNT_AT_ONCE", 20)
    monkeypatch.setattr(series_module, "_LEARNT_TOGETHER", 10)
    heavy = many(1, [f"agent-{place}" for place in range(25)])  # two series each, and one that counts traces
    writer = StoreWriter(engine)
    assert writer.write_part([heavy, judged(2)]) == [heavy]
    assert listed(engine) == [2]

    def stored_series() -> int:
        with reading(engine) as connection:
            return len(connection.execute(select(series.c.number)).all())

    learnt = [stored_series()]
    # What a kill leaves is there when the record comes again, to another writer.
    writer = StoreWriter(engine)
    rest = [heavy]
    for number in range(3, 9):
        rest = writer.write_part([*rest, judged(number)])
        learnt.append(stored_series())
        assert set(range(2, number + 1)) <= set(listed(engine))
        if not rest:
            break
    assert not rest
    assert all(after - before <= 20 for before, after in pairwise(learnt))
    assert len(learnt) >= 3
    writer.write([heavy])
    assert counted(engine, "agent")["agent-24"] == (1, 0)
    assert len(counted(engine, "agent")) == 26
    assert sum(passed for passed, _ in counted(engine, "agent").values()) == 25 + len(set(listed(engine))) - 1
