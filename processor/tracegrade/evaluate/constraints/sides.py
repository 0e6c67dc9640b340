"""The calls that a constraint speaks of: by tool, and by what they were given and gave.

A side is a tool's name, a glob, ``{tool: refund, where: {args: {amount: {$gte: 100}}}}``, or a list of these, any of
which counts. Whether a call is meant may be unknown: its name, its arguments or its output cannot be read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, Field, PlainSerializer, Tag, WithJsonSchema

from tracegrade.evaluate.call_facts import unknown_parts
from tracegrade.evaluate.compare.outputs import ActualOutput, ActualOutputs, Output
from tracegrade.evaluate.criteria.compile import compile_object, compile_value
from tracegrade.evaluate.criteria.expected import Expected, ExpectedObject, MatcherError
from tracegrade.evaluate.criteria.expected_words import in_words, members_in_words
from tracegrade.evaluate.criteria.field_types import as_written, compiled_by
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import NameTable, ToolName, ToolNames, listed_names
from tracegrade.evaluate.criteria.value_matchers import SecretMatcher
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.stand_ins import is_unknown
from tracegrade.model.tool_call import ToolCall


def _compile_failure(value: JsonValue, matchers: bool) -> Any:
    if isinstance(value, bool):
        return value
    if not isinstance(value, dict) or not value:
        raise MatcherError((), "expected true, false, a matcher of the message, or {type: ..., message: ...}")
    if matchers and all(key.startswith("$") for key in value):
        value = {"message": value}
    if unknown := [key for key in value if key not in ("type", "message")]:
        raise MatcherError((unknown[0],), f"unknown key {unknown[0]!r}; expected one of type, message")
    return compile_object(value, matchers=matchers)


def _compile_arguments(value: JsonValue, matchers: bool) -> Expected:
    if matchers and value == {SecretMatcher.word: True}:
        return compile_value(value)
    return compile_object(value, matchers=matchers)


# Members that arguments have at least, by name; or that a secret is anywhere in them.
_Arguments: TypeAlias = Annotated[
    Expected, compiled_by(_compile_arguments), as_written, WithJsonSchema({"type": "object"})
]
# Whether a call failed; or what is expected of its error, by the names `type` and `message`.
_Failure: TypeAlias = Annotated[
    bool | ExpectedObject,
    compiled_by(_compile_failure),
    PlainSerializer(lambda expected: expected if isinstance(expected, bool) else expected.source),
    WithJsonSchema({"type": ["boolean", "object"]}),
]


class Where(ParameterModel):
    """What a call must also be, beside its name."""

    args: Annotated[
        _Arguments | None,
        Field(
            description="Arguments that it has at least: values or matchers, by name; or `{$secret: true}`, "
            "which is met by a secret anywhere in them."
        ),
    ] = None
    output: Annotated[
        Output | None, Field(description="Its output; an object is met by one that has these members at least.")
    ] = None
    error: Annotated[
        _Failure | None,
        Field(description="Whether it failed; or a matcher of the error's message; or its `type` and `message`."),
    ] = None
    agent: Annotated[ToolNames | None, Field(description="The agent that made it: a name, a glob, or several.")] = None

    @cached_property
    def _agents(self) -> NameTable:
        return NameTable([] if self.agent is None else [listed_names(self.agent)], "glob")

    @property
    def words_without_values(self) -> str:
        """What it asks for, with paths in place of what it says of arguments and outputs."""
        paths = [f"args.{name}" for name in self.args.members] if isinstance(self.args, ExpectedObject) else []
        paths += ["output"] if self.output is not None else []
        paths += [f"error.{name}" for name in self._asked_of_error]
        said = [f"args {in_words(self.args)}"] if isinstance(self.args, SecretMatcher) else []
        said += [f"{', '.join(paths)} as given"] if paths else []
        return ", and ".join(said + self._of_the_call)

    @property
    def words(self) -> str:
        """What it asks for, as a person would say it: ``args.amount is at least 100 and it failed``."""
        said: list[str] = [] if self.args is None else [*members_in_words("args", self.args)]
        if self.output is not None:
            (criterion,) = self.output.parts()
            said += members_in_words("output", criterion)
        if isinstance(self.error, ExpectedObject):
            said += members_in_words("error", self.error)
        return ", and ".join(said + self._of_the_call)

    @property
    def _of_the_call(self) -> list[str]:
        said = ["it failed" if self.error else "it did not fail"] if isinstance(self.error, bool) else []
        return said + ([] if self.agent is None else [f"the agent is {' or '.join(listed_names(self.agent))}"])

    @property
    def _asked_of_error(self) -> Sequence[str]:
        return list(self.error.members) if isinstance(self.error, ExpectedObject) else ()

    def lacks_error(self, call: ToolCall, *, redacted: bool) -> bool:
        """Whether `call` failed, and what is asked of its error was not recorded, or was redacted."""
        if call.error is None:
            return False
        asked = [call.error.type if name == "type" else call.error.message for name in self._asked_of_error]
        return any(not text or (redacted and is_unknown(text)) for text in asked)

    def met_by(self, call: ToolCall, output: ActualOutput, work: Work) -> bool | None:
        """Whether `call` is so; None where that cannot be read.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        agent_is_known = self.agent is None or not work.is_hidden(call.agent)
        if self.agent is not None and agent_is_known and not self._agents.met_by(call.agent):
            return False
        error_met = self._error_met(call, work)
        if error_met is False:  # before anything is read of arguments and output
            return False
        verdicts = (
            True if agent_is_known else None,
            error_met,
            self._args_met(call, work),
            self._output_met(call, output, work),
        )
        return False if False in verdicts else None if None in verdicts else True

    def _error_met(self, call: ToolCall, work: Work) -> bool | None:
        if self.error is None:
            return True
        if call.failure_hidden:
            return None
        if isinstance(self.error, bool):
            return call.failed is self.error
        if call.error is None:
            return False
        if self.lacks_error(call, redacted=work.redacted):
            return None
        return self.error.matches_within({"type": call.error.type, "message": call.error.message}, work)

    def _args_met(self, call: ToolCall, work: Work) -> bool | None:
        if self.args is None:
            return True
        if call.lack_of("arguments", in_part=work.redacted) is not None:
            return None
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        if isinstance(self.args, ExpectedObject):
            return self.args.matches_within(arguments, work)
        return self.args.matches(arguments, work)

    def _output_met(self, call: ToolCall, output: ActualOutput, work: Work) -> bool | None:
        if self.output is None:
            return True
        if call.lack_of("output", in_part=work.redacted) is not None:
            return None
        return self.output.equals_within(output, work)


