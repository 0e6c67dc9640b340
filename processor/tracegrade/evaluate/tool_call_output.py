"""tool-call-output: did the expected calls give the expected outputs?

Each expected call, in order, takes the first unused call of its name whose output is equal. The score is the share of
expected calls that found one. With ``strict``, order matters per name: the first expected call of a name is compared
with the first call of that name, the second with the second; 1 when all are equal, else 0. Further calls never matter.
Nothing expected and nothing called is 1, only one of them empty is 0.

Outputs are compared whole. A text equals the same text, and a number, true or false that was written so; a text that
is the JSON of an object or a list also equals any output of the same value, and an expected value that is no text also
equals an output that is its JSON text. An absent or null output reads as the empty text, expected or found.
"""

from collections.abc import Iterator
from typing import Annotated, TypeAlias

from pydantic import Field, WithJsonSchema

from tracegrade.evaluate.call_by_call import Comparison
from tracegrade.evaluate.criteria import as_written, compiled_by
from tracegrade.evaluate.evaluator import Evaluator, Evidence, ParameterModel, Score
from tracegrade.evaluate.expected import Difference, Expected, LiteralValue, differences
from tracegrade.evaluate.matchers import compile_expected
from tracegrade.evaluate.pairing import pair_first, pair_in_turn
from tracegrade.evaluate.values import decoded, decoded_container, scalar_text
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue


class ActualOutput:
    """The output of one call: as it was read, and decoded when somebody asks, once."""

    __slots__ = ("_decoded", "value")

    def __init__(self, output: JsonValue) -> None:
        self.value: JsonValue = "" if output is None else output
        self._decoded: list[JsonValue] = []

    def decoded(self, work: Work) -> JsonValue:
        """The value whose JSON text this is, or the value itself."""
        if not isinstance(self.value, str):
            return self.value
        if not self._decoded:
            work.spend(1 + len(self.value) // CHARACTERS_READ_PER_STEP)
            self._decoded.append(decoded(self.value))
        return self._decoded[0]


class ExpectedOutput(Expected):
    """What is expected of an output: the criterion, and for a JSON text also the value it stands for."""

    __slots__ = ("_criterion", "_value")

    def __init__(self, source: JsonValue, criterion: Expected) -> None:
        super().__init__(source)
        self._criterion = LiteralValue("") if source is None else criterion
        container = decoded_container(source) if isinstance(source, str) else None
        self._value = None if container is None else LiteralValue(container)

    def equals(self, actual: ActualOutput, work: Work) -> bool:
        """Whether `actual` is what was expected.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if self._criterion.matches(actual.value, work):
            return True
        if isinstance(self.source, str) and isinstance(actual.value, bool | int | float):
            return self.source == scalar_text(actual.value)
        return (value := self.as_value()) is not None and value.matches(actual.decoded(work), work)

    def as_value(self) -> Expected | None:
        """The criterion for the decoded output; None when a text is expected that is no container's JSON."""
        if self._value is not None or isinstance(self.source, str | None):
            return self._value
        return self._criterion


Output: TypeAlias = Annotated[
    ExpectedOutput,
    compiled_by(lambda value, matchers: ExpectedOutput(value, compile_expected(value, matchers=matchers))),
    as_written,
    WithJsonSchema({}),
]


class ExpectedCall(ParameterModel):
    """One call and its output."""

    name: str
    output: Output


class Criteria(ParameterModel):
    """What is expected."""

    tool_outputs: Annotated[list[ExpectedCall], Field(description="The calls, in any order across tools.")]


class Settings(ParameterModel):
    """How it is compared."""

    name: str = "ToolCallOutputEvaluator"
    strict: Annotated[bool, Field(description="The calls of each tool in this order; 1 when all equal, else 0.")] = (
        False
    )
    default_evaluation_criteria: Criteria | None = None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expected = criteria.tool_outputs
    names = [call.name for call in expected]
    actual = [ActualOutput(call.output) for call in evidence.calls]
    work = Work()

    def satisfied(index: int, position: int) -> bool:
        return expected[index].output.equals(actual[position], work)

    pair = pair_in_turn if settings.strict else pair_first
    comparison = Comparison(
        key="explained_tool_calls_outputs",
        compared="output",
        root="output",
        names=names,
        calls=evidence.calls,
        pairs=pair(names, evidence.calls, satisfied, work),
        expected=lambda index: expected[index].output.text,
        actual=lambda position: actual[position].value,
        differences=lambda index, position: _differences(expected[index].output, actual[position], work),
    )
    return comparison.score(all_or_nothing=settings.strict)


def _differences(expected: ExpectedOutput, actual: ActualOutput, work: Work) -> Iterator[Difference]:
    if (value := expected.as_value()) is not None:
        return differences(value, actual.decoded(work), work)
    return differences(LiteralValue(expected.source or ""), actual.value, work)


EVALUATOR = Evaluator(
    name="tool-call-output",
    summary="Did the expected calls give the expected outputs?",
    Criteria=Criteria,
    Settings=Settings,
    reads=frozenset({"output"}),
    compared_names=lambda criteria: {call.name for call in criteria.tool_outputs},
    score=_score,
)
