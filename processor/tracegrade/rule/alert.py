"""The ``alert`` of a rule: when people are notified, in addition to the stored results."""

from collections.abc import Iterator, Sequence
from typing import Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import InitErrorDetails

from tracegrade.document.duration import duration_text
from tracegrade.document.file_model import Duration, FileModel
from tracegrade.model.evaluation import MEASURES
from tracegrade.rule.alert_forms import Coverage, Drop, Rise, Slo
from tracegrade.rule.mistakes import mistake, refuse, refuse_what_went
from tracegrade.rule.watched import PASS_RATE, SCORE, SHARES, UNJUDGED, watched_evaluation

AlertKind: TypeAlias = Literal["below", "above", "drop", "rise", "coverage", "silent", "slo"]

_DAY_S = 86_400.0
_LEAST_EVIDENCE_S = 7 * _DAY_S

_WENT = {
    "confidence": "is no longer a field: 'false_alarm_every: 30d' says how seldom an alert may be wrong",
    "sustained": "is no longer a field: 'false_alarm_every: 30d' says how seldom an alert may be wrong",
}

FORMS: tuple[AlertKind, ...] = ("below", "above", "drop", "rise", "coverage", "slo")
"""The fields of which exactly one says what an alert looks for."""

_ONLY_OF_TESTS = {
    "false_alarm_every": "{} is counted, so chance cannot make it wrong; remove 'false_alarm_every'",
    "over": "{} says itself over how long it counts; remove 'over'",
}


