"""What is written in another form gets a stand-in; what is not keeps its own form."""

import random
from functools import cache

from build import each
from build.planted import ALL, SECRETS, names_for
from tracegrade.redact.redactor import Redactor
from tracegrade.redact.scan.disguised import disguised
from tracegrade.sensitive.detector import Detector
from tracegrade.sensitive.registry import all_detectors


@cache
def detectors() -> tuple[Detector, ...]:
    return (disguised("disguised", all_detectors()), *all_detectors())


@each("disguise", ALL)
def test_a_value_in_another_form_is_replaced_at_once(disguise: str) -> None:
    chance = random.Random(3)
    for name in names_for(disguise):
        value = SECRETS[name](chance)
        text = ALL[disguise](value)
        redactor = Redactor(detectors())
        found = redactor.text(text)
        assert redactor.counts, (name, text)
        assert value[len(value) // 2 :] not in found, (name, text)
        assert Redactor(detectors()).text(found) == found, (name, text)


@each(
    ("text", "expected"),
    [
        ("mail ann@corp.io", "mail user1@example.com"),
        ("mail a\u00adnn@corp.io, bob@corp.io", "mail [redacted-1], user1@example.com"),
        ("cGxlYXNlIG1haWwgYW5uQGNvcnAuaW8gdG9kYXk=", "[redacted-1]"),
        ("id=eNozNtAzNwEhYxMADPkCKw==", "id=[redacted-1]"),  # 30.74.74.34: what repeats is packed shorter
        ("cGxlYXNlIG1haWwgbm9ib2R5IGF0IGFsbCB0b2RheQ==", "cGxlYXNlIG1haWwgbm9ib2R5IGF0IGFsbCB0b2RheQ=="),
    ],
)
def test_only_what_is_in_another_form_loses_its_own(text: str, expected: str) -> None:
    assert Redactor(detectors()).text(text) == expected
