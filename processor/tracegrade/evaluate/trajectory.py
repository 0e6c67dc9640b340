"""trajectory: how do the calls made compare with those expected? Every comparison in the field, by its parts.

``match`` says which sequences count: ``exact`` (these calls in this order and no others), ``in_order`` (these in this
order, others between), ``any_order`` (these, and others), ``unordered`` (these and no others), ``subset`` (none but
these). ``args`` says which arguments of a call count, ``outputs`` whether its output does, ``names`` how tools are
named, and ``call_credit`` what a call is worth that fits in part. ``score`` makes a number of it: ``binary`` (1 when
`match` holds, else 0), ``recall`` (the share of what was expected), ``precision`` (the share of what was done) or
``f1`` of both. For ``in_order`` the calls that count are a longest common subsequence, for ``exact`` those at their
position, otherwise those of a pairing one to one.

``first``: expected calls, in order, take the unused call that fits best, the earliest of equals; ``best``: calls made,
in order, take the expected call that they fit best; ``positional``: the second expected call of a name is compared with
the second call of it. Calls made together have no order: they take the best one, unless ``concurrency: sequential``.

Beside or instead of expected calls, conditions that all must hold, or the score is 0: ``counts`` of tools, numbers of
``calls``, ``failed_calls`` and ``steps`` (calls made together are one), and names or adjacent sequences that are
``required``, ``forbidden``, or the only ones ``allowed``. ``efficiency`` takes off for calls that were not needed.

Nothing expected: a binary score says what the words say (nothing is always there in any order); a graded one is 1 when
nothing was called, else 0. ``on_empty: skip`` scores neither, ``error`` calls it a mistake.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, GetJsonSchemaHandler, PrivateAttr, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from tracegrade.evaluate.arguments_comparison import (
    ArgumentsComparison,
    ArgumentsMatch,
    ArgumentsOverride,
    Glob,
    KeyPath,
)
from tracegrade.evaluate.call_by_call import (
    MAX_EXPLAINED,
    ExpectedNames,
    line,
    listed_differences,
    origins_of,
    paths_of,
)
from tracegrade.evaluate.calls import ArgumentExcerpts, arguments, counted, detailed, listed
from tracegrade.evaluate.conditions import Conditions, Efficiency
from tracegrade.evaluate.criteria import ExpectedArguments
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evaluator import Evaluator, ParameterModel
from tracegrade.evaluate.evidence import CallPart, Evidence, Score
from tracegrade.evaluate.expected import Difference
from tracegrade.evaluate.order import any_tied, batches, of_equal_rank, ties
from tracegrade.evaluate.outputs import ActualOutputs
from tracegrade.evaluate.pairing import in_turn, most_pairs
from tracegrade.evaluate.subsequence import align, arrange
from tracegrade.evaluate.tool_call_output import Output
from tracegrade.evaluate.tool_names import NameComparison, NameTable, ToolNames, listed_names
from tracegrade.evaluate.value_modes import ComparedValues
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue

# Sums of fractions: three calls worth a third, a third and a third are one call.
_TOLERANCE = 1e-9


class ExpectedCall(ParameterModel):
    """One call: its tool, or several of which any will do, and what is expected of its arguments and output."""

    name: ToolNames
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

    threshold: Annotated[float, Field(ge=0, le=1)]


Match: TypeAlias = Literal["exact", "in_order", "any_order", "unordered", "subset", "strict", "superset"]
_ALIASES: dict[Match, Match] = {"strict": "exact", "superset": "any_order"}


class Criteria(ComparedValues, Conditions):
    """What is expected."""

    tool_calls: Annotated[
        list[ExpectedCall] | None, Field(description="The calls: names, or {name, args, output}.")
    ] = None
    _prepared: "tuple[Settings, _Prepared] | None" = PrivateAttr(default=None)

    def names_expected(self) -> list[str]:
        """Every name that an expected call may have."""
        return [name for call in self.tool_calls or () for name in listed_names(call.name)]

    def prepared(self, settings: "Settings") -> "_Prepared":
        """These criteria ready to compare; made once, as a rule has one set of settings."""
        if self._prepared is None or self._prepared[0] is not settings:
            self._prepared = (settings, _Prepared(self, settings))
        return self._prepared[1]


class Settings(ParameterModel):
    """How it is compared."""

    match: Annotated[
        Match, Field(description="Which sequences of calls count; strict is exact, superset any_order.")
    ] = "in_order"
    args: Annotated[ArgumentsMatch, Field(description="Which arguments count, said of the call made.")] = "exact"
    keys: list[KeyPath] = Field(default_factory=list, description="Compare these arguments alone, by dotted path.")
    ignore_keys: list[Glob] = Field(
        default_factory=list, description="Leave these arguments out, by glob of the dotted path."
    )
    defaults: dict[str, Any] = Field(default_factory=dict, description="What arguments are when they are left out.")
    tools: dict[str, ArgumentsOverride] = Field(
        default_factory=dict, description="args, keys, ignore_keys and defaults of single tools."
    )
    outputs: Annotated[Literal["off", "exact"], Field(description="Whether expected outputs count.")] = "off"
    names: Annotated[NameComparison, Field(description="How tool names are compared.")] = "exact"
    score: Annotated[Literal["binary", "recall", "precision", "f1"], Field(description="What number comes of it.")] = (
        "binary"
    )
    call_credit: Annotated[
        Literal["binary", "fractional"] | Threshold,
        Field(description="What a call is worth that fits in part: nothing, its share, or all from a threshold."),
    ] = "binary"
    pairing: Annotated[
        Literal["first", "best", "positional"], Field(description="Which call is compared with which, without order.")
    ] = "first"
    occurrence: Annotated[
        Literal["any", "first", "last"] | Annotated[int, Field(ge=0)],
        Field(description="Of each tool look at all calls, or at one: first, last, or its number from 0."),
    ] = "any"
    concurrency: Annotated[
        Literal["batches", "sequential"],
        Field(description="Calls made together take their best order, or the order of their starts."),
    ] = "batches"
    include_failed: Annotated[bool, Field(description="Calls that failed count as calls.")] = True
    efficiency: Annotated[Efficiency | None, Field(description="What is taken off for calls not needed.")] = None
    negate: Annotated[bool, Field(description="One less the score: this must not be so.")] = False
    on_empty: Annotated[Literal["score", "skip", "error"], Field(description="When tool_calls is an empty list.")] = (
        "score"
    )


class _Prepared:
    """Criteria and settings compiled: the names, and how each call's arguments are compared."""

    def __init__(self, criteria: Criteria, settings: Settings) -> None:
        calls = criteria.tool_calls or []
        self.table = NameTable([call.name for call in calls], settings.names)
        self.shown = ExpectedNames([" | ".join(listed_names(call.name)) for call in calls])
        self.comparisons = [_comparison(call, settings) for call in calls]
        self.outputs = [call.output if settings.outputs == "exact" else None for call in calls]
        self.limit = settings.call_credit.threshold if isinstance(settings.call_credit, Threshold) else 0.0
        self.whole = settings.call_credit == "binary"
        self.fractional = settings.call_credit == "fractional"

    def indexes_reading(self, part: CallPart) -> Iterator[int]:
        """The expected calls that look at this part of a call made."""
        for index, (comparison, output) in enumerate(zip(self.comparisons, self.outputs, strict=True)):
            if comparison.match != "ignore" if part == "arguments" else output is not None:
                yield index


