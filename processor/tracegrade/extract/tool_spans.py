"""Reads one tool span: name, id, arguments, result and error, from the attributes that hold them best."""

from collections.abc import Sequence

from tracegrade import semconv as s
from tracegrade.extract import moved_content
from tracegrade.extract.decode.unwrap import (
    Output,
    callback_input,
    callback_text,
    name_lone_argument,
    properties,
    unwrap_arguments,
)
from tracegrade.extract.decode.values import ABSENT, Decoded, call_id, decode, first_text
from tracegrade.extract.nodes import Node
from tracegrade.extract.reading import Keys
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import KIND_SERVER, STATUS_ERROR, Span
from tracegrade.model.tool_call import ReadFrom, ToolError

_TRACEBACK = "Traceback (most recent call last):"
# Where the conventions and the AI SDK write what a tool returned.
_RETURNED = (s.TOOL_CALL_RESULT, s.AI_TOOL_RESULT)
_ENVELOPE_MARKS = frozenset({"args", "kwargs", "sanitize_inputs_outputs", "tool_name", "options"})
_FAILED_WORDS = frozenset({"error", "failed", "failure", "true"})
_NO_ERROR = ToolError("", "")
_NO_ARGUMENTS = frozenset({"null", "None", "undefined", "[]", '""'})


class Execution:
    """One execution of a tool as its spans show it; `pairing` merges further spans of the same call into it."""

    __slots__ = (
        "also",
        "arguments",
        "call_id",
        "error",
        "error_end_ns",
        "is_opened",
        "is_part",
        "name",
        "node",
        "output",
        "own_error",
        "parameters",
        "raw_arguments",
        "raw_name",
        "read_from",
        "refused_before",
    )

    def __init__(self, node: Node, name: str) -> None:
        self.node = node
        self.raw_name = name
        self.name = name
        self.call_id: str | None = None
        self.arguments: Decoded = ABSENT
        self.raw_arguments: JsonValue = None
        self.is_opened = False  # the arguments are not what stands there, as far as this span alone tells
        self.parameters: dict[str, JsonValue] | None = None
        self.output: Decoded = ABSENT
        self.is_part = False  # the output may be the first of several texts
        self.error: ToolError | None = None
        self.own_error: ToolError | None = None  # without what other spans of the call say
        self.error_end_ns = 0  # of the absorbed span that says the error
        self.read_from: ReadFrom = "span"
        self.also: list[Node] = []
        self.refused_before = 0  # earlier attempts at this call, refused before the tool ran

    @property
    def is_refused(self) -> bool:
        """Whether the arguments were not valid, so that the tool never ran."""
        return self.node.dialect.is_refused(self.node.span)

    def absorb(self, other: "Execution") -> None:
        """Take over what a further span of the same call shows and this one does not."""
        self.also += (other.node, *other.also)
        self.call_id = self.call_id or other.call_id
        self.parameters = self.parameters or other.parameters
        if not self.arguments.is_readable and other.arguments.status != "absent":
            self.arguments, self.raw_arguments = other.arguments, other.raw_arguments
            self.is_opened = other.is_opened
        if self.output.status in ("absent", "redacted", "truncated") and other.output.status != "absent":
            self.output = other.output
        # Of several tries inside one call the last one counts; of spans inside one another any.
        span = other.node.span
        if self.own_error is None and (self.error is None or self.error_end_ns <= span.start_ns):
            self.error = other.error
            self.error_end_ns = span.end_ns

    def open_arguments(self, raw: JsonValue) -> None:
        """Take these arguments, without their envelope."""
        self.arguments, self.raw_arguments, self.is_opened = read_arguments(raw, self.parameters), raw, True

    @property
    def is_mcp(self) -> bool:
        """Whether the span is an MCP client's or server's."""
        attributes = self.node.span.attributes
        return s.MCP_METHOD in attributes or attributes.get(s.SPRING_KIND) == s.SPRING_MCP_SERVER

    @property
    def request_id(self) -> str | int | float | None:
        """The id of the MCP request that the span is of, in its connection; a client's and its server's are equal."""
        value = self.node.span.attributes.get(s.JSONRPC_REQUEST_ID)
        return value if isinstance(value, str | int | float) else None

    @property
    def is_mcp_server(self) -> bool:
        """Whether the span is an MCP server's: the other side of a call that an agent made elsewhere."""
        span = self.node.span
        if span.kind == KIND_SERVER:
            return self.is_mcp
        return span.attributes.get(s.SPRING_KIND) == s.SPRING_MCP_SERVER


