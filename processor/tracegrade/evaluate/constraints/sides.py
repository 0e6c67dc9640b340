"""The calls that a constraint speaks of: by tool, and by what they were given and gave.

A side is a tool's name, a glob, ``{tool: refund, where: {args: {amount: {$gte: 100}}}}``, or a list of these, any of
which counts. Whether a call is meant may be unknown: its name, its arguments or its output cannot be read.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator, Field, PlainSerializer, Tag, WithJsonSchema

from tracegrade.evaluate.compare.outputs import ActualOutputs, Output
from tracegrade.evaluate.criteria.compile import compile_object, compile_value
from tracegrade.evaluate.criteria.expected import Expected, ExpectedObject, MatcherError, members_in_words
from tracegrade.evaluate.criteria.field_types import as_written, compiled_by
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import NameTable, ToolName, ToolNames, listed_names
from tracegrade.evaluate.criteria.value_matchers import SecretMatcher
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.unknown import of_call
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.tri import Tri, Unknown, all_of, any_of


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
    def paths(self) -> list[str]:
        """What it asks for, as paths in place of values: ``args.amount as in the rule``."""
        paths = [f"args.{name}" for name in self.args.members] if isinstance(self.args, ExpectedObject) else []
        paths += ["output"] if self.output is not None else []
        paths += [f"error.{name}" for name in self._asked_of_error]
        secret = ["a secret in its arguments"] if isinstance(self.args, SecretMatcher) else []
        return [*secret, *([f"{', '.join(paths)} as in the rule"] if paths else [])]

    @property
    def values(self) -> list[str]:
        """What it asks for, with its values: ``where args.amount is at least 100``."""
        said: list[str] = [] if self.args is None else [*members_in_words("args", self.args)]
        if self.output is not None:
            (criterion,) = self.output.parts()
            said += members_in_words("output", criterion)
        if isinstance(self.error, ExpectedObject):
            said += members_in_words("error", self.error)
        return [f"where {', and '.join(said)}"] if said else []

    @property
    def outcome(self) -> str:
        """``failed`` or ``successful``; empty where either will do."""
        return ("failed" if self.error else "successful") if isinstance(self.error, bool) else ""

    @property
    def by_agent(self) -> list[str]:
        """``by agent planner``; empty where any agent will do."""
        return [] if self.agent is None else [f"by agent {' or '.join(listed_names(self.agent))}"]

    @property
    def _asked_of_error(self) -> Sequence[str]:
        return list(self.error.members) if isinstance(self.error, ExpectedObject) else ()

    def met_by(self, evidence: Evidence, position: int, work: Work) -> Tri:
        """Whether the call at `position` is so.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        work.evidence, work.position = evidence, position
        # Before anything is read of arguments and output comes what is quickly told.
        return all_of(met(evidence, position, work) for met in (self._agent, self._error, self._args, self._output))

    def _agent(self, evidence: Evidence, position: int, work: Work) -> Tri:
        if self.agent is None:
            return True
        call = evidence.calls[position]
        if work.is_hidden(call.agent):
            return of_call("redacted", "agent", position, call)
        return bool(self._agents.met_by(call.agent))

    def _error(self, evidence: Evidence, position: int, work: Work) -> Tri:
        call = evidence.calls[position]
        if self.error is None:
            return True
        if call.failure_hidden:
            return of_call("redacted", "failure", position, call)
        if isinstance(self.error, bool):
            return call.failed is self.error
        if call.error is None:
            return False
        found = {"type": call.error.type, "message": call.error.message}
        if any(not found[name] or work.is_hidden(found[name]) for name in self._asked_of_error):
            return of_call("absent", "error", position, call)
        answer = self.error.matches_within({**found}, work)
        return answer._replace(part="error") if isinstance(answer, Unknown) else answer

    def _args(self, evidence: Evidence, position: int, work: Work) -> Tri:
        if self.args is None:
            return True
        call = evidence.calls[position]
        if (lack := call.lack_of("arguments", in_part=evidence.redacted)) is not None:
            return of_call(lack, "arguments", position, call)
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        if isinstance(self.args, ExpectedObject):
            return self.args.matches_within(arguments, work)
        return self.args.matches(arguments, work)

    def _output(self, evidence: Evidence, position: int, work: Work) -> Tri:
        if self.output is None:
            return True
        call = evidence.calls[position]
        if (lack := call.lack_of("output", in_part=evidence.redacted)) is not None:
            return of_call(lack, "output", position, call)
        return self.output.equals_within(evidence.once(ActualOutputs)[position], work)


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
    return [item.where for item in _items(side) if isinstance(item, ToolWhere)]


