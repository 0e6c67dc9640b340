"""The receive process of ``serve``: receive -> journal -> forward, and the supervisor of the other processes.

It answers senders once their bytes are durable, forwards originals from the journal, deletes records that are no longer
needed, and shows both roles' metrics. It never waits for the judge.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

from tracegrade.access.log import AccessFiles
from tracegrade.access.tokens import MadeTokens
from tracegrade.config import Config, WebSettings
from tracegrade.deletion.request import Deletion, Deletions
from tracegrade.deliver.consumer import wait
from tracegrade.model.errors import TraceGradeError
from tracegrade.otlp.client import OtlpClient
from tracegrade.otlp.metrics import Instance
from tracegrade.part import offered
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.pipeline.version import note_build, tracegrade_version
from tracegrade.receive.access import check_access
from tracegrade.receive.ingest import Ingest
from tracegrade.receive.otlp_grpc import OtlpGrpcServer
from tracegrade.receive.otlp_http import OtlpHttpServer
from tracegrade.receive.quotas import Quotas
from tracegrade.receive.redacted import Redacts
from tracegrade.receive.tenants import SenderTenants
from tracegrade.serve.background import repeat
from tracegrade.serve.process import role_command
from tracegrade.serve.receiving.access_export import AccessExport
from tracegrade.serve.receiving.certificates import CertificateWatch
from tracegrade.serve.receiving.metrics_export import MetricsExport
from tracegrade.serve.receiving.received import Forwards, Received
from tracegrade.serve.receiving.received_on_disk import ReceivedOnDisk
from tracegrade.serve.status import StatusServer, with_port
from tracegrade.serve.supervising.judge_keeper import JudgeKeeper
from tracegrade.serve.supervising.supervisor import supervise
from tracegrade.serve.supervising.web_process import WebProcess
from tracegrade.serve.tuning import allow_connections
from tracegrade.telemetry.metrics import Telemetry
from tracegrade.telemetry.process import forget_process, note_free_disk, note_process

LOOK_EVERY_S = 1.0
PUBLISH_EVERY_S = 1.0
ACCESS_EVERY_S = 2.0
CERTIFICATES_EVERY_S = 10.0
STOP_WITHIN_S = 5.0
RETRY_DELETIONS_AFTER_S = 30.0

logger = logging.getLogger(__name__)


class ReceiveRole:
    """One receiver over one data folder."""

    def __init__(self, config: Config, config_path: Path | None, *, with_judge: bool) -> None:
        """Open the journal; nothing listens yet.

        Args:
            config: the settings.
            config_path: their file, for the judge's command line.
            with_judge: keep a judge process running beside us, workers of parts while they have work, and a web process
                when the settings have one.

        Raises:
            JournalLocked: another process receives into this data folder.
            KafkaUnfit: Kafka cannot be the journal as it is set up.
            TraceGradeError: a file that the settings of redaction name cannot be used.
        """
        self._config = config
        self._folder = DataFolder(config.data_path)
        self._telemetry = Telemetry("receive")
        # Before anything asks where judges stand: their number may have changed.
        judge = role_command("judge", config, config_path)
        self._judges = JudgeKeeper(judge, config, self._folder, self._telemetry) if with_judge else None
        self._received = _received(config, self._folder, self._telemetry)
        self._made = MadeTokens(config.tokens_path)
        self._deletions = Deletions(self._folder.path)
        self._instance = Instance(self._folder.instance_id(), tracegrade_version())
        note_build(self._telemetry)
        self._certificates = CertificateWatch(config, self._telemetry)
        self._quotas = Quotas(config.quotas, self._telemetry) if config.quotas.bounds_sending else None
        self._ingest = Ingest(
            self._received,
            self._telemetry,
            [own for own in (self._instance.id, self._received.shared_id) if own is not None],
            config.receivers.otlp,
            self._redaction(),
            self._quotas,
        )
        self._clients: dict[str, OtlpClient] = {}
        self._metrics_export = MetricsExport(config.exporters, self._clients, self._instance, self._received.snapshots)
        log = config.access.log
        self._access_export = (
            None
            if log is None
            else AccessExport(
                AccessFiles(config.data_path, log), config.exporters, self._clients, self._instance, self._telemetry
            )
        )
        self._with_judge = with_judge
        self._web_command = role_command("web", config, config_path)
        self._web: WebProcess | None = None
        self._children: dict[str, int] = {}  # the ids of processes, by what they do
        self._workers = [worker(config, config_path, self._folder) for worker in offered("worker")]

    def _redaction(self) -> Redacts | None:
        if self._config.redaction is None:
            return None
        from tracegrade.receive.redaction import open_redactor  # with its detectors, for those who ask for it alone

        redactor = open_redactor(self._config.redaction, self._config.data_path, self._config.remembers_deleted_for)
        self._telemetry.conditions.say("redaction_key_changed", redactor.changed_key)
        return redactor

    async def run(self, stop: asyncio.Event, ready: Callable[[dict[str, str]], None]) -> int:
        """Serve until `stop` is set.

        Args:
            stop: set it to shut down: calls under way are finished, everything else stays on disk.
            ready: called with the endpoints once everything listens.

        Returns:
            The exit code: 0, or 2 when the judge cannot start with these settings.
        """
        async with AsyncExitStack() as stack:
            stack.callback(self._received.close)
            if self._judges is not None:
                stack.callback(self._judges.close)
            stack.push_async_callback(self._close_clients)
            endpoints = await self._start_servers(stack)
            tasks = self._start_tasks(stack, stop)
            ready(endpoints)
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            stop.set()
            self._ingest.stop()
            self._received.halt()
            for task in tasks:
                await task
            # What was counted since the last time would be lost.
            with suppress(OSError, TraceGradeError, TimeoutError):
                await asyncio.wait_for(self._metrics_export.send(), STOP_WITHIN_S)
        return 2 if self._judges is not None and self._judges.refused_to_start else 0

    async def _start_servers(self, stack: AsyncExitStack) -> dict[str, str]:
        otlp = self._config.receivers.otlp
        protocols = otlp.protocols
        # gRPC briefly has twice its bound.
        of_grpc = 2 * protocols.grpc.max_connections if protocols.grpc else 0
        allow_connections(of_grpc + (protocols.http.max_connections if protocols.http else 0))
        endpoints: dict[str, str] = {}
        tenants = SenderTenants(self._config.access)
        if protocols.grpc is not None:
            grpc_server = OtlpGrpcServer(protocols.grpc, self._ingest, otlp.max_compression_ratio, self._made, tenants)
            await grpc_server.start()
            stack.push_async_callback(grpc_server.stop, STOP_WITHIN_S)
            endpoints["grpc"] = with_port(protocols.grpc.endpoint, grpc_server.port)
        if protocols.http is not None:
            http_server = OtlpHttpServer(protocols.http, self._ingest, otlp.max_compression_ratio, self._made, tenants)
            await http_server.start()
            stack.push_async_callback(http_server.stop, STOP_WITHIN_S)
            endpoints["http"] = with_port(protocols.http.endpoint, http_server.port)
        endpoints["telemetry"] = await self._start_status(stack)
        if self._with_judge and self._config.web is not None:
            address = self._listen_for_web(self._config.web, stack)
            if address is not None:
                endpoints["web"] = address
        return endpoints

    def _listen_for_web(self, settings: WebSettings, stack: AsyncExitStack) -> str | None:
        """The endpoint of the page; None while its port is taken, which does not keep other parts from starting."""
        check_access("web", settings, self._made)  # a file that cannot be read stops the start, not the first call
        self._web = WebProcess(self._web_command, settings.endpoint, self._telemetry.conditions)
        stack.callback(self._web.close)
        port = self._web.listen()
        scheme = "http" if settings.tls is None else "https"
        return None if port is None else f"{scheme}://{with_port(settings.endpoint, port)}"

    async def _start_status(self, stack: AsyncExitStack) -> str:
        server = StatusServer(self._config, self._received.snapshots, self._instance, self._made)
        halt = asyncio.Event()
        task = asyncio.create_task(server.run(halt))

        async def stop() -> None:
            halt.set()
            await task

        stack.push_async_callback(stop)
        return server.endpoint

    def _start_tasks(self, stack: AsyncExitStack, stop: asyncio.Event) -> list[asyncio.Task[None]]:
        tasks = [
            asyncio.create_task(self._received.run_maintenance(stop)),
            asyncio.create_task(repeat(LOOK_EVERY_S, partial(self._delete, stop), stop)),
            asyncio.create_task(repeat(LOOK_EVERY_S, self._retry_set_aside, stop)),
            asyncio.create_task(repeat(self._config.telemetry.export_interval, self._metrics_export.send, stop)),
        ]
        for name, settings in self._config.exporters.items():
            # What one receiver of a topic has forwarded is a loop at each of them.
            own_id = self._received.shared_id or self._instance.id
            client = self._clients[name] = OtlpClient(settings, own_id, self._ingest.circle.heard)
            forwarder = self._received.forwarder(name, settings, client)
            tasks.append(asyncio.create_task(_stopped_with(forwarder, stop)))
        if self._judges is not None:
            tasks.append(asyncio.create_task(self._judges.run(stop)))
            for name, worker in self._workers:
                tasks.append(asyncio.create_task(supervise(worker, stop, partial(self._note_child, name))))
        tasks.append(asyncio.create_task(repeat(PUBLISH_EVERY_S, self._publish, stop)))
        tasks.append(asyncio.create_task(repeat(CERTIFICATES_EVERY_S, self._look_at_certificates, stop)))
        if self._web is not None:
            tasks.append(asyncio.create_task(supervise(self._web, stop, partial(self._note_child, "web"))))
        if self._access_export is not None:
            tasks.append(asyncio.create_task(repeat(ACCESS_EVERY_S, self._access_export.send, stop)))
        return tasks

    def _note_child(self, name: str, pid: int | None) -> None:
        """Show what a process that has no metrics of its own uses, while it runs."""
        if pid is not None:
            self._children[name] = pid
        elif self._children.pop(name, None) is not None:
            forget_process(self._telemetry, name)

    async def _look_at_certificates(self) -> None:
        await asyncio.to_thread(self._certificates.poll)

    async def _publish(self) -> None:
        note_process(self._telemetry, "receive")
        for name, pid in self._children.items():
            note_process(self._telemetry, name, pid)
        note_free_disk(self._telemetry, self._folder.path)
        self._received.say_conditions(is_kept=self._with_judge)
        self._folder.set_aside.report(self._telemetry.conditions)
        self._ingest.circle.end_quiet()
        if self._quotas is not None:
            self._quotas.end_quiet()
        self._folder.write_published(self._received.snapshots())

    async def _retry_set_aside(self) -> None:
        """Append records whose reading again was requested to the journal; they were forwarded when they came."""
        done = await asyncio.to_thread(
            self._folder.set_aside.retry, lambda entry: self._received.append(entry).result()
        )
        for record in done:
            self._telemetry.add(
                "tracegrade.receiver.accepted_items", record.items, signal=record.signal, transport="set_aside"
            )
            logger.info("the record that was set aside at %d is read again: %s", record.position, record.what)

    async def _delete(self, stop: asyncio.Event) -> None:
        """Carry out requested deletions in the journal; the judge does the rest."""
        waiting = self._deletions.waiting("requested", "resolved")
        self._telemetry.conditions.say("deletion_damaged", self._deletions.damage())
        if not waiting:
            return
        try:
            erased = await asyncio.to_thread(self._erase, waiting)
        except (OSError, TraceGradeError) as error:
            logger.warning("deletion: %s; trying again in %.0f s", error, RETRY_DELETIONS_AFTER_S)
            await wait(stop, RETRY_DELETIONS_AFTER_S)  # each attempt reads the whole journal
            return
        for deletion in erased:
            logger.info("deletion %s: %d spans erased from the journal", deletion.id, deletion.deleted.spans)

    def _erase(self, waiting: Sequence[Deletion]) -> list[Deletion]:
        erased = self._received.erase(waiting)
        for deletion in erased:
            self._folder.set_aside.erase(deletion.trace_ids, deletion.choice.tenant)
        return erased

    async def _close_clients(self) -> None:
        for client in self._clients.values():
            await client.close()


def _received(config: Config, folder: DataFolder, telemetry: Telemetry) -> Received:
    if (kafka := config.journal.kafka) is not None:
        from tracegrade.serve.receiving.received_in_kafka import ReceivedInKafka

        return ReceivedInKafka(config, kafka.of_instance(folder.instance_id()), folder, telemetry)
    return ReceivedOnDisk(config, folder, telemetry)


async def _stopped_with(forwarder: Forwards, stop: asyncio.Event) -> None:
    async def stop_it() -> None:
        await stop.wait()
        forwarder.stop(STOP_WITHIN_S)

    stopper = asyncio.create_task(stop_it())
    try:
        await forwarder.run()
    finally:
        stopper.cancel()
