"""The output of a call, as it is compared: what was found, decoded when it is read, and what is expected of it."""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, TypeAlias

from pydantic import WithJsonSchema

from tracegrade.evaluate.criteria.compile import compile_value
from tracegrade.evaluate.criteria.expected import (
    Criterion,
    Difference,
    Expected,
    ExpectedObject,
    LiteralValue,
    differences,
)
from tracegrade.evaluate.criteria.field_types import as_written, compiled_by
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.json_values import decoded, decoded_container, scalar_text
from tracegrade.evaluate.unknown import unreadable_parts
from tracegrade.evaluate.work import CHARACTERS_READ_PER_STEP, Work
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tri import Tri, Unknown, any_of


class DecodedOutputs(dict[int, JsonValue]):
    """The value whose JSON text the output of a call is, or the output itself, by position; decoded when it is read."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self.calls = evidence.calls

    def __missing__(self, position: int) -> JsonValue:
        output = self.calls[position].output
        value = self[position] = decoded(output) if isinstance(output, str) else output
        return value


class ActualOutput:
    """The output of one call as one evaluation sees it.

    Neither this nor `ActualOutputs` has the evidence, which may keep them: each would keep the other, and so the whole
    trace, in memory until cyclic garbage is collected.
    """

    __slots__ = ("_decoded", "_paid", "_position", "value")

    def __init__(self, outputs: DecodedOutputs, position: int) -> None:
        output = outputs.calls[position].output
        self.value: JsonValue = "" if output is None else output
        self._decoded = outputs
        self._position = position
        self._paid = False

    @property
    def error(self) -> str | None:
        """What a call that failed without an output said of it; None of all others."""
        call = self._decoded.calls[self._position]
        return call.error.text if call.error is not None and call.output is None else None

    @property
    def found(self) -> JsonValue:
        """What differences show: the output, or the error in place of one."""
        return self.value if self.error is None else self.error

    def decoded(self, work: Work) -> JsonValue:
        """The value whose JSON text this is, or the value itself."""
        if not isinstance(self.value, str) or not self.value:
            return self.value
        if not self._paid:
            # Counted even when another evaluation has decoded it: no bound depends on what else is judged.
            work.spend(1 + len(self.value) // CHARACTERS_READ_PER_STEP)
            self._paid = True
        return self._decoded[self._position]


class ActualOutputs(dict[int, ActualOutput]):
    """The output of each call as one evaluation sees it, by position; decoded when it is read."""

    def __init__(self, evidence: Evidence) -> None:
        super().__init__()
        self._decoded = evidence.once(DecodedOutputs)

    def __missing__(self, position: int) -> ActualOutput:
        output = self[position] = ActualOutput(self._decoded, position)
        return output


def outputs_or_unknown(evidence: Evidence) -> Mapping[int, ActualOutput | Unknown]:
    """The output of each call, or why it cannot be read; as one evaluation sees them."""
    outputs = ActualOutputs(evidence)
    unknown = unreadable_parts(evidence, "output")
    return ChainMap({**unknown}, outputs) if unknown else outputs  # type: ignore[arg-type]


class ExpectedOutput(Criterion):
    """What is expected of an output: the criterion, and for a JSON text also the value it stands for."""

    __slots__ = ("_criterion", "_value")

    def __init__(self, source: JsonValue, criterion: Expected) -> None:
        super().__init__(source)
        self._criterion = LiteralValue("") if source is None else criterion
        container = decoded_container(source) if isinstance(source, str) else None
        self._value = None if container is None else LiteralValue(container)

    def equals(self, actual: ActualOutput, work: Work) -> Tri:
        """Whether `actual` is what was expected; unknown where that depends on what cannot be read.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        found = self._criterion.matches(actual.value, work)
        if found is True:
            return True
        if isinstance(self.source, str) and isinstance(actual.value, bool | int | float):
            return self.source == scalar_text(actual.value)
        if (value := self.as_value()) is not None:
            found = any_of((found, value.matches(actual.decoded(work), work)))
        return _of_output(found)

    def equals_within(self, actual: ActualOutput, work: Work) -> Tri:
        """Whether `actual` has the expected members, whatever else it has; what is no object is compared whole.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        value = self.as_value()
        if value is None or not isinstance(members := value.opened(), ExpectedObject):
            return self.equals(actual, work)
        found = actual.decoded(work)
        return _of_output(members.matches_within(found, work) if isinstance(found, dict) else work.hides(found))

    def accepts(self, actual: ActualOutput | Unknown, work: Work) -> bool:
        """Whether `actual` counts as what was expected; see `Work.takes`.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        return work.takes(actual if isinstance(actual, Unknown) else self.equals(actual, work))

    def accepts_within(self, actual: ActualOutput | Unknown, work: Work) -> bool:
        """Whether `actual` counts as having the expected members; see `Work.takes`.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        return work.takes(actual if isinstance(actual, Unknown) else self.equals_within(actual, work))

    def differences(self, actual: ActualOutput, work: Work, *, partly: bool = False) -> Iterator[Difference]:
        """Where `actual` is not what was expected; with `partly`, further members are as expected.

        Raises:
            EvaluatorError: ``work_bound``.
        """
        value = self.as_value()
        if actual.error is not None:
            expected = self.source if value is None else value.source
            lookups = tuple(self.lookups(work))
            return iter([Difference((), "different", expected=expected, found=actual.error, lookups=lookups)])
        if value is not None:
            return differences(value, actual.decoded(work), work, partly=partly)
        return differences(LiteralValue(self.source or ""), actual.value, work)

    def parts(self) -> Iterable[Expected]:
        """The criterion."""
        return (self._criterion,)

    def rewritten(self, rewrite: Callable[[Expected], Expected]) -> "ExpectedOutput":
        """The same output, its criterion rewritten."""
        return ExpectedOutput(self.source, rewrite(self._criterion))

    def decoded(self) -> Expected:
        """The criterion for the value that the expected text is the JSON of, else the criterion itself."""
        return self._value or self._criterion

    def as_value(self) -> Expected | None:
        """The criterion for the decoded output; None when a text is expected that is no container's JSON."""
        if self._value is not None or isinstance(self.source, str | None):
            return self._value
        return self._criterion


def _of_output(answer: Tri) -> Tri:
    """`answer`, which is unknown because of the output that was compared, not because of arguments."""
    if answer is True or answer is False or answer.source or answer.part == "final_answer":
        return answer
    return answer._replace(part="output")


Output: TypeAlias = Annotated[
    ExpectedOutput,
    compiled_by(lambda value, matchers: ExpectedOutput(value, compile_value(value, matchers=matchers))),
    as_written,
    WithJsonSchema({}),
]
