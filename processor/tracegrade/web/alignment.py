"""Expected calls beside the calls made: which matched, which differ and where, which are missing, extra, out of order.

For people to look at: it pairs as the evaluators do (the best order where order counts, the first that fits where it
does not), and then shows beside an expectation that nothing met the call that a reader wants to compare it with. The
score is the evaluator's, and stands beside this.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal, TypeAlias

from tracegrade.evaluate import (
    multi_turn,
    overall_score,
    ragas_tool_call_accuracy,
    ragas_tool_call_f1,
    tool_call_accuracy,
    tool_call_args,
    tool_call_order,
    tool_call_output,
    tool_case,
    tool_selection,
    trajectory,
)
from tracegrade.evaluate.calls import arguments
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.expected import Difference, Expected, differences
from tracegrade.evaluate.order import batches, ties
from tracegrade.evaluate.outputs import ActualOutput, ExpectedOutput
from tracegrade.evaluate.subsequence import align
from tracegrade.evaluate.tool_names import NameTable, listed_names
from tracegrade.evaluate.work import Work
from tracegrade.match.evaluation_spec import EvaluationSpec
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall

State: TypeAlias = Literal["matched", "differs", "missing", "extra", "out_of_order"]
Compare: TypeAlias = Callable[[Evidence, int, Work], Iterator[Difference]]

_MAX_WORK = 200_000  # beyond it a trace is shown without this: drawing a page must take no second
_FOLDED = 4  # so many extra calls in a row and more are shown as one


@dataclass(frozen=True, slots=True)
class ExpectedCall:
    """One expected call: any of ``names``, and what else is expected of it, as written; None for nothing."""

    names: Sequence[str]
    arguments: JsonValue = None
    output: JsonValue = None
    compare: Compare | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison; ``position`` counts the calls made from 1, ``index`` those expected.

    ``folded`` are further extra calls that this line stands for.
    """

    state: State
    index: int | None = None
    expected: ExpectedCall | None = None
    position: int | None = None
    call: ToolCall | None = None
    differences: Sequence[Difference] = ()
    folded: Sequence[ToolCall] = ()


@dataclass(slots=True)
class Alignment:
    """All lines, in the order of the calls made."""

    rows: list[Row] = field(default_factory=list)

    def count(self, state: State) -> int:
        """How many calls are in that state."""
        return sum(1 + len(row.folded) for row in self.rows if row.state == state)


def aligned(spec: EvaluationSpec, evidence: Evidence) -> Alignment | None:
    """The comparison that `spec` asks for over `evidence`.

    None when its evaluator compares no calls with expected ones, or when it would take too much work to show.
    """
    try:
        criteria = spec.evaluator.criteria_in_force(spec.criteria, spec.settings)
        found = _expected(criteria, spec.settings)
        if found is None:
            return None
        expected, in_order = found
        sequential = getattr(spec.settings, "concurrency", "") == "sequential"
        return _Comparison(expected, evidence, in_order, sequential).alignment()
    except EvaluatorError:
        return None


def _expected(criteria: object, settings: Any) -> tuple[list[ExpectedCall], bool] | None:
    """The calls that criteria expect, and whether their order counts."""
    match criteria:
        case tool_call_order.Criteria():
            return [ExpectedCall([name]) for name in criteria.tool_calls_order], True
        case tool_call_args.Criteria():
            partly = bool(settings.subset)
            return [_with_arguments([call.name], call.args, partly) for call in criteria.tool_calls], False
        case tool_call_output.Criteria():
            return [_with_output(call) for call in criteria.tool_outputs], False
        case trajectory.Criteria():
            return _of_trajectory(criteria, settings), settings.match in ("exact", "strict", "in_order")
        case tool_call_accuracy.Criteria() | ragas_tool_call_f1.Criteria() | ragas_tool_call_accuracy.Criteria():
            calls = criteria.reference_tool_calls or []
            in_order = bool(getattr(settings, "strict_order", False))
            return [_with_arguments([call.name], call.args, partly=False) for call in calls], in_order
        case tool_case.Criteria() | multi_turn.Criteria() | overall_score.Criteria():
            return _one_call(criteria.expected_tool, criteria.expected_params), False
        case tool_selection.Criteria():
            return _one_call(criteria.expected_tool, None), False
    return None


def _one_call(tool: str | list[str] | None, params: Expected | None) -> list[ExpectedCall]:
    if tool is None:
        return []
    names = listed_names(tool)
    return [ExpectedCall(names) if params is None else _with_arguments(names, params, partly=True)]


def _with_arguments(names: Sequence[str], args: Expected, partly: bool) -> ExpectedCall:
    def compare(evidence: Evidence, position: int, work: Work) -> Iterator[Difference]:
        return differences(args, evidence.once(arguments)[position], work, partly=partly)

    return ExpectedCall(names, args.source, compare=compare)


def _with_output(call: tool_call_output.ExpectedCall) -> ExpectedCall:
    def compare(evidence: Evidence, position: int, work: Work) -> Iterator[Difference]:
        return _output_differences(call.output, evidence, position, work)

    return ExpectedCall([call.name], output=call.output.source, compare=compare)


