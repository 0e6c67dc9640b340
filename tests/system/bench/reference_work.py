"""A fixed piece of work to measure the path's stages against: of their nature, and of none of their code.

What the stages do, they do in about these shares: protobuf messages read field by field, small objects made, dicts and
texts looked up and put together, JSON read and written in C, hashes, sorting. So an interpreter that is faster, or a
machine that is busy, changes both alike, and the ratio stays. Every committed ratio is one to exactly this work: with
any change of it they must all be measured again (`regression.py --update`).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from operator import attrgetter

import orjson
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

_STEPS = 24
_ORDER = attrgetter("begun", "name")


@dataclass(slots=True)
class _Step:
    """As a span or a tool call is: a few fields, a dict, a list."""

    name: str
    begun: int
    facts: dict[str, object]
    said: list[dict[str, object]] = field(default_factory=list)
    digest: str = ""


def request() -> bytes:
    """The protobuf that `work` reads: spans with texts, numbers and JSON, as agents send them."""
    scope = ScopeSpans()
    for number in range(_STEPS):
        span = scope.spans.add(name=f"step {number % 7}", start_time_unix_nano=10**18 + (number * 7919) % 1000)
        said = [{"role": "user", "parts": [{"type": "text", "content": "words of a question " * 6, "n": number}]}]
        for key, value in (("operation", "step"), ("said", json.dumps(said)), ("note", "n" * 300)):
            span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
        for key in ("tokens", "port", "part"):
            span.attributes.append(KeyValue(key=key, value=AnyValue(int_value=number)))
    return scope.SerializeToString()


def work(encoded: bytes) -> bytes:
    """Do it once: milliseconds of a core, the same every time."""
    steps = sorted(_read(ScopeSpans.FromString(encoded)), key=_ORDER)
    by_name: dict[str, list[_Step]] = {}
    for step in steps:
        step.said = orjson.loads(str(step.facts["said"]))
        step.digest = blake2b(f"{step.name}|{step.begun}|{len(step.said)}".encode(), digest_size=16).hexdigest()
        by_name.setdefault(step.name, []).append(step)
    rows = [
        {"name": name, "share": _share(name, found), "texts": list(_texts(found)), "ids": [s.digest for s in found]}
        for name, found in by_name.items()
    ]
    return orjson.dumps(rows)


def _read(scope: ScopeSpans) -> Iterator[_Step]:
    for span in scope.spans:
        facts: dict[str, object] = {}
        for attribute in span.attributes:
            key = attribute.key
            if key == "note" or key.startswith("unread."):
                continue
            value = attribute.value
            kind = value.WhichOneof("value")
            facts[key] = value.string_value if kind == "string_value" else value.int_value
        yield _Step(span.name, span.start_time_unix_nano, facts)


def _texts(steps: list[_Step]) -> Iterator[str]:
    for step in steps:
        for message in step.said:
            if message.get("role") == "user" and isinstance(parts := message.get("parts"), list):
                yield " ".join(part["content"].strip().partition("?")[0] for part in parts if part["type"] == "text")


def _share(name: str, steps: list[_Step]) -> float:
    """A small dynamic programme over two lists, as comparing two orders of calls is."""
    left, right = [step.begun % 10 for step in steps], list(range(10))
    before = [0] * (len(right) + 1)
    for here in left:
        row = [0]
        for place, there in enumerate(right):
            row.append(before[place] + 1 if here == there else max(row[place], before[place + 1]))
        before = row
    return before[-1] / (len(left) or 1)
