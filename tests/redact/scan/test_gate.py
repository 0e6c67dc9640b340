"""Where in a request something may be found, and what is remembered of it."""

import json
import random
from functools import cache
from typing import Any
from uuid import UUID

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from build import each
from build.planted import ALL, SECRETS, names_for, pieces_of
from redact.scan.test_planted import SPLIT, _wire
from tracegrade.redact.scan import known_parts
from tracegrade.redact.scan.gate import Gate
from tracegrade.redact.scan.known_parts import KnownParts
from tracegrade.sensitive.registry import all_detectors

MAIL = "ann.lee@corp.io"


# Its detectors are compiled once; tests of what it remembers make their own.
@cache
def gate() -> Gate:
    return Gate(all_detectors(), (), {})


def test_a_place_is_where_something_stands_and_the_rest_can_be_left_alone() -> None:
    wire = b"".join((_wire("x" * 4000), _wire(f"see {MAIL}"), _wire("y" * 4000)))
    ((start, end),) = gate().places(wire)
    assert start <= wire.index(MAIL.encode()) < end
    assert end - start < 1000


def test_what_something_was_found_in_is_looked_at_again_and_what_nothing_was_found_in_is_not() -> None:
    gate = Gate(all_detectors(), (), {})
    held, empty = _wire(f"to {MAIL}"), _wire("12345678A", "v 4.0.0.0")
    assert not gate.may_hold(empty)
    known = len(gate._seen._new)
    assert known
    for _ in range(2):
        assert gate.may_hold(held)
        assert not gate.may_hold(empty)
    assert len(gate._seen._new) == known


def test_what_is_remembered_is_bounded_and_holds_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_parts, "_MOST", 10)
    known = KnownParts()
    digests = [known.digest(MAIL.encode() + bytes((number,)), "word") for number in range(100)]
    for digest in digests:
        known.add(digest)
        assert digests[0] in known  # what comes again stays
    assert len(known._new) + len(known._old) <= 20
    assert digests[1] not in known
    assert MAIL.encode() not in repr(vars(known)).encode()
    assert KnownParts().digest(b"x", "word") != KnownParts().digest(b"x", "word") != known.digest(b"x", "number")


# The length of a text stands before it as a byte, and that may be any: a digit, a letter, an end of line.
@pytest.mark.parametrize("lengths", [(0, 1, 9, 12, 33, 50), pytest.param(range(120), marks=pytest.mark.long)])
@each("name", sorted(SECRETS))
def test_a_secret_is_seen_beside_each_byte_that_may_stand_before_or_behind_a_text(name: str, lengths: Any) -> None:
    value = SECRETS[name](random.Random(name))
    for length in lengths:
        # The length of the text stands before it, a tag and another length behind it.
        assert gate().may_hold(_wire(value + " " * length)), length
        assert gate().may_hold(_wire(value, "x" * length)), length


@pytest.mark.parametrize("lengths", [(0, 1, 9, 12, 33, 50), pytest.param(range(120), marks=pytest.mark.long)])
@each("name", sorted(SECRETS))
def test_a_secret_is_seen_in_bytes_of_any_length(name: str, lengths: Any) -> None:
    value = SECRETS[name](random.Random(name)).encode()
    for length in lengths:
        wire = AnyValue(bytes_value=value + b" " * length).SerializeToString()
        assert gate().may_hold(wire), length


@each("name", sorted(SECRETS))
def test_a_secret_is_seen_behind_a_character_that_json_escapes(name: str) -> None:
    value = SECRETS[name](random.Random(name))
    for before in ("是", "📧", "é"):
        assert gate().may_hold(_wire(json.dumps({"said": f"{before}{value}。"}))), before


def test_uuids_and_the_address_of_the_host_itself_are_not_looked_at_closely() -> None:
    gate = Gate(all_detectors(), (), {})
    chance = random.Random(1)
    for _ in range(200):
        uuid = str(UUID(bytes=chance.randbytes(16), version=4))
        told = [uuid, f"run--{uuid}-0", json.dumps({"1": uuid, "v": "1.45.2", "id": uuid}), "at 127.0.0.1, as ever"]
        assert not gate.may_hold(_wire(*told, uuid)), uuid
    assert len(gate._seen._new) < 20


@each("disguise", ALL)
def test_a_secret_is_seen_in_a_disguise_that_json_escapes(disguise: str) -> None:
    for name in names_for(disguise):
        said = json.dumps({"user_id": ALL[disguise](SECRETS[name](random.Random(f"{disguise} {name}")))})
        assert gate().may_hold(_wire(said)), said


@pytest.mark.parametrize(("key", "value"), [("ssn", "219099999"), ("phone", "0301234567"), ("password", "hunter22")])
def test_a_value_under_a_name_is_seen_however_deep_in_json(key: str, value: str) -> None:
    text = json.dumps({key: value})
    for depth in range(6):
        assert gate().may_hold(_wire(text)), depth
        text = json.dumps({"inner": text})


def test_a_uuid_is_seen_where_it_is_part_of_a_secret() -> None:
    uuid = "5b8e9d3c-17a0-4e1f-9d4e-0123456789ab"
    gate = Gate(all_detectors(), (), {"of ours": "[0-9a-f]{8}-17a0-"})
    plain = Gate(all_detectors(), (), {})
    assert gate.may_hold(_wire(uuid))
    assert not plain.may_hold(_wire(uuid))
    assert plain.may_hold(_wire("the key sk-lf-", uuid))
    assert plain.may_hold(_wire(json.dumps(["sk-lf-", uuid])))
    for text in (f"sk-lf-{uuid}", f"postgres://shop:{uuid}@db-7/orders", f"password={uuid}", f"{uuid}@corp.io"):
        assert plain.may_hold(_wire(text)), text


@pytest.mark.parametrize("count", [2, pytest.param(30, marks=pytest.mark.long)])
@each("name", sorted(SECRETS))
def test_a_secret_is_seen_beside_uuids_and_numbers(name: str, count: int) -> None:
    chance = random.Random(name)
    for number in range(count):
        value = SECRETS[name](chance)
        uuid = UUID(bytes=chance.randbytes(16), version=4 if number % 2 else 1)
        for other in (str(uuid), f"order {chance.randrange(10 ** chance.randint(1, 7))}"):
            for text in (f"{other} {value}", f"{value}, {other}", f"{other}: {value}\n{other}"):
                assert gate().may_hold(_wire(text)), text
            if name in SPLIT:
                pieces = pieces_of(value, chance, 2)
                assert gate().may_hold(_wire(other, *pieces, other)), pieces
                assert gate().may_hold(_wire(json.dumps({"id": other, "l": pieces, "next": other}))), pieces


def test_a_private_key_is_seen_that_is_cut_within_its_first_line() -> None:
    key = SECRETS["private_key"](random.Random(1))
    for place in range(1, 40):
        assert gate().may_hold(_wire("u 99b1500e", f"x {key[:place]}", f"{key[place:]} y", "u")), place
