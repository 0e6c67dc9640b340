"""The traces in files, without judging them."""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from tracegrade.assemble.settings import TracesSettings


def read_traces(
    requests: Iterable[SourceRequest],
    attributes: Collection[str] = ALWAYS_READ,
    tenant: str = DEFAULT_TENANT,
    settings: "TracesSettings | None" = None,
) -> list[Trace]:
    """The whole traces in files as those of `tenant`, in order of their first appearance.

    Kept of their spans are what dialects read, and `attributes`: those of a `RuleSet`. Of `settings`, ``read_by_shape``
    and ``ignore_scopes`` hold.
    """
    by_shape = settings is None or settings.read_by_shape
    ignored = frozenset[str]() if settings is None else frozenset(settings.ignore_scopes)
    decoder = Decoder(AttributeFilter.of(in_force(), frozenset(attributes), by_shape=by_shape))
    live = LiveTraces(WholeFiles(), ClosedTraces(), "")
    for record in records_of(requests, tenant):
        if record.signal == Signal.TRACES:
            spans = [span for span in decoder.spans(record.payload) if span.scope not in ignored]
            live.add(spans, record.tenant, 0, record.position, record.end)
        elif record.signal == Signal.LOGS:
            logs = [log for log in decoder.log_records(record.payload) if log.scope not in ignored]
            live.add_log_records(logs, record.tenant, 0, record.position, record.end)
    return list(live.close_all())


def records_of(requests: Iterable[SourceRequest], tenant: str = DEFAULT_TENANT) -> Iterator[Record]:
    """Requests from files as records of this tenant, checked as a receiver checks them."""
    for number, request in enumerate(requests):
        checked = check(request.signal, Encoding.PROTOBUF, request.payload)
        yield Record(number, number + 1, 0, tenant, request.signal, Encoding.PROTOBUF, checked.items, checked.payload)
