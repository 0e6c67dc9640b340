"""Steps as a rule says them, read into plain ones: each is one call, with the steps that have to come before it.

Steps follow each other as they are listed. ``{parallel: [...]}`` holds branches, each a step or a list of steps, that
go on beside each other; of ``{choice: [...]}`` one branch is gone. A step with ``after`` comes after the steps named
there instead of the one above it, and the next one in the list follows it; one that is ``anywhere`` has no place. One
that may ``repeat: [1, 3]`` stands for three plain ones after each other, of which two are optional.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from tracegrade.display import count
from tracegrade.document.problem import did_you_mean
from tracegrade.evaluate.criteria.expected import members_in_words
from tracegrade.evaluate.criteria.field_types import ExpectedArguments
from tracegrade.evaluate.criteria.parameters import ParameterModel
from tracegrade.evaluate.criteria.tool_names import NameTable, ToolName, ToolNames, listed_names

_MAX_STEPS = 500  # plain ones
_MAX_TIMES = 100


def _check_times(times: list[int]) -> list[int]:
    least, most = times
    if not 0 <= least <= most or most == 0:
        raise ValueError(f"expected the least and the most times, such as [1, 3], found {times}")
    return times


_Times: TypeAlias = Annotated[
    list[Annotated[int, Field(le=_MAX_TIMES)]], Field(min_length=2, max_length=2), AfterValidator(_check_times)
]


def _as_names(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


class Step(ParameterModel):
    """One call that is expected."""

    tool: Annotated[ToolNames, Field(description="The tool: a name, a glob, or several, any of which is right.")]
    args: Annotated[
        ExpectedArguments | None, Field(description="Arguments that it has at least: values or matchers, by name.")
    ] = None
    name: Annotated[str, Field(description="What `after` calls it; the tool's name if omitted.")] = ""
    after: Annotated[
        list[str] | None,
        BeforeValidator(_as_names, json_schema_input_type=str | list[str] | None),
        Field(description="The step that comes before it, or several, instead of the one above it; []: none."),
    ] = None
    optional: Annotated[bool, Field(description="It may be left out.")] = False
    repeat: Annotated[
        _Times | None,
        Field(description="The least and the most times that it is called, one after the other."),
    ] = None
    anywhere: Annotated[bool, Field(description="It has no place in the order.")] = False

    @model_validator(mode="after")
    def _check_place(self) -> "Step":
        if self.anywhere and self.after:
            raise ValueError("expected 'after' or 'anywhere', found both")
        return self

    @property
    def called(self) -> str:
        """What ``after`` calls it."""
        return self.name or listed_names(self.tool)[0]


def _as_branch(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class Parallel(ParameterModel):
    """Branches that go on beside each other."""

    parallel: Annotated[
        list["Branch"], Field(min_length=2, description="The branches, each a step or a list of steps.")
    ]


class Choice(ParameterModel):
    """Branches of which one is gone."""

    choice: Annotated[list["Branch"], Field(min_length=2, description="The branches, each a step or a list of steps.")]


def _kind_of(value: object) -> str:
    if isinstance(value, Parallel) or (isinstance(value, dict) and "parallel" in value):
        return "(parallel)"
    if isinstance(value, Choice) or (isinstance(value, dict) and "choice" in value):
        return "(choice)"
    return "(an object)" if isinstance(value, dict | Step) else "(a text)"


Item: TypeAlias = Annotated[
    Annotated[Parallel, Tag("(parallel)")]
    | Annotated[Choice, Tag("(choice)")]
    | Annotated[Step, Tag("(an object)")]
    | Annotated[ToolName, Tag("(a text)")],
    Discriminator(_kind_of),
]
_Items: TypeAlias = Annotated[list[Item], Field(min_length=1)]
Branch: TypeAlias = Annotated[_Items, BeforeValidator(_as_branch, json_schema_input_type=_Items | Item)]
# Their fields are looked at before anything is read by them: what is a matcher in a branch is one.
Parallel.model_rebuild()
Choice.model_rebuild()


class Chosen(NamedTuple):
    """What it means for a choice that one of its branches is gone: which steps are not, and how many more it requires.

    ``others`` are the steps of its other branches, as bits; ``more`` is by how much this branch requires more steps
    than the one that requires fewest. ``mark`` is a bit of its own, which no step has, for a branch that requires more,
    else 0.
    """

    others: int
    more: int
    mark: int


@dataclass(frozen=True, slots=True)
class PlainStep:
    """One expected call.

    ``before`` are the steps that come before it, as bits. ``closes`` are those that can no longer be made once it is:
    itself, those before it, and those of branches not chosen. ``chosen`` has the choices that it is in.
    """

    names: Sequence[str]
    called: str
    args: ExpectedArguments | None
    optional: bool
    before: int
    closes: int  # and the marks of its choices
    chosen: tuple[Chosen, ...] = ()


class Run(NamedTuple):
    """Steps that are times of one step, by their numbers and as bits.

    They ask for the same, the later for no more than the earlier. So of those that can still be made, the first are as
    good as any: when one is made, those before it no longer can be.
    """

    numbers: range
    bits: int


class StepsError(ValueError):
    """Steps that no order has."""


class _Read(NamedTuple):
    """What was read: the steps after which the next one comes, as bits, and how many are required."""

    end: int
    required: int


class _Reader:
    """Reads items; steps are numbered as they are read."""

    def __init__(self) -> None:
        self.plain: list[PlainStep] = []
        self.marks = 0
        self._known: dict[str, int] = {}  # what `after` may name: the bits of its steps

    def branch(self, items: Iterable[Item], before: int) -> _Read:
        """Read a list of steps that comes after those of `before`."""
        end, required = before, 0
        for item in items:
            found = self._item(item, end)
            end, required = found.end, required + found.required
        return _Read(end, required)

    def _item(self, item: Item, before: int) -> _Read:
        if isinstance(item, Parallel):
            found = [self.branch(branch, before) for branch in item.parallel]
            return _Read(_together(before, found), sum(one.required for one in found))
        if isinstance(item, Choice):
            return self._choice(item, before)
        return self._step(Step(tool=item) if isinstance(item, str) else item, before)

    def _choice(self, item: Choice, before: int) -> _Read:
        found: list[_Read] = []
        places: list[range] = []
        for branch in item.choice:
            start = len(self.plain)
            found.append(self.branch(branch, before))
            places.append(range(start, len(self.plain)))
        fewest = min(one.required for one in found)
        of_all = sum(map(_bits, places))
        for one, numbers in zip(found, places, strict=True):
            mark = 0
            if one.required > fewest:
                self.marks += 1
                mark = 1 << (_MAX_STEPS + self.marks)
            chosen = Chosen(of_all & ~_bits(numbers), one.required - fewest, mark)
            for number in numbers:
                step = self.plain[number]
                closes = step.closes | chosen.others | mark
                self.plain[number] = replace(step, closes=closes, chosen=(*step.chosen, chosen))
        return _Read(_together(before, found), fewest)

    def _step(self, step: Step, before: int) -> _Read:
        place = 0 if step.anywhere else before if step.after is None else self._named(step.after)
        least, most = step.repeat or (1, 1)
        own = 0
        for time in range(most):
            number = len(self.plain)
            if number == _MAX_STEPS:
                raise StepsError(f"expected at most {_MAX_STEPS} steps, counting each time that one may repeat")
            all_before = self._all_before(place | own)
            optional = step.optional or time >= least
            closes = all_before | 1 << number
            self.plain.append(PlainStep(listed_names(step.tool), step.called, step.args, optional, all_before, closes))
            own |= 1 << number
        self._known[step.called] = self._known.get(step.called, 0) | own
        # An item without a place changes nothing for what follows.
        return _Read(before if step.anywhere else place | own, 0 if step.optional else least)

    def _named(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            if name not in self._known:
                raise StepsError(f"no step {name!r} above{did_you_mean(name, self._known)}")
            found |= self._known[name]
        return found

    def _all_before(self, direct: int) -> int:
        found = direct
        for number, step in enumerate(self.plain):
            if direct >> number & 1:
                found |= step.before
        return found


def _together(before: int, found: Iterable[_Read]) -> int:
    end = before
    for one in found:
        end |= one.end
    return end


def _bits(numbers: range) -> int:
    return (1 << numbers.stop) - (1 << numbers.start)


class Steps:
    """Plain steps, ready to be laid beside the calls of any run.

    ``required`` is how many there have to be at least; ``marks`` are the bits of `Chosen.mark`. ``table`` says by name
    which of the ``runs`` a call may be of.

    Raises:
        StepsError: ``after`` names no step above, or there are too many.
    """

    def __init__(self, items: Sequence[Item]) -> None:
        reader = _Reader()
        self.required = reader.branch(items, 0).required
        self.plain: Sequence[PlainStep] = reader.plain
        self.marks = sum(1 << (_MAX_STEPS + number) for number in range(1, reader.marks + 1))
        self.runs = _runs(self.plain)
        self.table = NameTable([self.plain[run.numbers[0]].names for run in self.runs], "glob")


def _runs(plain: Sequence[PlainStep]) -> list[Run]:
    runs: list[range] = []
    for number, step in enumerate(plain):
        if runs and _is_another_time(plain[number - 1], step, number):
            runs[-1] = range(runs[-1].start, number + 1)
        else:
            runs.append(range(number, number + 1))
    return [Run(numbers, _bits(numbers)) for numbers in runs]


def _is_another_time(one: PlainStep, step: PlainStep, number: int) -> bool:
    """Whether `step` asks for the same call as the one above it, directly after it, and no more than that one does."""
    asks_the_same = step.names == one.names and step.args is one.args and step.chosen == one.chosen
    return asks_the_same and step.before == one.before | 1 << number - 1 and step.optional >= one.optional


def steps_in_words(items: Sequence[Item]) -> list[str]:
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
    return ", ".join(steps_in_words(items))


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
    return count(most, "time") if least == most else f"{least} to {count(most, 'time')}"
