"""Expected calls of a trajectory paired with the calls made, by each of the ways in which the field compares them.

Worked example: expected are find, ``book(city: Rome, nights: 2)`` and pay; made were find, ``book(city: Rome,
nights: 3)``, pay and find.

- `in_order` aligns them: find with the first call and pay with the third. Two calls count (``matched``), so recall is
  2/3, precision 2/4, and f1, 2 * 2/3 * 2/4 / (2/3 + 2/4), is 4/7.
- With ``call_credit: fractional`` the booking counts half, one of two arguments: recall is 2.5/3, precision 2.5/4 and
  f1 5/7.
- `exact` compares position by position and pairs the same two; it does not hold, since four calls are not three.
- `unordered` does not hold for the same reason; `subset` does not either, since two of the calls made were not expected
  so.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tracegrade.evaluate.call_facts import arguments
from tracegrade.evaluate.call_order import any_tied, batches, of_equal_rank, ties
from tracegrade.evaluate.compare.assignment import in_turn, most_pairs
from tracegrade.evaluate.compare.outputs import ActualOutputs
from tracegrade.evaluate.compare.subsequence import align, arrange
from tracegrade.evaluate.compare.trajectory_criteria import MATCH_ALIASES, Criteria, Settings
from tracegrade.evaluate.criteria.expected import Difference
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.work import Work


class TrajectoryComparison:
    """One evaluation: what was expected against the calls that are looked at."""

    def __init__(self, evidence: Evidence, criteria: Criteria, settings: Settings) -> None:
        self.evidence = evidence
        self.criteria = criteria
        self.settings = settings
        self.prepared = criteria.prepared(settings)
        self.work = Work(evidence=evidence)
        self.made = looked_at(evidence, settings)
        self._outputs = ActualOutputs(evidence)
        self._arguments = evidence.once(arguments)
        # The position paired with each expected call, and what the pair is worth.
        self.pairs: list[int | None] = [None] * len(criteria.tool_calls or ())
        self.worth = [0.0] * len(criteria.tool_calls or ())
        if settings.occurrence != "any" and evidence.once(any_tied):
            self.made = self._best_of_tied()

    def _best_of_tied(self) -> list[int]:
        """Of each tool the one call that fits best, where several may be the one looked at."""
        by_name: dict[str, list[int]] = {}
        for position in self.made:
            by_name.setdefault(self.evidence.calls[position].name, []).append(position)
        return sorted(max(some, key=lambda at: max(self._fits(at).values(), default=0.0)) for some in by_name.values())

    def fit(self, index: int, position: int) -> float:
        """What the call at `position` is worth as the expected call; 0 when it does not fit at all."""
        prepared = self.prepared
        self.work.spend()
        self.work.position = position
        output = prepared.outputs[index]
        if output is not None and not output.equals(self._outputs[position], self.work):
            return 0.0
        comparison = prepared.comparisons[index]
        if prepared.whole or comparison.match == "ignore":
            return float(comparison.holds(self._arguments[position], self.work))
        share = comparison.share(self._arguments[position], self.work)
        return share if prepared.fractional else float(share > 0 and share >= prepared.limit)

    def candidates(self, position: int) -> Sequence[int]:
        """The expected calls whose names the call has."""
        return self.prepared.table.met_by(self.evidence.calls[position].name)

    def pair(self) -> None:
        """Pair expected calls with calls made."""
        match = MATCH_ALIASES.get(self.settings.match, self.settings.match)
        if match in ("exact", "in_order"):
            groups = self._groups()
            calls = [position for group in groups for position in group]
            fits = [[self._fits(position) for position in group] for group in groups]
            method = arrange if match == "exact" else align
            pairs: Iterable[tuple[int, int, float]] = [
                (index, calls[rank], self.fit(index, calls[rank]))
                for index, rank in method(len(self.pairs), fits, self.work)
            ]
        elif self.settings.pairing == "positional":
            pairs = self._positional()
        else:
            pairs = list(self._best() if self.settings.pairing == "best" else self._first())
            if len(pairs) < len(self.pairs) and self.evidence.once(any_tied):
                pairs = self._most()
        for index, position, worth in pairs:
            self.pairs[index] = position
            self.worth[index] = worth

    def _groups(self) -> Sequence[Sequence[int]]:
        sequential = self.settings.concurrency == "sequential"
        if sequential and not self.evidence.once(any_tied):
            return [[position] for position in self.made]
        made = set(self.made)
        kept = ([p for p in group if p in made] for group in self.evidence.once(ties if sequential else batches))
        return [group for group in kept if group]

    def _fits(self, position: int) -> dict[int, float]:
        return {index: worth for index in self.candidates(position) if (worth := self.fit(index, position))}

    def by_expected(self) -> list[list[int]]:
        """For each expected call the calls of its names, in order; calls of one name share a list."""
        found: list[list[int]] = [[] for _ in self.pairs]
        shared: dict[tuple[str, ...], list[int]] = {}
        names = [tuple(listed_names(call.name)) for call in self.criteria.tool_calls or ()]
        for index, key in enumerate(names):
            found[index] = shared.setdefault(key, [])
        for position in self.made:
            for key in {names[index]: None for index in self.candidates(position)}:
                shared[key].append(position)
        return found

    def _first(self) -> Iterator[tuple[int, int, float]]:
        used: set[int] = set()
        for index, positions in enumerate(self.by_expected()):
            best, best_worth = None, 0.0
            for position in positions:
                if position in used:
                    self.work.spend()
                elif (worth := self.fit(index, position)) > best_worth:
                    best, best_worth = position, worth
                    if worth == 1.0:
                        break
            if best is not None:
                used.add(best)
                yield index, best, best_worth

    def _best(self) -> Iterator[tuple[int, int, float]]:
        used: set[int] = set()
        for position in self.made:
            best, best_worth = None, 0.0
            for index in self.candidates(position):
                if index in used:
                    self.work.spend()
                elif (worth := self.fit(index, position)) > best_worth:
                    best, best_worth = index, worth
                    if worth == 1.0:
                        break
            if best is not None:
                used.add(best)
                yield best, position, best_worth

    def _most(self) -> Iterator[tuple[int, int, float]]:
        """As many pairs as possible: what some order of tied calls gives."""
        fits = [self._fits(position) for position in self.made]
        for index, rank in most_pairs(range(len(self.pairs)), fits, self.work):
            yield index, self.made[rank], fits[rank][index]

    def _positional(self) -> Iterator[tuple[int, int, float]]:
        used: set[int] = set()
        turns: dict[int, list[int]] = {}
        positions_of = self.by_expected()
        for index, positions in enumerate(positions_of):
            turns.setdefault(id(positions), []).append(index)
        if self.evidence.once(any_tied):
            for indexes in turns.values():
                left = [position for position in positions_of[indexes[0]] if position not in used]
                used.update(left[: len(indexes)])
                for index, position in in_turn(indexes, of_equal_rank(self.evidence, left), self.fit, self.work):
                    yield index, position, self.fit(index, position)
            return
        rest = {key: iter(positions_of[indexes[0]]) for key, indexes in turns.items()}
        for index, positions in enumerate(positions_of):
            at = next((position for position in rest[id(positions)] if position not in used), None)
            if at is not None:
                used.add(at)
                if worth := self.fit(index, at):
                    yield index, at, worth

    def differences(self, index: int, position: int) -> Iterator[Difference]:
        """Where the call made is not as expected."""
        self.work.position = position
        output = self.prepared.outputs[index]
        for found in self.prepared.comparisons[index].differences(self._arguments[position], self.work):
            yield replace(found, path=("args", *found.path))
        if output is not None and not output.equals(actual := self._outputs[position], self.work):
            lookups = tuple(output.lookups(self.work))
            yield Difference(("output",), "different", expected=output.source, found=actual.value, lookups=lookups)


def looked_at(evidence: Evidence, settings: Settings) -> list[int]:
    """The positions of the calls that count; of one occurrence all that may be it, where their order is unknown."""
    calls = evidence.calls
    made = [p for p, call in enumerate(calls) if settings.include_failed or not call.failed]
    which = settings.occurrence
    if which == "any":
        return made
    by_name: dict[str, list[int]] = {}
    for position in made:
        by_name.setdefault(calls[position].name, []).append(position)
    number = {"first": 0, "last": -1}.get(which, which) if isinstance(which, str) else which
    return sorted(
        position
        for positions in by_name.values()
        if isinstance(number, int) and -1 <= number < len(positions)
        for position in next(group for group in of_equal_rank(evidence, positions) if positions[number] in group)
    )
