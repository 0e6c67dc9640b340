"""What extraction says of calls that were redacted on receipt."""

import json
from typing import Any

from build import each
from build.redaction import KEY, one_span, redacted, set_attributes
from tracegrade.assemble.decode import Decoder
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.extract.extract import extract
from tracegrade.extract.registry import in_force
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import Trace

ARGUMENTS = {"to": "ann@corp.io", "n": 3}


def call_of(request: Any) -> ToolCall:
    read = in_force()
    decoder = Decoder(AttributeFilter.of(read, frozenset(), by_shape=False))
    spans = decoder.spans(request.SerializeToString())
    (call,) = extract(Trace(spans[0].trace_id, "default", spans, "settled", [], 1)).calls
    return call


def tool_span(output: str = "sent") -> Any:
    return one_span(
        gen_ai__operation__name="execute_tool",
        gen_ai__tool__name="mail",
        gen_ai__tool__call__id="c1",
        gen_ai__tool__call__arguments=json.dumps(ARGUMENTS),
        gen_ai__tool__call__result=output,
    )


@each(
    ("settings", "arguments", "statuses"),
    [
        ({}, {"to": "[redacted:email]", "n": 3}, ("redacted", "ok")),
        ({"places": [{"arguments": "to", "action": "drop"}]}, {"n": 3, "[redacted]": 1}, ("redacted", "ok")),
        ({"places": [{"arguments": "*", "action": "mask"}]}, None, ("redacted", "ok")),
        ({"places": [{"arguments": "to", "action": "keep"}]}, ARGUMENTS, ("ok", "ok")),
    ],
)
def test_a_call_says_that_it_lacks_something(settings: Any, arguments: Any, statuses: tuple[str, str]) -> None:
    call = call_of(redacted(tool_span('"sent"'), **settings))
    assert call.arguments == arguments
    assert (call.arguments_status, call.output_status) == statuses


def test_an_output_says_so_too() -> None:
    call = call_of(redacted(tool_span("sent to ann@corp.io")))
    assert (call.output, call.output_status) == ("sent to [redacted:email]", "redacted")


def test_hashed_arguments_can_be_read() -> None:
    call = call_of(redacted(tool_span('{"to": "ann@corp.io"}'), action="hash", key=KEY))
    assert (call.arguments_status, call.output_status) == ("ok", "ok")
    assert call.arguments["to"] == call.output["to"] != "ann@corp.io"  # type: ignore[call-overload,index]


def test_a_text_that_only_looks_redacted_is_left_where_we_redacted_nothing() -> None:
    request = one_span(gen_ai__operation__name="execute_tool", gen_ai__tool__name="mail")
    set_attributes(
        request.resource_spans[0].scope_spans[0].spans[0].attributes,
        gen_ai__tool__call__arguments='{"text": "see [redacted] there"}',
    )
    assert call_of(request).arguments_status == "ok"