def _output_differences(
    expected: ExpectedOutput, evidence: Evidence, position: int, work: Work
) -> Iterator[Difference]:
    actual = ActualOutput(evidence, position)
    if expected.equals(actual, work):
        return
    criterion = expected.as_value()
    if criterion is None:
        lookups = tuple(expected.lookups(work))
        yield Difference((), "different", expected=expected.source, found=actual.value, lookups=lookups)
    else:
        yield from differences(criterion, actual.decoded(work), work)


def _of_trajectory(criteria: trajectory.Criteria, settings: trajectory.Settings) -> list[ExpectedCall]:
    prepared = criteria.prepared(settings)
    found = []
    for index, call in enumerate(criteria.tool_calls or ()):
        comparison, output = prepared.comparisons[index], prepared.outputs[index]

        def compare(
            evidence: Evidence,
            position: int,
            work: Work,
            comparison: Any = comparison,
            output: ExpectedOutput | None = output,
        ) -> Iterator[Difference]:
            yield from comparison.differences(evidence.once(arguments)[position], work)
            if output is not None:
                for item in _output_differences(output, evidence, position, work):
                    yield replace(item, path=("output", *item.path))

        found.append(
            ExpectedCall(
                listed_names(call.name),
                None if call.args is None else call.args.source,
                None if output is None else output.source,
                compare,
            )
        )
    return found


class _Comparison:
    """One comparison: expected calls by index, calls made by position."""

    def __init__(self, expected: Sequence[ExpectedCall], evidence: Evidence, in_order: bool, sequential: bool) -> None:
        self._expected = expected
        self._sequential = sequential
        self._evidence = evidence
        self._in_order = in_order
        self._table = NameTable([call.names for call in expected])
        self._work = Work(_MAX_WORK, evidence)
        self._differences: dict[tuple[int, int], list[Difference]] = {}

    def alignment(self) -> Alignment:
        pairs = self._in_best_order() if self._in_order else self._first_that_fits()
        states: dict[int, State] = {
            index: "differs" if self._differing(index, position) else "matched" for index, position in pairs.items()
        }
        for index, position in self._left(pairs).items():
            pairs[index] = position
            states[index] = "out_of_order" if self._in_order else "differs"
        return Alignment(_folded(self._rows(pairs, states)))

    def _differing(self, index: int, position: int) -> list[Difference]:
        compare = self._expected[index].compare
        if compare is None:
            return []
        if (index, position) not in self._differences:
            self._work.position = position
            self._differences[index, position] = list(compare(self._evidence, position, self._work))
        return self._differences[index, position]

    def _fits(self, position: int) -> dict[int, float]:
        """What the call can stand for: whole, or by its name alone."""
        met = self._table.met_by(self._evidence.calls[position].name)
        return {index: 0.5 if self._differing(index, position) else 1.0 for index in met}

    def _in_best_order(self) -> dict[int, int]:
        groups = self._evidence.once(ties if self._sequential else batches)
        order = [position for group in groups for position in group]
        fits = [[self._fits(position) for position in group] for group in groups]
        return {index: order[rank] for index, rank in align(len(self._expected), fits, self._work)}

    def _first_that_fits(self) -> dict[int, int]:
        free: dict[int, dict[int, None]] = {index: {} for index in range(len(self._expected))}
        for position, call in enumerate(self._evidence.calls):
            for index in self._table.met_by(call.name):
                free[index][position] = None
        pairs: dict[int, int] = {}
        used: set[int] = set()
        for index, positions in free.items():
            for position in positions:
                self._work.spend()
                if position not in used and not self._differing(index, position):
                    pairs[index] = position
                    used.add(position)
                    break
        return pairs

    def _left(self, pairs: dict[int, int]) -> dict[int, int]:
        """For each expectation that nothing met, the first call of its name that stands for nothing else."""
        used = set(pairs.values())
        found: dict[int, int] = {}
        for position, call in enumerate(self._evidence.calls):
            if position in used:
                continue
            for index in self._table.met_by(call.name):
                if index not in pairs and index not in found:
                    found[index] = position
                    break
        return found

    def _rows(self, pairs: dict[int, int], states: dict[int, State]) -> Iterator[Row]:
        by_position = {position: index for index, position in pairs.items()}
        told = 0  # expectations before this one have their line
        for position, call in enumerate(self._evidence.calls):
            index = by_position.get(position)
            if index is None:
                yield Row("extra", position=position + 1, call=call)
                continue
            if states[index] != "out_of_order":
                yield from self._missing(told, index, pairs)
                told = max(told, index + 1)
            found = self._differing(index, position)
            yield Row(states[index], index + 1, self._expected[index], position + 1, call, found)
        yield from self._missing(told, len(self._expected), pairs)

    def _missing(self, first: int, end: int, pairs: dict[int, int]) -> Iterator[Row]:
        for index in range(first, end):
            if index not in pairs:
                yield Row("missing", index + 1, self._expected[index])


def _folded(rows: Iterator[Row]) -> list[Row]:
    """`rows`, with many extra calls in a row as one."""
    found: list[Row] = []
    for state, group in groupby(rows, key=lambda row: row.state):
        some = list(group)
        if state == "extra" and len(some) >= _FOLDED:
            first, *rest = some
            calls = [row.call for row in rest if row.call is not None]
            found.append(Row("extra", position=first.position, call=first.call, folded=calls))
        else:
            found += some
    return found
