"""Requests of every dialect with secrets planted in all their parts, in several disguises."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import re2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

import build
from build import read_case
from build.planted import DISGUISES, SECRETS
from tracegrade.otlp.from_spans import requests_of
from tracegrade.redact.requests.kinds import kinds_of_key

CASES = sorted((Path(__file__).parents[1] / "extract").glob("*/*.yaml"))


# Of these, every part is the secret in another form.
_RECODED = (
    "base64",
    "gzip",
    "zlib",
    "tags",
    "utf-16",
    "escapes",
    "all",
    "html",
    "unseen",
    "full width",
    "quoted-printable",
)

_TELLING = 10  # characters: fewer are also found in times and scores, by chance


class Planter:
    """Makes secrets of all kinds, each once, and remembers what must not be found: ``needles``; ``secrets`` counts."""

    def __init__(self) -> None:
        self.needles: list[str] = []
        self._chance = random.Random(7)
        self.secrets = 0
        self._finder: tuple[int, Any] | None = None

    def plain(self) -> str:
        """A secret as it is."""
        kinds = list(SECRETS.values())
        secret = kinds[self.secrets % len(kinds)](self._chance)
        self.secrets += 1
        self.needles.append(secret)
        return secret

    def disguised(self) -> str:
        """The next secret in the next disguise."""
        # Not as many as there are kinds, so that each kind comes in each disguise.
        name = list(DISGUISES)[self.secrets % len(DISGUISES)]
        text = DISGUISES[name](self.plain())
        if name.startswith(_RECODED) or name.endswith(_RECODED):
            part = text[len(text) // 3 : 2 * len(text) // 3]
            self.needles += [text, part] if len(part) >= _TELLING else [text]
        return text

    def seen_in(self, content: str | bytes) -> set[str]:
        """The needles that are in `content`."""
        if self._finder is None or self._finder[0] != len(self.needles):
            options = re2.Options()
            options.max_mem = 1 << 30
            # One pass for all of them: there are thousands, and many megabytes.
            self._finder = (
                len(self.needles),
                re2.compile("|".join(map(re2.escape, set(self.needles))).encode(), options),
            )
        data = content.encode("utf-8", "replace") if isinstance(content, str) else content
        return {found.decode() for found in self._finder[1].findall(data)}


def planted_requests(
    planter: Planter, trace_id_of: Callable[[int], bytes]
) -> Iterator[ExportTraceServiceRequest | ExportLogsServiceRequest]:
    """Each case of each dialect as a request with a secret in each attribute of content and in each other part."""
    for number, path in enumerate(CASES):
        case = read_case(path.read_text(encoding="utf-8"))
        trace = build.trace(case["spans"], trace_id_of(number), case.get("log_records", ()))
        for request in requests_of(trace):
            for resource in _resources(request):
                _add(resource.resource.attributes, "planted.resource", planter.disguised())
                for scope in _scopes(resource):
                    _add(scope.scope.attributes, "planted.scope", planter.disguised())
                    for item in getattr(scope, "spans", None) or getattr(scope, "log_records", ()):
                        _plant(item, planter)
            yield request


def _resources(request: Any) -> Any:
    return request.resource_spans if isinstance(request, ExportTraceServiceRequest) else request.resource_logs


def _scopes(resource: Any) -> Any:
    return resource.scope_spans if hasattr(resource, "scope_spans") else resource.scope_logs


def _plant(item: Any, planter: Planter) -> None:
    for attribute in item.attributes:
        if kinds_of_key(attribute.key) and attribute.value.WhichOneof("value") == "string_value":
            attribute.value.string_value = _with_secret(attribute.value.string_value, planter)
    _add(item.attributes, planter.plain(), "under a key")
    if not hasattr(item, "events"):
        item.body.CopyFrom(item.body if item.HasField("body") else AnyValue(string_value=planter.disguised()))
        return
    item.name += f" for {planter.plain()}"
    item.status.message += f" of {planter.plain()}"
    for event in (*item.events, item.events.add(name="planted")):
        _add(event.attributes, "exception.message", f"failed for {planter.disguised()}: no")
    _add(item.links.add(trace_id=bytes(15) + b"\x07", span_id=bytes(7) + b"\x07").attributes, "of", planter.disguised())


def _with_secret(text: str, planter: Planter) -> str:
    """`text` with a secret in it: in JSON as a member and as a key, else at its end."""
    try:
        value = json.loads(text)
    except ValueError:
        return f"{text} {planter.disguised()}"
    if isinstance(value, dict):
        return json.dumps({**value, "planted": planter.disguised(), planter.plain(): 1})
    if isinstance(value, list) and value and isinstance(value[-1], dict):
        return json.dumps([*value[:-1], {**value[-1], "planted": [planter.disguised()]}])
    return f"{text} {planter.disguised()}"


def _add(attributes: Any, key: str, value: str) -> None:
    attributes.add(key=key).value.string_value = value
