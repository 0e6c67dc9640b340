"""What the evaluators of a tool-calling test case share: which call is scored, its tool, and its parameters.

Whole calls in the place of a call's name are read as those calls, in each form of `whole_calls`: some models write so.

Source: Maheidem/llm-benchmark-studio, routers/helpers.py (the weights, the modes, what is scored when nothing is
expected).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeAlias, get_args

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.compare.differences import listed_differences
from tracegrade.evaluate.criteria.compile import LITERAL, MATCHERS
from tracegrade.evaluate.criteria.expected import Difference, Expected, ExpectedObject, LiteralValue
from tracegrade.evaluate.criteria.field_types import ExpectedArguments
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.regular_expressions import regex_expression, steps_of_search
from tracegrade.evaluate.criteria.semantic import Model
from tracegrade.evaluate.criteria.tool_names import listed_names
from tracegrade.evaluate.criteria.value_modes import ValueModes
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.json_values import json_equal, json_text
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.unknown import unreadable_parts
from tracegrade.evaluate.whole_calls import argument_object, calls_in_name
from tracegrade.evaluate.wording import detailed
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import holds_mask, holds_unknown
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.tri import Tri, Unknown

TOOL_WEIGHT, PARAM_WEIGHT = 0.6, 0.4
_DEFAULT_EPSILON = 0.01

ExpectedTool: TypeAlias = Annotated[
    str | list[str] | None, Field(description="The tool, or several, any of which is right; null: no call at all.")
]
ExpectedParams: TypeAlias = Annotated[
    ExpectedArguments | None, Field(description="Parameters by name; null: not scored.")
]
ParamMode: TypeAlias = Literal["exact", "case_insensitive", "contains", "numeric_tolerance", "regex"]
_MODES = frozenset(get_args(ParamMode))
Occurrence: TypeAlias = Annotated[
    Literal["first", "last"], Field(description="Which of the calls is scored, of any tool.")
]


def _known_mode(value: Any, info: ValidationInfo) -> Any:
    """An unknown mode is the default one where criteria were imported, as in the source; in a rule it is a mistake."""
    imported = (info.context or MATCHERS) is LITERAL
    return "exact" if imported and isinstance(value, str) and value not in _MODES else value


class ScoringConfig(ParameterModel):
    """How the parameters of a case are compared."""

    mode: Annotated[
        ParamMode,
        BeforeValidator(_known_mode),
        WithJsonSchema({"enum": sorted(_MODES)}),
        Field(description="How a value is compared with the one expected."),
    ] = "exact"
    epsilon: Annotated[float, Field(ge=0, description="numeric_tolerance: the most that numbers may differ.")] = (
        _DEFAULT_EPSILON
    )


ParamScoring: TypeAlias = Literal["exact", "contains", "fuzzy", "semantic"]
_MODE_OF: dict[ParamScoring, ParamMode] = {"exact": "exact", "contains": "contains", "fuzzy": "case_insensitive"}


# Whether a value is what was expected.
Agree: TypeAlias = Callable[[LiteralValue, JsonValue, Work], Tri]


class ParamSettings(ParameterModel):
    """How parameters are compared."""

    scoring_config: Annotated[
        ScoringConfig | None,
        Field(description="{mode, epsilon}: exact, case_insensitive, contains, numeric_tolerance or regex."),
    ] = None
    param_scoring: Annotated[
        ParamScoring,
        Field(
            description="The same in one word, where scoring_config is not set: fuzzy is case_insensitive, which "
            "compares as exact does, without regard to letter case; semantic compares texts by meaning."
        ),
    ] = "exact"

    @model_validator(mode="after")
    def _check_comparison(self) -> Self:
        _ = self.comparison  # meaning needs a model: said when a rule is loaded, not when it judges
        return self

    @cached_property
    def _by_meaning(self) -> ValueModes | None:
        is_set = self.scoring_config is None and self.param_scoring == "semantic"
        return ValueModes("semantic") if is_set else None

    @property
    def meaning(self) -> Model | None:
        """As of `ParameterModel`; the comparison may ask one, too."""
        return super().meaning if self._by_meaning is None else self._by_meaning.meaning

    @cached_property
    def comparison(self) -> "Agree":
        """The comparison in force."""
        if (modes := self._by_meaning) is not None:
            return lambda expected, actual, work: modes.applied("", expected).matches(actual, work)
        config = self.scoring_config or ScoringConfig(mode=_MODE_OF.get(self.param_scoring, "exact"))
        return lambda expected, actual, work: values_agree(expected.source, actual, config, work)


@dataclass(frozen=True, slots=True)
class ScoredCall:
    """A call as it is scored: the tool's name, and its arguments, None when there are none, or why they are unknown."""

    name: str
    arguments: Mapping[str, JsonValue] | Unknown | None
    position: int


