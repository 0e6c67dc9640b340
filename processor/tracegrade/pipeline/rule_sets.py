"""The rule set in force, and those before it that open traces still have."""

from tracegrade.assemble.settings import TracesSettings
from tracegrade.rule.rule_set import RuleSet


class RuleSets:
    """Rule sets by hash: every revision of a trace is judged by the rule set in force when its first span was read.

    A replaced rule set stays known for `max_age` and `reopen_for`: no trace that began with it can be open for longer.
    """

    def __init__(self, settings: TracesSettings, in_force: RuleSet) -> None:
        self.in_force = in_force
        self._kept_ns = round((settings.max_age + settings.reopen_for) * 1e9)
        self._known = {in_force.hash: in_force}
        self._replaced: list[tuple[int, str]] = []  # (when, hash)

    def use(self, rule_set: RuleSet, now_ns: int) -> None:
        """Put another rule set into force."""
        self._replaced.append((now_ns, self.in_force.hash))
        self.in_force = self._known[rule_set.hash] = rule_set
        self._replaced = [(when_ns, name) for when_ns, name in self._replaced if when_ns >= now_ns - self._kept_ns]
        names = {rule_set.hash, *(name for _, name in self._replaced)}
        self._known = {name: known for name, known in self._known.items() if name in names}

    def known(self) -> list[RuleSet]:
        """All rule sets that a trace may still have."""
        return list(self._known.values())

    def of(self, hash_: str) -> RuleSet:
        """The rule set of this hash; the one in force if it is unknown, as after a start spans are read again."""
        return self._known.get(hash_, self.in_force)
