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

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tracegrade.evaluate.compare.outputs import ActualOutput, outputs_or_unknown
from tracegrade.evaluate.compare.trajectory_criteria import MATCH_ALIASES, Criteria, Settings
from tracegrade.evaluate.criteria.expected import Difference
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.pairing.best import WHOLE, best_pairing, in_units
from tracegrade.evaluate.pairing.by_name import after_scan, improve, in_turn, scan, with_next_unused
from tracegrade.evaluate.pairing.in_order import align, arrange
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.unknown import arguments_or_unknown
from tracegrade.evaluate.work import Work
from tracegrade.model.tri import Unknown


class TrajectoryComparison:
    """One evaluation: what was expected against the calls that are looked at."""

    def __init__(self, evidence: Evidence, criteria: Criteria, settings: Settings, *, optimistic: bool = False) -> None:
        """`optimistic`: as of `Work`."""
        self.evidence = evidence
        self.criteria = criteria
        self.settings = settings
        self.prepared = criteria.prepared(settings)
        self.work = Work(evidence=evidence, optimistic=optimistic)
        self.made = looked_at(evidence, settings)
        self._outputs = outputs_or_unknown(evidence)
        self.arguments = evidence.once(arguments_or_unknown)
        # The position paired with each expected call, and what the pair is worth.
        self.pairs: list[int | None] = [None] * len(criteria.tool_calls or ())
        self.worth = [0.0] * len(criteria.tool_calls or ())
        self.more = 0.0  # that they may be worth: more than was found, where it took too much work to see
        if settings.occurrence != "any" and evidence.once(Timeline).has_ties:
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
        if output is not None and not output.accepts(self._outputs[position], self.work):
            return 0.0
        comparison = prepared.comparisons[index]
        if prepared.whole or comparison.match == "ignore":
            return float(comparison.holds(self.arguments[position], self.work))
        share = comparison.share(self.arguments[position], self.work)
        return share if prepared.fractional else float(share > 0 and share >= prepared.limit)

    def candidates(self, position: int) -> Sequence[int]:
        """The expected calls whose names the call has."""
        return self.prepared.table.met_by(self.evidence.calls[position].name)

    def pair(self) -> None:
        """Pair expected calls with calls made."""
        match = MATCH_ALIASES.get(self.settings.match, self.settings.match)
        pairing = self.settings.pairing
        if match in ("exact", "in_order"):
            groups = self._groups()
            calls = [position for group in groups for position in group]
            fits = [[self._fits(position) for position in group] for group in groups]
            method = arrange if match == "exact" else align
            for index, rank in method(len(self.pairs), fits, self.work):
                self._pair(index, calls[rank], self.fit(index, calls[rank]))
        elif pairing == "positional":
            for index, position, worth in self._positional():
                self._pair(index, position, worth)
        else:
            candidates = self.by_expected()
            self.pairs, self.worth = scan(candidates, self.fit, self.work)
            if pairing == "first" and self.prepared.one_twice:
                self.work.unbind()
            if pairing == "best" or (None in self.pairs and self.evidence.once(Timeline).has_ties):
                self._improve(candidates)

    def _pair(self, index: int, position: int | None, worth: float) -> None:
        self.pairs[index] = position
        self.worth[index] = worth

    @property
    def matched(self) -> float:
        """What all pairs are worth: an exact sum, the same whichever pairs it is made of."""
        return sum(map(in_units, self.worth)) / WHOLE

    def _groups(self) -> Sequence[Sequence[int]]:
        timeline, concurrency = self.evidence.once(Timeline), self.settings.concurrency
        if timeline.is_total(concurrency):
            return [[position] for position in self.made]
        made = set(self.made)
        kept = ([p for p in group if p in made] for group in timeline.groups(concurrency))
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

    def _improve(self, candidates: Sequence[Sequence[int]]) -> None:
        """Make the pairs of a scan worth most together, where they may not be."""
        passed_over = self._passed_over(candidates)
        scan, self.work = self.work, after_scan(self.work, self.evidence)
        for indexes in self._apart():
            if passed_over.isdisjoint(indexes):
                continue
            of_each = [candidates[index] for index in indexes]
            if self.prepared.fractional:
                self._improve_shares(indexes, of_each)
                continue
            self.more += improve(self.pairs, indexes, of_each, lambda i, at: self.fit(i, at) > 0, self.work)
            for index in indexes:
                self.worth[index] = float(self.pairs[index] is not None)
        self.work = scan

    def _passed_over(self, candidates: Sequence[Sequence[int]]) -> set[int]:
        """The expected calls that are not paired with a whole call, and of which an earlier one took a candidate."""
        taken: set[int] = set()
        found: set[int] = set()
        for index, position in enumerate(self.pairs):
            if self.worth[index] < 1.0 and not taken.isdisjoint(candidates[index]):
                found.add(index)
            if position is not None:
                taken.add(position)
        return found

    def _improve_shares(self, indexes: Sequence[int], candidates: Sequence[Sequence[int]]) -> None:
        shares: dict[tuple[int, int], float] = {}

        def worth(place: int, position: int) -> int:
            share = shares[place, position] = self.fit(indexes[place], position)
            return in_units(share)

        try:
            found = best_pairing(candidates, worth, self.work)
        except EvaluatorError:
            calls = {position for positions in candidates for position in positions}
            self.more += min(len(indexes), len(calls)) - sum(self.worth[index] for index in indexes)
            return
        for place, (index, position) in enumerate(zip(indexes, found, strict=True)):
            self._pair(index, position, 0.0 if position is None else shares[place, position])

    def _apart(self) -> list[list[int]]:
        """The expected calls, ascending, in groups that no call made has the names of two of."""
        group_of = [[index] for index in range(len(self.pairs))]
        for position in {self.evidence.calls[position].name: position for position in self.made}.values():
            met = self.candidates(position)
            for index in met[1:]:
                joined, added = group_of[met[0]], group_of[index]
                if joined is not added:
                    joined += added
                    for each in added:
                        group_of[each] = joined
        return [sorted(group) for group in {id(group): group for group in group_of}.values()]

    def _positional(self) -> Iterator[tuple[int, int, float]]:
        used: set[int] = set()
        turns: dict[int, list[int]] = {}
        positions_of = self.by_expected()
        for index, positions in enumerate(positions_of):
            turns.setdefault(id(positions), []).append(index)
        if self.evidence.once(Timeline).has_ties:
            for indexes in turns.values():
                left = [position for position in positions_of[indexes[0]] if position not in used]
                used.update(left[: len(indexes)])
                for index, position in in_turn(indexes, self.evidence.once(Timeline).ranks(left), self.fit, self.work):
                    yield index, position, self.fit(index, position)
            return
        for index, at in enumerate(with_next_unused(positions_of, self.pairs)):
            if at is not None and (worth := self.fit(index, at)):
                yield index, at, worth

    def differences(self, index: int, position: int) -> Iterator[Difference]:
        """Where the call made is not as expected."""
        self.work.position = position
        output = self.prepared.outputs[index]
        given, actual = self.arguments[position], self._outputs[position]
        if not isinstance(given, Unknown):
            for found in self.prepared.comparisons[index].differences(given, self.work):
                yield replace(found, path=("args", *found.path))
        if output is not None and isinstance(actual, ActualOutput) and not output.accepts(actual, self.work):
            lookups = tuple(output.lookups(self.work))
            yield Difference(("output",), "different", expected=output.source, found=actual.found, lookups=lookups)


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
        for position in next(group for group in evidence.once(Timeline).ranks(positions) if positions[number] in group)
    )
