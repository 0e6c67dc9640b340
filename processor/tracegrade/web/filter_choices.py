"""The values that the filters of a page offer."""

from sqlalchemy import Connection

from tracegrade.rule.rule_set import RuleSet
from tracegrade.store.trends import names_of


def filter_choices(connection: Connection, rule_set: RuleSet) -> dict[str, list[str]]:
    """Filter name -> its values: rules in force and rules with results, and the names in stored results."""
    rules = {rule.id for rule in rule_set.rules}.union(names_of(connection, "rule_id"))
    tenants = names_of(connection, "tenant")
    return {
        "rule": sorted(rules),
        "service": names_of(connection, "service"),
        "agent": names_of(connection, "agent"),
        "release": names_of(connection, "release"),
        **({"tenant": tenants} if len(tenants) > 1 else {}),
    }
