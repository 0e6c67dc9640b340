"""Values that an alert may watch, by the name in `of`; importing it loads no model."""

PASS_RATE = "pass_rate"
"""The value that an alert watches by default."""

UNJUDGED = ("not_evaluable", "error")
"""Outcomes whose share among all results an alert may watch."""

SHARES = (PASS_RATE, *UNJUDGED)
"""Values of a rule as a whole that an alert may watch."""

SCORE = ".score"
"""Ends the name of an evaluation whose mean score is watched."""


def watched_evaluation(of: str) -> str:
    """The name of the evaluation whose outcomes an alert on `of` watches; "" for those of the whole rule."""
    evaluation = of.removesuffix(SCORE)
    return "" if evaluation in SHARES else evaluation
