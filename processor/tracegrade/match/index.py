"""Finds the rules that may judge a subject without asking every rule.

Each rule is in the list of one clause: the one whose values the fewest rules ask for. A subject's values lead to those
lists; the rules found there are then checked in full. So the cost of a subject grows with the rules that share its
rarest value, not with the rules loaded.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tracegrade.evaluate.criteria.regular_expressions import glob_expression
from tracegrade.match.facts import Facts
from tracegrade.model.json_value import JsonValue
from tracegrade.rule.patterns import LONGEST_REMEMBERED, MEMO_SIZE, Patterns, Scalar, scalar_key
from tracegrade.rule.rule import SCOPES, Rule, RuleScope
from tracegrade.rule.rule_set import RuleSet

# A glob selects less well than a value: it is chosen only over values that more rules share than this.
_GLOB_WEIGHT = 16


class Index:
    """The rules of one scope, by the values that they ask for; ``depths`` are those that they have, ascending."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self.depths = sorted({rule.depth for rule in rules})
        self._always: list[int] = []
        self._clauses: dict[str, _Places] = {}
        self._attributes: dict[str, _Places] = {}
        shared = Counter(
            key for rule in rules for clause, patterns in _choices(rule) for key in _keys(clause, patterns)
        )
        for position, rule in enumerate(rules):
            self._file(position, rule, shared)

    def _file(self, position: int, rule: Rule, shared: Counter[tuple[str, Scalar]]) -> None:
        def rules_sharing(choice: tuple[str, Patterns]) -> int:
            clause, patterns = choice
            return sum(shared[key] for key in _keys(clause, patterns)) + _GLOB_WEIGHT * len(patterns.globs)

        choice = min(_choices(rule), key=rules_sharing, default=None)
        if choice is None:
            self._always.append(position)
            return
        clause, patterns = choice
        name = clause.removeprefix("attributes.")
        places = self._clauses if name == clause else self._attributes
        places.setdefault(name, _Places()).add(position, patterns)

    def candidates(self, facts: Facts) -> list[Rule]:
        """The rules that may match, each once, in the order given; no rule that matches is left out.

        A rule that asks for what cannot be read is also a candidate: its decision is then not_evaluable, not
        not_matched.
        """
        found = set(self._always)
        for clause, places in self._clauses.items():
            for value in _values(facts, clause):
                found.update(places.find(value))
            if facts.unknown(clause) is not None:
                found.update(places.everything())
        if not self._attributes:
            return [self._rules[position] for position in sorted(found)]
        # The intersection walks the shorter of the two: a subject has few attributes, even if rules ask for many.
        for name in set().union(*(place.keys() & self._attributes.keys() for place in facts.attributes)):
            places = self._attributes[name]
            is_known = facts.unknown(f"attributes.{name}") is None
            found.update(places.find(facts.attribute(name)) if is_known else places.everything())
        return [self._rules[position] for position in sorted(found)]


def indexes(rule_set: RuleSet) -> dict[RuleScope, Index]:
    """The index of each scope that a rule has, in order of `SCOPES`: for `RuleSet.once`."""
    by_scope = {scope: [rule for rule in rule_set.rules if rule.scope == scope] for scope in SCOPES}
    return {scope: Index(rules) for scope, rules in by_scope.items() if rules}


def _choices(rule: Rule) -> list[tuple[str, Patterns]]:
    """The clauses under which a rule can be found: those that ask for values or globs."""
    return [(clause, patterns) for clause, patterns in rule.match.named() if not patterns.regexes]


def _keys(clause: str, patterns: Patterns) -> Iterator[tuple[str, Scalar]]:
    for value in (*patterns.exact, *patterns.globs):
        yield clause, value


def _values(facts: Facts, clause: str) -> Iterable[JsonValue]:
    if clause == "tools":
        return facts.tools
    value: JsonValue = facts.normalised_prompt if clause == "prompt" else getattr(facts, clause)
    return (value,)


class _Places:
    """Rule positions by the values and globs of one clause."""

    def __init__(self) -> None:
        self._exact: dict[Scalar, list[int]] = {}
        self._globs: dict[str, tuple[Any, list[int]]] = {}
        self._memo: dict[Scalar, list[int]] = {}

    def add(self, position: int, patterns: Patterns) -> None:
        for value in patterns.exact:
            self._exact.setdefault(value, []).append(position)
        for glob in patterns.globs:
            self._globs.setdefault(glob, (glob_expression(glob), []))[1].append(position)

    def everything(self) -> Iterator[int]:
        for positions in self._exact.values():
            yield from positions
        for _, positions in self._globs.values():
            yield from positions

    def find(self, value: JsonValue) -> Iterable[int]:
        if isinstance(value, list):
            return [position for item in value for position in self.find(item)]
        key = scalar_key(value)
        if key is None:
            return ()
        if not self._globs or not isinstance(value, str):
            return self._exact.get(key, ())
        found = self._memo.get(key)
        if found is None:
            found = self._find_anew(key, value)
            if len(self._memo) >= MEMO_SIZE:
                self._memo.clear()
            if len(value) <= LONGEST_REMEMBERED:
                self._memo[key] = found
        return found

    def _find_anew(self, key: Scalar, value: str) -> list[int]:
        found = list(self._exact.get(key, ()))
        sought = value.encode("utf-8", "replace")
        for expression, positions in self._globs.values():
            if expression.search(sought) is not None:
                found.extend(positions)
        return found
