"""What evaluators take and give: what happened to one subject, and a score with its justification."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from tracegrade.model.evaluation import Outcome, Pairing
from tracegrade.model.extraction import UnreadWork
from tracegrade.model.handoff import Handoff
from tracegrade.model.json_value import JsonValue
from tracegrade.model.range import Range, reaches
from tracegrade.model.tool_call import CallPart as CallPart
from tracegrade.model.tool_call import ToolCall
from tracegrade.model.usage import Cost

if TYPE_CHECKING:
    from tracegrade.cel.calls import Extent
    from tracegrade.cel.expression import CelExpression

Justification: TypeAlias = tuple[dict[str, JsonValue], str]
Fact = TypeVar("Fact")


class TraceContext(Protocol):
    """What a trace says of a subject beside its calls; computed when first asked for, since few evaluators ask."""

    def tool_definitions(self) -> Mapping[str, JsonValue]:
        """The tools declared to the model: name to the JSON Schema of its arguments."""

    def agents(self) -> Collection[str]:
        """The names of the agents that ran."""

    def handoffs(self) -> Sequence[Handoff]:
        """The handoffs by which agents passed tasks on, in order of time; of a run those that it made."""

    def duration_ns(self) -> int | None:
        """From the start of the subject to its end, ns; None without times."""

    def tokens(self) -> int | None:
        """The tokens that model calls took, in and out; None when none were recorded."""

    def cost(self) -> Cost:
        """What those model calls cost."""

    def unread_before(self, call: ToolCall | None) -> UnreadWork | None:
        """The first work that started no later than `call` and that could not be read, if any."""

    def agent_that_called(self, tool: str, before: ToolCall) -> str | None:
        """The agent ("": unnamed) of another run of the trace that called `tool` before `before`; None without one."""


class SubjectFacts(Protocol):
    """What matching read of the subject: the variables of expressions."""

    def variables(self, *, with_values: bool) -> Mapping[str, Callable[[], JsonValue]]:
        """Each variable, computed when it is called; `with_values`: what calls were given and returned, too."""

    def extent(self, expression: "CelExpression") -> "Extent":
        """How much an expression can read."""


@dataclass(slots=True, eq=False)
class Evidence:
    """What happened: the calls in their total order, and the run's prompt and final answer (None: not readable).

    The final answer of a trace is a text; by hand, any JSON value. ``whole_run`` is the evidence of the run, where only
    some calls of it are judged. One evidence serves all evaluations of a subject: what follows from it is
    worked out `once` for all of them, and it is never changed. ``facts`` are None where a judgement is made by hand.
    ``redacted``: something of its trace was redacted by us. ``as_given``: nothing is unknown, since it was given by
    hand. ``after`` is the call of the run that those which are judged follow, None where all are judged.
    """

    calls: Sequence[ToolCall]
    prompt: str | None = None
    final_answer: JsonValue = None
    trace_context: TraceContext | None = None
    whole_run: "Evidence | None" = None
    facts: SubjectFacts | None = None
    after: ToolCall | None = None
    _: KW_ONLY
    redacted: bool = False
    as_given: bool = False
    _known: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def of_calls(self, calls: Sequence[ToolCall], after: ToolCall) -> "Evidence":
        """The same of the calls that follow `after`; their values may still come from all others."""
        return replace(self, calls=calls, whole_run=self.run, after=after)

    @property
    def run(self) -> "Evidence":
        """The evidence of the whole run."""
        return self if self.whole_run is None else self.whole_run

    def once(self, work_out: "Callable[[Evidence], Fact]") -> "Fact":
        """What `work_out` says of this evidence; asked once, so only what is never changed afterwards."""
        fact: Fact | None = self._known.get(work_out)
        if fact is None:
            fact = self._known[work_out] = work_out(self)
        return fact


class Score:
    """What an evaluator says.

    ``score`` is within 0..1, or None: there was nothing to score, and ``explanation`` says why. ``details`` is the
    justification, with values, bounded in size. ``explanation`` is one sentence that names tools and paths, never
    values.

    Either both are given, or ``justify``, which gives both when one is read: writing them often takes longer than
    judging. It must not raise. Several subjects may share a score, so its details must not be changed.

    ``range`` has the least and the most that the score can be, where something unknown makes a difference; a score
    without it is a range of one point.

    ``pairing`` says which call was counted as which of the `Evaluator.expected_calls`; None where there are none.
    """

    __slots__ = ("_details", "_explanation", "_justify", "pairing", "range", "score")

    def __init__(
        self,
        score: float | None,
        details: dict[str, JsonValue] | None = None,
        explanation: str = "",
        *,
        justify: Callable[[], Justification] | None = None,
        range: Range | None = None,
        pairing: Pairing | None = None,
    ) -> None:
        self.score = score
        self.range = range
        self.pairing = pairing
        self._details: dict[str, JsonValue] = {} if details is None else details
        self._explanation = explanation
        self._justify = justify

    def outcome(self, threshold: float) -> Outcome:
        """Pass from `threshold` on, else fail; not_evaluable without a score, or where it may be on either side."""
        if self.score is None:
            return "not_evaluable"
        if self.range is not None:
            return self.range.outcome(threshold)
        return "pass" if reaches(self.score, threshold) else "fail"

    @property
    def ends(self) -> Range:
        """The least and the most that the score can be; there must be a score, or a range."""
        if self.range is not None:
            return self.range
        assert self.score is not None, "nothing was scored"
        return Range(self.score, self.score)

    def with_range(self, range: Range) -> "Score":
        """The same score with other ends."""
        return Score(self.score, justify=lambda: (self.details, self.explanation), range=range, pairing=self.pairing)

    @property
    def details(self) -> dict[str, JsonValue]:
        """The justification as JSON."""
        if self._justify is not None:
            self._write()
        return self._details

    @property
    def explanation(self) -> str:
        """The justification in one sentence."""
        if self._justify is not None:
            self._write()
        return self._explanation

    def _write(self) -> None:
        if self._justify is not None:
            self._details, self._explanation = self._justify()
            self._justify = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Score):
            return NotImplemented
        return (self.score, self.details, self.explanation) == (other.score, other.details, other.explanation)

    __hash__ = None  # type: ignore[assignment]  # as of all that compares by what it holds and can change

    def __repr__(self) -> str:
        return f"Score({self.score!r}, {self.details!r}, {self.explanation!r})"
