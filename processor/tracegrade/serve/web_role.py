"""The web process of ``serve``: the page and the API over the data of the other two processes."""

import asyncio
import socket
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine

from tracegrade.access.log import AccessFiles, AccessLog
from tracegrade.config import Config, WebSettings
from tracegrade.pipeline.data_folder import DataFolder
from tracegrade.receive.certificate import server_context
from tracegrade.receive.http_server import HttpServer
from tracegrade.serve.rule_reload import RuleReload
from tracegrade.store.open import open_store, reading
from tracegrade.telemetry.metrics import Telemetry
from tracegrade.web.app import build_app
from tracegrade.web.sources import Sources

STOP_WITHIN_S = 1

_MOST_ENGINES = 32


class WebRole:
    """The page and API over one data folder."""

    def __init__(self, config: Config, settings: WebSettings) -> None:
        """Read the rules; the store may come later.

        Raises:
            TraceGradeError: the rules are wrong.
        """
        self._config = config
        self._settings = settings
        self._store_url = config.store_url
        self._folder = DataFolder(config.data_path)
        self._reload = RuleReload(config.rules, Telemetry("web"), config.quotas)
        self._engines: OrderedDict[str | None, Engine] = OrderedDict()  # by the tenant that they show; None: all
        self._opening = threading.Lock()

    async def run(self, stop: asyncio.Event, listening: socket.socket) -> None:
        """Serve on `listening` until `stop` is set."""
        settings = self._config.access.log
        log = None if settings is None else AccessLog(AccessFiles(self._folder.path, settings))
        sources = Sources(
            self._store,
            lambda: self._reload.in_force,
            self._folder.read_published,
            self._config,
            stop.is_set,
            note=None if log is None else log.add,
        )
        tls = None if self._settings.tls is None else server_context("web", self._settings.tls)
        server = HttpServer(build_app(sources), tls=tls, stop_within_s=STOP_WITHIN_S, websockets=True)
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        reloading = asyncio.create_task(self._reload.run(stop))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({serving, reloading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stop.set()
        server.should_exit = True
        await asyncio.gather(serving, reloading, stopping)
        if log is not None:
            await asyncio.to_thread(log.close)

    @contextmanager
    def _store(self, tenant: str | None) -> Iterator[Connection]:
        with self._opening:
            engine = self._engines.get(tenant)
            if engine is None:
                engine = self._engines[tenant] = open_store(self._store_url, read_only=True, tenant=tenant)
                if len(self._engines) > _MOST_ENGINES:
                    self._engines.popitem(last=False)[1].dispose()  # connections in use are closed once given back
            self._engines.move_to_end(tenant)
        with reading(engine) as connection:
            yield connection