def _comparison(call: ExpectedCall, settings: Settings) -> ArgumentsComparison:
    own = next((settings.tools[name] for name in listed_names(call.name) if name in settings.tools), None)
    override = own or ArgumentsOverride()
    return ArgumentsComparison(
        call.args,
        settings.args if override.args is None else override.args,
        keys=settings.keys if override.keys is None else override.keys,
        ignore_keys=settings.ignore_keys if override.ignore_keys is None else override.ignore_keys,
        defaults=settings.defaults if override.defaults is None else override.defaults,
    )


class _Comparison:
    """One evaluation: what was expected against the calls that are looked at."""

    def __init__(self, evidence: Evidence, criteria: Criteria, settings: Settings) -> None:
        self.evidence = evidence
        self.criteria = criteria
        self.settings = settings
        self.prepared = criteria.prepared(settings)
        self.work = Work(evidence=evidence)
        self.made = _looked_at(evidence, settings)
        self._outputs = ActualOutputs(evidence)
        self._arguments = evidence.once(arguments)
        # The position paired with each expected call, and what the pair is worth.
        self.pairs: list[int | None] = [None] * len(criteria.tool_calls or ())
        self.worth = [0.0] * len(criteria.tool_calls or ())
        if settings.occurrence != "any" and evidence.once(any_tied):
            self.made = self._best_of_tied()

    def _best_of_tied(self) -> list[int]:
        """Of each tool the one call that fits best, where several may be the one looked at."""
        by_name: dict[str, list[int]] = {}
        for position in self.made:
            by_name.setdefault(self.evidence.calls[position].name, []).append(position)
        return sorted(max(some, key=lambda at: max(self._fits(at).values(), default=0.0)) for some in by_name.values())

    def fit(self, index: int, position: int) -> float:
        """What the call at `position` is worth as the expected call; 0 when it does not fit at all."""
        prepared = self.prepared
        self.work.spend()
        self.work.position = position
        output = prepared.outputs[index]
        if output is not None and not output.equals(self._outputs[position], self.work):
            return 0.0
        comparison = prepared.comparisons[index]
        if prepared.whole or comparison.match == "ignore":
            return float(comparison.holds(self._arguments[position], self.work))
        share = comparison.share(self._arguments[position], self.work)
        return share if prepared.fractional else float(share > 0 and share >= prepared.limit)

    def candidates(self, position: int) -> Sequence[int]:
        """The expected calls whose names the call has."""
        return self.prepared.table.met_by(self.evidence.calls[position].name)

    def pair(self) -> None:
        """Pair expected calls with calls made."""
        match = _ALIASES.get(self.settings.match, self.settings.match)
        if match in ("exact", "in_order"):
            groups = self._groups()
            calls = [position for group in groups for position in group]
            fits = [[self._fits(position) for position in group] for group in groups]
            method = arrange if match == "exact" else align
            pairs: Iterable[tuple[int, int, float]] = [
                (index, calls[rank], self.fit(index, calls[rank]))
                for index, rank in method(len(self.pairs), fits, self.work)
            ]
        elif self.settings.pairing == "positional":
            pairs = self._positional()
        else:
            pairs = list(self._best() if self.settings.pairing == "best" else self._first())
            if len(pairs) < len(self.pairs) and self.evidence.once(any_tied):
                pairs = self._most()
        for index, position, worth in pairs:
            self.pairs[index] = position
            self.worth[index] = worth

    def _groups(self) -> Sequence[Sequence[int]]:
        sequential = self.settings.concurrency == "sequential"
        if sequential and not self.evidence.once(any_tied):
            return [[position] for position in self.made]
        made = set(self.made)
        kept = ([p for p in group if p in made] for group in self.evidence.once(ties if sequential else batches))
        return [group for group in kept if group]

    def _fits(self, position: int) -> dict[int, float]:
        return {index: worth for index in self.candidates(position) if (worth := self.fit(index, position))}

    def by_expected(self) -> list[list[int]]:
        """For each expected call the calls of its names, in order; calls of one name share a list."""
        found: list[list[int]] = [[] for _ in self.pairs]
        shared: dict[tuple[str, ...], list[int]] = {}
        names = [tuple(listed_names(call.name)) for call in self.criteria.tool_calls or ()]
        for index, key in enumerate(names):
            found[index] = shared.setdefault(key, [])
        for position in self.made:
            for key in {names[index]: None for index in self.candidates(position)}:
                shared[key].append(position)
        return found

    def _first(self) -> Iterator[tuple[int, int, float]]:
        used: set[int] = set()
        for index, positions in enumerate(self.by_expected()):
            best, best_worth = None, 0.0
            for position in positions:
                if position in used:
                    self.work.spend()
                elif (worth := self.fit(index, position)) > best_worth:
                    best, best_worth = position, worth
                    if worth == 1.0:
                        break
            if best is not None:
                used.add(best)
                yield index, best, best_worth

    def _best(self) -> Iterator[tuple[int, int, float]]:
        used: set[int] = set()
        for position in self.made:
            best, best_worth = None, 0.0
            for index in self.candidates(position):
                if index in used:
                    self.work.spend()
                elif (worth := self.fit(index, position)) > best_worth:
                    best, best_worth = index, worth
                    if worth == 1.0:
                        break
            if best is not None:
                used.add(best)
                yield best, position, best_worth

    def _most(self) -> Iterator[tuple[int, int, float]]:
        """As many pairs as possible: what some order of tied calls gives."""
        fits = [self._fits(position) for position in self.made]
        for index, rank in most_pairs(range(len(self.pairs)), fits, self.work):
            yield index, self.made[rank], fits[rank][index]

    def _positional(self) -> Iterator[tuple[int, int, float]]:
        used: set[int] = set()
        turns: dict[int, list[int]] = {}
        positions_of = self.by_expected()
        for index, positions in enumerate(positions_of):
            turns.setdefault(id(positions), []).append(index)
        if self.evidence.once(any_tied):
            for indexes in turns.values():
                left = [position for position in positions_of[indexes[0]] if position not in used]
                used.update(left[: len(indexes)])
                for index, position in in_turn(indexes, of_equal_rank(self.evidence, left), self.fit, self.work):
                    yield index, position, self.fit(index, position)
            return
        rest = {key: iter(positions_of[indexes[0]]) for key, indexes in turns.items()}
        for index, positions in enumerate(positions_of):
            at = next((position for position in rest[id(positions)] if position not in used), None)
            if at is not None:
                used.add(at)
                if worth := self.fit(index, at):
                    yield index, at, worth

    def differences(self, index: int, position: int) -> Iterator[Difference]:
        """Where the call made is not as expected."""
        self.work.position = position
        output = self.prepared.outputs[index]
        for found in self.prepared.comparisons[index].differences(self._arguments[position], self.work):
            yield replace(found, path=("args", *found.path))
        if output is not None and not output.equals(actual := self._outputs[position], self.work):
            lookups = tuple(output.lookups(self.work))
            yield Difference(("output",), "different", expected=output.source, found=actual.value, lookups=lookups)


