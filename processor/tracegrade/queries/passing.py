"""The run that a failing one is read beside: one that passes the same rule."""

from itertools import islice
from typing import NamedTuple

import orjson
from sqlalchemy import Connection

from tracegrade.model.trace_result import TraceResult
from tracegrade.store.heads import IS_TRACE, heads_numbered
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.results import matching
from tracegrade.store.schema import OUTCOMES

_MOST_LOOKED_AT = 500
_PASS = OUTCOMES.index("pass")


class Passing(NamedTuple):
    """A trace in which the rule passes at the same agent; ``same_prompt``: the agent was asked the same."""

    trace_id: str
    agent: str
    same_prompt: bool


def passing_beside(connection: Connection, failing: TraceResult, rule_id: str) -> Passing | None:
    """The newest trace in which the rule passes at the agent where it fails in `failing`, or None.

    Among the newest 500 of them, the newest in which the hash of the agent's prompt is equal, if there is one.
    """
    head = failing.trace
    decisions = [item for item in failing.decisions if item.pair.rule_id == rule_id]
    decision = next((item for item in decisions if item.outcome == "fail"), decisions[0] if decisions else None)
    agent = "" if decision is None else decision.pair.subject.agent
    prompts = {run.prompt_hash for run in head.runs if run.agent == agent and run.prompt_hash}
    chosen = ResultFilter(rule=rule_id, agent=agent or None, outcome="pass", tenant=head.tenant, run=head.run)
    numbers = []
    for found in islice(matching(connection, chosen, IS_TRACE), _MOST_LOOKED_AT):
        row, series = found[0][0], {item[1] for _, _, item in found}
        if bytes(row.trace_id).hex() == head.trace_id:
            continue
        if all(item[5] == _PASS for item in orjson.loads(row.evaluations) if item[1] in series):
            numbers.append(row.number)
    newest: Passing | None = None
    for start in range(0, len(numbers), 50):
        for other in heads_numbered(connection, numbers[start : start + 50]):
            newest = newest or Passing(other.trace_id, agent, False)
            if prompts & other.prompt_hashes:
                return Passing(other.trace_id, agent, True)
    return newest
