"""The receive role's journal in Kafka: this machine keeps nothing of a request once it is answered."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from tracegrade.config import Config
from tracegrade.deletion.request import Deletion, Deletions
from tracegrade.deliver.consumer import wait
from tracegrade.forward.from_kafka import KafkaForwarder
from tracegrade.journal.errors import KafkaUnfit
from tracegrade.journal.kafka.groups import forwarding_group
from tracegrade.journal.kafka.originals import Originals
from tracegrade.journal.kafka.produce import UNAVAILABLE, KafkaJournal
from tracegrade.journal.kafka.settings import KafkaSettings
from tracegrade.journal.lock import FolderLock
from tracegrade.journal.record import Entry
from tracegrade.model.signal import Signal
from tracegrade.otlp.client import Exports
from tracegrade.otlp.exporter_settings import ExporterSettings
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.serve.receiving.judge_snapshots import JudgeSnapshots
from tracegrade.telemetry.metrics import Telemetry

EXAMINE_EVERY_S = 60.0
EXAMINE_AGAIN_AFTER_S = 5.0  # while brokers do not confirm messages


class ReceivedInKafka:
    """A `Received`: topics that several receivers write and several judges read. The topics' retention deletes."""

    def __init__(self, config: Config, settings: KafkaSettings, folder: DataFolder, telemetry: Telemetry) -> None:
        """Check the topics, and connect.

        Raises:
            JournalLocked: another process receives with this data folder.
            KafkaUnfit: Kafka cannot be the journal as it is set up.
        """
        self._config = config
        self._settings = settings
        self._folder = folder
        self._telemetry = telemetry
        self._snapshots = JudgeSnapshots(folder, telemetry.started_ns)
        self._lock = lock_receiving(folder)
        try:
            self._journal = KafkaJournal.open(settings, telemetry)
        except BaseException:
            self._lock.release()
            raise

    @property
    def shared_id(self) -> str | None:
        """As in `Received`."""
        return self._journal.shared_id

    def append(self, entry: Entry) -> "Future[int]":
        """As in `Received`."""
        return self._journal.append(entry)

    def snapshots(self) -> list[dict[str, Any]]:
        """As in `Received`. What judges have not read is told by their lag: it may have come from other receivers."""
        judges = self._snapshots.shown(self._snapshots.take())
        return [snapshot for snapshot in (self._telemetry.snapshot(), judges) if snapshot is not None]

    def say_conditions(self, *, is_kept: bool) -> None:
        """As in `Received`."""
        self._snapshots.say_silent(self._snapshots.take(), self._telemetry, is_kept=is_kept)

    async def run_maintenance(self, stop: asyncio.Event) -> None:
        """Look at the topics now and then: somebody may have changed them."""
        conditions = self._telemetry.conditions
        while not await wait(stop, EXAMINE_AGAIN_AFTER_S if conditions.holds(UNAVAILABLE) else EXAMINE_EVERY_S):
            try:
                await asyncio.to_thread(self._journal.examine)
            except KafkaUnfit as error:
                conditions.begin("kafka_unfit", str(error))
            else:
                conditions.end("kafka_unfit")

    def forwarder(self, name: str, settings: ExporterSettings, client: Exports) -> KafkaForwarder:
        """As in `Received`: receivers that have an exporter of this name share its work, as one consumer group."""
        topics = {self._settings.traces_topic: Signal.TRACES, self._settings.logs_topic: Signal.LOGS}
        if self._settings.metrics_topic is not None:
            topics[self._settings.metrics_topic] = Signal.METRICS
        taken = {topic: signal for topic, signal in topics.items() if settings.takes(signal)}
        join = partial(Originals, self._settings, forwarding_group(name), taken)
        return KafkaForwarder(name, settings, client, join, self._telemetry)

    def erase(self, waiting: Sequence[Deletion]) -> list[Deletion]:
        """As in `Received`: what is in Kafka stays until the topics' retention deletes it, and is not judged again."""
        from tracegrade.deletion.carry_out import bury  # it loads SQL, which would make every start a third slower
        from tracegrade.receive.redacted_ids import RedactedIds

        return bury(
            waiting,
            Deletions(self._folder.path),
            store_url=self._config.store_url,
            ids=RedactedIds(self._config.redaction, self._folder.path),
            remembered_s=self._config.remembers_deleted_for,
        )

    def halt(self) -> None:
        """As in `Received`: nothing here takes long."""

    def close(self) -> None:
        """As in `Received`."""
        self._journal.close()
        self._lock.release()


def lock_receiving(folder: DataFolder) -> FolderLock:
    """Be the only one that receives with this folder: it has deletions to carry out, and a name among exporters' peers.

    Raises:
        JournalLocked: somebody else does.
    """
    folder.path.mkdir(parents=True, exist_ok=True)
    return FolderLock(folder.path / "receive.lock", "receiving")
