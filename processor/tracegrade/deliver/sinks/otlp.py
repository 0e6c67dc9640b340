"""Results to an OTLP exporter: carrier spans as traces, evaluation events as logs."""

from collections.abc import Iterator, Sequence

from tracegrade.deliver.carriers import carriers
from tracegrade.deliver.events import events
from tracegrade.deliver.record import JudgedTrace
from tracegrade.deliver.results import groups, resource
from tracegrade.deliver.sink import DONE, Delivery
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import ExporterSettings, OtlpClient
from tracegrade.otlp.encode import Item, Request, requests


class OtlpSink:
    """Sends what was judged to one exporter, by a client of its own; only the signals that the exporter takes.

    The requests are small and derived from the records alone: sending a batch twice sends the same bytes twice.
    """

    def __init__(self, name: str, settings: ExporterSettings, client: OtlpClient, include_values: bool = False) -> None:
        """Prepare.

        Args:
            name: of the sink, such as ``otlp/archive``: a metric label.
            settings: the exporter's.
            client: used by this sink alone, and closed by it.
            include_values: send the evaluators' details, which hold values of the trace, and errors in full.
        """
        self.name = name
        self._settings = settings
        self._client = client
        self._include_values = include_values

    async def deliver(self, batch: Sequence[JudgedTrace]) -> Delivery:
        """Send the batch's carriers, then its events; the first answer that asks for a retry ends the attempt."""
        failed: set[int] = set()
        reason = ""
        for signal, request in self._requests(batch):
            answer = await self._client.export(signal, request.payload)
            if answer.kind == "retry":
                return Delivery("retry", answer.reason, answer.retry_after_s)
            if answer.kind == "failed":
                failed |= request.owners
                reason = f"{signal.name.lower()}_{answer.reason}"
        return Delivery("done", reason, failed_records=len(failed)) if failed else DONE

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()

    def _requests(self, batch: Sequence[JudgedTrace]) -> Iterator[tuple[Signal, Request]]:
        judged = [(resource(judged), groups(judged)) for judged in batch]
        for signal, encode in ((Signal.TRACES, carriers), (Signal.LOGS, events)):
            if self._settings.takes(signal):
                items = (
                    Item(owner, under, encode(evaluated, self._include_values))
                    for owner, (under, evaluated) in enumerate(judged)
                    if evaluated
                )
                for request in requests(items):
                    yield signal, request
