"""Where in a request something may be found, and what is remembered of it."""

import random

import pytest

from redact.scan.planted import SECRETS
from redact.scan.test_planted import _wire
from tracegrade.redact.registry import all_detectors
from tracegrade.redact.scan import seen
from tracegrade.redact.scan.gate import Gate
from tracegrade.redact.scan.seen import Seen

MAIL = "ann.lee@corp.io"


def test_a_place_is_where_something_stands_and_the_rest_can_be_left_alone() -> None:
    wire = b"".join((_wire("x" * 4000), _wire(f"see {MAIL}"), _wire("y" * 4000)))
    ((start, end),) = Gate(all_detectors(), (), {}).places(wire)
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
    monkeypatch.setattr(seen, "_MOST", 10)
    known = Seen()
    digests = [known.digest(MAIL.encode() + bytes((number,)), "word") for number in range(100)]
    for digest in digests:
        known.add(digest)
        assert digests[0] in known  # what comes again stays
    assert len(known._new) + len(known._old) <= 20
    assert digests[1] not in known
    assert MAIL.encode() not in repr(vars(known)).encode()
    assert Seen().digest(b"x", "word") != Seen().digest(b"x", "word") != known.digest(b"x", "number")


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_a_secret_is_seen_beside_each_byte_that_may_stand_before_or_behind_a_text(name: str) -> None:
    gate = Gate(all_detectors(), (), {})
    value = SECRETS[name](random.Random(name))
    for length in range(60):
        # The length of the text stands before it, a tag and another length behind it.
        assert gate.may_hold(_wire(value + " " * length)), length
        assert gate.may_hold(_wire(value, "x" * length)), length
