"""ragas-tool-call-accuracy: as Ragas's ToolCallAccuracy judges it.

The names called must be those of the reference, in its order (with ``strict_order: false`` as often, in any order), or
the score is 0. It is then the mean over reference calls of the share of their arguments that the call has with the same
value *as text*, as Python prints it: 1 equals "1" and not 1.0, true equals "True". Further arguments are free; a
reference without arguments is met by a call without alone. Without order, calls are paired after sorting both sides by
name, then by names and printed values of their arguments: not the best pairing. Nothing expected and nothing called is
1, only one of them empty is 0.

Source: explodinggradients/ragas 0.4, metrics/_tool_call_accuracy.py.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from tracegrade.display import count
from tracegrade.evaluate.call_facts import arguments, names
from tracegrade.evaluate.compare.differences import MAX_EXPLAINED, line, listed_differences, origins_of
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls, reference_calls
from tracegrade.evaluate.criteria.expected import Difference, Expected, LiteralValue
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.reference_call import ReferenceCall
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evaluator, ScoreRange
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import excerpt, scalar_text
from tracegrade.evaluate.pairing.by_name import candidates_by_name, most_pairs, with_next_unused
from tracegrade.evaluate.pairing.in_order import ExpectedOrder, arrangement, longest_common_subsequence
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.unknown import Arguments, arguments_or_unknown, in_both_readings
from tracegrade.evaluate.wording import ArgumentExcerpts, all_of, listed, were
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_unknown
from tracegrade.model.tri import Unknown

# Arguments are sorted by this much of their text: long enough to tell calls apart, short enough to be cheap.
_SORTED_BY = 10_000
_LEAST = 1e-9  # what a call of the right name is worth, whatever its arguments


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


def _judge(
    evidence: Evidence, criteria: Criteria, settings: Settings, optimistic: bool
) -> tuple[Score, Unknown | None]:
    references = criteria.reference_tool_calls
    made = evidence.once(names)
    if not references or not made:
        alike = not references and not made
        text = "No calls were expected and none were made."
        if not alike:
            text = "No call was made." if references else f"{were(len(made), 'call')} made, and none was expected."
        return Score(float(alike), {"aligned": alike}, text, pairing=Pairing([None] * len(references))), None
    is_tied: bool = evidence.once(Timeline).has_ties
    if not settings.strict_order:
        aligned = sorted(criteria.names) == sorted(made)
    elif is_tied:
        aligned = arrangement(criteria.names, made, evidence.once(Timeline).groups("sequential")) is not None
    else:
        aligned = criteria.names == made
    if not aligned:
        order = "their order" if settings.strict_order else "how often each was called"
        text = f"The tools called, or {order}, differ from the reference."
        return Score(0.0, {"aligned": False}, text, pairing=_by_name(criteria, evidence, settings)), None
    actual = evidence.once(arguments_or_unknown)
    wanted: Sequence[int] = range(len(references))
    found: Sequence[int] = range(len(made))
    if not settings.strict_order:
        wanted = criteria.sorted_indexes
        found = sorted(found, key=lambda position: (made[position], *_printed_members(actual[position])))
    work = Work(evidence=evidence, optimistic=optimistic)
    if settings.strict_order and is_tied:
        found = _in_best_order(references, evidence, actual, work)
    pairing = Pairing.of(len(references), zip(wanted, found, strict=True))
    shares = [0.0] * len(references)
    differ: list[tuple[str, Iterator[Difference]]] = []
    lines: dict[int, str] = {}
    excerpts = evidence.once(ArgumentExcerpts)
    for index, position in zip(wanted, found, strict=True):
        work.position = position
        shares[index] = _share(references[index], actual[position], work)
        if shares[index] < 1 and (unmet := _unmet(references[index], actual[position], work)):
            differ.append((references[index].name, iter(unmet)))
        if index < MAX_EXPLAINED:
            lines[index] = line(excerpts[position], references[index].args.text, shares[index])
    if is_tied or not settings.strict_order:  # which calls are compared depends on their arguments, too
        work.unbind()
    if not settings.strict_order and work.redacted and work.unknown is None:
        _note_unknown_order(evidence, work)
    score = sum(shares) / len(shares)
    details: dict[str, JsonValue] = {"aligned": True, "explained_tool_calls": [lines[index] for index in sorted(lines)]}
    if score == 1:
        text = f"{all_of(len(references), 'reference call')} made with the expected arguments."
        return Score(score, details, text, pairing=pairing), work.unknown
    shown = listed_differences("args", differ)
    if shown:
        details["differences"] = shown
    others = [call.name for call, share in zip(references, shares, strict=True) if share < 1]
    said = f"The right tools were called; {count(len(others), 'call')} with other arguments: {listed(others)}"
    return Score(score, details, "; ".join([said, *origins_of(shown)]) + ".", pairing=pairing), work.unknown


def _by_name(criteria: Criteria, evidence: Evidence, settings: Settings) -> Pairing | None:
    """The names that both sides have, which a reader compares; None where it takes too much work to see."""
    made = evidence.once(names)
    if settings.strict_order:
        order, groups = ExpectedOrder(criteria.names), evidence.once(Timeline).groups("sequential")
        try:
            return Pairing.of(len(criteria.names), longest_common_subsequence(order, made, groups, Work()))
        except EvaluatorError:
            return None
    return Pairing(with_next_unused(candidates_by_name(criteria.names, evidence), [None] * len(criteria.names)))


def _note_unknown_order(evidence: Evidence, work: Work) -> None:
    """Note what was redacted of the arguments of several calls of a tool, which are sorted by all of these."""
    times = Counter(evidence.once(names))
    for position, args in enumerate(evidence.once(arguments)):
        if times[evidence.calls[position].name] > 1 and holds_unknown(args):
            work.position = position
            work.note(work.unknown_value(args, bounded=False))


def _in_best_order(
    references: Sequence[ReferenceCall], evidence: Evidence, actual: Sequence[Arguments | Unknown], work: Work
) -> list[int]:
    """For each reference call the call made at its place, in the best order of tied ones; the names agree."""
    found: list[int] = []
    for group in evidence.once(Timeline).groups("sequential"):
        window = range(len(found), len(found) + len(group))
        fits: list[dict[int, float]] = []
        for position in group:
            work.position = position
            alike = (index for index in window if references[index].name == evidence.calls[position].name)
            fits.append({index: _LEAST + _share(references[index], actual[position], work) for index in alike})
        pairs = most_pairs(window, fits, work) if len(group) > 1 else [(window[0], 0)]
        found += [group[member] for _, member in pairs]
    return found


def _unmet(reference: ReferenceCall, actual: Arguments | Unknown, work: Work) -> list[Difference]:
    """Where a value was expected from elsewhere in the run, and is not that."""
    found: list[Difference] = []
    if isinstance(actual, Unknown):
        return found
    for key, member in reference.args.members.items():
        lookups = tuple(member.lookups(work))
        if lookups and not (key in actual and _same_text(member, actual[key], work)):
            problem: Literal["different", "missing"] = "different" if key in actual else "missing"
            found.append(Difference((key,), problem, member.source, actual.get(key), lookups))
    return found


def _share(reference: ReferenceCall, actual: Arguments | Unknown, work: Work) -> float:
    if isinstance(actual, Unknown):
        return float(work.takes(actual))
    members = reference.args.members
    if not members:
        return float(not actual)
    return sum(key in actual and _same_text(member, actual[key], work) for key, member in members.items()) / len(
        members
    )


def _same_text(expected: Expected, actual: JsonValue, work: Work) -> bool:
    if not isinstance(expected, LiteralValue) or (work.redacted and holds_unknown(actual)):
        return expected.accepts(actual, work)  # a matcher says what it takes
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


def _printed_members(value: "JsonValue | Unknown") -> list[str]:
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


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    return reference_calls(criteria.reference_tool_calls)


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    """As many calls as expected are scored, and no others."""
    return 0.0, 1.0 if len(evidence.calls) < len(criteria.reference_tool_calls) else score


EVALUATOR = Evaluator(
    name="ragas-tool-call-accuracy",
    summary="Do the called tools match the reference, and how many of their arguments?",
    Criteria=Criteria,
    Settings=Settings,
    score=in_both_readings(_judge),
    expected_calls=_expected_calls,
    asks=frozenset({"arguments"}),
    with_further_calls=_with_further_calls,
)
