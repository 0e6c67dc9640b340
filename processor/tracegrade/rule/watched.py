"""What an alert may watch, by the name that its `of` has; importing it loads no model."""

PASS_RATE = "pass_rate"
"""What an alert watches unless it names something else."""

UNJUDGED = ("not_evaluable", "error")
"""Outcomes whose share among all results an alert may watch."""

SHARES = (PASS_RATE, *UNJUDGED)
"""What an alert may watch of a rule as a whole."""

SCORE = ".score"
"""Ends the name of an evaluation whose mean score is watched."""


def watched_evaluation(of: str) -> str:
    """The name of the evaluation whose outcomes an alert on `of` watches; "" for those of the whole rule."""
    evaluation = of.removesuffix(SCORE)
    return "" if evaluation in SHARES else evaluation
