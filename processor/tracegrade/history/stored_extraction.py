"""A stored trace or session, extracted again with the content that was judged."""

from collections.abc import Sequence

from sqlalchemy import Connection

from tracegrade.assemble.settings import TracesSettings
from tracegrade.codec.kept_spans import trace_of
from tracegrade.extract.extract import extract
from tracegrade.extract.session import joined, part_of
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session, SessionPart
from tracegrade.model.trace_result import TraceResult
from tracegrade.rule.tool_aliases import ToolAliases
from tracegrade.store.read import traces_of


def extract_stored(stored: TraceResult, settings: TracesSettings) -> Extraction:
    """The calls and runs of `stored`, under the tool names that `settings` give.

    Raises:
        Unreadable: its spans are damaged, or were stored by another version.
    """
    return extract(trace_of(stored), ToolAliases(settings.tool_aliases))


def stored_session_of(connection: Connection, stored: TraceResult, settings: TracesSettings) -> Session:
    """The session whose results `stored` holds, made of its stored traces, but those whose values were deleted.

    Raises:
        Unreadable: as `extract_stored`.
    """
    tenant, name = stored.trace.tenant, stored.trace.session or ""
    there = [trace for trace in traces_of(connection, stored) if not trace.values_are_gone]
    extractions = [extract_stored(trace, settings) for trace in there]
    parts = [part for extraction in extractions if (part := part_of(extraction, name)) is not None]
    return session_of(parts, name, tenant, stored.trace.members or {})


def session_of(parts: Sequence[SessionPart], name: str, tenant: str, members: dict[bytes, int]) -> Session:
    """A session of these parts, as the clauses of rules read it."""
    ordered, calls = joined(parts)
    return Session(name, tenant, ordered, calls, members, close_reason="", missing=[])
