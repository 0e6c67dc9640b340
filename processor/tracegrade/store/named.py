"""Traces, sessions and everything else that has an id, by what people write: a whole id, or the beginning of one."""

import re
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Row, select

from tracegrade.model.errors import NotFound
from tracegrade.store.heads import IS_TRACE
from tracegrade.store.result_filter import ResultFilter
from tracegrade.store.schema import LIVE, traces

_WHOLE = 32  # hex digits
_SHORTEST = 4
_MOST_NAMED = 5
_LAST = "\U0010ffff"


def trace_id_named(connection: Connection, written: str, *, run: str = LIVE, sessions: bool = True) -> bytes:
    """The id of the trace, or session, that `written` names.

    Args:
        connection: to the store; not used for a whole trace id, which need not be stored.
        written: a trace id, of which dashes and capitals are forgiven; its beginning, at least 4 digits; or the id of a
            session, or its beginning: the session's own trace id where it was judged, else that of its only trace.
        run: whose traces and sessions are looked at.
        sessions: whether the id of a session is one of the things that may be named.

    Raises:
        NotFound: nothing has this id or beginning, or several have.
    """
    text = written.strip()
    digits = text.replace("-", "").lower()
    is_hex = re.fullmatch(r"[0-9a-f]{4,32}", digits) is not None
    if is_hex and len(digits) == _WHOLE:
        return bytes.fromhex(digits)
    stored_as = ResultFilter(run=run).stored_as
    found = _beginning_with(connection, digits, stored_as) if is_hex else []
    named = {bytes(row.trace_id): row for row in found}
    if sessions and text:
        session = session_named(connection, text, run=run, required=False)
        if session is not None:
            named |= {bytes(row.trace_id): row for row in _of_session(connection, session, stored_as)}
    if len(named) == 1:
        return next(iter(named))
    what = "trace or session" if sessions else "trace"
    if not named:
        raise NotFound(
            f"{written!r}: no stored {what} has this id, or one that begins so; expected 32 hex digits, or the first "
            f"{_SHORTEST} or more of a trace in the store: 'tracegrade traces list' shows them"
        )
    shown = [_row_text(row) for row in named.values()]
    raise NotFound(f"{written!r} names several: {_some(shown)}; write more of the id of one")


def session_named(connection: Connection, written: str, *, run: str = LIVE, required: bool = True) -> str | None:
    """The id of the session that has `written` as its id, or as the beginning of its id.

    Raises:
        NotFound: several begin so; or none, where one is `required`.
    """
    stored_as = ResultFilter(run=run).stored_as
    between = (traces.c.session >= written, traces.c.session < written + _LAST, traces.c.run == stored_as)
    query = select(traces.c.session).where(*between).distinct().order_by(traces.c.session).limit(_MOST_NAMED + 1)
    found: list[str] = [name for name in connection.execute(query).scalars() if name.startswith(written)]
    if written in found:
        return written
    if len(found) == 1:
        return found[0]
    if found:
        raise NotFound(f"{written!r} begins several sessions: {_some(found)}; write more of the id of one")
    if required:
        raise NotFound(f"{written!r}: no stored session has this id, or one that begins so")
    return None


def id_named(connection: Connection, column: Column[Any], written: str, what: str, *where: Any) -> str | None:
    """The id in `column` that is `written`, or that alone begins with it; None where none does.

    Args:
        connection: to the store.
        column: the ids, as text.
        written: an id, or its beginning, at least 4 characters.
        what: the word for what has these ids, such as "job".
        where: conditions of the rows that may be named.

    Raises:
        NotFound: several begin so.
    """
    text = written.strip()
    if len(text) < _SHORTEST:
        return None
    query = select(column).where(column >= text, column < text + _LAST, *where).order_by(column)
    found: list[str] = [id_ for id_ in connection.execute(query).scalars() if id_.startswith(text)]
    if text in found or len(found) == 1:
        return found[0]  # of all that begin so the shortest is the first
    if found:
        raise NotFound(f"{written!r} names several {what}s: {_some(found)}; write more of the id of one")
    return None


def _beginning_with(connection: Connection, digits: str, stored_as: str) -> Sequence[Row[Any]]:
    first, last = (bytes.fromhex(digits + fill * (_WHOLE - len(digits))) for fill in "0f")
    return _rows(connection, traces.c.trace_id.between(first, last), traces.c.run == stored_as)


def _of_session(connection: Connection, session: str, stored_as: str) -> Sequence[Row[Any]]:
    """Of the session as a whole, where it was judged; else of its traces."""
    of_it = (traces.c.session == session, traces.c.run == stored_as)
    return _rows(connection, *of_it, ~IS_TRACE) or _rows(connection, *of_it)


def _rows(connection: Connection, *conditions: Any) -> Sequence[Row[Any]]:
    columns = (traces.c.trace_id, traces.c.service, traces.c.session, traces.c.members.is_(None).label("is_trace"))
    query = select(*columns).where(*conditions).order_by(traces.c.number.desc()).limit(_MOST_NAMED + 1)
    return connection.execute(query).all()


def _row_text(row: Row[Any]) -> str:
    what = f"trace of {row.service or 'an unnamed service'}" if row.is_trace else f"session {row.session}"
    return f"{bytes(row.trace_id).hex()} ({what})"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_NAMED]) + (" and more" if len(names) > _MOST_NAMED else "")
