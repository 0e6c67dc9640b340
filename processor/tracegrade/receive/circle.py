"""Whether what we send comes back by other instances of TraceGrade.

What comes directly from ourselves, or from a receiver of the same topic, is known by `INSTANCE_HEADER` and left out. By
way of another one, with a journal of its own in between, that header is lost, and nobody can say which of the other's
spans were ours. So each request also says whom its sender has heard from lately, and whom those have: one that finds
itself among them is in a circle, of whatever length.
"""

import re
import time
from collections.abc import Callable, Iterable

from tracegrade.model.signal import Signal
from tracegrade.telemetry.conditions import Conditions

COMES_BACK = "comes_back"
FORGOTTEN_AFTER_S = 600.0
_MOST = 32  # instances, of each signal
_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


class Circle:
    """Who was heard from, of each signal; for the receive role's event loop alone."""

    def __init__(
        self, own_ids: Iterable[str], conditions: Conditions, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nobody; `own_ids` name this instance, and all receivers of its topic."""
        self._own = frozenset(own_ids)
        self._conditions = conditions
        self._now_s = now_s
        self._heard_s: dict[Signal, dict[str, float]] = {signal: {} for signal in Signal}
        self._came_back_s: dict[Signal, float] = {}

    def comes_back(self, signal: Signal, sender_id: str | None, heard: str | None) -> bool:
        """Note who sends, and whom it `heard` from: the request's headers. Returns whether we sent it ourselves."""
        if sender_id is None:
            return False
        if sender_id in self._own:
            return True
        theirs = [each for each in (heard or "").split(",")[:_MOST] if _ID.fullmatch(each)]
        if not self._own.isdisjoint(theirs):
            self._came_back_s[signal] = self._now_s()
            self._conditions.begin(
                COMES_BACK,
                f"instance {sender_id[:128]!r} sends {signal.name.lower()} here, and gets such from here",
                signal.name.lower(),
            )
        for each in (sender_id, *theirs):
            if each not in self._own and _ID.fullmatch(each):
                self._hear(self._heard_s[signal], each)
        return False

    def heard(self, signal: Signal) -> str:
        """The header of our own requests that names the instances we heard from; "" for none."""
        return ",".join(self._heard_s[signal])

    def end_quiet(self) -> None:
        """Forget who was not heard from for a while, and end conditions; called now and then."""
        oldest_s = self._now_s() - FORGOTTEN_AFTER_S
        for heard_s in self._heard_s.values():
            for each in [each for each, at_s in heard_s.items() if at_s < oldest_s]:
                del heard_s[each]
        for signal in [signal for signal, at_s in self._came_back_s.items() if at_s < oldest_s]:
            del self._came_back_s[signal]
            self._conditions.end(COMES_BACK, signal.name.lower())

    def _hear(self, heard_s: dict[str, float], each: str) -> None:
        heard_s.pop(each, None)
        heard_s[each] = self._now_s()
        if len(heard_s) > _MOST:
            del heard_s[next(iter(heard_s))]
