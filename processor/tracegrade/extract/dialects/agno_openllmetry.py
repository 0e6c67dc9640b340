"""Agno through OpenLLMetry: Agno's record of an execution, ``status='success' result=... error=...``, as its result.

A call without arguments has no input. Source: opentelemetry-instrumentation-agno 0.62.4; agno 3.1.10, tools/function.py
"""

from tracegrade import semconv as s
from tracegrade.extract.decode.unwrap import Output, unwrap_output
from tracegrade.extract.decode.values import Decoded, decode
from tracegrade.extract.dialects import openllmetry
from tracegrade.extract.reading import Dialect, SpanKind
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Span

_SCOPE = "opentelemetry.instrumentation.agno"
_STATUS = "status='"
_RESULT = " result="
_ERROR = " error="
_NO_RESULT = "None"
# The members after the error, in every release.
_NEXT = " updated_session_state="


def _classify(span: Span) -> SpanKind | None:
    return openllmetry.DIALECT.classify(span) if span.scope == _SCOPE else None


def _read_output(span: Span, raw: JsonValue) -> Output:
    """The result, or the message of a failure; as it came where it is no record."""
    record = raw if isinstance(raw, str) else ""
    status, _, rest = record.removeprefix(_STATUS).partition(f"'{_RESULT}")
    if not rest or not record.startswith(_STATUS):
        return unwrap_output(decode(raw))
    if status == "failure":
        result, _, rest = rest.partition(_ERROR)
        message = decode(rest.rpartition(_NEXT)[0] or rest)
        return Output(message if result == _NO_RESULT else decode(result), failed=True)
    result = (rest.rpartition(_NEXT)[0] or rest).rpartition(_ERROR)[0]
    return Output(Decoded(None, "ok") if result == _NO_RESULT else decode(result))


def _arguments(span: Span) -> JsonValue:
    attributes = span.attributes
    has_content = s.TRACELOOP_OUTPUT in attributes and not span.dropped_attributes_count
    return {} if has_content and s.TRACELOOP_INPUT not in attributes else None


DIALECT: Dialect = openllmetry.DIALECT._replace(
    name="agno_openllmetry",
    marks=frozenset({s.TRACELOOP_KIND}),
    classify=_classify,
    read_output=_read_output,
    arguments=_arguments,
)
