"""Keeps the account of which part of the journal an exporter has finished; pure."""


class Ledger:
    """Records are taken in journal order and finished in any order; the position moves up to the oldest unfinished."""

    def __init__(self, position: int) -> None:
        self._taken_to = position
        self._unfinished: dict[int, None] = {}  # positions, in journal order

    def take(self, position: int, end: int) -> None:
        """The record from `position` to `end` is under way from now on; it comes after all taken before."""
        self._unfinished[position] = None
        self._taken_to = end

    def finish(self, position: int) -> None:
        """Nothing more will be done about the record at `position`."""
        del self._unfinished[position]

    def pass_over(self, end: int) -> None:
        """Nothing needs to be done about the records up to `end` that were not taken."""
        self._taken_to = end

    @property
    def position(self) -> int:
        """The position before which everything is finished; the next start begins there."""
        return next(iter(self._unfinished), self._taken_to)

    @property
    def under_way(self) -> int:
        """How many records are taken and not finished."""
        return len(self._unfinished)
