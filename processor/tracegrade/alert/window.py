"""Which results an alert looks at within two times."""

from tracegrade.rule.alert import Alert
from tracegrade.rule.rule import Rule
from tracegrade.store.history import Window


def window_of(rule: Rule, alert: Alert, since_ns: int, until_ns: int) -> Window:
    """The results from `since_ns` up to `until_ns`, ns since 1970 UTC, that `alert` of `rule` looks at.

    Whoever sends incomplete traces alone is not silent.
    """
    count_incomplete = rule.incomplete == "count" or alert.silent_s is not None
    return Window(alert.evaluation, since_ns, until_ns, count_incomplete)
