"""Planted secrets are found in every disguise, by the search and by the one look at the request before it."""

import json
import random
from base64 import b64encode
from collections.abc import Sequence
from functools import cache

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from build import each, planted
from build.redaction import attributes_of, one_span, redacted
from tracegrade.redact.scan import Scanner
from tracegrade.sensitive.registry import DETECTORS, all_detectors

SPLIT = sorted(name for name in planted.SECRETS if all(one.joins for one in DETECTORS[name]))


@cache
def scanner() -> Scanner:
    return Scanner(all_detectors(), (), {})


def _wire(*texts: str) -> bytes:
    """A span with each text in an attribute, some numbers between them."""
    span = Span()
    for number, text in enumerate(texts):
        attribute = span.attributes.add()
        attribute.key = f"some.key{'x' * (number * 7 % 40)}"
        attribute.value.string_value = text
        between = span.attributes.add()
        between.key = "n"
        between.value.int_value = number
    return span.SerializeToString()


def _left(texts: Sequence[str]) -> list[str]:
    left = list(texts)
    for found in reversed(scanner().find(texts, [""] * len(texts))):
        left[found.text] = left[found.text][: found.start] + "#" + left[found.text][found.end :]
    return left


@each("disguise", planted.ALL)
def test_a_secret_is_found_in_a_disguise(disguise: str) -> None:
    disguised = planted.ALL[disguise]
    for name in planted.names_for(disguise):
        value = planted.SECRETS[name](random.Random(f"{disguise} {name}"))
        texts = ["before", disguised(value), "after"]
        found = scanner().find(texts, [""] * 3)
        assert found, (name, texts)
        assert {one.text for one in found} == {1}, (name, texts)
        assert value not in _left(texts)[1], name
        assert scanner().may_hold(_wire(*texts)), (name, texts)


@pytest.mark.parametrize("numbers", [(2, 3), pytest.param((2, 2, 2, 2, 3, 5), marks=pytest.mark.long)])
@each("name", SPLIT)
def test_a_secret_is_found_that_is_split_over_neighbouring_texts(name: str, numbers: tuple[int, ...]) -> None:
    chance = random.Random(name)
    for number in numbers:
        value = planted.SECRETS[name](chance)
        pieces = planted.pieces_of(value, chance, number)
        texts = ["user", *pieces, "and so on"]
        left = _left(texts)
        assert value not in "".join(left), texts
        assert (left[0], left[-1]) == ("user", "and so on"), texts
        assert scanner().may_hold(_wire(*texts)), texts
        assert scanner().may_hold(_wire("a", json.dumps({"m": {"l": pieces}}), "b")), texts
        assert scanner().may_hold(_wire(json.dumps({f"k{place}": piece for place, piece in enumerate(pieces)}))), texts


@pytest.mark.parametrize("count", [1, pytest.param(5, marks=pytest.mark.long)])
@each("name", SPLIT)
def test_a_secret_is_found_that_is_split_over_the_parts_of_a_message(name: str, count: int) -> None:
    chance = random.Random(f"parts {name}")
    for _ in range(count):
        pieces = planted.pieces_of(planted.SECRETS[name](chance), chance, 2)
        parts = [{"type": "text", "content": piece} for piece in pieces]
        for messages in ([{"role": "user", "parts": parts}], [{"role": "user", "content": piece} for piece in pieces]):
            for said in (json.dumps(messages), json.dumps({"a": json.dumps(messages)})):
                found = attributes_of(redacted(one_span(gen_ai__input__messages=said)))
                assert max(pieces, key=len) not in found["gen_ai.input.messages"], pieces
                assert "text" in found["gen_ai.input.messages"] or "parts" not in said


@each(
    ("texts", "keys", "left"),
    [
        (["to abcdefghi", "jkl@corp-1.io now"], ["content"] * 2, ["to #", "# now"]),
        (["abc", "defghi", "jkl@corp.io"], ["a.0.content", "a.1.content", "a.2.content"], ["#"] * 3),
        (["abc", "user", "def@corp.io"], ["content", "role", "content"], ["#", "user", "#"]),
        (["abc", "def@corp.co", ".uk"], ["content"] * 3, ["#", "#", "#"]),
        # Behind a whole address there is nothing of it but the end of a domain.
        (["ann@corp.io", "bob"], ["to"] * 2, ["#", "bob"]),
        (["abc", "def@corp.io", "bob", "eve@corp.io"], ["to"] * 4, ["#", "#", "#", "#"]),
        # Another speaks, whether roles stand before their texts or behind them.
        (["user", "today", "assistant", "ann@corp.io"], ["role", "content"] * 2, ["user", "today", "assistant", "#"]),
        (["today", "user", "ann@corp.io", "assistant"], ["content", "role"] * 2, ["today", "user", "#", "assistant"]),
        (["user", "abc", "user", "def@corp.io"], ["role", "content"] * 2, ["user", "#", "user", "#"]),
        (["abc", "user", "def@corp.io", "user"], ["content", "role"] * 2, ["#", "user", "#", "user"]),
        # Other names: nobody can say whether the word before belongs to the address.
        (["send_mail", "ann@corp.io"], ["name", "to"], ["send_mail", "#"]),
    ],
)
def test_an_address_that_is_split_before_its_sign_goes_as_a_whole_where_its_parts_have_one_name(
    texts: list[str], keys: list[str], left: list[str]
) -> None:
    for found in reversed(scanner().find(texts, keys)):
        texts[found.text] = texts[found.text][: found.start] + "#" + texts[found.text][found.end :]
    assert texts == left


def test_a_number_in_a_column_is_no_part_of_the_next_one() -> None:
    for text in (
        "12\n34\n56\n78\n90\n12\n34",
        "sk-\nlearn\nand-more",
        "4111\n\n1111\n\n1111\n\n1111",
        "2026\n11\n23\n",
    ):
        assert scanner().find([text], [""]) == [], text


