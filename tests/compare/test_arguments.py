from typing import Any

from build.judged_traces import tool_call
from build.records import tool_call_of
from tracegrade.compare.arguments import NewArgument, SideArguments, new_arguments


def side(*calls: dict[str, Any], times: int = 10, **changes: Any) -> SideArguments:
    """Each of these arguments in as many calls, one a trace."""
    found = SideArguments()
    for number, arguments in enumerate(calls):
        for repetition in range(times):
            call = tool_call_of(tool_call(**{"name": "refund", "arguments": arguments, **changes}))
            found.add(f"{number}/{repetition}", [call])
    return found


def only(found: list[NewArgument]) -> NewArgument:
    (one,) = found
    return one


def test_a_value_that_never_came_before() -> None:
    a = side({"currency": "EUR", "express": True}, {"currency": "USD", "express": False})
    found = only(new_arguments(a, side({"currency": "EUR"}, {"currency": "GBP"}, {"currency": "USD"}, times=3)))
    assert (found.tool, found.argument, found.new, found.new_values) == ("refund", "currency", False, 1)
    assert [(value.value, value.calls, value.trace) for value in found.values] == [('"GBP"', 3, "1/0")]


def test_values_that_seldom_come_twice_say_nothing() -> None:
    a = side(*({"order": f"A-{number}"} for number in range(50)), times=9)
    assert new_arguments(a, side({"order": "B-1"})) == []
    assert new_arguments(side(*({"order": f"A-{number}"} for number in range(50))), side({"order": "B-1"})) != []


def test_more_values_than_are_told_apart_say_nothing() -> None:
    a = side(*({"order": number} for number in range(1001)))
    assert new_arguments(a, side({"order": "new"})) == []


def test_free_text_says_nothing() -> None:
    assert new_arguments(side({"note": "x" * 300}), side({"note": "y"})) == []


def test_an_argument_that_is_new() -> None:
    found = only(new_arguments(side({"currency": "EUR"}), side({"currency": "EUR", "reason": "late"})))
    assert (found.argument, found.new, found.calls_b) == ("reason", True, 10)
    text = only(new_arguments(side({"currency": "EUR"}), side({"note": "x" * 300})))
    assert (text.argument, text.new_values) == ("note", 0)


def test_values_within_objects_and_lists() -> None:
    a = side({"to": {"country": "DE"}, "items": [{"size": "S"}, {"size": "M"}]})
    b = side({"to": {"country": "FR"}, "items": [{"size": "S"}, {"size": "L"}, {"size": "L"}]}, times=1)
    found = {item.argument: item for item in new_arguments(a, b)}
    assert {name: [value.value for value in item.values] for name, item in found.items()} == {
        "items[].size": ['"L"'],
        "to.country": ['"FR"'],
    }
    assert (found["items[].size"].calls_a, found["items[].size"].calls_b) == (10, 1)


def test_a_tool_that_only_one_side_calls_is_not_listed_by_its_arguments() -> None:
    assert new_arguments(side({"a": 1}, name="other"), side({"a": 2})) == []


def test_arguments_that_cannot_be_read_are_left_out() -> None:
    assert side({"a": 1}, arguments_status="truncated").calls_by_tool == {}
    assert side({}, arguments="text", arguments_status="text").calls_by_tool == {}


def test_the_most_frequent_values_first_and_no_more_than_are_read() -> None:
    b = side(*({"currency": f"{number:03}"} for number in range(20)), times=1)
    b.add("more", [tool_call_of(tool_call(name="refund", arguments={"currency": "019"}))])
    found = only(new_arguments(side({"currency": "EUR"}), b))
    assert found.new_values == 20
    assert [value.value for value in found.values][:2] == ['"019"', '"000"']
    assert len(found.values) == 10
