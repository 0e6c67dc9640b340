"""The values that the filters of a page offer."""

from sqlalchemy import Connection

from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.schema import LIVE
from tracegrade.store.tallies import names_of


def filter_choices(connection: Connection, rule_set: RuleSet, run: str = LIVE) -> dict[str, list[str]]:
    """Filter name -> its values: rules in force and rules with results, and the names in results of `run`."""
    rules = {rule.id for rule in rule_set.rules}.union(names_of(connection, "rule_id", run=run))
    tenants = names_of(connection, "tenant", run=run)
    return {
        "rule": sorted(rules),
        "service": names_of(connection, "service", run=run),
        "agent": names_of(connection, "agent", run=run),
        "release": names_of(connection, "release", run=run),
        **({"tenant": tenants} if len(tenants) > 1 else {}),
    }
