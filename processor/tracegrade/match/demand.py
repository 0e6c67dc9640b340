"""Whether any rule can judge a trace, as far as the resources of its spans tell: asked before the rest is read."""

from collections.abc import Iterable
from dataclasses import dataclass

from tracegrade.match.facts import environment_of
from tracegrade.model.json_value import JsonValue
from tracegrade.model.span import Resource
from tracegrade.rule.clauses import RELEASE
from tracegrade.rule.rule import Rule
from tracegrade.rule.rule_set import RuleSet
from tracegrade.rule.sampling import sample_point

NOT_MATCHED, SAMPLED_OUT = "not_matched", "sampled_out"
"""Why no rule judges a trace: none can match, or the samples of all that may match leave it out."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What rules may ask for of traces with a resource: the share of them that is judged, 0 for none, 1 for all."""

    share: float

    def __or__(self, other: "Demand") -> "Demand":
        return self if self.share >= other.share else other

    def left_out(self, trace_id: bytes) -> str | None:
        """Why no rule judges the trace of this id, None when one may."""
        if self.share == 0.0:
            return NOT_MATCHED
        if self.share == 1.0 or sample_point(trace_id.hex()) < self.share:
            return None
        return SAMPLED_OUT


NOTHING = Demand(0.0)
EVERYTHING = Demand(1.0)


def demand(rule_sets: Iterable[RuleSet], resource: Resource) -> Demand:
    """What the rules may ask for of traces that have spans with this resource; never less than they ask for.

    Of a rule, only its clauses on service, environment and release are looked at: all others may hold. A session has
    the sample of its own id and the resource of its first trace: rules for sessions ask for everything.
    """
    share = 0.0
    for rule_set in rule_sets:
        for rule in rule_set.rules:
            if share == 1.0:
                return EVERYTHING
            if (asked := _share(rule)) > share and _may_match(rule, resource):
                share = asked
    return Demand(share)


def asks_for_everything(rule_set: RuleSet) -> bool:
    """Whether every trace is to be judged whatever its resource: for `RuleSet.once`."""
    return any(_share(rule) == 1.0 and not list(_of_resource(rule)) for rule in rule_set.rules)


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
    return resource.attributes.get(RELEASE)


_READ = {"service": _service, "environment": environment_of, "release": _release}
