"""`$from` finds by an index what reading all earlier calls for each value would find."""

from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from build import call, each
from tracegrade.evaluate.criteria.compile import compile_expected
from tracegrade.evaluate.criteria.data_flow import FromMatcher
from tracegrade.evaluate.criteria.occurrences import NUMBER, ScalarIndex, folded, holds_words, number_of
from tracegrade.evaluate.criteria.text_matchers import text_of
from tracegrade.evaluate.criteria.value_matchers import is_number
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.json_values import decoded, json_equal
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall


def plainly_seen(actual: JsonValue, source: str, which: str, evidence: Evidence, position: int | None) -> bool:
    """What the matcher says, by its definition: every earlier call read for this one value."""
    if source == "prompt":
        return evidence.prompt is not None and _anywhere(actual, evidence.prompt)
    tool, _, rest = source.partition(".")
    part, _, path = rest.partition(".")
    before = [call for call in _before(evidence, position) if tool in (call.name, "*")]
    if which != "any":
        before = before[:1] if which == "first" else before[-1:]
    for one in before:
        status, value = getattr(one, f"{part}_status"), getattr(one, part)
        if status == "ok":
            value = decoded(value) if isinstance(value, str) else value
            if not path and _anywhere(actual, value):
                return True
            if path and isinstance(value, dict) and path in value and _equal(actual, value[path]):
                return True
    return False


def _before(evidence: Evidence, position: int | None) -> Sequence[ToolCall]:
    calls = evidence.run.calls
    if position is None:
        return calls
    current = evidence.calls[position]
    place = next((place for place, call in enumerate(calls) if call is current), len(calls))
    made_with = (current.batch, current.agent_span_id)
    return [c for c in calls[:place] if current.batch is None or (c.batch, c.agent_span_id) != made_with]


def _equal(actual: JsonValue, found: JsonValue) -> bool:
    if json_equal(actual, found, Work()):
        return True
    if isinstance(actual, str) != isinstance(found, str):
        return (text := text_of(actual)) is not None and text == text_of(found)
    return False


def _anywhere(actual: JsonValue, value: JsonValue) -> bool:
    sought = list(_scalars(actual))
    return bool(sought) and all(any(_seen_as(item, leaf) for leaf in _scalars(value)) for item in sought)


def _scalars(value: JsonValue) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _scalars(item)
    else:
        yield value


def _seen_as(actual: Any, leaf: Any) -> bool:
    if actual is None or actual == "":
        return False
    if not isinstance(leaf, str):
        return leaf is not None and _equal(actual, leaf)
    if is_number(actual):
        return any(number_of(token) == actual for token in NUMBER.findall(leaf))
    return holds_words(folded(leaf), folded(text_of(actual) or ""), Work())


# Few and short, so that they meet: words within words, numbers within words, scripts with and without spaces.
_parts = st.sampled_from(
    ["a", "A", "ab", "1", "12", "1.5", "-1", ",", ".", "_", " ", "\n", "東", "京", "true", "é", "ก"]
)
_texts = st.sampled_from(["a", "b", "a b", "1"]) | st.lists(_parts, max_size=5).map("".join)
_scalar = _texts | st.sampled_from([None, True, False, 0, 1, 1.0, -1, 12, 1.5, 10**400, 10**400 + 1])
_values = _scalar | st.recursive(
    _scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
_calls = st.lists(
    st.tuples(
        st.sampled_from("fg"),
        _values,
        _values,
        st.sampled_from(["ok", "ok", "truncated"]),
        st.sampled_from([None, 1, 2]),
        st.sampled_from(["", "agent"]),
    ),
    max_size=6,
)
_sources = st.sampled_from(
    ["prompt", "*.output", "*.arguments", "f.output", "g.arguments", "f.output.x", "f.arguments.y"]
)


def _made(output: JsonValue, batch: int | None = None) -> list[Any]:
    return [("f", None, output, "ok", batch, "")]


@settings(max_examples=4 * settings().max_examples)
@given(
    made=_calls,
    wanted=_values,
    source=_sources,
    which=st.sampled_from(["any", "first", "last"]),
    prompt=st.none() | _texts,
    alone=st.booleans(),
    position=st.none() | st.integers(0, 5),
)
# Scalars that are seen in calls of their own only; words across two texts; a batch that goes on after the call.
@example([*_made(["a"]), *_made(["b"]), *_made("")], ["a", "b"], "*.output", "any", None, False, 2)
@example([*_made(["a", "b"]), *_made("")], "a b", "*.output", "any", None, False, 1)
@example([*_made("", 1), *_made("a"), *_made("", 1)], "a", "*.output", "any", None, False, 0)
def test_the_index_says_what_the_definition_says(
    made: list[Any],
    wanted: JsonValue,
    source: str,
    which: str,
    prompt: str | None,
    alone: bool,
    position: int | None,
) -> None:
    calls = [
        call(name, args, arguments_status="ok", output=output, output_status=status, batch=batch, agent_span_id=agent)
        for name, args, output, status, batch, agent in made
    ]
    if position is not None and position >= len(calls):
        position = None
    evidence = Evidence(calls, prompt)
    if alone and position is not None:
        evidence, position = Evidence(calls[position : position + 1], prompt, whole_run=Evidence(calls)), 0
    criterion = compile_expected({"$from": {"source": source, "call": which}})
    assert isinstance(criterion, FromMatcher)
    # Besides what was drawn, all that stands somewhere: drawn values meet too seldom.
    for actual in [wanted, *(part for name, args, output, *_ in made for part in (args, output))]:
        work = Work(evidence=evidence)
        work.position = position
        expected = plainly_seen(actual, source, which, evidence, position)
        found = criterion.matches(actual, work)
        # What cannot be read may hold it: that is not what the index says.
        assert (found is True) is expected, actual


def test_a_value_takes_as_much_work_however_many_calls_came_before() -> None:
    def taken(count: int) -> int:
        calls = [
            call("read", {"page": f"/pages/{n:04}"}, output=f"Page {n}: see /pages/{n + 1:04}") for n in range(count)
        ]
        evidence = Evidence(calls)
        work = Work(evidence=evidence)
        work.position = count - 1
        for source in ("*.output", "read.arguments.page"):  # which each evaluation reads once
            compile_expected({"$from": source}).matches("/pages/none", work)
        left = work.left
        assert compile_expected({"$from": "*.output"}).matches(f"/pages/{count - 1:04}", work)
        assert not compile_expected({"$from": "*.output"}).matches("/pages/none", work)
        assert not compile_expected({"$from": "read.arguments.page"}).matches(f"/pages/{count:04}", work)
        return left - work.left

    assert taken(1000) == taken(10)


@each(
    ("value", "start", "place"),
    [("New York", 0, 1), ("york", 0, 1), ("Yor", 0, 3), (1200.5, 0, 0), (1200.5, 1, 1), (["Rome", "york"], 0, 2)],
)
def test_the_worked_example_of_the_module(value: JsonValue, start: int, place: int) -> None:
    outputs = [{"city": "Rome", "price": 1200.5}, "New York: EUR 1,200.50", "York is north of Rome"]
    assert ScalarIndex([0, 1, 2], [*enumerate(outputs)]).first(value, start, 3, Work()) == place
