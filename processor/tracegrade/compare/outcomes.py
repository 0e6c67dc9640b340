"""How many results of each outcome there are, and the pass rate that they make; importing it loads no store."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tracegrade.alert.detect.bounds import wilson
from tracegrade.compare.shares import Share, Weighted, share_of
from tracegrade.model.evaluation import Outcome
from tracegrade.model.json_value import JsonValue

_ERROR = 0.025  # on each side


@dataclass(slots=True)
class Tally:
    """The outcomes of a rule, an evaluation, or any group of them; ``incomplete`` ones are in no other number.

    ``kept`` is how often a pass is kept for each fail that is, where there are only passes or only fails. Pass rates
    are estimates for all subjects: in a sample, a result whose chance of being kept is 1/4 stands for 4. The other
    numbers count results; errors and what is not evaluable are in no pass rate.
    """

    kept: float = 1.0
    passes: Weighted = field(default_factory=Weighted)
    fails: Weighted = field(default_factory=Weighted)
    not_evaluable: int = 0
    errors: int = 0
    incomplete: int = 0

    @property
    def passed(self) -> int:
        """How many passed."""
        return self.passes.stored

    @property
    def failed(self) -> int:
        """How many failed."""
        return self.fails.stored

    @property
    def results(self) -> int:
        """Passes and fails: what a pass rate is made of."""
        return self.passes.stored + self.fails.stored

    @property
    def subjects(self) -> int:
        """The number of subjects that matched, with any outcome."""
        return self.results + self.not_evaluable + self.errors + self.incomplete

    @property
    def share(self) -> Share | None:
        """The share of passes; None without results."""
        return share_of(self.passes, self.fails, self.kept)

    @property
    def ratio(self) -> float:
        """How often a pass is kept for each fail that is."""
        return self.kept if (share := self.share) is None else share.ratio

    @property
    def pass_rate(self) -> float | None:
        """The estimated share of passes among all results; None when nothing passed or failed: that is not 0."""
        return self.passes.total / (self.passes.total + self.fails.total) if self.results else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % confidence interval of the pass rate by itself, corrected for continuity; None without results."""
        rate = self.pass_rate
        return None if rate is None else wilson(rate * self.results, self.results, _ERROR)

    def count(self, outcome: Outcome, probability: float = 1.0) -> None:
        """Add one result, kept with this probability."""
        match outcome:
            case "pass":
                self.passes = self.passes.plus(1, probability)
            case "fail":
                self.fails = self.fails.plus(1, probability)
            case "not_evaluable":
                self.not_evaluable += 1
            case "error":
                self.errors += 1

    def add(self, outcomes: Sequence[int], probability: float, *, counts: bool) -> None:
        """Add as many results of each outcome, kept with this probability; with `counts` False, as incomplete ones."""
        if not counts:
            self.incomplete += sum(outcomes)
            return
        passed, failed, not_evaluable, errors = outcomes
        self.passes = self.passes.plus(passed, probability)
        self.fails = self.fails.plus(failed, probability)
        self.not_evaluable += not_evaluable
        self.errors += errors

    def to_json(self) -> dict[str, JsonValue]:
        """The pass rate and the numbers."""
        return {
            "pass_rate": self.pass_rate,
            "results": self.results,
            "pass": self.passed,
            "fail": self.failed,
            "not_evaluable": self.not_evaluable,
            "error": self.errors,
            "incomplete": self.incomplete,
        }
