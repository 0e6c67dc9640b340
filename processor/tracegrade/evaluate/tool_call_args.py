"""tool-call-args: were the expected calls made with the expected arguments?

Each expected call, in order, takes the first unused call of its name whose arguments match. The score is the share of
expected calls that found one; with ``strict`` it is 1 when all did, else 0. Arguments match whole: the same names with
equal values, or, with ``subset``, at least the expected ones (nested values are still compared whole). Neither the
order of calls nor further calls matter. Nothing expected and nothing called is 1, only one of them empty is 0.

With ``pairing: positional`` the second expected call of a name is compared with the second call of that name, whatever
the first was; the seed documents read either way, and their evaluator takes the first that matches.
"""

from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from tracegrade.evaluate.call_by_call import Comparison, ExpectedNames
from tracegrade.evaluate.calls import ArgumentExcerpts, arguments
from tracegrade.evaluate.criteria import ExpectedArguments
from tracegrade.evaluate.evaluator import Evaluator, Evidence, ParameterModel, Score
from tracegrade.evaluate.expected import differences
from tracegrade.evaluate.pairing import pair_first, pair_in_turn
from tracegrade.evaluate.work import Work


class ExpectedCall(ParameterModel):
    """One call and its arguments."""

    name: str
    args: ExpectedArguments


class Criteria(ParameterModel):
    """What is expected."""

    tool_calls: Annotated[list[ExpectedCall], Field(description="The calls, in any order.")]

    @cached_property
    def expected(self) -> ExpectedNames:
        """The names of the calls."""
        return ExpectedNames([call.name for call in self.tool_calls])


class Settings(ParameterModel):
    """How it is compared."""

    name: str = "ToolCallArgsEvaluator"
    strict: Annotated[bool, Field(description="1 when every expected call was made, else 0.")] = False
    subset: Annotated[bool, Field(description="Calls may have further arguments than the expected ones.")] = False
    pairing: Annotated[
        Literal["first", "positional"],
        Field(description="Calls of one name: the first that matches, or the second with the second."),
    ] = "first"
    default_evaluation_criteria: Criteria | None = None


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expected = criteria.tool_calls
    actual = evidence.once(arguments)
    work = Work()

    def satisfied(index: int, position: int) -> bool:
        args = expected[index].args
        match = args.matches_within if settings.subset else args.matches
        return match(actual[position], work)

    pair = pair_in_turn if settings.pairing == "positional" else pair_first
    comparison = Comparison(
        key="explained_tool_calls_args",
        compared="arguments",
        root="args",
        expected=criteria.expected,
        evidence=evidence,
        pairs=pair(criteria.expected.names, evidence, satisfied, work),
        shown_expected=lambda index: expected[index].args.text,
        shown_actual=evidence.once(ArgumentExcerpts),
        differences=lambda index, position: differences(
            expected[index].args, actual[position], work, partly=settings.subset
        ),
    )
    return comparison.score(all_or_nothing=settings.strict)


EVALUATOR = Evaluator(
    name="tool-call-args",
    summary="Were the expected calls made with the expected arguments?",
    Criteria=Criteria,
    Settings=Settings,
    reads=frozenset({"arguments"}),
    compared_names=lambda criteria: criteria.expected.by_name.keys(),
    score=_score,
)
