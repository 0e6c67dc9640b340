"""The traces in files, without judging them."""

from collections.abc import Collection, Iterable, Iterator

from tracegrade.assemble.bounds import WholeFiles
from tracegrade.assemble.closed_traces import ClosedTraces
from tracegrade.assemble.decode import Decoder
from tracegrade.assemble.live_traces import LiveTraces
from tracegrade.codec.span_reader import AttributeFilter
from tracegrade.extract.registry import in_force
from tracegrade.journal.record import Encoding, Record
from tracegrade.model.signal import Signal
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.model.trace import Trace
from tracegrade.otlp.files.source_request import SourceRequest
from tracegrade.receive.validate import check
from tracegrade.semconv import ALWAYS_READ


def read_traces(
    requests: Iterable[SourceRequest], attributes: Collection[str] = ALWAYS_READ, tenant: str = DEFAULT_TENANT
) -> list[Trace]:
    """The whole traces in files as those of `tenant`, in order of their first appearance.

    Kept of their spans are what dialects read, and `attributes`: those of a `RuleSet`.
    """
    decoder = Decoder(AttributeFilter.of(in_force(), frozenset(attributes), by_shape=True))
    live = LiveTraces(WholeFiles(), ClosedTraces(), "")
    for record in records_of(requests, tenant):
        if record.signal == Signal.TRACES:
            live.add(decoder.spans(record.payload), record.tenant, 0, record.position, record.end)
        elif record.signal == Signal.LOGS:
            live.add_log_records(decoder.log_records(record.payload), record.tenant, 0, record.position, record.end)
    return list(live.close_all())


def records_of(requests: Iterable[SourceRequest], tenant: str = DEFAULT_TENANT) -> Iterator[Record]:
    """Requests from files as records of this tenant, checked as a receiver checks them."""
    for number, request in enumerate(requests):
        checked = check(request.signal, Encoding.PROTOBUF, request.payload)
        yield Record(number, number + 1, 0, tenant, request.signal, Encoding.PROTOBUF, checked.items, checked.payload)
