"""Where requests go once they are checked, as the receive role sees it: a journal on this disk, or Kafka."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from tracegrade.deletion.request import Deletion
from tracegrade.journal.record import Entry
from tracegrade.otlp.client import Exports
from tracegrade.otlp.exporter_settings import ExporterSettings


class Forwards(Protocol):
    """One exporter's way from the journal to its peer."""

    async def run(self) -> None:
        """Forward until `stop` is called."""

    def stop(self, within_s: float) -> None:
        """Begin no further request, and let attempts under way end within `within_s`."""


class Received(Protocol):
    """The journal of the receive role, with all that the role does about it."""

    @property
    def shared_id(self) -> str | None:
        """Names the journal, where several receivers write to it; None where it is our own."""
        ...

    def append(self, entry: Entry) -> "Future[int]":
        """Take a request; the future resolves once it is durable, or fails as `JournalWriter` says."""
        ...

    def snapshots(self) -> list[dict[str, Any]]:
        """The metrics of this process, and of the judge beside it."""
        ...

    def say_conditions(self, *, is_kept: bool) -> None:
        """Update the conditions of the judge; `is_kept`: this process runs one."""

    async def run_maintenance(self, stop: asyncio.Event) -> None:
        """Do what a journal needs while it is used, until `stop` is set."""

    def forwarder(self, name: str, settings: ExporterSettings, client: Exports) -> Forwards:
        """The way of the exporter `name` from here; call it in the event loop."""
        ...

    def erase(self, waiting: Sequence[Deletion]) -> list[Deletion]:
        """Carry out the journal's part of deletions; may wait for the disk.

        Raises:
            OSError, JournalError: the disk refused, or the journal is closing; the next try goes on.
        """
        ...

    def halt(self) -> None:
        """The role ends soon: begin nothing that takes long."""

    def close(self) -> None:
        """Make durable what was taken, and refuse the rest."""
