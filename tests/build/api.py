"""Calls of the API that hold every answer to its document."""

import json
import re
from functools import cache
from typing import Any

import jsonschema_rs
from click.testing import CliRunner
from generator.api import APIS, document

from build.asgi import Called, call
from build.site import Site
from tracegrade.cli import main
from tracegrade.web.app import build_app
from tracegrade.web.problem import PREFIX

DOCUMENT = document("api")


class Api:
    """An API over a small store; what it answers is held to its document."""

    def __init__(self, site: Site, document: dict[str, Any] = DOCUMENT) -> None:
        self.site = site
        self.app = build_app(site.sources)
        self.document = document
        self._prefix = document["servers"][0]["url"]

    def call(self, method: str, address: str, body: Any = None, **headers: str) -> Called:
        sent = b"" if body is None else json.dumps(body).encode()
        answer = call(self.app, method, f"{self._prefix}{address}", sent, content_type="application/json", **headers)
        self._check(method, address.partition("?")[0], answer)
        return answer

    def get(self, address: str) -> Any:
        answer = self.call("GET", address)
        assert answer.status == 200, answer.body
        return answer.json

    def refused(self, address: str, status: int, type_: str) -> str:
        answer = self.call("GET", address)
        assert (answer.status, answer.json["type"]) == (status, PREFIX + type_), answer.body
        return str(answer.json["detail"])

    def command(self, *arguments: str) -> list[Any]:
        shown = CliRunner().invoke(main, [*arguments, "--format", "json", "--data-dir", self.site.config.data_dir])
        assert shown.exit_code == 0, shown.output
        return [json.loads(line) for line in shown.stdout.splitlines()]

    def _check(self, method: str, path: str, answer: Called) -> None:
        described = _described(self._prefix, method.lower(), path)
        if described is None:
            return
        ((media_type, schema),) = described["responses"][str(answer.status)]["content"].items()
        assert answer.headers["content-type"] == media_type
        _validator(self._prefix, json.dumps(schema["schema"])).validate(answer.json)


_DOCUMENTS = {document["servers"][0]["url"]: document for document in map(document, APIS)}


@cache
def _described(prefix: str, method: str, path: str) -> Any:
    """The operation that is meant; a parameter at the end of an address may hold slashes."""
    for part in ("[^/]+", ".+"):
        for template, operations in _DOCUMENTS[prefix]["paths"].items():
            fits = re.fullmatch(re.sub(r"\\{\w+\\}", lambda _, part=part: part, re.escape(template)), path)
            if fits and method in operations:
                return operations[method]
    return None


@cache
def _validator(prefix: str, schema: str) -> Any:
    return jsonschema_rs.validator_for({**json.loads(schema), "components": _DOCUMENTS[prefix]["components"]})


def trace_id(number: int) -> str:
    return f"{0xA1 << 120 | number:032x}"
