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

from tracegrade.evaluate.call_by_call import Comparison, ExpectedNames
from tracegrade.evaluate.calls import OutputExcerpts
from tracegrade.evaluate.criteria import as_written, compiled_by
from tracegrade.evaluate.evaluator import Evaluator, Evidence, NotedSettings, ParameterModel, Score, calls_named
from tracegrade.evaluate.expected import Difference, Expected, LiteralValue, differences
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

    def parts(self) -> Iterable[Expected]:
        """The criterion."""
        return (self._criterion,)

    def rewritten(self, rewrite: Callable[[Expected], Expected]) -> Expected:
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
    def expected(self) -> ExpectedNames:
        """The names of the calls."""
        return ExpectedNames([call.name for call in self.tool_outputs])


class Settings(NotedSettings):
    """How it is compared."""

    name: str = "ToolCallOutputEvaluator"
    strict: Annotated[bool, Field(description="The calls of each tool in this order; 1 when all equal, else 0.")] = (
        False
    )
    default_evaluation_criteria: Criteria | None = None


class _Comparison(Comparison):
    key = "explained_tool_calls_outputs"
    compared = "output"
    root = "output"
    __slots__ = ("_actual", "_calls")

    def __init__(self, evidence: Evidence, criteria: Criteria) -> None:
        super().__init__(evidence, criteria.expected, evidence.once(OutputExcerpts))
        self._actual: dict[int, ActualOutput] = {}
        self._calls = criteria.tool_outputs

    def actual(self, position: int) -> ActualOutput:
        if position not in self._actual:
            self._actual[position] = ActualOutput(self.evidence, position)
        return self._actual[position]

    def satisfied(self, index: int, position: int) -> bool:
        return self._calls[index].output.equals(self.actual(position), self.work)

    def shown_expected(self, index: int) -> str:
        return self._calls[index].output.text

    def differences(self, index: int, position: int) -> Iterator[Difference]:
        return _differences(self._calls[index].output, self.actual(position), self.work)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    pair = pair_in_turn if settings.strict else pair_first
    return _Comparison(evidence, criteria).score(pair, all_or_nothing=settings.strict)


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
    compared=calls_named(lambda criteria: criteria.expected.by_name.keys()),
    score=_score,
)
