"""tool-call-args: were the expected calls made with the expected arguments?

Each expected call, in order, takes the first unused call of its name whose arguments match. The score is the share of
expected calls that found one; with ``strict`` it is 1 when all did, else 0. Arguments match whole: the same names with
equal values, or, with ``subset``, at least the expected ones (nested values are still compared whole). Neither the
order of calls nor further calls matter. Nothing expected and nothing called is 1, only one of them empty is 0.

With ``pairing: positional`` the second expected call of a name is compared with the second call of that name, whatever
the first was; UiPath's documents read either way, and their evaluator takes the first that matches.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from tracegrade.evaluate.call_facts import arguments
from tracegrade.evaluate.compare.assignment import Matches, pair_first, pair_in_turn
from tracegrade.evaluate.compare.call_by_call import Compared, Comparison, CompiledCalls
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls, expected_arguments
from tracegrade.evaluate.criteria.expected import Difference, ExpectedObject, differences
from tracegrade.evaluate.criteria.expected_words import members_in_words
from tracegrade.evaluate.criteria.field_types import ExpectedArguments
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.criteria.value_modes import ComparedValues
from tracegrade.evaluate.evaluator import Evaluator, calls_named
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.json_values import written
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
        Literal["first", "positional"],
        Field(description="Calls of one name: the first that matches, or the second with the second."),
    ] = "first"
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


_COMPARED = Compared("explained_tool_calls_args", "arguments", "args", ArgumentExcerpts)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expected = criteria.at_least if settings.subset else criteria.expected
    pair = pair_in_turn if settings.pairing == "positional" else pair_first
    comparison = Comparison(_COMPARED, evidence, expected, evidence.once(arguments))
    return comparison.score(pair, all_or_nothing=settings.strict)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    partly = settings.subset
    return ExpectedCalls([expected_arguments([call.name], call.args, partly=partly) for call in criteria.tool_calls])


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


EVALUATOR = Evaluator(
    name="tool-call-args",
    summary="Were the expected calls made with the expected arguments?",
    Criteria=Criteria,
    Settings=Settings,
    reads=frozenset({"arguments"}),
    knows_unknown=True,
    compared=calls_named(lambda criteria: criteria.expected.by_name.keys()),
    pairs_in_turn=lambda criteria, settings: criteria.expected.names_one_twice,
    score=_score,
    sentences=_sentences,
    settings_said=frozenset({"subset"}),
    expected_calls=_expected_calls,
)
