"""handoffs: did agents pass their tasks on to the right agents, in the right order, and not back and forth?

The share of what was asked that was kept. A handoff is seen as a tool call that is named so (``transfer_to_billing``,
``handoff_to_agent``, ``Delegate work to coworker``), as a span that frameworks write for it, or as agent runs that
follow each other: an agent's run after that of another one, or inside it and inside none of its tool calls. What shows
in several of these is one handoff. ``seen_in`` says which count.

``may_pass_to`` names for each agent the agents to which it may pass its task on; an agent that it does not name may
pass it to any. ``order`` names agents that get the task one after the other; others may come between. ``max_handoffs``
and ``max_in_a_row`` are limits; in a row are those with no other tool call between them. Names are globs, and those of
tools count as well: ``billing_team`` is Billing Team.

Agents that take turns, as in a group chat or a fixed chain, are runs that follow each other too: give ``seen_in:
[calls, spans]`` where only what an agent itself passed on should count. Where a handoff does not say to whom, or a span
is a tool call and names no tool, and that decides, nothing is scored.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field

from tracegrade.display import count
from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import NameTable, ToolName, ToolNames, listed_names
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.handoffs_made import handoffs_made
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.wording import MAX_LISTED, agreeing, listed, were
from tracegrade.model.handoff import Handoff, SeenIn, plain_name
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import is_unknown

_EVERYWHERE: tuple[SeenIn, ...] = ("calls", "spans", "runs")


class Criteria(ParameterModel):
    """What is asked; at least one of these."""

    may_pass_to: Annotated[
        dict[ToolName, ToolName | list[ToolName]] | None,
        Field(description="For each agent those to which it may pass its task on; one not named may pass it to any."),
    ] = None
    order: Annotated[
        list[ToolNames] | None,
        Field(min_length=1, description="The agents that get the task, in this order; others may come between."),
    ] = None
    max_handoffs: Annotated[int | None, Field(ge=0, description="Handoffs.")] = None
    max_in_a_row: Annotated[int | None, Field(ge=0, description="Handoffs with no other tool call between them.")] = (
        None
    )

    @cached_property
    def passing(self) -> tuple[NameTable, list[NameTable]]:
        """The agents that are named as passing a task on, and for each of them those that may get it."""
        allowed = self.may_pass_to or {}
        return NameTable(allowed, "glob"), [NameTable([names], "glob") for names in allowed.values()]

    @cached_property
    def ordered(self) -> list[NameTable]:
        """The agents of the order, each by itself."""
        return [NameTable([names], "glob") for names in self.order or ()]


class Settings(ParameterModel):
    """What counts as a handoff."""

    seen_in: list[SeenIn] = Field(
        default_factory=lambda: [*_EVERYWHERE],
        min_length=1,
        description="Where a handoff is seen: in calls, in spans of its own, in runs that follow each other.",
    )


def _is_among(table: NameTable, name: str) -> Sequence[int]:
    return table.met_by(name) or table.met_by(plain_name(name))


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    def any_of(names: str | Sequence[str]) -> str:
        return " or ".join(listed_names(names))

    said = [
        f"{name} passes its task on {f'only to {any_of(to)}' if to else 'to nobody'}"
        for name, to in (criteria.may_pass_to or {}).items()
    ]
    if criteria.order is not None:
        said.append(f"the task is passed on to {', then to '.join(map(any_of, criteria.order))}")
    if criteria.max_handoffs is not None:
        said.append(f"there {_are(criteria.max_handoffs)} at most")
    if criteria.max_in_a_row is not None:
        said.append(f"there {_are(criteria.max_in_a_row)} at most in a row, without another tool call between them")
    return said


def _are(limit: int) -> str:
    return f"{agreeing(limit, 'is', 'are')} {count(limit, 'handoff')}"


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    handoffs = [each for each in evidence.once(handoffs_made) if each.seen_in in settings.seen_in]
    unread = unread_call(evidence) if "calls" in settings.seen_in else None
    found = list(_checks(handoffs, criteria, more_may_be=unread is not None))
    if not found:
        return Score(None, {}, "The rule asks nothing of handoffs, so there is nothing to score.")
    broken = [text for text in found if text]
    shown: list[JsonValue] = [_detail(each) for each in handoffs[:MAX_LISTED]]
    details: dict[str, JsonValue] = {"handoffs": shown, "longest_row": _longest_row(handoffs), "broken": [*broken]}
    if None in found and not broken and unread is not None:
        return Score(None, details, sentence(unread))
    if None in found and not broken and (hidden := _redacted(handoffs)) is not None:
        return Score(None, details, f"The name of an agent was redacted (span {hidden.span_id}).")
    if None in found and not broken:
        nameless = next(each for each in handoffs if not each.to_agent)
        return Score(None, details, f"A handoff does not say to which agent (span {nameless.span_id}).")
    known = [text for text in found if text is not None]
    text = f"{were(len(handoffs), 'handoff')} made" if handoffs else "No handoff was made"
    text += f": {'; '.join(broken)}." if broken else "."
    return Score((len(known) - len(broken)) / len(known), details, text)


def _checks(handoffs: Sequence[Handoff], criteria: Criteria, *, more_may_be: bool) -> Iterator[str | None]:
    """Of each thing that is asked, what is wrong, "" where nothing is; None: it is unknown.

    `more_may_be`: calls were made that are not known, which may be handoffs, or stand between two.
    """
    kept = None if more_may_be else ""
    if criteria.may_pass_to is not None:
        wrong = [each for each in handoffs if not _may(each, criteria)]
        told = next((each for each in wrong if each.to_agent and not is_unknown(each.to_agent)), None)
        is_open = bool(wrong) or _redacted(handoffs) is not None
        yield f"{_named(told)} is not allowed" if told is not None else None if is_open else kept
    if criteria.order is not None:
        reached = _reached(handoffs, criteria.ordered)
        if reached == len(criteria.ordered):
            yield ""
        else:
            is_known = not more_may_be and all(each.to_agent and not is_unknown(each.to_agent) for each in handoffs)
            yield _not_reached(criteria.order, reached) if is_known else None
    if criteria.max_handoffs is not None:
        yield _over(len(handoffs), criteria.max_handoffs, "in all") or kept
    if criteria.max_in_a_row is not None:
        over = _over(_longest_row(handoffs), criteria.max_in_a_row, "in a row without another tool call")
        yield None if more_may_be else over


def _redacted(handoffs: Sequence[Handoff]) -> Handoff | None:
    """The first of which the name of an agent was redacted."""
    return next((each for each in handoffs if is_unknown(each.from_agent) or is_unknown(each.to_agent)), None)


def _over(found: int, limit: int, how: str) -> str:
    return f"{found} {how} (limit {limit})" if found > limit else ""


def _may(handoff: Handoff, criteria: Criteria) -> bool:
    passing, allowed = criteria.passing
    places = _is_among(passing, handoff.from_agent)
    return not places or any(_is_among(allowed[place], handoff.to_agent) for place in places)


def _reached(handoffs: Iterable[Handoff], order: Sequence[NameTable]) -> int:
    """How many of the order, from its beginning, got the task one after the other."""
    reached = 0
    for each in handoffs:
        if reached < len(order) and _is_among(order[reached], each.to_agent):
            reached += 1
    return reached


def _not_reached(order: Sequence[str | Sequence[str]], reached: int) -> str:
    def name(names: str | Sequence[str]) -> str:
        return names if isinstance(names, str) else " or ".join(names)

    after = f" after {name(order[reached - 1])}" if reached else ""
    return f"the handoff to {name(order[reached])}{after} is missing"


def _longest_row(handoffs: Sequence[Handoff]) -> int:
    longest = row = 0
    last: int | None = None
    for each in handoffs:
        row = row + 1 if each.calls_before == last else 1
        last = each.calls_before
        longest = max(longest, row)
    return longest


def _named(handoff: Handoff) -> str:
    return f"from {listed([handoff.from_agent or 'an agent without a name'])} to {listed([handoff.to_agent])}"


def _detail(handoff: Handoff) -> dict[str, JsonValue]:
    return {
        "from": handoff.from_agent,
        "to": handoff.to_agent,
        "seen_in": handoff.seen_in,
        "span_id": handoff.span_id,
        "calls_before": handoff.calls_before,
    }


EVALUATOR = Evaluator(
    name="handoffs",
    summary="Did agents pass their tasks on to the right agents, in the right order, and not back and forth?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    with_further_calls=same_score,
    sentences=_sentences,
    never_scores=lambda criteria, settings: (
        None
        if any(value is not None for _, value in criteria)
        else "nothing is asked; give may_pass_to, order, max_handoffs or max_in_a_row"
    ),
)