def scored_calls(evidence: Evidence) -> list[ScoredCall]:
    """All calls as they are scored; several that stand in one call's name have its position."""
    unknown = unreadable_parts(evidence, "arguments")
    return [
        scored
        for position, call in enumerate(evidence.calls)
        for scored in _scored(call, position, unknown.get(position))
    ]


def _scored(call: ToolCall, position: int, unknown: Unknown | None) -> list[ScoredCall]:
    given = call.arguments if isinstance(call.arguments, dict) else None
    arguments = given if unknown is None else unknown
    inside = calls_in_name(call.name)
    if not inside:
        return [ScoredCall(call.name, arguments, position)]
    found = [ScoredCall(whole.name, argument_object(whole.arguments), position) for whole in inside]
    return [replace(found[0], arguments=arguments or found[0].arguments), *found[1:]]


def ending_calls(
    calls: Sequence[ScoredCall], positions: Collection[int], occurrence: Literal["first", "last"]
) -> list[ScoredCall]:
    """The first or the last of the calls at each of `positions`, in their order."""
    wanted, ends = set(positions), {}
    for call in calls:
        if call.position in wanted and (occurrence == "last" or call.position not in ends):
            ends[call.position] = call
    return [*ends.values()]


def at_the_end(evidence: Evidence, occurrence: Literal["first", "last"]) -> Sequence[int]:
    """The position of the first or last call, and of those that may be it; none when nothing was called."""
    groups = evidence.once(Timeline).groups("sequential")
    return groups[0 if occurrence == "first" else -1] if groups else ()


def stays_first(evidence: Evidence, positions: Sequence[int]) -> bool:
    """Whether the first of the calls at `positions` stays the first, though work of the agent could not be read.

    So it does where all of that work began after it. False without any call.
    """
    return bool(positions) and unread_call(evidence, evidence.calls[min(positions)]) is None


def is_expected(expected: str | Sequence[str], name: str) -> bool:
    """Whether the tool is the expected one, or one of them, ignoring letter case."""
    return name.lower() in {wanted.lower() for wanted in listed_names(expected)}


def tool_score(expected: str | Sequence[str] | None, call: ScoredCall | None) -> float:
    """1 when the right tool was called, else 0; null expects no call at all."""
    if expected is None:
        return float(call is None)
    return float(call is not None and is_expected(expected, call.name))


@dataclass(frozen=True, slots=True)
class ParamScore:
    """The share of expected parameters that the call has as expected; None: they are not scored.

    ``score`` is that where what is unknown is not as expected, ``at_best`` that where it is.
    """

    score: float | None
    at_best: float | None
    wrong: Sequence[str] = ()
    looked_up: Sequence[JsonValue] = ()  # as `listed_differences` has them, where a value comes from elsewhere

    def details(self) -> dict[str, JsonValue]:
        """What was wrong."""
        details: dict[str, JsonValue] = {"wrong_params": detailed(self.wrong)}
        if self.looked_up:
            details["differences"] = [*self.looked_up]
        return details


