"""The value of a call where a span wraps what another witness shows."""

from build import each
from tracegrade.extract.decode.values import Decoded, decode
from tracegrade.extract.witnesses import may_wrap, open_arguments, open_output
from tracegrade.model.json_value import JsonValue

# (what the span shows, what the model asked for, the arguments)
ARGUMENTS: list[tuple[JsonValue, JsonValue, JsonValue]] = [
    ({"input": {"q": 1}}, {"q": 1}, {"q": 1}),
    ({"input": {"q": 1}}, {"input": {"q": 1}}, {"input": {"q": 1}}),  # the tool's own member
    ({"input": {"q": 2}}, {"q": 1}, {"input": {"q": 2}}),  # other arguments than asked for
    ({"args": [{"q": 1}, {"toolCallId": "c"}]}, {"q": 1}, {"q": 1}),
    ({"input": '{"q": 1}'}, {"q": 1}, {"q": 1}),
    ({"kwargs": {}, "sanitize": True}, {}, {}),
    ({"settings": {}, "data": "x"}, {}, {"settings": {}, "data": "x"}),  # an empty object by chance
    ({"data": {}, "input": {"q": 1}}, {}, {"data": {}, "input": {"q": 1}}),  # something stands beside it
    ({"q": 1}, {"q": 1, "limit": None}, {"q": 1, "limit": None}),
    ({"q": 1}, {"q": 2, "limit": None}, {"q": 1, "limit": None}),
    ({"p": 1}, {"q": 2, "limit": None}, {"p": 1}),
    (
        {"q": "1", "on": "True", "off": "null", "tags": "['a']", "id": "7"},
        {"q": 1, "on": True, "off": None, "tags": ["a"], "id": "7"},
        {"q": 1, "on": True, "off": None, "tags": ["a"], "id": "7"},
    ),
    ({"q": "2", "id": "7"}, {"q": 1, "id": "7"}, {"q": "2", "id": "7"}),  # other arguments than asked for
    ({"q": "1", "n": 5}, {"q": 1, "n": 5}, {"q": "1", "n": 5}),  # a sender that prints would print both
]

# (what the span shows, what the model was told, the result)
OUTPUTS: list[tuple[JsonValue, JsonValue, JsonValue]] = [
    ({"output": [1, 22]}, "[1, 22]", [1, 22]),
    ({"output": 7, "kwargs": None}, "7", 7),
    ({"total": 7, "output": "x"}, "7", {"total": 7, "output": "x"}),  # a small number by chance
    ({"total": 70, "output": "x"}, "70", 70),
    ({"output": None}, None, None),
    ({"output": "", "content": "sold"}, "", {"output": "", "content": "sold"}),
    ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb", "a\nb"),
    ({"update": {"messages": [{"kwargs": {"content": "moved"}}]}, "goto": []}, "moved", "moved"),
    ({"data": {"b": {"c": {"d": {"value": "deep"}}}}}, "deep", {"data": {"b": {"c": {"d": {"value": "deep"}}}}}),
    ("ToolResponse(content=[{'type': 'text', 'text': '0'}], stream=False)", "0", 0),
    ("[<lib.Content object at 0x7f01>]", "", ""),
    ("[object ToolMessage]", "sold", "sold"),
    ("Order(id=7)", "Order(id=7)", "Order(id=7)"),
    ({"result": "done"}, '{"result": "done"}', {"result": "done"}),
]  # fmt: skip


def test_arguments_are_what_the_model_asked_for_where_the_span_holds_them() -> None:
    wrong = [
        (shown, asked, found)
        for shown, asked, right in ARGUMENTS
        if (found := open_arguments(Decoded(shown, "ok"), Decoded(asked, "ok")).value) != right
    ]
    assert not wrong


def test_a_result_is_what_the_model_was_told_where_the_span_holds_it() -> None:
    wrong = []
    for shown, told, right in OUTPUTS:
        assert may_wrap(shown)
        answer = Decoded(told, "ok") if told is None or told == "" else decode(told)
        found = open_output(Decoded(shown, "ok"), answer).value
        if found != right:
            wrong.append((shown, told, found))
    assert not wrong


@each("value", ["plain", 7, None, [], {}, {"order": 7, "status": "paid"}, ["a"], "f(x)", "Hm (=)"])
def test_most_results_need_no_other_witness(value: JsonValue) -> None:
    assert not may_wrap(value)