class ToolWhere(ParameterModel):
    """Calls of a tool that are so."""

    tool: Annotated[ToolNames, Field(description="The tool: a name, a glob, or several.")] = "*"
    where: Annotated[Where, Field(description="What such a call must also be.")]


def _kind_of(value: object) -> str:
    return KINDS_OF_SIDES[0 if isinstance(value, list) else 1 if isinstance(value, dict | ToolWhere) else 2]


# As pydantic names them where a mistake is; no key of a file is called so.
KINDS_OF_SIDES = ("(a list)", "(an object)", "(a text)")
_Tool: TypeAlias = Annotated[
    Annotated[ToolWhere, Tag(KINDS_OF_SIDES[1])] | Annotated[ToolName, Tag(KINDS_OF_SIDES[2])], Discriminator(_kind_of)
]
Side: TypeAlias = Annotated[
    Annotated[list[_Tool], Field(min_length=1), Tag(KINDS_OF_SIDES[0])]
    | Annotated[ToolWhere, Tag(KINDS_OF_SIDES[1])]
    | Annotated[ToolName, Tag(KINDS_OF_SIDES[2])],
    Discriminator(_kind_of),
]


def conditions_of(side: Side) -> list[Where]:
    """What calls must also be, of each of a side's tools that says so."""
    items = side if isinstance(side, list) else [side]
    return [item.where for item in items if isinstance(item, ToolWhere)]


