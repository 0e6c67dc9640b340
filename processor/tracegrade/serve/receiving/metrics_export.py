"""Our own metrics to every exporter that takes metrics."""

import logging
from collections.abc import Callable, Mapping, Sequence

from tracegrade.model.signal import Signal
from tracegrade.otlp.answer import Exports
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.otlp.metric_changes import changes
from tracegrade.otlp.metrics import Instance, Snapshot, export_request
from tracegrade.telemetry.metrics import of_tenants

logger = logging.getLogger(__name__)


class MetricsExport:
    """Sends both roles' snapshots: whole, or what changed since the last one that the exporter took.

    An exporter for some tenants is sent the series that name one of these, and none of those of the installation.

    What an exporter did not take is in what it is sent next. One that took it, and whose answer was lost, gets the
    changes of that time again.
    """

    def __init__(
        self,
        exporters: Mapping[str, ExporterSettings],
        clients: Mapping[str, Exports],
        instance: Instance,
        snapshots: Callable[[], Sequence[Snapshot]],
        before: Sequence[Snapshot] = (),
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            exporters: settings by name.
            clients: by the same names; may be filled later.
            instance: whose metrics they are.
            snapshots: gives those of both roles.
            before: what a role had counted before us, and an earlier process sent: its changes begin there.
        """
        self._exporters = {name: settings for name, settings in exporters.items() if settings.takes(Signal.METRICS)}
        self._clients = clients
        self._instance = instance
        self._snapshots = snapshots
        of_changes = [name for name, settings in self._exporters.items() if settings.temporality == "delta"]
        self._taken = dict.fromkeys(of_changes, before)

    async def send(self) -> None:
        """One attempt for each exporter."""
        of_all = self._snapshots()
        for name, settings in self._exporters.items():
            snapshots = of_all if settings.tenants is None else [of_tenants(each, settings.tenants) for each in of_all]
            taken = self._taken.get(name)
            if taken is None:
                payload = export_request(snapshots, self._instance)
            else:
                payload = export_request(changes(snapshots, taken), self._instance, delta=True)
            answer = await self._clients[name].export(Signal.METRICS, payload)
            if answer.kind != "sent":
                logger.info("%s did not take our own metrics: %s %s", name, answer.reason, answer.message)
            elif taken is not None:
                self._taken[name] = snapshots
