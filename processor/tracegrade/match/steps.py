"""The steps of a rule on a subject: every clause with what was found, for people who try a rule."""

from collections.abc import Iterator
from dataclasses import dataclass

from tracegrade.evaluate.constraints.sides import rule_of
from tracegrade.evaluate.following import begin
from tracegrade.evaluate.not_evaluable_reasons import sentence
from tracegrade.match.facts import FactReader, Facts, session_facts
from tracegrade.match.select import explain, explain_session, session_subject, subjects_of
from tracegrade.model.extraction import Extraction
from tracegrade.model.json_value import JsonValue
from tracegrade.model.session import Session
from tracegrade.model.subject import Subject
from tracegrade.model.tri import Tri, Unknown
from tracegrade.rule.clauses import Clauses
from tracegrade.rule.rule import Rule


@dataclass(frozen=True, slots=True)
class Step:
    """One clause: its name, as in the file; what it asks for; what was found, and whether it holds.

    Of ``unless``, holding excludes the subject.
    """

    clause: str
    asks: JsonValue
    found: JsonValue
    holds: Tri

    @property
    def unknown(self) -> str:
        """Why it is unknown whether it holds, "" where it is known."""
        return sentence(self.holds) if isinstance(self.holds, Unknown) else ""


@dataclass(frozen=True, slots=True)
class Matching:
    """A subject and the steps of a rule over it; ``clause`` and ``not_evaluable`` as in `select.Explanation`."""

    subject: Subject
    steps: list[Step]
    clause: str | None
    not_evaluable: str | None


def matching(rule: Rule, extraction: Extraction) -> list[Matching]:
    """For every subject of the rule's scope in a trace; empty for a rule on sessions."""
    if rule.scope == "session":
        return []
    reader = FactReader(extraction)
    facts = [reader.read(subject) for subject in subjects_of(extraction, rule.scope, rule.depth)]
    return [
        Matching(one.subject, list(_steps(rule, one)), explained.clause, explained.not_evaluable)
        for one, explained in zip(facts, explain(rule, extraction), strict=True)
    ]


def matching_session(rule: Rule, session: Session) -> list[Matching]:
    """The same of a session; empty for a rule of another scope."""
    return [
        Matching(found.subject, list(_steps(rule, facts)), found.clause, found.not_evaluable)
        for found in explain_session(rule, session)
        for facts in [session_facts(session, session_subject(session))]
    ]


def _steps(rule: Rule, facts: Facts) -> Iterator[Step]:
    yield from _of_clauses(rule.match, facts, "")
    if rule.unless is not None:
        yield from _of_clauses(rule.unless, facts, "unless.")
    if rule.when is not None and rule.begins_after is not None:
        found = begin(facts.evidence, rule.begins_after)
        place = found.possible if found.certain is None else found.certain
        call = "no such call" if place is None else f"call {place + 1} ({facts.subject.calls[place].name})"
        yield Step("when", rule_of(rule.when), call, found.is_met)


def _of_clauses(clauses: Clauses, facts: Facts, prefix: str) -> Iterator[Step]:
    for name, patterns in clauses.named():
        yield Step(prefix + name, patterns.written, _found(name, facts), facts.match(name, patterns))
    if clauses.cel is not None:
        yield Step(f"{prefix}cel", clauses.cel.source, None, facts.holds(clauses.cel))


def _found(clause: str, facts: Facts) -> JsonValue:
    if clause == "tools":
        return [*facts.tools]
    if clause.startswith("attributes."):
        return facts.attribute(clause.removeprefix("attributes."))
    value: JsonValue = getattr(facts, clause)
    return value
