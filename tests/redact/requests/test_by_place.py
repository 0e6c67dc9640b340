"""Values redacted by where they stand."""

import json
from typing import Any

from build import each
from build.redaction import KEY, attributes_of, one_span, redacted, set_attributes

ARGUMENTS = "gen_ai.tool.call.arguments"


def one(value: Any, *places: dict[str, Any], key: str = ARGUMENTS, **settings: Any) -> Any:
    """What is left under `key`; JSON texts as JSON."""
    settings = {"detectors": [], "key": KEY, "places": list(places), **settings}
    left = attributes_of(redacted(one_span(**{key.replace(".", "__"): value}), **settings)).get(key)
    try:
        return json.loads(left or "null")
    except ValueError:
        return left


@each(
    ("action", "expected"),
    [
        ("mask", {"customer": {"email": "[redacted]", "n": 1}, "id": 7}),
        ("drop", {"customer": {"n": 1, "[redacted]": 1}, "id": 7}),
        ("keep", {"customer": {"email": "a@b.io", "n": 1}, "id": 7}),
        ("detect", {"customer": {"email": "a@b.io", "n": 1}, "id": 7}),
    ],
)
def test_a_member_of_arguments(action: str, expected: Any) -> None:
    value = {"customer": {"email": "a@b.io", "n": 1}, "id": 7}
    place = {"arguments": "customer.email", "action": action}
    assert one(json.dumps(value), place) == expected
    # Quoted once more, and as Python writes it: what is changed is JSON afterwards.
    is_changed = value != expected
    assert one(json.dumps(json.dumps(value)), place) == (expected if is_changed else json.dumps(value))
    assert one(repr(value), place) == (expected if is_changed else repr(value))


def test_the_first_place_that_fits_decides() -> None:
    places = ({"arguments": "id", "action": "keep"}, {"arguments": "*", "action": "mask"})
    assert one('{"id": 7, "x": 8}', *places) == "[redacted]"  # the second is for the whole value, which comes first
    places = ({"arguments": "x.id", "action": "keep"}, {"arguments": "id", "action": "mask"})
    assert one('{"id": 7, "x": {"id": 8}}', *places) == {"id": "[redacted]", "x": {"id": 8}}


def test_a_hash_keeps_the_form_of_json_and_the_words_of_a_text() -> None:
    place = {"arguments": "c", "action": "hash"}
    left = one('{"c": {"n": 5, "f": 5.0, "t": "Order A-17, paid", "l": ["A-17", null]}}', place)["c"]
    assert left["n"] == left["f"]
    assert left["l"] == [left["t"].split(" ")[1].rstrip(","), None]
    assert "A-17" not in json.dumps(left)


