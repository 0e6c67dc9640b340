"""The dialect of spans that were read by shape: what was found stands under keys of our own, which no sender writes."""

from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import Decoded, decode, first_text
from tracegrade.extract.messages import read_messages
from tracegrade.extract.reading import Dialect, Keys, Message
from tracegrade.extract.shape.words import names_session, words_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

NAME = "tracegrade.shape.name"
CALL_ID = "tracegrade.shape.call_id"
ARGUMENTS = "tracegrade.shape.arguments"
RESULT = "tracegrade.shape.result"
FAILED = "tracegrade.shape.failed"
ERROR = "tracegrade.shape.error"
INPUT = "tracegrade.shape.input"
OUTPUT = "tracegrade.shape.output"

TOOL_KEYS = Keys(
    tool_name=(NAME,),
    call_id=(CALL_ID,),
    arguments=(ARGUMENTS,),
    output=(RESULT,),
    failed=(FAILED,),
    error_message=(ERROR,),
)


def _inputs(span: Span) -> list[Message]:
    return read_messages(span.attributes.get(INPUT))


def _outputs(span: Span) -> list[Message]:
    return read_messages(span.attributes.get(OUTPUT))


def _session(span: Span) -> str:
    return first_text(span, tuple(key for key in span.attributes if names_session(key)))


def _user(span: Span) -> str:
    return first_text(span, tuple(key for key in span.attributes if words_of(key)[-2:] == ("user", "id")))


def _read_output(span: Span, raw: JsonValue) -> Output:
    output = unwrap_output(_without_printed_items(decode(raw)))
    output.is_part = not isinstance(output.result.value, dict | list)
    return output


def _without_printed_items(decoded: Decoded) -> Decoded:
    """A list without the printed form of its items, where all are objects and lists as Python prints them.

    Attributes hold lists of texts and numbers, and no others.
    """
    items = decoded.value
    if not isinstance(items, list) or not all(isinstance(item, str) and item[:1] in ("{", "[") for item in items):
        return decoded
    read = [decode(item) for item in items]
    is_printed = bool(read) and all(item.status == "python_repr" for item in read)
    return Decoded([item.value for item in read], "python_repr") if is_printed else decoded


SHAPE = Dialect(
    name="shape",
    marks=frozenset({NAME, INPUT, OUTPUT}),
    classify=lambda span: None,
    keys=TOOL_KEYS,
    inputs=_inputs,
    outputs=_outputs,
    read_output=_read_output,
    session=_session,
    user=_user,
)
