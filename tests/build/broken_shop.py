"""A store in which something broke, and the alert that found it."""

from dataclasses import replace
from typing import Any

from sqlalchemy import Engine

from build.judged_traces import AGENT_SPAN, MINUTE_NS, START_NS, evaluation, judged, spans, tool_call, trace_id
from build.stored_alerts import ALERT
from tracegrade.alert.diagnose.diagnose import diagnose
from tracegrade.codec.kept_spans import encode_spans
from tracegrade.model.trace_result import RunSummary, TraceResult
from tracegrade.store.alerts import Facts, StoredAlert
from tracegrade.store.diagnosis import Diagnosis
from tracegrade.store.open import reading
from tracegrade.store.write import StoreWriter

DAY = 24 * 60
BEGAN = 20 * DAY
"""The minute in which it began, 20 days after the first that there may be."""

NOT_CALLED = "2 of 3 expected calls were made in the expected order; missing: check_inventory."


def at(minute: float) -> int:
    return START_NS + int(minute * MINUTE_NS)


class Shop:
    """Results by the minute; `diagnosis` is made two hours after it began unless told."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._writer = StoreWriter(engine)
        self._batch: list[TraceResult] = []
        self._next = 0

    def put(
        self,
        minute: float,
        outcome: str = "pass",
        count: int = 1,
        *,
        says: str = NOT_CALLED,
        model: str | None = "small",
        prompt_hash: str | None = None,
        tools: tuple[str, ...] = ("create_order",),
        attributes: dict[str, Any] | None = None,
        evaluations: list[dict[str, Any]] | None = None,
        agent: str = "support",
        tokens: float | None = None,
        **changes: Any,
    ) -> list[str]:
        """Store `count` traces, each with one result; returns their ids."""
        ids = []
        called = {
            "tool_calls": changes.pop("tool_calls", [tool_call(name=name, agent=agent) for name in tools]),
            "runs": changes.pop("runs", [RunSummary(AGENT_SPAN, agent, model=model, prompt_hash=prompt_hash)]),
        }
        for _ in range(count):
            number, self._next = self._next, self._next + 1
            received = {"first_received_ns": at(minute), "last_received_ns": at(minute)}
            shared = {"release": "1.0", "complete": True, "service": "shop"} | changes
            known = ("release", "complete", "service", "score", "rule_hash", "details", "reason")
            own = {name: value for name, value in shared.items() if name in known}
            said = says if outcome in ("fail", "error", "not_evaluable") else ""
            whole = {name: value for name, value in shared.items() if name in ("release", "complete", "service")}
            trace = judged(
                number,
                evaluations=[
                    evaluation(number, outcome, **{"explanation": said, "agent": agent} | own | item)
                    for item in evaluations or [{}]
                ],
                **called | received | whole,
            )
            if attributes is not None:
                root, call = spans(number)
                root.attributes |= attributes
                trace = replace(trace, spans=encode_spans([root, call], []))
            if tokens is not None:
                trace.decisions[0].measured = (("tokens", tokens),)
            self._batch.append(trace)
            ids.append(trace_id(number))
        return ids

    def alert(self, since: float | None = BEGAN, now: float = BEGAN + 120, **changes: Any) -> StoredAlert:
        """One over all releases, which began to fire at `now`."""
        facts = Facts(since_ns=None if since is None else at(since), was=changes.pop("was", None))
        times = {"starts_ns": at(now), "updated_ns": at(now)}
        return replace(ALERT, **{"release": None, "facts": facts} | times | changes)

    def diagnosis(self, alert: StoredAlert | None = None, **settings: Any) -> Diagnosis:
        self.write()
        with reading(self.engine) as connection:
            return diagnose(connection, alert or self.alert(), **{"count_incomplete": False} | settings)

    def write(self) -> None:
        self._writer.write(self._batch)
        self._batch = []
