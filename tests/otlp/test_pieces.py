from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from build import each
from build.dense import Dense, all_dense, field
from tracegrade.model.errors import NotTaken
from tracegrade.model.signal import Signal
from tracegrade.otlp import pieces as module
from tracegrade.otlp.pieces import WireError, count_messages, pieces
from tracegrade.otlp.request import PATHS, REQUESTS

DENSE = all_dense()


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WHOLE_BYTES", 300)
    monkeypatch.setattr(module, "PIECE_BYTES", 300)
    monkeypatch.setattr(module, "UNIT_MESSAGES", 150)
    monkeypatch.setattr(module, "_MAX_REPEATED_BYTES", 100)


def items(signal: Signal, request: Any) -> list[tuple[Any, Any, Any]]:
    """Every item with its resource and its scope."""
    resources, scopes, name = PATHS[signal]
    return [
        (by_resource.resource, by_scope.scope, item)
        for by_resource in getattr(request, resources)
        for by_scope in getattr(by_resource, scopes)
        for item in getattr(by_scope, name)
    ]


TEXT_FIELDS = {Signal.TRACES: 5, Signal.LOGS: 12, Signal.METRICS: 1}
NAMES = st.text(max_size=20) | st.text(min_size=90, max_size=400)
RESOURCES = st.lists(
    st.tuples(NAMES, st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=30)), max_size=3), st.booleans()), max_size=4
)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("signal", list(REQUESTS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(resources=RESOURCES)
def test_pieces_hold_what_the_request_holds_in_its_order(signal: Signal, resources: Any) -> None:
    text = TEXT_FIELDS[signal]
    wire = b""
    for name, scopes, resource_last in resources:
        resource = field(1, field(1, field(1, name.encode())))
        inside = b"".join(
            field(
                2, b"".join(field(2, field(text, item.encode())) for item in texts) + field(1, field(1, scope.encode()))
            )
            for scope, texts in scopes
        )
        wire += field(1, inside + resource if resource_last else resource + inside)
    found = [item for part in pieces(signal, wire) for item in items(signal, REQUESTS[signal].FromString(part))]
    assert found == items(signal, REQUESTS[signal].FromString(wire))


@pytest.mark.usefixtures("small_pieces")
def test_pieces_are_as_large_as_said() -> None:
    scope = field(1, field(1, b"shop")) + b"".join(field(2, field(5, b"x" * (number % 60))) for number in range(500))
    wire = field(1, field(1, b"") + field(2, scope) * 3)
    sizes = [len(piece) for piece in pieces(Signal.TRACES, wire)]
    assert len(sizes) > len(wire) // 300
    assert max(sizes) <= 300 + 100


def messages(message: Message) -> Iterator[Message]:
    for described, value in message.ListFields():
        if described.message_type is not None:
            for inner in value if described.is_repeated else [value]:
                yield inner
                yield from messages(inner)


@each("dense", DENSE, ids=lambda dense: f"{dense.signal.name}-{dense.name}")
def test_every_message_is_counted_whatever_its_depth(dense: Dense) -> None:
    wire = dense.request(2000)
    there = sum(1 for _ in messages(REQUESTS[dense.signal].FromString(wire)))
    assert there >= 1000
    assert there <= count_messages(dense.signal, wire) <= there + 2 * len(dense.numbers)


@pytest.mark.usefixtures("small_pieces")
@each("dense", DENSE, ids=lambda dense: f"{dense.signal.name}-{dense.name}")
def test_no_list_anywhere_makes_a_piece_of_more_messages_than_the_bound(dense: Dense) -> None:
    for size in (301, 1000, 20_000):
        counts = []
        with suppress(NotTaken):
            for piece in pieces(dense.signal, dense.request(size)):
                counts.append(count_messages(dense.signal, piece))  # until it is refused
        assert max(counts, default=0) <= 2 * 150 + 2 * len(dense.numbers)
        assert size < 20_000 or sum(counts) < size // 2, "it was refused"


@pytest.mark.usefixtures("small_pieces")
@each(
    "wire",
    [
        b"\x0a\x00" * 200 + b"\x0a",
        b"\x0a\x00" * 200 + b"\x0a\x05abc",
        b"\x0a\x00" * 200 + b"\x0a\x85\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        b"\x0a\x00" * 200 + b"\x0b\x0c",
        field(1, b"\x0a\xff\x7f" + bytes(400)),
        field(1, field(2, b"\x12\x7f" + bytes(20) * 20)[:-10]),
    ],
    ids=["cut", "cut in a text", "endless number", "group", "longer than its parent", "longer, deeper"],
)
def test_what_is_no_protobuf_is_said_to_be_none(wire: bytes) -> None:
    with pytest.raises(WireError):
        list(pieces(Signal.TRACES, wire))


def test_a_small_request_is_its_own_piece() -> None:
    wire = field(1, bytes(0))
    assert [piece is wire for piece in pieces(Signal.TRACES, wire)] == [True]


def test_a_large_text_makes_one_piece_and_is_copied_once() -> None:
    wire = field(1, field(2, field(2, field(5, b"x" * 3_000_000))))
    assert [len(piece) for piece in pieces(Signal.TRACES, wire) if piece] == [len(wire)]