class Alert(FileModel):
    """One condition; exactly one of `FORMS` says which."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [form]} for form in FORMS]})

    below: float | None = Field(default=None, gt=0, le=1, description="Fires when what is watched falls below this.")
    above: float | None = Field(
        default=None,
        gt=0,
        description=(
            "Fires when a share, of not_evaluable or error, rises above this, or the mean of tokens, cost (in the "
            "currency of traces.prices) or duration (in seconds)."
        ),
    )
    drop: Drop | None = Field(default=None, description="Fires when what is watched falls against a baseline.")
    rise: Rise | None = Field(
        default=None, description="Fires when the mean of tokens, cost or duration rises against a baseline."
    )
    coverage: Coverage | None = Field(
        default=None, description="Fires when results, or those that can be judged, become rare."
    )
    slo: Slo | None = Field(default=None, description="Fires when the error budget of an objective is spent too fast.")
    of: str = Field(
        default=PASS_RATE,
        description=(
            "What is watched: pass_rate, not_evaluable or error of the rule; NAME for the pass rate of one evaluation, "
            "NAME.score for its mean score; tokens, cost or duration of what is judged."
        ),
    )
    over: Duration = Field(
        default=86_400.0,
        gt=0,
        description="How much of the past the value that is shown is of; evidence counts longer.",
    )
    min_samples: int = Field(
        default=30, ge=1, description="Fewer results since the last alert, or in the history, never fire."
    )
    false_alarm_every: Duration = Field(
        default=30 * _DAY_S,
        ge=_DAY_S,
        description="At most one false alarm in this time, over all series and alerts of the rule together.",
    )
    resolve_at: float | None = Field(
        default=None, ge=0, description="What is watched must come back to this; the bound itself unless set."
    )

    @model_validator(mode="before")
    @classmethod
    def _without_what_went(cls, value: object) -> object:
        return refuse_what_went(value, _WENT)

    @property
    def kind(self) -> AlertKind:
        """The kind of alert."""
        form = next(form for form in FORMS if getattr(self, form) is not None)
        return "silent" if self.silent_s is not None else form

    @property
    def silent_s(self) -> float | None:
        """For how many seconds nothing must come for it to fire; None unless it looks for silence."""
        return self.coverage.silent if self.coverage is not None else None

    @property
    def is_counted(self) -> bool:
        """Whether it is decided by counting alone: chance is not weighed, and no false alarms are promised."""
        return self.silent_s is not None or self.slo is not None

    @property
    def is_of_all_releases(self) -> bool:
        """Whether it is about all releases of an agent together, and never about one of them."""
        return self.coverage is not None or self.slo is not None

    @property
    def needs_history(self) -> bool:
        """Whether it is measured against earlier results, and not against what the rule states."""
        if self.coverage is not None:
            return self.coverage.against is not None
        return self.rise is not None or (self.drop is not None and self.drop.against.history is not None)

    @property
    def evidence_s(self) -> float:
        """The time in which results count as evidence, in seconds: at low volume a fall takes days to be seen."""
        against = None
        if self.drop is not None:
            against = self.drop.against.history
        elif (form := self.rise or self.coverage) is not None:
            against = form.against
        return max(self.over, against or _LEAST_EVIDENCE_S)

    @property
    def history_s(self) -> float:
        """How far back it looks, in seconds: evidence, the history before it, and of a fall the time before that."""
        return (2 if self.drop is None or self.drop.against.history is None else 4) * self.evidence_s

    @property
    def identity(self) -> tuple[object, ...]:
        """The fields that make it another alert when they are edited; how soon and how surely it fires does not."""
        if self.slo is not None:
            return self.kind, self.of, self.slo.objective, self.slo.window
        drop = self.drop and (self.drop.against.share, self.drop.against.history, self.drop.by)
        coverage = self.coverage and (self.silent_s or (self.coverage.against, self.coverage.falls_to))
        rise = (self.rise.against, self.rise.by) if self.rise is not None else None
        identity = (self.kind, self.of, self.below, self.above, drop, coverage, self.over)
        return identity if rise is None else (*identity, rise)

    @property
    def evaluation(self) -> str:
        """The evaluation whose outcomes are watched, "" for those of the rule as a whole."""
        return watched_evaluation(self.of)

    @property
    def is_of_score(self) -> bool:
        """Whether a mean score is watched."""
        return self.of.endswith(SCORE)

    @property
    def is_of_values(self) -> bool:
        """Whether the mean of tokens, costs or durations is watched."""
        return self.of in MEASURES

    @property
    def says(self) -> str:
        """The condition in words."""
        if self.silent_s is not None:
            return f"no results for {duration_text(self.silent_s)} where {self.min_samples} or more came in 7d"
        if self.slo is not None:
            budget = f"error budget of {100 * (1 - self.slo.objective):.4g}% over {duration_text(self.slo.window)}"
            return f"the {budget} of {self.of} is spent too fast, from {self.min_samples} results on"
        promise = f"at most one false alarm in {duration_text(self.false_alarm_every)}"
        over = f"from {self.min_samples} results on, {promise}"
        if self.below is not None:
            return f"{self.of} below {self.below:g}, {over}"
        if self.above is not None:
            mean, unit = "mean " if self.is_of_values else "", " s" if self.of == "duration" else ""
            return f"{mean}{self.of} above {self.above:,.15g}{unit}, {over}"
        if self.drop is not None:
            against = self.drop.against
            what = (
                f"{against.share:g}"
                if against.share is not None
                else f"the {duration_text(against.history or 0)} before"
            )
            return f"{self.of} falls by {self.drop.by:g} or more against {what}, {over}"
        if self.rise is not None:
            before = f"the {duration_text(self.rise.against)} before"
            return f"mean {self.of} rises by {100 * self.rise.by:.3g} % or more against {before}, {over}"
        assert self.coverage is not None
        usual = f"the {duration_text(self.coverage.against or 0)} before"
        return f"results fall to {self.coverage.falls_to:g} of what was usual in {usual}, {over}"

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        given = [form for form in FORMS if getattr(self, form) is not None]
        mistakes = []
        if len(given) != 1:
            mistakes.append(mistake(f"expected one of {', '.join(FORMS)}, found {' and '.join(given) or 'none'}"))
        if self.of.removesuffix(SCORE) in SHARES and self.is_of_score:
            mistakes.append(mistake(f"a rule has no score; name an evaluation, found {self.of!r}", "of"))
        if given == ["above"] and self.of not in (*UNJUDGED, *MEASURES):
            expected = ", ".join((*UNJUDGED, *MEASURES))
            mistakes.append(mistake(f"above watches one of {expected}, found {self.of!r}", "of"))
        if given != ["above"] and self.of in UNJUDGED:
            mistakes.append(mistake(f"a share of {self.of!r} is watched by 'above'", "of"))
        if given == ["slo"] and self.is_of_score:
            mistakes.append(mistake(f"an objective is for the share of passes; remove {SCORE!r} of {self.of!r}", "of"))
        mistakes += self._mistakes_of_values(given)
        if given == ["coverage"] and self.of != PASS_RATE:
            mistakes.append(mistake("coverage watches the rule's results; remove 'of'", "of"))
        if self.resolve_at is not None and (problem := self._resolves_wrongly()):
            mistakes.append(mistake(problem, "resolve_at"))
        if len(given) == 1 and self.is_counted:
            found = [(name, why) for name, why in _ONLY_OF_TESTS.items() if name in self.model_fields_set]
            mistakes += [mistake(why.format(self.kind), name) for name, why in found]
        if mistakes:
            raise refuse(mistakes)
        return self

    def _mistakes_of_values(self, given: Sequence[str]) -> Iterator[InitErrorDetails]:
        if given == ["rise"] and not self.is_of_values:
            yield mistake(f"rise watches one of {', '.join(MEASURES)}, found {self.of!r}", "of")
        if given in (["below"], ["drop"], ["slo"]) and self.is_of_values:
            yield mistake(f"{self.of!r} is watched by 'above' and 'rise', found {given[0]!r}", "of")
        if not self.is_of_values:
            for name, most in (("above", "expected a share below 1"), ("resolve_at", "expected a share up to 1")):
                value = getattr(self, name)
                if value is not None and (value > 1 or (name == "above" and value == 1)):
                    yield mistake(f"{most}, found {value:g}", name)

    def _resolves_wrongly(self) -> str | None:
        if self.below is not None and self.resolve_at is not None and self.resolve_at < self.below:
            return f"expected at least the bound {self.below:g}, found {self.resolve_at:g}"
        if self.above is not None and self.resolve_at is not None and self.resolve_at > self.above:
            return f"expected at most the bound {self.above:g}, found {self.resolve_at:g}"
        return None if self.below is not None or self.above is not None else "only below and above have a bound"
