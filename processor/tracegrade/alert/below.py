"""``alert: {below}``: is the share of passes in the window under its bound?"""

from tracegrade.match.rule import BelowAlert
from tracegrade.store.rates import Rate


def is_below(alert: BelowAlert, rate: Rate | None) -> bool | None:
    """Whether the rate is under the alert's bound; None when nobody can tell.

    Fewer judged subjects than ``min_samples`` tell nothing, and neither does silence: unknown is not zero. So an
    alert neither fires nor is resolved by them.
    """
    if rate is None or rate.pass_rate is None or rate.judged < alert.min_samples:
        return None
    return rate.pass_rate < alert.below