def read_execution(node: Node, known_name: str = "") -> Execution | None:
    """Read a tool span; None when it does not name its tool and `known_name` does not either."""
    span, dialect, keys = node.span, node.dialect, node.keys
    name = first_text(span, keys.tool_name) or dialect.tool_name(span) or known_name
    if not name:
        return None
    execution = Execution(node, name)
    execution.call_id = call_id_of(node)
    if not dialect.is_hidden(span):
        _read_values(execution, keys)
    if name[0] == "{":
        _read_json_name(execution, name)
    elif ">" in name:
        execution.name = name.rpartition("<locals>.")[2] or name  # a function's path in Python
    execution.error = execution.own_error = _error(execution, keys) or execution.error or dialect.failure(span)
    return execution


def call_id_of(node: Node) -> str | None:
    """The id of the call that a tool span is of, None when it has none."""
    attributes = node.span.attributes
    for key in node.keys.call_id:
        if key in attributes and (found := call_id(attributes[key])) is not None:
            return found
    return node.dialect.call_id(node.span) or None


def read_outcomes(executions: Sequence[Execution], saying: Sequence[Node]) -> None:
    """Give executions without an error of their own the one that a span directly below them says.

    Args:
        executions: all of the trace.
        saying: the nodes that may say it: outcomes, then agents.
    """
    below = [node for node in saying if node.parent is not None and node.parent.kind == "tool"]
    if not below:
        return
    by_node = {execution.node: execution for execution in executions}
    for node in below:
        execution = by_node.get(node.parent) if node.parent is not None else None
        if execution is not None and execution.error is None:
            execution.error = execution.own_error = node.dialect.failure(node.span)


def drop_carried_errors(executions: Sequence[Execution]) -> None:
    """Take back errors of calls that returned, where all there is of them is the status of a call that ended before.

    Once a span has failed, a processor of the AI SDK's spans marks all that end later as failed, with the same message.
    What failed itself has an exception or an error type, or has not returned.
    """
    failed = [execution for execution in executions if execution.own_error is not None]
    if len(failed) < 2:
        return
    raised: dict[tuple[str, str], int] = {}  # when it first ended, by scope and message
    for execution in failed:
        if (error := execution.own_error) is not None and error.type:
            said, end = (execution.node.span.scope, error.message), execution.node.span.end_ns
            raised[said] = min(end, raised.get(said, end))
    for execution in failed:
        error, span = execution.own_error, execution.node.span
        if error is None or error.type or span.end_ns < raised.get((span.scope, error.message), span.end_ns + 1):
            continue
        if any(key in span.attributes for key in _RETURNED):
            execution.error = execution.own_error = None


def _read_values(execution: Execution, keys: Keys) -> None:
    node = execution.node
    span, dialect = node.span, node.dialect
    attributes = span.attributes
    for key in keys.arguments:
        if key in attributes:
            if (raw := attributes[key]) is None:
                raw = _unset(span)
            _offer_arguments(execution, raw, key, keys)
            if execution.arguments.is_readable:
                break
    output: Output | None = None
    for key in keys.output:
        if key in attributes:
            if (raw := attributes[key]) is None:
                raw = _unset(span)
            found = dialect.read_output(span, raw)
            if (
                output is None
                or found.result.is_readable
                or output.result.status in ("absent", "redacted", "truncated")
            ):
                output = found
            if found.result.is_readable:
                break
    if output is None and (raw := dialect.output(span)) is not None:
        output = dialect.read_output(span, raw)
    if span.events and (output is None or not execution.arguments.is_readable):
        events = dialect.tool_events(span)
        if events.arguments is None and events.output is None:
            events = moved_content.tool_events(span)
        if events.arguments is not None and not execution.arguments.is_readable:
            execution.open_arguments(events.arguments)
            execution.read_from = "event"
        if events.output is not None and (output is None or not output.result.is_readable):
            output = dialect.read_output(span, events.output)
            execution.read_from = "event"
    if not execution.arguments.is_readable and (raw := dialect.arguments(span)) is not None:
        _offer_arguments(execution, raw, "", keys)
    if output is not None:
        execution.output, execution.is_part = output.result, output.is_part
        execution.call_id = execution.call_id or output.call_id
        if output.failed or output.error is not None:
            execution.error = output.said_error()


def _unset(span: Span) -> JsonValue:
    """What an attribute says of which no value is set: OpenTelemetry for Java makes that of an empty text."""
    return "" if span.resource.sdk_language == "java" else None


