"""Results to an OTLP exporter: carrier spans as traces, evaluation events as logs."""

from collections.abc import Iterator, Sequence
from itertools import islice

from tracegrade.deliver.carriers import carriers
from tracegrade.deliver.events import events
from tracegrade.deliver.results import resource
from tracegrade.deliver.sink import DONE, Delivery, SinkContext
from tracegrade.model.signal import Signal
from tracegrade.model.trace_result import TraceResult
from tracegrade.otlp.client import ExporterSettings, OtlpClient
from tracegrade.otlp.encode import Item, Request, requests


class OtlpSink:
    """Sends results to one exporter, through a client of its own; only the signals that the exporter takes.

    The requests are small and made from the records alone, so that sending a batch twice sends the same bytes twice.
    """

    def __init__(self, name: str, settings: ExporterSettings, client: OtlpClient, include_values: bool = False) -> None:
        """Prepare.

        Args:
            name: of the sink, such as ``otlp/archive``: a metric label.
            settings: the exporter's.
            client: used only by this sink, and closed by it.
            include_values: send the evaluators' details, which hold values of the trace, and errors in full.
        """
        self.name = name
        self.when_full = settings.when_full
        self.failing = ("exporter_failing", name)
        self._settings = settings
        self._client = client
        self._include_values = include_values
        self._batch: Sequence[TraceResult] | None = None  # the batch under way, and its progress
        self._answered = 0
        self._failed: set[int] = set()
        self._reason = ""

    async def deliver(self, batch: Sequence[TraceResult]) -> Delivery:
        """Send the batch's carriers, then its events; the first answer that needs a retry ends the attempt.

        The next attempt at the same batch continues with that request: a peer that refuses now and then would hardly
        ever take a long batch as a whole.
        """
        if batch is not self._batch:
            self._batch, self._answered, self._failed, self._reason = batch, 0, set(), ""
        for signal, request in islice(self._requests(batch), self._answered, None):
            answer = await self._client.export(signal, request.payload)
            if answer.kind == "retry":
                return Delivery("retry", answer.reason, answer.retry_after_s)
            if answer.kind == "failed":
                self._failed |= request.owners
                self._reason = f"{signal.name.lower()}_{answer.reason}"
            self._answered += 1
        self._batch = None
        return Delivery("done", self._reason, failed_records=len(self._failed)) if self._failed else DONE

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()

    def _requests(self, batch: Sequence[TraceResult]) -> Iterator[tuple[Signal, Request]]:
        resources = [resource(judged) for judged in batch]
        for signal, encode in ((Signal.TRACES, carriers), (Signal.LOGS, events)):
            if self._settings.takes(signal):
                items = (
                    Item(owner, under, encode(judged, self._include_values))
                    for owner, (under, judged) in enumerate(zip(resources, batch, strict=True))
                    if judged.decisions
                )
                for request in requests(items):
                    yield signal, request


def open_sinks(context: SinkContext) -> list[OtlpSink]:
    """A sink for each exporter of the settings, with a client of its own."""
    return [
        OtlpSink(name, settings, OtlpClient(settings, context.instance_id), context.include_values)
        for name, settings in context.exporters.items()
    ]
