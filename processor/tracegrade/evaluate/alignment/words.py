"""Steps of a partial order as a person would say them."""

from collections.abc import Sequence

from tracegrade.evaluate.alignment.steps import Choice, Item, Parallel, Step
from tracegrade.evaluate.criteria.expected_words import members_in_words
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.wording import counted


def in_order(items: Sequence[Item]) -> list[str]:
    """Items that follow each other, in words: the first, and ``then`` each that comes after the one above it."""
    said = [_item(item) for item in items]
    return [
        said[0],
        *(text if _has_own_place(item) else f"then {text}" for item, text in zip(items[1:], said[1:], strict=True)),
    ]


def _has_own_place(item: Item) -> bool:
    """Whether a step says itself where it comes, so that it does not follow the one above it."""
    return isinstance(item, Step) and (item.anywhere or item.after is not None)


def _item(item: Item) -> str:
    """One item: ``check_inventory, once to 3 times``, ``beside each other: a; and b, then c``."""
    if isinstance(item, Parallel):
        return f"beside each other: {'; and '.join(map(_branch, item.parallel))}"
    if isinstance(item, Choice):
        return f"one of these: {'; or '.join(map(_branch, item.choice))}"
    return item if isinstance(item, str) else _step(item)


def _branch(items: Sequence[Item]) -> str:
    return ", ".join(in_order(items))


def _step(step: Step) -> str:
    names = " or ".join(listed_names(step.tool))
    said = [names if step.args is None else f"{names} (where {', and '.join(members_in_words('args', step.args))})"]
    if step.name:
        said[0] += f", called {step.name!r}"
    if step.repeat is not None:
        said.append(_times(*step.repeat))
    if step.after is not None:
        said.append(f"after {' and '.join(step.after)}" if step.after else "after no other step")
    if step.anywhere:
        said.append("at any time")
    if step.optional:
        said.append("or not at all")
    return ", ".join(said)


def _times(least: int, most: int) -> str:
    return counted(most, "time") if least == most else f"{least} to {counted(most, 'time')}"
