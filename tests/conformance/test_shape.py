"""Captures of real frameworks with the keys of their attributes renamed, so that no dialect knows them."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

from google.protobuf.internal.encoder import _VarintBytes
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from build import each
from build.redaction import redacted
from conformance.test_not_decoded import captures, judged
from pipeline.test_not_decoded import seen_of
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.span_reader import json_value
from tracegrade.codec.whole_results import whole_result
from tracegrade.extract.extract import extract
from tracegrade.model.extraction import Extraction
from tracegrade.model.signal import Signal
from tracegrade.model.span import Span
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.trace import SPAN_ORDER, Trace
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.pipeline.record_judge import attribute_filter_for
from tracegrade.pipeline.whole_traces import records_of
from tracegrade.rule.rule_set import RuleSet

Rename = Callable[[str], str]
Change = Callable[[Any], None]

__all__ = ["captures"]  # the fixture


def _word(text: str) -> str:
    """A word that says nothing, always the same for a text."""
    return "w" + "".join(chr(97 + byte % 26) for byte in blake2b(text.encode(), digest_size=5).digest())


def with_other_first_words(key: str) -> str:
    """A key under another prefix: ``gen_ai.tool.name`` to ``wabcde.tool.name``."""
    first, dot, rest = key.partition(".")
    return f"{_word(first)}.{rest}" if dot and first not in ("input", "output", "tool") else f"acme.{key}"


def _renamed(
    files: list[Path], rename: Rename, *, by_shape: bool, change: Change = lambda item: None
) -> list[Extraction]:
    settings = TracesSettings(read_by_shape=by_shape)
    decoder = Decoder(attribute_filter_for(RuleSet([]), settings))
    spans: dict[bytes, dict[bytes, Span]] = {}
    records = []
    for record in records_of(read_sources([str(f) for f in files], SourceReport())):
        if record.signal == Signal.TRACES:
            for span in decoder.spans(_with_other_keys(record.payload, ExportTraceServiceRequest(), rename, change)):
                spans.setdefault(span.trace_id, {})[span.span_id] = span
        else:
            records += decoder.log_records(_with_other_keys(record.payload, ExportLogsServiceRequest(), rename, change))
    return [
        extract(
            Trace(
                trace_id,
                "",
                sorted(of_trace.values(), key=SPAN_ORDER),
                "end_of_input",
                [],
                len(of_trace),
                log_records=[record for record in records if record.trace_id == trace_id],
            )
        )
        for trace_id, of_trace in spans.items()
    ]


def _with_other_keys(payload: bytes, request: Any, rename: Rename, change: Change = lambda item: None) -> bytes:
    request.ParseFromString(payload)
    for item in _items(request):
        for attribute in item.attributes:
            attribute.key = rename(attribute.key)
        for event in getattr(item, "events", ()):
            if event.name != "exception":
                event.name = rename(event.name)
                for attribute in event.attributes:
                    attribute.key = rename(attribute.key) if "." in attribute.key else attribute.key
        change(item)
    data: bytes = request.SerializeToString()
    return data


def _in_event(item: Any) -> None:
    """Move what is JSON or long from the attributes of a span into an event of no known name."""
    moved = [a for a in item.attributes if a.value.string_value[:1] in ("{", "[") or len(a.value.string_value) > 40]
    if moved and hasattr(item, "events"):
        kept = [attribute for attribute in item.attributes if attribute not in moved]
        del item.attributes[:]
        item.attributes.extend(kept)
        item.events.add(name="acme.content", time_unix_nano=item.start_time_unix_nano).attributes.extend(moved)


def _in_one_text(item: Any) -> None:
    """Make one attribute of all of a span, whose value is JSON."""
    values = {attribute.key: json_value(attribute.value) for attribute in item.attributes}
    if values and hasattr(item, "events"):
        del item.attributes[:]
        item.attributes.add(key="acme.data").value.string_value = json.dumps(values)


def _nested(item: Any) -> None:
    """Make one attribute of all those of a span whose keys have the same first word; its value is JSON."""
    if not hasattr(item, "events"):
        return
    values: dict[str, Any] = {}
    for attribute in item.attributes:
        *outer, last = attribute.key.split(".")
        value = json_value(attribute.value)
        within = values
        for part in outer:
            within = within.setdefault(part, {})
            if not isinstance(within, dict):
                break
        else:
            within.setdefault(last, json.loads(value) if _is_json(value) else value)
    del item.attributes[:]
    for key, value in values.items():
        text = value if isinstance(value, str) else json.dumps(value)
        item.attributes.add(key=key).value.string_value = text


def _is_json(value: object) -> bool:
    try:
        return isinstance(value, str) and isinstance(json.loads(value), dict | list)
    except ValueError:
        return False


def _items(request: Any) -> Iterator[Any]:
    if isinstance(request, ExportTraceServiceRequest):
        return (span for each in request.resource_spans for scope in each.scope_spans for span in scope.spans)
    return (record for each in request.resource_logs for scope in each.scope_logs for record in scope.log_records)


def _calls(extractions: list[Extraction]) -> list[ToolCall]:
    return list(chain.from_iterable(extraction.calls for extraction in extractions))


def _names(calls: list[ToolCall]) -> Counter[str]:
    return Counter(call.name for call in calls)


def _arguments(calls: list[ToolCall]) -> Counter[tuple[str, str]]:
    return Counter(
        (call.name, json.dumps(call.arguments, sort_keys=True))
        for call in calls
        if call.arguments_status in ("ok", "python_repr")
    )


def test_captures_with_other_first_words_are_read_by_shape(captures: list[list[Path]]) -> None:
    read = found = 0
    for files in captures:
        by_dialect = _calls(_renamed(files, str, by_shape=False))
        by_shape = _calls(_renamed(files, with_other_first_words, by_shape=True))
        read += len(by_dialect)
        found += len(by_shape)
        assert not _names(by_shape) - _names(by_dialect), files
        assert not _arguments(by_shape) - _arguments(by_dialect), files
        assert not _calls(_renamed(files, with_other_first_words, by_shape=False)) or "haystack" in str(files)
    assert found >= 0.9 * read, (found, read)


@each("rename", [str, with_other_first_words])
@each(("change", "share"), [(_in_event, 0.9), (_in_one_text, 0.9), (_nested, 0.8)])
def test_captures_of_another_form_are_read_by_shape(
    captures: list[list[Path]], rename: Rename, change: Change, share: float
) -> None:
    read = found = 0
    for files in captures:
        by_dialect = _calls(_renamed(files, str, by_shape=False))
        by_shape = _calls(_renamed(files, rename, by_shape=True, change=change))
        read += len(by_dialect)
        found += sum((Counter(map(_values, by_shape)) & Counter(map(_values, by_dialect))).values())
        assert not _names(by_shape) - _names(by_dialect), files
    assert found >= share * read, (found, read)


def _values(call: ToolCall) -> tuple[str, str, str, bool]:
    """Name, arguments, result and whether it failed."""
    return call.name, json.dumps(call.arguments), json.dumps(call.output), call.error is not None


def test_captures_with_other_keys_give_no_wrong_call(captures: list[list[Path]]) -> None:
    for files in captures:
        by_dialect = _calls(_renamed(files, str, by_shape=False))
        by_shape = _calls(_renamed(files, lambda key: f"{_word(key)}.{_word(key + key)}", by_shape=True))
        assert not _names(by_shape) - _names(by_dialect), files
        assert not _arguments(by_shape) - _arguments(by_dialect), files


def test_captures_are_read_as_without_reading_by_shape(captures: list[list[Path]]) -> None:
    for files in captures:
        without, by_shape = (_renamed(files, str, by_shape=switch) for switch in (False, True))
        assert [(each.runs, each.calls, each.unread) for each in by_shape] == [
            (each.runs, each.calls, each.unread) for each in without
        ], files


def test_captures_that_are_read_by_shape_are_read_as_if_they_had_been_decoded(
    captures: list[list[Path]], tmp_path: Path
) -> None:
    calls = 0
    for place, files in enumerate(captures[::6]):
        renamed = [_rewritten(file, tmp_path / f"{place}.{file.name}", with_other_first_words) for file in files]
        lazy = judged(renamed, service="no such service")
        assert [seen_of(result) for result in lazy] == [
            seen_of(result) for result in judged(renamed, service="no such service", decodes_all=True)
        ], files
        for result in lazy:
            for name in {call.name for call in whole_result(result.packed, result.spans).tool_calls}:
                calls += 1
                asked = {other.trace.trace_id: other for other in judged(renamed, tools=name)}
                assert asked[result.trace.trace_id].trace.not_decoded is None, (files, name)
    assert calls > 20


REDACTIONS: list[dict[str, Any]] = [
    {"places": [{"arguments": "*", "action": "drop"}]},
    {"places": [{"outputs": "*", "action": "drop"}]},
    {"default": "allow_listed"},
]


@each("settings", REDACTIONS)
def test_captures_that_are_read_by_shape_are_redacted_by_the_same_words(
    captures: list[list[Path]], tmp_path: Path, settings: dict[str, Any]
) -> None:
    for place, files in enumerate(captures[::4]):
        renamed = [_rewritten(file, tmp_path / f"{place}.{file.name}", with_other_first_words) for file in files]
        usual = _calls(_renamed(renamed, str, by_shape=True))
        left = [_rewritten(file, tmp_path / f"{place}.left.{file.name}", str, settings) for file in renamed]
        found = _calls(_renamed(left, str, by_shape=True))
        assert [(call.name, call.call_id) for call in found] == [(call.name, call.call_id) for call in usual], files
        for call in found:
            if "default" in settings or "arguments" in settings["places"][0]:
                assert call.arguments in (None, {}) or call.arguments_status in ("redacted", "truncated"), call
            else:
                assert call.output in (None, "") or call.output_status in ("redacted", "truncated"), call


def _rewritten(file: Path, to: Path, rename: Rename, settings: dict[str, Any] | None = None) -> Path:
    """The requests of a file with other keys, redacted by `settings`, in another file of the same form."""
    with to.open("wb") as written:
        for record in records_of(read_sources([str(file)], SourceReport())):
            is_spans = record.signal == Signal.TRACES
            request = ExportTraceServiceRequest() if is_spans else ExportLogsServiceRequest()
            data = _with_other_keys(record.payload, request, rename)
            if settings is not None:
                data = redacted(request, record.signal, detectors=[], **settings).SerializeToString()
            written.write(_VarintBytes(len(data)) + data)
    return to
