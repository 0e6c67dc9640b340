"""A stored trace or session, extracted again as it was when it was judged."""

from collections.abc import Sequence

from sqlalchemy import Connection

from tracegrade.assemble.settings import TracesSettings
from tracegrade.extract.registry import extract
from tracegrade.extract.session import joined, part_of
from tracegrade.match.tool_aliases import ToolAliases
from tracegrade.model.extraction import Extraction
from tracegrade.model.session import Session
from tracegrade.model.trace import Trace
from tracegrade.store.kept_spans import decode_spans
from tracegrade.store.read import StoredTrace, traces_of


def extract_stored(stored: StoredTrace, settings: TracesSettings) -> Extraction:
    """The calls and runs of `stored`, under the tool names that `settings` give.

    Raises:
        KeptSpansError: its spans are damaged, or were stored by another version.
    """
    head = stored.trace
    kept = decode_spans(stored.spans)
    trace = Trace(
        trace_id=bytes.fromhex(head["trace_id"]),
        tenant=head["tenant"],
        spans=kept.spans,
        close_reason=head["close_reason"],
        missing=head["missing"],
        revision=head["revision"],
        last_received_ns=head["last_received_ns"],
        cut_by=head["cut_by"],
        replaced=kept.replaced,
        log_records=kept.log_records,
    )
    return extract(trace, ToolAliases(settings.tool_aliases))


def stored_session_of(connection: Connection, stored: StoredTrace, settings: TracesSettings) -> Session:
    """The session that `stored` holds the results of, made of its traces that are stored.

    Raises:
        KeptSpansError: as `extract_stored`.
    """
    tenant, name = stored.trace["tenant"], stored.trace["session"]
    extractions = [extract_stored(trace, settings) for trace in traces_of(connection, stored)]
    parts = [part for extraction in extractions if (part := part_of(extraction, name)) is not None]
    return session_of(parts, name, tenant, stored.members or {})


def session_of(parts: Sequence[Extraction], name: str, tenant: str, members: dict[bytes, int]) -> Session:
    """A session of these parts, as clauses of rules see it."""
    ordered, calls = joined(parts)
    return Session(name, tenant, ordered, calls, members, close_reason="", missing=[])
