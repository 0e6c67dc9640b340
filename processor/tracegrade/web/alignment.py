"""Expected calls beside the calls made: which match, which differ and where, which are missing, extra, out of order.

They are paired as the evaluator paired them, which is stored with its score. Beside an expected call that has no pair
stands the call that a reader would compare it with.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Literal, TypeAlias

from tracegrade.evaluate.compare.expected_calls import Differ, ExpectedCall
from tracegrade.evaluate.criteria.expected import Difference, Path
from tracegrade.evaluate.criteria.tool_names import NameTable
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evidence
from tracegrade.evaluate.pairing.in_order import align
from tracegrade.evaluate.registry import packages
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.work import Work
from tracegrade.model.evaluation import MAX_PAIRS, Pairing
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall
from tracegrade.rule.evaluation_spec import EvaluationSpec

State: TypeAlias = Literal["matched", "differs", "missing", "extra", "out_of_order", "apart"]

NOT_STORED = "No pairing is stored with this result, so expected and actual calls are listed without pairs."
READ_OTHERWISE = (
    "The pairing that is stored with this result is of other calls than are read from the trace now, so expected and "
    "actual calls are listed without pairs."
)
FIRST_ALONE = "The pairs of the first {first:,} of {all:,} expected calls are stored; the others are not shown."

_MAX_WORK = 200_000  # beyond it, a trace is shown without this: drawing a page must take less than a second
_DEEPEST = 20  # values of two traces are compared as a whole below
_FOLDED = 4  # at least this many calls in a row with nothing expected beside them are shown as one
_FOLDED_APART = 50  # the same where nothing is paired, so that a reader can compare


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the comparison; ``position`` counts the calls made from 1, ``index`` the expected calls.

    ``folded`` are further calls shown as this line.
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
    """All lines, in the order of the calls made; ``note`` is one sentence on what they do not show."""

    rows: list[Row] = field(default_factory=list)
    note: str = ""

    def count(self, state: State) -> int:
        """The number of calls in this state."""
        return sum(1 + len(row.folded) for row in self.rows if row.state == state)


def aligned(spec: EvaluationSpec, evidence: Evidence, pairing: Pairing | None) -> Alignment | None:
    """The calls that `spec` expects beside those of `evidence`, paired as they were when its score was made.

    None when its evaluator expects no particular calls, when it would take too much work to show, or when an evaluator
    that is not ours gives expected calls that cannot be used. The page shows the evaluation in any case.

    Args:
        spec: the item of the rule that was judged.
        evidence: what it judged.
        pairing: what is stored with the evaluation.
    """
    try:
        criteria = spec.evaluator.criteria_in_force(spec.criteria, spec.settings)
        expected = spec.evaluator.expected_calls(criteria, spec.settings)
        return None if expected is None else _aligned(expected.calls, evidence, pairing)
    except EvaluatorError:
        return None
    except Exception:
        if spec.file is None and spec.evaluator.name not in packages():
            raise
        return None


def _aligned(expected: Sequence[ExpectedCall], evidence: Evidence, pairing: Pairing | None) -> Alignment:
    if pairing is None:
        return _apart(expected, evidence, NOT_STORED)
    if len(pairing.positions) != min(len(expected), MAX_PAIRS) or any(
        position is not None and position >= len(evidence.calls) for position in pairing.positions
    ):
        return _apart(expected, evidence, READ_OTHERWISE)
    note = FIRST_ALONE.format(first=MAX_PAIRS, all=len(expected)) if len(expected) > MAX_PAIRS else ""
    return Alignment(_folded(_Comparison(expected, evidence).rows(pairing)), note)


def _apart(expected: Sequence[ExpectedCall], evidence: Evidence, note: str) -> Alignment:
    """All expected calls, then all calls made."""
    wanted = (Row("apart", index, call) for index, call in enumerate(expected, 1))
    made = (Row("apart", position=position, call=call) for position, call in enumerate(evidence.calls, 1))
    return Alignment(_folded(chain(wanted, made), _FOLDED_APART), note)


def beside(calls: Sequence[ToolCall], others: Sequence[ToolCall]) -> Alignment | None:
    """The calls of one trace beside `others`, those of another, in their order; as if the first were expected.

    None when it would take too much work to show.
    """
    expected = [ExpectedCall([call.name], call.arguments, differ=_other_arguments(call)) for call in calls]
    comparison = _Comparison(expected, Evidence(others))
    try:
        return Alignment(list(comparison.rows(comparison.in_best_order(), in_order=True)))
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

    def __init__(self, expected: Sequence[ExpectedCall], evidence: Evidence) -> None:
        self._expected = expected
        self._evidence = evidence
        self._table = NameTable([call.names for call in expected])
        self._work = Work(_MAX_WORK, evidence)
        self._differences: dict[tuple[int, int], list[Difference]] = {}

    def rows(self, pairing: Pairing, *, in_order: bool = False) -> Iterator[Row]:
        """The rows of these pairs, and of calls that a reader compares with expected calls that have none.

        Such a call is out of order where it is as expected: its place alone kept it from being counted. With
        `in_order`, it is whether or not its arguments differ.
        """
        pairs = {index: position for index, position in enumerate(pairing.positions) if position is not None}
        states: dict[int, State] = {
            index: "differs" if self._differing(index, position) else "matched" for index, position in pairs.items()
        }
        shown = [index for index in range(len(pairing.positions)) if index not in pairing.not_asked]
        for index, position in self._left(pairs, shown).items():
            pairs[index] = position
            states[index] = "out_of_order" if in_order or not self._differing(index, position) else "differs"
        return self._in_turn(pairs, states, shown)

    def in_best_order(self) -> Pairing:
        """The calls in their order, as many as possible paired by name, and of those the ones that are as expected."""
        groups = self._evidence.once(Timeline).groups("batches")
        order = [position for group in groups for position in group]
        fits = [[self._fits(position) for position in group] for group in groups]
        size = len(self._expected)
        return Pairing.of(size, ((index, order[rank]) for index, rank in align(size, fits, self._work)))

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

    def _left(self, pairs: dict[int, int], shown: Sequence[int]) -> dict[int, int]:
        """For each expected call that is `shown` and has none, the first call of its name that is not paired."""
        used, left = set(pairs.values()), set(shown).difference(pairs)
        found: dict[int, int] = {}
        for position, call in enumerate(self._evidence.calls):
            if position in used:
                continue
            index = next((index for index in self._table.met_by(call.name) if index in left), None)
            if index is not None:
                found[index] = position
                left.remove(index)
        return found

    def _in_turn(self, pairs: dict[int, int], states: dict[int, State], shown: Sequence[int]) -> Iterator[Row]:
        by_position = {position: index for index, position in pairs.items()}
        missing = [index for index in shown if index not in pairs]
        passed = 0  # of those that are missing, those before this place have their line
        for position, call in enumerate(self._evidence.calls):
            index = by_position.get(position)
            if index is None:
                yield Row("extra", position=position + 1, call=call)
                continue
            while states[index] != "out_of_order" and passed < len(missing) and missing[passed] < index:
                yield Row("missing", missing[passed] + 1, self._expected[missing[passed]])
                passed += 1
            found = self._differing(index, position)
            yield Row(states[index], index + 1, self._expected[index], position + 1, call, found)
        for index in missing[passed:]:
            yield Row("missing", index + 1, self._expected[index])


def _folded(rows: Iterable[Row], least: int = _FOLDED) -> list[Row]:
    """`rows`, with those that have only a call made as one, where at least so many are in a row."""
    found: list[Row] = []
    for has_expected, group in groupby(rows, key=lambda row: row.expected is not None):
        some = list(group)
        if not has_expected and len(some) >= least:
            first, *rest = some
            calls = [row.call for row in rest if row.call is not None]
            found.append(replace(first, folded=calls))
        else:
            found += some
    return found
