"""Requests that are small as bytes and large once decoded: refused for good, and others are answered meanwhile."""

import asyncio
import gzip
import http.client
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from build import each, rest_long
from build.dense import Dense, all_dense, field
from build.refused import not_taken
from tracegrade.journal.record import Encoding
from tracegrade.model.signal import Signal
from tracegrade.otlp.json import to_json
from tracegrade.otlp.pieces import PIECE_BYTES
from tracegrade.otlp.request import REQUESTS
from tracegrade.receive import ingest, validate
from tracegrade.receive.ingest import Accepted, Ingest, Refused
from tracegrade.receive.otlp_grpc import EXPORT_METHODS
from tracegrade.receive.otlp_http import PATHS
from tracegrade.receive.validate import check, check_in_turns
from tracegrade.telemetry.metrics import Telemetry

Serve = Callable[..., Any]
MIB = 1024 * 1024
DENSE = all_dense()
OF_THREE_LEVELS = [dense for dense in DENSE if len(dense.numbers) <= 3]
EVENTS = next(dense for dense in DENSE if dense.name.endswith("spans.events"))
ROWS = {
    "resource spans": OF_THREE_LEVELS[0],
    "events": EVENTS,
    "data points": next(d for d in DENSE if "points" in d.name),
}


def span(number: int, content: bytes = b"") -> bytes:
    """A span's content: whole ids, and `content`."""
    return field(1, b"t" * 16) + field(2, number.to_bytes(8, "big")) + content


def request_of(*spans: bytes) -> bytes:
    return field(1, field(1, field(1, field(1, b"service.name"))) + field(2, b"".join(field(2, one) for one in spans)))


def attributes(count: int) -> bytes:
    return b"".join(
        field(9, field(1, b"key.%03d" % index) + field(2, field(1, b"some text"))) for index in range(count)
    )


ATTRIBUTES = attributes(25)


def send(served: Any, signal: Signal, wire: bytes, encoding: str, media_type: str = "application/x-protobuf") -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", served.http_port)
    headers = {"Content-Type": media_type} | ({"Content-Encoding": encoding} if encoding else {})
    connection.request("POST", PATHS[signal], wire, headers)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


# In a process of its own, since it needs the memory that the server must not.
GRPC_CLIENT = """
import sys
import grpc
address, method, path, compression = sys.argv[1:]
options = [("grpc.max_send_message_length", -1)]
with grpc.insecure_channel(address, options=options, compression=grpc.Compression[compression]) as channel:
    try:
        channel.unary_unary(method)(open(path, "rb").read())
    except grpc.RpcError as error:
        print(error.code().name, sorted(key for key, _ in error.trailing_metadata() or ()))
"""


@each("dense", DENSE, ids=lambda dense: f"{dense.signal.name}-{dense.name}")
def test_what_grew_by_decompression_may_not_be_dense_anywhere(dense: Dense) -> None:
    with not_taken("too_dense", match="bound"):
        list(check_in_turns(dense.signal, dense.request(20_000), 4_000_000, much_expanded=True))


# Attributes of a resource are not walked.
@each(
    "dense",
    [dense for dense in OF_THREE_LEVELS if dense.numbers[1:2] != (1,)],
    ids=lambda dense: f"{dense.signal.name}-{dense.name}",
)
def test_resources_scopes_and_items_may_not_be_dense_in_any_request(dense: Dense) -> None:
    with not_taken("too_dense", match="one for each 16 bytes"):
        check(dense.signal, Encoding.PROTOBUF, dense.request(20_000))
    document = orjson.dumps(to_json(REQUESTS[dense.signal].FromString(dense.request(4_000))))
    with not_taken("too_dense", match="one for each 16 bytes"):
        check(dense.signal, Encoding.JSON, document)


def test_so_many_messages_and_no_more() -> None:
    wire = request_of(*[span(number, attributes(50)) for number in range(1, 600)])
    messages = 620 * 101  # spans, attributes, values; counted a little too high
    list(check_in_turns(Signal.TRACES, wire, 4_000_000))
    list(check_in_turns(Signal.TRACES, wire, messages))
    with not_taken("too_dense", match=r"more than 50000 messages .*max_request_messages; .* raise it"):
        list(check_in_turns(Signal.TRACES, wire, 50_000))


