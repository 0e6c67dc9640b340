"""ragas-tool-call-accuracy: as Ragas's ToolCallAccuracy judges it.

The names called must be those of the reference, in its order (with ``strict_order: false`` as often, in any order), or
the score is 0. It is then the mean over reference calls of the share of their arguments that the call has with the same
value *as text*, as Python prints it: 1 equals "1" and not 1.0, true equals "True". Further arguments are free; a
reference without arguments is met by a call without alone. Without order, calls are paired after sorting both sides by
name, then by names and printed values of their arguments: not the best pairing. Nothing expected and nothing called is
1, only one of them empty is 0.

Source: explodinggradients/ragas 0.4, metrics/_tool_call_accuracy.py.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.call_by_call import MAX_EXPLAINED, line
from tracegrade.evaluate.calls import ArgumentExcerpts, all_of, arguments, counted, listed, names
from tracegrade.evaluate.evaluator import Evaluator, ParameterModel, calls_named
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.expected import Expected, LiteralValue
from tracegrade.evaluate.reference_calls import ReferenceCall
from tracegrade.evaluate.values import excerpt, scalar_text
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue

# Arguments are sorted by this much of their text: long enough to tell calls apart, short enough to be cheap.
_SORTED_BY = 10_000


class Criteria(ParameterModel):
    """What is expected."""

    reference_tool_calls: Annotated[list[ReferenceCall], Field(description="The calls, in their order.")]

    @cached_property
    def names(self) -> list[str]:
        """The names of the calls."""
        return [call.name for call in self.reference_tool_calls]

    @cached_property
    def sorted_indexes(self) -> list[int]:
        """The calls by name and arguments."""
        calls = self.reference_tool_calls
        return sorted(range(len(calls)), key=lambda i: (calls[i].name, *_printed_members(calls[i].args.source)))


class Settings(ParameterModel):
    """How it is compared."""

    strict_order: Annotated[bool, Field(description="The names in the order of the reference.")] = True


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    references = criteria.reference_tool_calls
    made = evidence.once(names)
    if not references or not made:
        alike = not references and not made
        text = "No calls were expected and none were made." if alike else "Calls were expected or made, but not both."
        return Score(float(alike), {"aligned": alike}, text)
    aligned = criteria.names == made if settings.strict_order else sorted(criteria.names) == sorted(made)
    if not aligned:
        order = "in the order of the reference" if settings.strict_order else "as often as in the reference"
        return Score(0.0, {"aligned": False}, f"The names called are not those expected, {order}.")
    actual = evidence.once(arguments)
    wanted: Sequence[int] = range(len(references))
    found: Sequence[int] = range(len(made))
    if not settings.strict_order:
        wanted = criteria.sorted_indexes
        found = sorted(found, key=lambda position: (made[position], *_printed_members(actual[position])))
    work = Work(evidence=evidence)
    shares = [0.0] * len(references)
    lines: dict[int, str] = {}
    excerpts = evidence.once(ArgumentExcerpts)
    for index, position in zip(wanted, found, strict=True):
        work.position = position
        shares[index] = _share(references[index], actual[position], work)
        if index < MAX_EXPLAINED:
            lines[index] = line(excerpts[position], references[index].args.text, shares[index])
    score = sum(shares) / len(shares)
    details: dict[str, JsonValue] = {"aligned": True, "explained_tool_calls": [lines[index] for index in sorted(lines)]}
    if score == 1:
        return Score(score, details, f"{all_of(len(references), 'reference call')} made with the expected arguments.")
    others = [call.name for call, share in zip(references, shares, strict=True) if share < 1]
    return Score(
        score,
        details,
        f"The names are those expected; in {counted(len(others), 'call')} not all arguments: {listed(others)}.",
    )


def _share(reference: ReferenceCall, actual: dict[str, JsonValue], work: Work) -> float:
    members = reference.args.members
    if not members:
        return float(not actual)
    return sum(key in actual and _same_text(member, actual[key], work) for key, member in members.items()) / len(
        members
    )


def _same_text(expected: Expected, actual: JsonValue, work: Work) -> bool:
    if not isinstance(expected, LiteralValue):
        return expected.matches(actual, work)  # a matcher says what it takes
    return same_text(expected.source, actual, work)


def same_text(left: JsonValue, right: JsonValue, work: Work) -> bool:
    """Whether two values are printed alike: 1 and "1" are, 1 and 1.0 are not; objects in the order of their members.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    if isinstance(left, str) != isinstance(right, str):
        text, other = (left, right) if isinstance(left, str) else (right, left)
        return not isinstance(other, dict | list | str) and text == _printed(other)
    pairs = [(left, right)]
    while pairs:
        a, b = pairs.pop()
        work.spend()
        if type(a) is not type(b):
            return False
        if isinstance(a, dict) and isinstance(b, dict):
            if list(a) != list(b):
                return False
            pairs.extend(zip(a.values(), b.values(), strict=True))
        elif isinstance(a, list) and isinstance(b, list):
            if len(a) != len(b):
                return False
            pairs.extend(zip(a, b, strict=True))
        elif a != b:
            return False
    return True


def _printed_members(value: JsonValue) -> list[str]:
    """The names of the members, in order, each before its value as text."""
    members = sorted(value.items()) if isinstance(value, dict) else []
    return [text for key, member in members for text in (key, _printed(member))]


def _printed(value: JsonValue) -> str:
    """A text as it is, any other scalar as Python prints it; lists and objects, which are only sorted by, as JSON."""
    if isinstance(value, str):
        return value[:_SORTED_BY]
    if value is None or isinstance(value, bool):
        return str(value)
    return excerpt(value, _SORTED_BY) if isinstance(value, dict | list) else scalar_text(value)


EVALUATOR = Evaluator(
    name="ragas-tool-call-accuracy",
    summary="Are the names called those of the reference, and how many of their arguments the same?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    reads=frozenset({"arguments"}),
    compared=calls_named(lambda criteria: set(criteria.names)),
)