def test_arguments_within_messages_are_arguments_and_outputs_are_outputs() -> None:
    messages = json.dumps(
        [
            {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": '{"email": "a@b.io"}'}}]},
            {"role": "tool", "content": '{"email": "c@d.io"}'},
            {"role": "user", "content": '{"email": "e@f.io"}'},
        ]
    )
    masked = json.dumps(one(messages, {"arguments": "email", "action": "mask"}, key="gen_ai.input.messages"))
    assert ("a@b.io" in masked, "c@d.io" in masked, "e@f.io" in masked) == (False, True, True)
    masked = json.dumps(one(messages, {"outputs": "email", "action": "mask"}, key="gen_ai.input.messages"))
    assert ("a@b.io" in masked, "c@d.io" in masked, "e@f.io" in masked) == (True, False, True)


def test_a_dumped_message_of_langchain_keeps_its_calls_without_their_arguments_and_its_results_ids() -> None:
    def dumped(kind: str, **members: Any) -> dict[str, Any]:
        return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", kind], "kwargs": members}

    call = {"name": "find", "args": {"email": "a@b.io"}, "id": "c1", "type": "tool_call"}
    messages = [
        dumped("AIMessage", content="", tool_calls=[call]),
        dumped("ToolMessage", content="c@d.io", tool_call_id="c1", status="success"),
    ]
    places = ({"arguments": "*", "action": "mask"}, {"outputs": "*", "action": "mask"})
    left = one(json.dumps(messages), *places, key="gen_ai.input.messages")
    assert left[0]["kwargs"] == {"content": "", "tool_calls": [{**call, "args": "[redacted]"}]}
    assert left[1]["kwargs"] == {"content": "[redacted]", "tool_call_id": "c1", "status": "success"}
    # The arguments of a tool go whole, whatever they look like.
    assert one(json.dumps({"kwargs": messages[0]["kwargs"]}), *places, key="acme.data") == {"kwargs": "[redacted]"}


def test_what_cannot_be_read_and_names_the_member_is_masked_as_a_whole() -> None:
    place = {"arguments": "email", "action": "mask"}
    assert one('{"email": "a@b.io", "text": "cut o', place) == "[redacted]"
    assert one('{"text": "cut o', place) == '{"text": "cut o'


def test_an_attribute_by_a_glob_for_services_and_tenants() -> None:
    place = {"attribute": "user.*", "action": "drop", "service": ["web", "shop-*"], "tenant": ["other", "acme"]}
    request = one_span(user__id="7")
    request.resource_spans[0].resource.attributes.add(key="service.name").value.string_value = "shop-eu"
    settings: dict[str, Any] = {"detectors": [], "places": [place]}
    assert "user.id" in attributes_of(redacted(request, **settings))
    assert "user.id" not in attributes_of(redacted(request, tenant="acme", **settings))
    request.resource_spans[0].resource.attributes[0].value.string_value = "other"
    assert "user.id" in attributes_of(redacted(request, tenant="acme", **settings))


def test_an_allow_list_keeps_roles_ids_and_names_in_the_event_of_a_message() -> None:
    request = one_span(gen_ai__operation__name="chat")
    span = request.resource_spans[0].scope_spans[0].spans[0]
    set_attributes(
        span.events.add(name="gen_ai.tool.message").attributes, role="tool", id="c1", name="pay", content="for Ann"
    )
    set_attributes(span.events.add(name="signed.in").attributes, id="7", name="Ann")
    (left,) = redacted(request, detectors=[], default="allow_listed").resource_spans[0].scope_spans[0].spans
    assert [{one.key: one.value.string_value for one in event.attributes} for event in left.events] == [
        {"role": "tool", "id": "c1", "name": "pay", "content": "[redacted]"},
        {"id": "[redacted]", "name": "[redacted]"},
    ]


def test_an_allow_list_masks_all_but_what_traces_are_made_of() -> None:
    request = one_span(
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="pay",
        gen_ai__tool__call__id="c1",
        gen_ai__tool__call__arguments='{"order": "A-1", "note": "for Ann", "n": 3}',
        gen_ai__input__messages='[{"role": "user", "parts": [{"type": "text", "content": "I am Ann"}]}]',
        app__secret="x",
        app__kept="y",
    )
    places = [{"arguments": "order", "action": "keep"}, {"attribute": "app.kept", "action": "keep"}]
    left = attributes_of(redacted(request, detectors=[], default="allow_listed", places=places))
    del left["tracegrade.redacted"]
    assert left == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "pay",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.call.arguments": '{"order": "A-1", "note": "[redacted]", "n": "[redacted]"}',
        "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "[redacted]"}]}]',
        "app.secret": "[redacted]",
        "app.kept": "y",
    }


def test_what_a_place_keeps_no_detector_looks_at() -> None:
    places = ({"arguments": "support", "action": "keep"},)
    left = one('{"support": "help@shop.io", "to": "ann@shop.io"}', *places, detectors=["email"])
    assert left == {"support": "help@shop.io", "to": "[redacted:email]"}


def test_the_name_of_a_call_in_a_models_response_is_no_output_of_a_tool() -> None:
    call = {"type": "function_call", "name": "validate_user", "call_id": "c1", "arguments": '{"name": "Ann"}'}
    response = json.dumps([{"output": [call], "name": "Ann"}])
    found = attributes_of(redacted(one_span(output__value=response), places=[{"outputs": "name", "action": "mask"}]))
    (after,) = json.loads(found["output.value"])
    assert (after["output"][0]["name"], after["output"][0]["call_id"]) == ("validate_user", "c1")
    assert after["name"] == "[redacted]"