def _looked_at(evidence: Evidence, settings: Settings) -> list[int]:
    """The positions of the calls that count; of one occurrence all that may be it, where nothing tells their order."""
    calls = evidence.calls
    made = [p for p, call in enumerate(calls) if settings.include_failed or not call.failed]
    which = settings.occurrence
    if which == "any":
        return made
    by_name: dict[str, list[int]] = {}
    for position in made:
        by_name.setdefault(calls[position].name, []).append(position)
    number = {"first": 0, "last": -1}.get(which, which) if isinstance(which, str) else which
    return sorted(
        position
        for positions in by_name.values()
        if isinstance(number, int) and -1 <= number < len(positions)
        for position in next(group for group in of_equal_rank(evidence, positions) if positions[number] in group)
    )


def _score(evidence: Evidence, criteria: Criteria, settings: Settings) -> Score:
    if criteria.tool_calls is None and not criteria.has_conditions and settings.efficiency is None:
        return Score(None, {}, "Nothing is expected, so there is nothing to score.")
    if criteria.tool_calls == []:
        if settings.on_empty == "error":
            raise EvaluatorError("invalid_criteria", "trajectory: tool_calls: expected at least one call")
        if settings.on_empty == "skip":
            return Score(None, {}, "No calls are expected, so there is nothing to score.")
    comparison = _Comparison(evidence, criteria, settings)
    score, text = 1.0, "No particular calls were expected."
    details: dict[str, JsonValue] = {}
    if criteria.tool_calls is not None:
        comparison.pair()
        score, details, text = _judged(comparison)
    calls = [evidence.calls[position] for position in comparison.made]
    place_of = {position: place for place, position in enumerate(comparison.made)}
    groups = [[place_of[position] for position in group] for group in of_equal_rank(evidence, comparison.made)]
    if broken := criteria.broken(calls, groups, settings.names):
        score, text = 0.0, f"{'; '.join(broken)}. {text}"
        details["broken"] = list(broken)
    if settings.efficiency is not None:
        taken = settings.efficiency.taken_off(calls, groups, criteria.names_expected(), comparison.work)
        score = taken.apply(score)
        details |= taken.details
        text = f"{text} {taken.explanation}".rstrip()
    if settings.negate:
        return Score(1 - score, details, f"This must not be so: {text}")
    return Score(score, details, text)


