"""condition: is an expression about the run true?

The score is 1 or 0. The expression is of the Common Expression Language, as in the clause ``match.cel``, and sees what
the clause sees: the calls with their arguments and outputs, handoffs, the prompt, the final answer, the session,
attributes; and the tokens and the cost of the run's model calls. It is checked when the rule is loaded.

Where something that it reads was not recorded, or has another type, nothing is scored; nor where a span is a tool call,
names no tool, and could change the result. ``has(c.arguments.amount)`` says whether something is there.

One that loops over long lists inside each other is refused when it would take more than a million turns; fewer where it
names large values inside of them, which are copied, joins texts with ``+``, or searches by ``matches``, whose pattern
is compiled each time.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Annotated

from pydantic import Field

from tracegrade.cel.calls import Extent, calls_as_seen, extent_of, handoffs_as_seen, values_of
from tracegrade.cel.expression import CelContext, CelExpression, Condition
from tracegrade.cel.reads import names_read, values_read
from tracegrade.cel.syntax import Constant, every_node
from tracegrade.display import count
from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.compare.differences import bounded
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, ParameterModel
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evaluator, same_score
from tracegrade.evaluate.evidence import Evidence, Justification, Score
from tracegrade.evaluate.handoffs_made import handoffs_made
from tracegrade.evaluate.json_values import json_text
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.evaluate.unknown import unknown_parts
from tracegrade.evaluate.wording import listed
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Unknown

_MAX_SHOWN = 100  # values in the details


class Criteria(ParameterModel):
    """What has to be true."""

    expression: Annotated[
        Condition, Field(description="The expression, such as `calls.all(c, c.arguments.amount <= 500)`.")
    ]


class Settings(ParameterModel):
    """There is one way to judge it."""

    default_evaluation_criteria: DefaultCriteria[Criteria] = None


class _Variables:
    """The variables of one subject, with what calls were given and returned or without; each is worked out once.

    The evidence keeps this, and not the reverse: it is given where something is to be worked out.
    """

    def __init__(self, evidence: Evidence, *, with_values: bool) -> None:
        self._with_values = with_values
        self._known: dict[str, JsonValue] = {}
        self.context = CelContext(redacted=evidence.redacted)

    def given(self, evidence: Evidence) -> dict[str, Callable[[], JsonValue]]:
        """A function for each variable."""
        facts = evidence.facts
        work_out = {
            **(facts.variables(with_values=self._with_values) if facts else {}),
            **_of_evidence(evidence, with_values=self._with_values),
            **_of_model_calls(evidence),
        }
        return {name: partial(self._one, name, function) for name, function in work_out.items()}

    def _one(self, name: str, work_out: Callable[[], JsonValue]) -> JsonValue:
        if name not in self._known:
            self._known[name] = work_out()
        return self._known[name]

    def of(self, evidence: Evidence, expression: CelExpression) -> Mapping[str, JsonValue]:
        """Those that the expression names, and that are there."""
        named, given = names_read(expression.tree), self.given(evidence)
        return {name: value for name in named if name in given and (value := given[name]()) is not None}


def _of_evidence(evidence: Evidence, *, with_values: bool) -> dict[str, Callable[[], JsonValue]]:
    """What is known also where a judgement is made by hand, of no trace."""
    answer = evidence.final_answer
    return {
        "prompt": lambda: evidence.prompt,
        "answer": lambda: None if answer is None else json_text(answer),
        "tools": lambda: list(dict.fromkeys(call.name for call in evidence.calls)),
        "calls": lambda: calls_as_seen(evidence.calls, with_values=with_values, redacted=evidence.redacted),
        "handoffs": lambda: handoffs_as_seen(evidence.once(handoffs_made), evidence.calls),
    }


def _of_model_calls(evidence: Evidence) -> dict[str, Callable[[], JsonValue]]:
    """What is known only when the subject is judged."""
    if (trace_context := evidence.trace_context) is None:
        return {}
    return {"tokens": trace_context.tokens, "cost": lambda: trace_context.cost().amount}


def _with_values(evidence: Evidence) -> _Variables:
    return _Variables(evidence, with_values=True)


def _without_values(evidence: Evidence) -> _Variables:
    return _Variables(evidence, with_values=False)


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    expression = criteria.expression
    if expression.may_be_too_much and (why := expression.too_much(_extent(evidence, expression))):
        raise EvaluatorError(
            "work_bound", f"{why}; loop over fewer, or judge a smaller subject (scope: agent, or tool-call)"
        )
    variables = evidence.once(_with_values if expression.reads_values else _without_values)
    holds = expression.holds(variables.context, partial(variables.given, evidence), None)
    if isinstance(holds, Unknown):
        return Score(None, {"expression": expression.source}, _why_unknown(holds, evidence, expression))
    if holds not in expression.staying and (unread := unread_call(evidence)) is not None:
        return Score(None, {"expression": expression.source}, sentence(unread))
    return Score(float(holds), justify=lambda: _justify(expression, variables, evidence, holds=holds))


def _justify(expression: CelExpression, variables: _Variables, evidence: Evidence, *, holds: bool) -> Justification:
    found = islice(values_read(expression.tree, variables.of(evidence, expression)), _MAX_SHOWN)
    read = {path: _bounded_value(value) for path, value in found}
    said = f"; it read {listed(read)}" if read else ""
    text = (
        f"The condition is true ({count(len(evidence.calls), 'call')})." if holds else f"The condition is false{said}."
    )
    return {"expression": expression.source, "holds": holds, "read": read}, text


def _extent(evidence: Evidence, expression: CelExpression) -> Extent:
    """How much the expression can read."""
    if evidence.facts is not None:
        return evidence.facts.extent(expression)
    handoffs = len(evidence.once(handoffs_made)) if expression.reads_handoffs else 0
    texts: dict[str, JsonValue] = {"prompt": evidence.prompt, "answer": evidence.final_answer}
    read: list[Iterable[JsonValue]] = [[texts[name]] for name in expression.texts_read]
    read += values_of(evidence.calls) if expression.reads_values else ()
    return extent_of(len(evidence.calls), handoffs, read)


def _bounded_value(value: JsonValue) -> JsonValue:
    return f"{len(value)} items" if isinstance(value, list) else bounded(value)


def _why_unknown(unknown: Unknown, evidence: Evidence, expression: CelExpression) -> str:
    """Why it is unknown whether the expression is true: what cannot be read of a call, else what went wrong."""
    if unknown.part == "arguments" or unknown.part == "output":
        named = {node.text for node in every_node(expression.tree) if isinstance(node, Constant)}
        # Any call may have been the one; those whose names the expression says are the likelier ones.
        if found := unknown_parts(evidence, unknown.part):
            return sentence(min(found.values(), key=lambda each: each.tool not in named))
    if expression.reads_handoffs and unknown.said.endswith("there is no to"):
        nameless = next(each for each in evidence.once(handoffs_made) if not each.to_agent)
        return f"a handoff does not say to which agent (span {nameless.span_id})"
    return unknown.said.removeprefix("cel: ")


EVALUATOR = Evaluator(
    name="condition",
    summary="Is an expression about the run true?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    asks=frozenset({"arguments", "output"}),
    with_further_calls=same_score,
    attributes_of=lambda criteria: criteria.expression.attributes,
    sentences=lambda criteria, settings: [f"this is true: {criteria.expression.source}"],
)
