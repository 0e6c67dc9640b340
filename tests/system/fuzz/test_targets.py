"""Every target of the fuzzer over inputs that hypothesis chooses; the fuzzer itself goes further, and for longer."""

import pytest
from fuzz.hostile_spans import KEYS, TEXTS, Choices, request
from fuzz.targets import TARGETS
from hypothesis import example, given
from hypothesis import strategies as st


@pytest.mark.parametrize("target", TARGETS)
@given(data=st.binary(max_size=600))
def test_any_bytes_are_taken(target: str, data: bytes) -> None:
    TARGETS[target](data)


@given(st.sampled_from(TEXTS), st.sampled_from(TEXTS))
@example("{}", "[" * 1100)  # two parsers find different mistakes
def test_any_text_is_a_value_and_a_rule_file(one: str, other: str) -> None:
    data = (one + other).encode("utf-8", "replace")
    TARGETS["values"](data)
    TARGETS["rules"](data)


def test_bytes_choose_spans_of_every_dialect() -> None:
    assert len(request(bytes(range(256))).resource_spans) == 1
    assert len(request(bytes([7, *range(250)])).resource_spans) == 8
    assert Choices(b"\x01").number(1 << 16) == 1
    assert len(KEYS) > 100
