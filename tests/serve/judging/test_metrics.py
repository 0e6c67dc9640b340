from pathlib import Path

from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

import build
from build.otlp import log_payload
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.settings import TracesSettings
from tracegrade.build import build_version
from tracegrade.extract.extract import extract
from tracegrade.journal.record import Encoding, Record
from tracegrade.judge import Judgement
from tracegrade.model.extraction import Extraction
from tracegrade.model.signal import Signal
from tracegrade.model.span import Resource, Span
from tracegrade.model.trace import Trace
from tracegrade.model.trace_result import NotDecoded
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.judged import JudgedTrace
from tracegrade.pipeline.record_judge import RecordJudge
from tracegrade.pipeline.version import tracegrade_version
from tracegrade.rule.rule_set import RuleSet
from tracegrade.serve.judging.metrics import JudgeMetrics


def test_the_next_judge_goes_on_with_what_is_wrong_but_counts_its_series_anew(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path)
    first = JudgeMetrics(folder, max_series=7)
    assert first.telemetry.max_series == 7
    first.telemetry.conditions.begin("rules_refused", "rule.yaml:3: no evaluator 'x'")
    first.telemetry.conditions.begin("too_many_series", "there is room for 7 series")
    first.write_snapshot()
    second = JudgeMetrics(folder)
    assert second.telemetry.conditions.holds("rules_refused")
    assert not second.telemetry.conditions.holds("too_many_series")


def test_the_judge_says_which_version_it_is(tmp_path: Path) -> None:
    metrics = JudgeMetrics(DataFolder(tmp_path))
    assert metrics.telemetry.value("tracegrade.build_info", version=tracegrade_version(), build=build_version()) == 1


def test_traces_that_are_not_decoded_are_counted_with_their_spans_by_reason(tmp_path: Path) -> None:
    metrics = JudgeMetrics(DataFolder(tmp_path))
    judged = [
        _not_decoded(1, "not_matched", spans=2),
        _not_decoded(2, "sampled_out", spans=1),
        _not_decoded(3, "not_matched", spans=3),
    ]
    metrics.count_closed(judged)
    value = metrics.telemetry.value
    assert value("tracegrade.traces.not_decoded", reason="not_matched") == 2
    assert value("tracegrade.spans.not_decoded", reason="not_matched") == 5
    assert value("tracegrade.traces.not_decoded", reason="sampled_out") == 1
    assert value("tracegrade.spans.not_decoded", reason="sampled_out") == 1
    assert value("tracegrade.traces.closed", close_reason="settled", complete="true") == 3


def test_spans_of_models_that_could_not_be_read_are_counted_by_reason(tmp_path: Path) -> None:
    metrics = JudgeMetrics(DataFolder(tmp_path))
    trace = build.trace(
        [
            {"id": 1, "attributes": {"gen_ai.operation.name": "execute_tool"}},
            {
                "id": 2,
                "attributes": {"gen_ai.operation.name": "chat", "gen_ai.output.messages": '[{"acme": 1}]'},
            },
        ]
    )
    metrics.count_closed([JudgedTrace(1, trace, Judgement(extract(trace)))])
    place = {"service": trace.resource.service, "scope": trace.spans[0].scope}
    value, reason = metrics.telemetry.value, "messages not readable"
    assert value("tracegrade.extract.unread_model_spans", **place, reason=reason) == 1
    assert value("tracegrade.extract.unread_tool_spans", **place) == 1


def test_log_records_of_tool_calls_that_name_no_span_are_counted_by_sender_and_reason(tmp_path: Path) -> None:
    metrics, judge = JudgeMetrics(DataFolder(tmp_path)), RecordJudge(TracesSettings(), RuleSet([]), ClosedTraces())
    payload = log_payload([LogRecord(event_name="acme.tool_call")], "lib")
    list(judge.read(Record(0, 1, 0, "default", Signal.LOGS, Encoding.PROTOBUF, 1, payload)))
    for _ in range(2):
        metrics.publish(judge)
    of_sender = {"service": "", "scope": "lib", "reason": "no trace id"}
    assert metrics.telemetry.value("tracegrade.extract.unread_log_records", **of_sender) == 1


def _not_decoded(number: int, reason: str, *, spans: int) -> JudgedTrace:
    trace_id = number.to_bytes(16, "big")
    several = [
        Span(trace_id, place.to_bytes(8, "big"), b"", "", 0, 0, 1, 0, 0, "", {}, [], 0, "", Resource({}))
        for place in range(1, spans + 1)
    ]
    trace = Trace(trace_id, "default", several, "settled", [], spans)
    return JudgedTrace(number, trace, Judgement(Extraction(trace, [], []), not_decoded=NotDecoded(reason)))
