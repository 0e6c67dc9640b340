import pytest
from pydantic import ValidationError

from build import each
from tracegrade.model.sample_point import sample_point
from tracegrade.rule.rule import Rule

IDS = [f"{number:032x}" for number in range(20_000)]


@pytest.mark.parametrize("share", [0.01, 0.05, 0.5])
def test_a_share_of_the_traces_is_sampled(share: float) -> None:
    sampled = sum(sample_point(trace_id) < share for trace_id in IDS)
    assert sampled == pytest.approx(share * len(IDS), abs=4 * (share * len(IDS)) ** 0.5)


def test_where_a_trace_stands_is_the_same_everywhere() -> None:
    # blake2b -l 64 of 32 zeros is 875865..., which is 0.5287 of ffffff...: changing this changes every sample.
    assert sample_point("0" * 32) == 0.5286925786349208


@each("written", [0, -0.1, 1.5, True, "5%", {"share": 0}, {"shar": 0.5}, None])
def test_what_is_no_share_is_refused(written: object) -> None:
    evaluate = [{"evaluator": "tool-call-order", "tool_calls_order": ["a"]}]
    with pytest.raises(ValidationError):
        Rule.model_validate({"id": "one", "evaluate": evaluate, "sample": written})