def param_score(expected: ExpectedObject | None, call: ScoredCall | None, agree: Agree, work: Work) -> ParamScore:
    """Score the parameters of a call; no matter which tool it is.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    if expected is None:
        return ParamScore(None, None)
    if not expected.members:
        return ParamScore(1.0, 1.0)
    if call is None or call.arguments is None:
        return ParamScore(0.0, 0.0, list(expected.members))
    work.position = call.position
    if isinstance(call.arguments, Unknown):
        return ParamScore(*work.ends(call.arguments), list(expected.members))
    wrong, at_best = [], 0.0
    differ: list[Difference] = []
    for key, member in expected.members.items():
        if key not in call.arguments:
            answer: Tri = member.optional
        elif isinstance(member, LiteralValue):
            answer = agree(member, call.arguments[key], work)
        else:
            answer = member.matches(call.arguments[key], work)
        is_right, may_be = work.ends(answer)
        at_best += may_be
        if not is_right:
            wrong.append(key)
            if not isinstance(member, LiteralValue) and (lookups := tuple(member.lookups(work))):
                problem = _differs(member, key, call.arguments)
                differ.append(replace(problem, lookups=lookups))
    count = len(expected.members)
    shown = listed_differences("args", [(call.name, iter(differ))])
    return ParamScore((count - len(wrong)) / count, at_best / count, wrong, shown)


def _differs(expected: Expected, key: str, arguments: Mapping[str, JsonValue]) -> Difference:
    if key not in arguments:
        return Difference((key,), "missing", expected=expected.source)
    return Difference((key,), "different", expected=expected.source, found=arguments[key])


def values_agree(expected: JsonValue, actual: JsonValue, config: ScoringConfig, work: Work) -> Tri:
    """Whether a value is as expected in the configured mode.

    exact and case_insensitive: two texts, ignoring letter case; else the same JSON value. contains: the text of one is
    in that of the other, ignoring letter case. numeric_tolerance: two numbers, or texts of numbers, no further apart
    than epsilon; else the same text. regex: the pattern (RE2) is found in the text of the value; a pattern that is none
    is compared as text.

    Raises:
        EvaluatorError: ``work_bound``.
    """
    if work.redacted and holds_unknown(actual):
        is_same = not holds_mask(actual) and json_equal(expected, actual, work)
        return True if is_same else work.unknown_value(actual)
    if config.mode in ("exact", "case_insensitive"):
        if isinstance(expected, str) and isinstance(actual, str):
            work.spend((len(expected) + len(actual)) // CHARACTERS_READ_PER_STEP)
            return expected.lower() == actual.lower()
        return json_equal(expected, actual, work)
    if config.mode == "numeric_tolerance":
        if (distance := _distance(expected, actual)) is not None:
            return distance <= config.epsilon
        return _counted_json(expected, work) == _counted_json(actual, work)
    wanted, found = _counted_json(expected, work), _counted_json(actual, work)
    if config.mode == "contains":
        return wanted.lower() in found.lower() or found.lower() in wanted.lower()
    try:
        expression = regex_expression(wanted)
    except ValueError:
        return wanted == found
    encoded = found.encode("utf-8", "replace")
    work.spend(steps_of_search(expression, len(encoded)))
    return expression.search(encoded) is not None


def _counted_json(value: JsonValue, work: Work) -> str:
    text = json_text(value)
    work.spend(1 + len(text) // CHARACTERS_READ_PER_STEP)
    return text


def _distance(left: JsonValue, right: JsonValue) -> float | int | None:
    """How far apart two numbers are; None when one is none."""
    a, b = _number(left), _number(right)
    if a is None or b is None:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return abs(a - b)  # exact at any size
    try:
        return abs(float(a) - float(b))
    except OverflowError:
        return float("inf")


def _number(value: JsonValue) -> float | int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        return value
    try:
        number = float(value) if len(value) <= 100 else None
    except ValueError:
        return None
    # "nan" and "inf" are words here.
    return number if number is not None and number - number == 0 else None


def overall(tool: float, param: float | None) -> float:
    """The tool counts 0.6 and the parameters 0.4; the tool alone where those are not scored."""
    return tool if param is None else TOOL_WEIGHT * tool + PARAM_WEIGHT * param
