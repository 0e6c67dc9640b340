"""The least and the most that a score can be, where something of a trace is unknown."""

from typing import NamedTuple

from tracegrade.model.evaluation import Outcome

# Scores are sums of fractions: 0.1 + 0.2 must reach a threshold of 0.3.
_PASS_TOLERANCE = 1e-9


def reaches(score: float, threshold: float) -> bool:
    """Whether a score passes."""
    return score >= threshold - _PASS_TOLERANCE


class Range(NamedTuple):
    """The two ends of a score; ``why`` says in one sentence what is unknown, "" where both ends are one."""

    least: float
    most: float
    why: str = ""

    def outcome(self, threshold: float) -> Outcome:
        """Pass where both ends reach `threshold`, fail where none does, else not_evaluable."""
        passes = reaches(self.least, threshold)
        if passes is not reaches(self.most, threshold):
            return "not_evaluable"
        return "pass" if passes else "fail"

    def widened(self, least: float, most: float, why: str) -> "Range":
        """The same where the score may also be from `least` to `most`, for another reason."""
        if self.least <= least and most <= self.most:
            return self
        return Range(min(self.least, least), max(self.most, most), why)
