"""Streams of what happens in jobs, as clients read them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any, ClassVar

from build.site import Site, serving
from suites.build.jobs import Place
from tracegrade.config import WebSettings
from waiting import WITHIN_S


@contextmanager
def page(here: Place, **web: Any) -> Iterator[Site]:
    config = here.config.model_copy(update={"web": WebSettings.model_validate(web)})
    with serving(here.folder, config=config) as site:
        yield site


class Stream:
    """Server-sent events, one after the other."""

    open: ClassVar[list["Stream"]] = []

    def __init__(self, site: Site, job: str, query: str = "", **headers: str) -> None:
        self._connection = HTTPConnection(site.url.removeprefix("http://"), timeout=WITHIN_S)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request("GET", f"/api/v1/jobs/{job}/events{query}", headers=named)
        self.answer: HTTPResponse = self._connection.getresponse()
        self.open.append(self)

    def lines(self) -> Iterator[str]:
        while line := self.answer.readline():
            yield line.decode().removesuffix("\n")

    def read(self) -> Iterator[dict[str, Any]]:
        """Each event, until the server ends the stream."""
        found: dict[str, str] = {}
        for line in self.lines():
            name, _, value = line.partition(": ")
            if line:
                found[name] = value
                continue
            if "data" in found:
                event = json.loads(found["data"])
                assert (found["id"], found["event"]) == (str(event["number"]), event["type"])
                yield event
            found = {}

    def close(self) -> None:
        self._connection.close()
        self.answer.close()


def names(events: list[Any]) -> list[str]:
    return [event["type"] for event in events]