def tools_named(side: Side) -> list[str]:
    """The tools of a side as it names them, globs among them."""
    return [name for item in _items(side) for name in listed_names(item if isinstance(item, str) else item.tool)]


def words_of(side: Side) -> str:
    """A side without values: ``successful hold_seat (args.trip as in the rule)``."""
    return " or ".join(_item_in_words(item, lambda where: where.paths) for item in _items(side))


def rule_of(side: Side) -> str:
    """A side with the values that the rule names: ``refund (where args.amount is at least 100)``."""
    return " or ".join(_item_in_words(item, lambda where: where.values) for item in _items(side))


def _items(side: Side) -> list[str | ToolWhere]:
    return side if isinstance(side, list) else [side]


def _item_in_words(item: str | ToolWhere, conditions_of: Callable[[Where], list[str]]) -> str:
    names = item if isinstance(item, str) else " or ".join(listed_names(item.tool))
    if isinstance(item, str):
        return _any_tool(names)
    conditions, outcome = [*conditions_of(item.where), *item.where.by_agent], item.where.outcome
    if outcome and names == "*":
        conditions = [outcome, *conditions]
    elif outcome:
        names = f"{outcome} {names}"
    return f"{_any_tool(names)} ({', '.join(conditions)})" if conditions else names


def _any_tool(names: str) -> str:
    return "any tool" if names == "*" else names


class SideTable:
    """A side, ready to be looked for in any run; ``by_name`` says that names alone decide which calls it means."""

    __slots__ = ("_items", "_of_any_tool", "_table", "by_name")

    def __init__(self, side: Side) -> None:
        self._items = _items(side)
        names = [tools_named(item) for item in self._items]
        self._table = NameTable(names, "glob")
        self._of_any_tool = {index for index, tools in enumerate(names) if "*" in tools}
        self.by_name = all(isinstance(item, str) for item in self._items)

    def select(self, evidence: Evidence, work: Work) -> "Selected":
        """Select the calls that it means.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        work.spend(len(evidence.calls))
        answers = [self._means(evidence, position, call, work) for position, call in enumerate(evidence.calls)]
        return Selected(
            [answer is True for answer in answers],
            [answer is not False for answer in answers],
            {place: answer for place, answer in enumerate(answers) if answer is not True and answer is not False},
        )

    def _means(self, evidence: Evidence, position: int, call: ToolCall, work: Work) -> Tri:
        if call.name:
            named = self._table.met_by(call.name)
            if not named or self.by_name:
                return bool(named)
            return any_of(self._met(self._items[index], evidence, position, work) for index in named)
        # It may be of any tool.
        nameless = of_call("absent", "name", position, call)
        return any_of(
            all_of((self._met(item, evidence, position, work), True if index in self._of_any_tool else nameless))
            for index, item in enumerate(self._items)
        )

    def _met(self, item: ToolName | ToolWhere, evidence: Evidence, position: int, work: Work) -> Tri:
        return True if isinstance(item, str) else item.where.met_by(evidence, position, work)


@dataclass(frozen=True, slots=True)
class Selected:
    """Which calls a side means: certainly, or possibly, by position; and why it is unknown of the latter ones."""

    certain: Sequence[bool]
    possible: Sequence[bool]
    unknown: Mapping[int, Unknown]

    @property
    def places(self) -> list[int]:
        """The positions of the calls that are meant, certainly or possibly."""
        return [place for place, may_be in enumerate(self.possible) if may_be]

    @property
    def places_certain(self) -> list[int]:
        """The positions of the calls that are meant certainly."""
        return [place for place, is_meant in enumerate(self.certain) if is_meant]

    def count(self, positions: Sequence[int]) -> tuple[int, int]:
        """Of some positions, how many are meant certainly, and possibly."""
        return sum(self.certain[p] for p in positions), sum(self.possible[p] for p in positions)
