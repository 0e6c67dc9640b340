"""Sums over some of the results, since an alert began and before."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Part:
    """Results of one time: how many, how many of them are bad, and how bad they are together.

    ``squares`` is the sum of squares of how bad each is. ``seen`` of the results were looked at, and ``seen_bad`` bad
    ones: what the others are estimated from.
    """

    results: float = 0.0
    bad: float = 0.0
    loss: float = 0.0
    squares: float = 0.0
    seen: int = 0
    seen_bad: int = 0

    def add(self, other: "Part") -> None:
        """Add others of the same time."""
        self.results += other.results
        self.bad += other.bad
        self.loss += other.loss
        self.squares += other.squares
        self.seen += other.seen
        self.seen_bad += other.seen_bad

    @property
    def rate(self) -> float | None:
        """How bad a result is on average; None without results."""
        return self.loss / self.results if self.results > 0 else None


@dataclass(slots=True)
class Both:
    """The same results since it began, and before."""

    since: Part = field(default_factory=Part)
    before: Part = field(default_factory=Part)
