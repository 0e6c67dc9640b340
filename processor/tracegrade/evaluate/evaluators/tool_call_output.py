"""tool-call-output: did the expected calls give the expected outputs?

Each expected call, in order, takes the first unused call of its name whose output is equal. The score is the share of
expected calls that found one. With ``strict``, order matters per name: the first expected call of a name is compared
with the first call of that name, the second with the second; 1 when all are equal, else 0. Further calls never matter.
Nothing expected and nothing called is 1, only one of them empty is 0.

Outputs are compared whole. A text equals the same text, and a number, true or false that was written so; a text that
is the JSON of an object or a list also equals any output of the same value, and an expected value that is no text also
equals an output that is its JSON text. An absent or null output reads as the empty text, expected or found. With
``subset``, an object may have further members than the expected ones; nested values are still compared whole.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.compare.assignment import Matches, pair_first, pair_in_turn
from tracegrade.evaluate.compare.call_by_call import Compared, Comparison, CompiledCalls
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls, expected_output
from tracegrade.evaluate.compare.outputs import ActualOutput, ActualOutputs, Output
from tracegrade.evaluate.criteria.expected import Difference, ExpectedObject
from tracegrade.evaluate.criteria.expected_words import members_in_words
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.criteria.value_modes import ComparedValues
from tracegrade.evaluate.evaluator import Evaluator, calls_named
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.wording import OutputExcerpts
from tracegrade.evaluate.work import Work


class CallWithOutput(ParameterModel):
    """One call and its output."""

    name: Annotated[str, Field(description="The tool.")]
    output: Annotated[Output, Field(description="What it gives: a value or a matcher.")]


class Criteria(ComparedValues):
    """What is expected."""

    tool_outputs: Annotated[list[CallWithOutput], Field(description="The calls, in any order across tools.")]

    @cached_property
    def expected(self) -> CompiledCalls[ActualOutput]:
        """The calls, with these outputs."""
        outputs = [call.output for call in self.tool_outputs]
        return self._compared_by([each.equals for each in outputs], [each.differences for each in outputs])

    @cached_property
    def at_least(self) -> CompiledCalls[ActualOutput]:
        """The calls, with outputs that have these members at least."""
        outputs = [call.output for call in self.tool_outputs]
        differ = [partial(each.differences, partly=True) for each in outputs]
        return self._compared_by([each.equals_within for each in outputs], differ)

    def _compared_by(
        self,
        wanted: Sequence[Matches[ActualOutput]],
        differ: Sequence[Callable[[ActualOutput, Work], Iterator[Difference]]],
    ) -> CompiledCalls[ActualOutput]:
        calls = self.tool_outputs
        return CompiledCalls([call.name for call in calls], [call.output.text for call in calls], wanted, differ)


class Settings(NotedSettings):
    """How it is compared."""

    strict: Annotated[bool, Field(description="The calls of each tool in this order; 1 when all equal, else 0.")] = (
        False
    )
    subset: Annotated[bool, Field(description="Objects may have further members than the expected ones.")] = False
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


_COMPARED = Compared("explained_tool_calls_outputs", "output", "output", OutputExcerpts)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    pair = pair_in_turn if settings.strict else pair_first
    expected = criteria.at_least if settings.subset else criteria.expected
    comparison = Comparison(_COMPARED, evidence, expected, ActualOutputs(evidence))
    return comparison.score(pair, all_or_nothing=settings.strict)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    partly = settings.subset
    return ExpectedCalls([expected_output(call.name, call.output, partly=partly) for call in criteria.tool_outputs])


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    if criteria.values is not None:
        return []
    return [f"a call of {call.name} is made, where {_gave(call.output, settings)}" for call in criteria.tool_outputs]


def _gave(output: Output, settings: Settings) -> str:
    (expected,) = output.parts()
    is_object = isinstance(expected.opened(), ExpectedObject)
    rest = ", and there is nothing else in it" if is_object and not settings.subset else ""
    return ", and ".join(members_in_words("output", expected)) + rest


EVALUATOR = Evaluator(
    name="tool-call-output",
    summary="Did the expected calls give the expected outputs?",
    Criteria=Criteria,
    Settings=Settings,
    reads=frozenset({"output"}),
    knows_unknown=True,
    compared=calls_named(lambda criteria: criteria.expected.by_name.keys()),
    pairs_in_turn=lambda criteria, settings: criteria.expected.names_one_twice,
    score=_score,
    sentences=_sentences,
    settings_said=frozenset({"subset"}),
    expected_calls=_expected_calls,
)
