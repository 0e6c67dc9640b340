"""tool-permission: did the agent call only tools that it may call?

The share of calls that are allowed: of a tool in ``allowed_tools``, where that is given, and of none in
``denied_tools``, which wins; with ``declared_only``, of a tool that is declared to the model. Without calls it is 1;
where a trace holds no tool definitions, it is unknown what was declared, and nothing is scored. A call that names
another agent of the trace, in its name or in an argument, hands over to it: frameworks add such tools without declaring
them.

Source: ToolPermissionMetric of confident-ai/deepeval.
"""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Annotated

from pydantic import Field

from tracegrade.evaluate.call_facts import names
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import NameComparison, NameTable, ToolName
from tracegrade.evaluate.evaluator import Evaluator, share_of_calls
from tracegrade.evaluate.evidence import Evidence, Score
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.unknown import REDACTED_IN_PART, unknown_parts
from tracegrade.evaluate.wording import MAX_LISTED, all_of, detailed, listed, were
from tracegrade.model.handoff import plain_name
from tracegrade.model.range import Range
from tracegrade.model.tool_call import ToolCall


class Criteria(ParameterModel):
    """All is said by the settings."""


class Settings(ParameterModel):
    """What is allowed."""

    allowed_tools: Annotated[list[ToolName] | None, Field(description="The only tools that may be called.")] = None
    denied_tools: Annotated[list[ToolName] | None, Field(description="Tools that must not be called.")] = None
    declared_only: Annotated[
        bool, Field(description="Only tools that the trace's tool definitions declare to the model.")
    ] = False
    names: Annotated[NameComparison, Field(description="How tool names are compared.")] = "exact"

    @cached_property
    def tables(self) -> tuple[NameTable, NameTable]:
        """The names allowed and denied."""
        return NameTable(self.allowed_tools or (), self.names), NameTable(self.denied_tools or (), self.names)

    def allows(self, name: str) -> bool:
        """Whether a tool may be called."""
        allowed, denied = self.tables
        return not denied.met_by(name) and (self.allowed_tools is None or bool(allowed.met_by(name)))


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    made = evidence.once(names)
    declared: Collection[str] = made
    agents: Collection[str] = ()
    if settings.declared_only and made:
        declared = {} if evidence.trace_context is None else evidence.trace_context.tool_definitions()
        if not declared:
            return Score(None, {}, "The trace has no tool definitions.")
        agents = () if evidence.trace_context is None else evidence.trace_context.agents()
    unauthorized = [
        call.name
        for call in evidence.calls
        if not settings.allows(call.name)
        or (call.name not in declared and call.raw_name not in declared and not _hands_over(call, agents))
    ]
    score = (len(made) - len(unauthorized)) / len(made) if made else 1.0
    if unknown := _may_hand_over(evidence, agents) if unauthorized else None:
        return Score(score, {}, "It cannot be decided whether a call is a handoff.", range=Range(score, 1.0, unknown))
    if unauthorized:
        text = f"{len(unauthorized)} of {were(len(made), 'call')} not allowed: {listed(unauthorized)}."
    else:
        of_what = "to declared tools" if settings.declared_only else "allowed"
        text = f"{all_of(len(made), 'call')} {of_what}." if made else "No call was made."
    return Score(
        score,
        {"unauthorized": detailed(unauthorized[:MAX_LISTED])},
        text,
    )


def _may_hand_over(evidence: Evidence, agents: Collection[str]) -> str | None:
    """Which call may name another agent in an argument that was redacted; None where none does."""
    for position, call in enumerate(evidence.calls if evidence.redacted and len(agents) > 1 else ()):
        unknown = unknown_parts(evidence, "arguments").get(position)
        if unknown is not None and (call.arguments_status == "redacted" or unknown.kind in REDACTED_IN_PART):
            return sentence(unknown)
    return None


def _hands_over(call: ToolCall, agents: Collection[str]) -> bool:
    """Whether a call names another agent: ``transfer_to_billing``, ``delegate(member="billing")``."""
    others = {plain_name(agent) for agent in agents if agent != call.agent} - {""}
    if not others:
        return False
    name = plain_name(call.name)
    if any(name == other or name.endswith(f"_{other}") for other in others):
        return True
    given = call.arguments.values() if isinstance(call.arguments, dict) else ()
    return any(isinstance(value, str) and plain_name(value) in others for value in given)


def _sentences(criteria: Criteria, settings: Settings) -> list[str]:
    said = [] if settings.allowed_tools is None else [f"only {_any_of(settings.allowed_tools)} is called"]
    said += [f"{_any_of(settings.denied_tools)} is never called"] if settings.denied_tools else []
    return said + (
        ["only tools that the trace's tool definitions declare are called"] if settings.declared_only else []
    )


def _any_of(names: Sequence[str]) -> str:
    return " or ".join(names) or "no tool"


EVALUATOR = Evaluator(
    name="tool-permission",
    summary="Did the agent call only tools that it may call?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    with_further_calls=share_of_calls,
    sentences=_sentences,
    settings_said=frozenset({"allowed_tools", "denied_tools", "declared_only"}),
    never_scores=lambda criteria, settings: (
        "nothing is allowed or denied; give allowed_tools, denied_tools or declared_only"
        if settings.allowed_tools is None and settings.denied_tools is None and not settings.declared_only
        else None
    ),
)
