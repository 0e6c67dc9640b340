"""tool-call-output: did the expected calls give the expected outputs?

Each expected call is paired with a call of its name whose output is equal, and no call with two. The score is the share
of expected calls that have one; with ``strict`` it is 1 when all have, else 0. Further calls never matter. Nothing
expected and nothing called is 1, only one of them empty is 0.

``pairing`` decides between several calls of one tool. With ``first``, each expected call, in order, takes the first
unused call whose output is equal, and none is given back. With ``best``, as many as possible are paired. With
``positional``, the second expected call of a name is compared with the second call of that name, whatever the first
was. ``positional`` is the default with ``strict``; else ``first`` is, where all expected values are literal, and
``best`` as soon as one is a matcher, or compared by ``values``.

Outputs are compared whole. A text equals the same text, and a number, true or false that was written so; a text that
is the JSON of an object or a list also equals any output of the same value, and an expected value that is no text also
equals an output that is its JSON text. An absent or null output reads as the empty text, expected or found. With
``subset``, an object may have further members than the expected ones; nested values are still compared whole.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.compare.call_by_call import Compared, Comparison, CompiledCalls
from tracegrade.evaluate.compare.expected_calls import ExpectedCalls, expected_output
from tracegrade.evaluate.compare.outputs import ActualOutput, ActualOutputs, Output
from tracegrade.evaluate.criteria.expected import Difference, ExpectedObject
from tracegrade.evaluate.criteria.expected_words import members_in_words
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.criteria.value_modes import ComparedValues
from tracegrade.evaluate.evaluator import Evaluator, ScoreRange, calls_named, share_of_expected
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.pairing.by_name import (
    PAIRINGS,
    Matches,
    PairingWord,
    first_contended,
    may_contend,
    pairing_in_force,
)
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
    pairing: Annotated[
        PairingWord | None,
        Field(
            description="Calls of one name: the first that is equal, as many as possible, or the second with the "
            "second; if omitted: positional with strict, else first, or best with matchers."
        ),
    ] = None
    default_evaluation_criteria: DefaultCriteria[Criteria] = None


_COMPARED = Compared("explained_tool_calls_outputs", "output", "output", OutputExcerpts)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expected = criteria.at_least if settings.subset else criteria.expected
    comparison = Comparison(_COMPARED, evidence, expected, ActualOutputs(evidence))
    return comparison.score(PAIRINGS[_pairing(criteria, settings)], all_or_nothing=settings.strict)


def _pairing(criteria: Criteria, settings: Settings) -> PairingWord:
    if settings.strict and settings.pairing is None:
        return "positional"
    return pairing_in_force(settings.pairing, criteria)


def _contended(criteria: Criteria, settings: Settings) -> tuple[int, int] | None:
    outputs = [call.output for call in criteria.tool_outputs]

    def contend(one: int, other: int) -> bool:
        expected, of_other = outputs[one].decoded(), outputs[other].decoded()
        return may_contend(expected, of_other, partly=settings.subset)

    return first_contended(criteria.expected.names, contend)


def _expected_calls(criteria: Criteria, settings: Settings) -> ExpectedCalls:
    partly = settings.subset
    calls = [expected_output(call.name, call.output, partly=partly) for call in criteria.tool_outputs]
    return ExpectedCalls(calls)


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    if criteria.values is not None:
        return []
    return [f"a call of {call.name} is made, where {_gave(call.output, settings)}" for call in criteria.tool_outputs]


def _gave(output: Output, settings: Settings) -> str:
    (expected,) = output.parts()
    is_object = isinstance(expected.opened(), ExpectedObject)
    rest = ", and there is nothing else in it" if is_object and not settings.subset else ""
    return ", and ".join(members_in_words("output", expected)) + rest


def _with_further_calls(evidence: Evidence, criteria: Criteria, settings: Settings, score: float) -> ScoreRange:
    return share_of_expected(score, _pairing(criteria, settings), expects_calls=bool(criteria.tool_outputs))


EVALUATOR = Evaluator(
    name="tool-call-output",
    summary="Did the expected calls give the expected outputs?",
    Criteria=Criteria,
    Settings=Settings,
    reads=frozenset({"output"}),
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
