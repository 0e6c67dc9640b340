"""The expected calls, compared one by one with the calls made: their arguments, or their outputs.

Two evaluators judge so; they differ in the `_Part` of a call that they compare.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field

from tracegrade.evaluate.compare.differences import MAX_EXPLAINED, line, listed_differences, origins_of, paths_of
from tracegrade.evaluate.compare.expected_calls import (
    CompiledNames,
    ExpectedCall,
    ExpectedCalls,
    expected_arguments,
    expected_output,
)
from tracegrade.evaluate.compare.outputs import ActualOutput, ExpectedOutput, Output, outputs_or_unknown
from tracegrade.evaluate.criteria.expected import Difference, Expected, ExpectedObject, differences, members_in_words
from tracegrade.evaluate.criteria.field_types import ExpectedArguments
from tracegrade.evaluate.criteria.parameters import DefaultCriteria, NotedSettings, ParameterModel
from tracegrade.evaluate.criteria.value_modes import ComparedValues
from tracegrade.evaluate.evaluator import Evaluator, ScoreRange, share_of_expected
from tracegrade.evaluate.evidence import CallPart, Evidence, Justification, Score
from tracegrade.evaluate.json_values import written
from tracegrade.evaluate.pairing.by_name import (
    PAIRINGS,
    TOO_MANY,
    ByPosition,
    Matches,
    PairingWord,
    candidates_by_name,
    first_contended,
    in_step,
    may_contend,
    pairing_in_force,
    with_next_unused,
)
from tracegrade.evaluate.unknown import Arguments, arguments_or_unknown, in_both_readings
from tracegrade.evaluate.wording import ArgumentExcerpts, OutputExcerpts, all_of, listed, were
from tracegrade.evaluate.work import Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range
from tracegrade.model.tri import Unknown

E = TypeVar("E", ExpectedObject, ExpectedOutput)  # what is expected of a call
Found = TypeVar("Found")  # what is compared with it


@dataclass(frozen=True, slots=True)
class _Part(Generic[E, Found]):
    """The part of a call that is compared, and how; functions of what is expected are told whether more is free.

    Attributes:
        part: what of a call is read.
        key: the name of the justification in the details.
        words: the part in a sentence.
        root: what paths into it begin with.
        shown: it, of each call made, as the justification shows it.
        found: it, of each call made, as it is compared.
        is_met: whether what was found is as expected.
        differences: where it is not.
        value: what is expected, as a value.
        said: what is expected, after the words that such a call is made.
        call: the expected call as the page shows it.
        as_json: whether what was found is JSON, so that it may be written as what was expected.
    """

    part: CallPart
    key: str
    words: str
    root: str
    shown: Callable[[Evidence], Mapping[int, str]]
    found: Callable[[Evidence], ByPosition[Found]]
    is_met: Callable[[E, bool], Matches[Found]]
    differences: Callable[[E, bool], Callable[[Found, Work], Iterator[Difference]]]
    value: Callable[[E], Expected]
    said: Callable[[E, bool], str]
    call: Callable[[str, E, bool], ExpectedCall]
    as_json: bool = False


class CompiledCalls(CompiledNames, Generic[Found]):
    """The expected calls: their names, and what is expected of each.

    ``texts`` are the criteria as the justification shows them, ``wanted`` tell whether what was found is as expected,
    ``differ`` where it is not.
    """

    __slots__ = ("_lines", "_written", "differ", "part", "texts", "wanted")

    def __init__(self, part: _Part[E, Found], calls: Sequence[tuple[str, E]], *, partly: bool) -> None:
        super().__init__([name for name, _ in calls])
        self.part: _Part[Any, Any] = part
        self.texts = [expected.text for _, expected in calls]
        self.wanted = [part.is_met(expected, partly) for _, expected in calls]
        self.differ = [part.differences(expected, partly) for _, expected in calls]
        self._written = written([expected.source for _, expected in calls]) if part.as_json and not partly else None
        self._lines: dict[str, JsonValue] | None = None

    def explained_to_the_letter(self, found: object) -> dict[str, JsonValue] | None:
        """The justification when what was found of all calls is written as what was expected; None when it is not.

        So are the calls of a run that is judged by those of an earlier one, and they need not be written down again.
        """
        if self._written is None or self._written != written(found):
            return None
        if self._lines is None:
            shown = zip(self.keys, self.texts, strict=True)
            self._lines = {key: line(text, text, 1.0) for key, text in islice(shown, MAX_EXPLAINED)}
        return self._lines


class CallsCriteria(ComparedValues):
    """What is expected."""

    part: ClassVar[_Part[Any, Any]]

    def named(self) -> Sequence[tuple[str, Any]]:
        """The calls: the name of each, and what is expected of its part."""
        raise NotImplementedError

    @cached_property
    def expected(self) -> CompiledCalls[Any]:
        """The calls, with this and nothing else."""
        return CompiledCalls(self.part, self.named(), partly=False)

    @cached_property
    def at_least(self) -> CompiledCalls[Any]:
        """The calls, with this at least."""
        return CompiledCalls(self.part, self.named(), partly=True)


def _arguments_said(expected: ExpectedObject, partly: bool) -> str:
    if not expected.members:
        return "" if partly else " without arguments"
    rest = "" if partly else ", and there is no other argument"
    return f", where {', and '.join(members_in_words('args', expected))}{rest}"


def _output_said(output: ExpectedOutput, partly: bool) -> str:
    (expected,) = output.parts()
    is_object = isinstance(expected.opened(), ExpectedObject)
    rest = ", and there is nothing else in it" if is_object and not partly else ""
    return f", where {', and '.join(members_in_words('output', expected))}{rest}"


_ARGUMENTS: _Part[ExpectedObject, Arguments | Unknown] = _Part(
    part="arguments",
    key="explained_tool_calls_args",
    words="arguments",
    root="args",
    shown=ArgumentExcerpts,
    found=lambda evidence: evidence.once(arguments_or_unknown),
    is_met=lambda expected, partly: expected.accepts_within if partly else expected.accepts,
    differences=lambda expected, partly: partial(differences, expected, partly=partly),
    value=lambda expected: expected,
    said=_arguments_said,
    call=lambda name, expected, partly: expected_arguments([name], expected, partly=partly),
    as_json=True,
)
_OUTPUT: _Part[ExpectedOutput, ActualOutput | Unknown] = _Part(
    part="output",
    key="explained_tool_calls_outputs",
    words="output",
    root="output",
    shown=OutputExcerpts,
    found=outputs_or_unknown,
    is_met=lambda expected, partly: expected.accepts_within if partly else expected.accepts,
    differences=lambda expected, partly: partial(expected.differences, partly=partly),
    value=lambda expected: expected.decoded(),
    said=_output_said,
    call=lambda name, expected, partly: expected_output(name, expected, partly=partly),
)


class CallWithArguments(ParameterModel):
    """One call and its arguments."""

    name: Annotated[str, Field(description="The tool.")]
    args: Annotated[ExpectedArguments, Field(description="Its arguments: values or matchers, by name.")]


class ArgsCriteria(CallsCriteria):
    """What is expected."""

    part = _ARGUMENTS
    tool_calls: Annotated[list[CallWithArguments], Field(description="The calls, in any order.")]

    def named(self) -> Sequence[tuple[str, ExpectedObject]]:
        """As of all such criteria."""
        return [(call.name, call.args) for call in self.tool_calls]


class CallWithOutput(ParameterModel):
    """One call and its output."""

    name: Annotated[str, Field(description="The tool.")]
    output: Annotated[Output, Field(description="What it gives: a value or a matcher.")]


class OutputCriteria(CallsCriteria):
    """What is expected."""

    part = _OUTPUT
    tool_outputs: Annotated[list[CallWithOutput], Field(description="The calls, in any order across tools.")]

    def named(self) -> Sequence[tuple[str, ExpectedOutput]]:
        """As of all such criteria."""
        return [(call.name, call.output) for call in self.tool_outputs]


class CallsSettings(NotedSettings):
    """How it is compared."""

    strict: bool = False
    subset: bool = False
    pairing: PairingWord | None = None

    def pairing_of(self, criteria: CallsCriteria) -> PairingWord:
        """How calls of one name are paired."""
        return pairing_in_force(self.pairing, criteria)


class ArgsSettings(CallsSettings):
    """How it is compared."""

    strict: Annotated[bool, Field(description="1 when every expected call was made, else 0.")] = False
    subset: Annotated[bool, Field(description="Calls may have further arguments than the expected ones.")] = False
    pairing: Annotated[
        PairingWord | None,
        Field(
            description="Calls of one name: the first that matches, as many as possible, or the second with the "
            "second; first if omitted, or best with matchers."
        ),
    ] = None
    default_evaluation_criteria: DefaultCriteria[ArgsCriteria] = None


class OutputSettings(CallsSettings):
    """How it is compared."""

    strict: Annotated[bool, Field(description="The calls of each tool in this order; 1 when all equal, else 0.")] = (
        False
    )
    subset: Annotated[bool, Field(description="Objects may have further members than the expected ones.")] = False
    pairing: Annotated[
        PairingWord | None,
        Field(
            description="Calls of one name: the first that is equal, as many as possible, or the second with the "
            "second; if omitted: positional with strict, else first, or best with matchers."
        ),
    ] = None
    default_evaluation_criteria: DefaultCriteria[OutputCriteria] = None

    def pairing_of(self, criteria: CallsCriteria) -> PairingWord:
        """As of all, and positional by default where the calls of each tool have an order."""
        return "positional" if self.strict and self.pairing is None else pairing_in_force(self.pairing, criteria)


def _judge(
    evidence: Evidence, criteria: CallsCriteria, settings: CallsSettings, optimistic: bool
) -> tuple[Score, Unknown | None]:
    """The share of expected calls that were matched, or with `strict` 1 when all are, else 0.

    Nothing expected and nothing called is 1; nothing expected and something called is 0.
    """
    expected = criteria.at_least if settings.subset else criteria.expected
    part, names, wanted = expected.part, expected.names, expected.wanted
    found = part.found(evidence)
    if not names:
        return _score_nothing_expected(expected, len(evidence.calls)), None
    work = in_step(names, wanted, evidence, found, optimistic=optimistic, steps=1)
    if work is not None:
        pairing = expected.in_step
    else:
        work = Work(evidence=evidence, optimistic=optimistic)
        pairing = PAIRINGS[settings.pairing_of(criteria)](names, wanted, evidence, found, work)
    pairs, _, more = pairing
    if None not in pairs:
        justify = partial(_justify_all, expected, evidence, found, pairs)
        return Score(1.0, justify=justify, pairing=pairing), work.unknown
    matched, of = len(names) - pairs.count(None), len(names)
    shown = with_next_unused(candidates_by_name(names, evidence), pairs)
    failed = [
        (index, position)
        for index, (position, pair) in enumerate(zip(shown, pairs, strict=True))
        if position is not None and pair is None
    ]
    differ = listed_differences(part.root, _differing(expected, failed, found, work))
    details: dict[str, JsonValue] = {part.key: _explained(expected, evidence, shown, pairs), "differences": differ}
    uncalled = [name for name, position in zip(names, shown, strict=True) if position is None]
    reasons = [f"missing: {listed(uncalled)}"] if uncalled else []
    if paths := paths_of(differ):
        reasons += [f"mismatched: {listed(paths)}", *origins_of(differ)]
    made = f"{matched} of {were(of, 'expected call')} made with the expected {part.words}"
    text = "; ".join([made, *reasons]) + "."
    least, most = (float(some == of) if settings.strict else some / of for some in (matched, matched + more))
    ends = Range(least, most, TOO_MANY) if more else None
    return Score(least, details, text, range=ends, pairing=pairing), work.unknown


def _score_nothing_expected(expected: CompiledCalls[Any], calls: int) -> Score:
    text = "No calls were expected and none were made."
    if calls:
        text = f"No calls were expected, but {were(calls, 'call')} made."
    return Score(float(not calls), {expected.part.key: {"_result": text}}, text, pairing=expected.in_step)


def _justify_all(
    expected: CompiledCalls[Any], evidence: Evidence, found: ByPosition[Any], pairs: Sequence[int | None]
) -> Justification:
    text = f"{all_of(len(pairs), 'expected call')} made with the expected {expected.part.words}."
    lines = expected.explained_to_the_letter(found) if isinstance(pairs, range) else None
    return {expected.part.key: lines or _explained(expected, evidence, pairs, pairs), "differences": []}, text


def _explained(
    expected: CompiledCalls[Any], evidence: Evidence, shown: Sequence[int | None], pairs: Sequence[int | None]
) -> dict[str, JsonValue]:
    lines: dict[str, JsonValue] = {}
    texts = evidence.once(expected.part.shown)
    for index, key in enumerate(expected.keys[:MAX_EXPLAINED]):
        position = shown[index]
        actual = "not called" if position is None else texts[position]
        lines[key] = line(actual, expected.texts[index], pairs[index] is not None)
    return lines


def _differing(
    expected: CompiledCalls[Any], failed: Sequence[tuple[int, int]], found: ByPosition[Any], work: Work
) -> Iterator[tuple[str, Iterator[Difference]]]:
    for index, position in failed:
        work.position = position
        if not isinstance(found[position], Unknown):
            yield expected.keys[index], expected.differ[index](found[position], work)


def _contended(criteria: CallsCriteria, settings: CallsSettings) -> tuple[int, int] | None:
    values = [criteria.part.value(expected) for _, expected in criteria.named()]
    return first_contended(
        criteria.expected.names, lambda one, other: may_contend(values[one], values[other], partly=settings.subset)
    )


def _expected_calls(criteria: CallsCriteria, settings: CallsSettings) -> ExpectedCalls:
    return ExpectedCalls([criteria.part.call(name, expected, settings.subset) for name, expected in criteria.named()])


def _sentences(criteria: CallsCriteria, settings: CallsSettings) -> list[str]:
    if criteria.values is not None:
        return []
    part = criteria.part
    return [f"a call of {name} is made{part.said(expected, settings.subset)}" for name, expected in criteria.named()]


def _with_further_calls(
    evidence: Evidence, criteria: CallsCriteria, settings: CallsSettings, score: float
) -> ScoreRange:
    return share_of_expected(score, settings.pairing_of(criteria), expects_calls=bool(criteria.named()))


C = TypeVar("C", bound=CallsCriteria)
S = TypeVar("S", bound=CallsSettings)


def _call_by_call(name: str, summary: str, Criteria: type[C], Settings: type[S]) -> Evaluator[C, S]:
    return Evaluator(
        name=name,
        summary=summary,
        Criteria=Criteria,
        Settings=Settings,
        asks=frozenset({Criteria.part.part}),
        pairing=lambda criteria, settings: settings.pairing_of(criteria) if criteria.expected.names_one_twice else None,
        contended=_contended,
        score=in_both_readings(_judge),
        sentences=_sentences,
        settings_said=frozenset({"subset"}),
        expected_calls=_expected_calls,
        with_further_calls=_with_further_calls,
    )


TOOL_CALL_ARGS = _call_by_call(
    name="tool-call-args",
    summary="Were the expected calls made with the expected arguments?",
    Criteria=ArgsCriteria,
    Settings=ArgsSettings,
)
"""Each expected call is paired with a call of its name whose arguments match, and no call with two. The score is the
share of expected calls that have one; with ``strict`` it is 1 when all have, else 0. Arguments match whole: the same
names with equal values, or, with ``subset``, at least the expected ones (nested values are still compared whole).
Neither the order of calls nor further calls matter. Nothing expected and nothing called is 1, only one of them empty
is 0.

