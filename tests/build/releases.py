"""Results of two releases, for comparisons."""

from collections.abc import Iterator
from typing import Any

from build.judged_traces import evaluation, judged
from tracegrade.model.trace_result import TraceResult

RULE = "checkout-order"


def traces(release: str, outcomes: str, *, first: int, **changes: Any) -> Iterator[TraceResult]:
    """A trace of `release` for each letter of `outcomes`: p pass, f fail, n not_evaluable, e error.

    The traces are numbered from `first`. `changes` are of their evaluations; those that a trace has too, also of it.
    """
    words = {"p": "pass", "f": "fail", "n": "not_evaluable", "e": "error"}
    for number, letter in enumerate(outcomes, first):
        shared = {key: value for key, value in changes.items() if key in ("run", "service", "complete", "tenant")}
        found = evaluation(number, words[letter], **{"release": release, **changes})
        yield judged(number, evaluations=[found], release=release, **shared)
