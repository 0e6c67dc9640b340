"""The pairing of expected calls and calls made, each once, whose pairs are worth most together.

The method is the Hungarian one, for all expected calls at once: every expected call *asks* for the most that a pair can
be worth, every call made *costs* nothing, and a pair is *tight* when it is worth what its two sides ask and cost.
Expected calls without a call look for one along tight pairs, and make others move to another call where they can. When
none is found, all that were reached ask for a little less, and the calls that they reached cost as much more, until a
further pair is tight or they ask for nothing. Where every pair is worth 1, that is one round.

In the end the best pairings are those of tight pairs alone, in which every call that costs something has been taken,
and only expected calls that ask for nothing are without one. Of these, `_Earliest` takes the one that gives the first
expected call its earliest call, then the second, and so on.

Worked example: expected are ``pay`` with any sum and ``pay`` with ``sum: {$gte: 50}``; made were ``pay(sum: 70)`` and
``pay(sum: 10)``. A scan gives the first expected call the first call, and the second finds none. It reaches the first
call, whose owner moves to the second call: two pairs.

Source: Kuhn, The Hungarian method for the assignment problem (1955); Munkres (1957).
"""

import math
from collections.abc import Callable, Iterator, Sequence

from tracegrade.evaluate.work import Work

# What a whole call is worth, in units: shares of up to 30 parts are whole numbers of them, so that sums are exact.
WHOLE = math.lcm(*range(1, 31))
# Sets of calls are bits of one number; so many bits are handled in a step.
_BITS_PER_STEP = 2048


def in_units(share: float) -> int:
    """A share of a call, 0..1, in units of which `WHOLE` are a call."""
    return round(share * WHOLE)


def best_pairing(candidates: Sequence[Sequence[int]], worth: Callable[[int, int], int], work: Work) -> list[int | None]:
    """Pair expected calls with calls made so that the pairs are worth most together.

    Args:
        candidates: of each expected call the positions of the calls that it may be paired with, ascending.
        worth: the worth of a pair of an expected call and a position, 0 (no pair) to `WHOLE`; asked once at most.
        work: as everywhere.

    Returns:
        The position paired with each expected call; None for none. Of the pairings that are worth most the one that
        gives the first expected call its earliest call, then the second, and so on.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    return _best(candidates, worth, [None] * len(candidates), WHOLE, work)


def most_pairs_after(
    scanned: Sequence[int | None], candidates: Sequence[Sequence[int]], fits: Callable[[int, int], bool], work: Work
) -> list[int | None]:
    """Pair as many expected calls as possible, where a scan left some without a call.

    Args:
        scanned: the pairs of the scan, in which each expected call, in order, took the first call left that fits.
        candidates: as of `best_pairing`.
        fits: whether the call at a position fits an expected call; not asked of what the scan looked at.
        work: as everywhere.

    Returns:
        As `best_pairing`, every pair being worth the same. The scan's own pairs where no pairing has more: no other
        gives expected calls earlier calls.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    taker_of = {position: index for index, position in enumerate(scanned) if position is not None}

    def worth(index: int, position: int) -> int:
        taken = scanned[index]
        if taken == position:
            return 1
        if (taken is None or position < taken) and taker_of.get(position, index) >= index:
            return 0  # it was left when the scan came to this expected call, and was not taken
        return int(fits(index, position))

    return _best(candidates, worth, scanned, 1, work)


def _best(
    candidates: Sequence[Sequence[int]],
    worth: Callable[[int, int], int],
    pairs: Sequence[int | None],
    most: int,
    work: Work,
) -> list[int | None]:
    """As `best_pairing`, of pairs worth `most` at most; `pairs` is what to begin with, each worth that."""
    lists = {id(some): some for some in candidates}  # mostly one
    positions = sorted({position for some in lists.values() for position in some})
    place_of = {position: place for place, position in enumerate(positions)}
    places = {key: [place_of[position] for position in some] for key, some in lists.items()}
    search = _Search(
        [places[id(some)] for some in candidates],
        lambda row, place: worth(row, positions[place]),
        [None if position is None else place_of[position] for position in pairs],
        len(positions),
        most,
        work,
    )
    if search.run():
        _Earliest(search, work).choose()
    return [None if place is None else positions[place] for place in search.place_of]