SCHEMA = {"type": "object", "properties": {"email": {"type": ["string", "null"]}, "command": {"$ref": "#/d"}}}


@each("path", ["*", "email", "command"])
@each("action", ["mask", "hash", "drop"])
def test_what_a_tool_takes_is_no_argument(action: str, path: str) -> None:
    schema, place = SCHEMA, {"arguments": path, "action": action}
    for value, key in (
        ([{"name": "mail", "parameters": schema}], "gen_ai.tool.definitions"),
        ([{"function": {"name": "mail", "parameters": json.dumps(schema)}}], "ai.prompt.tools"),
        (schema, "llm.request.functions.0.parameters"),
        ({"messages": [{"role": "user"}], "tools": [{"name": "mail", "input_schema": schema}]}, "input.value"),
    ):
        assert one(json.dumps(value), place, key=key) == value
    # Detectors look at it, and an allow list masks it where it is not known for what it is.
    described = json.dumps({**schema, "description": "of ann@corp.io"})
    assert "[redacted:email]" in json.dumps(one(described, place, key="x.parameters", detectors=["email"]))
    assert one(json.dumps(schema), key="x.parameters", default="allow_listed") != schema


@each(
    "value",
    [
        {"email": "a@b.io"},
        {"type": "object", "email": "a@b.io"},
        {"type": "object", "properties": {"email": "a@b.io"}},
        {"type": "object", "properties": {"owner": {"email": "a@b.io"}}},
        {"type": "object", "properties": {"owner": {"type": "person", "email": "a@b.io"}}},
    ],
)
def test_what_looks_like_it_is_an_argument(value: Any) -> None:
    place = {"arguments": "email", "action": "mask"}
    for key, given in (("x.parameters", value), (ARGUMENTS, {"arguments": SCHEMA, **value})):
        assert "a@b.io" not in json.dumps(one(json.dumps(given), place, key=key))


@each("word", ["type", "role", "name"])
@each("odd", [["string", "null"], {"a": 1}, 7, None])
def test_a_word_that_is_no_text_is_walked_like_any_value(word: str, odd: Any) -> None:
    value = {"x": {word: odd, "email": "a@b.io", "arguments": {}}}
    assert one(json.dumps(value), {"arguments": "email", "action": "mask"})["x"]["email"] == "[redacted]"


def test_a_plain_word_is_a_name_in_an_allow_list_only_next_to_the_mark_of_its_sender() -> None:
    kept = [
        attributes_of(redacted(one_span(name="weigh", **beside), detectors=[], default="allow_listed"))["name"]
        for beside in ({"logfire__msg_template": "Function: {name}"}, {"mlflow__spanType": '"TOOL"'}, {})
    ]
    assert kept == ["weigh", "weigh", "[redacted]"]


@each(
    "items",
    [
        [{"type": "mcp_call", "id": "m", "name": "find", "arguments": "ASKED", "output": "GIVEN"}],
        [{"type": "mcp_call", "id": "m", "name": "find", "arguments": "ASKED", "error": "GIVEN"}],
        [{"type": "mcp_call", "id": "m", "name": "find", "arguments": "ASKED", "error": {"message": "GIVEN"}}],
        [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "ASKED"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"title": "GIVEN"}]},
        ],
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "find", "input": "ASKED"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "GIVEN"},
        ],
    ],
    ids=["output of MCP", "error of MCP", "error of MCP as an object", "Anthropic's own tool", "a custom tool"],
)
@each("key", ["gen_ai.output.messages", "llm.output_messages"])
def test_what_the_tools_of_a_provider_took_and_gave_are_arguments_and_outputs(key: str, items: list[Any]) -> None:
    said = json.dumps([{"role": "assistant", "content": items}, *items])
    for place, gone, left in (("arguments", "ASKED", "GIVEN"), ("outputs", "GIVEN", "ASKED")):
        found = json.dumps(one(said, {place: "*", "action": "mask"}, key=key))
        assert gone not in found
        assert left in found
