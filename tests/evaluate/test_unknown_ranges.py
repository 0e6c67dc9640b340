"""What cannot be read is put in place, each value that it may be: every score then lies within the range."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import call
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.evidence import Score
from tracegrade.evaluate.registry import EVALUATORS
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

VALUES: list[JsonValue] = ["a", "ab", 1, 2]
MASK, HASHES = "[redacted]", ["[hash:3f9a0c:5d41402abc4b2a76b971]", "[hash:3f9a0c:00000000000000000000]"]
_MATCHERS: list[JsonValue] = [
    {"$gte": 2},
    {"$regex": "b"},
    {"$one_of": ["a", {"$lt": 2}]},
    {"$type": "string"},
    {"$any": True},
    {"$absent": True},
    {"$contains": "b"},
    {"$length": 2},
    {"$case_insensitive": "A"},
    {"$numeric_tolerance": 1},
    {"$schema": {"type": "integer"}},
    {"$type": "string", "$length": {"$gte": 2}},
    {"$from": "find.output.x"},
    {"$from": "find.output"},
    {"x": {"$gte": 2}},
    ["a", {"$type": "string"}],
]
_expected = st.sampled_from(VALUES) | st.sampled_from([each for each in _MATCHERS if each != {"$absent": True}])
_args = st.dictionaries(st.sampled_from("xy"), st.sampled_from(VALUES) | st.sampled_from(_MATCHERS), max_size=2)
_names = st.sampled_from(["find", "pay"])
_expected_calls = st.lists(st.fixed_dictionaries({"name": _names, "args": _args}), min_size=1, max_size=3)
_expected_outputs = st.lists(st.fixed_dictionaries({"name": _names, "output": _expected}), min_size=1, max_size=3)
_step = st.fixed_dictionaries({"tool": _names, "args": _args})
_two_steps = st.lists(_step, min_size=2, max_size=2)
_values = st.sampled_from([*VALUES, None]) | st.fixed_dictionaries({"x": st.sampled_from(VALUES)})
_made = st.lists(
    st.tuples(_names, st.dictionaries(st.sampled_from("xy"), _values, max_size=2), _values, st.sampled_from([None, 1])),
    min_size=1,
    max_size=4,
)
_pairing = st.sampled_from(["first", "best", "positional"])
_where = st.fixed_dictionaries(
    {"tool": _names, "where": st.fixed_dictionaries({"args": _args})}
) | st.fixed_dictionaries({"tool": _names, "where": st.fixed_dictionaries({"output": _expected})})
_constraint = st.one_of(
    st.fixed_dictionaries({"before": _where, "comes": _where | _names}),
    st.fixed_dictionaries({"after": _where, "comes": _names, "same": st.just("x")}),
    st.fixed_dictionaries({"never": _where}),
    st.fixed_dictionaries({"at_least": st.just(1), "of": _where}),
    st.fixed_dictionaries({"at_most": st.just(1), "of": _names, "same": st.just("x")}),
    st.fixed_dictionaries({"not_both": st.tuples(_where, _where).map(list)}),
)
_case = st.fixed_dictionaries({"expected_tool": _names, "expected_params": _args})


def _items(criteria: dict[str, st.SearchStrategy[Any]], **of_settings: Any) -> st.SearchStrategy[tuple[Any, Any]]:
    """Criteria and settings; each setting may be left out."""
    chosen = {name: values if isinstance(values, st.SearchStrategy) else st.sampled_from(values)
              for name, values in of_settings.items()}  # fmt: skip
    return st.tuples(st.fixed_dictionaries(criteria), st.fixed_dictionaries({}, optional=chosen))


# What is expected of each evaluator that judges in spite of what cannot be read.
ITEMS: dict[str, st.SearchStrategy[tuple[Any, Any]]] = {
    "tool-call-args": _items(
        {"tool_calls": _expected_calls}, strict=[True], subset=[True], pairing=_pairing
    ),
    "tool-call-output": _items(
        {"tool_outputs": _expected_outputs},
        strict=[True], subset=[True], pairing=_pairing,
    ),
    "tool-call-accuracy": _items(
        {"reference_tool_calls": _expected_calls},
        mode=["flexible"],
        argument_match_threshold=[0.5, 1.0],
        pairing=_pairing,
    ),
    "trajectory": _items(
        {"tool_calls": _expected_calls},
        match=["exact", "in_order", "any_order", "unordered", "subset"],
        args=["exact", "superset", "subset"],
        score=["recall", "precision", "f1"],
        call_credit=["fractional", {"threshold": 0.5}],
        pairing=_pairing,
        occurrence=["first", "last"],
        efficiency=[{"redundancy_penalty": 0.25}],
        negate=[True],
        outputs=["exact"],
    ),
    "partial-order": _items(
        {
            "steps": st.lists(
                st.one_of(
                    st.fixed_dictionaries({"tool": _names, "args": _args}, optional={"optional": st.just(True)}),
                    st.fixed_dictionaries({"parallel": _two_steps}),
                    st.fixed_dictionaries({"choice": st.tuples(_step, _two_steps).map(list)}),
                ),
                max_size=2,
            ).map(lambda steps: [*steps, {"tool": "pay"}])
        },
        extra=["count"],
    ),
    "ragas-tool-call-accuracy": _items({"reference_tool_calls": _expected_calls}, strict_order=[False]),
    "ragas-tool-call-f1": _items({"reference_tool_calls": _expected_calls}),
    "param-accuracy": _items({"expected_params": _args}, occurrence=["last"], param_scoring=["fuzzy"]),
    "overall-score": _items({"expected_tool": _names, "expected_params": _args}, occurrence=["last"]),
    "tool-case": st.tuples(_case, st.just({})),
    "multi-turn": st.tuples(_case, st.just({})),
    "args-schema": _items(
        {"schemas": st.just({"*": {"properties": {"x": {"type": "string"}}, "required": ["y"]}})}
    ),
    "loop-repetition": st.tuples(st.just({}), st.fixed_dictionaries({"repetition_threshold": st.just(2)})),
    "constraints": st.tuples(
        st.fixed_dictionaries({"constraints": st.lists(_constraint, min_size=1, max_size=2)}), st.just({})
    ),
    "exact-match": _items({"expected_output": _expected}, negated=[True]),
    "contains": _items({"search_text": st.sampled_from(["a", "b", {"$regex": "b$"}])}, negated=[True]),
}  # fmt: skip


class _Place(NamedTuple):
    """What stands in a call, or in the answer without a position, and cannot be read.

    ``hidden`` is a mask, a hash, or "absent" of arguments or an output that were not recorded.
    """

    position: int | None
    part: str
    path: str | None
    hidden: str

    def put(self, calls: list[ToolCall], answer: JsonValue, value: JsonValue) -> JsonValue:
        """Put `value` there; returns the answer."""
        if self.position is None:
            return value
        call = calls[self.position]
        if value == "absent" and self.part == "arguments":
            call.arguments, call.arguments_status = None, "absent"
        elif value == "absent":
            call.output, call.output_status = None, "absent"
        elif self.path is None and self.part == "arguments":
            call.arguments, call.arguments_status = {"x": value}, "ok"
        elif self.path is None:
            call.output, call.output_status = value, "ok"
        elif self.part == "output" and self.hidden == "absent":
            call.output, call.output_status = {self.path: value}, "ok"
        else:
            whole = call.arguments if self.part == "arguments" else call.output
            assert isinstance(whole, dict), "a path leads into an object"
            whole[self.path] = value
        return answer


def _places(made: list[Any]) -> Iterator[tuple[int, str, str | None]]:
    for position, (_, arguments, output, _) in enumerate(made):
        yield from ((position, "arguments", name) for name in arguments or [None])
        yield position, "output", "x" if isinstance(output, dict) else None


def _calls(made: list[Any]) -> list[ToolCall]:
    return [
        call(name, dict(arguments), arguments_status="ok", batch=batch, turn=batch, start_ns=place,
             output=dict(output) if isinstance(output, dict) else output, output_status="ok", span_id=f"{place:016x}")
        for place, (name, arguments, output, batch) in enumerate(made)
    ]  # fmt: skip


def _range(name: str, criteria: Any, of_settings: Any, evidence: Evidence) -> tuple[float, float] | None:
    """The least and the most that the score may be; None where nothing is said of it."""
    evaluator = EVALUATORS[name]
    read, chosen = evaluator.read_criteria(criteria), evaluator.read_settings(of_settings)
    score: Score = evaluator.evaluate(evidence, read, chosen)
    if score.score is None:
        return None
    return score.ends.least, score.ends.most


_READ_ANSWER = ("exact-match", "contains")


@st.composite
def _hidden(draw: st.DrawFn, name: str, made: list[Any]) -> list[_Place]:
    """One to three places, and what hides them."""
    of_value = [MASK, *HASHES]
    if name in _READ_ANSWER:
        return [_Place(None, "final_answer", None, draw(st.sampled_from(of_value)))]
    drawn = draw(st.lists(st.sampled_from([*_places(made)]), min_size=1, max_size=3, unique=True))
    return [
        _Place(
            *place,
            draw(
                st.sampled_from(
                    ["absent"]
                    if place[1:] == ("arguments", None)
                    else [*of_value, "absent"]
                    if place[1] == "output"
                    else of_value
                )
            ),
        )
        for place in drawn
    ]


def _may_be(places: list[_Place], values: Sequence[JsonValue]) -> bool:
    """Whether `values` may be what is hidden: equal hashes are equal values, and others are not."""
    hashed = {
        (place.hidden, repr(value)) for place, value in zip(places, values, strict=True) if place.hidden in HASHES
    }
    return len(hashed) == len({one for one, _ in hashed}) == len({value for _, value in hashed})


# 50, and 5,000 with the profile "many": what decides is often one value of many.
DRAWS = settings().max_examples ** 2 // 8


@pytest.mark.parametrize("name", ITEMS)
@settings(max_examples=DRAWS)
@given(data=st.data())
def test_whatever_cannot_be_read_is_the_score_lies_within_the_range(name: str, data: st.DataObject) -> None:
    criteria, of_settings = data.draw(ITEMS[name])
    made, answer = data.draw(_made), data.draw(st.sampled_from(VALUES))
    places = data.draw(_hidden(name, made))

    def judged(values: Sequence[JsonValue], *, redacted: bool) -> tuple[float, float] | None:
        calls, final_answer = _calls(made), answer
        for place, value in zip(places, values, strict=True):
            final_answer = place.put(calls, final_answer, value)
        return _range(name, criteria, of_settings, Evidence(calls, "find and pay", final_answer, redacted=redacted))

    said = judged([place.hidden for place in places], redacted=True)
    if said is None:
        return
    for values in product(VALUES, repeat=len(places)):
        if _may_be(places, values) and (found := judged(values, redacted=False)) is not None:
            assert said[0] - 1e-9 <= found[0] <= found[1] <= said[1] + 1e-9, (values, found, said)
