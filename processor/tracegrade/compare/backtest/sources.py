"""The two sides of a backtest: the rules at a path, and what they are compared with."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from sqlalchemy import Connection

from tracegrade.compare.backtest.git_rules import rules_at_revision
from tracegrade.display import time_text
from tracegrade.document.problem import did_you_mean
from tracegrade.model.errors import TraceGradeError
from tracegrade.rule.reading import RuleReading
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.rule_texts import judgements
from tracegrade.store.schema import LIVE, MINUTE_NS


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules at some paths, called ``name`` for people."""

    name: str
    paths: Sequence[str]
    rule_set: RuleSet


@contextmanager
def other_rules(against: str, paths: Sequence[str], reading: RuleReading) -> Iterator[Rules | None]:
    """The rules that `against` names, which can be read until the context ends; None for what was judged live.

    Args:
        against: ``live``, a folder or file of rules, or a revision of the git repository in which `paths` lie.
        paths: where the changed rules are.
        reading: how rule files are read.

    Raises:
        TraceGradeError: it is none of the three.
        FileError: a rule there has a mistake.
    """
    if against == LIVE:
        yield None
    elif against.startswith("builtin:") or Path(against).exists():
        yield Rules(against, [against], reading.load([against]))
    else:
        with rules_at_revision(paths, against) as (commit, then):
            rule_set = reading.load(then)
            yield Rules(against if commit.startswith(against) else f"{against} ({commit[:10]})", then, rule_set)


State: TypeAlias = Literal["new", "changed", "same"]
"""What became of a rule since the other side: it has none of this id, another hash, or the same."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which rules are judged by, each with what became of it since the other side.

    ``left_alone``: why others are not, by id; ``gone``: those of the other side alone.
    """

    states: Mapping[str, State]
    left_alone: Mapping[str, str]
    gone: Sequence[str]

    @property
    def ids(self) -> frozenset[str]:
        """Of the rules that are judged by."""
        return frozenset(self.states)


def chosen_rules(
    rule_set: RuleSet, other: Rules | None, named: Collection[str], alike: Mapping[str, str], known: Collection[str]
) -> Chosen:
    """The rules of `rule_set` that judge otherwise than the other side; all that are `named`, and then no others.

    Args:
        rule_set: the changed rules.
        other: the rules of the other side; None for live.
        named: ids.
        alike: why a rule judges as the other side does, by id; see `judged_alike_live` and `judged_alike`.
        known: ids of the rules that the other side has, or had.

    Raises:
        TraceGradeError: there is no rule of a name.
    """
    for rule_id in named:
        if rule_set.rule(rule_id) is None:
            hint = did_you_mean(rule_id, [rule.id for rule in rule_set.rules])
            raise TraceGradeError(f"--rule {rule_id}: no such rule here{hint}")
    here = [rule.id for rule in rule_set.rules]
    states: dict[str, State] = {
        rule_id: "new" if rule_id not in known else "same" if rule_id in alike else "changed" for rule_id in here
    }
    if named:
        return Chosen({rule_id: states[rule_id] for rule_id in here if rule_id in named}, {}, [])
    gone = [] if other is None else sorted(set(known) - set(here))
    judged_by = {rule_id: state for rule_id, state in states.items() if state != "same"}
    return Chosen(judged_by, {rule_id: alike[rule_id] for rule_id in here if rule_id not in judged_by}, gone)


def judged_alike(rule_set: RuleSet, other: Rules) -> dict[str, str]:
    """Why rules are not changed ones, by id: the other side has the same."""
    then = {rule.id: rule.hash for rule in other.rule_set.rules}
    return {rule.id: f"judges as in {other.name}" for rule in rule_set.rules if then.get(rule.id) == rule.hash}


def judged_alike_live(connection: Connection, rules: Sequence[Rule], since_ns: int) -> dict[str, str]:
    """Why rules are no changed ones, by id: they judge live as they are now, if not always since `since_ns`."""
    in_force = judgements(connection)
    found = {}
    for rule in rules:
        rule_hash, from_ns = in_force.get(rule.id, ("", 0))
        if rule_hash == rule.hash:
            found[rule.id] = f"has judged live as it is since {time_text(from_ns)}"
            if from_ns > since_ns + MINUTE_NS:  # a rule is noted some seconds after it began to judge
                found[rule.id] += f"; --rule {rule.id} judges what came before, too"
    return found
