"""Counts of results by outcome, and their pass rate."""

from collections.abc import Iterable
from math import sqrt
from operator import add
from typing import NamedTuple

from tracegrade.model.evaluation import OUTCOMES, Outcome
from tracegrade.model.json_value import JsonValue

Z95 = 1.959963984540054
"""The standard normal quantile of a two-sided 95 % interval."""


def wilson(successes: float, samples: float, z: float) -> tuple[float, float]:
    """Bounds on a share, with the correction for continuity; `z` is the standard normal quantile of each.

    Without the correction, at a share of 0.9 and 30 results, 3.7 % are wrong instead of 1 %.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical inference, 1927; R. G. Newcombe,
    Two-sided confidence intervals for the single proportion, 1998, method 4.
    """

    def bound(counted: float, side: int) -> float:
        share, spread = counted / samples, z * z / samples
        half = z * sqrt(share * (1 - share) / samples + spread / (4 * samples))
        return (share + spread / 2 + side * half) / (1 + spread)

    low = bound(successes - 0.5, -1) if successes > 0.5 else 0.0
    high = bound(successes + 0.5, 1) if successes < samples - 0.5 else 1.0
    return low, high


class Weighted(NamedTuple):
    """Results of one outcome: how many are stored, how many they stand for, and the sum of squares of their weights.

    A result that was kept with the probability p has the weight 1 / p.
    """

    stored: int = 0
    total: float = 0.0
    squares: float = 0.0

    def plus(self, count: int, probability: float) -> "Weighted":
        """With `count` more results that were kept with this probability."""
        weight = 1 / probability
        return Weighted(self.stored + count, self.total + count * weight, self.squares + count * weight * weight)

    @property
    def effective(self) -> float:
        """The number of equally weighted results with the same information (Kish's effective sample size)."""
        return self.total * self.total / self.squares if self.squares else 0.0