@pytest.mark.parametrize("dense", rest_long(ROWS.values(), usual=[EVENTS]), ids=ROWS)
@pytest.mark.parametrize("compression", rest_long(["NoCompression", "Gzip", "Deflate"], usual=["NoCompression"]))
def test_empty_messages_of_64_mib_are_refused_for_good_by_grpc(
    serve: Serve, wire: bytes, dense: Dense, compression: str, peak_memory: Callable[[], Any], tmp_path: Path
) -> None:
    served = serve()
    (tmp_path / "attack").write_bytes(dense.request(63 * MIB))
    memory = peak_memory()
    arguments = [served.grpc_address, EXPORT_METHODS[dense.signal], str(tmp_path / "attack"), compression]
    client = subprocess.run([sys.executable, "-c", GRPC_CLIENT, *arguments], capture_output=True, text=True, check=True)
    assert client.stdout == "RESOURCE_EXHAUSTED []\n"
    # Decoded it is 1 to 5 GB. What came uncompressed is here as it came, twice for a moment.
    assert memory.growth_mib() < (200 if compression == "NoCompression" else 64)
    assert served.ingest.in_flight.taken_bytes == 0
    reason = "too_dense" if compression == "NoCompression" else "too_compressed"
    assert served.requests(outcome="refused", reason=reason, transport="grpc") == 1
    assert send(served, Signal.TRACES, wire, "") == 200
    assert len(served.journal.entries) == 1


@pytest.mark.parametrize("dense", rest_long(ROWS.values(), usual=[EVENTS]), ids=ROWS)
def test_empty_messages_of_64_mib_are_refused_for_good_by_http(
    serve: Serve, dense: Dense, peak_memory: Callable[[], Any]
) -> None:
    served = serve()
    bomb = gzip.compress(dense.request(63 * MIB), 9)
    memory = peak_memory()
    assert send(served, dense.signal, bomb, "gzip") == 413
    assert memory.growth_mib() < 64
    assert served.ingest.in_flight.taken_bytes == 0
    assert served.requests(outcome="refused", reason="too_compressed", transport="http") == 1
    assert send(served, dense.signal, dense.request(63 * MIB), "") == 413
    assert served.requests(outcome="refused", reason="too_dense", transport="http") == 1


def test_many_small_bombs_are_each_refused(serve: Serve, wire: bytes) -> None:
    served = serve()
    bombs = [gzip.compress(dense.request(500_000), 9) for dense in ROWS.values() if dense.signal is Signal.TRACES]
    statuses: list[int] = []
    senders = [
        threading.Thread(target=lambda bomb=bomb: statuses.append(send(served, Signal.TRACES, bomb, "gzip")))
        for bomb in bombs * 10
    ]
    for sender in senders:
        sender.start()
    assert send(served, Signal.TRACES, wire, "") == 200
    for sender in senders:
        sender.join()
    assert statuses == [413] * len(senders)
    assert served.requests(outcome="refused", reason="too_dense") == len(senders)