class _Search:
    """A pairing that grows until it is best. A row is an expected call, a place that of a call made."""

    __slots__ = (
        "_candidates",
        "_costing",
        "_level",
        "_places",
        "_steps",
        "_tight",
        "_work",
        "_worth",
        "_worths",
        "asks",
        "costs",
        "place_of",
        "row_of",
    )

    def __init__(
        self,
        candidates: Sequence[Sequence[int]],
        worth: Callable[[int, int], int],
        pairs: Sequence[int | None],
        places: int,
        most: int,
        work: Work,
    ) -> None:
        self._candidates = candidates
        self._worth = worth
        self._work = work
        self._level = most  # what every row without a place asks for
        self._places = places
        self._steps = 1 + places // _BITS_PER_STEP
        self._worths: list[list[tuple[int, int]] | None] = [None] * len(candidates)
        self._tight: list[int | None] = [None] * len(candidates)
        self.asks = [most] * len(candidates)
        self.costs = [0] * places
        self._costing = {0: (1 << places) - 1}  # the places that cost so much, as bits
        self.place_of: list[int | None] = list(pairs)
        self.row_of: list[int | None] = [None] * places
        for row, place in enumerate(pairs):
            if place is not None:
                self.row_of[place] = row

    def run(self) -> bool:
        """Make the pairing best; tells whether that changed it."""
        changed = False
        while self._level:
            before = self.place_of.count(None)
            rows, reached = self._extend()
            changed |= self.place_of.count(None) < before
            if not rows:
                break
            self._ask_less(rows, reached)
        return changed

    def worths(self, row: int) -> list[tuple[int, int]]:
        """What pairs of a row can be worth, and the places of those pairs, as bits."""
        found = self._worths[row]
        if found is None:
            places: dict[int, int] = {}
            for place in self._candidates[row]:
                if worth := self._worth(row, place):
                    places[worth] = places.get(worth, 0) | 1 << place
            found = self._worths[row] = list(places.items())
        return found

    def tight(self, row: int) -> int:
        """The places of the tight pairs of a row, as bits."""
        found = self._tight[row]
        if found is None:
            asked, costing, worths = self.asks[row], self._costing, self.worths(row)
            self._work.spend(self._steps * (1 + len(worths)))
            found = 0
            for worth, places in worths:
                found |= places & costing.get(worth - asked, 0)
            self._tight[row] = found
        return found

    def _extend(self) -> tuple[list[int], int]:
        """Pair as many rows more as tight pairs allow.

        Returns:
            The rows that those left without a place reach, and the places, as bits.
        """
        free = sum(1 << place for place, row in enumerate(self.row_of) if row is None)
        all_rows: list[int] = []
        all_reached = 0
        for root, place in enumerate(self.place_of):
            if place is not None:
                continue
            rows, reached, came_from = [root], 0, {}
            for row in rows:  # grows on the way
                self._work.spend(self._steps)
                new = self.tight(row) & ~(all_reached | reached)
                if found := new & free:
                    last = _lowest(found)
                    came_from[last] = row
                    self._move_along(last, came_from)
                    free ^= 1 << last
                    break
                reached |= new
                for at in _bits(new):
                    came_from[at] = row
                    owner = self.row_of[at]
                    assert owner is not None, "it is not free"
                    rows.append(owner)
            else:
                # Whatever is paired later, nothing is found from here: no other row looks at it again.
                all_rows += rows
                all_reached |= reached
        return all_rows, all_reached

    def _move_along(self, place: int, came_from: dict[int, int]) -> None:
        """Pair the last row that was reached with a free place, and each before it with the one that this frees."""
        at: int | None = place
        while at is not None:
            row = came_from[at]
            left = self.place_of[row]
            self.place_of[row], self.row_of[at] = at, row
            at = left

    def _ask_less(self, rows: Sequence[int], reached: int) -> None:
        """Let `rows` ask for less, and the places `reached` cost more, until a further pair is tight."""
        less = self._level
        others = [(cost, places & ~reached) for cost, places in sorted(self._costing.items()) if places & ~reached]
        for row in rows:
            asked, looked_at = self.asks[row], 1
            for worth, places in self.worths(row):
                for cost, other in others:
                    looked_at += 1
                    if asked + cost - worth >= less:
                        break
                    if places & other:
                        less = asked + cost - worth
                        break
            self._work.spend(self._steps * looked_at)
        self._level -= less
        for row in rows:
            self.asks[row] -= less
        for place in _bits(reached):
            self.costs[place] += less
        self._tight = [None] * len(self._tight)
        self._costing = {}
        self._work.spend(self._places)
        for place, cost in enumerate(self.costs):
            self._costing[cost] = self._costing.get(cost, 0) | 1 << place


