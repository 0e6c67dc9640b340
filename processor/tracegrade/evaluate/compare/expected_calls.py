"""Which calls an evaluation expects, and what of each: for people to look at, beside the calls made.

What judges is the evaluator's score; this only says what stands beside what. See `Evaluator.expected_calls`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tracegrade.evaluate.call_facts import arguments
from tracegrade.evaluate.compare.outputs import ActualOutputs, ExpectedOutput
from tracegrade.evaluate.criteria.expected import Difference, Expected, differences
from tracegrade.evaluate.criteria.reference_call import ReferenceCall
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.timeline import Concurrency
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue

# Where the call at a position is not as expected; nothing where it is.
Differ: TypeAlias = Callable[[Evidence, int, Work], Iterable[Difference]]


def _nothing_else(evidence: Evidence, position: int, work: Work) -> Iterable[Difference]:
    return ()


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """One expected call.

    Attributes:
        names: the tool; any of them will do.
        arguments: what is expected of its arguments, as written; None for nothing.
        output: the same of its output.
        differ: where a call of such a name is not as expected. Raises EvaluatorError, ``work_bound``.
    """

    names: Sequence[str]
    arguments: JsonValue = None
    output: JsonValue = None
    differ: Differ = _nothing_else


class Laid(NamedTuple):
    """Which call made is which expected call: ``pairs`` has its position by the expected call's place among `calls`.

    ``not_asked`` are the expected calls that nothing asks for as things went, such as those of a branch not chosen.
    """

    pairs: dict[int, int]
    not_asked: Set[int]


def laid(pairs: Sequence[int | None]) -> Laid:
    """`pairs`, the position paired with each expected call, all of which are asked for."""
    return Laid({index: position for index, position in enumerate(pairs) if position is not None}, frozenset())


@dataclass(frozen=True, slots=True)
class ExpectedCalls:
    """All calls that an evaluation expects.

    Attributes:
        calls: each of them, in the order in which the criteria have them.
        in_order: whether that order counts.
        concurrency: whether calls that were made together count in the best order, or in that of their starts.
        lay: which call is which, where the evaluator says it itself. Raises EvaluatorError, ``work_bound``.
    """

    calls: Sequence[ExpectedCall]
    in_order: bool = False
    concurrency: Concurrency = "batches"
    lay: Callable[[Evidence, Work], Laid] | None = None


def expected_arguments(names: Sequence[str], args: Expected, *, partly: bool = False) -> ExpectedCall:
    """A call that is expected with these arguments; `partly`: further ones do not matter."""

    def differ(evidence: Evidence, position: int, work: Work) -> Iterator[Difference]:
        return differences(args, evidence.once(arguments)[position], work, partly=partly)

    return ExpectedCall(names, args.source, differ=differ)


def expected_output(name: str, output: ExpectedOutput, *, partly: bool = False) -> ExpectedCall:
    """A call that is expected to give this output; `partly`: further members do not matter."""

    def differ(evidence: Evidence, position: int, work: Work) -> Iterator[Difference]:
        return output_differences(output, evidence, position, work, partly=partly)

    return ExpectedCall([name], output=output.source, differ=differ)


def reference_calls(references: Iterable[ReferenceCall] | None, *, in_order: bool = False) -> ExpectedCalls:
    """The calls of a reference, each with its arguments and no others."""
    return ExpectedCalls([expected_arguments([call.name], call.args) for call in references or ()], in_order)


def output_differences(
    expected: ExpectedOutput, evidence: Evidence, position: int, work: Work, *, partly: bool = False
) -> Iterator[Difference]:
    """Where the output of the call at `position` is not as expected, and what was looked up for that.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    actual = ActualOutputs(evidence)[position]
    if expected.equals_within(actual, work) if partly else expected.equals(actual, work):
        return
    criterion = expected.as_value()
    if criterion is None:
        lookups = tuple(expected.lookups(work))
        yield Difference((), "different", expected=expected.source, found=actual.value, lookups=lookups)
    else:
        yield from differences(criterion, actual.decoded(work), work, partly=partly)
