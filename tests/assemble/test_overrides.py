"""Other times for some services and agents: what applies depends on the spans that came, not on their order."""

from itertools import permutations

from assemble.test_live_traces import add, assembler, close
from build import span
from tracegrade.model.span import Resource

BATCH = Resource({"service.name": "batch-eu"})


def agent(name: str) -> dict[str, str]:
    return {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}


def test_a_service_has_times_of_its_own() -> None:
    live = assembler(overrides=[{"service": "batch-*", "settle": "20s"}])
    add(live, span(1), span(2, trace=bytes(16), resource=BATCH), at=0)
    assert [trace.trace_id[-1] for trace in close(live, 2)] == [1]
    assert close(live, 19.9) == []
    assert [trace.close_reason for trace in close(live, 20)] == ["settled"]


def test_an_override_applies_from_the_first_span_on_that_names_the_agent() -> None:
    live = assembler(overrides=[{"agent": "researcher", "idle_timeout": "5m"}])
    add(live, span(3, 2), at=0)
    add(live, span(2, 1, attributes=agent("researcher")), at=50)
    assert close(live, 349.9) == []
    assert [trace.close_reason for trace in close(live, 350)] == ["idle"]


def test_before_that_span_has_come_the_trace_closes_as_any_other_and_is_opened_again() -> None:
    live = assembler(overrides=[{"agent": "researcher", "idle_timeout": "5m"}])
    add(live, span(3, 2), at=0)
    (first,) = close(live, 60)
    add(live, span(2, 1, attributes=agent("researcher")), at=61)
    assert close(live, 360.9) == []
    (second,) = close(live, 361)
    assert (first.revision, second.revision) == (1, 2)


def test_an_agent_that_only_the_span_name_tells_is_known_too() -> None:
    live = assembler(overrides=[{"agent": "researcher", "settle": "20s"}])
    named = {"name": "invoke_agent researcher", "attributes": {"gen_ai.operation.name": "invoke_agent"}}
    add(live, span(1, **named), at=0)
    assert close(live, 19.9) == []
    assert len(close(live, 20)) == 1


def test_service_and_agent_must_be_one_spans() -> None:
    live = assembler(overrides=[{"service": "batch-*", "agent": "researcher", "settle": "20s"}])
    add(live, span(1, attributes=agent("researcher")), span(2, 1, resource=BATCH), at=0)
    assert len(close(live, 2)) == 1
    add(live, span(9, trace=bytes(16), resource=BATCH, attributes=agent("researcher")), at=3)
    assert close(live, 22.9) == []


def test_of_several_the_first_that_sets_a_value_gives_it_in_any_order_of_spans() -> None:
    overrides = [
        {"agent": "b", "settle": "10s"},
        {"service": "shop", "settle": "20s", "max_age": "100s"},
        {"agent": "a", "settle": "30s", "max_age": "200s", "idle_timeout": "90s"},
    ]
    spans = [span(1, attributes=agent("a")), span(2, 1, attributes=agent("b")), span(3, 1)]
    for order in permutations(spans):
        live = assembler(overrides=overrides)
        for one in order:
            add(live, one, at=0)
        assert close(live, 9.9) == []
        assert [trace.close_reason for trace in close(live, 10)] == ["settled"]
        incomplete = [span(4, 9, attributes=agent("a"), trace=bytes(16)), span(5, 9, trace=bytes(16))]
        for one in incomplete:
            add(live, one, at=20)
        assert close(live, 109.9) == []
        assert [trace.close_reason for trace in close(live, 110)] == ["idle"]


def test_the_end_may_come_before_the_span_that_says_what_ends_the_trace() -> None:
    overrides = [{"agent": "researcher", "end_attribute": "research.done"}]
    spans = [span(1, attributes=agent("researcher")), span(2, 1, attributes={"research.done": True})]
    for order in permutations(spans):
        live = assembler(overrides=overrides)
        add(live, order[0], at=0)
        add(live, order[1], at=1)
        assert [trace.close_reason for trace in close(live, 1)] == ["end_attribute"]


def test_another_agents_end_attribute_ends_nothing() -> None:
    live = assembler(overrides=[{"agent": "researcher", "end_attribute": "research.done"}])
    add(live, span(1, attributes={"research.done": True}), at=0)
    assert close(live, 1.9) == []


def test_a_late_span_of_an_ended_trace_waits_for_settle() -> None:
    live = assembler(overrides=[{"service": "shop", "end_attribute": "done", "settle": "4s"}])
    add(live, span(1, attributes={"done": True}), at=0)
    assert [trace.close_reason for trace in close(live, 0)] == ["end_attribute"]
    add(live, span(2, 1), at=10)
    assert close(live, 13.9) == []
    assert [(trace.close_reason, trace.revision) for trace in close(live, 14)] == [("settled", 2)]


def test_an_override_holds_for_a_reopened_trace_whose_agent_was_named_before() -> None:
    live = assembler(overrides=[{"agent": "researcher", "settle": "20s"}])
    add(live, span(1, attributes=agent("researcher")), at=0)
    assert len(close(live, 20)) == 1
    add(live, span(2, 1), at=30)
    assert close(live, 49.9) == []
    assert [trace.revision for trace in close(live, 50)] == [2]
