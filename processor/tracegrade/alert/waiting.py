"""Which alerts cannot tell yet whether anything is wrong: "no baseline yet" is a state that people can see."""

from collections.abc import Iterable, Sequence

from tracegrade.alert.check import LookedAt
from tracegrade.store.alerts import WaitingAlert, WaitingReason, waiting_order
from tracegrade.store.history import SeriesKey

# A store with very many agents is not filled with what they wait for.
_MOST = 1000


def waiting_in(looked_at: Iterable[LookedAt], before: Sequence[WaitingAlert], now_ns: int) -> list[WaitingAlert]:
    """The alerts that wait after a check at `now_ns`, at most 1,000; those of `before` keep their times."""
    since = {_place(one): one.since_ns for one in before}
    found: dict[tuple[str, ...], WaitingAlert] = {}
    for looked in looked_at:
        by_reason: dict[WaitingReason, Sequence[SeriesKey]]
        by_reason = {"no_baseline": looked.without_baseline, "too_few": looked.too_few}
        for reason, keys in by_reason.items():
            for key in keys:
                place = _place(_waiting(looked, key, reason, now_ns))
                if key.release is None and len(found) < _MOST:
                    found[place] = _waiting(looked, key, reason, since.get(place, now_ns))
    return sorted(found.values(), key=waiting_order)


def _waiting(looked: LookedAt, key: SeriesKey, reason: WaitingReason, since_ns: int) -> WaitingAlert:
    return WaitingAlert(looked.rule_id, looked.alert.says, key.tenant, key.service, key.agent, reason, since_ns)


def _place(one: WaitingAlert) -> tuple[str, ...]:
    return one.rule_id, one.alert, one.tenant, one.service, one.agent, one.reason