def test_json_is_weighed_before_it_is_decoded(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def decoded(body: bytes) -> Any:
        raise AssertionError("it was decoded")

    monkeypatch.setattr(validate, "parse_document", decoded)
    served = serve()
    for member in (b"{}", b'{"a":0}'):
        attack = b'{"resourceSpans":[' + (member + b",") * (60 * MIB // (len(member) + 1)) + b"0]}"
        assert send(served, Signal.TRACES, attack, "", "application/json") == 413
    assert served.requests(outcome="refused", reason="too_dense") == 2
    assert served.ingest.in_flight.taken_bytes == 0


@each("member", [b"{}", b"[]", b"1.5", b'"ab"', b'{"a":0}', b'{"a":{"b":"c"}}', b'["a",["b"]]'])
def test_json_takes_no_more_memory_than_it_is_weighed_with(member: bytes, peak_memory: Callable[[], Any]) -> None:
    document = b"[" + (member + b",") * (2 * MIB // len(member)) + b"0]"
    weight = validate.decoded_bytes(Encoding.JSON, document)
    memory = peak_memory()
    decoded = orjson.loads(document)
    assert memory.growth_mib() * MIB < 1.1 * weight + 8 * MIB
    assert len(decoded) > 1


def test_when_what_json_decodes_to_has_no_room_now_its_sender_comes_back(
    serve: Serve, wire: bytes, request_of: Callable[..., Any]
) -> None:
    served = serve()
    document = orjson.dumps(to_json(request_of()))
    in_flight = served.ingest.in_flight
    in_flight.taken_bytes = in_flight.bound_bytes - len(document) - 10
    assert send(served, Signal.TRACES, document, "", "application/json") == 429
    assert in_flight.taken_bytes == in_flight.bound_bytes - len(document) - 10
    in_flight.taken_bytes = 0
    assert send(served, Signal.TRACES, document, "", "application/json") == 200


@pytest.mark.parametrize("much_expanded", [False, True])
def test_others_are_answered_while_a_large_request_is_checked(
    journal: Any, wire: bytes, monkeypatch: pytest.MonkeyPatch, much_expanded: bool
) -> None:
    receiver = Ingest(journal, Telemetry("receive"), "me")
    large = request_of(*[span(number, attributes(30)) for number in range(1, 4001)])
    assert len(large) > 2 * MIB
    turns: list[str] = []
    real = ingest.check_in_turns

    def noted(*arguments: Any, **more: Any) -> Any:
        walk = real(*arguments, **more)
        while True:
            try:
                next(walk)
            except StopIteration as done:
                return done.value
            turns.append("piece")
            yield

    monkeypatch.setattr(ingest, "check_in_turns", noted)

    async def accept(wire: bytes, name: str) -> Accepted | Refused:
        answer = await receiver.accept(
            Signal.TRACES, wire, Encoding.PROTOBUF, transport="grpc", much_expanded=much_expanded and name == "large"
        )
        turns.append(name)
        return answer

    async def run() -> None:
        answers = await asyncio.gather(accept(large, "large"), accept(large, "large"), accept(wire, "small"))
        assert answers == [Accepted()] * 3

    asyncio.run(run())
    assert turns.index("small") <= 2
    assert turns.count("piece") >= 2 * len(large) // PIECE_BYTES
    assert [entry.items for entry in journal.entries] == [1, 4000, 4000]
    assert journal.entries[1].payload is large


def test_of_a_large_request_bad_spans_alone_are_rejected(journal: Any) -> None:
    receiver = Ingest(journal, Telemetry("receive"), "me")
    spans = [span(number, attributes(30)) for number in range(1, 2001)]
    spans[5] = attributes(1)
    spans[1500] = field(1, b"short") + attributes(40)
    outcome = asyncio.run(receiver.accept(Signal.TRACES, request_of(*spans), Encoding.PROTOBUF, transport="http"))
    assert isinstance(outcome, Accepted)
    assert outcome.rejected == 2
    kept = [one for index, one in enumerate(spans) if index not in (5, 1500)]
    found = REQUESTS[Signal.TRACES].FromString(journal.entries[0].payload)
    expected = REQUESTS[Signal.TRACES].FromString(request_of(*kept))

    def all_spans(request: Any) -> list[Any]:
        return [(by.resource, one) for by in request.resource_spans for scope in by.scope_spans for one in scope.spans]

    assert all_spans(found) == all_spans(expected)
    assert journal.entries[0].items == 1998


LARGE: dict[str, Callable[[], bytes]] = {
    "real spans": lambda: request_of(*[span(number, ATTRIBUTES) for number in range(1, 48_001)]),
    "4 MiB of the smallest spans": lambda: request_of(*[span(number) for number in range(1, 140_001)]),
    "one large text": lambda: request_of(span(1, field(5, b"x" * 60 * MIB))),
    "a hundred vectors": lambda: request_of(
        span(1, field(9, field(2, field(5, field(1, b"\x21" + b"12345678") * 160_000))))
    ),
    "20,000 resources": lambda: b"".join(request_of(span(number)) for number in range(1, 20_001)),
}


@each("what", LARGE)
def test_large_requests_of_spans_are_taken(serve: Serve, what: str) -> None:
    served, wire = serve(), LARGE[what]()
    assert len(wire) > 1_000_000
    assert send(served, Signal.TRACES, wire, "") == 200
    [entry] = served.journal.entries
    assert entry.payload == wire
