from dataclasses import fields
from typing import Any

import orjson
import pytest

from build.records import summary_of
from tracegrade.codec.packing import Unreadable, pack
from tracegrade.codec.results import decode_result, encode_result, new_result, unpack_result, unpack_summary
from tracegrade.model.evaluation import Decision, Evaluation, JudgedSubject, Pair, Pairing
from tracegrade.model.tool_call import ToolCall, ToolError
from tracegrade.model.trace_result import NotDecoded, RunSummary, TraceSummary


def _distinct(record: type, **given: Any) -> Any:
    """A record of which no two fields are alike."""
    return record(**{field.name: field.name for field in fields(record)} | given)


def _evaluations(pair: Pair) -> list[Evaluation]:
    pairings = (Pairing(range(3)), Pairing([1, None, 0, None], {3}))
    return [_distinct(Evaluation, pair=pair, pairs=pairs) for pairs in (None, *(pairing.pairs for pairing in pairings))]


@pytest.mark.parametrize("hidden", [False, True])
def test_what_is_packed_comes_back_field_by_field(hidden: bool) -> None:
    call = _distinct(ToolCall, error=ToolError("timeout", "too late"), failure_hidden=hidden)
    subject = _distinct(JudgedSubject, missing=["root"])
    pair = _distinct(Pair, subject=subject)
    measured = (("tokens", 12.5), ("cost", None))
    decision = _distinct(Decision, pair=pair, evaluations=_evaluations(pair), measured=measured)
    shared = {name: getattr(subject, name) for name in ("tenant", "run", "trace_id", "revision", "close_reason")}
    shared |= {name: getattr(subject, name) for name in ("complete", "missing", "release")}
    trace = _distinct(
        TraceSummary,
        **shared,
        resource={"a": 1},
        runs=[_distinct(RunSummary)],
        members={b"\x01" * 16: 2},
        not_decoded=_distinct(NotDecoded, tool_aliases={"refund": ["*_refund"]}),
    )
    result = new_result(trace, b"spans", [call], [decision])
    assert decode_result(encode_result(result)) == result
    assert unpack_summary(result.packed) == trace


def test_a_summary_of_before_0008_says_no_version_and_of_a_run_what_was_known() -> None:
    run = {"span_id": "00f067aa0ba902b7", "agent": "support", "parent_span_id": None, "session": None, "model": "m"}
    earlier = summary_of().to_json() | {"runs": [run]}
    del earlier["tracegrade"]
    found = unpack_summary(pack(orjson.dumps([1, earlier, [], [], []])))
    assert found == summary_of(runs=[RunSummary("00f067aa0ba902b7", "support", model="m")])


def test_evaluations_from_before_pairings_were_stored_have_none() -> None:
    subject = ["agent", "a", "a", None, "", "", 0]
    evaluation = ["id", "order", "tool-call-order", None, 1.0, 1.0, "pass", "", "", {}]
    decision = [0, "rule", "hash", "low", 1.0, "evaluated", "pass", "", [evaluation]]
    packed = pack(orjson.dumps([1, summary_of().to_json(), [], [subject], [decision]]))
    (found,) = unpack_result(packed, b"").decisions[0].evaluations
    assert found.pairing is None
    assert found.details == {}


def test_damaged_results_and_those_of_another_version_are_named() -> None:
    for packed, said in ((b"?", "damaged"), (pack(b"[2]"), "version 2 found, expected 1"), (pack(b"[1]"), "cannot be")):
        with pytest.raises(Unreadable, match=said):
            unpack_summary(packed)
    with pytest.raises(Unreadable, match="version 9 found, expected 2"):
        decode_result(b"\x09\0\0\0\0")
    with pytest.raises(Unreadable, match="cannot be read"):
        decode_result(b"\x02")
