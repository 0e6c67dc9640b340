import asyncio

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.deliver.sinks.otlp import OtlpSink
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import Answer, ExporterSettings


class Peer:
    """Answers SENT, or what `answer` says."""

    def __init__(self, answer=lambda signal, payload: Answer("sent")):
        self.got = []
        self.closed = False
        self.answer = answer

    async def export(self, signal, payload):
        self.got.append((signal, payload))
        return self.answer(signal, payload)

    async def close(self):
        self.closed = True


def deliver(batch, peer, **settings) -> Delivery:
    to = ExporterSettings.model_validate({"endpoint": "collector:4317", **settings})
    return asyncio.run(OtlpSink("otlp", to, peer).deliver(batch))


def test_carriers_and_events_leave_under_the_judged_roots_resource_in_our_scope(judged):
    peer = Peer()
    assert deliver([judged({}, {"evaluation": "args"})], peer) == DONE
    (traces_signal, traces), (logs_signal, logs) = peer.got
    assert (traces_signal, logs_signal) == (Signal.TRACES, Signal.LOGS)
    [spans_of] = ExportTraceServiceRequest.FromString(traces).resource_spans
    [logs_of] = ExportLogsServiceRequest.FromString(logs).resource_logs
    for resource in (spans_of.resource, logs_of.resource):
        assert [item.key for item in resource.attributes] == ["k8s.pod.name", "service.name", "weights"]
        assert resource.attributes[1].value.string_value == "shop"
        kinds = [value.WhichOneof("value") for value in resource.attributes[2].value.array_value.values]
        assert kinds == ["int_value", "double_value", "bool_value", None, "kvlist_value"]
    [spans], [records] = spans_of.scope_spans, logs_of.scope_logs
    assert spans.scope.name == records.scope.name == "tracegrade"
    assert spans.scope.version
    assert len(spans.spans) == 1
    assert len(records.log_records) == 2


def test_traces_of_one_service_share_a_resource_and_others_have_their_own(judged):
    peer = Peer()
    deliver([judged({}), judged({}), judged({}, resource={"service.name": "bank"}), judged({})], peer, signals=["logs"])
    [(_, payload)] = peer.got
    found = ExportLogsServiceRequest.FromString(payload).resource_logs
    assert [len(part.scope_logs[0].log_records) for part in found] == [2, 1, 1]


def test_delivering_twice_sends_the_same_bytes_twice(judged):
    first, second = Peer(), Peer()
    for peer in (first, second):
        deliver([judged({}, {"outcome": "fail", "score": 0.1}), judged({}, supersedes=1)], peer)
    assert first.got == second.got


def test_only_the_signals_that_the_exporter_takes_are_sent(judged):
    for signals, sent in ((["traces"], [Signal.TRACES]), (["logs", "metrics"], [Signal.LOGS]), (["metrics"], [])):
        peer = Peer()
        assert deliver([judged({})], peer, signals=signals) == DONE
        assert [signal for signal, _ in peer.got] == sent


def test_nothing_judged_is_nothing_sent(judged):
    peer = Peer()
    assert deliver([judged(), judged()], peer) == DONE
    assert peer.got == []


def test_large_batches_are_split_well_below_four_mebibytes(judged):
    peer = Peer()
    batch = [judged(*({"evaluation": f"e{i}", "explanation": "x" * 1000} for i in range(100))) for _ in range(50)]
    assert deliver(batch, peer) == DONE
    assert all(len(payload) < 2 * 1024 * 1024 for _, payload in peer.got)
    logs = [ExportLogsServiceRequest.FromString(payload) for signal, payload in peer.got if signal is Signal.LOGS]
    assert len(logs) > 3
    records = [r for request in logs for part in request.resource_logs for r in part.scope_logs[0].log_records]
    assert len(records) == 50 * 100


def test_an_answer_that_asks_for_a_retry_is_passed_on_with_its_delay(judged):
    peer = Peer(lambda signal, payload: Answer("retry", "http_503", retry_after_s=3.0))
    assert deliver([judged({})], peer) == Delivery("retry", "http_503", 3.0)
    assert len(peer.got) == 1


def test_the_next_attempt_at_a_batch_goes_on_where_the_last_one_ended(judged):
    answers = iter([Answer("sent"), Answer("retry", "busy"), Answer("sent")])
    peer = Peer(lambda signal, payload: next(answers))
    sink = OtlpSink("otlp", ExporterSettings.model_validate({"endpoint": "collector:4317"}), peer)
    batch = [judged({})]
    assert asyncio.run(sink.deliver(batch)).kind == "retry"
    assert asyncio.run(sink.deliver(batch)) == DONE
    assert [signal for signal, _ in peer.got] == [Signal.TRACES, Signal.LOGS, Signal.LOGS]


def test_a_peer_that_refuses_logs_for_good_still_gets_the_carriers(judged):
    def no_logs(signal, payload):
        return Answer("failed", "unimplemented") if signal is Signal.LOGS else Answer("sent")

    peer = Peer(no_logs)
    found = deliver([judged({}), judged({}), judged()], peer)
    assert found == Delivery("done", "logs_unimplemented", failed_records=2)
    assert [signal for signal, _ in peer.got] == [Signal.TRACES, Signal.LOGS]


def test_closing_the_sink_closes_its_client():
    peer = Peer()
    asyncio.run(OtlpSink("otlp", ExporterSettings(endpoint="collector:4317"), peer).close())
    assert peer.closed
