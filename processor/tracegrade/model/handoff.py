"""Handoffs: one agent passes the task on to another."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tracegrade.model.tool_call import ToolCall

# Where a handoff is to be seen: a tool call by which the model passes the task on; a span that a framework writes for
# it; or that the run of one agent follows that of another, or lies in it.
SeenIn: TypeAlias = Literal["calls", "spans", "runs"]

_NO_WORD = re.compile(r"[^a-z0-9]+")
_PASSES_ON = re.compile(
    r"(?:transfer(?:_(?:task|work|control|conversation))?(?:_back)?_to"
    r"|hand_?off(?:_(?:back|to))*"
    r"|delegate(?:_(?:task|tasks|work|to))*)"
    r"(?:_(?P<to>.+))?"
)
# What stands for an agent in a tool's name where an argument says which.
_ANY_AGENT = frozenset({"agent", "member", "members", "coworker", "co_worker", "assistant", "specialist", "teammate"})
_ARGUMENTS = (
    *("agent_name", "to_agent", "target_agent", "target_agent_name", "agent", "coworker", "co_worker", "member_id"),
    *("member", "recipient", "assistant", "specialist", "teammate", "target", "to", "name"),
)


@dataclass(frozen=True, slots=True)
class Handoff:
    """A task passed on.

    ``from_agent`` and ``to_agent`` are names, "" where that is not recorded. ``start_ns`` is when, ns since 1970 UTC, 0
    without times. ``span_id`` (hex) is the span that shows it: for `runs` that of the later run. ``agent_span_id`` is
    the subject id of the run that passed it on, "" where that is unknown. ``calls_before`` counts the tool calls of the
    trace made before it that are no handoffs: two in a row have the same.
    """

    from_agent: str
    to_agent: str
    start_ns: int
    span_id: str
    seen_in: SeenIn
    agent_span_id: str
    calls_before: int = 0


def plain_name(name: str) -> str:
    """A name as frameworks make a tool's or an id of it: lower case, words joined by underscores."""
    return _NO_WORD.sub("_", name.lower()).strip("_")


def passes_on(tool: str) -> bool:
    """Whether a tool's name says that a call of it passes the task on, as in `passed_on_to`."""
    return _PASSES_ON.fullmatch(plain_name(tool)) is not None


def passed_on_to(call: ToolCall) -> str | None:
    """The agent to which a call passes the task on, "" where it does not say to which; None: it is no handoff.

    These are calls of tools that are named so: ``transfer_to_billing``, ``transfer_to_agent(agent_name="billing")``,
    ``handoff_to_billing``, ``Delegate work to coworker(coworker="Billing")``, ``delegate_task_to_member``.
    """
    found = _PASSES_ON.fullmatch(plain_name(call.name))
    if found is None:
        return None
    to = (found["to"] or "").removeprefix("to_")
    if to and to not in _ANY_AGENT:
        return to
    given = call.arguments if isinstance(call.arguments, dict) else {}
    return next((name for key in _ARGUMENTS if isinstance(name := given.get(key), str) and name), "")


def handoffs_among(calls: Sequence[ToolCall]) -> list[Handoff]:
    """The handoffs that are calls, in their order; one of a call without a time has that of the call before it."""
    found: list[Handoff] = []
    at_ns = 0
    for place, call in enumerate(calls):
        at_ns = max(at_ns, call.start_ns)
        if (to := passed_on_to(call)) is not None:
            work = place - len(found)
            found.append(Handoff(call.agent, to, at_ns, call.span_id, "calls", call.agent_span_id, work))
    return found
