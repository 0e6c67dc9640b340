"""The conversations of a trace as the page shows them: cut to what fits, with the tokens and the cost of each step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import NamedTuple

from tracegrade.extract.conversation import Step, Talk
from tracegrade.model.usage import CostOf, Usage, no_prices

STEPS_DIFFER = "by the prices of now the steps do not add up to what was stored, so they show no cost"
NO_COST = "none was stored when it was judged"


class Spent(NamedTuple):
    """What model calls used: their models, tokens that they read and wrote, and their cost.

    Tokens are None where they were not recorded, ``cost`` where it is not known; ``unknown`` says why that, or the cost
    of its parts, is not.
    """

    models: tuple[str, ...]
    input: int | None
    output: int | None
    cost: float | None
    unknown: str


@dataclass(frozen=True, slots=True)
class ShownStep:
    """One step, with what it used."""

    step: Step
    spent: Spent


@dataclass(frozen=True, slots=True)
class ShownTalk:
    """The conversation of one agent run.

    ``parent`` is the agent that called it, None of the outermost. ``hidden_steps`` and ``hidden_calls`` are left out.
    """

    talk: Talk
    parent: str | None
    steps: list[ShownStep]
    spent: Spent
    hidden_steps: int
    hidden_calls: int


def spent(usages: Sequence[Usage], cost_of: CostOf) -> Spent:
    """What these model calls used together."""
    inputs = [tokens.input for _, tokens in usages if tokens.input is not None]
    outputs = [tokens.output for _, tokens in usages if tokens.output is not None]
    cost = cost_of(usages)
    models = tuple(dict.fromkeys(model for model, _ in usages if model))
    return Spent(models, sum(inputs) if inputs else None, sum(outputs) if outputs else None, cost.amount, cost.unknown)


def spent_by(talks: Iterable[Talk], cost_of: CostOf) -> Spent:
    """What all model calls of `talks` used."""
    return spent([usage for talk in talks for step in talk.steps for usage in step.usages], cost_of)


def spent_as_judged(talks: Iterable[Talk], prices: CostOf, cost: float | None) -> tuple[Spent, CostOf]:
    """What all model calls of `talks` used, at the `cost` that was stored when they were judged.

    Then the prices by which single steps are shown: `prices`, or none where these give another cost now.
    """
    used = spent_by(talks, prices)
    if cost is None:
        return used._replace(cost=None, unknown=used.unknown or NO_COST), no_prices
    if used.cost is None or not isclose(used.cost, cost, rel_tol=1e-9):
        return used._replace(cost=cost, unknown=STEPS_DIFFER), no_prices
    return used, prices


def shown_talks(talks: Sequence[Talk], cost_of: CostOf, most: int | None) -> list[ShownTalk]:
    """`talks` with at most `most` calls and as many steps without any, of all of them together; None: all."""
    names = {talk.run.span_id: talk.run.agent for talk in talks}
    left = most if most is not None else sum(len(talk.steps) + len(talk.run.calls) for talk in talks)
    found = []
    for talk in talks:
        steps = []
        shown_calls = 0
        for step in talk.steps:
            if left <= 0:
                break
            cut, calls = _cut(step, left)
            left -= max(1, calls)
            shown_calls += calls
            steps.append(ShownStep(cut, spent(step.usages, cost_of)))
        found.append(
            ShownTalk(
                talk,
                names.get(talk.run.parent_span_id or ""),
                steps,
                spent_by([talk], cost_of),
                len(talk.steps) - len(steps),
                len(talk.run.calls) - shown_calls,
            )
        )
    return found


def _cut(step: Step, most: int) -> tuple[Step, int]:
    """The step with at most `most` calls, and how many these are."""
    calls = sum(map(len, step.calls))
    if calls <= most:
        return step, calls
    kept, left = [], most
    for together in step.calls:
        if left > 0:
            kept.append(together[:left])
            left -= len(together)
    return replace(step, calls=kept), most
