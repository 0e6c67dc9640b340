"""``explain: "{arguments.amount} was refunded without approval"``: a rule's own sentence for a fail.

In a rule of several evaluators it is said only where a fail names a call: of the others it may be untrue.

Names in braces are parts of the call that the fail is about: the first call of the first violation of `constraints`, or
the call judged with ``scope: tool-call``. They are those by which `constraints` asks for a call: ``arguments.PATH`` or
``args.PATH``, ``output``, ``output.PATH``, ``error.type``, ``error.message``, ``tool``, ``agent``.

The sentence is made twice, with names in place of values and with values: `Evaluation.explanation` and its details.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

from tracegrade.display import printable
from tracegrade.document.problem import did_you_mean
from tracegrade.evaluate.compare.outputs import DecodedOutputs
from tracegrade.evaluate.constraints.agreement import is_path, steps_of, value_at
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.json_values import excerpt
from tracegrade.model.evaluation import RULE_SENTENCE
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_unknown
from tracegrade.model.tool_call import ToolCall

LONGEST_VALUE = 60
_NAMED = re.compile(r"\{([^{}]*)\}")
_PARTS = ("tool", "agent", "error.type", "error.message", "output")
_WITH_PATH = ("arguments", "args", "output")


def mistakes_in(text: str, *, has_call: bool, is_of_one: bool) -> list[tuple[str, str]]:
    """Each mistake in a sentence: the part of the text that is wrong, "" for all of it, and why.

    Args:
        text: the sentence of a rule.
        has_call: the rule can say of which call a fail is.
        is_of_one: the rule has one evaluator.
    """
    names = _NAMED.findall(text)
    found = [(f"{{{name}}}", message) for name in names if (message := _mistake_of(name))]
    if "{" in (rest := _NAMED.sub("", text)) or "}" in rest:
        message = "a brace has no counterpart; names of parts of a call stand in braces: {arguments.amount}"
        found.append(("", message))
    if names and not has_call:
        message = (
            f"{{{names[0]}}} is a part of a call, which a fail of this rule does not have; use 'constraints' or "
            "scope: tool-call, or leave the braces out"
        )
        found.append((f"{{{names[0]}}}", message))
    elif text and not has_call and not is_of_one:
        found.append(("", "which of several evaluators it is about is not known; give each a rule of its own"))
    return found


def of_fail(
    text: str, evidence: Evidence, details: Mapping[str, JsonValue], *, of_call: bool, is_of_one: bool
) -> tuple[str, dict[str, JsonValue]] | None:
    """The sentence with names in place of values, and `details` with the one that has the values, if it has any.

    None where the evaluator speaks for itself: the rule has others, and the fail names no call.

    Args:
        text: the sentence of the rule.
        evidence: the calls judged.
        details: the evaluator's justification.
        of_call: one call is judged alone.
        is_of_one: the rule has one evaluator.
    """
    position = 0 if of_call and evidence.calls else _violating(details)
    if position is None and not is_of_one:
        return None
    masked, filled = [], []
    for place, part in enumerate(_NAMED.split(text)):
        if place % 2 == 0:
            name = value = part
        else:
            name = _field_name(part)
            value = name if position is None else _value(part, evidence, position) or name
        masked.append(value if part in ("tool", "agent") else name)
        filled.append(value)
    sentence, with_values = "".join(masked), "".join(filled)
    return sentence, {**details} if with_values == sentence else {**details, RULE_SENTENCE: with_values}


def _mistake_of(name: str) -> str:
    first, _, rest = name.partition(".")
    begin = first.partition("[")[0]
    if name in _PARTS or ((begin == "output" != name or (rest and first in _WITH_PATH)) and is_path(name)):
        return ""
    expected = f"; expected arguments.NAME, output.NAME, {', '.join(_PARTS[:-1])} or {_PARTS[-1]}"
    if is_path(name) and begin not in ("error", *_WITH_PATH):
        expected = did_you_mean(name, [*_PARTS, *(f"{word}.{rest}" for word in _WITH_PATH)]) if rest else ""
        expected = expected if expected.startswith("; did") else f"; did you mean 'arguments.{name}'?"
    return f"no part of a call is named {name!r}{expected}"


def _violating(details: Mapping[str, JsonValue]) -> int | None:
    """The position of the first call of the first violation that is certain."""
    constraints = details.get("constraints")
    for each in constraints if isinstance(constraints, list) else ():
        violations = each.get("violations") if isinstance(each, dict) else None
        for violation in violations if isinstance(violations, list) else ():
            if not isinstance(violation, dict) or violation.get("unknown"):
                continue
            calls = violation.get("calls")
            first = calls[0] if isinstance(calls, list) and calls else None
            number = first.get("call") if isinstance(first, dict) else None
            return number - 1 if isinstance(number, int) else None
    return None


@lru_cache(1024)
def _field_name(name: str) -> str:
    """What stands in place of a value: the last name of its path."""
    if name.startswith("error."):
        return name.replace(".", " ")
    _, steps = steps_of(_as_path(name)) if "." in name else ("", ())
    return next((step for step in reversed(steps) if isinstance(step, str)), name)


def _as_path(name: str) -> str:
    return f"args.{name.removeprefix('arguments.')}" if name.startswith("arguments.") else name


def _value(name: str, evidence: Evidence, position: int) -> str | None:
    """A part of a call as a text of one line; None where it is not known."""
    call = evidence.calls[position]
    value = _part_of(name, evidence, position, call)
    try:
        if value is None or value == "" or holds_unknown(value):
            return None
    except RecursionError:  # deeper than what is read from spans
        return None
    text = printable(" ".join((value if isinstance(value, str) else excerpt(value, LONGEST_VALUE)).split()))
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def _part_of(name: str, evidence: Evidence, position: int, call: ToolCall) -> JsonValue:
    if name in ("tool", "agent"):
        return call.name if name == "tool" else call.agent
    if name.startswith("error."):
        return None if call.error is None else call.error.type if name == "error.type" else call.error.message
    part, steps = ("output", ()) if name == "output" else steps_of(_as_path(name))
    if call.lack_of(part, in_part=evidence.redacted) is not None:
        return None
    whole = call.arguments if part == "arguments" else evidence.once(DecodedOutputs)[position]
    return value_at(whole, steps)[0]
