"""What follows a call: the calls after it, judged by themselves.

A call follows another if it certainly came after it: one that the model made together with it, or that started at the
same time, does not.
"""

from collections.abc import Sequence
from typing import NamedTuple

from tracegrade.evaluate.constraints.sides import SideTable, Where
from tracegrade.evaluate.criteria.earlier_calls import Places
from tracegrade.evaluate.errors import EvaluatorError
from tracegrade.evaluate.evidence import CallPart, Evidence
from tracegrade.evaluate.gate import what_lacks
from tracegrade.evaluate.wording import listed
from tracegrade.evaluate.work import Work


class Begin(NamedTuple):
    """Where what follows begins: after the first call that is meant.

    ``certain`` is the position of the first call that is meant for certain, ``possible`` that of an earlier one that
    may be meant; each None without one. ``unknown`` says what of that one cannot be read, "" without one.
    """

    certain: int | None
    possible: int | None
    unknown: str

    @property
    def is_met(self) -> bool | str:
        """Whether a call is meant; a text says why this is unknown."""
        if self.certain is not None:
            return True
        return self.unknown or False


def begin(evidence: Evidence, meant: SideTable) -> Begin:
    """Where in `evidence` the first call stands that is `meant`."""
    try:
        found = meant.meant(evidence, Work())
    except EvaluatorError as error:
        return Begin(None, None, f"when: {error}")
    certain = next((place for place, is_meant in enumerate(found.certain) if is_meant), None)
    possible = found.places[0] if found.places else None
    if possible is None or possible == certain:
        return Begin(certain, None, "")
    name = evidence.calls[possible].name
    why = _unknown(evidence, possible, meant.conditions) or "a call that decides when cannot be read"
    return Begin(certain, possible, f"{why} ({listed([name])}, span {evidence.calls[possible].span_id})")


def _unknown(evidence: Evidence, place: int, conditions: Sequence[Where]) -> str | None:
    """What cannot be read of what some of `conditions` look at in the call at `place`, or in the calls before it."""
    parts: list[CallPart] = ["arguments"] if any(where.args is not None for where in conditions) else []
    parts += ["output"] if any(where.output is not None for where in conditions) else []
    flows = [flow for where in conditions for flow in where.flows]
    return what_lacks(evidence, place, parts) or next(
        filter(None, (flow.doubt(evidence, place) for flow in flows)), None
    )


def following(evidence: Evidence, place: int) -> Evidence:
    """The evidence of the calls that follow the one at `place`; they still may have values from calls before it."""
    places = evidence.run.once(Places)
    after = evidence.calls[place]
    run_place = places.of(after)
    calls = [
        call
        for call in evidence.calls[place + 1 :]
        if any(start <= run_place < end for start, end in places.before(call).certain)
    ]
    return Evidence(
        calls,
        evidence.prompt,
        evidence.final_answer,
        evidence.trace_context,
        evidence.run,
        evidence.facts,
        after,
    )
