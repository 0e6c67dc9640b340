"""Each word of a constraint means what its template of Declare means, in the best order of what was made together."""

from itertools import groupby, product
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

import build
from build import each
from evaluate.constraints.declare import kept, orders
from tracegrade.evaluate.constraints.check import check
from tracegrade.evaluate.constraints.forms import FORMS, BetweenTwo, Paired
from tracegrade.evaluate.evaluators.constraints import EVALUATOR
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.timeline import Concurrency
from tracegrade.evaluate.work import Work
from tracegrade.model.tool_call import ToolCall

PAIRED = [form for form in FORMS if issubclass(form, Paired)]
S = 1_000_000_000

Step: TypeAlias = tuple[
    str, int, int, int
]  # tool, value of the argument, seconds after the last call, seconds it takes

steps = st.lists(
    st.tuples(st.sampled_from("aabbx"), st.integers(1, 2), st.integers(0, 2), st.integers(1, 3)), max_size=7
)


def made(steps: list[Step]) -> tuple[list[ToolCall], list[list[ToolCall]]]:
    """Calls, and the groups in which they were made: a step that says 0 belongs to that of the call before it."""
    calls: list[ToolCall] = []
    turn = at = 0
    for name, number, moves, lasts in steps:
        turn += moves > 0
        at += moves * S
        calls.append(
            build.call(name, {"id": number}, batch=turn, turn=turn, start_ns=at + S, end_ns=at + S + lasts * S)
        )
    return calls, [list(group) for _, group in groupby(calls, key=lambda call: call.batch)]


def constraint(form: type[Paired], **conditions: Any) -> Paired:
    """``{before: a, comes: b}``, or as the word has it."""
    value = {form.word: "a", "also" if form.word == "if" else "comes": "b", **conditions}
    (read,) = EVALUATOR.read_criteria({"constraints": [value]}).constraints
    assert isinstance(read, Paired)
    return read


def counted(form: Paired, calls: list[ToolCall], *, concurrency: Concurrency = "batches", needing: str = "a") -> int:
    checked = check(form, Evidence(calls), Work(), concurrency)
    assert all(activation.certain and activation.at_worst is activation.at_best for activation in checked.activations)
    assert len(checked.activations) == sum(call.name in needing for call in calls)
    return sum(activation.at_worst for activation in checked.activations)


@each("form", PAIRED, ids=lambda form: form.word)
@each("same", [False, True])
@each("within_s", [None, 2])
@given(steps=steps)
def test_as_many_are_kept_as_in_the_best_order_that_is_possible(
    form: type[Paired], same: bool, within_s: int | None, steps: list[Step]
) -> None:
    calls, groups = made(steps)

    def agrees(one: ToolCall, other: ToolCall) -> bool:
        if same and one.arguments != other.arguments:
            return False
        if within_s is None:
            return True
        place = {id(call): at for at, call in enumerate(order)}
        first, second = sorted((one, other), key=lambda call: place[id(call)])
        return second.start_ns - first.end_ns <= within_s * S

    best = 0
    for order in orders(groups):
        if not same and form.template == "alternate_precedence":
            for call in order:
                call.arguments = {"id": 0}
        best = max(best, kept(form.template, order, "a", "b", agrees))
    conditions = ({"same": "id"} if same else {}) | ({} if within_s is None else {"within": f"{within_s}s"})
    assert counted(constraint(form, **conditions), calls) == best


@each("form", [form for form in PAIRED if form is not BetweenTwo], ids=lambda form: form.word)
@given(
    steps=steps.filter(lambda steps: len(steps) < 6),
    needing=st.sampled_from(["a", "ab"]),
    other=st.sampled_from(["a", "ab", "abx"]),
    same=st.booleans(),
)
def test_calls_that_are_meant_by_both_sides_have_their_best_order_too(
    form: type[Paired], steps: list[Step], needing: str, other: str, same: bool
) -> None:
    calls, groups = made(steps)

    def agrees(one: ToolCall, other: ToolCall) -> bool:
        return not same or one.arguments == other.arguments

    best = max(kept(form.template, order, needing, other, agrees) for order in orders(groups))
    conditions = {form.word: [*needing], "also" if form.word == "if" else "comes": [*other]}
    read = constraint(form, **conditions, **({"same": "id"} if same else {}))
    assert counted(read, calls, needing=needing) == best


@each("form", PAIRED, ids=lambda form: form.word)
@given(steps=steps)
def test_in_sequence_the_order_of_starts_is_the_one_that_counts(form: type[Paired], steps: list[Step]) -> None:
    calls, _ = made([(name, 1, max(moves, 1), lasts) for name, _, moves, lasts in steps])
    for call in calls:
        call.batch = call.turn = 1
    assert counted(constraint(form), calls, concurrency="sequential") == kept(
        form.template, calls, "a", "b", lambda *_: True
    )


@given(steps=steps, hidden=st.sets(st.integers(0, 6), min_size=1, max_size=3), form=st.sampled_from(PAIRED))
@settings(max_examples=2 * settings().max_examples)
def test_what_cannot_be_read_leaves_open_all_that_it_may_be(
    steps: list[Step], hidden: set[int], form: type[Paired]
) -> None:
    whole, _ = made(steps)
    calls, _ = made(steps)
    hidden &= set(range(len(calls)))
    for place in hidden:
        calls[place].arguments, calls[place].arguments_status = None, "redacted"
    read = constraint(form, same="id")
    seen = {each.calls[0]: each for each in check(read, Evidence(calls), Work()).activations}
    for numbers in product((1, 2, 3), repeat=len(hidden)):
        for place, number in zip(sorted(hidden), numbers, strict=True):
            whole[place].arguments = {"id": number}
        found = check(read, Evidence(whole), Work()).activations
        assert sum(each.at_worst for each in seen.values()) <= sum(each.at_worst for each in found)
        assert sum(each.at_worst for each in found) <= sum(each.at_best for each in seen.values())


@given(steps=steps, nameless=st.sets(st.integers(0, 6), min_size=1, max_size=2), form=st.sampled_from(PAIRED))
@settings(max_examples=2 * settings().max_examples)
def test_a_call_of_which_no_tool_is_known_leaves_open_whether_all_is_kept(
    steps: list[Step], nameless: set[int], form: type[Paired]
) -> None:
    whole, _ = made(steps)
    calls, _ = made(steps)
    nameless &= set(range(len(calls)))
    for place in nameless:
        calls[place].name = ""
    read = constraint(form)
    seen = check(read, Evidence(calls), Work()).activations
    for names in product("abx", repeat=len(nameless)):
        for place, name in zip(sorted(nameless), names, strict=True):
            whole[place].name = name
        found = check(read, Evidence(whole), Work()).activations
        if all(each.at_worst for each in seen):
            assert all(each.at_worst for each in found)
        if all(each.at_worst for each in found):
            assert all(each.at_best for each in seen if each.certain)