class _Earliest:
    """Turns a best pairing into the one that gives the first row its earliest place, then the second, and so on.

    From one best pairing to another, rows move along tight pairs in circles: each to the place of the next. What is
    *outside* takes part as if it were a row, too: it has the places that no row has, and may have all that cost
    nothing; a row that asks for nothing may be outside.
    """

    __slots__ = ("_asking_nothing", "_holders", "_left", "_search", "_work")

    def __init__(self, search: _Search, work: Work) -> None:
        self._search = search
        self._work = work
        rows = range(len(search.place_of))
        self._left = (1 << len(rows)) - 1  # the rows that may still move, as bits
        self._asking_nothing = sum(1 << row for row in rows if not search.asks[row])
        self._holders = [0] * len(search.row_of)  # the rows with which each place is a tight pair
        for row in rows:
            for place in _bits(search.tight(row)):
                self._holders[place] |= 1 << row

    def choose(self) -> None:
        """Move the rows of the search to their places in that pairing."""
        for row, place in enumerate(self._search.place_of):
            self._left ^= 1 << row  # which leaves the rows after it
            earlier = self._search.tight(row)
            if place is not None:
                earlier &= (1 << place) - 1
            if earlier:
                self._move(row, earlier)

    def _move(self, row: int, earlier: int) -> None:
        """Move `row` to the first of the places `earlier`, as bits, from which a circle leads back to its own."""
        place_of, row_of, costs = self._search.place_of, self._search.row_of, self._search.costs
        own = place_of[row]
        # Found backwards from `own`: where each row moves to, and what comes to be outside: a place, or a row's.
        goes_to: dict[int, int | None] = {}
        vacant: int | None = own
        from_outside: int | None = None
        reached = 0 if own is None else 1 << own
        outside = own is None
        unseen = self._left
        queue = [own]
        for place in queue:
            self._work.spend(1 + len(row_of) // _BITS_PER_STEP)
            if place is None:
                free = [each for each, owner in enumerate(row_of) if owner is None and not reached >> each & 1]
                reached |= sum(1 << each for each in free)
                queue += free
                owners = self._asking_nothing
            else:
                owners = self._holders[place]
                if not outside and not costs[place]:
                    outside, vacant = True, place
                    queue.append(None)
            owners &= unseen
            unseen ^= owners
            for owner in _bits(owners):
                left = place_of[owner]
                goes_to[owner] = place
                if left is not None:
                    reached |= 1 << left
                    queue.append(left)
                elif not outside:
                    outside, from_outside = True, owner
                    queue.append(None)
        if not earlier & reached:
            return
        self._go_round(row, _lowest(earlier & reached), goes_to, vacant, from_outside)

    def _go_round(
        self, row: int, place: int, goes_to: dict[int, int | None], vacant: int | None, from_outside: int | None
    ) -> None:
        """Move `row` to `place`, the row that was there to where it goes, and so on back to the place that it left."""
        place_of, row_of = self._search.place_of, self._search.row_of
        own = place_of[row]
        if own is not None:
            row_of[own] = None
        to: int | None = place
        while True:
            place_of[row] = to
            pushed = None
            if to is not None:
                pushed, row_of[to] = row_of[to], row
                if to == own:
                    return
            # Where no row was, what is outside was: it goes on to its new place.
            if pushed is None and from_outside is not None:
                pushed = from_outside
            elif pushed is None:
                if vacant is None or vacant == own:
                    return
                pushed, row_of[vacant] = row_of[vacant], None
            assert pushed is not None, "a place that becomes vacant has a row"
            row, to = pushed, goes_to[pushed]


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _bits(bits: int) -> Iterator[int]:
    """The places of the bits that are set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