def _judged(comparison: _Comparison) -> tuple[float, dict[str, JsonValue], str]:
    expected, actual = len(comparison.pairs), len(comparison.made)
    matched = sum(comparison.worth)
    recall = matched / expected if expected else float(not actual)
    precision = matched / actual if actual else float(not expected)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    holds = _HOLDS[_ALIASES.get(comparison.settings.match, comparison.settings.match)](matched, expected, actual)
    scores = {"binary": float(holds), "recall": recall, "precision": precision, "f1": f1}
    used = {position for position in comparison.pairs if position is not None}
    unexpected = [comparison.evidence.calls[p].name for p in comparison.made if p not in used]
    shown = _nearest(comparison, used)
    keys = comparison.prepared.shown.keys
    found = listed_differences(
        "",
        (
            (keys[index], comparison.differences(index, position))
            for index, position in enumerate(shown)
            if position is not None and comparison.worth[index] < 1 - _TOLERANCE
        ),
    )
    details: dict[str, JsonValue] = {
        "matched": matched,
        "expected": expected,
        "actual": actual,
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "explained_tool_calls": _explained(comparison, shown),
        "unexpected_tool_calls": detailed(unexpected),
        "differences": found,
    }
    missing = [name for name, position in zip(comparison.prepared.shown.names, shown, strict=True) if position is None]
    text = _explain(comparison, holds, missing, found, unexpected)
    return scores[comparison.settings.score], details, text