``pairing`` decides between several calls of one tool. With ``first``, each expected call, in order, takes the first
unused call that matches, and none is given back: the score may depend on the order in which they are written. With
``best``, as many as possible are paired. With ``positional``, the second expected call of a name is compared with the
second call of that name, whatever the first was. UiPath's evaluator, which takes the first that matches, knows literal
values only: where all expected values are literal, ``first`` is the default; as soon as one is a matcher, or compared
by ``values``, ``best`` is.
"""

TOOL_CALL_OUTPUT = _call_by_call(
    name="tool-call-output",
    summary="Did the expected calls give the expected outputs?",
    Criteria=OutputCriteria,
    Settings=OutputSettings,
)
"""Each expected call is paired with a call of its name whose output is equal, and no call with two. The score is the
share of expected calls that have one; with ``strict`` it is 1 when all have, else 0. Further calls never matter.
Nothing expected and nothing called is 1, only one of them empty is 0.

``pairing`` decides between several calls of one tool. With ``first``, each expected call, in order, takes the first
unused call whose output is equal, and none is given back. With ``best``, as many as possible are paired. With
``positional``, the second expected call of a name is compared with the second call of that name, whatever the first
was. ``positional`` is the default with ``strict``; else ``first`` is, where all expected values are literal, and
``best`` as soon as one is a matcher, or compared by ``values``.

Outputs are compared whole. A text equals the same text, and a number, true or false that was written so; a text that
is the JSON of an object or a list also equals any output of the same value, and an expected value that is no text also
equals an output that is its JSON text. An absent or null output reads as the empty text, expected or found. With
``subset``, an object may have further members than the expected ones; nested values are still compared whole.
"""
