"""Services that sent traces of late, and the tools that they called."""

from sqlalchemy import Engine

from build.judged_traces import MINUTE_NS, START_NS, evaluation, judged, tool_call, trace_id
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.open import reading
from tracegrade.store.senders import Sender, called_tools, newest_not_judged, newest_of, recent_senders
from tracegrade.store.write import StoreWriter
from tracegrade.telemetry.series_bound import OTHER

DAY_NS = 24 * 60 * MINUTE_NS


def of(number: int, service: str, agent: str | None, **changes: object) -> TraceResult:
    """A trace that one rule judged of this agent; of None that no rule judged."""
    made = [] if agent is None else [evaluation(number, service=service, agent=agent)]
    return judged(number, service=service, evaluations=made, **changes)


def test_services_that_no_rule_judges_are_senders_too(engine: Engine) -> None:
    old = {"first_received_ns": START_NS - DAY_NS, "last_received_ns": START_NS - DAY_NS}
    StoreWriter(engine).write(
        [of(1, "desk", "support"), of(2, "desk", "refunds"), of(3, "mute", None), of(4, "old", "gone", **old)]
    )
    StoreWriter(engine).write([of(5, OTHER, OTHER)])
    with reading(engine) as connection:
        assert recent_senders(connection, START_NS) == [
            Sender("default", "desk"),
            Sender("default", "desk", "refunds"),
            Sender("default", "desk", "support"),
            Sender("default", "mute"),
        ]


def test_the_newest_of_each_sender_are_found_below_thousands_of_another(engine: Engine) -> None:
    rare = [of(1, "desk", "rare"), of(2, "desk", "rare"), of(3, "mute", None), of(4, "mute", None)]
    StoreWriter(engine).write([*rare, *(of(number, "desk", "busy") for number in range(5, 200))])
    wanted = {Sender("default", "desk", "rare"): 9, Sender("default", "mute"): 1, Sender("default", "nobody"): 1}
    with reading(engine) as connection:
        found = list(newest_of(connection, wanted, START_NS))
        assert [tenant_id[1].hex() for tenant_id in found] == [trace_id(2), trace_id(1), trace_id(4)]
        assert list(newest_of(connection, wanted, START_NS + 3 * MINUTE_NS)) == found[2:], "only since that time"
        assert list(newest_of(connection, {}, START_NS)) == []


def test_the_newest_that_no_rule_judged_are_found_beside_thousands_that_one_did(engine: Engine) -> None:
    not_judged = [*(of(number, "desk", None) for number in range(1, 5)), of(5, "mute", None)]
    StoreWriter(engine).write([*not_judged, *(of(number, "desk", "busy") for number in range(10, 200))])

    def found(most_each: int = 9, most: int = 9, since_ns: int = START_NS, among: int = 1_000) -> list[str]:
        with reading(engine) as connection:
            return [key.hex() for _, key in newest_not_judged(connection, most_each, most, since_ns, among=among)]

    assert found() == [trace_id(number) for number in (5, 4, 3, 2, 1)]
    assert found(most_each=2) == [trace_id(number) for number in (5, 4, 3)]
    assert found(most=2) == [trace_id(5), trace_id(4)]
    assert found(since_ns=START_NS + 4 * MINUTE_NS) == [trace_id(5), trace_id(4)], "only since that time"
    assert found(among=190) == []
    assert found(since_ns=START_NS + DAY_NS) == []


def test_an_empty_store_has_no_tool(engine: Engine) -> None:
    with reading(engine) as connection:
        assert called_tools(connection) == {}


def test_the_tools_of_the_newest_traces_are_named_once_as_rules_see_them(engine: Engine) -> None:
    def calls(*names: str) -> list[dict[str, object]]:
        return [tool_call(name=name, raw_name=f"mcp.{name}", call_id=str(at)) for at, name in enumerate(names)]

    for number, names in enumerate((["old"], ["refund", "refund", "find_order"], [], ["refund"]), 1):
        StoreWriter(engine).write([judged(number, tool_calls=calls(*names))])
    with reading(engine) as connection:
        assert called_tools(connection) == {"shop": {"old", "refund", "find_order"}}
        assert called_tools(connection, newest=3) == {"shop": {"refund", "find_order"}}
        assert called_tools(connection, newest=1) == {"shop": {"refund"}}
