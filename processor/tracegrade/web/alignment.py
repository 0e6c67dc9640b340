"""Expected calls beside the calls made: which match, which differ and where, which are missing, extra, out of order.

For people: it pairs as the evaluators do (the best order where order counts, the first that fits where it does not).
Then, beside an expected call that nothing matched, it shows the call that a reader would compare it with. The score is
the evaluator's, and is shown beside this.
"""

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal, TypeAlias

from tracegrade.evaluate.compare.expected_calls import Differ, ExpectedCall, ExpectedCalls
from tracegrade.evaluate.compare.subsequence import align
from tracegrade.evaluate.criteria.expected import Difference, Path
from tracegrade.evaluate.criteria.tool_names import NameTable
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.registry import packages
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.evaluation_spec import EvaluationSpec

State: TypeAlias = Literal["matched", "differs", "missing", "extra", "out_of_order"]

_MAX_WORK = 200_000  # beyond it, a trace is shown without this: drawing a page must take less than a second
_DEEPEST = 20  # values of two traces are compared as a whole below
_FOLDED = 4  # at least this many extra calls in a row are shown as one


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison; ``position`` counts the calls made from 1, ``index`` the expected calls.

    ``folded`` is the number of further extra calls shown as this line.
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
        """The number of calls in this state."""
        return sum(1 + len(row.folded) for row in self.rows if row.state == state)


def aligned(spec: EvaluationSpec, evidence: Evidence) -> Alignment | None:
    """The comparison that `spec` asks for over `evidence`.

    None when its evaluator expects no particular calls, when it would take too much work to show, or when an evaluator
    that is not ours gives expected calls that cannot be used. The page shows the evaluation in any case.
    """
    try:
        criteria = spec.evaluator.criteria_in_force(spec.criteria, spec.settings)
        expected = spec.evaluator.expected_calls(criteria, spec.settings)
        return None if expected is None else _Comparison(expected, evidence).alignment()
    except EvaluatorError:
        return None
    except Exception:
        if spec.file is None and spec.evaluator.name not in packages():
            raise
        return None


def beside(calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> Alignment | None:
    """The calls of one trace beside `others`, those of another, in their order; as if the first were expected.

    None when it would take too much work to show.
    """
    expected = [ExpectedCall([call.name], call.arguments, differ=_other_arguments(call)) for call in calls]
    try:
        return _Comparison(ExpectedCalls(expected, in_order=True), Evidence(others)).alignment(fold=False)
    except EvaluatorError:
        return None


def _other_arguments(call: ToolCall) -> Differ:
    def differ(evidence: Evidence, position: int, work: Work) -> Iterator[Difference]:
        work.spend()
        return _plain_differences(call.arguments, evidence.calls[position].arguments, ())

    return differ


def _plain_differences(one: JsonValue, other: JsonValue, path: Path) -> Iterator[Difference]:
    """Where two values differ."""
    if isinstance(one, dict) and isinstance(other, dict) and len(path) < _DEEPEST:
        for key in [*one, *(key for key in other if key not in one)]:
            if key not in other:
                yield Difference((*path, key), "missing", expected=one[key])
            elif key not in one:
                yield Difference((*path, key), "unexpected", found=other[key])
            else:
                yield from _plain_differences(one[key], other[key], (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other) and len(path) < _DEEPEST:
        for place, (item, of_other) in enumerate(zip(one, other, strict=True)):
            yield from _plain_differences(item, of_other, (*path, place))
    elif one != other or isinstance(one, bool) is not isinstance(other, bool):
        yield Difference(path, "different", expected=one, found=other)


class _Comparison:
    """One comparison: expected calls by index, calls made by position."""

    def __init__(self, expected: ExpectedCalls, evidence: Evidence) -> None:
        self._expected = expected.calls
        self._in_order = expected.in_order
        self._lay = expected.lay
        self._not_asked: Set[int] = frozenset()
        self._concurrency = expected.concurrency
        self._evidence = evidence
        self._table = NameTable([call.names for call in expected.calls])
        self._work = Work(_MAX_WORK, evidence)
        self._differences: dict[tuple[int, int], list[Difference]] = {}

    def alignment(self, *, fold: bool = True) -> Alignment:
        pairs = self._pairs()
        states: dict[int, State] = {
            index: "differs" if self._differing(index, position) else "matched" for index, position in pairs.items()
        }
        for index, position in self._left(pairs).items():
            pairs[index] = position
            states[index] = "out_of_order" if self._in_order else "differs"
        rows = self._rows(pairs, states)
        return Alignment(_folded(rows) if fold else list(rows))

    def _pairs(self) -> dict[int, int]:
        """The position of the call made, by the index of the expected call that it is."""
        if self._lay is not None:
            pairs, self._not_asked = self._lay(self._evidence, self._work)
            return pairs
        return self._in_best_order() if self._in_order else self._first_that_fits()

    def _differing(self, index: int, position: int) -> list[Difference]:
        if (index, position) not in self._differences:
            self._work.position = position
            self._differences[index, position] = list(
                self._expected[index].differ(self._evidence, position, self._work)
            )
        return self._differences[index, position]

    def _fits(self, position: int) -> dict[int, float]:
        """The expected calls that the call can match: completely, or only by name."""
        met = self._table.met_by(self._evidence.calls[position].name)
        return {index: 0.5 if self._differing(index, position) else 1.0 for index in met}

    def _in_best_order(self) -> dict[int, int]:
        groups = self._evidence.once(Timeline).groups(self._concurrency)
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
        """For each expected call that nothing matched, the first call of its name that is not paired."""
        used = set(pairs.values())
        found: dict[int, int] = {}
        for position, call in enumerate(self._evidence.calls):
            if position in used:
                continue
            for index in self._table.met_by(call.name):
                if index not in pairs and index not in found and index not in self._not_asked:
                    found[index] = position
                    break
        return found

    def _rows(self, pairs: dict[int, int], states: dict[int, State]) -> Iterator[Row]:
        by_position = {position: index for index, position in pairs.items()}
        shown = 0  # expected calls before this one have their line
        for position, call in enumerate(self._evidence.calls):
            index = by_position.get(position)
            if index is None:
                yield Row("extra", position=position + 1, call=call)
                continue
            if states[index] != "out_of_order":
                yield from self._missing(shown, index, pairs)
                shown = max(shown, index + 1)
            found = self._differing(index, position)
            yield Row(states[index], index + 1, self._expected[index], position + 1, call, found)
        yield from self._missing(shown, len(self._expected), pairs)

    def _missing(self, first: int, end: int, pairs: dict[int, int]) -> Iterator[Row]:
        for index in range(first, end):
            if index not in pairs and index not in self._not_asked:
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
