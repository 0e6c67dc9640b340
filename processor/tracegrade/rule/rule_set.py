"""The rules in force, and what may be said of them together."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from tracegrade.document.document import Document
from tracegrade.document.problem import Location, Problem
from tracegrade.model.short_hash import short_hash
from tracegrade.model.tenant import DEFAULT_TENANT
from tracegrade.rule.rule import Rule
from tracegrade.semconv import ALWAYS_READ

Fact = TypeVar("Fact")


class RuleSet:
    """Rules in order of id.

    ``hash`` (16 hex digits) changes with any rule's text, ``judgement_hash`` only with what they judge.
    ``attributes_read`` names the span and resource attributes that are read of a trace, by rules or always.
    ``documents`` are the files from which rules came, by rule id, and ``paths`` their paths; none for rules built in
    code. ``warnings`` is what looks wrong in those files. ``scopes`` are those that a rule has. What follows from the
    rules is worked out `once` for all traces.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        documents: Mapping[str, Document] | None = None,
        warnings: Sequence[Problem] = (),
    ) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: rule.id))
        self.documents = dict(documents or {})
        self.paths = {rule_id: document.path for rule_id, document in self.documents.items()}
        self.warnings = warnings
        self.hash = _hash_of((rule.id, rule.text_hash) for rule in self.rules)
        self.judgement_hash = _hash_of((rule.id, rule.hash) for rule in self.rules)
        clauses = [part for rule in self.rules for part in (rule.match, rule.unless) if part is not None]
        cases = [rule.cases for rule in self.rules if rule.cases is not None]
        specs = [spec for rule in self.rules for spec in rule.specs]
        # Many cases have one evaluator; those of two files may have one name.
        evaluators = {id(spec.evaluator): spec.evaluator for spec in specs}
        self.attributes_read = ALWAYS_READ.union(
            *(part.attributes_read for part in clauses),
            *(found.attributes_read for found in cases),
            *(evaluator.attributes for evaluator in evaluators.values()),
            *(spec.evaluator.attributes_of(spec.criteria) for spec in specs),
        )
        self.scopes = frozenset(rule.scope for rule in self.rules)
        self._known: dict[Any, Any] = {}

    def rule(self, rule_id: str) -> Rule | None:
        """The rule of that id, if there is one."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)

    def only(self, rule_ids: Collection[str] | None) -> "RuleSet":
        """These rules without those that have another id; None leaves out none."""
        if rule_ids is None:
            return self
        return RuleSet([rule for rule in self.rules if rule.id in rule_ids], self.documents, self.warnings)

    def seen_by(self, tenant: str | None) -> "RuleSet":
        """The rules without those of other tenants; with the hashes of all, which traces carry. None sees all."""
        if tenant is None or all(rule.is_of(tenant) for rule in self.rules):
            return self
        found = self.only({rule.id for rule in self.rules if rule.is_of(tenant)})
        found.hash, found.judgement_hash = self.hash, self.judgement_hash
        return found

    def placed(self, look: Callable[[Rule], Iterable[tuple[Location, str]]]) -> list[Problem]:
        """What `look` says of the parts of each rule, as problems of its file, in the order of files and lines.

        Nothing is asked of rules that came from no file.
        """
        by_id = {rule.id: rule for rule in self.rules}
        return [
            problem
            for rule_id, document in self.documents.items()
            if rule_id in by_id
            for problem in sorted({document.problem(place, message) for place, message in look(by_id[rule_id])})
        ]

    @property
    def tried_as(self) -> str:
        """The tenant that all of them judge for, where traces do not say whose they are."""
        found = {rule.tried_as for rule in self.rules}
        return found.pop() if len(found) == 1 else DEFAULT_TENANT

    def once(self, work_out: Callable[["RuleSet"], Fact]) -> Fact:
        """What `work_out` says of these rules; asked once."""
        fact: Fact | None = self._known.get(work_out)
        if fact is None:
            fact = self._known[work_out] = work_out(self)
        return fact

    def __len__(self) -> int:
        return len(self.rules)


def _hash_of(names: Iterable[tuple[str, str]]) -> str:
    text = "\n".join(f"{rule_id} {rule_hash}" for rule_id, rule_hash in names)
    return short_hash(text.encode())