class Tally(NamedTuple):
    """The one count of outcomes: of a rule, an evaluation, or any group of their results.

    A result that was kept with the probability p stands for 1 / p subjects, its weight. Pass rates are estimates for
    all subjects; errors and what is not evaluable are in no pass rate.

    Attributes:
        passed: stored results that passed; likewise ``failed``, ``not_evaluable`` and ``errors``.
        all_passed: how many subjects those stand for; likewise the other three.
        score_sum: the sum of the scores of stored passes and fails, where it was asked for.
        all_scores: the same by weight; of token counts, costs and times, the sum of those.
        all_score_squares: likewise of squares of scores.
        passed_squares: the sum of squares of the weights of passes; likewise ``failed_squares`` of fails, and
            ``other_squares`` of the other two. n equal weights are worth n results, unequal weights less.
        incomplete: results of incomplete traces, which are in no other number.
        backfilled: how many of all were judged afterwards, by ``rules backtest --store``.
    """

    passed: int = 0
    failed: int = 0
    not_evaluable: int = 0
    errors: int = 0
    all_passed: float = 0.0
    all_failed: float = 0.0
    all_not_evaluable: float = 0.0
    all_errors: float = 0.0
    score_sum: float = 0.0
    all_scores: float = 0.0
    all_score_squares: float = 0.0
    passed_squares: float = 0.0
    failed_squares: float = 0.0
    other_squares: float = 0.0
    incomplete: int = 0
    backfilled: int = 0

    @classmethod
    def of(
        cls,
        passed: int,
        failed: int = 0,
        not_evaluable: int = 0,
        errors: int = 0,
        score_sum: float = 0.0,
        score_squares: float = 0.0,
        *,
        weight: float = 1.0,
    ) -> "Tally":
        """Results that each stand for `weight` subjects: 1 / p where they were kept with the probability p.

        ``score_squares`` is the sum of the squares of scores. A count below 0 is taken for 0: retention deletes counts
        that a later revision then subtracts.
        """
        if passed < 0 or failed < 0 or not_evaluable < 0 or errors < 0:
            passed, failed, not_evaluable, errors = (max(0, it) for it in (passed, failed, not_evaluable, errors))
        square = weight * weight
        # Past `__new__` of a named tuple, which takes as long again: charts make one for each series and step.
        return tuple.__new__(
            cls,
            (
                passed,
                failed,
                not_evaluable,
                errors,
                passed * weight,
                failed * weight,
                not_evaluable * weight,
                errors * weight,
                score_sum,
                score_sum * weight,
                score_squares * weight,
                passed * square,
                failed * square,
                (not_evaluable + errors) * square,
                0,
                0,
            ),
        )

    @classmethod
    def one(cls, outcome: Outcome, probability: float = 1.0) -> "Tally":
        """One result, kept with this probability."""
        return cls.of(*(int(outcome == name) for name in OUTCOMES), weight=1 / probability)

    def plus(self, other: "Tally") -> "Tally":
        """Both together."""
        return tuple.__new__(Tally, map(add, self, other))

    def counted(self, counts: bool, backfilled: bool = False) -> "Tally":
        """The same results, as incomplete ones unless `counts`; `backfilled`: they were judged afterwards."""
        if not counts:
            return tuple.__new__(Tally, (*NO_RESULTS[:14], self.results, 0))
        return self._replace(backfilled=self.results) if backfilled else self

    @property
    def passes(self) -> Weighted:
        """The passes with their weights."""
        return Weighted(self.passed, self.all_passed, self.passed_squares)

    @property
    def fails(self) -> Weighted:
        """The fails with their weights."""
        return Weighted(self.failed, self.all_failed, self.failed_squares)

    @property
    def judged(self) -> int:
        """Passes and fails: what a pass rate is made of."""
        return self.passed + self.failed

    @property
    def results(self) -> int:
        """Results of any outcome, without the incomplete ones."""
        return self.passed + self.failed + self.not_evaluable + self.errors

    @property
    def subjects(self) -> int:
        """The number of subjects that matched, with any outcome."""
        return self.results + self.incomplete

    @property
    def all_judged(self) -> float:
        """The number of subjects that the passes and fails stand for."""
        return self.all_passed + self.all_failed

    @property
    def all_results(self) -> float:
        """The number of subjects that results of any outcome stand for."""
        return self.all_passed + self.all_failed + self.all_not_evaluable + self.all_errors

    @property
    def judged_squares(self) -> float:
        """The sum of squares of the weights of passes and fails."""
        return self.passed_squares + self.failed_squares

    @property
    def squares(self) -> float:
        """The sum of squares of the weights of results of any outcome."""
        return self.passed_squares + self.failed_squares + self.other_squares

    @property
    def pass_rate(self) -> float | None:
        """The estimated share of passes among all results; None when nothing passed or failed: that is not 0."""
        return self.all_passed / self.all_judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the pass rate, corrected for continuity; None when nothing passed or failed.

        For a sample, it is the interval of the kept results, which estimate the same share.
        """
        rate = self.pass_rate
        return None if rate is None else wilson(rate * self.judged, self.judged, Z95)

    @property
    def coverage(self) -> float | None:
        """The share of results that could be judged; None without results."""
        return self.judged / self.results if self.results else None

    def to_json(self) -> dict[str, JsonValue]:
        """The pass rate and the numbers, by outcome."""
        return {"pass_rate": self.pass_rate, "results": self.judged, **self.by_outcome()}

    def by_outcome(self) -> dict[str, JsonValue]:
        """The numbers alone, by outcome."""
        return {
            "pass": self.passed,
            "fail": self.failed,
            "not_evaluable": self.not_evaluable,
            "error": self.errors,
            "incomplete": self.incomplete,
        }

    def sums(self) -> dict[str, JsonValue]:
        """The same as sums, with the numbers of all subjects that the passes and fails stand for."""
        return {
            "passed": self.passed,
            "failed": self.failed,
            "not_evaluable": self.not_evaluable,
            "errors": self.errors,
            "incomplete": self.incomplete,
            "passes": self.all_passed,
            "fails": self.all_failed,
            "backfilled": self.backfilled,
            "pass_rate": self.pass_rate,
        }


NO_RESULTS = Tally()


def total(tallies: Iterable[Tally]) -> Tally:
    """All of them together."""
    return Tally._make(map(sum, zip(NO_RESULTS, *tallies, strict=True)))
