"""tool-call-args: were the expected calls made with the expected arguments?

Each expected call is paired with a call of its name whose arguments match, and no call with two. The score is the share
of expected calls that have one; with ``strict`` it is 1 when all have, else 0. Arguments match whole: the same names
with equal values, or, with ``subset``, at least the expected ones (nested values are still compared whole). Neither the
order of calls nor further calls matter. Nothing expected and nothing called is 1, only one of them empty is 0.

``pairing`` decides between several calls of one tool. With ``first``, each expected call, in order, takes the first
unused call that matches, and none is given back: the score may depend on the order in which they are written. With
``best``, as many as possible are paired. With ``positional``, the second expected call of a name is compared with the
second call of that name, whatever the first was. UiPath's evaluator, which takes the first that matches, knows literal
values only: where all expected values are literal, ``first`` is the default; as soon as one is a matcher, or compared
by ``values``, ``best`` is.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated, TypeAlias

from pydantic import Field

from tracegrade.evaluate.call_facts import arguments
from tracegrade.evaluate.compare.call_by_call import Compared, Comparison, CompiledCalls
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls, expected_arguments
from tracegrade.evaluate.criteria.expected import Difference, ExpectedObject, differences
from tracegrade.evaluate.criteria.expected_words import members_in_words
from tracegrade.evaluate.criteria.field_types import ExpectedArguments
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.criteria.value_modes import ComparedValues
from tracegrade.evaluate.evaluator import Evaluator, ScoreRange, calls_named, share_of_expected
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import written
from tracegrade.evaluate.pairing.by_name import (
    PAIRINGS,
    Matches,
    PairingWord,
    first_contended,
    may_contend,
    pairing_in_force,
)
from tracegrade.evaluate.wording import ArgumentExcerpts
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue

Arguments: TypeAlias = dict[str, JsonValue]


class CallWithArguments(ParameterModel):
    """One call and its arguments."""

    name: Annotated[str, Field(description="The tool.")]
    args: Annotated[ExpectedArguments, Field(description="Its arguments: values or matchers, by name.")]


class Criteria(ComparedValues):
    """What is expected."""

    tool_calls: Annotated[list[CallWithArguments], Field(description="The calls, in any order.")]

    @cached_property
    def expected(self) -> CompiledCalls[Arguments]:
        """The calls, with these arguments and no others."""
        args = [call.args for call in self.tool_calls]
        differ = [partial(differences, each) for each in args]
        return self._compared_by([each.matches for each in args], differ, written([each.source for each in args]))

    @cached_property
    def at_least(self) -> CompiledCalls[Arguments]:
        """The calls, with these arguments at least."""
        args = [call.args for call in self.tool_calls]
        differ = [partial(differences, each, partly=True) for each in args]
        return self._compared_by([each.matches_within for each in args], differ)

    def _compared_by(
        self,
        wanted: Sequence[Matches[Arguments]],
        differ: Sequence[Callable[[Arguments, Work], Iterator[Difference]]],
        written: bytes | None = None,
    ) -> CompiledCalls[Arguments]:
        calls = self.tool_calls
        names, texts = [call.name for call in calls], [call.args.text for call in calls]
        return CompiledCalls(names, texts, wanted, differ, written)


class Settings(NotedSettings):
    """How it is compared."""

    strict: Annotated[bool, Field(description="1 when every expected call was made, else 0.")] = False
    subset: Annotated[bool, Field(description="Calls may have further arguments than the expected ones.")] = False
    pairing: Annotated[
        PairingWord | None,
        Field(
            description="Calls of one name: the first that matches, as many as possible, or the second with the "
            "second; first if omitted, or best with matchers."
        ),
    ] = None
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


_COMPARED = Compared("explained_tool_calls_args", "arguments", "args", ArgumentExcerpts)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expected = criteria.at_least if settings.subset else criteria.expected
    comparison = Comparison(_COMPARED, evidence, expected, evidence.once(arguments))
    return comparison.score(PAIRINGS[_pairing(criteria, settings)], all_or_nothing=settings.strict)


def _pairing(criteria: Criteria, settings: Settings) -> PairingWord:
    return pairing_in_force(settings.pairing, criteria)


def _contended(criteria: Criteria, settings: Settings) -> tuple[int, int] | None:
    args = [call.args for call in criteria.tool_calls]
    return first_contended(
        criteria.expected.names, lambda one, other: may_contend(args[one], args[other], partly=settings.subset)
    )


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    partly = settings.subset
    calls = [expected_arguments([call.name], call.args, partly=partly) for call in criteria.tool_calls]
    return ExpectedCalls(calls)


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    if criteria.values is not None:
        return []
    return [f"a call of {call.name} is made{_given(call.args, settings)}" for call in criteria.tool_calls]


def _given(args: ExpectedObject, settings: Settings) -> str:
    """What is expected of a call's arguments, to stand behind it."""
    if not args.members:
        return "" if settings.subset else " without arguments"
    rest = "" if settings.subset else ", and there is no other argument"
    return f", where {', and '.join(members_in_words('args', args))}{rest}"


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    return share_of_expected(score, _pairing(criteria, settings), expects_calls=bool(criteria.tool_calls))


EVALUATOR = Evaluator(
    name="tool-call-args",
    summary="Were the expected calls made with the expected arguments?",
    Criteria=Criteria,
    Settings=Settings,
    reads=frozenset({"arguments"}),
    knows_unknown=True,
    compared=calls_named(lambda criteria: criteria.expected.by_name.keys()),
    pairing=lambda criteria, settings: _pairing(criteria, settings) if criteria.expected.names_one_twice else None,
    contended=_contended,
    score=_score,
    sentences=_sentences,
    settings_said=frozenset({"subset"}),
    expected_calls=_expected_calls,
    with_further_calls=_with_further_calls,
)
