"""The handoffs that are judged of a subject."""

from collections.abc import Sequence

from tracegrade.evaluate.evidence import Evidence
from tracegrade.model.handoff import Handoff, handoffs_among


def handoffs_made(evidence: Evidence) -> Sequence[Handoff]:
    """Those that the trace shows, in order of time; where a judgement is made by hand, those that are calls.

    Where only what follows a call is judged, those that follow it: calls among what follows, and others that are
    certainly later than the start of the call.
    """
    context, after = evidence.trace_context, evidence.after
    if context is None:
        return handoffs_among(evidence.calls)
    if after is None:
        return context.handoffs()
    following = {call.span_id for call in evidence.calls}
    others = {call.span_id for call in evidence.run.calls} - following
    return [
        each
        for each in context.handoffs()
        if each.span_id in following or (each.span_id not in others and each.start_ns > after.start_ns)
    ]
