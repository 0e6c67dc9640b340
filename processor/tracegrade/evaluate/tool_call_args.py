"""tool-call-args: were the expected calls made with the expected arguments?

Each expected call, in order, takes the first unused call of its name whose arguments match. The score is the share of
expected calls that found one; with ``strict`` it is 1 when all did, else 0. Arguments match whole: the same names with
equal values, or, with ``subset``, at least the expected ones (nested values are still compared whole). Neither the
order of calls nor further calls matter. Nothing expected and nothing called is 1, only one of them empty is 0.

With ``pairing: positional`` the second expected call of a name is compared with the second call of that name, whatever
the first was; UiPath's documents read either way, and their evaluator takes the first that matches.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from tracegrade.evaluate.call_by_call import Comparison, ExpectedNames
from tracegrade.evaluate.calls import ArgumentExcerpts, arguments
from tracegrade.evaluate.criteria import ExpectedArguments
from tracegrade.evaluate.evaluator import Evaluator, Evidence, NotedSettings, ParameterModel, Score, calls_named
from tracegrade.evaluate.expected import Difference, differences
from tracegrade.evaluate.pairing import pair_first, pair_in_turn
from tracegrade.evaluate.value_modes import ComparedValues


class ExpectedCall(ParameterModel):
    """One call and its arguments."""

    name: str
    args: ExpectedArguments


class Criteria(ComparedValues):
    """What is expected."""

    tool_calls: Annotated[list[ExpectedCall], Field(description="The calls, in any order.")]

    @cached_property
    def expected(self) -> ExpectedNames:
        """The names of the calls."""
        return ExpectedNames([call.name for call in self.tool_calls])


class Settings(NotedSettings):
    """How it is compared."""

    name: str = "ToolCallArgsEvaluator"
    strict: Annotated[bool, Field(description="1 when every expected call was made, else 0.")] = False
    subset: Annotated[bool, Field(description="Calls may have further arguments than the expected ones.")] = False
    pairing: Annotated[
        Literal["first", "positional"],
        Field(description="Calls of one name: the first that matches, or the second with the second."),
    ] = "first"
    default_evaluation_criteria: Criteria | None = None


class _Comparison(Comparison):
    key = "explained_tool_calls_args"
    compared = "arguments"
    root = "args"
    __slots__ = ("_actual", "_calls", "_subset")

    def __init__(self, evidence: Evidence, criteria: Criteria, settings: Settings) -> None:
        super().__init__(evidence, criteria.expected, evidence.once(ArgumentExcerpts))
        self._actual = evidence.once(arguments)
        self._calls = criteria.tool_calls
        self._subset = settings.subset

    def satisfied(self, index: int, position: int) -> bool:
        args = self._calls[index].args
        match = args.matches_within if self._subset else args.matches
        return match(self._actual[position], self.work)

    def shown_expected(self, index: int) -> str:
        return self._calls[index].args.text

    def differences(self, index: int, position: int) -> Iterator[Difference]:
        return differences(self._calls[index].args, self._actual[position], self.work, partly=self._subset)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    pair = pair_in_turn if settings.pairing == "positional" else pair_first
    return _Comparison(evidence, criteria, settings).score(pair, all_or_nothing=settings.strict)


EVALUATOR = Evaluator(
    name="tool-call-args",
    summary="Were the expected calls made with the expected arguments?",
    Criteria=Criteria,
    Settings=Settings,
    reads=frozenset({"arguments"}),
    compared=calls_named(lambda criteria: criteria.expected.by_name.keys()),
    score=_score,
)