_HOLDS: dict[Match, Callable[[float, int, int], bool]] = {
    "exact": lambda matched, expected, actual: expected == actual and matched >= expected - _TOLERANCE,
    "in_order": lambda matched, expected, actual: matched >= expected - _TOLERANCE,
    "any_order": lambda matched, expected, actual: matched >= expected - _TOLERANCE,
    "unordered": lambda matched, expected, actual: expected == actual and matched >= expected - _TOLERANCE,
    "subset": lambda matched, expected, actual: matched >= actual - _TOLERANCE,
}


def _nearest(comparison: _Comparison, used: set[int]) -> list[int | None]:
    """The pairs, and for each expected call without one the next unused call of its names: what a reader looks for."""
    shown = list(comparison.pairs)
    if None not in shown:
        return shown
    taken = set(used)
    turns: dict[int, Iterator[int]] = {}
    for index, positions in enumerate(comparison.by_expected()):
        turn = turns.setdefault(id(positions), iter(positions))
        if shown[index] is None:
            shown[index] = next((position for position in turn if position not in taken), None)
            taken.add(-1 if shown[index] is None else shown[index])  # type: ignore[arg-type]
    return shown


def _explained(comparison: _Comparison, shown: Sequence[int | None]) -> dict[str, JsonValue]:
    excerpts = comparison.evidence.once(ArgumentExcerpts)
    lines: dict[str, JsonValue] = {}
    for index, key in enumerate(comparison.prepared.shown.keys[:MAX_EXPLAINED]):
        position = shown[index]
        actual = "not called" if position is None else excerpts[position]
        wanted = comparison.prepared.comparisons[index]
        expected = "any" if wanted.match == "ignore" else wanted.expected.text
        lines[key] = line(actual, expected, comparison.worth[index])
    return lines


def _explain(
    comparison: _Comparison,
    holds: bool,
    missing: Sequence[str],
    differ: Sequence[JsonValue],
    unexpected: Sequence[str],
) -> str:
    match = _ALIASES.get(comparison.settings.match, comparison.settings.match)
    expected = counted(len(comparison.pairs), "expected call")
    if holds:
        return f"The calls are as expected ({match}, {expected})."
    paired = len(comparison.pairs) - comparison.pairs.count(None)
    reasons = [f"not called often enough: {listed(missing)}"] if missing else []
    reasons += [f"not as expected: {listed(paths_of(differ))}", *origins_of(differ)] if differ else []
    if match in ("exact", "in_order") and not reasons and paired < len(comparison.pairs):
        reasons.append("not in the expected order")
    if match in ("exact", "unordered", "subset") and unexpected:
        reasons.append(f"not expected: {listed(unexpected)}")
    return f"{paired} of {expected} made ({match}); {'; '.join(reasons) or 'the rest fits in part'}."


def _compared(evidence: Evidence, criteria: Criteria, settings: Settings, part: CallPart) -> Iterator[int]:
    prepared = criteria.prepared(settings)
    reading = set(prepared.indexes_reading(part))
    redundant = part == "arguments" and settings.efficiency is not None and settings.efficiency.reads_arguments
    for position in _looked_at(evidence, settings):
        if redundant or not reading.isdisjoint(prepared.table.met_by(evidence.calls[position].name)):
            yield position


def _never_scores(criteria: Criteria, settings: Settings) -> str | None:
    if criteria.tool_calls is None and not criteria.has_conditions and settings.efficiency is None:
        return "nothing is expected; give tool_calls, a condition such as forbidden, or efficiency"
    if criteria.tool_calls == [] and settings.on_empty != "score":
        return f"tool_calls is empty, and on_empty is {settings.on_empty}"
    return None


EVALUATOR = Evaluator(
    name="trajectory",
    summary="How do the calls made compare with those expected, by any of the field's measures?",
    Criteria=Criteria,
    Settings=Settings,
    score=_score,
    reads=frozenset({"arguments", "output"}),
    compared=_compared,
    never_scores=_never_scores,
)