def _offer_arguments(execution: Execution, raw: JsonValue, key: str, keys: Keys) -> None:
    """Take what `key` holds when it is an object, or when nothing was found so far."""
    attributes = execution.node.span.attributes
    decoded = decode(raw)
    value = decoded.value
    if type(value) is dict and _ENVELOPE_MARKS.isdisjoint(value) and key not in keys.schema:
        execution.arguments, execution.raw_arguments, execution.is_opened = decoded, raw, False  # nearly all calls
        return
    # A key that may also hold the schema (tool.parameters) is no arguments where it does.
    if key in keys.schema and properties(value) is not None:
        return
    if execution.parameters is None:
        execution.parameters = _own_parameters(attributes, keys)
    # A tool's own only argument may look the same elsewhere.
    if key == s.TRACELOOP_INPUT and (text := callback_text(value)) is not None:
        raw, decoded = text, decode(text)
    decoded = read_arguments(raw, execution.parameters, decoded)
    is_object = isinstance(decoded.value, dict) and decoded.is_readable
    if is_object or execution.arguments.status in ("absent", "redacted"):
        execution.arguments, execution.raw_arguments, execution.is_opened = decoded, raw, True


def _own_parameters(attributes: dict[str, JsonValue], keys: Keys) -> dict[str, JsonValue] | None:
    schemas = (properties(decode(attributes[key]).value) for key in keys.schema if key in attributes)
    return next((schema for schema in schemas if schema is not None), None)


def read_arguments(raw: JsonValue, parameters: dict[str, JsonValue] | None, decoded: Decoded | None = None) -> Decoded:
    """Arguments without their envelope: an object, or (status text, if it was readable at all) what else there is.

    `decoded` is what `decode` gives for them, if that is known.
    """
    if raw == "":
        return Decoded({}, "repaired")  # how some models call a tool that takes nothing
    is_none = raw in _NO_ARGUMENTS if type(raw) is str else raw == []
    if is_none:  # and how some senders write that
        name = _only_text(parameters) if type(raw) is str else None
        return Decoded({} if name is None else {name: raw}, "repaired")
    decoded = decoded or decode(raw)
    inner = callback_input(decoded.value)
    if inner is not None:
        raw, decoded = inner, decode(inner)
    decoded = unwrap_arguments(decoded, parameters)
    if isinstance(decoded.value, dict) or decoded.status in ("absent", "redacted", "truncated"):
        return decoded  # an object, of status text where its arguments have no names
    named = name_lone_argument(raw, decoded, parameters)
    return named if isinstance(named.value, dict) else Decoded(decoded.value, "text")


def _only_text(parameters: dict[str, JsonValue] | None) -> str | None:
    """The only parameter of a tool, if it is a text: then it may be what looks like none; else None."""
    if parameters is None or len(parameters) != 1:
        return None
    ((name, schema),) = parameters.items()
    return name if isinstance(schema, dict) and schema.get("type") == "string" else None


def _read_json_name(execution: Execution, raw_name: str) -> None:
    """Some models write the whole call as JSON into the name."""
    value = decode(raw_name).value
    if not isinstance(value, dict) or not isinstance(name := value.get("name"), str) or not name:
        return
    execution.name = name
    inner = value.get("arguments", value.get("parameters"))
    if not execution.arguments.value and inner is not None:
        execution.arguments = read_arguments(inner, execution.parameters)


def _error(execution: Execution, keys: Keys) -> ToolError | None:
    """The error that the span records; a status of OK does not prove success, so any sign of failure counts."""
    span = execution.node.span
    attributes = span.attributes
    kind = attributes.get(s.ERROR_TYPE)
    marked = kind is not None and kind != ""  # some senders write the attribute on every call
    for key in keys.failed:
        if key in attributes and _says_failed(attributes[key]):
            marked = True
    if not marked and span.status_code != STATUS_ERROR and not span.events:
        return None  # nearly all calls
    raised = None
    for event in span.events:
        if event.name == s.EXCEPTION_EVENT:
            raised = event
    if span.status_code != STATUS_ERROR and raised is None and not marked:
        return None
    message = first_text(span, keys.error_message) or span.status_message
    exception = ""
    if raised is not None:
        exception = _text_of(raised.attributes.get(s.EXCEPTION_TYPE))
        message = _text_of(raised.attributes.get(s.EXCEPTION_MESSAGE)) or message
    reported = execution.error or _NO_ERROR  # by the result, or beside it
    return ToolError(exception or _text_of(kind) or reported.type, _without_traceback(message or reported.message))


def _without_traceback(message: str) -> str:
    """What went wrong, of a message that holds where it went wrong as well (LangChain's tracers)."""
    head, found, traceback = message.partition(_TRACEBACK)
    if not found:
        return message
    return head.strip() or traceback.rstrip().rpartition("\n")[2].strip()


def _says_failed(value: JsonValue) -> bool:
    return value is True or (isinstance(value, str) and value.lower() in _FAILED_WORDS)


def _text_of(value: JsonValue) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)
