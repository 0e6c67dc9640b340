"""tool-call-output: did the expected calls give the expected outputs?

Each expected call, in order, takes the first unused call of its name whose output is equal. The score is the share of
expected calls that found one. With ``strict``, order matters per name: the first expected call of a name is compared
with the first call of that name, the second with the second; 1 when all are equal, else 0. Further calls never matter.
Nothing expected and nothing called is 1, only one of them empty is 0.

Outputs are compared whole. A text equals the same text, and a number, true or false that was written so; a text that
is the JSON of an object or a list also equals any output of the same value, and an expected value that is no text also
equals an output that is its JSON text. An absent or null output reads as the empty text, expected or found.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Annotated, TypeAlias

from pydantic import Field, WithJsonSchema

from tracegrade.evaluate.call_by_call import Compared, Comparison, ExpectedCalls
from tracegrade.evaluate.calls import OutputExcerpts
from tracegrade.evaluate.criteria import as_written, compiled_by
from tracegrade.evaluate.evaluator import Evaluator, NotedSettings, ParameterModel, calls_named
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.expected import Criterion, Difference, Expected, LiteralValue, differences
from tracegrade.evaluate.matchers import compile_expected
from tracegrade.evaluate.pairing import pair_first, pair_in_turn
from tracegrade.evaluate.value_modes import ComparedValues
from tracegrade.evaluate.values import decoded, decoded_container, scalar_text
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue


class DecodedOutputs(dict[int, JsonValue]):
    """The value whose JSON text the output of a call is, or the output itself, by position; read when somebody asks."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self._calls = evidence.calls

    def __missing__(self, position: int) -> JsonValue:
        output = self._calls[position].output
        value = self[position] = decoded(output) if isinstance(output, str) else output
        return value


class ActualOutput:
    """The output of one call as one evaluation sees it."""

    __slots__ = ("_evidence", "_paid", "_position", "value")

    def __init__(self, evidence: Evidence, position: int) -> None:
        output = evidence.calls[position].output
        self.value: JsonValue = "" if output is None else output
        self._evidence = evidence
        self._position = position
        self._paid = False

    def decoded(self, work: Work) -> JsonValue:
        """The value whose JSON text this is, or the value itself."""
        if not isinstance(self.value, str) or not self.value:
            return self.value
        if not self._paid:
            # Counted even when another evaluation has decoded it: no bound depends on what else is judged.
            work.spend(1 + len(self.value) // CHARACTERS_READ_PER_STEP)
            self._paid = True
        return self._evidence.once(DecodedOutputs)[self._position]


class ActualOutputs(dict[int, ActualOutput]):
    """The output of each call as one evaluation sees it, by position; read when somebody asks."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self._evidence = evidence

    def __missing__(self, position: int) -> ActualOutput:
        output = self[position] = ActualOutput(self._evidence, position)
        return output


class ExpectedOutput(Criterion):
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

    def differences(self, actual: ActualOutput, work: Work) -> Iterator[Difference]:
        """Where `actual` is not what was expected.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        if (value := self.as_value()) is not None:
            return differences(value, actual.decoded(work), work)
        return differences(LiteralValue(self.source or ""), actual.value, work)

    def parts(self) -> Iterable[Expected]:
        """The criterion."""
        return (self._criterion,)

    def rewritten(self, rewrite: Callable[[Expected], Expected]) -> "ExpectedOutput":
        """The same output, its criterion rewritten."""
        return ExpectedOutput(self.source, rewrite(self._criterion))

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


class Criteria(ComparedValues):
    """What is expected."""

    tool_outputs: Annotated[list[ExpectedCall], Field(description="The calls, in any order across tools.")]

    @cached_property
    def expected(self) -> ExpectedCalls[ActualOutput]:
        """The calls and their outputs."""
        outputs = [call.output for call in self.tool_outputs]
        return ExpectedCalls(
            [call.name for call in self.tool_outputs],
            [each.text for each in outputs],
            [each.equals for each in outputs],
            [each.differences for each in outputs],
        )


class Settings(NotedSettings):
    """How it is compared."""

    name: str = "ToolCallOutputEvaluator"
    strict: Annotated[bool, Field(description="The calls of each tool in this order; 1 when all equal, else 0.")] = (
        False
    )
    default_evaluation_criteria: Criteria | None = None


_COMPARED = Compared("explained_tool_calls_outputs", "output", "output", OutputExcerpts)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    pair = pair_in_turn if settings.strict else pair_first
    comparison = Comparison(_COMPARED, evidence, criteria.expected, ActualOutputs(evidence))
    return comparison.score(pair, all_or_nothing=settings.strict)


EVALUATOR = Evaluator(
    name="tool-call-output",
    summary="Did the expected calls give the expected outputs?",
    Criteria=Criteria,
    Settings=Settings,
    reads=frozenset({"output"}),
    compared=calls_named(lambda criteria: criteria.expected.by_name.keys()),
    score=_score,
)
