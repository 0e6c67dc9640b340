"""What a trajectory is compared with, and how: the criteria and settings of the evaluator, ready to compare."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, GetJsonSchemaHandler, PrivateAttr, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tracegrade.evaluate.compare.arguments import (
    ArgumentsComparison,
    ArgumentsMatch,
    ArgumentsOverride,
    Glob,
    KeyPath,
)
from tracegrade.evaluate.compare.conditions import Conditions
from tracegrade.evaluate.compare.efficiency import Efficiency
from tracegrade.evaluate.compare.expected_calls import CompiledNames
from tracegrade.evaluate.compare.outputs import Output
from tracegrade.evaluate.criteria.field_types import ExpectedArguments
from tracegrade.evaluate.criteria.parameters import Concurrency, ParameterModel
from tracegrade.evaluate.criteria.regular_expressions import is_glob
from tracegrade.evaluate.criteria.tool_names import NameComparison, NameTable, ToolNames, listed_names
from tracegrade.evaluate.criteria.value_modes import ComparedValues
from tracegrade.evaluate.pairing.by_name import PairingWord, may_meet, same


class TrajectoryCall(ParameterModel):
    """One call: its tool, or several, any of which is right, and what is expected of its arguments and output."""

    name: Annotated[ToolNames, Field(description="The tool, or several, any of which is right.")]
    args: Annotated[ExpectedArguments | None, Field(description="Any will do if left out.")] = None
    output: Annotated[Output | None, Field(description="Any will do if left out; for outputs: exact.")] = None

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


class Threshold(ParameterModel):
    """A call counts whole from this share of its arguments."""

    threshold: Annotated[float, Field(ge=0, le=1, description="The least share that counts.")]


Match: TypeAlias = Literal["exact", "in_order", "any_order", "unordered", "subset", "strict", "superset"]


MATCH_ALIASES: dict[Match, Match] = {"strict": "exact", "superset": "any_order"}


class Criteria(ComparedValues, Conditions):
    """What is expected."""

    tool_calls: Annotated[
        list[TrajectoryCall] | None, Field(description="The calls: names, or {name, args, output}.")
    ] = None
    _prepared: "tuple[Settings, Prepared] | None" = PrivateAttr(default=None)

    def names_expected(self) -> list[str]:
        """Every name that an expected call may have."""
        return [name for call in self.tool_calls or () for name in listed_names(call.name)]

    def prepared(self, settings: "Settings") -> "Prepared":
        """These criteria ready to compare; made once, as a rule has one set of settings."""
        known = self._prepared  # once: Pydantic takes microseconds to find it
        if known is None or known[0] is not settings:
            known = self._prepared = (settings, Prepared(self, settings))
        return known[1]


class Settings(ParameterModel):
    """How it is compared."""

    match: Annotated[
        Match, Field(description="Which sequences of calls count; strict is exact, superset any_order.")
    ] = "in_order"
    args: Annotated[ArgumentsMatch, Field(description="Which arguments count, said of the call made.")] = "exact"
    keys: list[KeyPath] = Field(default_factory=list, description="Compare only these arguments, by dotted path.")
    ignore_keys: list[Glob] = Field(
        default_factory=list, description="Leave these arguments out, by glob of the dotted path."
    )
    defaults: dict[str, Any] = Field(default_factory=dict, description="What arguments are when they are left out.")
    tools: dict[str, ArgumentsOverride] = Field(
        default_factory=dict, description="args, keys, ignore_keys and defaults of single tools."
    )
    outputs: Annotated[Literal["off", "exact"], Field(description="Whether expected outputs count.")] = "off"
    names: Annotated[NameComparison, Field(description="How tool names are compared.")] = "exact"
    score: Annotated[
        Literal["binary", "recall", "precision", "f1"], Field(description="How the score is computed.")
    ] = "binary"
    call_credit: Annotated[
        Literal["binary", "fractional"] | Threshold,
        Field(description="How much a partly matching call counts: nothing, its share, or fully from a threshold."),
    ] = "binary"
    pairing: Annotated[
        PairingWord, Field(description="Which call is compared with which, where `match` asks for no order.")
    ] = "best"
    occurrence: Annotated[
        Literal["any", "first", "last"] | Annotated[int, Field(ge=0)],
        Field(description="Of each tool look at all calls, or at one: first, last, or its number from 0."),
    ] = "any"
    concurrency: Concurrency = "batches"
    include_failed: Annotated[bool, Field(description="Calls that failed count as calls.")] = True
    efficiency: Annotated[Efficiency | None, Field(description="Deductions for unnecessary calls.")] = None
    negate: Annotated[bool, Field(description="1 - score: use it for what must not happen.")] = False
    on_empty: Annotated[Literal["score", "skip", "error"], Field(description="When tool_calls is an empty list.")] = (
        "score"
    )


class Prepared:
    """Criteria and settings compiled: the names, and how each call's arguments are compared."""

    def __init__(self, criteria: Criteria, settings: Settings) -> None:
        calls = criteria.tool_calls or []
        self.names = [listed_names(call.name) for call in calls]
        self.table = NameTable(self.names, settings.names)
        self.shown = CompiledNames([" | ".join(names) for names in self.names])
        self.comparisons = [_comparison(call, settings) for call in calls]
        self.outputs = [call.output if settings.outputs == "exact" else None for call in calls]
        self.limit = settings.call_credit.threshold if isinstance(settings.call_credit, Threshold) else 0.0
        self.whole = settings.call_credit == "binary"
        self.fractional = settings.call_credit == "fractional"
        every = criteria.names_expected()
        self.one_twice = settings.names != "exact" or len({*every}) < len(every)

    def contend(self, one: int, other: int) -> bool:
        """Whether one call may meet both expected calls, which do not expect the same."""
        if not self._may_share_a_name(one, other):
            return False
        args, of_other = self.comparisons[one], self.comparisons[other]
        outputs = [output.decoded() for index in (one, other) if (output := self.outputs[index]) is not None]
        if len(outputs) == 2 and not may_meet(outputs[0], outputs[1]):
            return False
        if (
            self.names[one] == self.names[other]
            and args.match == of_other.match
            and same(args.expected, of_other.expected)
            and (not outputs or (len(outputs) == 2 and same(outputs[0], outputs[1])))
        ):
            return False
        matches = {args.match, of_other.match}
        if not self.whole or not matches.isdisjoint(("ignore", "subset")):
            return True
        return may_meet(args.expected, of_other.expected, partly="superset" in matches)

    def _may_share_a_name(self, one: int, other: int) -> bool:
        names, of_other = self.names[one], self.names[other]
        return (
            any(other in self.table.met_by(name) for name in names)
            or any(one in self.table.met_by(name) for name in of_other)
            or (any(map(is_glob, names)) and any(map(is_glob, of_other)))
        )


def _comparison(call: TrajectoryCall, settings: Settings) -> ArgumentsComparison:
    own = next((settings.tools[name] for name in listed_names(call.name) if name in settings.tools), None)
    override = own or ArgumentsOverride()
    return ArgumentsComparison(
        call.args,
        settings.args if override.args is None else override.args,
        keys=settings.keys if override.keys is None else override.keys,
        ignore_keys=settings.ignore_keys if override.ignore_keys is None else override.ignore_keys,
        defaults=settings.defaults if override.defaults is None else override.defaults,
    )
