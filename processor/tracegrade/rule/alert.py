"""The ``alert`` of a rule: when people are notified, in addition to the stored results."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.rule.mistakes import mistake, refuse

AlertKind: TypeAlias = Literal["below", "above", "drop", "coverage"]

KINDS: tuple[AlertKind, ...] = ("below", "above", "drop", "coverage")

PASS_RATE = "pass_rate"
"""What an alert watches unless it names something else."""

UNJUDGED = ("not_evaluable", "error")
"""Outcomes whose share among all results an alert may watch."""

SHARES = (PASS_RATE, *UNJUDGED)
"""What an alert may watch of a rule as a whole."""

SCORE = ".score"
"""Ends the name of an evaluation whose mean score is watched."""


def watched_evaluation(of: str) -> str:
    """The name of the evaluation whose outcomes an alert on `of` watches; "" for those of the whole rule."""
    evaluation = of.removesuffix(SCORE)
    return "" if evaluation in SHARES else evaluation


def _share_or_history(value: object) -> object:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 < value <= 1:
            raise ValueError(f"expected a share between 0 and 1, or a duration such as 7d, found {value!r}")
        return {"share": value}
    return {"history": value} if isinstance(value, str) else value


class Baseline(FileModel):
    """What is compared with: a stated share, or the stored history before the window."""

    share: float | None = Field(default=None, gt=0, le=1, description="A stated share or mean score.")
    history: Duration | None = Field(default=None, gt=0, description="So long before the window, of any release.")


class Drop(FileModel):
    """A fall against a baseline."""

    against: Annotated[
        Baseline,
        BeforeValidator(
            _share_or_history,
            json_schema_input_type=Annotated[str, Field(examples=["7d"])] | Annotated[float, Field(gt=0, le=1)],
        ),
    ] = Field(description="A stated share (0.95), or how much stored history before the window (7d).")
    by: float = Field(default=0.1, gt=0, lt=1, description="The smallest fall that matters; larger ones are found too.")
    false_alarm_every: int = Field(
        default=10_000, ge=100, description="At most one false alarm in this many results, over all series together."
    )


class Coverage(FileModel):
    """Evaluations that stopped coming, or came without the tool content that they read."""

    against: Duration = Field(gt=0, description="How much stored history before the window is compared with.")
    falls_to: float = Field(
        default=0.5, gt=0, lt=1, description="Fires when less than this part is left of what was usual."
    )


class Alert(FileModel):
    """One condition; exactly one of `below`, `above`, `drop` and `coverage` says which."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [kind]} for kind in KINDS]})

    below: float | None = Field(default=None, gt=0, le=1, description="Fires when what is watched falls below this.")
    above: float | None = Field(
        default=None, gt=0, lt=1, description="Fires when a share, of not_evaluable or error, rises above this."
    )
    drop: Drop | None = Field(default=None, description="Fires when what is watched falls against a baseline.")
    coverage: Coverage | None = Field(
        default=None, description="Fires when results, or those that can be judged, become rare."
    )
    of: str = Field(
        default=PASS_RATE,
        description=(
            "What is watched: pass_rate, not_evaluable or error of the rule; NAME for the pass rate of one evaluation, "
            "NAME.score for its mean score."
        ),
    )
    over: Duration = Field(default=86_400.0, gt=0, description="The window, up to now.")
    min_samples: int = Field(
        default=30, ge=1, description="Fewer results in the window, or in the history, never fire."
    )
    confidence: float = Field(
        default=0.99,
        ge=0.5,
        lt=1,
        description="How sure it must be to fire, over all series together; drop has its own.",
    )
    resolve_at: float | None = Field(
        default=None, ge=0, le=1, description="What is watched must come back to this; the bound itself unless set."
    )
    sustained: Duration = Field(default=0.0, ge=0, description="Pending until the condition has held for so long.")

    @property
    def kind(self) -> AlertKind:
        """Which of the four it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def evaluation(self) -> str:
        """The evaluation whose outcomes are watched, "" for those of the rule as a whole."""
        return watched_evaluation(self.of)

    @property
    def is_of_score(self) -> bool:
        """Whether a mean score is watched."""
        return self.of.endswith(SCORE)

    @property
    def says(self) -> str:
        """The condition in words."""
        over = f"over {duration_text(self.over)}, from {self.min_samples} results on"
        if self.below is not None:
            return f"{self.of} below {self.below:g} {over}"
        if self.above is not None:
            return f"{self.of} above {self.above:g} {over}"
        if self.drop is not None:
            against = self.drop.against
            what = (
                f"{against.share:g}"
                if against.share is not None
                else f"the {duration_text(against.history or 0)} before"
            )
            return f"{self.of} falls by {self.drop.by:g} or more against {what}, {over}"
        assert self.coverage is not None
        usual = f"the {duration_text(self.coverage.against)} before"
        return f"results fall to {self.coverage.falls_to:g} of what was usual in {usual}, {over}"

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        given = [kind for kind in KINDS if getattr(self, kind) is not None]
        mistakes = []
        if len(given) != 1:
            mistakes.append(mistake(f"expected one of {', '.join(KINDS)}, found {' and '.join(given) or 'none'}"))
        if self.of.removesuffix(SCORE) in SHARES and self.is_of_score:
            mistakes.append(mistake(f"a rule has no score; name an evaluation, found {self.of!r}", "of"))
        if given == ["above"] and self.of not in UNJUDGED:
            mistakes.append(mistake(f"above watches one of {', '.join(UNJUDGED)}, found {self.of!r}", "of"))
        if given != ["above"] and self.of in UNJUDGED:
            mistakes.append(mistake(f"a share of {self.of!r} is watched by 'above'", "of"))
        if given == ["coverage"] and self.of != PASS_RATE:
            mistakes.append(mistake("coverage watches the rule's results; remove 'of'", "of"))
        if self.resolve_at is not None and (problem := self._resolves_wrongly()):
            mistakes.append(mistake(problem, "resolve_at"))
        if mistakes:
            raise refuse(mistakes)
        return self

    def _resolves_wrongly(self) -> str | None:
        if self.below is not None and self.resolve_at is not None and self.resolve_at < self.below:
            return f"expected at least the bound {self.below:g}, found {self.resolve_at:g}"
        if self.above is not None and self.resolve_at is not None and self.resolve_at > self.above:
            return f"expected at most the bound {self.above:g}, found {self.resolve_at:g}"
        return None if self.below is not None or self.above is not None else "only below and above have a bound"
