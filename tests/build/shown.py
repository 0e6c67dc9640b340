"""What tests want shown of a replay: functions of a module, so that workers find them."""

import os
import signal

from tracegrade.display import json_text
from tracegrade.model.trace import TraceKey
from tracegrade.pipeline.judged import Judged, evaluations_of

Shown = tuple[TraceKey, bool, list[str]]


def everything(judged: Judged) -> Shown | None:
    """The key, whether it is complete, and all evaluations as `replay` prints them; None of odd traces 7 apart."""
    if judged.key[1][-1] % 7 == 5:
        return None
    whole = judged.trace if hasattr(judged, "trace") else judged.session
    return judged.key, whole.complete, [json_text(e.to_json()) for e in evaluations_of(judged)]


def end_on_trace_4(judged: Judged) -> Shown | None:
    """As if the kernel had ended the worker, for want of memory, over trace 4."""
    if int.from_bytes(judged.key[1], "big") == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return everything(judged)
