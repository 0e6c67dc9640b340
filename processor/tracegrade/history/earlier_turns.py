"""Calls of earlier turns of a session, for values that should come from a call that the run itself did not make.

They are found when a reader asks, not when judging: a result depends on its trace alone.
"""

from typing import Any, Protocol

from sqlalchemy import Connection

from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.packing import Unreadable
from tracegrade.history.stored_extraction import extract_stored
from tracegrade.model.evaluation import Evaluation
from tracegrade.model.trace_result import TraceResult
from tracegrade.store.read import earlier_turns

_MAX_TURNS = 50  # the nearest earlier traces of its sessions


class Turns(Protocol):
    """Knows which tools earlier turns of a session called."""

    def that_called(self, evaluation: Evaluation) -> list[str]:
        """A sentence for each tool whose call was missing in what was judged and was made in an earlier turn."""


class NoTurns:
    """Where no earlier turn is known."""

    def that_called(self, evaluation: Evaluation) -> list[str]:
        """Nothing."""
        return []


class EarlierTurns:
    """The traces of a stored trace's sessions that began before it; read when the first is asked for."""

    def __init__(self, connection: Connection, stored: TraceResult, settings: TracesSettings) -> None:
        self._connection = connection
        self._stored = stored
        self._settings = settings
        self._called: dict[str, str] | None = None

    def that_called(self, evaluation: Evaluation) -> list[str]:
        """A sentence for each tool whose call was missing here and was made in an earlier turn."""
        if evaluation.outcome != "fail" or evaluation.pair.subject.kind == "session":
            return []
        tools = dict.fromkeys(tool for item in _looked_up(evaluation.details) for tool in item.get("not_called", ()))
        if not tools:
            return []
        if self._called is None:
            self._called = self._latest_callers()
        return [
            f"{tool} was called in an earlier turn of the session, trace {self._called[tool]}: scope: session sees it."
            for tool in tools
            if tool in self._called
        ]

    def _latest_callers(self) -> dict[str, str]:
        """The hex id of the latest earlier trace that called each tool."""
        called: dict[str, str] = {}
        for turn in earlier_turns(self._connection, self._stored, _MAX_TURNS):
            try:
                calls = extract_stored(turn, self._settings).calls
            except Unreadable:
                continue
            for call in calls:
                called.setdefault(call.name, turn.trace.trace_id)
        if called:
            called.setdefault("*", next(iter(called.values())))
        return called


def _looked_up(details: dict[str, Any]) -> list[dict[str, Any]]:
    """The lookups of values in the details: of single differences, or of all together."""
    found = details.get("differences")
    differences = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    return [*differences, details]