def test_base64_of_text_that_is_mostly_not_ascii_is_read_from_its_begin() -> None:
    """What is in it in plain letters is short, and looks like more of them one sign earlier."""
    for said in ("Straße über Köln – 5371454444262173 – größer", "Straße über Köln – 31616654A – größer"):
        text = b64encode(said.encode()).decode()
        assert [text[one.start : one.end] for one in scanner().find([text], [""])] == [text]
        assert scanner().may_hold(_wire(text))


@each("before", [r"\n", r"\\n", r"\t", r"\r\n"])
@each("name", sorted(planted.SECRETS))
def test_a_value_is_found_behind_an_escape_in_text_that_is_not_json(name: str, before: str) -> None:
    """As in JSON that was cut off."""
    value = planted.SECRETS[name](random.Random(name))
    text = '{"content": "a' + before + value.replace("\n", r"\n") + before + "b"
    assert scanner().find([text], [""]), text
    assert scanner().may_hold(_wire(text)), text


def test_base64_is_found_behind_a_long_word_that_looks_like_a_line_of_it() -> None:
    for length in range(60, 75):
        text = "q" * length + "\n" + planted.DISGUISES["utf-16"](planted.SECRETS["npm_token"](random.Random(length)))
        assert scanner().find([text], [""]), length
        assert scanner().may_hold(_wire(text)), length


def test_a_value_that_begins_within_what_only_looks_like_one_is_seen() -> None:
    texts = ["user", "text", "PMNMU", "V85T1", "0A543", "S", "gpt-4"]
    assert scanner().may_hold(_wire(*texts))
    assert [one.text for one in scanner().find(texts, [""] * len(texts))] == [2, 3, 4, 5]


def test_a_sign_may_end_within_a_character() -> None:
    assert scanner().find(["x ann@ac", "m.\u0663\u0663"], ["", ""]) is not None


def test_any_bytes_can_be_looked_at() -> None:
    chance = random.Random(5)
    for make in planted.SECRETS.values():
        for _ in range(20):
            value = make(chance).encode()
            cut = chance.randrange(len(value))
            scanner().may_hold(value[:cut] + chance.randbytes(30) + value[cut:] + chance.randbytes(60))
            scanner().may_hold(value[:cut] + bytes(chance.choices(range(0xC0, 0x100), k=40)))


def test_nothing_is_found_in_what_holds_nothing() -> None:
    texts = [
        "Order ORD-1001 was created on 2026-11-23T09:00:00Z: 2 x A-1, total 99.99 EUR",
        json.dumps({"id": "5b8e9d3c-17a0-4e1f-9d4e-0123456789ab", "time": 1795310022046634930, "tags": ["41", "42"]}),
        "call_Ab3dEf7hIjKlMnOpQrStUvWx", "conversation-42", "gpt-4o-mini-2024-07-18", "openinference 0.1.45.2",
        "sk-learn task-list-of-the-whole-department", "https://shop.example/v1/orders?limit=50&page=2#top",
        "x" * 400, "0" * 300, "=" * 300, "%" * 300, "user@host", "a = b & c; d < e",
    ]  # fmt: skip
    assert scanner().find(texts, [""] * len(texts)) == []
    assert not scanner().may_hold(_wire(*texts))


def test_a_value_under_a_name_that_says_so_is_found() -> None:
    for key, value, detector in (
        ("db.password", "hunter2!", "named_secret"), ("apiKey", "a1b2c3d4", "named_secret"),
        ("customer_phone", "0171 2345678", "phone"), ("customerSSN", "078051120", "us_ssn"),
    ):  # fmt: skip
        assert [one.detector for one in scanner().find([value], [key])] == [detector]
        span = Span()
        span.attributes.add(key=key).value.string_value = value
        assert scanner().may_hold(span.SerializeToString()), key
        assert scanner().may_hold(_wire(json.dumps({"x": {key: value}}))), key
        assert scanner().may_hold(_wire(json.dumps({"x": json.dumps({key: value})}))), key


def test_own_names_and_patterns_are_seen_in_a_request_whatever_edges_they_ask_for() -> None:
    scanner = Scanner((), ["Ann Lee"], {"employee": r"^E-\d{6}\b[^$]?$"})
    for text in ("E-123456", "ANN LEE", "&#69;-123456", "QW5uIExlZSBpcyBoZXJl"):
        assert scanner.find([text], [""]), text
        assert scanner.may_hold(_wire("x", text)), text
    assert not scanner.may_hold(_wire("E-12345", "Ann Le"))


@each(
    "piece",
    [
        "a",
        "1 ",
        "%41",
        "\\u0041",
        "\\",
        "=40",
        "&#64;",
        "QUJD",
        "4a",
        "eyJ",
        "sk-",
        '"1","2",',
        "\u200b",
        "@a.",
        "-----BEGIN ",
    ],
)
def test_work_is_bounded(piece: str) -> None:
    """By what nests, splits or steps back: a test that hangs when some expression does."""
    text = piece * (20_000 // len(piece))
    scanner().find([text, *[piece] * 300], [""] * 301)
    scanner().may_hold(_wire(text, *[piece] * 300))


@pytest.mark.parametrize("size", [100_000, pytest.param(1_500_000, marks=pytest.mark.long)])
def test_a_large_picture_is_looked_at_once(size: int) -> None:
    """A test that hangs when each sign in a long text in base64 is looked at with all that follows."""
    picture = b64encode(random.Random(1).randbytes(size)).decode()
    list(scanner().places(_wire("see", picture, "there")))
    assert scanner().may_hold(_wire("see", picture, b64encode(b"it is ann.lee@corp.io, yes").decode()))
