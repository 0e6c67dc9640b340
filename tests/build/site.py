"""The page over a store that a test fills, served on a free port of loopback."""

import asyncio
import re
import socket
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from html import unescape
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from sqlalchemy import Engine

from tracegrade.config import Config
from tracegrade.receive.http_server import HttpServer
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.open import open_store, reading
from tracegrade.web.app import build_app
from tracegrade.web.sources import Sources
from waiting import WITHIN_S


@dataclass
class Answer:
    status: int
    headers: Message
    text: str


@dataclass
class Site:
    """One page; ``rules`` and ``snapshots`` may be changed while it is served."""

    store_url: str
    rules: RuleSet
    config: Config
    snapshots: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""
    stopping: bool = False
    note: Any = None

    _engines: dict[str | None, Engine] = field(default_factory=dict, init=False, repr=False, compare=False)

    @contextmanager
    def store(self, tenant: str | None = None) -> Iterator[Any]:
        """The store, opened once for each tenant, as `serve` does."""
        if tenant not in self._engines:
            self._engines[tenant] = engine = open_store(self.store_url, read_only=True, tenant=tenant)
            weakref.finalize(self, engine.dispose)
        with reading(self._engines[tenant]) as connection:
            yield connection

    @property
    def sources(self) -> Sources:
        return Sources(
            self.store, lambda: self.rules, lambda: self.snapshots, self.config, lambda: self.stopping, note=self.note
        )

    def get(self, path: str) -> Answer:
        try:
            with urlopen(self.url + path, timeout=WITHIN_S) as response:
                return Answer(response.status, response.headers, response.read().decode())
        except HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read().decode())


@contextmanager
def serving(folder: Path, *rules: str, config: Config | None = None) -> Iterator[Site]:
    """A page over the store in `folder`, with these rules in force; with the default settings unless told."""
    config = config or Config(data_dir=str(folder))
    site = Site(config.store_url, config.rules.reading.load(list(rules)), config)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        site.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.listen()
        server = HttpServer(build_app(site.sources), stop_within_s=1, websockets=True)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        try:
            yield site
        finally:
            site.stopping = server.should_exit = True
            thread.join()


def text_of(html: str) -> str:
    """What a reader sees, white space folded."""
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", shown)).split())


def rows_of(html: str) -> dict[str, str]:
    """What a reader sees of each table row, by the text of its heading's link."""
    rows = re.findall(r"<tr\b.*?</tr>", html, re.DOTALL)
    links = ((re.search(r"<a\b[^>]*>(.*?)</a>", row, re.DOTALL), row) for row in rows)
    return {text_of(link[1]): text_of(row) for link, row in links if link is not None}
