"""What follows a call: the calls after it, judged by themselves.

A call follows another if it certainly came after it: one that the model made together with it, or that started at the
same time, does not.
"""

from typing import NamedTuple

from tracegrade.evaluate.call_facts import unread_call
from tracegrade.evaluate.constraints.sides import SideTable
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import Evidence
from tracegrade.evaluate.timeline import Timeline
from tracegrade.evaluate.work import Work
from tracegrade.model.tri import Tri, Unknown


class Begin(NamedTuple):
    """Where what follows begins: after the first call that is meant.

    ``certain`` is the position of the first call that is meant for certain, ``possible`` that of an earlier one that
    may be meant, or after which such a one may have come that is not known; each None without one, and -1 before all
    calls. ``unknown`` says what of that one cannot be read.
    """

    certain: int | None
    possible: int | None
    unknown: Unknown | None

    @property
    def is_met(self) -> Tri:
        """Whether a call is meant."""
        if self.certain is not None:
            return True
        return False if self.unknown is None else self.unknown


def begin(evidence: Evidence, meant: SideTable) -> Begin:
    """Where in `evidence` the first call stands that is `meant`."""
    try:
        found = meant.select(evidence, Work())
    except EvaluatorError as error:
        return Begin(None, None, Unknown("too_large", said=f"when: {error}"))
    certain = next((place for place, is_meant in enumerate(found.certain) if is_meant), None)
    possible = found.places[0] if found.places else None
    unread = _before_unread(evidence, possible)
    if possible is None or possible == certain:
        if unread is None:
            return Begin(certain, None, None)
        return Begin(certain, None if certain is None else unread, unread_call(evidence))
    earliest = possible if unread is None or certain is None else unread
    return Begin(certain, earliest, found.unknown[possible])


def _before_unread(evidence: Evidence, until: int | None) -> int | None:
    """The last call before a span that is a call of no known tool, -1 without one; None without such a span.

    Only what began no later than the call at `until` matters.
    """
    if unread_call(evidence, None if until is None else evidence.calls[until]) is None:
        return None
    calls = evidence.calls if until is None else evidence.calls[: until + 1]
    return next((place for place, call in enumerate(calls) if unread_call(evidence, call) is not None), len(calls)) - 1


def following(evidence: Evidence, place: int) -> Evidence:
    """The evidence of the calls that follow the one at `place`; they still may have values from calls before it.

    All calls follow -1.
    """
    if place < 0:
        return evidence
    timeline = evidence.run.once(Timeline)
    after = evidence.calls[place]
    run_place = timeline.place_of(after)
    calls = [
        call
        for call in evidence.calls[place + 1 :]
        if any(start <= run_place < end for start, end in timeline.before(call).certain)
    ]
    return evidence.of_calls(calls, after)
