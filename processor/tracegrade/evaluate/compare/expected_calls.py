"""Which calls an evaluation expects, and what of each: for people to look at, beside the calls made.

Which call was counted as which is what the evaluator's `Score.pairing` says. See `Evaluator.expected_calls`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tracegrade.evaluate.call_facts import arguments, positions_of
from tracegrade.evaluate.compare.outputs import ActualOutputs, ExpectedOutput
from tracegrade.evaluate.criteria.expected import Difference, Expected, differences
from tracegrade.evaluate.criteria.reference_call import ReferenceCall
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import Pairing
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


@dataclass(frozen=True, slots=True)
class ExpectedCalls:
    """All calls that an evaluation expects.

    Attributes:
        calls: each of them, in the order in which the criteria have them: what a `Score.pairing` counts by.
    """

    calls: Sequence[ExpectedCall]


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


def reference_calls(references: Iterable[ReferenceCall] | None) -> ExpectedCalls:
    """The calls of a reference, each with its arguments and no others."""
    return ExpectedCalls([expected_arguments([call.name], call.args) for call in references or ()])


def output_differences(
    expected: ExpectedOutput, evidence: Evidence, position: int, work: Work, *, partly: bool = False
) -> Iterator[Difference]:
    """Where the output of the call at `position` is not as expected, and what was looked up for that.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    actual = ActualOutputs(evidence)[position]
    if expected.accepts_within(actual, work) if partly else expected.accepts(actual, work):
        return
    criterion = None if actual.error is not None else expected.as_value()
    if criterion is None:
        lookups = tuple(expected.lookups(work))
        yield Difference((), "different", expected=expected.source, found=actual.found, lookups=lookups)
    else:
        yield from differences(criterion, actual.decoded(work), work, partly=partly)


class CompiledNames:
    """The names of the expected calls: in order, as keys in the details, and where each name stands."""

    __slots__ = ("by_name", "in_step", "keys", "names")

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.keys = _keys_of(names)
        self.by_name = positions_of(names)
        self.in_step = Pairing(range(len(names)))  # each with the call at its own place

    @property
    def names_one_twice(self) -> bool:
        """Whether several calls of one tool are expected."""
        return len(self.by_name) < len(self.names)


def _keys_of(names: Sequence[str]) -> list[str]:
    """A key for each expected call: its name and, from 0, which call of that name it is; ``search_1``."""
    seen: dict[str, int] = {}
    keys = []
    for name in names:
        rank = seen.get(name, 0)
        seen[name] = rank + 1
        keys.append(f"{name}_{rank}")
    return keys
