"""Clauses: what of a subject a rule asks for, or excludes by."""

from collections.abc import Iterator, Set
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field

from tracegrade.cel.expression import Cel
from tracegrade.document.file_model import FileModel
from tracegrade.rule.patterns import AttributeValues, Names, Patterns, Prompts, Tenants


class Clauses(FileModel):
    """Conditions on a subject; all must hold, and a list means any of its items."""

    tenant: Tenants = Field(
        default=None,
        description="Whose trace it is, by name. A rule that names tenants in match is theirs: others do not see it.",
    )
    service: Names = Field(default=None, description="service.name of the subject's resource.")
    environment: Names = Field(
        default=None, description="deployment.environment.name, else deployment.environment, of the resource."
    )
    release: Names = Field(default=None, description="service.version of the resource.")
    agent: Names = Field(
        default=None, description="The agent's name; of a trace, or of a session's first, its outermost agent's."
    )
    tools: Names = Field(
        default=None, description="At least one of these was called; with scope tool-call: the calls judged."
    )
    prompt: Prompts = Field(
        default=None,
        description="The run's prompt: exact text, except for white space, or {$regex: ...}; never a glob.",
    )
    attributes: dict[str, AttributeValues] = Field(
        default={},
        description="Attributes of the subject's span; else of the span of the run that made the call; else of the "
        "trace's root span; else of the resource. gen_ai.agent.id tells apart agents that share a name.",
    )
    cel: Cel = Field(default=None, description="An expression of the Common Expression Language that must be true.")

    @property
    def attributes_read(self) -> Set[str]:
        """The attributes that the clauses read."""
        return self.attributes.keys() | (self.cel.attributes if self.cel is not None else frozenset())

    def named(self) -> Iterator[tuple[str, Patterns]]:
        """Every clause but ``cel``, cheapest to check first, under the name by which decisions call it."""
        for name in ("tenant", "service", "environment", "release", "agent", "tools"):
            if (patterns := getattr(self, name)) is not None:
                yield name, patterns
        for name, patterns in self.attributes.items():
            yield f"attributes.{name}", patterns
        if self.prompt is not None:
            yield "prompt", self.prompt


def _present(value: object) -> object:
    if value is None:
        raise ValueError("expected a value, found nothing; remove the clause or fill it")
    return value


def _refuse_no_clauses(unless: Clauses) -> Clauses:
    if not any(unless.named()) and unless.cel is None:
        raise ValueError("expected at least one clause; without any, it would exclude everything")
    return unless


UnlessClauses: TypeAlias = Annotated[Clauses | None, BeforeValidator(_present), AfterValidator(_refuse_no_clauses)]
