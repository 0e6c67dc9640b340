"""Base64 of what is no text: only what it holds is looked for, and what stands in and beside it is found."""

import gzip
import random
from base64 import b64encode, urlsafe_b64encode
from functools import cache

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from build import each
from build.planted import DISGUISES, SECRETS
from tracegrade.redact.scan import Scanner, gate, scanner
from tracegrade.redact.scan.noise import blanked, noise_in
from tracegrade.sensitive.registry import all_detectors

RAW = random.Random(5).randbytes(60_000)
PICTURE = b64encode(RAW).decode()
FOR_URLS = urlsafe_b64encode(RAW).decode()
IN_LINES = "\n".join(PICTURE[begin : begin + 76] for begin in range(0, len(PICTURE), 76))
FOR_TOKENS = str.maketrans("+/", "-_")
MAIL = "ann.lee@corp.io"


@cache
def everything() -> Scanner:
    return Scanner(all_detectors(), (), {})


@each("text", [PICTURE, FOR_URLS, IN_LINES, IN_LINES.replace("\n", "\\n"), IN_LINES.replace("\n", "\\r\\n")])
def test_nearly_all_of_it_is_blank_to_detectors(text: str) -> None:
    noise = noise_in(text.encode())
    assert sum(end - start for start, end in noise) > 0.95 * len(text)
    assert len(blanked(text.encode(), noise)) == len(text)


@each(
    "text",
    [
        b64encode(("Please call Ann on Monday. " * 400).encode()).decode(),
        b64encode(("Привет, меня зовут Анна. " * 400).encode()).decode(),
        b64encode(("你好，我住在北京。" * 400).encode("utf-16")).decode(),
        "/".join(f"User_{number}/Order-{number * 7919}/acct{number:012}" for number in range(300)),
        "-".join(f"{random.Random(number).getrandbits(160):040x}" for number in range(200)),
        "-".join(PICTURE[begin : begin + 32].replace("+", "a").replace("/", "b") for begin in range(0, 20_000, 32)),
        "\n".join(f"AIza{PICTURE[begin : begin + 35].translate(FOR_TOKENS)}" for begin in range(0, 7000, 35)),
        "\\n".join(f"glpat-{PICTURE[begin : begin + 20].translate(FOR_TOKENS)}" for begin in range(0, 7000, 20)),
        "\r\n".join(f"{PICTURE[begin : begin + 93]}" for begin in range(0, 20_000, 93)),
        "A" * 10_000,
    ],
)
def test_what_may_hold_texts_numbers_or_tokens_is_none(text: str) -> None:
    assert noise_in(text.encode()) == []


@each(
    ("text", "found"),
    [
        (f'{{"data": "{PICTURE}", "to": "{MAIL}"}}', [MAIL]),
        (f"{MAIL} {FOR_URLS} {MAIL}", [MAIL, MAIL]),
        (f"{PICTURE},{MAIL},{PICTURE[:8000]}", [MAIL]),
        (IN_LINES + "\n\n" + b64encode(f"mail {MAIL} today".encode()).decode(), None),
        (b64encode(RAW[:9000] + f"\xff Author: {MAIL}\xff".encode("latin-1") + RAW[9000:]).decode(), "all"),
        (b64encode(gzip.compress(RAW + MAIL.encode())).decode(), "all"),
        (f"client_secret={PICTURE[:6000]}", [PICTURE[:6000]]),
    ],
)
def test_what_stands_in_it_and_beside_it_is_found(text: str, found: list[str] | str | None) -> None:
    parts = [text[one.start : one.end] for one in everything().find([text], [""])]
    assert parts == ([text] if found == "all" else found) if found else parts
    assert everything().may_hold(AnyValue(string_value=text).SerializeToString())


def test_a_private_key_goes_whole() -> None:
    body = "\n".join(PICTURE[begin : begin + 64] for begin in range(0, 6400, 64))
    text = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"
    (found,) = everything().find([text], [""])
    assert text[found.start : found.end].strip() == body


@pytest.mark.long
def test_secrets_beside_pictures_are_found_as_without_leaving_anything_out(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(11)
    for number in range(150):
        name, make = chance.choice(list(SECRETS.items()))
        disguise = chance.choice(list(DISGUISES.values()))
        begin = chance.randrange(20_000)
        picture = chance.choice((PICTURE, FOR_URLS, IN_LINES))[begin : begin + chance.randrange(2500, 9000)]
        between = chance.choice((" ", '"', ", ", "\n\n", ":"))
        secret = disguise(make(chance))
        text = between.join(chance.sample([secret, picture], 2))
        held = AnyValue(string_value=text).SerializeToString()
        found, may_hold = everything().find([text], [""]), everything().may_hold(held)
        with monkeypatch.context() as patch:
            patch.setattr(scanner, "noise_in", lambda data: [])
            patch.setattr(gate, "noise_in", lambda data: [])
            assert (found, may_hold) == (everything().find([text], [""]), True), (number, name, text[:200])
