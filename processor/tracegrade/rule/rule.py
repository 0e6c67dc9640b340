"""The shape of a rule file: what to judge, by which evaluators, and when to say so.

A rule is frozen data. What is wrong in a file is refused while it is read.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from tracegrade.document.file_model import FileModel
from tracegrade.document.problem import Location
from tracegrade.evaluate import registry
from tracegrade.evaluate.constraints.sides import SideTable, conditions_of
from tracegrade.model.evaluation import MEASURES, Measure
from tracegrade.model.json_value import JsonValue
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.rule.alert import Alert
from tracegrade.rule.case import CaseList
from tracegrade.rule.clauses import Clauses, UnlessClauses
from tracegrade.rule.evaluation_spec import EvaluationItem, EvaluationSpec
from tracegrade.rule.fail_sentence import mistakes_in
from tracegrade.rule.gate import Gate
from tracegrade.rule.identity import content_hash, judgement
from tracegrade.rule.mistakes import mistake, mistakes_of, refuse
from tracegrade.rule.patterns import Patterns
from tracegrade.rule.sampling import Sample, Sampled
from tracegrade.rule.watched import SHARES
from tracegrade.rule.when import When

Status: TypeAlias = Literal["experimental", "stable", "deprecated"]
Level: TypeAlias = Literal["info", "low", "medium", "high", "critical"]
TraceScope: TypeAlias = Literal["agent", "trace", "tool-call"]
RuleScope: TypeAlias = Literal["agent", "trace", "tool-call", "session"]

SCOPES: tuple[RuleScope, ...] = ("agent", "trace", "tool-call", "session")
"""In the order in which subjects are judged."""


def _refuse_unknown_causes(causes: list[str]) -> list[str]:
    for position, cause in enumerate(causes):
        if cause.strip().casefold() in {"", "unknown", "none", "n/a"}:
            raise refuse([mistake(f"expected a situation, found {cause!r}; leave the list out instead", position)])
    return causes


# What a suite's cases are judged by: their score is an overall one.
_OVERALL = ("tool-case", "multi-turn")

_NOTHING_JUDGED = "key 'evaluate' is missing"
_THEN = "expected 'then' beside it: what is judged of the calls after that one"
_ID = re.compile("[a-z0-9]+(-[a-z0-9]+)*")


def _check_id(value: Any) -> Any:
    if isinstance(value, str) and not _ID.fullmatch(value):
        raise ValueError(f"expected lower-case words joined by '-', found {value[:120]!r}")
    return value


class Rule(FileModel):
    """One rule: which subjects it judges, how, and what to tell when they fail.

    An evaluation passes when its score reaches its threshold; the rule fails on a subject when any evaluation fails.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": ["evaluate"]}, {"required": ["cases"]}, {"required": ["then"]}],
            "dependentRequired": {"when": ["then"], "then": ["when"]},
        }
    )

    id: Annotated[str, BeforeValidator(_check_id)] = Field(
        pattern=f"^{_ID.pattern}$",
        max_length=100,
        description="Lower-case words joined by '-', unique; completes the sentence 'flags ...'.",
    )
    title: str = Field(default="", max_length=200, description="What is wrong when it fails, in one sentence.")
    description: str = Field(default="", description="What is judged, and why, for people who see a fail.")
    explain: str = Field(
        default="",
        max_length=300,
        description=(
            "What a fail says in place of the evaluator's explanation: '{arguments.amount} was refunded'. Braces name "
            "a part of the call that the fail is about; where values may not be seen, its name stands there."
        ),
    )
    status: Status = Field(default="stable", description="experimental rules never alert.")
    level: Level = Field(default="medium", description="How much a fail matters.")
    scope: RuleScope = Field(
        default="agent",
        description="What is judged as one: the calls of an agent run, of a trace, of a session, or one call.",
    )
    depth: int = Field(
        default=0,
        ge=0,
        le=100,
        description="How many levels of sub-agents are judged with an agent: with 1, the calls of those it started.",
    )
    match: Clauses = Field(default_factory=Clauses, description="What is judged; everything in scope when omitted.")
    unless: UnlessClauses = Field(default=None, description="Excludes a subject when all these clauses hold.")
    sample: Sampled = Field(
        default=Sample(), description="The share of traces that is judged; or {share, keep_failures}."
    )
    evaluate: list[EvaluationItem] = Field(
        default=[],
        min_length=1,
        description="How it is judged: an evaluator, then what it expects; all items must pass.",
    )
    when: When = Field(
        default=None,
        description="A call that has to be made for the rule to judge at all: a tool, or {tool, where}, or a list.",
    )
    then: list[EvaluationItem] = Field(
        default=[],
        min_length=1,
        description="As `evaluate`, of all calls after the first one that `when` means.",
    )
    cases: CaseList = Field(
        default=None, description="Further evaluations, each with an id and a match; a subject meets at most one."
    )
    alert: list[Alert] = Field(default=[], description="When people are notified, in addition to the stored results.")
    gate: Gate | None = Field(default=None, description="What its pass rate has to reach before a change goes out.")
    incomplete: Literal["count", "leave_out"] = Field(
        default="leave_out", description="Whether incomplete traces count in pass rates and alerts."
    )
    false_positives: Annotated[list[str], AfterValidator(_refuse_unknown_causes)] = Field(
        default=[], description="Situations in which a fail means nothing."
    )
    references: list[str] = Field(default=[], description="Where to read more.")
    tags: list[str] = Field(default=[], description="Words to find it by.")
    _written: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="wrap")
    @classmethod
    def _keep_as_written(cls, value: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        nothing = isinstance(value, dict) and value.keys().isdisjoint(("evaluate", "cases", "then"))
        missing = mistake(_THEN, "when") if nothing and "when" in value else mistake(_NOTHING_JUDGED)
        try:
            rule = read(value)
        except ValidationError as error:
            if nothing:
                raise refuse([*mistakes_of(error, cls), missing]) from None
            raise
        if nothing:
            raise refuse([missing])
        if isinstance(value, dict):
            rule._written = value
        return rule

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        mistakes = []
        if self.then and self.when is None:
            mistakes.append(mistake("expected 'when' beside it: after which call it is judged", "then"))
        if self.when is not None and not self.then:
            mistakes.append(mistake(_THEN, "when"))
        if self.depth and self.scope != "agent":
            mistakes.append(
                mistake(f"only scope: agent has sub-agents to add; leave it out with scope: {self.scope}", "depth")
            )
        if self.when is not None and self.scope == "tool-call":
            mistakes.append(mistake("nothing follows where one call is judged; write scope: agent", "when"))
        has_call = self.scope == "tool-call" or any(spec.evaluator.name == "constraints" for spec in self.specs)
        sentence = mistakes_in(self.explain, has_call=has_call, is_of_one=self.has_one_evaluator)
        mistakes += [mistake(message, "explain", written=written) for written, message in sentence]
        names: set[str] = {*SHARES, *MEASURES}
        for location, spec in self.placed_specs():
            if spec.name in names:
                mistakes.append(mistake(_name_taken(spec), *location, "name"))
            if spec.case is None:  # cases share names
                names.add(spec.name)
        names.update(spec.name for spec in self.specs)
        for position, alert in enumerate(self.alert):
            if self.scope == "tool-call" and alert.of in ("tokens", "cost"):
                why = f"a tool call has no {alert.of}, only model calls have; of a tool call 'duration' is known"
                mistakes.append(mistake(why, "alert", position, "of"))
            if alert.evaluation and alert.evaluation not in names:
                known = ", ".join(sorted(names))
                mistakes.append(
                    mistake(f"no evaluation {alert.of!r} here; expected one of {known}", "alert", position, "of")
                )
        if mistakes:
            raise refuse(mistakes)
        return self

    @property
    def specs(self) -> Sequence[EvaluationSpec]:
        """Everything that may be evaluated: of ``evaluate``, of ``then``, and of cases, which share names."""
        cases = () if self.cases is None else (case.spec for case in self.cases.all)
        return [*self.evaluate, *self.then, *cases]

    @property
    def has_one_evaluator(self) -> bool:
        """Whether a subject has one evaluation by it."""
        return len(self.evaluate) + len(self.then) + (self.cases is not None) == 1

    def placed_specs(self) -> Iterator[tuple[Location, EvaluationSpec]]:
        """The `specs`, each with its location in the file: ``("evaluate", 0)``."""
        cases = () if self.cases is None else (case.spec for case in self.cases.all)
        for key, specs in (("evaluate", self.evaluate), ("then", self.then), ("cases", cases)):
            for place, spec in enumerate(specs):
                yield (key, place), spec

    @cached_property
    def begins_after(self) -> SideTable | None:
        """The call that ``when`` names, compiled."""
        return SideTable(self.when) if self.when is not None else None

    @property
    def tenants(self) -> frozenset[str]:
        """Whose rule it is, by name; empty for a rule of all."""
        named = self.match.tenant
        return frozenset() if named is None else frozenset(map(str, named.exact))

    def is_of(self, tenant: str) -> bool:
        """Whether it is a rule of this tenant, or of all."""
        return not self.tenants or tenant in self.tenants

    @property
    def tried_as(self) -> str:
        """The tenant that it judges for, where traces do not say whose they are."""
        return DEFAULT_TENANT if self.is_of(DEFAULT_TENANT) else min(self.tenants)

    @property
    def is_suite(self) -> bool:
        """Whether it has cases alone, each with an overall score for its tool and parameters."""
        return not self.evaluate and not self.then and all(spec.evaluator.name in _OVERALL for spec in self.specs)

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """Measures of each subject that alerts watch, other than its outcome."""
        watched = {alert.of for alert in self.alert}
        return tuple(measure for measure in MEASURES if measure in watched)

    @property
    def packages(self) -> dict[str, JsonValue]:
        """The installed packages that its evaluators come from, with their versions; none for TraceGrade's own."""
        used = {spec.evaluator.name for spec in self.specs}
        return {package.name: package.version for name, package in registry.packages().items() if name in used}

    @property
    def files(self) -> dict[str, JsonValue]:
        """The files outside of its own that it is judged by, with what stands for their content."""
        parts = [part for spec in self.specs for part in (spec.criteria, spec.settings)]
        parts += () if self.when is None else conditions_of(self.when)
        model = next((part.meaning for part in parts if part.meaning is not None), None)
        return self.code | ({} if model is None else {"semantic_model": model.version})

    @property
    def code(self) -> dict[str, JsonValue]:
        """The files beside its own that hold its evaluators, by their paths from there, with the hash of each."""
        return {spec.file.written: spec.file.digest for spec in self.specs if spec.file is not None}

    @property
    def judgement(self) -> dict[str, Any]:
        """What of it can change a judgement, as JSON in one form however the file is written: see `identity`."""
        return judgement(
            id=self.id,
            scope=self.scope,
            depth=self.depth,
            match=self.match,
            unless=self.unless,
            evaluate=self.evaluate,
            when=self._written.get("when"),
            then=self.then,
            cases=self.cases.all if self.cases is not None else (),
            packages=self.packages,
            files=self.files,
        )

    @cached_property  # every result carries it, and a private attribute of a model is slow to read
    def hash(self) -> str:
        """16 hex digits over what can change a judgement, see `identity`: results and histories carry them.

        The versions of the packages and files that it uses are part of it, since results depend on them.
        """
        return content_hash(self.judgement)

    @cached_property
    def text_hash(self) -> str:
        """16 hex digits over all that the file says, and what it takes its evaluators from; comments are no part."""
        used = {name: found for name, found in (("packages", self.packages), ("code", self.code)) if found}
        # Without them the file alone: it hashes the same wherever it is read.
        return content_hash({"rule": self._written, **used} if used else self._written)

    @property
    def written(self) -> dict[str, Any]:
        """The rule as it stands in its file."""
        return self._written

    @cached_property
    def match_clauses(self) -> tuple[tuple[str, Patterns], ...]:
        """The clauses that must hold, by name."""
        return tuple(self.match.named())

    @cached_property
    def unless_clauses(self) -> tuple[tuple[str, Patterns], ...]:
        """The clauses that exclude a subject when all hold, by name; empty for none."""
        return tuple(self.unless.named()) if self.unless is not None else ()


def _name_taken(spec: EvaluationSpec) -> str:
    if spec.name in SHARES:
        return f"the name {spec.name!r} is the name of the whole rule; choose another"
    if spec.name in MEASURES:
        return f"the name {spec.name!r} is what alerts call what runs use; choose another"
    return f"two evaluations are called {spec.name!r}; give each a 'name' of its own"
