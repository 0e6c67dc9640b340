"""Decides which traces no rule judges, so that their spans are kept as they came and never read."""

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import attrgetter, or_

from tracegrade.codec.raw_spans import Origin, RawSpan
from tracegrade.extract.registry import OURS, in_force
from tracegrade.match.demand import NOTHING, Demand, bytes_may_call
from tracegrade.match.demand_of_rules import asks_for_everything, demand
from tracegrade.model.trace import Trace
from tracegrade.pipeline.rule_sets import RuleSets
from tracegrade.rule.rule_set import RuleSet

# Senders have few resources and scopes; one that invents them without end must not grow the memo for ever.
_MAX_REMEMBERED = 4096
_ORIGIN = attrgetter("origin")


class LeavingOut:
    """What the rules that a trace may have ask for, remembered by where its spans come from."""

    def __init__(self, rule_sets: RuleSets, *, has_aliases: bool) -> None:
        """Start; with aliases, no name of a tool that rules use needs to stand in a span."""
        self._rule_sets = rule_sets
        self._names_are_plain = not has_aliases and in_force() is OURS
        self._of_any: dict[Origin, Demand] = {}
        self._of_one: dict[tuple[str, Origin], Demand] = {}

    @property
    def asks_for_everything(self) -> bool:
        """Whether every trace is to be judged, so that nobody needs to ask."""
        plain = self._names_are_plain
        return any(asks_for_everything(rule_set, names_are_plain=plain) for rule_set in self._rule_sets.known())

    def changed(self) -> None:
        """Other rules are in force."""
        self._of_any.clear()
        self._of_one.clear()

    def demand_of(self, origin: Origin) -> Demand:
        """What the rules of any trace that may be open ask for of spans with this origin."""
        found = self._of_any.get(origin)
        if found is None:
            if len(self._of_any) >= _MAX_REMEMBERED:
                self._of_any.clear()
            found = self._of_any[origin] = self._demand(self._rule_sets.known(), origin)
        return found

    def reason(self, trace: Trace, spans: Sequence[RawSpan], rule_set: RuleSet) -> str | None:
        """Why no rule of `rule_set` judges a trace of `spans`, all of them; None when one may judge it."""

        def may_call(names: frozenset[bytes]) -> bool:
            # Log records, which may tell of calls, too, are not bytes any more.
            return bool(trace.log_records) or bytes_may_call(b"".join([span.raw for span in spans]))(names)

        demands = [self._demand_of(rule_set, origin) for origin in set(map(_ORIGIN, spans))]
        asked = demands[0] if len(demands) == 1 else reduce(or_, demands, NOTHING)
        return asked.left_out(trace.trace_id, may_call)

    def _demand(self, rule_sets: Iterable[RuleSet], origin: Origin) -> Demand:
        return demand(rule_sets, origin.resource, names_are_plain=self._names_are_plain)

    def _demand_of(self, rule_set: RuleSet, origin: Origin) -> Demand:
        key = rule_set.hash, origin
        found = self._of_one.get(key)
        if found is None:
            if len(self._of_one) >= _MAX_REMEMBERED:
                self._of_one.clear()
            found = self._of_one[key] = self._demand([rule_set], origin)
        return found
