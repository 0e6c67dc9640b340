"""The demands of rules on traces, as far as the resources of their spans tell, before the rest is read."""

from collections.abc import Iterable

from tracegrade.match.demand import EVERYTHING, Demand
from tracegrade.match.facts import environment_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Resource
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.semconv import SERVICE_VERSION


def demand(rule_sets: Iterable[RuleSet], resource: Resource, *, names_are_plain: bool) -> Demand:
    """What the rules may ask for of traces that have spans with this resource; never less than they ask for.

    Of a rule, its clauses on service, environment and release are looked at, and names of tools without wildcards; all
    others may hold. A session has the sample of its own id and the resource of its first trace: rules for sessions ask
    for everything.

    Args:
        rule_sets: those that a trace may have.
        resource: of some of its spans.
        names_are_plain: rules know tools by names that stand in the spans, so that it can be told whether one may have
            been called: there are no aliases, and no dialects but ours.
    """
    share = 0.0
    named: dict[frozenset[bytes], float] = {}
    for rule_set in rule_sets:
        for rule in rule_set.rules:
            if share == 1.0:
                return EVERYTHING
            asked = _share(rule)
            if asked <= share or not _may_match(rule, resource):
                continue
            names = _tools(rule) if names_are_plain else None
            if names is None:
                share = asked
            else:
                named[names] = max(asked, named.get(names, 0.0))
    return Demand(share, frozenset((asked, names) for names, asked in named.items() if asked > share))


def asks_for_everything(rule_set: RuleSet, *, names_are_plain: bool) -> bool:
    """Whether every trace is to be judged whatever its resource and its calls."""
    return any(
        _share(rule) == 1.0 and not list(_of_resource(rule)) and not (names_are_plain and _tools(rule))
        for rule in rule_set.rules
    )


def _tools(rule: Rule) -> frozenset[bytes] | None:
    """The tools of which one must have been called, as they stand in spans; None where that cannot be told."""
    patterns = rule.match.tools
    if rule.scope == "session" or patterns is None or (names := patterns.plain_names) is None:
        return None
    return frozenset(name.encode() for name in names)


def _share(rule: Rule) -> float:
    if rule.scope == "session" or rule.sample.keep_failures:
        return 1.0
    return rule.sample.share


def _of_resource(rule: Rule) -> Iterable[str]:
    if rule.scope == "session":
        return ()
    return [clause for clause, _ in rule.match_clauses if clause in _READ]


def _may_match(rule: Rule, resource: Resource) -> bool:
    if rule.scope == "session":
        return True
    return all(patterns.match(_READ[clause](resource)) for clause, patterns in rule.match_clauses if clause in _READ)


def _service(resource: Resource) -> JsonValue:
    return resource.service


def _release(resource: Resource) -> JsonValue:
    return resource.attributes.get(SERVICE_VERSION)


_READ = {"service": _service, "environment": environment_of, "release": _release}
