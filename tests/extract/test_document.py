"""Dotted keys as one value: what was made of keys, and what is read below one of them."""

import json

from tracegrade.extract.document import OWN, below, is_flattened, nested, numbered


def test_members_below_a_key_are_one_value_of_plain_objects_and_lists() -> None:
    found = below({"out.hits.2.id": 9, "out.hits.0.id": 7, "out.hits.0": "first", "out.count": 2, "other": 1}, "out.")
    assert found == {"hits": [{"id": 7}, {"id": 9}], "count": 2}  # the value of a key with members is left out
    assert isinstance(found, dict)
    assert [type(one) for one in (found, found["hits"], *found["hits"])] == [dict, list, dict, dict]  # type: ignore[misc]
    assert below({"out": 1, "output.a": 2}, "out.") is None


def test_the_objects_of_a_list_are_in_order_of_number_whatever_stands_next_to_them() -> None:
    keys = {
        "m.10.role": "tool",
        "m.2.role": "user",
        "m.2.calls.1.id": "b",
        "m.2.calls.0.id": "a",
        "m.filter.role": "no number",
        "m.3": "no member",
        "m.1234567890.role": "no number",
    }
    assert numbered(keys, "m.") == [{"role": "user", "calls": [{"id": "a"}, {"id": "b"}]}, {"role": "tool"}]
    assert numbered({"m.0.message.role": "user", "m.1.other.role": "tool"}, "m.", "message") == [{"role": "user"}]
    assert numbered({"m.01.a": 1, "m.1.b": 2}, "m.") == [{"a": 1, "b": 2}]


def test_what_keys_make_is_made_anew_for_each_span() -> None:
    """What keys make is worked out once for all spans that have them."""
    first = numbered({"m.0.role": "user", "m.0.calls.0.id": "a"}, "m.")
    first[0]["calls"] = first[0]["role"] = "changed"
    assert numbered({"m.0.role": "tool", "m.0.calls.0.id": "b"}, "m.") == [{"role": "tool", "calls": [{"id": "b"}]}]
    assert below({"m.0.role": "tool", "m.0.calls.0.id": "b"}, "m.") == [{"role": "tool", "calls": [{"id": "b"}]}]
    assert first == [{"role": "changed", "calls": "changed"}]


def test_members_of_an_object_that_was_sent_join_those_made_of_keys() -> None:
    assert numbered({"m.0.args.a": 1, "m.0.args": {"a": 0, "b": 2}}, "m.") == [{"args": {"a": 1, "b": 2}}]
    assert numbered({"m.0.args.a": 1, "m.0.args": "text"}, "m.") == [{"args": {"a": 1}}]
    assert numbered({"m.0.args.0": 1, "m.0.args": {"a": 2}}, "m.") == [{"args": [1]}]
    assert below({"m.0.a": 1, "m.0": {"b": 2}}, "m.") == [{"a": 1, "b": 2}]


def test_a_key_that_is_also_the_beginning_of_others_keeps_its_value_in_the_document() -> None:
    for keys in ({"a.b": 1, "a.b.c": 2}, {"a.b.c": 2, "a.b": 1}):
        found = nested(keys)
        assert json.dumps(found, sort_keys=True) == json.dumps({"a": {"b": {OWN: 1, "c": 2}}})
        assert is_flattened(found["a"])
    assert not is_flattened(nested({"a": {"b": 1}})["a"])
