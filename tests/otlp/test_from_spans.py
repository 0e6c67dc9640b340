from pathlib import Path

from build import each
from tracegrade.model.log_record import LogRecord
from tracegrade.model.span import Resource, Span, SpanEvent
from tracegrade.otlp.files.report import SourceReport
from tracegrade.otlp.files.sources import read_sources
from tracegrade.otlp.from_spans import logs_request, trace_request
from tracegrade.otlp.json import to_json
from tracegrade.pipeline.whole_traces import read_traces
from tracegrade.rule.load import builtin_rules

ROOT = builtin_rules()
# One of each theme: both dialects, errors, definitions, texts of all kinds.
TRACES = [next(folder.rglob("*.json")) for folder in sorted(ROOT.iterdir()) if folder.is_dir()]


def read(tmp_path: Path, *documents: object) -> tuple[list[Span], list[LogRecord]]:
    import orjson

    path = tmp_path / "requests.jsonl"
    path.write_bytes(b"\n".join(orjson.dumps(document) for document in documents))
    (trace,) = read_traces(read_sources([str(path)], SourceReport()))
    return trace.spans, trace.log_records


@each("path", TRACES, ids=lambda path: path.parents[1].name)
def test_what_was_kept_is_read_again_as_it_was(path: Path, tmp_path: Path) -> None:
    (trace,) = read_traces(read_sources([str(path)], SourceReport()))
    found, _ = read(tmp_path, to_json(trace_request(trace.spans)))
    assert found == trace.spans


def span(number: int, resource: Resource, scope: str = "s", **attributes: object) -> Span:
    known = {"gen_ai.operation.name": "execute_tool", **attributes}
    trace_id, span_id = bytes(15) + b"\1", number.to_bytes(8, "big")
    return Span(trace_id, span_id, b"", "x", 1, number, number + 1, 768, 2, "no", known, [], 3, scope, resource)  # type: ignore[arg-type]


def test_resources_and_scopes_come_once() -> None:
    shop, bank = Resource({"service.name": "shop"}), Resource({"service.name": "bank"})
    spans = [span(1, shop), span(2, bank), span(3, shop, "t"), span(4, shop)]
    request = trace_request(spans)
    assert [[len(scope.spans) for scope in of.scope_spans] for of in request.resource_spans] == [[2, 1], [1]]


def test_log_records_are_read_again_as_they_were(tmp_path: Path) -> None:
    kept = span(1, Resource({"service.name": "shop"}))
    content = {"gen_ai.input.messages": [{"role": "user", "parts": []}], "n": 3, "f": 1.5, "ok": True}
    record = LogRecord(
        kept.trace_id, kept.span_id, "s", SpanEvent("gen_ai.client.inference.operation.details", 5, content)
    )
    moved = LogRecord(kept.trace_id, kept.span_id, "aws", SpanEvent("aws", 6, {"input": {"messages": []}}))
    spans, records = read(tmp_path, to_json(trace_request([kept])), to_json(logs_request([record, moved])))
    assert spans == [kept]
    assert records == [record, moved]