def tools_named(side: Side) -> list[str]:
    """The tools of a side as it names them, globs among them."""
    items = side if isinstance(side, list) else [side]
    return [name for item in items for name in listed_names(item if isinstance(item, str) else item.tool)]


def words_of(side: Side) -> str:
    """A side as a person would say it, without values."""
    return _said(side, lambda where: where.words_without_values)


def rule_of(side: Side) -> str:
    """A side as a person would say it, with what the rule says of it."""
    return _said(side, lambda where: where.words and f"where {where.words}")


def _said(side: Side, shown: Callable[[Where], str]) -> str:
    parts = []
    for item in side if isinstance(side, list) else [side]:
        names = item if isinstance(item, str) else " or ".join(listed_names(item.tool))
        names = "any tool" if names == "*" else names
        conditions = "" if isinstance(item, str) else shown(item.where)
        parts.append(f"{names} ({conditions})" if conditions else names)
    return " or ".join(parts)


class SideTable:
    """A side, ready to be looked for in any run; ``by_name`` says that names alone decide which calls it means."""

    __slots__ = ("_items", "_of_any_tool", "_table", "by_name")

    def __init__(self, side: Side) -> None:
        self._items = side if isinstance(side, list) else [side]
        names = [tools_named(item) for item in self._items]
        self._table = NameTable(names, "glob")
        self._of_any_tool = {index for index, tools in enumerate(names) if "*" in tools}
        self.by_name = all(isinstance(item, str) for item in self._items)

    @property
    def conditions(self) -> list[Where]:
        """What calls must also be, of each of its tools that says so."""
        return conditions_of(self._items)

    def meant(self, evidence: Evidence, work: Work) -> "Meant":
        """Which calls it means.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        work.spend(len(evidence.calls))
        certain: list[bool] = []
        possible: list[bool] = []
        for position, call in enumerate(evidence.calls):
            named = self._table.met_by(call.name) if call.name else range(len(self._items))
            if not named:
                met: bool | None = False
            elif self.by_name and call.name:
                met = True
            else:
                verdicts = [self._met(self._items[index], evidence, position, work) for index in named]
                if not call.name:  # it may be of any tool
                    verdicts = [
                        None if met and index not in self._of_any_tool else met for index, met in enumerate(verdicts)
                    ]
                met = True if True in verdicts else None if None in verdicts else False
            certain.append(met is True)
            possible.append(met is not False)
        return Meant(certain, possible)

    def _met(self, item: ToolName | ToolWhere, evidence: Evidence, position: int, work: Work) -> bool | None:
        if isinstance(item, str):
            return True
        work.evidence, work.position = evidence, position
        call, output = evidence.calls[position], evidence.once(ActualOutputs)[position]
        met = item.where.met_by(call, output, work)
        # A value that may have come from what cannot be read, or may be any, as it was redacted.
        if met is False and (item.where.flows or _is_unknown(item.where, evidence, position)):
            work.evidence = evidence.given_doubt()
            met = None if item.where.met_by(call, output, work) is not False else False
        return met


def _is_unknown(where: Where, evidence: Evidence, position: int) -> bool:
    """Whether something was redacted in what `where` looks at in the call at `position`."""
    unknown = evidence.once(unknown_parts)
    return (where.args is not None and (position, "arguments") in unknown) or (
        where.output is not None and (position, "output") in unknown
    )


@dataclass(frozen=True, slots=True)
class Meant:
    """Which calls a side means: certainly, or possibly, by position."""

    certain: Sequence[bool]
    possible: Sequence[bool]

    @property
    def places(self) -> list[int]:
        """The positions of the calls that are meant, certainly or possibly."""
        return [place for place, may_be in enumerate(self.possible) if may_be]

    def count(self, positions: Sequence[int]) -> tuple[int, int]:
        """Of some positions, how many are meant certainly, and possibly."""
        return sum(self.certain[p] for p in positions), sum(self.possible[p] for p in positions)
