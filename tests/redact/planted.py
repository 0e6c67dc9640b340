"""Requests of every dialect with secrets planted in all their parts, in several disguises."""

import json
import random
import string
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import re2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from extract.spans import make_trace, read_short_form
from tracegrade.otlp.from_spans import requests_of
from tracegrade.redact.requests.kinds import kinds_of_key

CASES = sorted((Path(__file__).parents[1] / "extract").glob("*/*.yaml"))
_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase


class Planter:
    """Makes secrets, each once, and remembers what must not be found anywhere: ``needles``."""

    def __init__(self, disguises: "dict[str, Callable[[str], str]]") -> None:
        self.needles: list[str] = []
        self._chance = random.Random(7)
        self._disguises = list(disguises.values())
        self._number = 0
        self._finder: tuple[int, Any] | None = None

    def plain(self) -> str:
        """A secret as it is."""
        kind = (_email, _github_token, _card)[self._number % 3]
        secret = kind(self._chance)
        self._number += 1
        self.needles.append(secret)
        return secret

    def disguised(self) -> str:
        """The next secret in the next disguise."""
        disguise = self._disguises[self._number % len(self._disguises)]
        secret = self.plain()
        if (other := disguise(secret)) != secret:
            self.needles.append(other)
        return other

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


def _email(chance: random.Random) -> str:
    name = "".join(chance.choices(string.ascii_lowercase, k=12))
    return f"{name}@corp-{chance.randrange(10**6)}.io"


def _github_token(chance: random.Random) -> str:
    """Of the form that GitHub published: 30 characters and their CRC-32 in base 62."""
    body = "".join(chance.choices(_BASE62, k=30))
    check, digits = crc32(body.encode()), ""
    for _ in range(6):
        check, digit = divmod(check, 62)
        digits = _BASE62[digit] + digits
    return f"ghp_{body}{digits}"


def _card(chance: random.Random) -> str:
    digits = "4" + "".join(chance.choices(string.digits, k=14))
    doubled = sum(sum(divmod(2 * int(digit), 10)) for digit in digits[::2])
    return digits + str(-(doubled + sum(map(int, digits[1::2]))) % 10)


def planted_requests(
    planter: Planter, trace_id_of: Callable[[int], bytes]
) -> Iterator[ExportTraceServiceRequest | ExportLogsServiceRequest]:
    """Each case of each dialect as a request with a secret in each attribute of content and in each other part."""
    for number, path in enumerate(CASES):
        case = read_short_form(path.read_text(encoding="utf-8"))
        trace = make_trace(case["spans"], trace_id_of(number), case.get("log_records", ()))
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
